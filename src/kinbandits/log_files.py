"""Logs in files, read part by part; and which logs of services a policy has learned."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits._frames import as_table, read_table
from kinbandits.errors import InvalidInputError, MissingFileError, package
from kinbandits.log_rows import NAMED, Account, ArmName, Columns, Reading, arm_list, checked, width
from kinbandits.logs import PART_ROWS, Log, Paths

__all__ = ["LogFiles", "Source", "learned_from", "together"]


@dataclass(frozen=True)
class LogFiles:
    """Rows of Parquet or CSV files, read part by part: as long as the disk. `of` makes one.

    Attributes:
        files: path and number of rows of each, in order.
        columns: which columns hold what.
        since, until: rows of an earlier time (seconds since 1970), or of that time and later, are left out.
        sources: the logs of services among the files, with their rows.
        places: rows before the first place, or from the second on, do not count.
    """

    files: tuple[tuple[str, int], ...]
    columns: Columns
    since: float | None = None
    until: float | None = None
    sources: dict[Source, int] = field(default_factory=dict)
    places: tuple[int, int] = (0, 2**62)
    left_out: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, paths: Paths, columns: Columns | None = None, since: float | None = None, until: float | None = None
    ) -> LogFiles:
        """Of .parquet or .csv files, or folders of them."""
        files, sources, names = [], [], list[str]()
        for path in files_of(paths):
            if path.endswith(".csv"):
                table = read_table(path)
                found, rows = list(table.columns), len(table)
            else:
                about = _parquet(path)
                found, rows = list(about.schema_arrow.names), about.metadata.num_rows
                source = Source.of(about.schema_arrow.metadata)
                sources += [] if source is None else [(source, rows)]
            files.append((path, rows))
            names = names or found
        if not sum(rows for _, rows in files):
            raise InvalidInputError("the log has no rows")
        return cls(tuple(files), (columns or Columns()).settled(names), since, until, together(sources))

    @property
    def rows(self) -> int:
        return min(self.places[1], sum(rows for _, rows in self.files)) - self.places[0]

    @property
    def stamp(self) -> list[Any]:
        """What tells these rows from others."""
        about = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path, _ in self.files]
        return [*about, self.columns, self.since, self.until, self.places]

    def between(self, low: int, high: int) -> LogFiles:
        return replace(self, places=(max(low, self.places[0]), min(high, self.places[1])))

    def halves(self, cut: int) -> tuple[LogFiles, LogFiles]:
        """The first ``cut`` rows, and the others."""
        low, high = self.places
        return self.between(low, low + cut), self.between(low + cut, high)

    def timed(self, since: float | None, until: float | None) -> LogFiles:
        return replace(self, since=self.since if since is None else since, until=until or self.until)

    def arms(self) -> list[ArmName]:
        """The arms played, in all files."""
        found: set[ArmName] = set()
        for path, _ in self.files:
            groups = [None] if path.endswith(".csv") else [(g,) for g in range(_parquet(path).num_row_groups)]
            for group in groups:
                found.update(
                    arm_list(_table(path, group, [self.columns.arm])[self.columns.arm].to_list(), None, skip=True)
                )
        return arm_list(found, None)

    @property
    def n_features(self) -> int:
        """Numbers in a context: columns, or those of the first list that is one."""
        context = self.columns.context or ()
        for path, _ in self.files:
            groups = [None] if path.endswith(".csv") else [(g,) for g in range(_parquet(path).num_row_groups)]
            for group in groups if len(context) == 1 else ():
                if found := width(_table(path, group, context), self.columns):
                    return found
        if len(context) < 2:
            raise InvalidInputError(f"column {context[0]!r} holds no context, a number or a list of numbers")
        return len(context)

    def parts(
        self,
        policy_arms: Sequence[ArmName],
        *,
        d: int | None = None,
        limits: tuple[float, float] | None = None,
        propensities: bool = False,
    ) -> list[FilePart]:
        """The rows in parts of about `PART_ROWS`, cut at row groups, for policies with these arms."""
        reading = Reading(
            self.columns, tuple(policy_arms), d or self.n_features, limits, self.since, self.until, propensities
        )
        parts, place = [], 0
        for path, rows in self.files:
            if path.endswith(".csv"):
                parts.append(FilePart(path, None, 0, place, 0, rows, replace(reading, text=True)))
            else:
                about = _parquet(path).metadata
                mine = replace(reading, text=bool((about.metadata or {}).get(_NAME)))
                sizes = [about.row_group(g).num_rows for g in range(about.num_row_groups)]
                first = 0
                for groups in _stretches(sizes):
                    size = sum(sizes[g] for g in groups)
                    parts.append(FilePart(path, groups, first, place + first, 0, size, mine))
                    first += size
            place += rows
        return [cut for part in parts if (cut := part.between(*self.places)).rows]


@dataclass(frozen=True)
class FilePart:
    """Row groups of a Parquet file (None: all of a CSV file) that are read at once."""

    path: str
    groups: tuple[int, ...] | None
    first: int  # the row of the file that they begin with
    place: int  # and its place in the log
    skip: int  # rows that do not count at the start
    rows: int  # that count
    reading: Reading

    def between(self, low: int, high: int) -> FilePart:
        skip = max(self.skip, low - self.place)
        return replace(self, skip=skip, rows=max(0, min(self.skip + self.rows, high - self.place) - skip))

    def checked(self) -> tuple[Log, Account]:
        """The good rows, and the account of all."""
        c, reading = self.reading.columns, self.reading
        wanted = [c.arm, str(c.reward), *(c.context or ())]
        extra = [str(c.at), "index"] + ([str(c.propensity), "candidates", "state"] if reading.propensities else [])
        table = _table(self.path, self.groups, wanted, extra)[self.skip : self.skip + self.rows]
        rows, state = checked(table, reading, self.place + self.skip)
        places = [f"{self.path}, row {self.first + self.skip + i + 1}" for i in np.flatnonzero(state > 0)[:NAMED]]
        return Log(reading.arms, **rows), Account.of(state, places, reading.d, reading.limits)


def _stretches(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Row groups one after the other, together about `PART_ROWS` rows."""
    found: list[list[int]] = []
    for group, size in enumerate(sizes):
        if found and sum(sizes[g] for g in found[-1]) + size <= PART_ROWS:
            found[-1].append(group)
        else:
            found.append([group])
    return [tuple(groups) for groups in found]


def files_of(paths: Paths) -> list[str]:
    """The .parquet and .csv files that these paths name."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: list[str] = []
    for one in map(Path, given):
        if one.is_dir():
            inside = sorted(str(p) for kind in ("*.parquet", "*.csv") for p in one.rglob(kind))
            if not inside:
                raise MissingFileError(f"{one} has no files that end in .parquet or .csv")
            found += inside
        elif not one.is_file():
            raise MissingFileError(f"there is no file or folder {one}")
        elif one.suffix.lower() not in (".parquet", ".csv"):
            raise InvalidInputError(f"{one} must end in .parquet or .csv")
        else:
            found.append(str(one))
    return list(dict.fromkeys(found))


def _parquet(path: str) -> Any:
    parquet = package("pyarrow.parquet", "Parquet needs", "'kinbandits[dask]'")
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be read as Parquet: {error}") from error


def _table(path: str, groups: tuple[int, ...] | None, wanted: Sequence[str], extra: Sequence[str] = ()) -> Any:
    """Columns of a part, as a narwhals table."""
    whole: Any = read_table(path) if groups is None else None
    file: Any = None if groups is None else _parquet(path)
    names = list(whole.columns) if file is None else file.schema_arrow.names
    for name in wanted:
        if name not in names:
            raise InvalidInputError(f"{path} has no column {name!r}; it has {', '.join(names)}")
    columns = list(dict.fromkeys([*wanted, *(name for name in extra if name in names)]))
    return whole.select(columns) if file is None else as_table(file.read_row_groups(list(groups or ()), columns))


# -- logs of services: no row is learned twice ------------------------------------------------------

_NAME = b"kinbandits.log"


@dataclass(frozen=True)
class Source:
    """A service's log as it was exported; its Parquet files say so."""

    first: str  # digest of its first event
    head: str  # its last event, as ``kinbandits log verify`` writes it (``seq:digest``)
    rows: int  # decisions up to there

    def to_metadata(self) -> dict[bytes, bytes]:
        return {_NAME: json.dumps({"first": self.first, "head": self.head, "rows": self.rows}).encode()}

    @classmethod
    def of(cls, metadata: dict[bytes, bytes] | None) -> Source | None:
        """From the schema of a file; None if it is not of a service's log."""
        found = (metadata or {}).get(_NAME)
        return None if found is None else cls(**json.loads(found))


def together(files: Iterable[tuple[Source, int]]) -> dict[Source, int]:
    """The rows that there are of each log, from those of the files; two exports of one log are refused."""
    rows: dict[Source, int] = {}
    for source, n in files:
        rows[source] = rows.get(source, 0) + n
    if len({source.first for source in rows}) < len(rows) or any(n > source.rows for source, n in rows.items()):
        raise InvalidInputError("the files have several exports of one log, its rows twice; give the last of them")
    return rows


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
