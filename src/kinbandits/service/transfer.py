"""The log in files: export and import; rounds for evaluation; a shadow, which learns from the log as it grows."""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import math
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kinbandits as kb
from kinbandits._files import replacing
from kinbandits.errors import InvalidInputError, KinbanditsError, package
from kinbandits.log_rows import seconds
from kinbandits.logs import Log
from kinbandits.service.choose import learned_row
from kinbandits.service.config import LARGEST, MOST_FEATURES, Settings, encode
from kinbandits.service.events import Event, Record, decision_id
from kinbandits.service.learner import Fold
from kinbandits.service.store import LAST, Store

FORMATS = (".jsonl", ".csv", ".parquet")
_GROUP = 100_000  # rows of a row group of Parquet
_REAL = ("at", "propensity", "mean", "width", "reward", "learned")
_COLUMNS = ("id", "at", "state", "arm", "candidates", "index", "context", *_REAL[1:])


def decisions_with_rewards(store: Store, upto: int = LAST) -> Iterator[tuple[Record, float | None]]:
    """All decisions up to an event, in order, each with the reward that is learned of it, if there is one."""
    edits = store.edits()
    undone: set[str | None] = set()
    if any(e.kind == "rolled_back" for e in edits.events):
        undone = {e.decision for e in store.read_all() if "own_contexts" in e.body and edits.reward(e) is None}
    for record in store.all_records(upto):
        yield record, None if record.id in undone else record.learned


def export_log(store: Store, path: Path, upto: int | None = None) -> int:
    """Write one row per decision to a .jsonl, .csv or .parquet file; how many.

    In CSV and Parquet, lists are JSON text. Parquet needs pyarrow; the file says of which log it is, so that
    `kinbandits fit` learns no row twice.
    """
    if path.suffix not in FORMATS:
        raise InvalidInputError(f"{path} must end in one of {', '.join(FORMATS)}")
    last = store.last_seq() if upto is None else upto
    n = sum(1 for _ in store.all_records(last))
    rows = map(_row, decisions_with_rewards(store, last))
    with replacing(path) as part:
        if path.suffix == ".parquet":
            _parquet(rows, part, {"first": store.id, "head": f"{last}:{store.id}", "rows": n})
            return n
        with part.open("w", encoding="utf-8", newline="") as file:
            if path.suffix == ".jsonl":
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            else:
                writer = csv.DictWriter(file, _COLUMNS)
                writer.writeheader()
                writer.writerows(map(_flat, rows))
    return n


def _row(found: tuple[Record, float | None]) -> dict[str, Any]:
    fields = {**found[0].body, **found[0]._asdict(), "learned": found[1]}
    return {name: fields.get(name) for name in _COLUMNS}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {name: json.dumps(value) if isinstance(value, list) else value for name, value in row.items()}


def _parquet(rows: Iterator[dict[str, Any]], path: Path, about: dict[str, Any]) -> None:
    """Arms may be numbers or text, contexts lists or lists of lists: text holds them all."""
    pa, pq = (package(name, "Parquet needs", "pyarrow") for name in ("pyarrow", "pyarrow.parquet"))
    types = {c: pa.float64() if c in _REAL else pa.int64() if c == "index" else pa.string() for c in _COLUMNS}
    schema = pa.schema(list(types.items()), {b"kinbandits.log": json.dumps(about).encode()})
    with pq.ParquetWriter(path, schema) as writer:
        while some := [_flat(r) | {"arm": str(r["arm"])} for r in itertools.islice(rows, _GROUP)]:
            writer.write_table(pa.Table.from_pylist(some, schema=schema))


# -- import -----------------------------------------------------------------------------------------


def import_log(
    store: Store,
    path: Path,
    settings: Settings,
    *,
    arm: str = "arm",
    reward: str = "reward",
    context: Sequence[str] = ("context",),
    propensity: str | None = None,
    at: str | None = None,
    again: bool = False,
) -> int:
    """Append decisions and rewards of a .csv, .jsonl or .parquet file to a log; how many rounds. All, or none.

    ``arm``, ``reward``, ``context``, ``propensity``, ``at`` name its columns; those of the context may be the named
    features. Without a propensity arms were drawn evenly, without a time it is now. ``again`` imports a file twice.
    """
    store.lock()
    policy = settings.new_policy()
    names = {str(a): a for a in policy.arms}
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    mark = f"import-{digest}-{secrets.token_hex(4) if again else 0}"
    n, (low, high) = settings.service.n_features, policy.reward_range or (-LARGEST, LARGEST)
    number, seq = store.last_number(), store.last_seq()
    events: list[Event] = []
    outcomes: list[Record] = []
    for line, row in enumerate(_read(path), 1):
        try:
            name, value = names[str(row[arm])], float(row[reward])
            x = _context(row, context, settings)
            p = 1.0 / len(names) if propensity is None else float(row[propensity])
            when = time.time() if at is None else seconds(row[at], at)
            if not 1 <= len(x) <= MOST_FEATURES or (n is not None and len(x) != n):
                raise ValueError(f"a context has {n or f'1 to {MOST_FEATURES:,}'} numbers, got {len(x)}")
            if not all(math.isfinite(v) and abs(v) <= LARGEST for v in x):
                raise ValueError(f"numbers of a context are finite and at most {LARGEST:g}")
            if not (math.isfinite(value) and low <= value <= high):
                raise ValueError(f"a reward is between {low:g} and {high:g}, got {value}")
            if not math.isfinite(when) or not 0.0 < p <= 1.0:
                raise ValueError("times must be finite, and propensities in (0, 1]")
        except KeyError as error:
            raise InvalidInputError(f"{path}, row {line}: there is no column or arm {error}") from None
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{path}, row {line}: {error}") from None
        n, number = len(x), number + 1
        body = {"context": x, "candidates": list(policy.arms), "arm": name, "index": list(policy.arms).index(name)}
        body |= {"propensity": p, "imported": True}
        made = Event(seq + 1, "decision", decision_id(number), when, body, f"{mark}-{line}", mark)
        rewarded = {"reward": value, "delay": 0.0, **learned_row(body)}
        events += [made, Event(seq + 2, "reward", made.decision, when, rewarded)]
        outcomes.append(Record(decision_id(number), seq + 1, when, body, "rewarded", value, value))
        seq += 2
    with store.transaction() as tx:
        if tx.find([], [f"{mark}-1"]):
            raise InvalidInputError(f"{path} was imported into this log before; --again imports it once more")
        tx.append(events)
        tx.set_outcomes(outcomes)
    return len(outcomes)


def _context(row: dict[str, Any], columns: Sequence[str], settings: Settings) -> list[float]:
    named = settings.service.named_features
    if named and [f.name for f in named] == list(columns):
        return encode(named, {f.name: row[f.name] if f.values else float(row[f.name]) for f in named})
    if len(columns) == 1:
        value = row[columns[0]]
        parsed = json.loads(value) if isinstance(value, str) else value
        return [float(v) for v in (parsed if isinstance(parsed, list) else [parsed])]
    return [float(row[c]) for c in columns]


def _read(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        yield from package("pyarrow.parquet", "Parquet needs", "pyarrow").read_table(path).to_pylist()
        return
    if path.suffix not in FORMATS:
        raise InvalidInputError(f"{path} must end in one of {', '.join(FORMATS)}")
    with path.open(encoding="utf-8", newline="") as file:
        try:
            yield from csv.DictReader(file) if path.suffix == ".csv" else map(json.loads, file)
        except json.JSONDecodeError as error:
            raise InvalidInputError(f"{path} holds a line that is not JSON: {error}: {error.doc[:80]!r}") from None


# -- evaluation -------------------------------------------------------------------------------------


def missing_rewards(store: Store) -> str | None:
    """A warning for `kinbandits evaluate`, if there are decisions that nothing is learned of."""
    found = Counter((r.state, r.learned is None) for r in store.all_records())
    defaults = any(state in ("defaulted", "late") for state, _ in found)  # then open ones only wait for theirs
    missing = found["defaulted", True] + (0 if defaults else found["open", True])
    if not missing:
        return None
    return (
        f"{missing} decisions have no reward: the values are those of decisions that were rewarded. If no answer means "
        "a reward of 0, set default_reward = 0.0 in [service]"
    )


def _rounds(events: Sequence[Event]) -> Log:
    bodies = [e.body for e in events]
    contexts = [b["context"] for b in bodies]
    return Log.of_rounds(
        contexts=[c[0] if isinstance(c[0], list) and len(c) == 1 else c for c in contexts],
        candidates=[b["candidates"] for b in bodies],
        chosen=[b["index"] for b in bodies],
        rewards=[0.0] * len(events),
        propensities=[b["propensity"] for b in bodies],
    )


class Shadow:
    """A policy that learns from a log and says what it would have chosen at each decision, before it learns its
    reward."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._fold = store, Fold(store, settings)
        self._asked: dict[str, tuple[float, float, float, float]] = {}  # by decision
        self._rows: list[tuple[float, ...]] = []  # reward, propensity, target of the chosen, its mean, that of others

    def follow(self) -> kb.ope.Evaluation | None:
        """Read what is new; what it would have earned a round, and ``logged``, what was. None without rounds."""
        while events := self._store.read(self._fold.stats.seq, 32):
            self._fold.flush()
            self._ask([e for e in events if e.kind == "decision" and e.body["propensity"] > 0.0])
            for event in events:
                reward = self._fold.edits.reward(event)
                if reward is not None and event.decision in self._asked:
                    self._rows.append((reward, *self._asked.pop(event.decision)))
            self._fold.apply(events)
        if not self._rows:
            return None
        r, p, pi, q, others = np.array(self._rows).T
        target, model = np.column_stack([pi, 1.0 - pi]), np.column_stack([q, others])
        return kb.ope.estimate(r, p, np.zeros(len(r), dtype=int), target, model)

    def _ask(self, events: list[Event]) -> None:
        """How likely it would have chosen what was chosen, and its means; a decision it cannot make is left out."""
        if not events:
            return
        rounds, policy = _rounds(events), self._fold.policy
        try:
            target = rounds.table(policy.probabilities_many)
            means = rounds.table(lambda contexts, names: policy.predict_many(contexts, names).mean)
        except KinbanditsError:
            for one in events if len(events) > 1 else ():
                self._ask([one])
            return
        for event, pi, q in zip(events, target, means, strict=True):
            i = event.body["index"]
            rest = 1.0 - pi[i]
            others = (float(pi @ q) - pi[i] * q[i]) / rest if rest > 1e-12 else 0.0
            self._asked[str(event.decision)] = (event.body["propensity"], float(pi[i]), float(q[i]), others)
