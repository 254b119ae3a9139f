"""Whether a log is whole: verify, backup and restore.

Each event holds a digest of those before it, so a change in the middle shows. The loss of the end does not: for
that the last event's number and digest, the `Head`, are kept outside the log as well (beside an SQLite log as
``news.sqlite3.head``, and in what ``kinbandits log verify`` prints).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kinbandits._files import replacing
from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.service.events import Event, Head, digest, outcome_of, to_text
from kinbandits.service.sqlite import SQLiteStore, leftovers, read_head, write_head
from kinbandits.service.store import Store

_MOST = 20  # problems that are listed
_STEPS = {
    (None, "decision"): "open",
    ("open", "reward"): "rewarded",
    ("open", "default"): "defaulted",
    ("open", "void"): "void",
    ("defaulted", "late"): "late",
}
_CORRECTED = ("rewarded", "defaulted", "late", "withdrawn")  # can be


@dataclass(slots=True)
class _Entry:
    """What the events say of a decision, for comparison with the table of decisions."""

    seq: int
    at: float
    state: str
    reward: float | None = None


def verify(store: Store, head: Head | None = None) -> list[str]:
    """What is wrong with a log: damage, gaps, a lost end, changed events, tables that are not what the events say.

    Args:
        store: the log.
        head: its last event as it was known before, besides what is kept beside the log.
    """
    problems: list[str] = []
    for problem in _problems(store, [h for h in (head, store.kept_head()) if h is not None]):
        problems.append(problem)
        if len(problems) >= _MOST:
            return [*problems, "and more"]
    return problems


def _problems(store: Store, heads: list[Head]) -> Iterator[str]:
    yield from store.check()
    entries: dict[str, _Entry] = {}
    tokens: dict[str, tuple[list[str], bool]] = {}
    seen: dict[int, str] = {}
    last = Head(0, "")
    for event in store.read_all():
        if event.seq != last.seq + 1:
            yield f"event {last.seq + 1} is missing"
        if event.digest != digest(
            last.digest, event.seq, event.kind, event.decision, event.at, to_text(event.body)
        ):
            yield f"event {event.seq} was changed, or the one before it was"
        last = Head(event.seq, event.digest)
        if any(h.seq == event.seq for h in heads):
            seen[event.seq] = event.digest
        if event.decision is not None:
            problem = _enter(entries, event)
            if problem is not None:
                yield problem
        elif event.kind == "token_added":
            tokens[event.body["token"]] = (event.body["roles"], True)
        elif event.kind == "token_revoked" and event.body["token"] in tokens:
            tokens[event.body["token"]] = (tokens[event.body["token"]][0], False)
    for head in heads:
        if head.seq > last.seq:
            yield f"the log ends at event {last.seq}, but event {head.seq} had been written: its end is lost"
        elif head.seq and seen.get(head.seq) != head.digest:
            yield f"event {head.seq} is not the one that had been written"
    yield from _table_problems(store, entries)
    for token in store.tokens():
        if tokens.pop(token.name, None) != (list(token.roles), token.revoked is None):
            yield f"token {token.name} is not what the events say"
    for name in tokens:
        yield f"token {name} is not entered in the table"


def _enter(entries: dict[str, _Entry], event: Event) -> str | None:
    assert event.decision is not None
    entry = entries.get(event.decision)
    before = None if entry is None else entry.state
    after = _STEPS.get((before, event.kind))
    if event.kind == "corrected" and before in _CORRECTED:
        after = outcome_of(event.kind, event.body)
    if after is None:
        return f"event {event.seq}: {event.kind} of a decision that is {before or 'unknown'}"
    if entry is None:
        entries[event.decision] = _Entry(event.seq, event.at, after)
    else:
        entry.state = after
        if event.kind in ("reward", "late", "corrected"):
            entry.reward = event.body["reward"]
    return None


def _table_problems(store: Store, entries: dict[str, _Entry]) -> Iterator[str]:
    for record in store.all_records():
        said = entries.pop(record.id, None)
        if said is None:
            yield f"decision {record.id} is entered as {record.state}, but no event says so"
            continue
        for name in ("state", "reward", "at", "seq"):
            here, there = getattr(record, name), getattr(said, name)
            if here != there:
                yield f"decision {record.id}: {name} is entered as {here}, but its events say {there}"
    for name in entries:
        yield f"decision {name} is not entered in the table"


# -- backup -----------------------------------------------------------------------------------------


def backup(store: Store, target: Path) -> int:
    """Copy an SQLite log while the service runs; how many events the copy holds."""
    if not isinstance(store, SQLiteStore):
        raise InvalidInputError("this backs up SQLite logs; for PostgreSQL use pg_dump, which is consistent too")
    return _copy(store, target)


def restore(source: Path, target: Path) -> tuple[int, int]:
    """Put a backup, or a log as a crash left it, in place as a log.

    An existing log is never overwritten, nor mixed with files that another log has left behind. Returns how many
    events there are, and how many more the log had that was here before (as far as its head was kept).
    """
    store = SQLiteStore(source, readonly=True)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        n = _copy(store, target)
        before = read_head(target)
        if before is not None:
            write_head(target, store.head())
    finally:
        store.close()
    return n, 0 if before is None else max(0, before.seq - n)


def _copy(store: SQLiteStore, target: Path) -> int:
    """A verified copy: nothing is at ``target`` unless all of it is there and in order."""
    found = [path for path in (target, *leftovers(target)) if path.exists()]
    if found:
        names = ", ".join(str(path) for path in found)
        raise InvalidInputError(f"{names} is there already; move it away first, or choose another name")
    try:
        with replacing(target) as partial:
            store.backup(partial)
            copy = SQLiteStore(partial, readonly=True)
            try:
                problems = verify(copy, store.kept_head())
                if problems:
                    raise FormatError(f"{store.path} is not in order: {problems[0]}")
                return copy.last_seq()
            finally:
                copy.close()
    except sqlite3.Error as error:
        raise FormatError(f"{store.path} cannot be copied ({error})") from error
