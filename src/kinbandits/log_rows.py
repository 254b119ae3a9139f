"""Rows of a table as checked arrays, and the account of those that are left out or bad.

A row without a reward (null) has not been answered: it is left out and counted. A bad row (NaN, unknown arm, wrong
type) is refused, with its file and number, or skipped and counted.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import suggest
from kinbandits.errors import InvalidInputError, LogWarning

ArmName = str | int
Limits = tuple[float, float] | None  # of rewards
SAID = 10  # bad rows that an error names
LATEST = 1e11  # seconds since 1970 are below it, milliseconds above
LEFT_OUT = ("of another time", "without a reward")  # what is said of rows that are not bad
_OF_SERVICES = ("id", "learned", "candidates", "index", "state", "mean", "width", "score")


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
        at: the time, as a date, text such as 2026-11-15T08:00, or seconds since 1970; for ``since`` and ``until``.
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
                hint = " (are its fields separated by semicolons? It needs commas)" if ";" in names[0] else ""
                raise InvalidInputError(
                    f"the log has no column {name!r}; it has {', '.join(names)}{hint}{suggest(name, names)}. Say "
                    "which holds what: Columns(arm=..., reward=..., context=...), or --arm, --reward, --context"
                )
        if not context:
            raise InvalidInputError("the log has no columns of contexts; add a column of ones if there is nothing")
        return Columns(self.arm, reward, tuple(context), self.propensity, self.at)


@dataclass(frozen=True)
class Account:
    """How many rows are good; why others were left out or are bad; and where the first bad ones are."""

    good: int
    left: Counter[str]
    bad: Counter[str]
    first: tuple[str, ...]

    def __add__(self, other: Account) -> Account:
        first = (self.first + other.first)[:SAID]
        return Account(self.good + other.good, self.left + other.left, self.bad + other.bad, first)

    @property
    def rows(self) -> int:
        return self.good + self.left.total() + self.bad.total()

    def left_out(self, bad: str = "refuse") -> dict[str, int]:
        """How many rows are left out, by why. With ``bad="refuse"`` bad rows are an error that names the first."""
        wrong, total = self.bad.total(), self.rows
        if wrong and bad == "refuse":
            why = "; ".join(f"{words}: {n:,}" for words, n in self.bad.items())
            raise InvalidInputError(
                f"{wrong:,} of {total:,} rows are bad ({why}). The first of them:\n  "
                + "\n  ".join(self.first)
                + '\nFix them, or skip them with bad="skip" (--bad skip)'
            )
        found = {**self.left, **self.bad}
        if not self.good:
            raise InvalidInputError(f"no row is left of {total:,}: {found or 'the log has no rows'}")
        return found


Said = tuple[Any, str, Any]  # a mask of rows, what is said of them, and by row the value that it is about


def accounted(n: int, said: Sequence[Said], where: str = "", row: int = 0) -> tuple[Indices, Account]:
    """Which of n rows are good, and the account of all; the first that is said of a row counts.

    The first row is number ``row`` (from 0) of a file (``where``).
    """
    which = np.zeros(n, dtype=np.intp)
    for i, (rows, *_) in enumerate(said, 1):
        which[np.asarray(rows, dtype=bool) & (which == 0)] = i
    counts = Counter({words: k for i, (_, words, _) in enumerate(said, 1) if (k := int((which == i).sum()))})
    left = Counter({words: counts.pop(words) for words in LEFT_OUT if words in counts})
    bad = ((i, *said[which[i] - 1][1:]) for i in np.flatnonzero(which).tolist())
    lines = (f"{where}row {row + i + 1}: {words} ({values[i]})" for i, words, values in bad if words not in LEFT_OUT)
    first = tuple(itertools.islice(lines, SAID))
    good = np.flatnonzero(which == 0)
    return good, Account(len(good), left, counts, first)


@dataclass(frozen=True)
class Reading:
    """How rows are read and checked."""

    columns: Columns
    arms: tuple[ArmName, ...]
    d: int
    limits: Limits = None
    since: float | None = None
    until: float | None = None
    propensities: bool = False
    text: bool = False  # arms are written as text, whatever they are


def checked(table: Any, reading: Reading, place: int, where: str = "", row: int = 0) -> tuple[dict[str, Any], Account]:
    """The good rows of a narwhals table as fields of a `Log`, and the account of all.

    The first row has this ``place`` in the log and is number ``row`` (from 0) of its file (``where``).
    """
    columns, names, n = reading.columns, table.columns, len(table)
    said: list[Said] = []
    at = numbers(table[columns.at], seconds) if columns.at in names else np.full(n, np.nan)
    if reading.since is not None or reading.until is not None:
        if columns.at not in names:
            raise InvalidInputError(f"the log has no column {columns.at!r} of times, which since and until need")
        early = at < (-np.inf if reading.since is None else reading.since)
        said += [
            (at > LATEST, "the time is too large for seconds since 1970; divide milliseconds by 1000", at),
            (early | (at >= (np.inf if reading.until is None else reading.until)), LEFT_OUT[0], at),
            (
                ~np.isfinite(at),
                "the time is not like 2026-11-15T08:00, nor a number of seconds since 1970",
                table[columns.at],
            ),
        ]
    arms, rewards = table[columns.arm].to_list(), numbers(table[columns.reward])
    played = codes(arms, reading.arms, reading.text)
    if n and (played < 0).all() and (some := [a for a in arms if a is not None]):
        known = ", ".join(map(repr, reading.arms[:8]))
        raise InvalidInputError(f"no row has an arm of {known}: they have arms such as {some[0]!r}{kinds(some[0])}")
    index = numbers(table["index"]) if "index" in names else None
    contexts, own = _contexts(table, reading, index)
    said += [
        (table[columns.reward].is_null().to_numpy(), LEFT_OUT[1], rewards),
        (played < 0, "the arm is missing or unknown", arms),
        (~np.isfinite(contexts).all(axis=1), f"the context is not {reading.d} finite numbers", contexts),
        (~np.isfinite(rewards), "the reward is not a finite number", table[columns.reward]),
        outside(rewards, reading.limits),
    ]
    p, candidates, chosen = np.full(n, 1.0 / max(len(reading.arms), 1)), None, played
    states = table["state"].to_list() if reading.propensities and "state" in names else []
    if reading.propensities and columns.propensity is not None:
        if columns.propensity not in names:
            raise InvalidInputError(
                f"the log has no column {columns.propensity!r} of propensities; it has {', '.join(names)}. Name it "
                "with propensity=... (--propensity), or say propensity=None (--propensity '') if arms were drawn evenly"
            )
        p = numbers(table[columns.propensity])
        hint = swapped(rewards, f"column {columns.reward!r}", repr(columns.propensity))
        said.append((table[columns.propensity].is_null().to_numpy(), "the propensity is missing", p))
        wrong = f"the propensity is not a number above 0 and at most 1{hint}"
        said.append((~((p > 0.0) & (p <= 1.0 + 1e-12)), wrong, table[columns.propensity]))
    if reading.propensities and "candidates" in names and index is not None:
        by_text = {str(a): a for a in reading.arms}
        candidates = [tuple(by_text.get(str(a)) for a in listed(v)) for v in table["candidates"].to_list()]
        chosen = np.nan_to_num(index, nan=-1.0).astype(np.intp)
        right = zip(candidates, chosen.tolist(), played.tolist(), strict=True)
        mixed = [None in c or not 0 <= i < len(c) or c[i] != reading.arms[a] for c, i, a in right]
        said.append((mixed, "the arm is not the candidate that the index names", arms))
    good, account = accounted(n, said, where, row)
    arrays = {"played": played, "contexts": contexts, "rewards": rewards, "propensities": p, "index": chosen}
    arrays |= {"places": place + np.arange(n), "times": at}
    fields: dict[str, Any] = {name: array[good] for name, array in arrays.items()}
    for name, values in (("candidates", candidates), ("own", own)):
        fields[name] = None if values is None else tuple(values[i] for i in good.tolist())
    fields["open_at"] = place + states.index("open") if "open" in states else -1
    return fields | {"defaulted": "defaulted" in states or "late" in states}, account


def outside(rewards: Vector, limits: Limits) -> Said:
    """Which rewards are outside the limits, and how to say it."""
    low, high = limits or (-np.inf, np.inf)
    return (rewards < low) | (rewards > high), f"the reward is outside {limits}", rewards


def check_propensities(p: Vector, r: Vector, least: float = 0.0) -> None:
    """Refuse what is no probability, or below ``least``."""
    if p.size and (p.min() <= 0.0 or p.min() < least or p.max() > 1.0 + 1e-12):
        raise InvalidInputError(
            f"propensities must be above 0{f' (not below {least:g})' if least else ''} and at most 1; they are in "
            f"[{p.min()}, {p.max()}]{swapped(r, 'the rewards', 'the two')}"
        )


def swapped(rewards: Vector, these: str, those: str) -> str:
    """A hint, where the rewards could be propensities."""
    found = rewards[np.isfinite(rewards)]
    if found.size and found.min() > 0.0 and found.max() <= 1.0:
        return f"; {these} could be propensities: swapped with {those}?"
    return ""


def numbers(series: Any, read: Callable[[Any], float] = float) -> Vector:
    """A column as floats; NaN for what is no number (or what ``read`` refuses)."""
    values = series.to_numpy()
    if values.dtype.kind in "buif":
        return np.array(values, dtype=np.float64)
    if values.dtype.kind == "M":
        return np.where(np.isnat(values), np.nan, values.astype("datetime64[us]").astype(np.int64) / 1e6)
    found = np.full(len(values), np.nan)
    for i, value in enumerate(series.to_list()):
        with contextlib.suppress(TypeError, ValueError):
            found[i] = read(value)
    return found


def seconds(time: object, argument: str = "since") -> float:
    """Seconds since 1970 of a date or time (UTC unless it says otherwise), or of such a number.

    >>> seconds("1970-01-02"), seconds("1970-01-01T01:00+01:00"), seconds("12.5")
    (86400.0, 0.0, 12.5)
    """
    with contextlib.suppress(TypeError, ValueError):
        return float(time)  # type: ignore[arg-type]
    try:
        found = datetime.fromisoformat(str(time).strip())
    except ValueError:
        raise InvalidInputError(f"{argument} must be like 2026-11-15 or 2026-11-15T08:00, got {time!r}") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


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
    place: dict[object, int] = {a: i for i, a in enumerate(arms)}
    if text and len({str(a) for a in arms}) == len(arms):
        place = {str(a): i for a, i in place.items()}
        names = [name if name is None or type(name) is str else str(arm_key(name)) for name in names]
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
    return list(found) if arms is not None else sorted(found, key=lambda a: (isinstance(a, str), a))


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
    if len(names) > 1 or table[names[0]].to_numpy().dtype.kind in "buif":
        found = {name: numbers(table[name]) for name in names}
        for name, values in found.items():
            if len(values) and np.isnan(values).all() and (some := [v for v in table[name].to_list() if v is not None]):
                raise InvalidInputError(
                    f"column {name!r} holds {some[0]!r}, not numbers; encode it (one column per category) or "
                    "leave it out: name the columns of the context"
                )
        return np.stack(list(found.values()), axis=1), None
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
            with contextlib.suppress(TypeError, ValueError):
                contexts[i] = [float(v) for v in row]
    return contexts, own if any(x is not None for x in own) else None


def warn_of_keys(table: Any, asked: Columns, found: Columns) -> None:
    """Whole numbers that hardly ever repeat tell rows apart, not what they have in common."""
    for name in found.context or () if asked.context is None and "context" not in table.columns else ():
        values = numbers(table[name])
        values = values[np.isfinite(values)]
        distinct = len(np.unique(values))
        if len(values) >= 50 and distinct > 0.5 * len(values) and np.equal(values, np.floor(values)).all():
            warnings.warn(
                f"column {name!r} has {distinct:,} values in {len(values):,} rows, as a number of the row or the "
                "user would; as a feature it hides the others. Leave it out: name the columns of the context "
                "(contexts=..., --context)",
                LogWarning,
                stacklevel=4,
            )
