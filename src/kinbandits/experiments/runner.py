"""Running an experiment: all cells that are not finished yet, on the processes that joblib is told to use.

    run_experiment(experiment, "runs/news", jobs=2)
    with joblib.parallel_config("dask"):          # a cluster whose workers see the directory
        run_experiment(experiment, "/shared/news")

Workers get a cell's description, never data. Finished is what has a result file (`store`): a process that is killed
costs the cells under way, and the same call goes on from there. More seeds, methods or environments are more cells.
"""

from __future__ import annotations

import os
import platform
import time
import traceback
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kinbandits._files import atomic_write
from kinbandits._version import __version__
from kinbandits.errors import InvalidInputError
from kinbandits.experiments.config import FORMAT, Cell, Experiment
from kinbandits.experiments.store import CellStore
from kinbandits.progress import Progress
from kinbandits.simulate import simulate
from kinbandits.trace import Trace


def run_experiment(
    experiment: Experiment, directory: str | PathLike[str], *, jobs: int | None = None, stream: TextIO | None = None
) -> Path:
    """Run every cell that is not finished, and write ``results.csv``; gives its path.

    Args:
        jobs: cells at a time; -1 is all processors; left out, what ``joblib.parallel_config`` says, else one.
        stream: where progress is written; None is silence.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    store, horizons = CellStore(directory), experiment.check()
    cells = {cell.id: cell for cell in experiment.cells()}
    work = {i: float(horizons[cell.environment.name]) ** 2 for i, cell in cells.items()}
    total, failed = sum(work.values()), list[Cell]()
    with store.locked():
        store.open(experiment)
        done = store.done() & set(cells)
        share = sum(work[i] for i in done) / total
        left = sorted(set(cells) - done, key=lambda i: (-work[i], i))  # the longest first, so that all end together
        tasks = (delayed(run_cell)(str(store.directory.resolve()), cells[i]) for i in left)
        with Progress(len(cells), "cells", stream=stream, share=share) as progress:
            try:
                finished = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")(tasks)
                for count, (cell_id, good) in enumerate(finished, len(done) + 1):
                    failed += [] if good else [cells[cell_id]]
                    share += work[cell_id] / total
                    progress.to(count, share)
            except TerminatedWorkerError as error:
                raise InvalidInputError(
                    "a worker process died; is there enough memory? Try fewer jobs. Finished cells are kept: run "
                    "again to go on"
                ) from error
        store.tidy()
        if failed:
            why = (store.errors / f"{failed[0].id}.txt").read_text(encoding="utf-8").splitlines()[1]
            raise InvalidInputError(
                f"{len(failed)} of {len(cells)} cells failed; the first, {failed[0]}: {why}. See {store.errors} for "
                "tracebacks; the other cells are kept, and the next run tries the failed ones again"
            )
        return store.write_table(experiment)


def compute_cell(cell: Cell) -> Trace:
    """Play the cell's policy on its environment. The metadata have settings, final counts and similarity."""
    environment, policy = cell.make()
    settings = repr(policy)
    trace = simulate(policy, environment)
    metadata: dict[str, Any] = {
        "format": FORMAT,
        "environment": cell.environment.name,
        "environment_settings": cell.environment.record(),
        "method": cell.method.name,
        "policy": settings,
        "seed": cell.seed,
        "arms": [str(a) for a in environment.arms],
        "counts": list(getattr(policy, "counts", {}).values()),
        "similarity": _similarity(policy),
    }
    lasting: dict[str, Any] = {name: column for name, column in trace.columns.items() if name != "seconds"}
    return Trace.of(lasting, metadata)


def _similarity(policy: Any) -> list[list[float]]:
    """The matrix at the end; empty for a policy that has none, or several."""
    found = getattr(getattr(policy, "model", None), "similarity", None)
    if isinstance(found, np.ndarray):
        return list(found.tolist())
    matrix = getattr(policy, "similarity_matrix", None)
    several = len(getattr(policy, "terms", (None,))) > 1
    return [] if matrix is None or several else list(np.asarray(matrix()).tolist())


def run_cell(directory: str, cell: Cell) -> tuple[str, bool]:
    """Compute one cell on one thread and write it down; its id, and whether it went well (else see errors/)."""
    from threadpoolctl import threadpool_limits

    store = CellStore(directory)
    if cell.id in store.done():  # another attempt got here first
        return cell.id, True
    started, clock, cpu = time.time(), time.perf_counter(), time.process_time()
    try:
        with threadpool_limits(1):
            result = compute_cell(cell)
    except Exception as error:
        text = f"{cell}\n{type(error).__name__}: {error}\n\n{traceback.format_exc()}"
        atomic_write(store.errors / f"{cell.id}.txt", text.encode())
        return cell.id, False
    timing = {
        "seconds": time.perf_counter() - clock,
        "cpu_seconds": time.process_time() - cpu,
        "started": started,
        "host": platform.node(),
        "pid": os.getpid(),
        "kinbandits": __version__,
        "numpy": np.__version__,
    }
    store.write_cell(cell, result, timing)
    return cell.id, True
