"""The contract of the event log, with its SQL. `sqlite` and `postgres` say how to connect, lock and flush.

Rules
    - Events are appended inside ``transaction()``; when its block is left, they are on disk.
    - One transaction at a time, over all processes: so ``seq`` has no gaps, and a reader that has seen event n
      has seen all before it.
    - Reads (`read`, `record`, ...) may be made from any thread.
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.service import tables
from kinbandits.service.events import Event, Head, Record, number_of
from kinbandits.service.transaction import (
    EVENT,
    RECORD,
    TOKENS,
    Session,
    StoreDamagedError,
    StoreLockedError,
    StoreUnavailableError,
    Token,
    Transaction,
    event_of_row,
    record_of_row,
    token_of_row,
)

__all__ = [
    "KEPT_SNAPSHOTS",
    "Session",
    "Store",
    "StoreDamagedError",
    "StoreLockedError",
    "StoreUnavailableError",
    "Token",
    "Transaction",
    "open_store",
]

KEPT_SNAPSHOTS = 3
_PROBE = 65_536  # characters: a nearly full disk may have room for a few


class Store(ABC):
    """An event log in a database."""

    url: str
    slot: int = 0
    _each: str  # SQL that makes rows of a JSON array
    _words: dict[str, str]

    def __init__(self) -> None:
        self._writer_lock = threading.RLock()
        self._end: Head | None = None  # the last event, where nobody else writes

    # -- what a home must give ------------------------------------------------------------------

    @abstractmethod
    def _begin(self) -> AbstractContextManager[None]:
        """A transaction on the writing connection: the lock, BEGIN, and COMMIT with flush or ROLLBACK."""

    @abstractmethod
    def _write(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement on the writing connection."""

    @abstractmethod
    def _write_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row on the writing connection."""

    @abstractmethod
    def _query(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Read, from any thread."""

    @abstractmethod
    def lead(self) -> bool:
        """Whether this process is the one that keeps house (defaults, snapshots); asking tries to become it."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Wait for news from other processes, at most so long."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""

    @abstractmethod
    def check(self) -> list[str]:
        """What the database itself finds wrong with its files."""

    @property
    @abstractmethod
    def shared(self) -> bool:
        """Whether other processes may write to this log too."""

    def keep_head(self, head: Head) -> None:  # noqa: B027 (where there is a place outside the log)
        """Remember the last event outside the log, so that the loss of its end can be noticed."""

    def kept_head(self) -> Head | None:
        """The last event as it was remembered outside the log, if it was."""
        return None

    def reconnect(self) -> None:  # noqa: B027 (a file is always there)
        """Connect again after a `StoreUnavailableError`, if that is what it takes. ``slot`` may be another then."""

    # -- common to all --------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Hold the log. When the block is left without an error, what was appended is on disk."""
        with self._writer_lock:
            end, self._end = self._end, None  # not known, until what comes now is on disk
            with self._begin():
                tx = Transaction(self, end)
                yield tx
            self._end = None if self.shared else tx.end

    def migrate(self) -> None:
        """Bring the tables to this release's version; a database of a later version is refused."""
        upto = tables.VERSION
        with self._writer_lock, self._begin():
            version = self._version()
            if version > upto:
                raise FormatError(
                    f"{self.url} has schema version {version}; this release reads versions up to {upto}. "
                    "Upgrade kinbandits to open it"
                )
            for step in range(version + 1, upto + 1):
                for statement in tables.statements(step, self._words):
                    self._write(statement)
                self._write_many(
                    "INSERT INTO meta (name, value) VALUES ('schema_version', ?) "
                    "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    [(str(step),)],
                )

    @abstractmethod
    def _has_tables(self) -> bool:
        """Whether there is a meta table, on the writing connection."""

    def _version(self) -> int:
        if not self._has_tables():
            return 0
        rows = self._write("SELECT value FROM meta WHERE name = 'schema_version'")
        return int(rows[0][0]) if rows else 0

    def _check_version(self) -> None:
        """Refuse to read tables of another version: only a writer may bring them forward."""
        version = self.meta("schema_version")
        if version != str(tables.VERSION):
            self.close()
            raise FormatError(
                f"{self.url} has schema version {version}; this release reads {tables.VERSION}. Start the service "
                "once to bring it forward, or upgrade kinbandits"
            )

    def read(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """Events after ``seq``, in order."""
        sql = f"{EVENT} WHERE seq > ? ORDER BY seq LIMIT ?"
        return [event_of_row(row) for row in self._query(sql, (after, limit))]

    def read_all(self, after: int = 0, batch: int = 5000) -> Iterator[Event]:
        """All events after ``seq``, in order."""
        while events := self.read(after, batch):
            yield from events
            after = events[-1].seq

    def head(self) -> Head:
        """The last event."""
        rows = self._query("SELECT seq, digest FROM events ORDER BY seq DESC LIMIT 1")
        return Head(*rows[0]) if rows else Head(0, "")

    def event(self, seq: int) -> Event | None:
        """The event of this number."""
        return next(iter(self.read(seq - 1, 1)), None)

    def record(self, identifier: str) -> Record | None:
        """The decision of this id."""
        rows = self._query(f"{RECORD} WHERE d.id = ?", (identifier,))
        return record_of_row(rows[0]) if rows else None

    def records(self, after: int = 0, limit: int = 5000) -> list[Record]:
        """Decisions whose event comes after ``seq``, in order."""
        sql = f"{RECORD} WHERE d.seq > ? ORDER BY d.seq LIMIT ?"
        return [record_of_row(r) for r in self._query(sql, (after, limit))]

    def find_records(
        self,
        *,
        state: str | None = None,
        arm: str | None = None,
        since: float | None = None,
        until: float | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Record]:
        """Decisions that fit, newest first; ``before`` an event, to go on from an earlier answer."""
        given = [("d.state = ?", state), ("d.arm = ?", arm), ("d.at >= ?", since), ("d.at < ?", until)]
        given.append(("d.seq < ?", before))
        asked = [(text, value) for text, value in given if value is not None]
        where = f" WHERE {' AND '.join(text for text, _ in asked)}" if asked else ""
        sql = f"{RECORD}{where} ORDER BY d.seq DESC LIMIT ?"
        return [record_of_row(row) for row in self._query(sql, [*(value for _, value in asked), limit])]

    def edits(self) -> list[Event]:
        """Corrections and roll-backs, in order."""
        sql = f"{EVENT} WHERE kind IN ('corrected', 'rolled_back') ORDER BY seq"
        return [event_of_row(row) for row in self._query(sql)]

    def all_records(self) -> Iterator[Record]:
        """All decisions, in order."""
        after = 0
        while batch := self.records(after):
            yield from batch
            after = batch[-1].seq

    def known_keys(self, keys: Iterable[str]) -> set[str]:
        """Which of these idempotency keys have been used."""
        sql = f"SELECT key FROM decisions WHERE key IN ({self._each})"
        return {row[0] for row in self._query(sql, (json.dumps(sorted(keys)),))}

    def last_seq(self) -> int:
        """The number of the last event; 0 if there is none."""
        return int(self._query("SELECT COALESCE(MAX(seq), 0) FROM events")[0][0])

    def count_decisions(self, upto: int) -> int:
        """Decisions up to event ``upto``."""
        return int(self._query("SELECT COUNT(*) FROM decisions WHERE seq <= ?", (upto,))[0][0])

    def last_number(self) -> int:
        """The number of this slot's last decision; 0 if there is none."""
        low, high = f"{self.slot:x}-", f"{self.slot:x}."  # "." follows "-"
        rows = self._query("SELECT MAX(id) FROM decisions WHERE id >= ? AND id < ?", (low, high))
        return number_of(rows[0][0])[1] if rows[0][0] else 0

    def counters(self) -> dict[str, int]:
        """Counters of things that are not events."""
        return {name: int(value) for name, value in self._query("SELECT name, value FROM counters")}

    def tokens(self) -> list[Token]:
        """All tokens, revoked ones included."""
        return [token_of_row(row) for row in self._query(TOKENS)]

    def sessions(self) -> list[Session]:
        """All logins to the dashboard that were kept."""
        return [Session(*row) for row in self._query("SELECT hash, token, until FROM sessions")]

    def meta(self, name: str) -> str | None:
        """The text kept under this name."""
        rows = self._query("SELECT value FROM meta WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def probe(self) -> None:
        """Write something and flush it, to see whether that can be done."""
        with self.transaction() as tx:
            tx.set_meta("probe", f"{time.time()} {'-' * _PROBE}")

    # -- snapshots: kept where they are in nobody's way ------------------------------------------

    @abstractmethod
    def save_snapshot(self, seq: int, pieces: Sequence[bytes | memoryview], keep: int = KEPT_SNAPSHOTS) -> None:
        """Keep a snapshot of the state after event ``seq``, and drop all but the latest ``keep``."""

    @abstractmethod
    def snapshot_seqs(self) -> list[int]:
        """The events after which there are snapshots, latest first."""

    @abstractmethod
    def snapshot(self, seq: int) -> bytes | None:
        """The snapshot after event ``seq``, if it can be had."""

    @abstractmethod
    def drop_snapshots(self) -> None:
        """Forget all snapshots; the next start reads the whole log."""

    def snapshots(self) -> Iterator[tuple[int, bytes]]:
        """Snapshots as (seq, data), latest first."""
        for seq in self.snapshot_seqs():
            data = self.snapshot(seq)
            if data is not None:
                yield seq, data


def open_store(url: str, *, create: bool = True, readonly: bool = False) -> Store:
    """The log at ``url``: a path or ``sqlite:///path``, or ``postgresql://...``.

    Args:
        url: where.
        create: make it if it is not there.
        readonly: do not lock it; only read. Fits beside a running service.
    """
    if url.startswith(("postgresql://", "postgres://")):
        from kinbandits.service.postgres import PostgresStore

        return PostgresStore(url, create=create, readonly=readonly)
    if "://" in url and not url.startswith("sqlite:///"):
        kind = url.partition("://")[0]
        raise InvalidInputError(
            f"there is no log of the kind {kind}://; give the path of a file (SQLite), or postgresql://user@host/name"
        )
    from kinbandits.service.sqlite import SQLiteStore

    return SQLiteStore(url.removeprefix("sqlite:///"), create=create, readonly=readonly)
