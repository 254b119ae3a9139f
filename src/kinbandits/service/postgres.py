"""The log in PostgreSQL: several processes decide and reward, one at a time appends (extra ``postgres``).

advisory lock (family, 0)       held for a transaction: who appends. It makes ``seq`` the order of commits, so
                                that a follower never misses an event that became visible late
advisory lock (family, 1)       held by a session: who keeps house (defaults, snapshots). When its process
                                or its connection dies, the server lets go and another process takes over
advisory lock (family, 2 + n)   held by a session: who has slot n, the prefix of its decision ids
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from kinbandits.errors import InvalidInputError
from kinbandits.service import tables
from kinbandits.service.store import Store, StoreUnavailableError

_FAMILY = 0x6B696E  # "kin"
_CHANNEL = "kinbandits_events"
_SLOTS = 256


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
            connection = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=5)
            if connection.execute("SHOW synchronous_commit").fetchone() == ("off",):
                connection.execute("SET synchronous_commit TO on")
            return connection
        except psycopg.OperationalError as error:
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
        try:
            if self._writer is not None and self._writer.closed:
                raise StoreUnavailableError(f"the connection to {self.url} was lost")
            self._write("BEGIN")
            self._write("SELECT pg_advisory_xact_lock(?, 0)", (_FAMILY,))
            yield
            self._write(f"NOTIFY {_CHANNEL}")
            self._write("COMMIT")
        except psycopg.OperationalError as error:
            # The connection is gone: nobody knows whether the commit was. Asking again settles it.
            if self._writer is not None:
                self._writer.close()
            raise StoreUnavailableError(f"{self.url} cannot be written now ({_first_line(error)})") from error
        except BaseException:
            if self._writer is not None and not self._writer.closed:
                self._writer.execute("ROLLBACK")
            raise

    def _write(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if self._writer is None:
            raise StoreUnavailableError(f"{self.url} is closed")
        cursor = self._writer.execute(sql.replace("?", "%s"), params)
        return cursor.fetchall() if cursor.description else []

    def _write_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows and self._writer is not None:
            with self._writer.cursor() as cursor:
                cursor.executemany(sql.replace("?", "%s"), rows)

    def _has_tables(self) -> bool:
        return self._write("SELECT to_regclass('meta')")[0][0] is not None

    def _query(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reader_lock:
            for attempt in (1, 2):
                try:
                    if self._reader is None or self._reader.closed:
                        self._reader = self._connect()
                    return self._reader.execute(sql.replace("?", "%s"), params).fetchall()
                except psycopg.OperationalError as error:
                    if self._reader is not None:
                        self._reader.close()
                    if attempt == 2:
                        raise StoreUnavailableError(
                            f"{self.url} cannot be read now ({_first_line(error)})"
                        ) from error
        raise AssertionError("unreachable")

    def lead(self) -> bool:
        """Whether this session holds, or has just got, the lock of the one that keeps house."""
        with self._writer_lock:
            writer = self._writer
            if self.readonly or writer is None or writer.closed:
                return False
            try:
                if self._leading:
                    return not writer.broken
                self._leading = bool(self._write("SELECT pg_try_advisory_lock(?, 1)", (_FAMILY,))[0][0])
            except psycopg.OperationalError:
                writer.close()
                return False
            return self._leading

    def wait(self, seconds: float) -> None:
        """Until another process has committed (LISTEN), at most so long."""
        try:
            if self._listener is None or self._listener.closed:
                self._listener = self._connect()
                self._listener.execute(f"LISTEN {_CHANNEL}")
                return  # something may have come before we listened
            for _ in self._listener.notifies(timeout=seconds, stop_after=1):
                pass
        except (psycopg.OperationalError, StoreUnavailableError):
            if self._listener is not None:
                self._listener.close()
            time.sleep(seconds)

    def check(self) -> list[str]:
        """PostgreSQL keeps its own checksums; ask it whether all rows can be read."""
        self._query("SELECT COUNT(*), MAX(LENGTH(body)) FROM events")
        return []

    def close(self) -> None:
        """Let go of connections, and with them of locks."""
        self._closed = True
        for connection in (self._listener, self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._writer = self._reader = self._listener = None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
