"""The two calls that come thousands of times a second: decide and reward, straight from the server.

`app` declares them as routes, which is where they are described; here they are answered before any routing, with
no objects made of request and answer. Whatever does not look exactly like one of the two goes on to the routes.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from kinbandits.service import schemas as s
from kinbandits.service.engine import Engine
from kinbandits.service.problems import Problem, unavailable
from kinbandits.service.requests import Answer, Decide, Request, Reward

Model = TypeVar("Model", bound=BaseModel)
DECIDE, REWARD = "/v1/decisions", "/v1/decisions/{id}/reward"
_MOST_WAITING = 20_000
_COMPANY = 256  # requests that are awaited at most
_MOMENT = 0.00025  # seconds that are waited, for each of them
_LONGEST = 0.004  # and for all
_MOST_IN_VAIN = 8
_REWARD = re.compile(f"/v1/decisions/({s.ID.strip('^$')})/reward")


class Desk:
    """Where requests are handed in to the engine, in company.

    A batch costs little more than one request, and a thread that chooses is slowed by one that reads requests. So
    while the engine is busy requests gather here; and clients that were answered together are awaited for a moment,
    to come back together. When they do not, that is not tried again for a while; one alone never waits.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        engine.held = lambda: len(self._pending)
        self._pending: list[Request] = []
        self._asked = 0  # handed in and not yet answered
        self._answered = 0  # since the engine was last given something
        self._company = 1  # how many are expected
        self._gathering = 0  # a number for each wait, so that an old timer ends none but its own
        self._waiting = False
        self._in_vain = 0  # waits in a row that ended without the company
        self._skip = 0  # times that no company is awaited

    async def ask(self, request: Request) -> bytes:
        """The engine's answer, as JSON."""
        if self._engine.waiting > _MOST_WAITING:
            raise unavailable("too much is waiting to be written; try again")
        future = request.future
        if not isinstance(future, asyncio.Future):
            future = request.future = asyncio.get_running_loop().create_future()
        self._pending.append(request)
        if not self._asked:
            self._consider()
        return json.dumps(await future).encode()

    def _is_answered(self, future: asyncio.Future[Answer]) -> None:
        self._asked -= 1
        self._answered += 1
        if not self._asked:
            self._company = min(self._answered + len(self._pending), _COMPANY)
            if self._pending:
                self._consider()

    def _consider(self) -> None:
        """Hand in what is pending, unless company is on its way."""
        if len(self._pending) >= self._company:
            self._in_vain = 0
            self._hand_in()
        elif self._skip:
            self._skip -= 1
            self._hand_in()
        elif not self._waiting:
            self._waiting = True
            moment = min(_MOMENT * self._company, _LONGEST)
            asyncio.get_running_loop().call_later(moment, self._waited, self._gathering)

    def _waited(self, gathering: int) -> None:
        if gathering == self._gathering:
            self._in_vain = min(self._in_vain + 1, _MOST_IN_VAIN)
            self._skip = 2**self._in_vain
            self._hand_in()

    def _hand_in(self) -> None:
        self._waiting = False
        self._gathering += 1
        requests, self._pending = self._pending, []
        self._asked, self._answered = self._asked + len(requests), 0
        for request in requests:
            request.future.add_done_callback(self._is_answered)  # type: ignore[arg-type]
            try:
                self._engine.submit(request)
            except Exception as error:  # one of them must not keep the others waiting
                if not request.future.done():
                    request.future.set_exception(error)


def parsed(model: type[Model], kind: str, content: bytes) -> Model:
    """A body as a model. Errors name places and rules, and repeat nothing that was sent."""
    if kind != "application/json" and kind.partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "not_json", "send JSON, with Content-Type: application/json")
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        if found[0]["type"] == "json_invalid":
            raise Problem(400, "not_json", "the body is not valid JSON") from None
        known = set(model.model_fields)
        errors = [
            {"where": [x for x in e["loc"] if isinstance(x, int) or x in known], "rule": e["type"]}
            for e in found[:10]
        ]
        problem = Problem(
            422, "invalid", "the body does not fit the schema; see errors and /openapi.json", errors=errors
        )
        raise problem from None


def decision_request(kind: str, content: bytes) -> Decide:
    """What ``POST /v1/decisions`` asks."""
    body = parsed(s.DecisionRequest, kind, content)
    return Decide(body.context, body.arms, body.key, future=asyncio.get_running_loop().create_future())


def reward_request(identifier: str, kind: str, content: bytes) -> Reward:
    """What ``PUT /v1/decisions/{id}/reward`` asks."""
    reward = parsed(s.RewardRequest, kind, content).reward
    return Reward(identifier, reward, future=asyncio.get_running_loop().create_future())


class HotPath:
    """Middleware: answers the two calls, passes on everything else."""

    def __init__(self, app: ASGIApp, desk: Desk, routes: Iterable[Any]) -> None:
        self._app, self._desk = app, desk
        # The declared routes, so that counters know these calls by their names.
        declared = {(m, r.path): r for r in routes for m in getattr(r, "methods", None) or ()}
        self._decide, self._reward = declared["POST", DECIDE], declared["PUT", REWARD]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            method, path = scope["method"], scope["path"]
            if method == "POST" and path == DECIDE:
                scope["route"] = self._decide
                request: Request = decision_request(_kind(scope), await _content(receive))
                return await _answer(send, await self._desk.ask(request))
            if method == "PUT" and (found := _REWARD.fullmatch(path)):
                scope["route"] = self._reward
                request = reward_request(found[1], _kind(scope), await _content(receive))
                return await _answer(send, await self._desk.ask(request))
        await self._app(scope, receive, send)
        return None


def _kind(scope: Scope) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"content-type"), "")


async def _content(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "not_json", "the body is not complete")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def _answer(send: Send, content: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})
