"""At the door: who may do what, how much at once, how large. Pure ASGI, before anything is parsed.

Every path but ``OPEN`` needs a token with the role its method and path ask for, or, for the pages, the
session cookie that the login gives. Paths that do not exist need one too, so that nobody can look around.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinbandits.service.problems import Problem
from kinbandits.service.store import StoreUnavailableError, Token
from kinbandits.service.tokens import Keyring

OPEN = ("/healthz", "/readyz", "/login", "/static/")
_PAGES = ("/", "/docs")  # where people are sent to the login
COOKIE = "kinbandits_session"
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
]
JSON_HEADERS = [(b"content-type", b"application/json"), *_HEADERS]


def role_for(method: str, path: str) -> str:
    """The role that a request needs."""
    reads = method in ("GET", "HEAD")
    if path.startswith("/v1/decisions") and not reads:
        return "reward" if method == "PUT" else "decide"
    if path.startswith("/v1/batch"):
        return "decide"
    if path.startswith("/v1/rewards"):
        return "reward"
    if path.startswith("/v1/tokens") or (path.startswith(("/v1/arms", "/v1/rollback")) and not reads):
        return "admin"
    return "read"


class Bucket:
    """A token bucket: ``rate`` a second on average, ``burst`` at once."""

    __slots__ = ("_at", "_left", "burst", "rate")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate, self.burst = rate, burst
        self._left, self._at = float(burst), now

    def take(self, now: float) -> float:
        """0 if one more may pass, else the seconds until it may."""
        self._left = min(self.burst, self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self.rate


class Guard:
    """Middleware: authentication, roles, rate and size limits, headers, and no stack trace ever."""

    def __init__(
        self,
        app: ASGIApp,
        keyring: Keyring,
        *,
        max_body: int,
        rate: float,
        burst: int,
        observe: Callable[[str, int, float], None],
        failed: Callable[[BaseException, str], None],
    ) -> None:
        self.app, self.keyring = app, keyring
        self.max_body, self.rate, self.burst = max_body, rate, burst
        self.observe, self.failed = observe, failed
        self.direct: Any = None  # takes some calls from the connection: see `direct`
        self.heads: dict[bytes, Any] = {}  # of such calls
        self._buckets: dict[str, Bucket] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500
        begun = False

        async def answer(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            token = self.admit(scope["method"], scope["path"], _headers(scope))
            if token is not None:
                scope["kinbandits.token"] = token
            await self.app(scope, self._counted(scope, receive), answer)
        except Exception as error:
            problem = problem_of(error)
            if problem is not error and problem.status == 500:  # one of the engine's own is logged there
                self.failed(error, scope["path"])
            if not begun:
                page = problem.status == 401 and scope["path"] in _PAGES
                respond = _to_login if page else problem_response(problem)
                await respond(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.observe(f"{method} {route}", status, time.perf_counter() - started)

    def admit(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> Token | None:
        """Raise a `Problem` unless this request may come in; its token, if it needs one."""
        length = headers.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > self.max_body):
            raise Problem(413, "too_large", f"a request body may have {self.max_body} bytes")
        if path.startswith(OPEN):
            return None
        token = self._token(method, headers)
        if token is None:
            raise Problem(401, "no_token", "send a valid token: Authorization: Bearer kb_...")
        role = role_for(method, path)
        if role not in token.roles and "admin" not in token.roles:
            raise Problem(403, "wrong_role", f"this needs a token with the role {role}")
        if wait := self._wait(token):
            raise Problem(429, "too_many_requests", "too many requests with this token; wait a little", wait)
        return token

    def again(self, token: Token) -> bool:
        """Whether one who was let in may come in again, with another request of the same kind."""
        return self.keyring.holds(token) and not self._wait(token)

    def _wait(self, token: Token) -> float:
        """Seconds until this token may be used."""
        if not self.rate:
            return 0.0
        now = time.monotonic()
        bucket = self._buckets.get(token.name)
        if bucket is None:
            bucket = self._buckets[token.name] = Bucket(self.rate, self.burst, now)
        return bucket.take(now)

    def _token(self, method: str, headers: Mapping[bytes, bytes]) -> Token | None:
        given = headers.get(b"authorization")
        if given is not None:
            scheme, _, secret = given.decode("latin-1").partition(" ")
            return self.keyring.find(secret.strip()) if scheme.lower() == "bearer" else None
        if method in ("GET", "HEAD"):  # pages only read; a cookie never changes anything
            for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
                name, _, value = part.strip().partition("=")
                if name == COOKIE:
                    return self.keyring.session(value)
        return None

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """Count the body where no length was given beforehand."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.max_body:
                raise Problem(413, "too_large", f"a request body may have {self.max_body} bytes")
            return message

        return counted


def _headers(scope: Scope) -> dict[bytes, bytes]:
    """Of several with one name, the first."""
    return dict(reversed(scope["headers"]))


def root_of(scope: Scope) -> str:
    """What stands before the paths of this policy, where a process serves several."""
    return str(scope.get("kinbandits.root", ""))


async def _to_login(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"location", f"{root_of(scope)}/login".encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def problem_of(error: Exception) -> Problem:
    """What the one who asked is told of an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreUnavailableError):
        return Problem(503, "unavailable", "the log cannot be read now; try again", 1.0)
    return Problem(500, "internal", "something went wrong here")


def problem_body(problem: Problem) -> bytes:
    """A problem as JSON."""
    body: dict[str, Any] = {"code": problem.code, "detail": problem.detail}
    if problem.errors is not None:
        body["errors"] = problem.errors
    return json.dumps(body).encode()


def problem_headers(problem: Problem) -> dict[str, str]:
    """The headers that belong to it."""
    headers = {}
    if problem.retry_after is not None:
        headers["retry-after"] = str(max(1, round(problem.retry_after + 0.5)))
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    return headers


def problem_response(problem: Problem) -> ASGIApp:
    """A problem as an HTTP answer."""
    content = problem_body(problem)
    headers = {"content-type": "application/json", "content-length": str(len(content)), **problem_headers(problem)}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": problem.status, "headers": raw})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})

    return app
