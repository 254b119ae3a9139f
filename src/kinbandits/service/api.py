"""The routes. Bodies are typed, so that FastAPI validates them and writes the OpenAPI document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import Depends, FastAPI, Path, Query, Response
from pydantic_core import to_json

from kinbandits.client import Arm, Choice, Outcome
from kinbandits.errors import InvalidInputError
from kinbandits.service import choose
from kinbandits.service import messages as m
from kinbandits.service.auth import name_of_token
from kinbandits.service.config import Feature, encode
from kinbandits.service.engine import Engine
from kinbandits.service.events import Record
from kinbandits.service.learner import Serving
from kinbandits.service.ledger import AddArm, Command, Correct, Decide, Result, RetireArm, Reward, RollBack, Void
from kinbandits.service.messages import Problem, unknown_decision

T = TypeVar("T")
TO_READ = 10.0  # seconds
ID = Annotated[str, Path(pattern=m.ID, description="The id of a decision.", examples=["000000000001"])]
By = Annotated[str, Depends(name_of_token)]


def send(data: Any) -> Response:
    """JSON."""
    return Response(to_json(data), media_type="application/json")


async def reading(work: Callable[..., T], *args: Any, **options: Any) -> T:
    """What a thread reads, or 503 after a while: a database that hangs must not hang the request."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(work, *args, **options), TO_READ)
    except TimeoutError:
        raise m.unavailable("the log does not answer; try again") from None


def add_routes(app: FastAPI, engine: Engine) -> None:
    """The routes for programs. The tag of a route is the role that it needs."""
    features = engine.settings.service.named_features

    @app.post("/v1/decisions", tags=["decide"], response_model=Choice)
    async def decide(body: m.DecisionBody) -> Response:
        """Choose an arm. The decision is on disk when it is answered."""
        return send(await engine.answer(_decide(body, features)))

    @app.put("/v1/decisions/{id}/reward", tags=["reward"], response_model=Outcome)
    async def reward(id: ID, body: m.RewardBody) -> Response:
        """Deliver a reward. The same value again is the same answer; another value is refused with 409."""
        return send(await engine.answer(Reward(id, body.reward)))

    @app.post("/v1/batch/decisions", tags=["decide"], response_model=m.Answers)
    async def decide_batch(body: m.DecisionsBody) -> Response:
        """Choose for several contexts at once. Each is answered for itself, in order."""
        commands: list[Command | Problem] = []
        for one in body.decisions:
            try:
                commands.append(_decide(one, features))
            except Problem as problem:
                commands.append(problem)
        return await _answers(engine, commands)

    @app.post("/v1/rewards", tags=["reward"], response_model=m.Answers)
    async def rewards(body: m.RewardsBody) -> Response:
        """Deliver several rewards at once, by the decisions' ids or by your own keys."""
        return await _answers(
            engine, [Reward(getattr(r, "id", None), r.reward, getattr(r, "key", None)) for r in body.rewards]
        )

    @app.put("/v1/decisions/{id}/correction", tags=["admin"], response_model=Outcome)
    async def correct(id: ID, body: m.CorrectionBody, by: By) -> Response:
        """Correct the reward of a decision, or withdraw it with null. The model is then taught again, apart."""
        return send(await engine.answer(Correct(id, body.reward, by)))

    @app.delete("/v1/decisions/{id}", tags=["decide"], response_model=Outcome)
    async def void(id: ID) -> Response:
        """Void a decision that was not carried out: it takes no reward, and is not defaulted."""
        return send(await engine.answer(Void(id, "by request")))

    @app.get("/v1/decisions", tags=["read"], response_model=m.DecisionList)
    async def decisions(query: Annotated[m.DecisionQuery, Query()]) -> Response:
        """List decisions, newest first."""
        if query.arm is not None and "\x00" in query.arm:  # which PostgreSQL does not take
            return send({"decisions": [], "next": None})
        found = await reading(engine.store.find_records, **query.model_dump())
        next_ = found[-1].id if len(found) == query.limit else None
        return send({"decisions": [_shown(r) for r in found], "next": next_})

    @app.get("/v1/decisions/{id}", tags=["read"], response_model=m.DecisionRecord)
    async def decision(id: ID) -> Response:
        """A decision as it stands in the log."""
        record = await reading(engine.store.record, id)
        if record is None:
            raise unknown_decision()
        return send(_shown(record))

    @app.get("/v1/decisions/{id}/explanation", tags=["read"])
    async def explanation(id: ID) -> dict[str, Any]:
        """Which arms' rewards the estimate of this decision comes from, as the model is now."""
        record = await reading(engine.store.record, id)
        found = None if record is None else await reading(choose.explain, serving(engine), record)
        if found is None:
            raise unknown_decision()
        return found

    @app.get("/v1/arms", tags=["read"], response_model=list[Arm])
    async def arms() -> Response:
        """All arms with their records."""
        return send(serving(engine).stats.arm_table())

    @app.post("/v1/arms", tags=["admin"], response_model=m.ArmState)
    async def add_arm(body: m.ArmBody, by: By) -> Response:
        """Add an arm, or have a retired one return; it is a candidate when this is answered."""
        command = AddArm(body.arm, by, body.descriptor, body.similarity, body.neighbours)
        return send(await engine.in_force(await engine.answer(command)))

    @app.delete("/v1/arms/{arm}", tags=["admin"], response_model=m.ArmState)
    async def retire_arm(arm: Annotated[str, Path(description="The name of an arm.")], by: By) -> Response:
        """Retire an arm: not chosen any more, but its data still help its kin. It may return."""
        known = serving(engine).stats.active
        name = next((a for a in known if str(a) == arm), arm)
        return send(await engine.in_force(await engine.answer(RetireArm(name, by))))

    @app.post("/v1/rollback", tags=["admin"])
    async def roll_back(body: m.RollBackBody, by: By) -> dict[str, int]:
        """Forget what was learned after an event. The log keeps it; what comes from now on is learned."""
        return {"to": (await engine.answer(RollBack(body.to, by)))["to"]}

    @app.get("/v1/policy", tags=["read"])
    async def policy() -> Response:
        """What is served, and how far it has learned: up to event ``model`` of ``events``."""
        return send(policy_answer(engine))

    @app.get("/v1/similarity", tags=["read"])
    async def similarity() -> Response:
        """How alike arms are, as the model sees them now: ``arms``, and a ``matrix``."""
        policy = serving(engine).policy

        def found() -> Response:
            return send({"arms": list(policy.arms), "matrix": np.asarray(policy.similarity_matrix(0)).tolist()})

        return await reading(found)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process is alive."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz(response: Response) -> dict[str, str | None]:
        """Requests are taken, and the last ones could be written; or 503 and why not."""
        trouble = engine.trouble
        response.status_code = 200 if trouble is None else 503
        return {"status": "ok" if trouble is None else "unavailable", "detail": trouble}


def serving(engine: Engine) -> Serving:
    """The model that is served, or 503 while there is none."""
    if not hasattr(engine, "serving"):
        raise m.unavailable(f"there is no model yet ({engine.trouble})")
    return engine.serving


def policy_answer(engine: Engine) -> dict[str, Any]:
    """What is served and how far it has learned."""
    model, position = serving(engine), getattr(engine.writer, "position", None)
    return {
        "policy": repr(model.policy),
        "arms": list(model.stats.active),
        "retired": [arm for arm, active in model.stats.active.items() if not active],
        "epsilon": model.policy.epsilon,
        "features": model.stats.features if position is None else position.features,
        "observations": model.policy.n_observations,
        "not_learned": model.stats.refused,
        "events": engine.last_seq,
        "model": model.seq,
        "states": model.stats.states,
        "counters": {} if position is None else position.counters,
        "settings": engine.settings.service.model_dump(mode="json"),
    }


def _decide(body: m.DecisionBody, features: Sequence[Feature]) -> Decide:
    """The command: the context as numbers, and the candidates."""
    context: Any = body.context
    try:
        if isinstance(context, dict):
            context = encode(features, context)
        elif isinstance(context[0], dict):
            context = [encode(features, named) for named in context]
    except InvalidInputError as error:
        raise Problem(409, "features", str(error)) from None
    if body.task is None:
        return Decide(context, body.arms, body.key)
    if body.arms is not None or not isinstance(context[0], list):
        raise Problem(409, "task", "with task, context has a row for each candidate, and arms is left out")
    return Decide(context, [body.task] * len(context), body.key)


async def _answers(engine: Engine, commands: Sequence[Command | Problem]) -> Response:
    """One answer of several parts; a part that is refused does not keep the others from being answered."""
    asked = [c for c in commands if not isinstance(c, Problem)]
    results = iter(await engine.results(asked) if asked else ())
    return send({"answers": [_part(c if isinstance(c, Problem) else next(results)) for c in commands]})


def _part(result: Result) -> dict[str, Any]:
    if isinstance(result, Problem):
        return {"status": result.status, "code": result.code, "detail": result.detail}
    return {"status": 200, "result": result}


def _shown(record: Record) -> dict[str, Any]:
    """A decision as it is sent."""
    row = record._asdict()
    return {name: row[name] if name in row else record.body.get(name) for name in m.DecisionRecord.model_fields}
