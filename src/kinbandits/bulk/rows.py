"""One partition of a log as checked arrays, and the account of its bad rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.bulk.table import Columns, Partition, Piece, Table, listed, parquet
from kinbandits.errors import InvalidInputError

GOOD, LEFT_OUT, OTHER_TIME = 0, -1, -2  # what `Rows.state` says of a row that is not bad
_SHOWN = 20  # bad rows that are named

PROBLEMS = {
    1: "the arm is missing or unknown",
    2: "the context is not {d} finite numbers",
    3: "the reward is not a finite number",
    4: "the reward is outside {limits}",
    5: "the time is not a number",
    6: "the propensity is missing",
    7: "the propensity is not a number",
    8: "the propensity is 0 or less",
    9: "the propensity is above 1",
    10: "the arm is not the candidate that the index names",
}


@dataclass(frozen=True)
class Checks:
    """What rows are checked against."""

    columns: Columns  # which hold what
    arms: tuple[str | int, ...]  # names of the policy's arms
    d: int  # numbers in a context
    limits: tuple[float, float] | None = None  # lowest and highest reward, if there are any
    since: float | None = None  # rows of an earlier time do not count
    until: float | None = None  # nor do those of this time and later
    propensities: bool = False  # whether they are needed

    @property
    def timed(self) -> bool:
        return self.since is not None or self.until is not None

    def problem(self, number: int) -> str:
        return PROBLEMS[number].format(d=self.d, limits=self.limits)


@dataclass
class Rows:
    """A partition as arrays. Entries of rows that are not good are arbitrary."""

    places: Indices
    state: Indices  # `GOOD`, `LEFT_OUT` (without a reward), `OTHER_TIME` (than asked for), or a key of `PROBLEMS`
    arms: Indices
    contexts: Matrix  # (n, d), of the arm played
    rewards: Vector
    propensities: Vector
    candidates: list[Any] | None = None  # per row their names, if the log has them; ``index`` is the one played
    own: list[Any] | None = None  # per row the contexts of all candidates, where each had its own
    states: list[str] | None = None  # of decisions, as ``kinbandits log export`` writes them
    index: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    @property
    def good(self) -> Mask:
        return np.asarray(self.state == GOOD)


def read(partition: Partition, checks: Checks) -> Rows:
    """The rows of a partition that count, checked."""
    import pyarrow as pa

    columns = checks.columns
    wanted = [columns.arm, str(columns.reward), *columns.context]
    extra = [str(columns.at)] if checks.timed else []
    extra += [str(columns.propensity), "candidates", "index", "state"] if checks.propensities else ["index"]
    tables, low = [], partition.place
    for piece in partition.pieces:
        if low < partition.high and low + piece.rows > partition.low:
            tables.append(_piece(piece, wanted, extra).slice(max(0, partition.low - low), partition.high - low))
        low += piece.rows
    try:
        table = pa.concat_tables(tables, promote_options="permissive").slice(0, partition.rows)
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        names = ", ".join(piece.path for piece in partition.pieces)
        raise InvalidInputError(f"columns have other types in some of the files {names} ({error})") from error
    return _checked(table, np.arange(partition.low, partition.high), checks)


def _piece(piece: Piece, wanted: list[str], extra: list[str]) -> Any:
    file = parquet().ParquetFile(piece.path)
    names = file.schema_arrow.names
    for name in wanted:
        if name not in names:
            raise InvalidInputError(f"{piece.path} has no column {name!r}; it has {', '.join(names)}")
    columns = list(dict.fromkeys([*wanted, *(name for name in extra if name in names)]))
    return file.read_row_groups(list(piece.groups), columns=columns)


def _checked(table: Any, places: Indices, checks: Checks) -> Rows:
    columns, n = checks.columns, len(places)
    state = np.zeros(n, dtype=np.int64)

    def note(bad: Mask, problem: int) -> None:
        state[bad & (state == GOOD)] = problem

    if checks.timed:
        at = _numbers(_column(table, str(columns.at)))
        early = at < (-np.inf if checks.since is None else checks.since)
        note(early | (at >= (np.inf if checks.until is None else checks.until)), OTHER_TIME)
        note(~np.isfinite(at), 5)
    note(_column(table, str(columns.reward)).is_null().to_numpy(zero_copy_only=False), LEFT_OUT)
    arms = _arm_numbers(_column(table, columns.arm), checks.arms)
    note(arms < 0, 1)
    index = _numbers(_column(table, "index")) if "index" in table.column_names else None
    contexts, own = _contexts(table, checks, index)
    note(np.asarray(~np.isfinite(contexts).all(axis=1)), 2)
    rewards = _numbers(_column(table, str(columns.reward)))
    note(~np.isfinite(rewards), 3)
    if checks.limits is not None:
        note((rewards < checks.limits[0]) | (rewards > checks.limits[1]), 4)
    rows = Rows(places, state, arms, contexts, rewards, np.ones(n), own=own)
    if checks.propensities:
        _add_propensities(rows, table, checks, index)
    return rows


def _add_propensities(rows: Rows, table: Any, checks: Checks, index: Vector | None) -> None:
    def note(bad: Mask, problem: int) -> None:
        rows.state[bad & rows.good] = problem

    if checks.columns.propensity not in table.column_names:
        note(np.ones(len(rows.state), dtype=bool), 6)
        return
    column = _column(table, str(checks.columns.propensity))
    note(column.is_null().to_numpy(zero_copy_only=False), 6)
    p = rows.propensities = _numbers(column)
    note(np.asarray(np.isnan(p)), 7)
    note(np.asarray(p <= 0.0), 8)
    note(np.asarray(p > 1.0 + 1e-12), 9)
    rows.index = rows.arms
    if "state" in table.column_names:
        rows.states = _column(table, "state").to_pylist()
    if "candidates" in table.column_names and index is not None:
        known = {str(a): a for a in checks.arms}
        lists = [listed(v) for v in _column(table, "candidates").to_pylist()]
        rows.candidates = [[known.get(str(a)) for a in names] for names in lists]
        rows.index = np.nan_to_num(index, nan=-1.0).astype(np.intp)
        wrong = [
            None in names or not 0 <= i < len(names) or names[i] != checks.arms[a]
            for names, i, a in zip(rows.candidates, rows.index.tolist(), rows.arms.tolist(), strict=True)
        ]
        note(np.array(wrong, dtype=bool), 10)


def _column(table: Any, name: str) -> Any:
    if name not in table.column_names:
        raise InvalidInputError(f"the logs have no column {name!r}; they have {', '.join(table.column_names)}")
    return table.column(name).combine_chunks()


def _numbers(column: Any) -> Vector:
    """As floats; NaN for what is no number."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _numbers(column.dictionary_decode())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(kind):
        micro = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return np.asarray(micro.to_numpy(zero_copy_only=False), dtype=np.float64) / 1e6
    return np.array([_number(v) for v in column.to_pylist()], dtype=np.float64)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return float("nan")


def _arm_numbers(column: Any, arms: Sequence[str | int]) -> Indices:
    """Which arm each name is; -1 for none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_nested(column.type):
        return np.full(len(column), -1)
    if not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    found = pc.index_in(column, value_set=pa.array([str(a) for a in arms]))
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.intp)


def _contexts(table: Any, checks: Checks, index: Vector | None) -> tuple[Matrix, list[Any] | None]:
    """(n, d), of the arm played; and per row those of all candidates, where they have contexts of their own."""
    import pyarrow as pa

    names, d = checks.columns.context, checks.d
    if len(names) > 1:
        return np.stack([_numbers(_column(table, name)) for name in names], axis=1), None
    column = _column(table, names[0])
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbers(column)[:, None], None
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if lists and not pa.types.is_nested(kind.value_type):
        lengths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
        contexts = np.full((len(column), d), np.nan)
        fits = lengths == d
        kept = column if fits.all() else column.filter(pa.array(fits))
        contexts[fits] = _numbers(kept.flatten()).reshape(-1, d)
        return contexts, None
    return _listed_contexts([listed(v) for v in column.to_pylist()], d, index)


def _listed_contexts(found: list[list[Any]], d: int, index: Vector | None) -> tuple[Matrix, list[Any] | None]:
    """The same from lists, or lists of lists with one for each candidate."""
    contexts = np.full((len(found), d), np.nan)
    own = False
    for i, value in enumerate(found):
        row: Any = value
        if value and isinstance(value[0], list):
            own |= len(value) > 1
            at = 0 if len(value) == 1 or index is None else int(np.nan_to_num(index[i], nan=-1.0))
            row = value[at] if 0 <= at < len(value) else []
            if any(len(v) != d for v in value):
                row = []
        if len(row) == d:
            contexts[i] = [_number(v) for v in row]
    return contexts, found if own else None


# -- bad rows ---------------------------------------------------------------------------------------


def bad_rows(rows: Rows) -> dict[str, NDArray[Any]]:
    """Counts by state, and the first bad rows: additive with `merge_bad_rows`."""
    bad = np.flatnonzero(rows.state > 0)[:_SHOWN]
    counts = np.bincount(rows.state + 2, minlength=max(PROBLEMS) + 3)
    return {"states": counts, "bad_places": rows.places[bad], "bad_states": rows.state[bad]}


def merge_bad_rows(a: dict[str, NDArray[Any]], b: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The account of two stretches of rows."""
    places, states = (np.concatenate([a[name], b[name]]) for name in ("bad_places", "bad_states"))
    first = np.argsort(places, kind="stable")[:_SHOWN]
    return {"states": a["states"] + b["states"], "bad_places": places[first], "bad_states": states[first]}


def account(found: dict[str, NDArray[Any]], table: Table, checks: Checks, bad: str) -> dict[str, int]:
    """How many rows are left out, by why. With ``bad="refuse"`` bad rows are an error that names the first."""
    counts = dict(zip(range(-2, max(PROBLEMS) + 1), found["states"].tolist(), strict=True))
    left_out = {
        "of another time": counts[OTHER_TIME],
        "without a reward": counts[LEFT_OUT],
        **{checks.problem(i): counts[i] for i in PROBLEMS},
    }
    left_out = {why: n for why, n in left_out.items() if n}
    several = sum(counts[i] for i in PROBLEMS)
    if several and bad == "refuse":
        why = "; ".join(f"{checks.problem(i)}: {counts[i]:,}" for i in PROBLEMS if counts[i])
        named = zip(found["bad_places"].tolist(), found["bad_states"].tolist(), strict=True)
        lines = "\n".join(f"  {table.where(place)}: {checks.problem(state)}" for place, state in named)
        raise InvalidInputError(
            f"{several:,} of {table.rows:,} rows are bad ({why}). The first of them:\n{lines}\n"
            'Mend them, or leave them out with bad="skip" (--bad skip)'
        )
    if not counts[GOOD]:
        raise InvalidInputError(f"no row is left of {table.rows:,}: {left_out}")
    return left_out
