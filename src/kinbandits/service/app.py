"""The HTTP face of the engine."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from kinbandits._version import __version__
from kinbandits.service import messages as s
from kinbandits.service.batcher import Batcher
from kinbandits.service.chooser import explain_record
from kinbandits.service.dashboard import add_pages
from kinbandits.service.engine import Engine
from kinbandits.service.guard import Guard, problem_body, problem_headers, problem_of
from kinbandits.service.metrics import CONTENT_TYPE, Metrics
from kinbandits.service.openapi import describe, operation
from kinbandits.service.problems import Problem, unavailable, unknown_decision
from kinbandits.service.requests import AddArm, AddToken, RetireArm, RevokeToken, Void
from kinbandits.service.requests import Request as EngineRequest
from kinbandits.service.shortcut import DECIDE, REWARD, Shortcut
from kinbandits.service.store import StoreUnavailableError
from kinbandits.service.tokens import Keyring, hash_token, new_token

log = logging.getLogger("kinbandits.service")
_TO_START = 1.0  # seconds that a start in progress is waited for when the service ends


def create_app(engine: Engine, trusted_proxies: str = "127.0.0.1") -> Guard:
    """The application, for any ASGI server. It starts and stops the engine with itself.

    Args:
        engine: what answers.
        trusted_proxies: addresses, with commas between, whose ``X-Forwarded-Proto`` is believed by the login.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        starter = threading.Thread(target=_start, args=(engine,), daemon=True)
        starter.start()  # reading a long log must not keep /healthz waiting
        threading.Thread(target=keyring.keep_fresh, name="kinbandits_keyring", daemon=True).start()
        yield
        keyring.close()
        await asyncio.to_thread(_stop, engine, starter)

    app = FastAPI(
        title="kinbandits decision service",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    metrics = Metrics(engine)
    keyring = Keyring(engine.store)
    limits = engine.settings.service
    batcher = Batcher(engine)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _bad_path)
    for kind in (Problem, StoreUnavailableError, Exception):
        app.add_exception_handler(kind, _problem)
    _add_decisions(app, engine, batcher)
    _add_arms(app, engine, batcher)
    _add_tokens(app, engine, batcher, keyring)
    _add_reading(app, engine, metrics)
    add_pages(app, engine, keyring)
    describe(app)
    return Guard(
        Shortcut(ProxyHeadersMiddleware(app, trusted_proxies), batcher, app),  # type: ignore[arg-type]
        keyring=keyring,
        max_body=limits.max_body,
        rate=limits.rate,
        burst=limits.burst,
        observe=metrics.observe,
        failed=lambda error, path: log.error("request failed", exc_info=error, extra={"path": path}),
    )


def _start(engine: Engine) -> None:
    try:
        engine.start()
        log.info("ready", extra={"events": engine.learner.seq})
    except BaseException as error:
        log.critical("the engine could not start", exc_info=True)
        engine.fail(f"the service could not start: {error}")


def _stop(engine: Engine, starter: threading.Thread) -> None:
    starter.join(_TO_START)
    if starter.is_alive():
        log.warning("ended while starting; nothing is lost")
        return
    engine.stop()
    engine.store.close()
    log.info("stopped")


async def _http_error(request: Request, error: Exception) -> Response:
    """No such path, or no such method there."""
    assert isinstance(error, HTTPException)
    codes = {404: ("not_found", "there is nothing here"), 405: ("method_not_allowed", "not with this method")}
    code, detail = codes.get(error.status_code, ("refused", "the request was refused"))
    headers = {"Allow": ", ".join(_methods(request))} if error.status_code == 405 else None
    return Response(
        json.dumps({"code": code, "detail": detail}), error.status_code, headers, media_type="application/json"
    )


def _methods(request: Request) -> list[str]:
    """All methods that this path knows."""
    routes = (r for r in request.app.routes if r.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for r in routes for method in getattr(r, "methods", None) or ()} - {"HEAD"})


async def _problem(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    return Response(problem_body(problem), problem.status, problem_headers(problem), media_type="application/json")


async def _bad_path(request: Request, error: Exception) -> Response:
    """Something in the path that cannot be what it stands for."""
    return await _problem(request, Problem(422, "invalid_path", "the path does not fit; see /openapi.json"))


async def _body(request: Request, model: type[s.Model]) -> s.Model:
    return s.parse(model, request.headers.get("content-type", ""), await request.body())


async def _ask(batcher: Batcher, request: EngineRequest) -> Response:
    """The engine's answer as an HTTP answer."""
    return Response(await batcher.ask(request), media_type="application/json")


def _reply(model: BaseModel) -> Response:
    return Response(model.model_dump_json(), media_type="application/json")


def _add_decisions(app: FastAPI, engine: Engine, batcher: Batcher) -> None:
    identifier = Path(pattern=s.ID, description="The id of a decision.", examples=["0-000000000001"])

    @app.post(DECIDE, **operation("decide", s.Decision, s.DecisionRequest, 404, 409))
    async def decide() -> None:  # this and the next are answered by `Shortcut`
        """Choose an arm. The decision is on disk when it is answered."""

    @app.put(REWARD, **operation("reward", s.Outcome, s.RewardRequest, 404, 409))
    async def reward(id: str = identifier) -> None:
        """Deliver a reward. The same value again is the same answer; another value is refused with 409."""

    @app.delete("/v1/decisions/{id}", **operation("void", s.Outcome, None, 404, 409))
    async def void(request: Request, id: str = identifier) -> Response:
        """Void a decision that was not carried out: it takes no reward, and is not defaulted."""
        return await _ask(batcher, Void(request.path_params["id"], "by request"))

    @app.get("/v1/decisions/{id}", **operation("decision", s.DecisionRecord, None, 404))
    async def decision(request: Request, id: str = identifier) -> Response:
        """A decision as it stands in the log."""
        record = await asyncio.to_thread(engine.store.record, request.path_params["id"])
        if record is None:
            raise unknown_decision()
        shown = {k: record.body.get(k) for k in s.DecisionRecord.model_fields if k in record.body}
        return _reply(
            s.DecisionRecord(id=record.id, state=record.state, reward=record.reward, at=record.at, **shown)  # type: ignore[arg-type]
        )

    @app.get("/v1/decisions/{id}/explanation", **operation("explain", s.ExplanationAnswer, None, 404))
    async def explanation(request: Request, id: str = identifier) -> Response:
        """Why this arm, in this context: who lent what, by what the model knows now."""
        answer = await asyncio.to_thread(explanation_of, engine, request.path_params["id"])
        if answer is None:
            raise unknown_decision()
        return _reply(answer)


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


def _add_arms(app: FastAPI, engine: Engine, batcher: Batcher) -> None:
    @app.get("/v1/arms", **operation("arms", list[s.Arm], None))
    async def arms(request: Request) -> Response:
        """All arms with their records."""
        return Response(json.dumps(engine.learner.state.arm_table()), media_type="application/json")

    @app.post("/v1/arms", **operation("add_arm", s.ArmState, s.ArmRequest, 409))
    async def add(request: Request) -> Response:
        """Add an arm; it is a candidate from now on."""
        body = await _body(request, s.ArmRequest)
        by = request.scope["kinbandits.token"].name
        return await _ask(batcher, AddArm(body.arm, by, body.descriptor, body.similarity, body.neighbours))

    @app.delete("/v1/arms/{arm}", **operation("retire_arm", s.ArmState, None, 404, 409))
    async def retire(request: Request, arm: str = Path(description="The name of an arm.")) -> Response:
        """Retire an arm: never chosen again, but its data still help its kin."""
        given = request.path_params["arm"]
        name = next((a for a in engine.serving.policy.arms if str(a) == given), given)
        return await _ask(batcher, RetireArm(name, request.scope["kinbandits.token"].name))


def _add_tokens(app: FastAPI, engine: Engine, batcher: Batcher, keyring: Keyring) -> None:
    @app.get("/v1/tokens", **operation("tokens", list[s.TokenState], None))
    async def tokens(request: Request) -> Response:
        """All tokens, revoked ones included, without their secrets."""
        found = [
            {"name": t.name, "roles": list(t.roles), "created": t.at, "revoked": t.revoked}
            for t in await asyncio.to_thread(engine.store.tokens)
        ]
        return Response(json.dumps(found), media_type="application/json")

    @app.post("/v1/tokens", **operation("add_token", s.TokenAnswer, s.TokenRequest, 409))
    async def add(request: Request) -> Response:
        """Make a token. Its secret is in this answer and nowhere else."""
        body = await _body(request, s.TokenRequest)
        secret, roles = new_token(), tuple(dict.fromkeys(body.roles))
        by = request.scope["kinbandits.token"].name
        await _ask(batcher, AddToken(body.name, hash_token(secret), roles, by))
        await asyncio.to_thread(keyring.refresh)
        return _reply(s.TokenAnswer(name=body.name, roles=list(roles), token=secret))

    @app.delete("/v1/tokens/{name}", **operation("revoke_token", s.TokenState, None, 404))
    async def revoke(request: Request, name: str = Path(description="The name of a token.")) -> Response:
        """Revoke a token: refused from now on (within two seconds by other processes)."""
        given = request.path_params["name"]
        await _ask(batcher, RevokeToken(given, request.scope["kinbandits.token"].name))
        await asyncio.to_thread(keyring.refresh)
        t = next(t for t in await asyncio.to_thread(engine.store.tokens) if t.name == given)
        roles: Any = list(t.roles)
        return _reply(s.TokenState(name=t.name, roles=roles, created=t.at, revoked=t.revoked))


def policy_answer(engine: Engine) -> s.PolicyAnswer:
    """What is served and how far it has learned."""
    serving = engine.serving
    policy = serving.policy
    return s.PolicyAnswer(
        policy=repr(policy),
        arms=policy.arms,
        retired=[a for a in policy.arms if a in policy.retired],
        epsilon=policy.epsilon,
        features=engine.n_features,
        observations=policy.n_observations,
        events=engine.store.last_seq(),
        model=serving.seq,
        states=engine.learner.state.states,
        counters=engine.store.counters(),
        settings=engine.settings.service.model_dump(),
    )


def _add_reading(app: FastAPI, engine: Engine, metrics: Metrics) -> None:
    @app.get("/v1/policy", **operation("policy", s.PolicyAnswer, None))
    async def policy(request: Request) -> Response:
        """What is served and how far it has learned."""
        return _reply(await asyncio.to_thread(policy_answer, engine))

    @app.get("/v1/similarity", **operation("similarity", s.SimilarityAnswer, None))
    async def similarity(request: Request) -> Response:
        """How alike the arms are, as the model sees them now (the first term, if there are several)."""
        served = engine.serving.policy
        matrix = served.similarity_matrix(0).tolist()
        return _reply(s.SimilarityAnswer(arms=served.arms, matrix=matrix))

    @app.get("/metrics", **operation("metrics", None, None, media="text/plain"))
    async def prometheus(request: Request) -> Response:
        """Metrics in Prometheus' format."""
        return Response(await asyncio.to_thread(metrics.text), headers={"content-type": CONTENT_TYPE})

    @app.get("/healthz", **operation("healthz", s.Health, None, secured=False))
    async def healthz(request: Request) -> Response:
        """Whether the process is alive, and nothing more."""
        return _reply(s.Health(status="ok"))

    @app.get("/readyz", **operation("readyz", s.Health, None, secured=False))
    async def readyz(request: Request) -> Response:
        """Whether requests are taken and can be written; 503 with the reason if not."""
        trouble = engine.trouble
        if trouble is None:
            return _reply(s.Health(status="ok"))
        raise unavailable(trouble)
