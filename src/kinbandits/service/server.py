"""HTTP: the application, its errors, its logs as JSON lines, and uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import logging
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinbandits._version import __version__
from kinbandits.errors import InvalidInputError, KinbanditsError
from kinbandits.service.api import add_routes, send
from kinbandits.service.auth import RoleRoute, Tokens
from kinbandits.service.dashboard import add_pages
from kinbandits.service.databases import StoreUnavailableError
from kinbandits.service.engine import Engine
from kinbandits.service.messages import DecisionQuery, Problem, ProblemAnswer
from kinbandits.service.metrics import Metrics

log = logging.getLogger("kinbandits.service")

OPEN = ("/healthz", "/readyz")
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    *((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"), (b"cache-control", b"no-store")),
    (b"content-security-policy", _POLICY),
]
_CODES = {
    404: ("not_found", "there is nothing here"),
    405: ("method_not_allowed", "not with this method"),
    413: ("too_large", "the request body is larger than max_body in [service] allows"),
}
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_FIELDS = {"context", "arms", "task", "key", "decisions", "reward", "rewards", "id", "to", "arm", "descriptor"}
_FIELDS |= {"similarity", "neighbours", *DecisionQuery.model_fields}
_OWN = set(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class ServiceFailedError(KinbanditsError, RuntimeError):
    """The service could not continue, and has ended."""


class Door:
    """Around every request: a token or 401, the size limit, headers, a request id, metrics and the access log."""

    def __init__(self, app: ASGIApp, tokens: Tokens, metrics: Metrics, max_body: int) -> None:
        self.app, self.tokens, self.metrics, self.max_body = app, tokens, metrics, max_body
        self._ids = (f"{start}-{n}".encode() for start in [secrets.token_hex(4)] for n in itertools.count(1))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, size = time.perf_counter(), 500, 0
        headers = dict(reversed(scope["headers"]))  # of several with one name, the first
        sent_id = headers.get(b"x-request-id", b"")
        request_id = sent_id if _REQUEST_ID.fullmatch(sent_id) else next(self._ids)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS, (b"x-request-id", request_id)]
            await send(message)

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.max_body:
                raise HTTPException(413)
            return message

        try:
            self._admit(scope, headers)
            await self.app(scope, counted, answer)
        except Problem as problem:
            response = problem_response(problem)
            if problem.status == 401:  # a browser asks for user (any) and password (a token)
                reads = scope["method"] in ("GET", "HEAD")
                response.headers["www-authenticate"] = 'Basic realm="kinbandits"' if reads else "Bearer"
            await response(scope, receive, answer)
        except Exception as error:  # FastAPI has answered with 500, or the client has gone
            if not isinstance(error, ClientDisconnect):
                log.exception("request failed", extra={"request": request_id.decode()})
        finally:
            took = time.perf_counter() - started
            method = scope["method"] if scope["method"] in _METHODS else "other"
            route = f"{method} {getattr(scope.get('route'), 'path', 'other')}"
            self.metrics.observe(route, status, took)
            level = logging.DEBUG if status < 400 and took < 1.0 else logging.INFO
            if log.isEnabledFor(level):
                by = getattr(scope.get("kinbandits.token"), "name", None)
                about = {"request": request_id.decode(), "route": route, "status": status, "token": by}
                about |= {"ms": round(1e3 * took, 1), "from": scope.get("client", [""])[0]}
                log.log(level, "request", extra=about)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 15 or int(length) > self.max_body:
            raise Problem(413, *_CODES[413])
        if scope["path"] in OPEN:
            return
        token = self.tokens.find(scope["method"], headers.get(b"authorization", b""))
        if token is None:
            raise Problem(401, "no_token", "send a valid token: Authorization: Bearer kb_...")
        scope["kinbandits.token"] = token
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if scope["method"] in ("POST", "PUT") and kind != b"application/json":
            raise Problem(415, "not_json", "send JSON, with Content-Type: application/json")


def problem_response(problem: Problem) -> Response:
    """A problem as an HTTP answer."""
    body = {"code": problem.code, "detail": problem.detail, "errors": problem.errors}
    response = send({name: value for name, value in body.items() if value is not None})
    response.status_code = problem.status
    if problem.status == 503:
        response.headers["retry-after"] = "1"
    return response


async def _failed(request: Request, error: Exception) -> Response:
    """The answer to an error. Nothing that was sent is repeated."""
    match error:
        case Problem():
            return problem_response(error)
        case StoreUnavailableError():
            return problem_response(Problem(503, "unavailable", "the log cannot be read now; try again"))
        case RequestValidationError():
            return problem_response(_invalid(error))
        case HTTPException():
            problem = Problem(error.status_code, *_CODES.get(error.status_code, ("refused", "the request was refused")))
            response = problem_response(problem)
            response.headers.update(error.headers or {})
            return response
    return problem_response(Problem(500, "internal", "something went wrong here"))


def _invalid(error: RequestValidationError) -> Problem:
    """Places and rules; of places, only names that are ours."""
    found, errors = error.errors(), []
    if any(e["type"] == "json_invalid" for e in found):
        return Problem(400, "not_json", "the body is not valid JSON")
    for e in found[:10]:
        place, *rest = e["loc"]
        own = [x for x in rest if isinstance(x, int) or x in _FIELDS]
        errors.append({"where": [place, *own], "rule": e["type"]})
    where = ".".join(map(str, errors[0]["where"]))
    return Problem(422, "invalid", f"{where} does not fit ({errors[0]['rule']}); see errors and /openapi.json", errors)


def create_app(engine: Engine, tokens: Tokens, on_end: Callable[[], None] = lambda: None) -> ASGIApp:
    """The application, for any ASGI server. It starts and stops the engine with itself."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        await asyncio.to_thread(engine.stop)
        log.info("stopped")
        on_end()

    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": ProblemAnswer} for status in (400, 401, 403, 404, 405, 409, 413, 415, 422, 500, 503)
    }
    about: dict[str, Any] = {"title": "kinbandits decision service", "version": __version__, "responses": refusals}
    app = FastAPI(**about, docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False)
    app.router.route_class = RoleRoute
    metrics = Metrics(engine)
    for kind in (HTTPException, RequestValidationError, Problem, StoreUnavailableError, Exception):
        app.add_exception_handler(kind, _failed)
    add_routes(app, engine)
    add_pages(app, engine, metrics)
    return Door(app, tokens, metrics, engine.settings.service.max_body)


# -- running ----------------------------------------------------------------------------------------


class JSONLines(logging.Formatter):
    """One line of JSON per record."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"time": at, "level": record.levelname.lower(), "message": record.getMessage()}
        line |= {k: v for k, v in record.__dict__.items() if k not in _OWN}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logs(level: str = "info") -> None:
    """Logs of the service and its server, as JSON lines on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    logging.captureWarnings(True)
    for name in ("kinbandits.service", "uvicorn.error", "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name == "kinbandits.service" else "WARNING")


def listen(host: str, port: int) -> socket.socket:
    """A socket to serve on; port 0 is a free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        why = error.strerror or error
        raise InvalidInputError(f"cannot listen on {host}:{port} ({why}); choose another --port") from error


def run(engine: Engine, tokens: Tokens, wire: socket.socket, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve until stopped (SIGINT, SIGTERM): requests that were taken are answered first.

    A failure of the engine ends the process: requests in flight have two seconds for their answers.
    """

    def end_within(seconds: float) -> None:
        """The process ends, even if something hangs (a database, say)."""
        timer = threading.Timer(seconds, os._exit, [1])
        timer.daemon = True
        timer.start()

    app = create_app(engine, tokens, lambda: end_within(2.0))
    options: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False, "ws": "none"}
    server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=3, **options))

    def fail(message: str) -> None:
        server.should_exit = True
        end_within(12.0)

    engine.on_failure, engine.on_ready = fail, on_ready
    gc.freeze()  # all that is there now stays; a full collection would stop everybody for milliseconds
    gc.enable()
    sys.setswitchinterval(0.001)  # the threads of engine and server take turns often
    server.run(sockets=[wire])
    if engine.failure is not None:
        raise ServiceFailedError(engine.failure)
