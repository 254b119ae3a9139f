"""Rows of a table as checked arrays, and the account of those that are bad.

A row without a reward (null) has not been answered: it is left out and counted. A bad row (NaN, unknown arm, wrong
type) is refused, with its file and number, or skipped and counted.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import suggest
from kinbandits.errors import InvalidInputError, LogWarning

ArmName = str | int
GOOD, NO_REWARD, OTHER_TIME = 0, -1, -2  # what is said of a row that is not bad; else a key of PROBLEMS
NAMED = 20  # bad rows that an error names
PROBLEMS = {
    1: "the arm is missing or unknown",
    2: "the context is not {d} finite numbers",
    3: "the reward is not a finite number",
    4: "the reward is outside {limits}",
    5: "the time is not a number",
    6: "the propensity is missing",
    7: "the propensity is not a number above 0 and at most 1",
    8: "the arm is not the candidate that the index names",
}


@dataclass(frozen=True)
class Columns:
    """Which columns hold what.

    Attributes:
        arm: the arm played.
        reward: its column; left out, ``learned`` (of a service's log) if there is one, else ``reward``. An empty
            entry is a row whose reward has not come.
        context: columns of numbers, in order; or one that holds lists of numbers, or JSON text of them. Left out,
            ``context`` if there is such a column, else all columns that are not named otherwise.
        propensity: with which probability the arm was chosen. None: all arms were drawn evenly.
        at: time in seconds since 1970; needed for ``since`` and ``until`` alone.
    """

    arm: str = "arm"
    reward: str | None = None
    context: Sequence[str] | None = None
    propensity: str | None = "propensity"
    at: str | None = "at"

    def settled(self, names: Sequence[str]) -> Columns:
        """With reward and context named; a column that is named must be there."""
        reward = self.reward or ("learned" if "learned" in names else "reward")
        others = {self.arm, reward, self.propensity, self.at, *_OF_SERVICES}
        context = self.context
        if context is None:
            context = ["context"] if "context" in names else [n for n in names if n not in others]
        for name in (self.arm, reward, *context):
            if name not in names:
                raise InvalidInputError(
                    f"the log has no column {name!r}; it has {', '.join(names)}{suggest(name, names)}. Say "
                    "which holds what: Columns(arm=..., reward=..., context=...), or --arm, --reward, --context"
                )
        if not context:
            raise InvalidInputError("the log has no columns of contexts; add a column of ones if there is nothing")
        return Columns(self.arm, reward, tuple(context), self.propensity, self.at)


_OF_SERVICES = ("id", "learned", "candidates", "index", "state", "mean", "width", "score")


@dataclass(frozen=True)
class Account:
    """How many rows are good, left out or bad, and where the first bad ones are. Accounts add up."""

    counts: Indices  # by what is said of a row, from OTHER_TIME on
    first: tuple[tuple[str, int], ...] = ()  # place in words, problem
    said: tuple[Any, ...] = ()  # what problems are formatted with

    @classmethod
    def of(cls, state: Indices, places: Sequence[str], d: int, limits: object) -> Account:
        """From what is said of every row; ``places`` names the first bad ones in words."""
        counts = np.bincount(state + 2, minlength=len(PROBLEMS) + 3)
        return cls(counts, tuple(zip(places, state[state > 0][:NAMED].tolist(), strict=True)), (d, limits))

    def __add__(self, other: Account) -> Account:
        return Account(self.counts + other.counts, (self.first + other.first)[:NAMED], self.said)

    def left_out(self, bad: str = "refuse") -> dict[str, int]:
        """How many rows are left out, by why. With ``bad="refuse"`` bad rows are an error that names the first."""
        counts, total = dict(enumerate(self.counts.tolist(), OTHER_TIME)), int(self.counts.sum())
        words = {i: text.format(d=self.said[0], limits=self.said[1]) for i, text in PROBLEMS.items()}
        many = sum(counts[i] for i in PROBLEMS)
        if many and bad == "refuse":
            why = "; ".join(f"{words[i]}: {counts[i]:,}" for i in PROBLEMS if counts[i])
            lines = "\n".join(f"  {place}: {words[problem]}" for place, problem in self.first)
            raise InvalidInputError(
                f"{many:,} of {total:,} rows are bad ({why}). The first of them:\n{lines}\n"
                'Fix them, or skip them with bad="skip" (--bad skip)'
            )
        reasons = {"of another time": counts[OTHER_TIME], "without a reward": counts[NO_REWARD]}
        reasons |= {words[i]: counts[i] for i in PROBLEMS}
        found = {why: n for why, n in reasons.items() if n}
        if not counts[GOOD]:
            raise InvalidInputError(f"no row is left of {total:,}: {found or 'the log has no rows'}")
        return found


@dataclass(frozen=True)
class Reading:
    """How rows are read and checked."""

    columns: Columns
    arms: tuple[ArmName, ...]
    d: int
    limits: tuple[float, float] | None = None
    since: float | None = None
    until: float | None = None
    propensities: bool = False
    text: bool = False  # arms are written as text, whatever they are


def checked(table: Any, reading: Reading, place: int) -> tuple[dict[str, Any], Indices]:
    """The good rows of a narwhals table, as fields of a `Log`, and what is said of every row.

    ``place`` is that of the first row.
    """
    columns, names, n = reading.columns, table.columns, len(table)
    state = np.zeros(n, dtype=np.intp)

    def note(bad: Any, problem: int) -> None:
        state[np.asarray(bad, dtype=bool) & (state == GOOD)] = problem

    at = _numbers(table[columns.at]) if columns.at in names else np.full(n, np.nan)
    if reading.since is not None or reading.until is not None:
        if columns.at not in names:
            raise InvalidInputError(f"the log has no column {columns.at!r} of times, which since and until need")
        early = at < (-np.inf if reading.since is None else reading.since)
        note(early | (at >= (np.inf if reading.until is None else reading.until)), OTHER_TIME)
        note(~np.isfinite(at), 5)
    rewards = _numbers(table[columns.reward])
    note(table[columns.reward].is_null().to_numpy(), NO_REWARD)
    arms = table[columns.arm].to_list()
    played = codes(arms, reading.arms, reading.text)
    note(played < 0, 1)
    if n and (played < 0).all() and (some := [a for a in arms if a is not None]):
        known = ", ".join(map(repr, reading.arms[:8]))
        raise InvalidInputError(f"no row has an arm of {known}: they have arms such as {some[0]!r}{kinds(some[0])}")
    index = _numbers(table["index"]) if "index" in names else None
    contexts, own = _contexts(table, reading, index)
    note(~np.isfinite(contexts).all(axis=1), 2)
    note(~np.isfinite(rewards), 3)
    if reading.limits is not None:
        note((rewards < reading.limits[0]) | (rewards > reading.limits[1]), 4)
    p, candidates, at_index = np.full(n, 1.0 / max(len(reading.arms), 1)), None, played
    open_at, defaulted = -1, False
    if reading.propensities:
        if columns.propensity is not None and columns.propensity in names:
            p = _numbers(table[columns.propensity])
            note(table[columns.propensity].is_null().to_numpy(), 6)
            note(~((p > 0.0) & (p <= 1.0 + 1e-12)), 7)
        elif columns.propensity is not None:
            note(np.ones(n), 6)
        if "state" in names:
            states = table["state"].to_list()
            open_at = place + states.index("open") if "open" in states else -1
            defaulted = "defaulted" in states or "late" in states
        if "candidates" in names and index is not None:
            by_text = {str(a): a for a in reading.arms}
            lists = [listed(v) for v in table["candidates"].to_list()]
            candidates = [tuple(by_text.get(str(a)) for a in found) for found in lists]
            at_index = np.nan_to_num(index, nan=-1.0).astype(np.intp)
            right = zip(candidates, at_index.tolist(), played.tolist(), strict=True)
            note([None in c or not 0 <= i < len(c) or c[i] != reading.arms[a] for c, i, a in right], 8)
    good = np.flatnonzero(state == GOOD)

    def kept(values: Any) -> Any:
        return None if values is None else tuple(values[i] for i in good.tolist())

    arrays = {"played": played, "contexts": contexts, "rewards": rewards, "propensities": p, "index": at_index}
    arrays |= {"places": place + np.arange(n), "times": at}
    fields: dict[str, Any] = {name: array[good] for name, array in arrays.items()}
    fields |= {"candidates": kept(candidates), "own": kept(own), "open_at": open_at, "defaulted": defaulted}
    return fields, state


def _numbers(series: Any) -> Vector:
    """A column as floats; NaN for what is no number."""
    values = series.to_numpy()
    if values.dtype.kind in "buif":
        return np.array(values, dtype=np.float64)
    if values.dtype.kind == "M":
        missing = np.isnat(values)
        return np.where(missing, np.nan, values.astype("datetime64[us]").astype(np.int64) / 1e6)
    return np.array([_number(v) for v in series.to_list()], dtype=np.float64)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return float("nan")


def arm_key(value: object) -> object:
    """What makes an arm the same: text and numbers never are; 1.0 of a column with gaps is 1."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_) or value is None:
        return None
    if isinstance(value, int | np.integer | float | np.floating) and value == value and float(value).is_integer():
        return int(value)
    return None


def codes(names: Sequence[Any], arms: Sequence[ArmName], text: bool = False) -> Indices:
    """Which arm each name is; -1 for none. With ``text``, names are compared as they are written."""
    place: dict[object, int] = {arm_key(a): i for i, a in enumerate(arms)}
    if text and len({str(a) for a in arms}) == len(arms):
        place = {str(a): i for i, a in enumerate(arms)}
        keys = {name: str(arm_key(name)) for name in dict.fromkeys(names)}
        return np.array([place.get(keys[name], -1) for name in names], dtype=np.intp)
    return np.array([place.get(name if type(name) is str else arm_key(name), -1) for name in names], dtype=np.intp)


def arm_list(names: Iterable[Any], arms: Sequence[ArmName] | None, *, skip: bool = False) -> list[ArmName]:
    """All arms: those given, or those found, numbers first; names that are none are refused (or skipped)."""
    found: dict[Any, None] = {}
    for name in names if arms is None else arms:
        key = arm_key(name)
        if key is not None:
            found[key] = None
        elif not skip:
            raise InvalidInputError(f"an arm is {name!r}; arms are named by text or whole numbers, without gaps")
    listed = list(found)
    return listed if arms is not None else sorted(listed, key=lambda a: (isinstance(a, str), a))


def kinds(name: object) -> str:
    """A hint for names of another kind."""
    kind = "text" if isinstance(name, str) else "a number"
    return f" ({kind}; the number 1 and the text '1' are different arms)"


def listed(value: Any) -> list[Any]:
    """A list from a list, from JSON text, or from a number; empty if it is none."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [value]
    return value if isinstance(value, list) else []


def width(table: Any, columns: Columns) -> int:
    """How many numbers a context has; 0 if no row has one."""
    context = columns.context or ()
    if len(context) > 1:
        return len(context)
    found: Any = next((f for v in table[context[0]].to_list() if (f := listed(v))), [])
    return len(found[0]) if found and isinstance(found[0], list) else len(found)


def _contexts(table: Any, reading: Reading, index: Vector | None) -> tuple[Matrix, list[Matrix | None] | None]:
    """(n, d), of the arm played; and per row those of all candidates, where they have contexts of their own."""
    names, d = reading.columns.context or (), reading.d
    if len(names) > 1:
        found = []
        for name in names:
            values = _numbers(table[name])
            if len(values) and np.isnan(values).all() and (some := [v for v in table[name].to_list() if v is not None]):
                raise InvalidInputError(
                    f"column {name!r} holds {some[0]!r}, not numbers; encode it (one column per category) or "
                    "leave it out: name the columns of the context"
                )
            found.append(values)
        return np.stack(found, axis=1), None
    raw = table[names[0]].to_numpy()
    if raw.dtype.kind in "uif":
        return np.array(raw, dtype=np.float64)[:, None], None
    lists = [listed(v) for v in table[names[0]].to_list()]
    contexts = np.full((len(lists), d), np.nan)
    own: list[Matrix | None] = [None] * len(lists)
    for i, value in enumerate(lists):
        row: Any = value
        if value and isinstance(value[0], list):
            at = 0 if len(value) == 1 or index is None else int(np.nan_to_num(index[i], nan=-1.0))
            fits = 0 <= at < len(value) and all(len(v) == d for v in value)
            row = value[at] if fits else []
            own[i] = np.array(value, dtype=np.float64) if fits and len(value) > 1 else None
        if len(row) == d:
            contexts[i] = [_number(v) for v in row]
    return contexts, own if any(x is not None for x in own) else None


def check_propensities(p: Vector, r: Vector) -> None:
    """Refuse what is no probability."""
    if p.size and (p.min() <= 0.0 or p.max() > 1.0 + 1e-12):
        swapped = r.min() > 0.0 and r.max() <= 1.0
        hint = "; the rewards could be propensities: are the two swapped?" if swapped else ""
        raise InvalidInputError(f"propensities must be above 0 and at most 1; they are in [{p.min()}, {p.max()}]{hint}")


def swapped(table: Any, columns: Columns) -> str:
    """A hint, where the rewards could be propensities."""
    r = _numbers(table[columns.reward])
    if not (np.nanmin(r) > 0.0 and np.nanmax(r) <= 1.0):
        return ""
    return f"; column {columns.reward!r} could be propensities: is it swapped with {columns.propensity!r}?"


def warn_of_keys(table: Any, names: Sequence[str]) -> None:
    """Whole numbers that hardly ever repeat tell rows apart, not what they have in common."""
    for name in names:
        values = _numbers(table[name])
        values = values[np.isfinite(values)]
        distinct = len(np.unique(values))
        if len(values) >= 50 and distinct > 0.5 * len(values) and np.equal(values, np.floor(values)).all():
            warnings.warn(
                f"column {name!r} has {distinct:,} values in {len(values):,} rows, as a number of the row or the "
                "user would; as a feature it hides the others. Leave it out: name the columns of the context",
                LogWarning,
                stacklevel=4,
            )


def seconds(time: str) -> float:
    """Seconds since 1970 of a date or time (UTC unless it says otherwise), or of such a number.

    >>> seconds("1970-01-02"), seconds("1970-01-01T01:00+01:00"), seconds("12.5")
    (86400.0, 0.0, 12.5)
    """
    with contextlib.suppress(ValueError):
        return float(time)
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        raise InvalidInputError(f"since must be like 2026-11-15 or 2026-11-15T08:00, got {time!r}") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
