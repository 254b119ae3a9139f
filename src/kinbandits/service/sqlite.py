"""The log in one SQLite file: nothing to install, one writing process.

WAL with ``synchronous=FULL``: a commit is on disk before it is acknowledged. One writing connection, held under
an operating-system lock that dies with its process; every other connection is opened read-only, which also
keeps clear of a fault of SQLite before 3.51.3 that needs two connections that write or checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kinbandits._files import atomic_write, hold, replacing
from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.service import tables
from kinbandits.service.events import Head
from kinbandits.service.store import (
    KEPT_SNAPSHOTS,
    Store,
    StoreDamagedError,
    StoreLockedError,
    StoreUnavailableError,
)

_PAGES = 8000  # of the WAL (32 MB) after which it is moved to the log: more at once, and more seldom


class SQLiteStore(Store):
    """An event log in the file ``path``; ``path + ".lock"`` beside it says that it is in use."""

    _each = "SELECT value FROM json_each(?)"
    _words = tables.SQLITE

    def __init__(self, path: str | Path, *, create: bool = True, readonly: bool = False) -> None:
        super().__init__()
        self.path = Path(os.path.realpath(path))  # a link to a log is that log, with its one lock
        self.url = str(path)
        self.readonly = readonly
        if not self.path.exists() and (readonly or not create):
            raise InvalidInputError(f"there is no log {path}; `kinbandits serve` makes one")
        self._lock_file: Any = None
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._reader_lock = threading.Lock()
        self._copies: tempfile.TemporaryDirectory[str] | None = None
        try:
            self._open()
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.OperationalError):
                raise StoreUnavailableError(f"{path} cannot be opened ({error})") from error
            if isinstance(error, sqlite3.DatabaseError):
                raise FormatError(f"{path} is not a kinbandits log, or it is damaged ({error})") from error
            raise

    def _open(self) -> None:
        if self.readonly:
            self._reader = self._open_reader()
            self._check_version()
            return
        self._lock_file = self._lock()
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # it holds contexts: for its owner alone
        self._writer = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._writer.execute("PRAGMA synchronous = FULL")
        self._writer.execute(f"PRAGMA wal_autocheckpoint = {_PAGES}")
        self.migrate()
        self._reader = self._open_reader()

    def _open_reader(self) -> sqlite3.Connection:
        """A connection that only reads, also where this process may not write beside the log."""
        path, options = self.path.resolve(), "mode=ro"
        if self.readonly and not os.access(path.parent, os.W_OK):
            wal, shm = leftovers(path)
            if not wal.exists():
                options = "immutable=1"  # nobody is writing, and SQLite needs no files of its own
            elif not shm.exists():  # as a crash leaves a log; SQLite must rebuild its index of the WAL somewhere
                self._copies = tempfile.TemporaryDirectory(prefix="kinbandits-log-")
                for file in (path, wal):
                    shutil.copy(file, self._copies.name)
                path = Path(self._copies.name) / path.name
        uri = f"{path.as_uri()}?{options}"
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)

    @property
    def shared(self) -> bool:
        """No: one process at a time."""
        return False

    def _lock(self) -> Any:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        stream = self.path.with_name(self.path.name + ".lock").open("a")
        try:
            hold(stream.fileno())
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
            yield
            self._writer.execute("COMMIT")
        except sqlite3.IntegrityError:
            self._rollback()
            raise
        except sqlite3.DatabaseError as error:  # disk full, I/O error, damage
            self._rollback()
            raise self._trouble("written", error) from error
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        assert self._writer is not None
        if self._writer.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")

    def _trouble(self, what: str, error: sqlite3.DatabaseError) -> StoreUnavailableError:
        if isinstance(error, sqlite3.OperationalError):
            return StoreUnavailableError(f"{self.path} cannot be {what} now ({error})")
        return StoreDamagedError(f"{self.path} is not a kinbandits log, or it is damaged ({error})")

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
            except sqlite3.DatabaseError as error:
                raise self._trouble("read", error) from error

    def known_keys(self, keys: Iterable[str]) -> set[str]:
        """By the connection that writes: a decision does not wait until somebody's long list is read."""
        with self.transaction() as tx:
            return set(tx.find_keys(keys))

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
        """Copy the log to another file, consistently, while the service runs. The copy is one file."""
        with self._reader_lock:
            if self._reader is None:
                raise StoreUnavailableError(f"{self.path} is closed")
            copy = sqlite3.connect(target)
            try:
                self._reader.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # or readers would leave files beside it
            finally:
                copy.close()

    # -- snapshots: files in a folder beside the log, so that writing one keeps no decision waiting -----------

    @property
    def _snapshots(self) -> Path:
        return self.path.with_name(self.path.name + ".snapshots")

    def save_snapshot(self, seq: int, pieces: Sequence[bytes | memoryview], keep: int = KEPT_SNAPSHOTS) -> None:
        """Keep a snapshot of the state after event ``seq``, and drop all but the latest ``keep``."""
        try:
            self._snapshots.mkdir(mode=0o700, exist_ok=True)
            with replacing(self._snapshots / f"{seq:015d}") as part, part.open("wb") as file:
                file.writelines(pieces)
            for old in self.snapshot_seqs()[keep:]:
                (self._snapshots / f"{old:015d}").unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailableError(f"{self._snapshots} cannot be written ({error.strerror})") from error

    def snapshot_seqs(self) -> list[int]:
        """The events after which there are snapshots, latest first."""
        if not self._snapshots.is_dir():
            return []
        return sorted((int(p.name) for p in self._snapshots.iterdir() if p.name.isdecimal()), reverse=True)

    def snapshot(self, seq: int) -> bytes | None:
        """The snapshot after event ``seq``, if it can be read."""
        try:
            return (self._snapshots / f"{seq:015d}").read_bytes()
        except OSError:
            return None

    def drop_snapshots(self) -> None:
        """Forget all snapshots; the next start reads the whole log."""
        for seq in self.snapshot_seqs():
            (self._snapshots / f"{seq:015d}").unlink(missing_ok=True)

    def keep_head(self, head: Head) -> None:
        """Beside the log, in a file of its own."""
        try:
            write_head(self.path, head)
        except OSError as error:
            raise StoreUnavailableError(f"{self.path}.head cannot be written ({error.strerror})") from error

    def kept_head(self) -> Head | None:
        """What was kept beside the log; None if there is nothing, or it cannot be read."""
        return read_head(self.path)

    def close(self) -> None:
        """Let go of connections and lock."""
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None
        if self._copies is not None:
            self._copies.cleanup()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None


def leftovers(path: Path) -> tuple[Path, Path]:
    """The files that SQLite has beside an open log, and that a crash leaves: the WAL and its index."""
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


def write_head(log: Path, head: Head) -> None:
    """Keep a head beside a log."""
    atomic_write(log.with_name(log.name + ".head"), f"{head}\n".encode())


def read_head(log: Path) -> Head | None:
    """The head that is kept beside a log; None if there is none, or it cannot be read."""
    try:
        return Head.parse(log.with_name(log.name + ".head").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
