"""The two calls that come thousands of times a second, decide and reward, straight from the connection.

The routes of `routes.decisions` describe them, and answer them under any ASGI server. A `connections.Connection`
that has such a request whole, and nothing odd about it, hands it over here: no task, no messages, no future. What
is refused at the door, or is odd, goes the long way, which says why.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import to_json

from kinbandits.service import messages as s
from kinbandits.service.batcher import Batcher
from kinbandits.service.features import Feature
from kinbandits.service.guard import JSON_HEADERS, Guard, problem_body, problem_headers, problem_of
from kinbandits.service.problems import Problem
from kinbandits.service.requests import Answer, Decide, Request, Reward
from kinbandits.service.routes.decisions import DECIDE, REWARD
from kinbandits.service.store import Token

if TYPE_CHECKING:
    from kinbandits.service.connections import Connection

_DECIDE, _DECIDING = DECIDE.encode(), f"POST {DECIDE}"
_REWARD = re.compile(f"/v1/decisions/({s.ID.strip('^$')})/reward".encode())
_PLAIN = b"".join(b"%b: %b\r\n" % header for header in JSON_HEADERS)


class _Nothing:
    """In the place of an event that nobody waits for."""

    def set(self) -> None:
        """Something has happened."""


_NOTHING = _Nothing()


class Head(NamedTuple):
    """The head of a call that came whole, as it was understood: the same bytes again mean the same."""

    direct: Direct
    token: Token
    kind: str
    length: int

    def again(self, connection: Connection) -> Call | None:
        """A call with this head; None if it must go the long way."""
        return Call(self, connection, _DECIDING, None, True) if self.direct.guard.again(self.token) else None


class Direct:
    """Takes requests for one policy."""

    def __init__(self, guard: Guard, batcher: Batcher, features: Sequence[Feature]) -> None:
        self.guard, self.batcher, self.features = guard, batcher, features

    def take(self, connection: Connection, method: bytes, url: bytes, keep_alive: bool) -> Call | None:
        """The call of which the head has come; None if it must go the long way."""
        if method == b"POST" and url == _DECIDE:
            name, identifier = _DECIDING, None
        elif method == b"PUT" and (found := _REWARD.fullmatch(url)) is not None:
            name, identifier = f"PUT {REWARD}", found[1].decode()
        else:
            return None
        headers = dict(connection.headers)
        if len(headers) < len(connection.headers) or b"content-length" not in headers:
            return None
        try:
            token = self.guard.admit(method.decode(), DECIDE, headers)
        except Problem:
            return None
        assert token is not None
        kind = headers.get(b"content-type", b"").decode("latin-1")
        head = Head(self, token, kind, int(headers[b"content-length"]))
        return Call(head, connection, name, identifier, keep_alive)

    def read(self, call: Call) -> Request:
        """What is asked of the engine; the call is its future."""
        if call.identifier is not None:
            reward = s.parse(s.RewardRequest, call.head.kind, call.body).reward
            return Reward(call.identifier, reward, future=call)
        body = s.parse(s.DecisionRequest, call.head.kind, call.body)
        return Decide(*body.asked(self.features), body.key, future=call)


class Call:
    """One request on its connection: to the server what it expects of a request, to the engine a future."""

    message_event = _NOTHING
    response_complete = disconnected = False
    _told: Callable[[Call], None] | None = None

    def __init__(
        self, head: Head, connection: Connection, name: str, identifier: str | None, keep_alive: bool
    ) -> None:
        self.head, self.name, self.identifier, self.keep_alive = head, name, identifier, keep_alive
        self.body: bytes | bytearray = b""
        self._connection = connection
        self._started = time.perf_counter()

    @property
    def lasting(self) -> bool:
        """Whether calls with the same head may follow on this connection."""
        return self.identifier is None and self.keep_alive

    def add(self, part: bytes) -> None:
        """A part of its body has come."""
        if not self.body:
            self.body = part
            return
        if not isinstance(self.body, bytearray):  # many parts: added in place
            self.body = bytearray(self.body)
        self.body += part

    def run(self) -> None:
        """All of it has come."""
        direct = self.head.direct
        try:
            direct.batcher.put(direct.read(self))
        except Exception as error:
            self.set_exception(error)

    # -- as a future ----------------------------------------------------------------------------

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Where it is to be answered."""
        return self._connection.loop

    def done(self) -> bool:
        """Whether it is answered."""
        return self.response_complete

    def add_done_callback(self, told: Callable[[Call], None]) -> None:
        """Tell this one (there is one at most) when it is answered."""
        self._told = told

    def set_result(self, answer: Answer) -> None:
        """The engine's answer."""
        self._respond(200, _PLAIN, to_json(answer))

    def set_exception(self, error: Exception) -> None:
        """Why there is none."""
        problem, more = problem_of(error), b""
        if problem is not error and problem.status == 500:
            self.head.direct.guard.failed(error, self.name)
        for name, value in problem_headers(problem).items():
            more += f"{name}: {value}\r\n".encode()
        self._respond(problem.status, _PLAIN + more, problem_body(problem))

    def _respond(self, status: int, headers: bytes, body: bytes) -> None:
        self.response_complete = True
        self._connection.respond(status, headers, body, self.keep_alive)
        self.head.direct.guard.observe(self.name, status, time.perf_counter() - self._started)
        if self._told is not None:
            self._told(self)
