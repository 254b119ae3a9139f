"""Check a log (verify), copy it (backup, restore), and shorten it (archive)."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from kinbandits._files import replacing
from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.service.config import Settings
from kinbandits.service.databases import SQLite, StoreUnavailableError
from kinbandits.service.events import Event, Record, step
from kinbandits.service.learner import replay
from kinbandits.service.snapshots import packed
from kinbandits.service.store import Store, open_store
from kinbandits.service.transfer import export_log

_MOST = 20  # problems that are listed


def verify(store: Store) -> list[str]:
    """What is wrong with a log: damage, gaps, tables that are not what the events say."""
    problems = list(itertools.islice(_problems(store), _MOST + 1))
    return problems if len(problems) <= _MOST else [*problems[:_MOST], "and more"]


def _problems(store: Store) -> Iterator[str]:
    with store.reading() as connection:
        yield from store.database.check(connection)
    upto, gone = store.archived(), store.archived("number")  # numbers of decisions up to this one are archived
    decisions: dict[str, Record] = {}
    last = upto
    for event in store.read_all(upto):
        if event.seq != last + 1:
            yield f"event {last + 1} is missing"
        last = event.seq
        if event.decision is None:
            continue
        before = decisions.get(event.decision)
        if before is None and event.kind != "decision" and int(event.decision, 16) <= gone:
            continue
        state = step(None if before is None else before.state, event)
        if state is None:
            yield f"event {event.seq}: {event.kind} of a decision that is {before.state if before else 'unknown'}"
        else:
            decisions[event.decision] = _after(before, event, state)
    for record in store.all_records():
        said = decisions.pop(record.id, None)
        if said is None:
            yield f"decision {record.id} is entered as {record.state}, but no event says so"
            continue
        for name in ("state", "reward", "learned", "at", "seq"):
            here, there = getattr(record, name), getattr(said, name)
            if here != there:
                yield f"decision {record.id}: {name} is entered as {here}, but its events say {there}"
    for name in decisions:
        yield f"decision {name} is not entered in the table"


def _after(before: Record | None, event: Event, state: str) -> Record:
    """A decision after an event; the body is not kept, a log may be long."""
    if before is None:
        return Record(str(event.decision), event.seq, event.at, {}, state)
    reward = event.body.get("reward")
    learned = reward if "own_contexts" in event.body or event.kind == "corrected" else before.learned
    return before._replace(
        state=state, reward=before.reward if event.kind in ("default", "void") else reward, learned=learned
    )


def backup(store: Store, target: Path) -> int:
    """Copy an SQLite log while the service runs; how many events the copy holds."""
    n, problems = _copy(store, target)
    if problems:
        raise FormatError(
            f"{store.name} is not in order: {problems[0]}. `kinbandits log restore --force` copies it as it is"
        )
    return n


def restore(source: Path, target: Path, force: bool = False) -> tuple[int, list[str]]:
    """Put a backup, or a log as a crash left it, in place as a log; how many events, and what is wrong with them.

    An existing log is never overwritten, nor mixed with files that another log has left behind.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(open_store(str(source), readonly=True)) as store:
        n, problems = _copy(store, target, force)
    if problems and not force:
        raise FormatError(f"{source} is not in order: {problems[0]}. Restore it nevertheless with --force")
    return n, problems


def _copy(store: Store, target: Path, keep: bool = False) -> tuple[int, list[str]]:
    """A verified copy: nothing is at ``target`` unless all of it is there, and in order or wanted as it is."""
    if not isinstance(store.database, SQLite):
        raise InvalidInputError("this copies SQLite logs; for PostgreSQL use pg_dump, which is consistent too")
    there = [p for p in (target.with_name(target.name + end) for end in ("", "-wal", "-shm")) if p.exists()]
    if there:
        raise InvalidInputError(
            f"{', '.join(map(str, there))} already exists; move it away first, or choose another name"
        )
    with tempfile.TemporaryDirectory(prefix=".kinbandits-", dir=target.parent) as folder:
        part = Path(folder) / "copy"
        with store.reading() as connection:
            connection.exec_driver_sql("VACUUM INTO ?", (str(part),))
        try:
            with closing(open_store(str(part), readonly=True)) as copy:
                problems, n = verify(copy), copy.last_seq()
        except (StoreUnavailableError, FormatError) as error:
            raise FormatError(f"{store.name} cannot be copied ({error})") from error
        if not problems or keep:
            part.chmod(0o600)
            with replacing(target) as place:
                part.rename(place)
    return n, problems


def archive(store: Store, path: Path, settings: Settings, before: float) -> tuple[int, int]:
    """Move what is older than ``before`` (seconds since 1970) to a file; how many decisions and events.

    What it has taught the model stays in the log, as the model's new beginning. Decisions in the file can no longer be
    rewarded, corrected or explained, and their keys are forgotten.
    """
    if path.suffix != ".parquet":
        raise InvalidInputError(f"{path} must end in .parquet")
    if path.exists():
        raise InvalidInputError(f"{path} already exists; name a new file")
    store.lock()
    earlier = store.archived()
    upto = earlier
    for event in store.read_all(earlier):
        if event.at >= before:
            break
        upto = event.seq
    if upto == earlier:
        return 0, 0
    fold = replay(store, settings, upto)
    fold.edits.events.clear()  # the beginning is final: later edits do not reach it
    n = export_log(store, path, upto)
    policy = packed(fold.policy)
    last, number = store.last_seq(), store.last_number(upto)
    now = max(time.time(), store.last_at())
    body = {"upto": upto, "decisions": n, "number": number, "path": str(path)}
    with store.transaction() as tx:
        tx.drop_before(store.database, upto)
        event = Event(last + 1, "archived", None, now, body)
        tx.begin_with(event, settings.fingerprint(), policy, json.dumps(fold.stats.to_data()))
    return n, upto - earlier
