"""The two calls that come thousands of times a second, decide and reward, straight from the server.

`app` declares them as routes, which describes them; this is what answers them, with or without routing. Without it,
no objects are made of request and answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from kinbandits.service import messages as s
from kinbandits.service.batcher import Batcher
from kinbandits.service.features import Feature
from kinbandits.service.problems import Problem
from kinbandits.service.requests import Decide, Request, Reward

DECIDE, REWARD = "/v1/decisions", "/v1/decisions/{id}/reward"
_REWARD = re.compile(f"/v1/decisions/({s.ID.strip('^$')})/reward")


class Shortcut:
    """Middleware: answers the two calls, passes on everything else."""

    def __init__(self, app: ASGIApp, batcher: Batcher, declared: FastAPI, features: Sequence[Feature]) -> None:
        self._app, self._batcher = app, batcher
        routes = {(m, r.path): r for r in declared.routes if isinstance(r, APIRoute) for m in r.methods or ()}
        self._decide, self._reward = routes["POST", DECIDE], routes["PUT", REWARD]
        # Whichever way a request takes, this answers it.
        self._decide.app = self._answered(partial(_decide, features))
        self._reward.app = self._answered(_reward)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        app = self._app
        if scope["type"] == "http":
            method, path = scope["method"], scope["path"]
            route = None
            if method == "POST" and path == DECIDE:
                route = self._decide
            elif method == "PUT" and _REWARD.fullmatch(path):
                route = self._reward
            if route is not None:
                scope["route"] = route  # so that counters know the call by its name
                app = route.app
        await app(scope, receive, send)

    def _answered(self, read: Callable[[Scope, bytes], Request]) -> ASGIApp:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await _answer(send, await self._batcher.ask(read(scope, await _content(receive))))

        return app


def _decide(features: Sequence[Feature], scope: Scope, content: bytes) -> Decide:
    body = s.parse(s.DecisionRequest, _content_type(scope), content)
    return Decide(*body.asked(features), body.key, future=asyncio.get_running_loop().create_future())


def _reward(scope: Scope, content: bytes) -> Reward:
    found = _REWARD.fullmatch(scope["path"])
    if found is None:
        raise Problem(422, "invalid_path", "the path or the query does not fit; see /openapi.json")
    reward = s.parse(s.RewardRequest, _content_type(scope), content).reward
    return Reward(found[1], reward, future=asyncio.get_running_loop().create_future())


def _content_type(scope: Scope) -> str:
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
