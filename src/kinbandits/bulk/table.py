"""Logs in Parquet files: which rows there are, in which partitions, and one partition as checked arrays.

A row's *place* is its number when files are read in the order of their names, however they are cut.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kinbandits.bulk.sources import Source, together
from kinbandits.errors import InvalidInputError, MissingFileError, package

PARTITION_ROWS = 2**17


@dataclass(frozen=True)
class Columns:
    """Which columns hold what, named as in ``kinbandits log import``.

    Attributes:
        arm: the arm played.
        reward: its column; left out, ``learned`` (of ``kinbandits log export``) if there is one, else ``reward``.
            An empty entry (null) is a row whose reward has not come: it is counted and left out.
        context: columns of numbers, in order; or one that holds lists of numbers, or JSON text of them.
        propensity: with which probability the arm was chosen; needed by `evaluate` alone. Not by ``log import``.
        at: time in seconds since 1970; needed for ``since`` alone.
    """

    arm: str = "arm"
    reward: str | None = None
    context: Sequence[str] = ("context",)
    propensity: str | None = "propensity"
    at: str | None = "at"


@dataclass(frozen=True)
class Piece:
    """Row groups of a file that stand together; ``first`` is the row of the file that they begin with."""

    path: str
    groups: tuple[int, ...]
    first: int
    rows: int


@dataclass(frozen=True)
class Partition:
    """What is read at once: pieces in order, of which the rows from place ``low`` up to ``high`` count."""

    pieces: tuple[Piece, ...]
    place: int
    low: int
    high: int

    @property
    def rows(self) -> int:
        return self.high - self.low


@dataclass(frozen=True)
class Table:
    """All rows of some Parquet files; ``sources`` are the logs of services among them, with their rows."""

    partitions: tuple[Partition, ...]
    names: tuple[str, ...]
    sources: dict[Source, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, logs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], rows: int = PARTITION_ROWS
    ) -> Table:
        """Of .parquet files, or folders of them, cut at row groups into partitions of about so many rows."""
        pq = parquet()
        partitions: list[Partition] = []
        waiting: list[Piece] = []
        place = held = 0

        def close() -> None:
            nonlocal held
            if waiting:
                partitions.append(Partition(tuple(waiting), place - held, place - held, place))
                waiting.clear()
                held = 0

        names: tuple[str, ...] = ()
        sources: list[tuple[Source, int]] = []
        for path in _files(logs):
            try:
                about = pq.ParquetFile(path)
            except (OSError, ValueError) as error:
                raise InvalidInputError(f"{path} cannot be read as Parquet: {error}") from error
            names = names or tuple(about.schema_arrow.names)
            source = Source.of(about.schema_arrow.metadata)
            sources += [] if source is None else [(source, about.metadata.num_rows)]
            first = 0
            for g in range(about.metadata.num_row_groups):
                n = about.metadata.row_group(g).num_rows
                if held and held + n > rows:
                    close()
                last = waiting[-1] if waiting else None
                if last is not None and last.path == path:
                    waiting[-1] = Piece(path, (*last.groups, g), last.first, last.rows + n)
                else:
                    waiting.append(Piece(path, (g,), first, n))
                first, place, held = first + n, place + n, held + n
        close()
        if not place:
            raise InvalidInputError("the logs have no rows")
        return cls(tuple(partitions), names, together(sources))

    @property
    def rows(self) -> int:
        return sum(p.rows for p in self.partitions)

    def stamps(self) -> list[tuple[Any, ...]]:
        """What tells these rows, cut like this, from others."""
        paths = {piece.path for p in self.partitions for piece in p.pieces}
        about = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in sorted(paths)]
        return [*about, *((p.low, p.high) for p in self.partitions)]

    def between(self, low: int, high: int) -> Table:
        cut = (Partition(p.pieces, p.place, max(p.low, low), min(p.high, high)) for p in self.partitions)
        return Table(tuple(p for p in cut if p.low < p.high), self.names)

    def where(self, place: int) -> str:
        for p in self.partitions:
            if p.low <= place < p.high:
                place -= p.place
                for piece in p.pieces:
                    if place < piece.rows:
                        return f"{piece.path}, row {piece.first + place + 1}"
                    place -= piece.rows
        raise IndexError(place)

    def settled(self, columns: Columns) -> Columns:
        """With the column of the reward named. Those of arm, reward and context must be there."""
        reward = columns.reward or ("learned" if "learned" in self.names else "reward")
        for name in (columns.arm, reward, *columns.context):
            if name not in self.names:
                raise InvalidInputError(
                    f"the logs have no column {name!r}; they have {', '.join(self.names)}. Say which column holds "
                    "what: --arm, --reward, --context"
                )
        return Columns(columns.arm, reward, tuple(columns.context), columns.propensity, columns.at)

    def n_features(self, columns: Columns) -> int:
        """Numbers in a context: columns, or those of the first list that is one."""
        if len(columns.context) > 1:
            return len(columns.context)
        (name,) = columns.context
        for partition in self.partitions:
            for piece in partition.pieces:
                for batch in parquet().ParquetFile(piece.path).iter_batches(1000, columns=[name]):
                    for value in batch.column(0).to_pylist():
                        found = listed(value)
                        if found:
                            return len(found[0]) if isinstance(found[0], list) else len(found)
        raise InvalidInputError(f"column {name!r} holds no context: neither a number nor a list of numbers")


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


def parquet() -> Any:
    """pyarrow.parquet."""
    return package("pyarrow.parquet", "Parquet needs", "'kinbandits[dask]'")


def _files(logs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    given = [logs] if isinstance(logs, str | os.PathLike) else list(logs)
    found: list[str] = []
    for one in map(Path, given):
        if one.is_dir():
            inside = sorted(map(str, one.rglob("*.parquet")))
            if not inside:
                raise MissingFileError(f"{one} has no files that end in .parquet")
            found += inside
        elif one.is_file():
            found.append(str(one))
        else:
            raise MissingFileError(f"there is no file or folder {one}")
    return sorted(set(found))


def listed(value: Any) -> list[Any]:
    """A list from a list, from JSON text, or from a number; empty if it is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    if isinstance(value, int | float):
        return [value]
    return value if isinstance(value, list) else []
