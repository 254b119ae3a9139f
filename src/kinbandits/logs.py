"""Logged rounds: one container for all that teaches or evaluates a policy, in memory or file by file.

    log = kb.Log.from_frame(frame, arm="item", reward="clicked", propensity="p")   # pandas, polars, pyarrow
    log = kb.logs.LogFiles.of("rows/", kb.logs.Columns(context=("age", "hour")))   # Parquet or CSV, of any length

Both give parts, which are checked `Log`s: `LogFiles` reads one after the other (row groups of Parquet, a whole CSV
file). Rows are numbered from the first file to the last: this is their *place*.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import as_float64, rows_of_contexts
from kinbandits._frames import as_table, categories, is_frame, listed_column, read_table
from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits._value import one_of
from kinbandits.errors import InvalidInputError, InvalidTypeError, MissingFileError, package
from kinbandits.log_rows import (
    Account,
    ArmName,
    Columns,
    Limits,
    Reading,
    accounted,
    arm_list,
    check_propensities,
    checked,
    codes,
    kinds,
    outside,
    warn_of_keys,
    width,
)

__all__ = ["Columns", "Log", "LogFiles", "Source", "learned_from"]

PART_ROWS = 2**17  # of a part of a log in memory
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
Part = Callable[[], tuple["Log", Account]]  # the good rows of a part, and the account of all


@dataclass(frozen=True, eq=False)
class Log:
    """Logged rounds in memory, in order of time. `of`, `of_rounds`, `from_frame` and `read` make one.

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
    sources: ClassVar[dict[Source, int]] = {}  # logs of services: none

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
        even = np.full(len(names), 1.0 / max(len(known), 1))
        p = even if propensities is None else propensities
        return cls._made(known, place, rows_of_contexts(contexts, None), rewards, p, place)

    @classmethod
    def _made(cls, arms: Any, played: Indices, X: Matrix, rewards: Any, p: Any, index: Indices, **more: Any) -> Log:
        p, r, n = as_float64("propensities", p), as_float64("rewards", rewards), len(played)
        if not n:
            raise InvalidInputError("the log is empty")
        if r.shape != (n,) or len(X) != n or p.shape != (n,):
            raise InvalidInputError(
                f"arms, contexts, rewards, propensities must have one entry per row, got {n}, {len(X)}, {r.shape} and "
                f"{p.shape}"
            )
        check_propensities(p, r)
        return cls(arms, played, X, r, p, np.arange(n), index, np.full(n, np.nan), **more)

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

        Where a task was given and one of its candidates was chosen, all candidates have the name of the task.

        >>> log = Log.of_rounds([[0.1], [[0.2], [0.3]]], [["a", "b"], ["b", "c"]], [0, 1], [1, 0], [0.5, 0.5])
        >>> log.played_arms, log.contexts.ravel().tolist()
        (['a', 'c'], [0.1, 0.3])
        """
        names = tuple(tuple(c) for c in candidates)
        index, n = np.array(list(chosen), dtype=np.intp), len(names)
        if not n == len(index) == len(contexts):
            raise InvalidInputError("contexts, candidates, chosen, rewards, propensities must have one entry per round")
        if any(not 0 <= i < len(c) for i, c in zip(index.tolist(), names, strict=True)):
            raise InvalidInputError("chosen must name a candidate of its round, counted from 0")
        known = tuple(arm_list([a for c in dict.fromkeys(names) for a in c], arms))
        X = [np.asarray(c, dtype=np.float64) for c in contexts]
        rows = [x if x.ndim == 1 else x[i if len(x) > 1 else 0] for x, i in zip(X, index.tolist(), strict=True)]
        own = tuple(x if x.ndim == 2 and len(x) > 1 else None for x in X)
        played = codes([c[i] for c, i in zip(names, index.tolist(), strict=True)], known)
        apart = own if any(x is not None for x in own) else None
        Z = rows_of_contexts(np.array(rows).reshape(n, -1), None)
        return cls._made(known, played, Z, rewards, propensities, index, candidates=names, own=apart)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        arm: str = "arm",
        reward: str | None = None,
        propensity: str | None = "propensity",
        contexts: Sequence[str] | None = None,
        at: str | None = "at",
        arms: Sequence[ArmName] | None = None,
        bad: str = "refuse",
    ) -> Log:
        """From a table of pandas, polars, pyarrow or another library, one row a round, in order of time.

        Args:
            frame: the table.
            arm, reward, propensity, contexts, at: names of columns, as in `Columns`.
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
        table = as_table(frame)
        file = File("", tuple(table.columns), (len(table),), frame=table)
        return LogFiles.of_files([file], Columns(arm, reward, contexts, propensity, at)).load(arms, bad)

    @classmethod
    def read(
        cls, paths: Paths, columns: Columns | None = None, arms: Sequence[ArmName] | None = None, bad: str = "refuse"
    ) -> Log:
        """From .csv or .parquet files, or folders of them, all of it in memory."""
        return LogFiles.of(paths, columns).load(arms, bad)

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        d, n = self.n_features, len(self)
        mean = f", mean reward {self.rewards.mean():.4g}" if n else ""
        left = f", {sum(self.left_out.values()):,} left out" if self.left_out else ""
        return f"Log({n:,} rows of {len(self.arms)} arms, {d} feature{'s' * (d != 1)}{mean}{left})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Log) and self.stamp == other.stamp

    def __hash__(self) -> int:
        return hash(str(self.stamp))

    def __getitem__(self, rows: slice | Indices | Mask) -> Log:
        which = np.arange(len(self))[rows]
        arrays: dict[str, Any] = {name: getattr(self, name)[which] for name in _PER_ROW}
        lists: dict[str, Any] = {
            name: None if (found := getattr(self, name)) is None else tuple(found[i] for i in which.tolist())
            for name in ("candidates", "own")
        }
        return replace(self, **arrays, **lists)

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
        for i in range(len(self)) if self.own or self.candidates else ():
            x = None if self.own is None else self.own[i]
            own = None if x is None else x.shape
            groups.setdefault((own, self.candidates[i] if self.candidates else self.arms), []).append(i)
        groups = groups or {(None, self.arms): list(range(len(self)))}
        result = np.zeros((len(self), max((len(names) for _, names in groups), default=0)))
        for (own, names), rows in groups.items():
            several = self.own or ()
            contexts = self.contexts[rows, None, :] if own is None else np.array([several[i] for i in rows])
            result[rows, : len(names)] = ask(contexts, list(names))
        return result

    # -- as a source of parts, like LogFiles ----------------------------------------------------

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
            raise InvalidInputError('the log has no times; name their column with at=..., "at" by default')
        low, high = -np.inf if since is None else since, np.inf if until is None else until
        return self[(self.times >= low) & (self.times < high)]

    def parts(
        self, policy_arms: Sequence[ArmName], *, d: int | None = None, limits: Limits = None, propensities: bool = False
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
        return [partial(_within, mine[low : low + PART_ROWS], limits) for low in range(0, len(self), PART_ROWS)]


_PER_ROW = ("played", "contexts", "rewards", "propensities", "places", "index", "times")


def _within(log: Log, limits: Limits) -> tuple[Log, Account]:
    good, account = accounted(len(log), [outside(log.rewards, limits)])
    return log[good], account


def joined(logs: Sequence[Log]) -> Log:
    """Logs one after the other."""
    arrays: dict[str, Any] = {name: np.concatenate([getattr(log, name) for log in logs]) for name in _PER_ROW}
    lists: dict[str, Any] = {}
    for name in ("candidates", "own"):
        found = [getattr(log, name) for log in logs]
        if any(x is not None for x in found):
            fill = (logs[0].arms if name == "candidates" else None,)
            full = (fill * len(log) if x is None else x for x, log in zip(found, logs, strict=True))
            lists[name] = tuple(itertools.chain(*full))
    opened = [log.open_at for log in logs if log.open_at >= 0]
    defaulted = any(log.defaulted for log in logs)
    return replace(logs[0], **arrays, **lists, open_at=min(opened, default=-1), defaulted=defaulted)


@dataclass(frozen=True)
class LogFiles:
    """Rows of Parquet or CSV files, read part by part: as long as the disk. `of` makes one.

    Attributes:
        files: in order.
        columns: which columns hold what.
        since, until: rows of an earlier time (seconds since 1970), or of that time and later, are left out.
        places: rows before the first place, or from the second on, do not count.
    """

    files: tuple[File, ...]
    columns: Columns
    since: float | None = None
    until: float | None = None
    places: tuple[int, int] = (0, 2**62)
    left_out: ClassVar[dict[str, int]] = {}  # before rows are read: none

    @classmethod
    def of(cls, paths: Paths, columns: Columns | None = None) -> LogFiles:
        """Of .parquet or .csv files, or folders of them."""
        return cls.of_files([File.of(path) for path in files_of(paths)], columns or Columns())

    @classmethod
    def of_files(cls, files: Sequence[File], asked: Columns) -> LogFiles:
        """Of files that were looked into; columns that are not named follow from the first."""
        if not sum(file.rows for file in files):
            raise InvalidInputError("the log has no rows")
        found = cls(tuple(files), asked.settled(files[0].names))
        warn_of_keys(files[0].table(0, found.columns.context or ()), asked, found.columns)
        return found

    def load(self, arms: Sequence[ArmName] | None = None, bad: str = "refuse") -> Log:
        """All rows in memory."""
        parts = [part() for part in self.parts(self.arms() if arms is None else arms, propensities=True)]
        account = sum((account for _, account in parts[1:]), parts[0][1])
        left_out = account.left_out(one_of("bad", bad, "refuse", "skip"))
        return replace(joined([log for log, _ in parts]), left_out=left_out)

    def __len__(self) -> int:
        return min(self.places[1], sum(file.rows for file in self.files)) - self.places[0]

    @property
    def sources(self) -> dict[Source, int]:
        """The logs of services among the files, with their rows; two exports of one log are refused."""
        rows = Counter[Source]()
        for file in self.files:
            rows.update({file.source: file.rows} if file.source else {})
        if len({source.first for source in rows}) < len(rows) or any(n > source.rows for source, n in rows.items()):
            raise InvalidInputError("the files have several exports of one log, its rows twice; give the last of them")
        return dict(rows)

    @property
    def stamp(self) -> list[Any]:
        """What tells these rows from others."""
        about = [(file.path, os.stat(file.path).st_size, os.stat(file.path).st_mtime_ns) for file in self.files]
        return [*about, self.columns, self.since, self.until, self.places]

    def between(self, low: int, high: int) -> LogFiles:
        """The rows from place ``low`` up to ``high``."""
        return replace(self, places=(max(low, self.places[0]), min(high, self.places[1])))

    def halves(self, cut: int) -> tuple[LogFiles, LogFiles]:
        """The first ``cut`` rows, and the others."""
        low, high = self.places
        return self.between(low, low + cut), self.between(low + cut, high)

    def timed(self, since: float | None, until: float | None) -> LogFiles:
        """The rows since a time, up to another."""
        return replace(self, since=self.since if since is None else since, until=self.until if until is None else until)

    def arms(self) -> list[ArmName]:
        """The arms played in all files; of categorical columns all categories, in their order."""
        found: dict[Any, None] = {}
        ordered = True
        for table in self._groups([self.columns.arm]):
            names = categories(table[self.columns.arm].to_native())
            ordered = ordered and names is not None
            found |= dict.fromkeys(table[self.columns.arm].to_list() if names is None else names)
        return arm_list(found, list(found) if ordered else None, skip=True)

    @property
    def n_features(self) -> int:
        """Numbers in a context: columns, or those of the first list that is one."""
        context = self.columns.context or ()
        if len(context) > 1:
            return len(context)
        if found := next((d for table in self._groups(context) if (d := width(table, self.columns))), 0):
            return found
        raise InvalidInputError(f"column {context[0]!r} holds no context, a number or a list of numbers")

    def _groups(self, columns: Sequence[str]) -> Iterator[Any]:
        return (file.table(group, columns) for file in self.files for group in range(len(file.groups)))

    def parts(
        self, policy_arms: Sequence[ArmName], *, d: int | None = None, limits: Limits = None, propensities: bool = False
    ) -> list[Part]:
        """The rows in parts, the row groups of the files, for policies with these arms."""
        arms, d = tuple(policy_arms), d or self.n_features
        parts: list[Part] = []
        start = 0  # the place of the first row of a part
        for file in self.files:
            text = file.path.endswith(".csv") or file.source is not None
            reading = Reading(self.columns, arms, d, limits, self.since, self.until, propensities, text)
            first = start  # the place of the first row of the file
            for group, size in enumerate(file.groups):
                low, high = max(0, self.places[0] - start), min(size, self.places[1] - start)
                if low < high:
                    place = start + low
                    parts.append(partial(file.checked, group, slice(low, high), reading, place, place - first))
                start += size
        return parts


@dataclass(frozen=True)
class File:
    """A file of rows: its columns, and the rows of each row group (a CSV file is one); or a table in memory."""

    path: str
    names: tuple[str, ...]
    groups: tuple[int, ...]
    source: Source | None = None
    frame: Any = None

    @classmethod
    def of(cls, path: str) -> File:
        if path.endswith(".csv"):
            table = read_table(path)
            return cls(path, tuple(table.columns), (len(table),))
        about = _parquet(path)
        sizes = [about.metadata.row_group(g).num_rows for g in range(about.num_row_groups)]
        return cls(path, tuple(about.schema_arrow.names), tuple(sizes), Source.of(about.schema_arrow.metadata))

    @property
    def rows(self) -> int:
        return sum(self.groups)

    def table(self, group: int, wanted: Sequence[str], extra: Sequence[str | None] = ()) -> Any:
        """Columns of a row group, as a narwhals table."""
        for name in wanted:
            if name not in self.names:
                raise InvalidInputError(f"{self.path} has no column {name!r}; it has {', '.join(self.names)}")
        columns = list(dict.fromkeys([*wanted, *(name for name in extra if name in self.names)]))
        if self.frame is not None:
            return self.frame.select(columns)
        if self.path.endswith(".csv"):
            return read_table(self.path).select(columns)
        return as_table(_parquet(self.path).read_row_group(group, columns))

    def checked(self, group: int, rows: slice, reading: Reading, place: int, row: int) -> tuple[Log, Account]:
        """The good ones of some rows of a row group; the first of them is number ``row`` of the file."""
        c = reading.columns
        extra = [c.at, "index"] + [c.propensity, "candidates", "state"] * reading.propensities
        table = self.table(group, [c.arm, str(c.reward), *(c.context or ())], extra)[rows]
        fields, account = checked(table, reading, place, f"{self.path}, " if self.path else "", row)
        return Log(reading.arms, **fields), account


def files_of(paths: Paths) -> list[str]:
    """The .parquet and .csv files that these paths name."""
    found: list[Path] = []
    for one in [Path(paths)] if isinstance(paths, str | os.PathLike) else map(Path, paths):
        inside = sorted(p for p in one.rglob("*") if p.suffix in (".parquet", ".csv")) if one.is_dir() else [one]
        if not inside:
            raise MissingFileError(f"{one} has no files that end in .parquet or .csv")
        if not one.exists():
            raise MissingFileError(f"there is no file or folder {one}")
        if inside[0].suffix not in (".parquet", ".csv"):
            raise InvalidInputError(f"{one} must end in .parquet or .csv")
        found += inside
    return list(dict.fromkeys(map(str, found)))


def _parquet(path: str) -> Any:
    parquet = package("pyarrow.parquet", "Parquet needs", "'kinbandits[dask]'")
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be read as Parquet: {error}") from error


class Source(NamedTuple):
    """A service's log as it was exported; its Parquet files say so."""

    first: str  # digest of its first event
    head: str  # its last event, as ``kinbandits log verify`` writes it (``seq:digest``)
    rows: int  # decisions up to there

    @classmethod
    def of(cls, metadata: dict[bytes, bytes] | None) -> Source | None:
        """From the schema of a file; None if it is not of a service's log."""
        found = (metadata or {}).get(b"kinbandits.log")
        return None if found is None else cls(**json.loads(found))


def learned_from(
    before: Sequence[dict[str, Any]], rows: dict[Source, int], all_times: bool, since: bool
) -> tuple[dict[str, Any], ...]:
    """What a policy keeps of the logs it has learned: what it kept ``before``, and the rows of each log now."""
    kept = {log["first"]: log for log in before}
    for source, n in rows.items():
        known = kept.get(source.first)
        if known is not None and not since:
            raise InvalidInputError(
                f"the policy has learned this log before, up to event {known['head'].partition(':')[0]}; add only "
                "later rows with since (--since)"
            )
        whole = all_times and n == source.rows and known is None
        kept[source.first] = {"first": source.first, "head": source.head, "whole": whole}
    return tuple(kept.values())
