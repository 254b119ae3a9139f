"""Several policies in one process: each has its own log, tokens and dashboard, under its own name.

/news/v1/decisions      the policy of news.toml
/shop/v1/decisions      that of shop.toml
/healthz, /readyz       all of them
/                       a list
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from html import escape
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinbandits.service.engine import Engine


class Several:
    """Passes each request on to the policy that its path names."""

    def __init__(self, apps: Mapping[str, ASGIApp], engines: Mapping[str, Engine]) -> None:
        self._apps, self._engines = apps, engines
        self.heads: dict[bytes, Any] = {}  # as `Guard.heads`

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the life of the process."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif scope["type"] == "http":
            name, _, rest = scope["path"].removeprefix("/").partition("/")
            app = self._apps.get(name)
            if app is None:
                await self._root(scope, send)
            else:
                root = f"/{name}"
                inner = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode(), "kinbandits.root": root}
                await app(inner, receive, send)

    def direct(self, connection: Any, method: bytes, url: bytes, keep_alive: bool) -> Any:
        """As `direct` of the policy that the path names."""
        name, _, rest = url.removeprefix(b"/").partition(b"/")
        take = getattr(self._apps.get(name.decode("latin-1")), "direct", None)
        return None if take is None else take(connection, method, b"/" + rest, keep_alive)

    async def _root(self, scope: Scope, send: Send) -> None:
        path, kind = scope["path"], "application/json"
        if path == "/healthz":
            status, text = 200, json.dumps({"status": "ok"})
        elif path == "/readyz":
            troubles = {name: engine.trouble for name, engine in self._engines.items()}
            wrong = {name: trouble for name, trouble in troubles.items() if trouble is not None}
            status = 503 if wrong else 200
            text = json.dumps({"code": "unavailable", "detail": wrong} if wrong else {"status": "ok"})
        elif path == "/":
            items = "".join(f'<li><a href="/{escape(name)}/">{escape(name)}</a></li>' for name in self._apps)
            page = f"<!doctype html><html lang=en><title>kinbandits</title><h1>kinbandits</h1><ul>{items}</ul>"
            status, text, kind = 200, page, "text/html; charset=utf-8"
        else:
            status, text = 404, json.dumps({"code": "not_found", "detail": "there is no policy of this name"})
        content = text.encode()
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Start all, and end all."""
        lives = [_Life(app, scope) for app in self._apps.values()]
        await receive()
        for life in lives:
            await life.tell("lifespan.startup")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.gather(*(life.tell("lifespan.shutdown") for life in lives))
        await send({"type": "lifespan.shutdown.complete"})


class _Life:
    """The lifespan of one application."""

    def __init__(self, app: ASGIApp, scope: Scope) -> None:
        self._told: asyncio.Queue[Message] = asyncio.Queue()
        self._heard: asyncio.Queue[Message] = asyncio.Queue()
        self._task = asyncio.ensure_future(app({**scope, "state": {}}, self._told.get, self._heard.put))

    async def tell(self, what: str) -> None:
        """Tell it, and wait until it has done so."""
        await self._told.put({"type": what})
        answer = await self._heard.get()
        if answer["type"] != f"{what}.complete":
            raise RuntimeError(answer.get("message", what))
