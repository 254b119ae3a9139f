"""The log in PostgreSQL: several processes decide and reward, one at a time appends (extra ``postgres``).

advisory lock (family, 0)       held for a transaction: who appends. It makes ``seq`` the order of commits, so
                                that a follower never misses an event that became visible late
advisory lock (family, 1)       held by a session: who keeps house (defaults, snapshots). When its process
                                or its connection dies, the server lets go and another process takes over
advisory lock (family, 2 + n)   held by a session: who has slot n, the prefix of its decision ids
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from kinbandits.errors import InvalidInputError
from kinbandits.service import tables
from kinbandits.service.store import KEPT_SNAPSHOTS, Store, StoreUnavailableError

_FAMILY = 0x6B696E  # "kin"
_CHANNEL = "kinbandits_events"
_SLOTS = 256
_PATIENCE = 5.0  # seconds for a transaction or a query of the service; then the connection is given up
_LONG = 120.0  # and for what moves much at once: snapshots, commands that read the whole log
_AWAY = (psycopg.OperationalError, psycopg.InternalError, psycopg.InterfaceError)  # lost, read-only, broken


class Deadlines:
    """Ends connections that have waited too long: a server that hangs answers nothing, not even a cancellation."""

    def __init__(self) -> None:
        self._ends: dict[psycopg.Connection[Any], float] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def within(self, connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
        """Whatever the connection does in this block ends by then, if need be with an OperationalError."""
        with self._lock:
            before = self._ends.get(connection)
            self._ends[connection] = min(time.monotonic() + seconds, before or float("inf"))
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="kinbandits_deadlines", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._ends.pop(connection, None)
                if before is not None:
                    self._ends[connection] = before

    def close(self) -> None:
        """End the watching."""
        self._wake.set()

    def _watch(self) -> None:
        while not self._wake.wait(0.2):
            with self._lock:
                late = [c for c, end in self._ends.items() if time.monotonic() > end]
                for connection in late:
                    with contextlib.suppress(OSError, psycopg.Error), _socket(connection) as wire:
                        wire.shutdown(socket.SHUT_RDWR)


def _socket(connection: psycopg.Connection[Any]) -> socket.socket:
    return socket.socket(fileno=os.dup(connection.fileno()))


class PostgresStore(Store):
    """An event log in the database at ``url``."""

    _each = "SELECT jsonb_array_elements_text(?::jsonb)"
    _words = tables.POSTGRES

    def __init__(self, url: str, *, create: bool = True, readonly: bool = False) -> None:
        super().__init__()
        self.url = url.split("@")[-1] if "@" in url else url  # messages name no password
        self.readonly = readonly
        self._conninfo = url
        self._closed = False
        self._leading = False
        self._writer: psycopg.Connection[Any] | None = None
        self._reader: psycopg.Connection[Any] | None = None
        self._listener: psycopg.Connection[Any] | None = None
        self._deadlines = Deadlines()
        self._patience = _LONG if readonly else _PATIENCE
        self._reader_lock = threading.Lock()
        try:
            self._open(create)
        except BaseException:
            self.close()
            raise

    def _open(self, create: bool) -> None:
        self._connect_writer()
        if (self.readonly or not create) and not self._has_tables():
            raise InvalidInputError(f"there is no log in {self.url}; `kinbandits serve --store` makes one")
        if self.readonly:
            self._check_version()
        else:
            self.migrate()
            self._take_slot()

    @property
    def shared(self) -> bool:
        """Yes: several processes may append."""
        return True

    def _connect(self) -> psycopg.Connection[Any]:
        if self._closed:
            raise StoreUnavailableError(f"{self.url} is closed")
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=4)
            with self._deadlines.within(connection, _PATIENCE):
                if connection.execute("SHOW synchronous_commit").fetchone() == ("off",):
                    connection.execute("SET synchronous_commit TO on")
                # A process that hangs in the middle of an append must not hold up the others.
                connection.execute("SET idle_in_transaction_session_timeout = '10s'")
            return connection
        except _AWAY as error:
            raise StoreUnavailableError(f"{self.url} cannot be reached ({_first_line(error)})") from error

    def _connect_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._leading = False
        self._writer = None
        self._writer = self._connect()

    def _take_slot(self) -> None:
        for slot in range(_SLOTS):
            if self._write("SELECT pg_try_advisory_lock(?, ?)", (_FAMILY, 2 + slot))[0][0]:
                self.slot = slot
                return
        raise StoreUnavailableError(f"{self.url} has {_SLOTS} processes already")

    def reconnect(self) -> None:
        """A new writing connection, if the old one was lost; then with the first slot that is free."""
        with self._writer_lock:
            if self._writer is None or self._writer.closed:
                self._connect_writer()
                self._take_slot()

    @contextmanager
    def _begin(self) -> Iterator[None]:
        writer = self._writer
        if writer is None or writer.closed:
            raise StoreUnavailableError(f"the connection to {self.url} was lost, or is closed")
        try:
            with self._deadlines.within(writer, self._patience):
                writer.execute(f"BEGIN; SELECT pg_advisory_xact_lock({_FAMILY}, 0)")  # at once: others wait
                yield
                writer.execute(f"NOTIFY {_CHANNEL}; COMMIT")
        except _AWAY as error:
            # The connection is gone: nobody knows whether the commit was. Asking again settles it.
            writer.close()
            raise StoreUnavailableError(f"{self.url} cannot be written now ({_first_line(error)})") from error
        except BaseException:
            if not writer.closed:
                with contextlib.suppress(psycopg.Error), self._deadlines.within(writer, self._patience):
                    writer.execute("ROLLBACK")
            raise

    def _write(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if self._writer is None:
            raise StoreUnavailableError(f"{self.url} is closed")
        cursor = self._writer.execute(sql.replace("?", "%s"), params)
        return cursor.fetchall() if cursor.description else []

    def _write_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if len(rows) == 1:
            self._write(sql, rows[0])
        elif rows and self._writer is not None:
            with self._writer.cursor() as cursor:
                cursor.executemany(sql.replace("?", "%s"), rows)

    def _has_tables(self) -> bool:
        return self._write("SELECT to_regclass('meta')")[0][0] is not None

    def _query(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if not self._reader_lock.acquire(timeout=self._patience):
            raise StoreUnavailableError(f"{self.url} cannot be read now (others wait for it already)")
        try:
            for attempt in (1, 2):
                try:
                    if self._reader is None or self._reader.closed:
                        self._reader = self._connect()
                    with self._deadlines.within(self._reader, self._patience):
                        return self._reader.execute(sql.replace("?", "%s"), params).fetchall()
                except _AWAY as error:
                    if self._reader is not None:
                        self._reader.close()
                    if attempt == 2:
                        raise StoreUnavailableError(
                            f"{self.url} cannot be read now ({_first_line(error)})"
                        ) from error
        finally:
            self._reader_lock.release()
        raise AssertionError("unreachable")

    def lead(self) -> bool:
        """Whether this session holds, or has just got, the lock of the one that keeps house."""
        with self._writer_lock:
            writer = self._writer
            if self.readonly or writer is None or writer.closed:
                return False
            try:
                if not self._leading:
                    with self._deadlines.within(writer, self._patience):
                        self._leading = bool(self._write("SELECT pg_try_advisory_lock(?, 1)", (_FAMILY,))[0][0])
            except _AWAY:
                writer.close()
            return self._leading and not writer.closed and not writer.broken

    def wait(self, seconds: float) -> None:
        """Until another process has committed (LISTEN), at most so long."""
        try:
            if self._listener is None or self._listener.closed:
                self._listener = self._connect()
                self._listener.execute(f"LISTEN {_CHANNEL}")
                return  # something may have come before we listened
            for _ in self._listener.notifies(timeout=seconds, stop_after=1):
                pass
        except (*_AWAY, StoreUnavailableError):
            if self._listener is not None:
                self._listener.close()
            time.sleep(seconds)

    # -- snapshots: on a connection of their own, so that writing one keeps no decision waiting ----------------

    def save_snapshot(self, seq: int, pieces: Sequence[bytes | memoryview], keep: int = KEPT_SNAPSHOTS) -> None:
        """Keep a snapshot of the state after event ``seq``, and drop all but the latest ``keep``."""
        connection = self._connect()
        try:
            with self._deadlines.within(connection, _LONG):
                connection.execute(
                    "INSERT INTO snapshots (seq, at, data) VALUES (%s, %s, %s) ON CONFLICT (seq) DO NOTHING",
                    (seq, time.time(), b"".join(pieces)),
                )
                connection.execute(
                    "DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT %s)",
                    (keep,),
                )
        except _AWAY as error:
            raise StoreUnavailableError(f"{self.url} cannot be written now ({_first_line(error)})") from error
        finally:
            connection.close()

    def snapshot_seqs(self) -> list[int]:
        """The events after which there are snapshots, latest first."""
        return [int(seq) for (seq,) in self._query("SELECT seq FROM snapshots ORDER BY seq DESC")]

    def snapshot(self, seq: int) -> bytes | None:
        """The snapshot after event ``seq``, if there is one."""
        rows = self._query("SELECT data FROM snapshots WHERE seq = ?", (seq,))
        return bytes(rows[0][0]) if rows else None

    def drop_snapshots(self) -> None:
        """Forget all snapshots; the next start reads the whole log."""
        with self._writer_lock, self._begin():
            self._write("DELETE FROM snapshots")

    def check(self) -> list[str]:
        """PostgreSQL keeps its own checksums; ask it whether all rows can be read."""
        self._query("SELECT COUNT(*), MAX(LENGTH(body)) FROM events")
        return []

    def close(self) -> None:
        """Let go of connections, and with them of locks."""
        self._closed = True
        self._deadlines.close()
        for connection in (self._listener, self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._writer = self._reader = self._listener = None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
