"""The server: an end to requests that do not arrive (uvicorn alone waits for ever), and a short way for the calls
that come most."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from kinbandits.service.direct import Call

_TO_ARRIVE = 20.0  # seconds from the first byte of a request, or a new connection, to its last
_FILES = 65_536  # connections and files that the process asks to be allowed


class Connection(HttpToolsProtocol):
    """Knows since when a request has been on its way; asks the application's ``direct`` to take it whole."""

    began: float | None = None  # the request that is on its way
    call: Call | None = None  # the request, if it was taken; also uvicorn's ``cycle`` then
    idle: float | None = None  # since when there is none, where no timer of its own waits for the next

    def __init__(self, *settings: Any, **more: Any) -> None:
        super().__init__(*settings, **more)
        self._direct = getattr(self.app, "direct", None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self.began = self.loop.time()

    def on_message_begin(self) -> None:
        """The first byte of a request has come."""
        self.began, self.idle = self.loop.time(), None
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head of a request has come."""
        self.call = self._taken()
        if self.call is None:
            super().on_headers_complete()
        else:
            self.cycle = self.call  # type: ignore[assignment]

    def _taken(self) -> Call | None:
        parser, before = self.parser, self.cycle
        waits = before is not None and not before.response_complete
        if self._direct is None or waits or self.expect_100_continue or parser.should_upgrade():
            return None
        if parser.get_http_version() != "1.1":
            return None
        found: Call | None = self._direct(self, parser.get_method(), self.url, parser.should_keep_alive())
        return found

    def on_body(self, body: bytes) -> None:
        """A part of a body has come; of one that is taken, no more than was let in."""
        if self.call is not None:
            self.call.body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The last byte has come."""
        self.began = None
        if self.call is not None:
            self.call.run()
        else:
            super().on_message_complete()

    def respond(self, status: int, headers: bytes, body: bytes, keep_alive: bool) -> None:
        """Answer a `Call`."""
        if self.transport.is_closing():
            return
        known = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
        end = b"" if keep_alive else b"connection: close\r\n"
        length = b"content-length: %d\r\n" % len(body)
        self.transport.write(b"".join((STATUS_LINE[status], known, headers, length, end, b"\r\n", body)))
        if not keep_alive:
            self.transport.close()
        if self.pipeline or not keep_alive:
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1
            self.idle = self.loop.time()


class Server(uvicorn.Server):
    """Closes connections whose request does not arrive, or that are idle."""

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if not isinstance(connection, Connection):
                    continue
                if connection.began is not None and connection.began < now - _TO_ARRIVE:
                    connection.transport.abort()
                elif connection.idle is not None and connection.idle < now - self.config.timeout_keep_alive:
                    connection.transport.close()
        return await super().on_tick(counter)


def allow_many_files() -> None:
    """Raise the limit of open files as far as the system lets us: each client is one."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
