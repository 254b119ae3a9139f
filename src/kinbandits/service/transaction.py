"""What is kept in the log besides events, what may go wrong with it, and what may be done while holding it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from kinbandits.errors import FormatError, KinbanditsError
from kinbandits.service.events import Draft, Event, Head, Record, digest, outcome_of, to_text

if TYPE_CHECKING:
    from kinbandits.service.store import Store


_TOGETHER = 16  # rows that one statement writes


class StoreUnavailableError(KinbanditsError, RuntimeError):
    """The log cannot be written or read now; nothing is known to be lost. Try again."""


class StoreDamagedError(FormatError, StoreUnavailableError):
    """The log's files are damaged: stop, and restore a backup."""


class StoreLockedError(KinbanditsError, RuntimeError):
    """Another process is writing this log."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is stored: never itself, only its hash."""

    name: str
    hash: str
    roles: tuple[str, ...]
    at: float
    revoked: float | None


@dataclass(frozen=True, slots=True)
class Session:
    """A login to the dashboard: the hash of its secret, the token's name, and until when it is valid."""

    hash: str
    token: str
    until: float


EVENT = "SELECT seq, kind, decision, at, body, digest FROM events"
RECORD = (
    "SELECT d.id, d.seq, d.at, e.body, d.state, d.reward, d.key, d.request "
    "FROM decisions d JOIN events e ON e.seq = d.seq"
)


TOKENS = "SELECT name, hash, roles, at, revoked FROM tokens ORDER BY at, name"


class Transaction:
    """What may be done while holding the log. All of it is kept, or none."""

    def __init__(self, store: Store, end: Head | None = None) -> None:
        self._store = store
        if end is not None:
            self._seq, self._digest = end
            return
        row = store._write("SELECT seq, digest FROM events ORDER BY seq DESC LIMIT 1")
        self._seq, self._digest = row[0] if row else (0, "")

    @property
    def end(self) -> Head:
        """The last event, with what was appended."""
        return Head(self._seq, self._digest)

    def find(self, ids: Iterable[str]) -> dict[str, Record]:
        """The decisions of these ids, as far as there are any."""
        return self._records("d.id", ids)

    def find_keys(self, keys: Iterable[str]) -> dict[str, Record]:
        """The decisions that were asked for with these idempotency keys, by key."""
        return {r.key: r for r in self._records("d.key", keys).values() if r.key is not None}

    def overdue(self, before: float, limit: int = 1000) -> list[Record]:
        """Open decisions made before this time, oldest first."""
        sql = f"{RECORD} WHERE d.state = 'open' AND d.at < ? ORDER BY d.at, d.seq LIMIT ?"
        return [record_of_row(row) for row in self._store._write(sql, (before, limit))]

    def append(self, drafts: Sequence[Draft]) -> list[Event]:
        """Add events at the end, and enter what they say in the table of decisions."""
        events, rows, opened, closed = [], [], [], []
        for draft in drafts:
            seq, text = self._seq + 1, to_text(draft.body)
            mark = digest(self._digest, seq, draft.kind, draft.decision, draft.at, text)
            events.append(Event(seq, draft.kind, draft.decision, draft.at, draft.body, mark))
            rows.append((seq, draft.kind, draft.decision, draft.at, text, mark))
            self._seq, self._digest = seq, mark
            if draft.kind == "decision":
                arm = str(draft.body["arm"])
                opened.append((draft.decision, seq, draft.at, "open", draft.key, draft.request, arm))
            elif (state := outcome_of(draft.kind, draft.body)) is not None:
                delivered = None if draft.kind in ("default", "void") else draft.body["reward"]
                closed.append((state, delivered, draft.decision))
        self._insert("events", "seq, kind, decision, at, body, digest", rows)
        self._insert("decisions", "id, seq, at, state, key, request, arm", opened)
        self._store._write_many("UPDATE decisions SET state = ?, reward = ? WHERE id = ?", closed)
        return events

    def _insert(self, table: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Some rows with one statement: between two, other threads may take their turn, which takes them long."""
        for size in (_TOGETHER, 1):
            if together := len(rows) // size * size:
                flat = [tuple(chain.from_iterable(rows[i : i + size])) for i in range(0, together, size)]
                self._store._write_many(_insert(table, columns, size), flat)
                rows = rows[together:]

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter of things that are not events."""
        self._store._write_many(
            "INSERT INTO counters (name, value) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = counters.value + excluded.value",
            [(name, by)],
        )

    def tokens(self) -> list[Token]:
        """All tokens, revoked ones included."""
        return [token_of_row(row) for row in self._store._write(TOKENS)]

    def add_token(self, token: Token) -> None:
        """Keep a token's hash."""
        self._store._write_many(
            "INSERT INTO tokens (name, hash, roles, at) VALUES (?, ?, ?, ?)",
            [(token.name, token.hash, " ".join(token.roles), token.at)],
        )

    def revoke_token(self, name: str, at: float) -> bool:
        """Whether there was a valid token of this name, which is valid no longer."""
        if not self._store._write("SELECT 1 FROM tokens WHERE name = ? AND revoked IS NULL", (name,)):
            return False
        self._store._write_many("UPDATE tokens SET revoked = ? WHERE name = ?", [(at, name)])
        return True

    @property
    def last_seq(self) -> int:
        """The number of the last event."""
        return int(self._seq)

    def default_of(self, decision: str) -> float | None:
        """The reward that a decision was defaulted with, if it was."""
        sql = f"{EVENT} WHERE decision = ? AND kind = 'default'"
        return next((event_of_row(row).body["reward"] for row in self._store._write(sql, (decision,))), None)

    def arm_events(self, after: int) -> list[Event]:
        """Arms added and retired after event ``seq``, by whichever process."""
        sql = f"{EVENT} WHERE seq > ? AND kind IN ('arm_added', 'arm_retired') ORDER BY seq"
        return [event_of_row(row) for row in self._store._write(sql, (after,))]

    def open_session(self, session: Session, now: float) -> None:
        """Keep a session; those that have ended are forgotten."""
        self._store._write_many("DELETE FROM sessions WHERE until < ?", [(now,)])
        self._store._write_many(
            "INSERT INTO sessions (hash, token, until) VALUES (?, ?, ?)",
            [(session.hash, session.token, session.until)],
        )

    def set_meta(self, name: str, value: str) -> None:
        """Keep a text under a name."""
        self._store._write_many(
            "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            [(name, value)],
        )

    def _records(self, column: str, values: Iterable[str]) -> dict[str, Record]:
        wanted = sorted(set(values))
        if not wanted:
            return {}
        sql = f"{RECORD} WHERE {column} IN ({self._store._each})"
        return {r.id: r for r in map(record_of_row, self._store._write(sql, (json.dumps(wanted),)))}


@cache
def _insert(table: str, columns: str, size: int) -> str:
    marks = ", ".join([f"({', '.join('?' * (columns.count(',') + 1))})"] * size)
    return f"INSERT INTO {table} ({columns}) VALUES {marks}"


def event_of_row(row: tuple[Any, ...]) -> Event:
    """As `EVENT` selects it."""
    seq, kind, decision, at, body, mark = row
    return Event(seq, kind, decision, at, from_json(body), mark)


def record_of_row(row: tuple[Any, ...]) -> Record:
    """As `RECORD` selects it."""
    identifier, seq, at, body, state, reward, key, request = row
    return Record(identifier, seq, at, from_json(body), state, reward, key, request)


def token_of_row(row: tuple[Any, ...]) -> Token:
    """As `TOKENS` selects it."""
    name, hashed, roles, at, revoked = row
    return Token(name, hashed, tuple(roles.split()), at, revoked)
