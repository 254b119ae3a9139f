"""The server: an end to requests that do not arrive (uvicorn alone waits for ever), and a short way for the calls
that come most."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from kinbandits.service.direct import Call, Head

_TO_ARRIVE = 20.0  # seconds from the first byte of a request, or a new connection, to its last
_HEADS = 1000  # that are remembered: of each client some, for bodies of each length
_LONGEST = 2048  # bytes of a head that is remembered
_FILES = 65_536  # connections and files that the process asks to be allowed


class Connection(HttpToolsProtocol):
    """Knows since when a request has been on its way; asks the application's ``direct`` to take it whole."""

    began: float | None = None  # the request that is on its way
    call: Call | None = None  # the request, if it was taken; also uvicorn's ``cycle`` then
    idle: float | None = None  # since when there is none, where no timer of its own waits for the next
    _missing = 0  # bytes of the body of a call that is not parsed
    _told: ClassVar[list[tuple[bytes, bytes]]] = []  # headers that uvicorn gives
    _date: ClassVar[bytes] = b""  # and as they are sent
    _begun: Any = None  # of those that were sent ahead, the last one begun

    def __init__(self, *settings: Any, **more: Any) -> None:
        super().__init__(*settings, **more)
        self._direct = getattr(self.app, "direct", None)
        self._heads: dict[bytes, Head] = getattr(self.app, "heads", {})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self.began = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Bytes have come. A head that came before, in the same bytes, is not parsed again."""
        if self._missing:
            self._complete(data)
            return
        if self.began is not None or not self.cycle.response_complete:  # not between two requests
            super().data_received(data)
            return
        head, end, body = data.partition(b"\r\n\r\n")
        known, before = self._heads.get(head) if end else None, self.call
        if known is not None and len(body) <= known.length and (call := known.again(self)) is not None:
            self._unset_keepalive_if_required()
            self.call = self.cycle = call  # type: ignore[assignment]
            self.began, self.idle, self._missing = self.loop.time(), None, known.length
            self._complete(body)
            return
        super().data_received(data)
        found = self.call
        if found is None or found is before or not found.lasting or len(found.body) != len(body):
            return  # not taken, or more than one
        # with a bare line feed it may have ended elsewhere
        if end and len(head) <= _LONGEST and head.count(b"\n") == head.count(b"\r\n"):
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            self._heads[head] = found.head

    def _complete(self, data: bytes) -> None:
        """A part of the body of a call that was not parsed, or all of it."""
        assert self.call is not None
        part, rest = data[: self._missing], data[self._missing :]
        self.call.add(part)
        self._missing -= len(part)
        if not self._missing:
            self.began = None
            self.call.run()
        if rest:
            super().data_received(rest)

    def on_response_complete(self) -> None:
        """A request is answered; the next one that was sent ahead is begun."""
        self._begun = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone; a request that was sent ahead and is being answered need not be."""
        super().connection_lost(exc)
        if self._begun is not None:
            self._begun.disconnected = True

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
            self.call.add(body)
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
        found = self.server_state.default_headers  # another list every second
        if found is not Connection._told:
            Connection._told, Connection._date = found, b"".join([b"%b: %b\r\n" % header for header in found])
        end = b"" if keep_alive else b"connection: close\r\n"
        length = b"content-length: %d\r\n" % len(body)
        self.transport.write(b"".join((STATUS_LINE[status], self._date, headers, length, end, b"\r\n", body)))
        if not keep_alive:
            self.transport.close()
        if self.pipeline or not keep_alive:
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1
            self.idle = self.loop.time() if self.began is None else None


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
