"""The log in one SQLite file: nothing to install, one writing process.

WAL with ``synchronous=FULL``: a commit is on disk before it is acknowledged. One writing connection, held under
an operating-system lock that dies with its process; every other connection is opened read-only, which also
keeps clear of a fault of SQLite before 3.51.3 that needs two connections that write or checkpoint.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.service import tables
from kinbandits.service.store import Store, StoreLockedError, StoreUnavailableError


class SQLiteStore(Store):
    """An event log in the file ``path``; ``path + ".lock"`` beside it says that it is in use."""

    _each = "SELECT value FROM json_each(?)"
    _words = tables.SQLITE

    def __init__(self, path: str | Path, *, create: bool = True, readonly: bool = False) -> None:
        super().__init__()
        self.path = Path(path)
        self.url = str(path)
        self.readonly = readonly
        if not self.path.exists() and (readonly or not create):
            raise InvalidInputError(f"there is no log {self.path}; `kinbandits serve` makes one")
        self._lock_file: Any = None
        self._writer: sqlite3.Connection | None = None
        if not readonly:
            self._lock_file = self._lock()
            try:
                self._writer = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
                self._writer.execute("PRAGMA journal_mode = WAL")
                self._writer.execute("PRAGMA synchronous = FULL")
                self.migrate()
            except sqlite3.DatabaseError as error:
                self.close()
                raise FormatError(f"{self.path} is not a kinbandits log, or it is damaged ({error})") from error
            except BaseException:
                self.close()
                raise
        self._reader_lock = threading.Lock()
        self._reader: sqlite3.Connection | None = sqlite3.connect(
            f"{self.path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )

        if readonly:
            self._check_version()

    @property
    def shared(self) -> bool:
        """No: one process at a time."""
        return False

    def _lock(self) -> Any:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        stream = self.path.with_name(self.path.name + ".lock").open("a")
        try:
            _hold(stream.fileno())
        except OSError:
            stream.close()
            raise StoreLockedError(
                f"{self.path} is in use by another process; stop that service first, or use PostgreSQL for several"
            ) from None
        return stream

    @contextmanager
    def _begin(self) -> Iterator[None]:
        if self._writer is None:
            raise StoreUnavailableError(f"{self.path} was opened for reading only, or is closed")
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise StoreUnavailableError(f"{self.path} cannot be written now ({error})") from error
        try:
            yield
            self._writer.execute("COMMIT")
        except sqlite3.OperationalError as error:  # disk full, I/O error
            self._rollback()
            raise StoreUnavailableError(f"{self.path} cannot be written now ({error})") from error
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        assert self._writer is not None
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def _write(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        assert self._writer is not None
        return self._writer.execute(sql, params).fetchall()

    def _write_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        assert self._writer is not None
        if rows:
            self._writer.executemany(sql, rows)

    def _has_tables(self) -> bool:
        return bool(self._write("SELECT 1 FROM sqlite_master WHERE name = 'meta'"))

    def _query(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reader_lock:
            if self._reader is None:
                raise StoreUnavailableError(f"{self.path} is closed")
            try:
                return self._reader.execute(sql, params).fetchall()
            except sqlite3.OperationalError as error:
                raise StoreUnavailableError(f"{self.path} cannot be read ({error})") from error
            except sqlite3.DatabaseError as error:
                raise FormatError(f"{self.path} is not a kinbandits log, or it is damaged ({error})") from error

    def lead(self) -> bool:
        """Yes: there is only one."""
        return not self.readonly

    def wait(self, seconds: float) -> None:
        """Nobody else writes, so there is nothing to wait for."""
        time.sleep(seconds)

    def check(self) -> list[str]:
        """SQLite's own integrity check."""
        return [str(row[0]) for row in self._query("PRAGMA integrity_check") if row[0] != "ok"]

    def backup(self, target: str | Path) -> None:
        """Copy the log to another file, consistently, while the service runs."""
        with self._reader_lock:
            assert self._reader is not None
            copy = sqlite3.connect(target)
            try:
                self._reader.backup(copy)
            finally:
                copy.close()

    def close(self) -> None:
        """Let go of connections and lock."""
        for connection in (getattr(self, "_reader", None), self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None


def _hold(descriptor: int) -> None:
    """Lock a file for this process, or raise OSError; the system lets go when the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
