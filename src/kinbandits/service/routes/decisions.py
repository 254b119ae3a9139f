"""Decide, reward, correct, look up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

from kinbandits.service import messages as s
from kinbandits.service.batcher import Batcher
from kinbandits.service.chooser import explain_record
from kinbandits.service.engine import Engine
from kinbandits.service.events import Record
from kinbandits.service.features import Feature
from kinbandits.service.openapi import operation
from kinbandits.service.problems import Problem, unknown_decision
from kinbandits.service.requests import Answer, Correct, Decide, Reward, Void
from kinbandits.service.requests import Request as EngineRequest
from kinbandits.service.routes.common import JSON, ask, by, read_body, reply

DECIDE, REWARD = "/v1/decisions", "/v1/decisions/{id}/reward"


def add_decisions(app: FastAPI, engine: Engine, batcher: Batcher) -> None:
    """Add the routes."""
    identifier = Path(pattern=s.ID, description="The id of a decision.", examples=["0-000000000001"])

    @app.post(DECIDE, **operation("decide", s.Decision, s.DecisionRequest, 404, 409))
    async def decide(request: Request) -> Response:
        """Choose an arm. The decision is on disk when it is answered."""
        body = await read_body(request, s.DecisionRequest)
        return await ask(batcher, Decide(*body.asked(engine.settings.service.named_features), body.key))

    @app.put(REWARD, **operation("reward", s.Outcome, s.RewardRequest, 404, 409))
    async def reward(request: Request, id: str = identifier) -> Response:
        """Deliver a reward. The same value again is the same answer; another value is refused with 409."""
        body = await read_body(request, s.RewardRequest)
        return await ask(batcher, Reward(request.path_params["id"], body.reward))

    @app.post("/v1/batch/decisions", **operation("decide_batch", s.BatchAnswer, s.BatchRequest))
    async def decide_batch(request: Request) -> Response:
        """Choose for several contexts at once. Each is answered for itself, in order."""
        body, named = await read_body(request, s.BatchRequest), engine.settings.service.named_features
        return await _ask_all(batcher, [_decide(d, named) for d in body.decisions])

    @app.post("/v1/rewards", **operation("rewards", s.BatchAnswer, s.RewardsRequest))
    async def rewards(request: Request) -> Response:
        """Deliver several rewards at once, by the decisions' ids or by your own keys."""
        body = await read_body(request, s.RewardsRequest)
        return await _ask_all(batcher, [_reward(r) for r in body.rewards])

    @app.put("/v1/decisions/{id}/correction", **operation("correct", s.Outcome, s.CorrectionRequest, 404, 409))
    async def correct(request: Request, id: str = identifier) -> Response:
        """Correct the reward of a decision, or withdraw it with null. The model is then taught again, apart."""
        body = await read_body(request, s.CorrectionRequest)
        return await ask(batcher, Correct(request.path_params["id"], body.reward, by(request)))

    @app.delete("/v1/decisions/{id}", **operation("void", s.Outcome, None, 404, 409))
    async def void(request: Request, id: str = identifier) -> Response:
        """Void a decision that was not carried out: it takes no reward, and is not defaulted."""
        return await ask(batcher, Void(request.path_params["id"], "by request"))

    @app.get("/v1/decisions", **operation("decisions", s.DecisionList, None, 422))
    async def decisions(
        request: Request,
        state: Annotated[s.State | None, Query(description="Only those in this state.")] = None,
        arm: Annotated[str | None, Query(max_length=200, description="Only those of this arm.")] = None,
        since: Annotated[float | None, Query(description="Made at or after, seconds since 1970.")] = None,
        until: Annotated[float | None, Query(description="Made before, seconds since 1970.")] = None,
        before: Annotated[
            int | None, Query(ge=0, le=2**53, description="As ``next`` of an earlier answer.")
        ] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> Response:
        """List decisions, newest first."""
        if len(request.query_params.multi_items()) > len(request.query_params):  # of which the last would count
            raise Problem(422, "invalid_path", "the query names a parameter more than once; name each once")
        if arm is not None and "\x00" in arm:  # which PostgreSQL does not take
            return reply(s.DecisionList(decisions=[], next=None))
        filters: dict[str, Any] = {"state": state, "arm": arm, "since": since, "until": until, "before": before}
        found = await asyncio.to_thread(engine.store.find_records, **filters, limit=limit)
        more = found[-1].seq if len(found) == limit else None
        return reply(s.DecisionList(decisions=[shown(r) for r in found], next=more))

    @app.get("/v1/decisions/{id}", **operation("decision", s.DecisionRecord, None, 404))
    async def decision(request: Request, id: str = identifier) -> Response:
        """A decision as it stands in the log."""
        record = await asyncio.to_thread(engine.store.record, request.path_params["id"])
        if record is None:
            raise unknown_decision()
        return reply(shown(record))

    @app.get("/v1/decisions/{id}/explanation", **operation("explain", s.ExplanationAnswer, None, 404))
    async def explanation(request: Request, id: str = identifier) -> Response:
        """Why this arm, in this context: who lent what, by what the model knows now."""
        answer = await asyncio.to_thread(explanation_of, engine, request.path_params["id"])
        if answer is None:
            raise unknown_decision()
        return reply(answer)


def _reward(given: s.RewardById | s.RewardByKey) -> Reward:
    if isinstance(given, s.RewardById):
        return Reward(given.id, given.reward)
    return Reward(None, given.reward, given.key)


def _decide(given: s.DecisionRequest, features: Sequence[Feature]) -> Decide | Problem:
    try:
        return Decide(*given.asked(features), given.key)
    except Problem as problem:
        return problem


async def _ask_all(batcher: Batcher, requests: Sequence[EngineRequest | Problem]) -> Response:
    """One answer of several parts; a part that is refused does not keep the others from being answered."""
    found = await asyncio.gather(*(_ask_one(batcher, r) for r in requests), return_exceptions=True)
    answers = []
    for one in found:
        if isinstance(one, dict):
            answers.append({"status": 200, "result": one})
        elif isinstance(one, Problem):
            answers.append({"status": one.status, "code": one.code, "detail": one.detail})
        else:
            raise one
    return Response(to_json({"answers": answers}), media_type=JSON)


async def _ask_one(batcher: Batcher, request: EngineRequest | Problem) -> Answer:
    if isinstance(request, Problem):
        raise request
    return await batcher.ask(request)


def shown(record: Record) -> s.DecisionRecord:
    """A decision as it is told."""
    body = {k: record.body.get(k) for k in s.DecisionRecord.model_fields if k in record.body}
    return s.DecisionRecord(id=record.id, state=record.state, reward=record.reward, at=record.at, **body)  # type: ignore[arg-type]


def explanation_of(engine: Engine, identifier: str) -> s.ExplanationAnswer | None:
    """The explanation of a logged decision; None if there is no such decision or its arm has gone."""
    record = engine.store.record(identifier)
    e = None if record is None else explain_record(record, engine.serving.policy)
    if e is None:
        return None
    return s.ExplanationAnswer(
        arm=e.arm,
        mean=e.mean,
        lent=[s.Loan(arm=arm, amount=amount) for arm, amount in e.lent.items()],
        width=e.width,
        width_alone=e.width_alone,
        width_prior=e.width_prior,
        n_own=e.n_own,
        n_all=e.n_all,
    )
