"""A sum over partitions, on dask: leaves, a tree of merges, and every finished node a file.

The tree depends on the number of partitions alone, so the same bytes come out whoever did what. A node's file
replaces those of its parts, and what is there is not computed again. Sums never pass through the scheduler.
"""

from __future__ import annotations

import contextlib
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._files import replacing, write_arrays
from kinbandits.bulk.table import Partition, Table
from kinbandits.errors import FormatError, package
from kinbandits.progress import Progress

State = dict[str, NDArray[Any]]
LOCAL = ("threads", "sync", "loky")


@dataclass(frozen=True)
class Engine:
    """Where tasks run."""

    # the address of a dask scheduler (tcp://...), a ``distributed.Client``, or, on this machine, ``"threads"``
    # (None), ``"loky"`` (processes) or ``"sync"`` (one after the other)
    scheduler: Any
    jobs: int | None  # how many at a time on this machine; None: as many as there are processors
    work: Path  # a folder for what is finished, seen by all workers
    show: bool = True  # whether progress is shown

    def fold(
        self, name: str, table: Table, leaf: Callable[[Partition], State], merge: Callable[..., State]
    ) -> State:
        """Apply ``leaf`` to every partition, and ``merge`` what it gives, pair by pair."""
        tree = Tree(self.work, name, len(table.partitions))
        delayed = _dask("dask").delayed
        do, join = delayed(leaf, pure=False), delayed(merge, pure=False)  # one object each, whatever the tasks
        leaves: dict[int, Any] = {}

        def task(low: int, high: int) -> Any:
            if tree.path(low, high).exists():
                return None
            above = tree.above(low, high)
            if high == low + 1:
                done = delayed(_leaf, pure=False)(
                    tree, above, low, do, table.partitions[low], dask_key_name=f"{name}-leaf-{low}"
                )
                leaves[low] = done
                return done
            middle = tree.split(low, high)
            parts = [t for t in (task(low, middle), task(middle, high)) if t is not None]
            return delayed(_merge, pure=False)(
                tree, above, low, high, join, parts, dask_key_name=f"{name}-merge-{low}-{high}"
            )

        root = task(0, tree.leaves)
        rows = {f"{name}-leaf-{i}": table.partitions[i].rows for i in leaves}
        before = table.rows - sum(rows.values())
        with Progress(table.rows, f"{name}: rows", stream=self.show, done=before) as progress:
            seen = _Seen(progress, len(table.partitions) - len(rows), len(table.partitions))
            if root is not None:
                self._compute(root, leaves, lambda key: seen(rows[key]) if key in rows else None)
        return tree.load(0, tree.leaves)

    def _compute(self, root: Any, leaves: dict[int, Any], seen: Callable[[str], None]) -> None:
        from threadpoolctl import threadpool_limits

        if self.scheduler in (None, *LOCAL):
            callback = _dask("dask.callbacks").Callback
            with threadpool_limits(1), callback(posttask=lambda key, *_: seen(key)), self._local() as options:
                root.compute(optimize_graph=False, **options)
            return
        distributed = _dask("distributed")
        with self._client(distributed) as client:
            last, *futures = client.compute([root, *leaves.values()], optimize_graph=False)
            for future in distributed.as_completed(futures):
                future.result()
                seen(future.key)
            last.result()

    @contextlib.contextmanager
    def _local(self) -> Iterator[dict[str, Any]]:
        from joblib import cpu_count

        jobs = self.jobs or int(cpu_count())
        if self.scheduler == "loky":
            from joblib.externals.loky import ProcessPoolExecutor  # the reusable one is joblib's own

            from kinbandits.experiments.backends import deaf_processes

            with deaf_processes():
                pool = ProcessPoolExecutor(jobs)
                pool.submit(int).result()  # starts them all
            with pool:
                yield {"scheduler": "processes", "pool": pool, "num_workers": jobs}
        else:
            yield {"scheduler": self.scheduler or "threads", "num_workers": jobs}

    def _client(self, distributed: Any) -> contextlib.AbstractContextManager[Any]:
        from kinbandits.experiments.backends import dask_client

        if not isinstance(self.scheduler, str):
            return contextlib.nullcontext(self.scheduler)
        return dask_client(distributed, self.scheduler, self.work / "job.json")


@dataclass
class _Seen:
    """Progress in rows, with partitions and speed beside it."""

    progress: Progress
    done: int
    of: int
    rows: int = 0
    started: float = field(default_factory=time.monotonic)

    def __call__(self, rows: int) -> None:
        self.done, self.rows = self.done + 1, self.rows + rows
        speed = self.rows / max(time.monotonic() - self.started, 1e-9)
        self.progress.advance(rows, f"{self.done} of {self.of} partitions, {speed:,.0f} rows/s")


@dataclass(frozen=True)
class Tree:
    """A binary tree over so many leaves; node (low, high) stands for leaves low to high - 1."""

    folder: Path
    name: str
    leaves: int

    def path(self, low: int, high: int) -> Path:
        return self.folder / f"{self.name}-{low}-{high}.npz"

    @staticmethod
    def split(low: int, high: int) -> int:
        """Where a node's second part begins: the first has a power of two leaves."""
        return low + (1 << (high - low - 1).bit_length() - 1)

    def above(self, low: int, high: int) -> list[Path]:
        """The files of a node and of all that contain it: if one is there, the node is done."""
        found, (a, b) = [], (0, self.leaves)
        while (a, b) != (low, high):
            found.append(self.path(a, b))
            middle = self.split(a, b)
            a, b = (a, middle) if high <= middle else (middle, b)
        return [*found, self.path(low, high)]

    def save(self, low: int, high: int, state: State) -> None:
        """A node's file. (One that a failing machine left damaged is noticed when it is read.)"""
        with replacing(self.path(low, high), flush=False) as part, part.open("wb") as stream:
            write_arrays(stream, state)

    def load(self, low: int, high: int) -> State:
        path = self.path(low, high)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        except (zipfile.BadZipFile, EOFError, ValueError) as error:
            path.unlink(missing_ok=True)
            raise FormatError(f"{path} was damaged and is removed; start the job again") from error


def _leaf(tree: Tree, above: list[Path], i: int, leaf: Callable[[Partition], State], partition: Partition) -> None:
    from threadpoolctl import threadpool_limits

    if not any(path.exists() for path in above):
        with threadpool_limits(1):
            tree.save(i, i + 1, leaf(partition))


def _merge(
    tree: Tree, above: list[Path], low: int, high: int, merge: Callable[..., State], parts: list[Any]
) -> None:
    if any(path.exists() for path in above):
        return
    middle = tree.split(low, high)
    tree.save(low, high, merge(tree.load(low, middle), tree.load(middle, high)))
    for half in ((low, middle), (middle, high)):
        tree.path(*half).unlink(missing_ok=True)


def _dask(module: str) -> Any:
    return package(module, "this needs", "'kinbandits[dask]'")
