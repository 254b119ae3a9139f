"""How logs are read, and where: what `fit` and `evaluate` have in common."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits._files import atomic_write, locked
from kinbandits._value import one_of
from kinbandits._version import __version__
from kinbandits.bulk.fold import Engine
from kinbandits.bulk.table import PARTITION_ROWS, Columns, Table
from kinbandits.errors import InvalidInputError
from kinbandits.policy import KMTLUCB
from kinbandits.policies.persist import to_data

Logs = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True, kw_only=True)
class Job:
    """The options of `fit` and `evaluate`.

    Attributes:
        since, until: rows of an earlier time (seconds since 1970), or of that time and later, are left out.
        seed: of samples and folds. progress: whether to show it.
        bad: ``"refuse"`` bad rows (NaN, unknown arms, wrong types) before anything is learned, or ``"skip"`` them.
        scheduler: as in `fold.Engine`: None works on this machine's processors.
        jobs: tasks at a time on this machine. partition_rows: rows of a partition, about.
        work: a folder for finished partitions, seen by all workers; it is removed in the end. Called again with the
            same arguments after a kill, the job goes on where it was. Left out, it is a temporary one.
    """

    columns: Columns = field(default_factory=Columns)
    since: float | None = None
    until: float | None = None
    seed: int = 0
    bad: str = "refuse"
    scheduler: Any = None
    jobs: int | None = None
    partition_rows: int = PARTITION_ROWS
    work: str | os.PathLike[str] | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        one_of("bad", self.bad, "refuse", "skip")

    def table(self, logs: Logs | Table) -> Table:
        return logs if isinstance(logs, Table) else Table.of(logs, self.partition_rows)

    @contextlib.contextmanager
    def working(self, table: Table, policies: Sequence[KMTLUCB], told: Sequence[Any]) -> Iterator[Engine]:
        """An engine with its folder: what an earlier start of this job left is used, that of another removed."""
        if self.work is None:
            with tempfile.TemporaryDirectory(prefix="kinbandits-") as temporary:
                atomic_write(Path(temporary) / "job.json", temporary.encode())
                yield self._engine(Path(temporary))
            return
        work = Path(self.work)
        job = hashlib.sha256(repr([__version__, table.stamps(), self.seed, *told]).encode())
        for data, arrays in map(to_data, policies):
            job.update(repr({**data, "rng": None}).encode())
            for name, array in arrays.items():
                job.update(name.encode() + np.ascontiguousarray(array).tobytes())
        marker, name = work / "job.json", job.hexdigest()
        lock = work.with_name(work.name + ".lock")
        with locked(lock, work):
            if marker.exists() and marker.read_text(encoding="utf-8") != name:
                shutil.rmtree(work)
            elif work.exists() and not marker.exists() and any(work.iterdir()):
                raise InvalidInputError(f"{work} holds other files; give a new folder, or that of an earlier start")
            work.mkdir(parents=True, exist_ok=True)
            atomic_write(marker, name.encode())
            yield self._engine(work)
            shutil.rmtree(work)
            lock.unlink(missing_ok=True)

    def _engine(self, folder: Path) -> Engine:
        return Engine(self.scheduler, self.jobs, folder, self.progress)
