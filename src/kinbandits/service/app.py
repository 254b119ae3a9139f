"""The HTTP face of the engine."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from kinbandits._version import __version__
from kinbandits.service.batcher import Batcher
from kinbandits.service.dashboard import add_pages
from kinbandits.service.direct import Direct
from kinbandits.service.engine import Engine
from kinbandits.service.guard import Guard, problem_body, problem_headers, problem_of
from kinbandits.service.metrics import Metrics
from kinbandits.service.openapi import describe
from kinbandits.service.problems import Problem
from kinbandits.service.routes.admin import add_arms, add_snapshots, add_tokens
from kinbandits.service.routes.decisions import add_decisions
from kinbandits.service.routes.reading import add_reading
from kinbandits.service.store import StoreUnavailableError
from kinbandits.service.tokens import Keyring

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
    add_decisions(app, engine, batcher)
    add_arms(app, engine, batcher)
    add_tokens(app, engine, batcher, keyring)
    add_snapshots(app, engine, batcher)
    add_reading(app, engine, metrics)
    add_pages(app, engine, keyring, metrics)
    describe(app)
    guard = Guard(
        ProxyHeadersMiddleware(app, trusted_proxies),  # type: ignore[arg-type]
        keyring=keyring,
        max_body=limits.max_body,
        rate=limits.rate,
        burst=limits.burst,
        observe=metrics.observe,
        failed=lambda error, path: log.error("request failed", exc_info=error, extra={"path": path}),
    )
    guard.direct = Direct(guard, batcher, limits.named_features).take
    return guard


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
    return await _problem(
        request, Problem(422, "invalid_path", "the path or the query does not fit; see /openapi.json")
    )
