"""The server, with an end to requests that do not arrive: uvicorn alone waits for their other half for ever."""

from __future__ import annotations

import asyncio

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TO_ARRIVE = 20.0  # seconds from the first byte of a request, or a new connection, to its last
_FILES = 65_536  # connections and files that the process asks to be allowed


class Connection(HttpToolsProtocol):
    """Knows since when a request has been on its way."""

    began: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self.began = self.loop.time()

    def on_message_begin(self) -> None:
        """The first byte of a request has come."""
        self.began = self.loop.time()
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """The last byte has come."""
        self.began = None
        super().on_message_complete()


class Server(uvicorn.Server):
    """Closes connections whose request does not arrive."""

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if counter % 10 == 0:
            late = asyncio.get_running_loop().time() - _TO_ARRIVE
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection) and connection.began is not None and connection.began < late:
                    connection.transport.abort()
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
