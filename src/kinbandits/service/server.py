"""HTTP: the application, its errors, its logs as JSON lines, and uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import gc
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
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinbandits._version import __version__
from kinbandits.errors import InvalidInputError, KinbanditsError
from kinbandits.service.api import health, routes, send
from kinbandits.service.auth import Tokens
from kinbandits.service.dashboard import pages
from kinbandits.service.engine import Engine
from kinbandits.service.messages import Problem
from kinbandits.service.metrics import Metrics
from kinbandits.service.store import StoreUnavailableError

log = logging.getLogger("kinbandits.service")

OPEN = ("/healthz", "/readyz")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
]
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_PLAIN = set(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class ServiceFailedError(KinbanditsError, RuntimeError):
    """The service could not go on, and has ended."""


class Door:
    """Around every request: a token or 401, limits, headers, a request id, metrics and the access log."""

    def __init__(self, app: ASGIApp, tokens: Tokens, metrics: Metrics, max_body: int) -> None:
        self.app, self.tokens, self.metrics, self.max_body = app, tokens, metrics, max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, size = time.perf_counter(), 500, 0
        headers = dict(reversed(scope["headers"]))  # of several with one name, the first
        sent_id = headers.get(b"x-request-id", b"")
        request_id = sent_id if _REQUEST_ID.fullmatch(sent_id) else secrets.token_hex(8).encode()

        async def answer(message: Message) -> None:
            nonlocal status
            if size > self.max_body:  # whatever the application makes of it
                return
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS, (b"x-request-id", request_id)]
            await send(message)

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            return message if size <= self.max_body else {"type": "http.disconnect"}

        try:
            self._admit(scope, headers)
            await self.app(scope, counted, answer)
            self._check_size(size)
        except Problem as problem:
            size = 0
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
            token = scope.get("kinbandits.token")
            level = logging.DEBUG if status < 400 and took < 1.0 else logging.INFO
            if log.isEnabledFor(level):
                by = None if token is None else token.name
                about = {"request": request_id.decode(), "route": route, "status": status, "token": by}
                log.log(
                    level, "request", extra={**about, "ms": round(1e3 * took, 1), "from": scope.get("client", [""])[0]}
                )

    def _check_size(self, size: int) -> None:
        if size > self.max_body:
            raise Problem(413, "too_large", f"a request body may have {self.max_body} bytes")

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        length = headers.get(b"content-length", b"0")
        self._check_size(int(length) if length.isdigit() and len(length) < 16 else self.max_body + 1)
        if scope["path"] in OPEN:
            return
        token = self.tokens.find(scope["method"], headers.get(b"authorization", b""))
        if token is None:
            raise Problem(401, "no_token", "send a valid token: Authorization: Bearer kb_...")
        scope["kinbandits.token"] = token
        if scope["method"] in ("POST", "PUT"):
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                raise Problem(415, "not_json", "send JSON, with Content-Type: application/json")


def problem_response(problem: Problem) -> Response:
    """A problem as an HTTP answer."""
    body: dict[str, Any] = {"code": problem.code, "detail": problem.detail}
    if problem.errors is not None:
        body["errors"] = problem.errors
    response = send(body)
    response.status_code = problem.status
    if problem.status == 503:
        response.headers["retry-after"] = "1"
    return response


async def _failed(request: Request, error: Exception) -> Response:
    """What the one who asked is sent for an error. Nothing that was sent is repeated."""
    if isinstance(error, Problem):
        return problem_response(error)
    if isinstance(error, StoreUnavailableError):
        return problem_response(Problem(503, "unavailable", "the log cannot be read now; try again"))
    if isinstance(error, RequestValidationError):
        return problem_response(_invalid(error))
    if isinstance(error, HTTPException):
        codes = {404: ("not_found", "there is nothing here"), 405: ("method_not_allowed", "not with this method")}
        problem = Problem(error.status_code, *codes.get(error.status_code, ("refused", "the request was refused")))
        response = problem_response(problem)
        response.headers.update(error.headers or {})
        return response
    return problem_response(Problem(500, "internal", "something went wrong here"))


def _invalid(error: RequestValidationError) -> Problem:
    """Places and rules, and of a path or query the parameter's own name."""
    found = error.errors()
    if any(e["type"] == "json_invalid" for e in found):
        return Problem(400, "not_json", "the body is not valid JSON")
    known = re.compile(r"context|arms|task|key|decisions|rewards?|id|to|arm|descriptor|similarity|neighbours")
    errors = []
    for e in found[:10]:
        place, *rest = e["loc"]
        rest = [x for x in rest if isinstance(x, int) or place in ("path", "query") or known.fullmatch(str(x))]
        errors.append({"where": [place, *rest], "rule": e["type"]})
    where = ".".join(map(str, errors[0]["where"]))
    return Problem(422, "invalid", f"{where} does not fit ({errors[0]['rule']}); see errors and /openapi.json", errors)


def create_app(engine: Engine, tokens: Tokens, on_end: Callable[[], None] = lambda: None) -> ASGIApp:
    """The application, for any ASGI server. It starts and stops the engine with itself."""
    apart = ThreadPoolExecutor(1, thread_name_prefix="kinbandits_tokens")  # other threads may wait for a database

    async def keep_fresh() -> None:
        while True:
            await asyncio.sleep(1.0)
            await asyncio.get_running_loop().run_in_executor(apart, tokens.refresh)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        fresh = asyncio.create_task(keep_fresh())
        yield
        fresh.cancel()
        await asyncio.to_thread(engine.stop)
        apart.shutdown(wait=False)
        log.info("stopped")
        on_end()

    app = FastAPI(
        title="kinbandits decision service",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    metrics = Metrics(engine)
    for kind in (HTTPException, RequestValidationError, Problem, StoreUnavailableError, Exception):
        app.add_exception_handler(kind, _failed)
    for router in (routes(engine), health(engine), pages(engine, metrics)):
        app.include_router(router)
    return Door(app, tokens, metrics, engine.settings.service.max_body)


# -- running ----------------------------------------------------------------------------------------


class JSONLines(logging.Formatter):
    """One line of JSON per record."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **{k: v for k, v in record.__dict__.items() if k not in _PLAIN},
        }
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
        raise InvalidInputError(
            f"cannot listen on {host}:{port} ({error.strerror or error}); choose another --port"
        ) from error


def run(engine: Engine, tokens: Tokens, wire: socket.socket, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve until stopped (SIGINT, SIGTERM): requests that were taken are answered first.

    A failure of the engine ends the process: requests in flight have two seconds for their answers.
    """

    def end_within(seconds: float) -> None:
        """Whatever hangs (a database, say), the process does not stay behind."""
        timer = threading.Timer(seconds, os._exit, [1])
        timer.daemon = True
        timer.start()

    server = uvicorn.Server(
        uvicorn.Config(
            create_app(engine, tokens, lambda: end_within(2.0)),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
        )
    )

    def fail(message: str) -> None:
        server.should_exit = True
        end_within(12.0)

    def ready() -> None:
        # What is there now stays, and what requests leave behind is mostly not garbage in circles.
        gc.collect()
        gc.freeze()
        on_ready()

    engine.on_failure, engine.on_ready = fail, ready
    sys.setswitchinterval(0.001)  # the threads of engine and server hand over to each other often
    server.run(sockets=[wire])
    if engine.failure is not None:
        raise ServiceFailedError(engine.failure)
