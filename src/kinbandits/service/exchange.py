"""The log in files: export and import."""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kinbandits._files import replacing
from kinbandits.errors import InvalidInputError
from kinbandits.log_files import Source
from kinbandits.log_rows import Columns
from kinbandits.service.chooser import learned_row
from kinbandits.service.config import Settings
from kinbandits.service.events import Draft, decision_id
from kinbandits.service.features import encode
from kinbandits.service.problems import Problem
from kinbandits.service.rounds import decisions_with_rewards
from kinbandits.service.rules import check_context, check_reward
from kinbandits.service.store import Store

FORMATS = (".jsonl", ".csv", ".parquet")
_BATCH = 1000
_PART = 100_000  # rows of a Parquet file, where there are several
_COLUMNS = ["id", "at", "state", "arm", "candidates", "index", "context", "propensity", "mean", "width", "score"]
_COLUMNS += ["reward", "learned"]


def rows(store: Store, upto: int | None = None) -> Iterator[dict[str, Any]]:
    """One flat row per decision, in order; what was learned, up to an event, stands in ``learned``."""
    for record, learned in decisions_with_rewards(store, upto):
        told = {name: getattr(record, name) for name in ("id", "at", "state", "reward")} | {"learned": learned}
        yield {name: told[name] if name in told else record.body.get(name) for name in _COLUMNS}


def export_log(store: Store, path: Path) -> int:
    """Write one row per decision to a .jsonl, .csv or .parquet file, or to a new folder of Parquet files.

    Gives how many there were. In CSV and Parquet, lists are JSON text. Parquet needs pyarrow.
    """
    if path.suffix not in _WRITERS:
        raise InvalidInputError(f"{path} must end in one of {', '.join(FORMATS)}, or be a new folder")
    if path.is_dir():
        raise InvalidInputError(f"{path} is there already; give a folder that is not")
    if not path.suffix:
        path.parent.mkdir(parents=True, exist_ok=True)
    head, first = store.head(), store.event(1)
    of = Source("" if first is None else first.digest, str(head), store.count_decisions(head.seq))
    with replacing(path) as part:
        _WRITERS[path.suffix](rows(store, head.seq), part, of)
    return of.rows


def _jsonl(found: Iterator[dict[str, Any]], path: Path, of: Source) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in found:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _csv(found: Iterator[dict[str, Any]], path: Path, of: Source) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS)
        writer.writeheader()
        writer.writerows({k: _text(v) for k, v in row.items()} for row in found)


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value


def _parquet(found: Iterator[dict[str, Any]], path: Path, of: Source) -> None:
    """Arms may be numbers or text, contexts lists or lists of lists: text holds them all."""
    with _pyarrow().ParquetWriter(path, _schema(of)) as writer:
        for rows in _tables(found, of):
            writer.write_table(rows)


def _parts(found: Iterator[dict[str, Any]], path: Path, of: Source) -> None:
    """A folder of Parquet files, for logs that are read in parts."""
    path.mkdir()
    for i, rows in enumerate(_tables(found, of)):
        _pyarrow().write_table(rows, path / f"part-{i:05}.parquet")


def _tables(found: Iterator[dict[str, Any]], of: Source) -> Iterator[Any]:
    import pyarrow as pa

    while rows := list(itertools.islice(found, _PART)):
        flat = [{k: str(v) if k == "arm" else _text(v) for k, v in r.items()} for r in rows]
        yield pa.Table.from_pylist(flat, schema=_schema(of))


def _schema(of: Source) -> Any:
    import pyarrow as pa

    real = {"at", "propensity", "mean", "width", "score", "reward", "learned"}
    return pa.schema(
        [(c, pa.float64() if c in real else pa.int64() if c == "index" else pa.string()) for c in _COLUMNS],
        of.to_metadata(),
    )


_WRITERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet, "": _parts}


# -- import -----------------------------------------------------------------------------------------


def import_log(store: Store, path: Path, columns: Columns, settings: Settings, again: bool = False) -> int:
    """Append decisions and rewards of a .csv, .jsonl or .parquet file to a log; how many rounds. All, or none.

    Args:
        store: the log.
        path: the file.
        columns: which of its columns hold what; those of the context may be the names of the service's features.
            Without a propensity, arms were drawn evenly; without a time, it is now.
        settings: of the service, which name the arms and limit contexts and rewards.
        again: import a file that was imported before once more.
    """
    policy = settings.build()
    names = {str(a): a for a in policy.arms}
    mark = f"import-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}-{secrets.token_hex(4) if again else 0}"
    if store.known_keys([f"{mark}-1"]):
        raise InvalidInputError(f"{path} was imported into this log before; --again imports it once more")
    features = settings.service.n_features
    number, now = store.last_number(), time.time()
    drafts: list[Draft] = []
    for line, row in enumerate(_read(path), 1):
        try:
            arm = names[str(row[columns.arm])]
            context = _context(row, columns.context, settings)
            reward = float(row[columns.reward or "reward"])
            propensity = 1.0 / len(names) if columns.propensity is None else float(row[columns.propensity])
            at = now if columns.at is None else float(row[columns.at])
            check_context(context, features)
            check_reward(reward, policy.reward_range)
        except KeyError as error:
            raise InvalidInputError(f"{path}, row {line}: there is no column or arm {error}") from None
        except (TypeError, ValueError, Problem) as error:
            raise InvalidInputError(f"{path}, row {line}: {error}") from None
        if not math.isfinite(at) or not 0.0 < propensity <= 1.0:
            raise InvalidInputError(f"{path}, row {line}: times must be finite, and propensities in (0, 1]")
        features = len(context)
        number += 1
        body = {"context": context, "candidates": policy.arms, "arm": arm, "index": policy.arms.index(arm)}
        name = decision_id(store.slot, number)
        body = {**body, "propensity": propensity, "imported": True}
        drafts.append(Draft("decision", at, body, name, key=f"{mark}-{line}", request=mark))
        row = {"reward": reward, **learned_row(body), "delay": 0.0}
        drafts.append(Draft("reward", at, row, name))
    with store.transaction() as tx:
        for start in range(0, len(drafts), _BATCH):
            tx.append(drafts[start : start + _BATCH])
    return len(drafts) // 2


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
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)
    elif path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _object(path, number, line)
    elif path.suffix == ".parquet":
        yield from _pyarrow().read_table(path).to_pylist()
    else:
        raise InvalidInputError(f"{path} must end in one of {', '.join(FORMATS)}")


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise InvalidInputError(f"{path}, line {number} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInputError(f"{path}, line {number} is not a JSON object")
    return found


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InvalidInputError("Parquet needs pyarrow: pip install pyarrow; or use .jsonl or .csv") from error
    return parquet
