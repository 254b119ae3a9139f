"""Logged rounds: one container for all that teaches or evaluates a policy, in memory or file by file.

    log = kb.Log.from_frame(frame, arm="item", reward="clicked", propensity="p")   # pandas, polars, pyarrow
    log = kb.logs.LogFiles.of("rows/", Columns(context=("age", "hour")))           # Parquet or CSV, of any length

`kinbandits.log_files` reads files part by part (row groups of Parquet, a whole CSV file); each part is a checked
`Log`. Rows are numbered from the first file to the last: this is their *place*.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import as_float64, rows_of_contexts
from kinbandits._frames import as_table, categories, is_frame, listed_column, read_table
from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits._value import one_of
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.log_rows import (
    NAMED,
    Account,
    ArmName,
    Columns,
    Reading,
    arm_list,
    check_propensities,
    checked,
    codes,
    kinds,
    swapped,
    warn_of_keys,
    width,
)

__all__ = ["Columns", "Log"]

PART_ROWS = 2**17  # of a part of a log, about
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True, eq=False)
class Log:
    """Logged rounds in memory, in order of time. `of`, `of_rounds`, `of_tasks`, `from_frame` and `read` make one.

    Attributes:
        arms: names of all arms that could be played.
        played: (n,) the number of the arm played, in ``arms``.
        contexts: (n, d) of the candidate played.
        rewards, propensities, places, times: (n,) each. Propensities are 1 / N where arms were drawn evenly, times
            NaN where they were not logged.
        index: (n,) which candidate was played.
        candidates: per row the names of its candidates, where these were not all arms.
        own: per row the contexts (k, d) of all candidates, where each had its own, else None.
        left_out: how many rows of the source are not here, by why.

    >>> log = Log.of(["a", "b", "a"], [[0.0], [1.0], [2.0]], [1.0, 0.0, 0.5])
    >>> log, log.played_arms
    (Log(3 rows of 2 arms, 1 feature, mean reward 0.5), ['a', 'b', 'a'])
    """

    arms: tuple[ArmName, ...]
    played: Indices
    contexts: Matrix
    rewards: Vector
    propensities: Vector
    places: Indices
    index: Indices
    times: Vector
    candidates: tuple[tuple[ArmName, ...], ...] | None = None
    own: tuple[Matrix | None, ...] | None = None
    open_at: int = -1  # of a service's log: place of the first decision that is open; -1 for none
    defaulted: bool = False  # and whether decisions without an answer got a reward by default
    left_out: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        played: Sequence[ArmName],
        contexts: ArrayLike,
        rewards: ArrayLike,
        *,
        propensities: ArrayLike | None = None,
        arms: Sequence[ArmName] | None = None,
    ) -> Log:
        """From arm names (n,), contexts (n, d), rewards (n,), and propensities (n,) (else arms were drawn evenly).

        ``arms`` are all that could have been played (default: the categories of the column, or those played).
        """
        column = listed_column(played)
        names = list(played) if column is None else column
        known = tuple(arm_list(names, categories(played) if arms is None else arms))
        place = codes(names, known)
        if len(place) and place.min() < 0:
            row = int(np.argmin(place))
            raise InvalidInputError(f"played[{row}] is {names[row]!r}, which is not among the arms {list(known[:8])}")
        X, r = rows_of_contexts(contexts, None), as_float64("rewards", rewards)
        p = np.full(len(names), 1.0 / max(len(known), 1))
        p = p if propensities is None else as_float64("propensities", propensities)
        if r.shape != (len(names),) or len(X) != len(names) or p.shape != r.shape:
            raise InvalidInputError(
                f"arms, contexts, rewards, propensities must have one entry per row, got {len(names)}, {len(X)}, "
                f"{r.shape} and {p.shape}"
            )
        if not names:
            raise InvalidInputError("the log is empty")
        check_propensities(p, r)
        return cls(known, place, X, r, p, np.arange(len(r)), place, np.full(len(r), np.nan))

    @classmethod
    def of_rounds(
        cls,
        contexts: Sequence[Any],
        candidates: Sequence[Sequence[ArmName]],
        chosen: Sequence[int],
        rewards: ArrayLike,
        propensities: ArrayLike,
        arms: Sequence[ArmName] | None = None,
    ) -> Log:
        """From rounds that differ: per round a context (d,) or (k, d), the candidates' names, and which was chosen.

        >>> log = Log.of_rounds([[0.1], [[0.2], [0.3]]], [["a", "b"], ["b", "c"]], [0, 1], [1, 0], [0.5, 0.5])
        >>> log.played_arms, log.contexts.ravel().tolist()
        (['a', 'c'], [0.1, 0.3])
        """
        names = tuple(tuple(c) for c in candidates)
        index, n = np.array(list(chosen), dtype=np.intp), len(names)
        p, r = as_float64("propensities", propensities), as_float64("rewards", rewards)
        if not n or not n == len(index) == len(contexts) or r.shape != (n,) or p.shape != (n,):
            raise InvalidInputError("contexts, candidates, chosen, rewards, propensities must have one entry per round")
        if any(not 0 <= i < len(c) for i, c in zip(index.tolist(), names, strict=True)):
            raise InvalidInputError("chosen must name a candidate of its round, counted from 0")
        check_propensities(p, r)
        known = tuple(arm_list([a for c in dict.fromkeys(names) for a in c], arms))
        X = [np.asarray(c, dtype=np.float64) for c in contexts]
        rows = [x if x.ndim == 1 else x[i if len(x) > 1 else 0] for x, i in zip(X, index.tolist(), strict=True)]
        own = tuple(x if x.ndim == 2 and len(x) > 1 else None for x in X)
        place = codes([c[i] for c, i in zip(names, index.tolist(), strict=True)], known)
        apart = own if any(x is not None for x in own) else None
        Z = rows_of_contexts(np.array(rows), None)
        return cls(known, place, Z, r, p, np.arange(n), index, np.full(n, np.nan), names, apart)

    @classmethod
    def of_tasks(
        cls,
        tasks: Sequence[ArmName],
        candidates: Sequence[Any],
        chosen: Sequence[int],
        rewards: ArrayLike,
        propensities: ArrayLike,
    ) -> Log:
        """Rounds in which a task was given, and one of ``candidates`` (k, d) was chosen for it.

        >>> log = Log.of_tasks(["a"], [[[0.1], [0.2]]], [1], [1.0], [0.5])
        >>> log.candidates, log.contexts
        ((('a', 'a'),), array([[0.2]]))
        """
        names = [[task] * len(rows) for task, rows in zip(tasks, candidates, strict=True)]
        return cls.of_rounds(candidates, names, chosen, rewards, propensities)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        arm: str = "arm",
        reward: str | None = None,
        propensity: str | None = "propensity",
        contexts: Sequence[str] | None = None,
        arms: Sequence[ArmName] | None = None,
        bad: str = "refuse",
    ) -> Log:
        """From a table of pandas, polars, pyarrow or another library, one row a round, in order of time.

        Args:
            frame: the table.
            arm, reward, propensity, contexts: names of columns, as in `Columns`.
            arms: all arms that could be played; default: the categories of a categorical column, or those played.
            bad: ``"refuse"`` bad rows, with an error that names the first, or ``"skip"`` them.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"item": ["a", "b"], "clicked": [1, 0], "p": [0.5, 0.5], "age": [0.3, 0.7]})
        >>> Log.from_frame(frame, arm="item", reward="clicked", propensity="p")
        Log(2 rows of 2 arms, 1 feature, mean reward 0.5)
        """
        if not is_frame(frame):
            raise InvalidTypeError(
                f"frame must be a table (pandas, polars, pyarrow), got {type(frame).__name__}; from arrays: Log.of"
            )
        return _in_memory([("", as_table(frame))], Columns(arm, reward, contexts, propensity), arms, bad)

    @classmethod
    def read(
        cls,
        paths: Paths,
        columns: Columns | None = None,
        arms: Sequence[ArmName] | None = None,
        bad: str = "refuse",
    ) -> Log:
        """From .csv or .parquet files, or folders of them, all of it in memory."""
        from kinbandits.log_files import files_of  # which reads files as this container

        return _in_memory([(f"{p}, ", read_table(p)) for p in files_of(paths)], columns or Columns(), arms, bad)

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        d, n = self.n_features, len(self)
        mean = f", mean reward {self.rewards.mean():.4g}" if n else ""
        left = f", {sum(self.left_out.values()):,} left out" if self.left_out else ""
        return f"Log({n:,} rows of {len(self.arms)} arms, {d} feature{'s' * (d != 1)}{mean}{left})"

    def __getitem__(self, rows: slice | Indices | Mask) -> Log:
        which = np.arange(len(self))[rows]
        arrays: dict[str, Any] = {name: getattr(self, name)[which] for name in _PER_ROW}
        lists: dict[str, Any] = {
            name: None if (found := getattr(self, name)) is None else tuple(found[i] for i in which.tolist())
            for name in ("candidates", "own")
        }
        return replace(self, **arrays, **lists)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Log) and self.stamp == other.stamp

    def __hash__(self) -> int:
        return hash(str(self.stamp))

    @property
    def played_arms(self) -> list[ArmName]:
        """The name of the arm played in each row."""
        return [self.arms[i] for i in self.played.tolist()]

    @property
    def n_features(self) -> int:
        return int(self.contexts.shape[1])

    def teach(self, policy: Any) -> None:
        """Let a policy learn all rows."""
        names, own = self.played_arms, self.own
        apart: list[bool | Literal["task"]] = [False] * len(self)
        if own is not None:
            alone = [self.candidates is not None and len(set(c)) == 1 for c in self.candidates or [()] * len(self)]
            apart = [x is not None and ("task" if one else True) for x, one in zip(own, alone, strict=True)]
        edges = [0, *(i for i in range(1, len(self)) if apart[i] != apart[i - 1]), len(self)]
        for first, last in itertools.pairwise(edges if len(self) else []):
            part = slice(first, last)
            policy.observe(names[part], self.contexts[part], self.rewards[part], own_contexts=apart[first])

    def table(self, ask: Callable[[Matrix, list[ArmName]], Matrix]) -> Matrix:
        """(n, k) numbers from a function of contexts (R, 1 or k, d) and candidates; rounds alike go together."""
        groups: dict[Any, list[int]] = {}
        if self.own is None and self.candidates is None:
            groups[None, self.arms] = list(range(len(self)))
        for i in range(0 if groups else len(self)):
            x = None if self.own is None else self.own[i]
            own = None if x is None else x.shape
            groups.setdefault((own, self.arms if self.candidates is None else self.candidates[i]), []).append(i)
        result = np.zeros((len(self), max((len(names) for _, names in groups), default=0)))
        for (own, names), rows in groups.items():
            several = self.own or ()
            contexts = self.contexts[rows, None, :] if own is None else np.array([several[i] for i in rows])
            result[rows, : len(names)] = ask(contexts, list(names))
        return result

    # -- as a source of parts, like LogFiles ----------------------------------------------------

    @property
    def rows(self) -> int:
        return len(self)

    @property
    def sources(self) -> dict[Any, int]:
        """Logs of services: none."""
        return {}

    @property
    def stamp(self) -> list[Any]:
        """What tells this log from others."""
        arrays = (self.played, self.contexts, self.rewards, self.propensities, self.index)
        return [hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest(), self.arms]

    def between(self, low: int, high: int) -> Log:
        """The rows from place ``low`` up to ``high``."""
        return self[(self.places >= low) & (self.places < high)]

    def halves(self, cut: int) -> tuple[Log, Log]:
        """The first ``cut`` rows, and the others."""
        return self[:cut], self[cut:]

    def timed(self, since: float | None, until: float | None) -> Log:
        """The rows since a time, up to another."""
        if np.isnan(self.times).any():
            raise InvalidInputError('the log has no times; name their column with Columns(at=...), "at" by default')
        low, high = -np.inf if since is None else since, np.inf if until is None else until
        return self[(self.times >= low) & (self.times < high)]

    def parts(
        self,
        policy_arms: Sequence[ArmName],
        *,
        d: int | None = None,
        limits: tuple[float, float] | None = None,
        propensities: bool = False,
    ) -> list[Part]:
        """The log in parts, for policies with these arms."""
        place = codes(list(self.arms), tuple(policy_arms))
        if len(place) and place.min() < 0:
            strange, known = self.arms[int(np.argmin(place))], ", ".join(map(repr, policy_arms[:8]))
            raise InvalidInputError(f"the log has an arm {strange!r}, but the policy's are {known}{kinds(strange)}")
        if d is not None and d != self.n_features and len(self):
            raise InvalidInputError(f"the log's contexts have {self.n_features} features, the policy's {d}")
        mine = replace(self, arms=tuple(policy_arms), played=place[self.played])
        if self.candidates is None and mine.arms != self.arms:
            mine = replace(mine, candidates=(self.arms,) * len(self))
        return [Part(mine[low : low + PART_ROWS], limits) for low in range(0, len(self), PART_ROWS)]


_PER_ROW = ("played", "contexts", "rewards", "propensities", "places", "index", "times")


@dataclass(frozen=True)
class Part:
    """Rows in memory that are worked on at once."""

    log: Log
    limits: tuple[float, float] | None

    @property
    def rows(self) -> int:
        return len(self.log)

    def checked(self) -> tuple[Log, Account]:
        """The good rows, and the account of all."""
        log, state = self.log, np.zeros(len(self.log), dtype=np.intp)
        if self.limits is not None:
            state[(log.rewards < self.limits[0]) | (log.rewards > self.limits[1])] = 4
        places = [f"row {log.places[i] + 1}" for i in np.flatnonzero(state)[:NAMED]]
        return log[state == 0], Account.of(state, places, log.n_features, self.limits)


def _in_memory(tables: Sequence[tuple[str, Any]], columns: Columns, arms: Sequence[ArmName] | None, bad: str) -> Log:
    one_of("bad", bad, "refuse", "skip")
    tables = [(where, table) for where, table in tables if len(table)]
    if not tables:
        raise InvalidInputError("the table has no rows")
    settled = columns.settled(list(tables[0][1].columns))
    if columns.context is None:
        warn_of_keys(tables[0][1], settled.context or ())
    if settled.propensity is not None and settled.propensity not in tables[0][1].columns:
        raise InvalidInputError(
            f"the log has no column {settled.propensity!r} of propensities; name it with propensity=..., or say "
            "propensity=None if all arms were drawn evenly"
        )
    names = [table[settled.arm] for _, table in tables]
    listed_arms = categories(names[0].to_native()) if arms is None else arms
    known = arm_list([a for s in names for a in s.to_list()], listed_arms, skip=True)
    reading = Reading(settled, tuple(known), width(tables[0][1], settled) or 1, propensities=True)
    logs, accounts, place = [], [], 0
    for where, table in tables:
        rows, state = checked(table, reading, place)
        places = [f"{where}row {i + 1}" for i in np.flatnonzero(state > 0)[:NAMED]]
        accounts.append(Account.of(state, places, reading.d, None))
        logs.append(Log(tuple(known), **rows))
        place += len(table)
    account = sum(accounts[1:], accounts[0])
    hint = swapped(tables[0][1], settled) if account.counts[2 + 7] and bad == "refuse" else ""
    if hint:
        raise InvalidInputError(f"propensities must be above 0 and at most 1{hint}")
    return replace(joined(logs), left_out=account.left_out(bad))


def joined(logs: Sequence[Log]) -> Log:
    """Logs one after the other."""
    if len(logs) == 1:
        return logs[0]
    arrays: dict[str, Any] = {name: np.concatenate([getattr(log, name) for log in logs]) for name in _PER_ROW}
    lists: dict[str, Any] = {}
    for name in ("candidates", "own"):
        found = [getattr(log, name) for log in logs]
        if any(x is not None for x in found):
            fill = (logs[0].arms if name == "candidates" else None,)
            full = (fill * len(log) if x is None else x for x, log in zip(found, logs, strict=True))
            lists[name] = tuple(itertools.chain(*full))
    return replace(logs[0], **arrays, **lists)
