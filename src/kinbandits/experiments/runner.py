"""Running an experiment: all cells that are not finished yet, on a backend, until there are none.

Workers get a cell's description, never data. Finished is what has a result file (`storage`): a killed worker or
driver costs the cells under way, and a resumed run goes on from there.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from threadpoolctl import threadpool_limits

from kinbandits._version import __version__
from kinbandits.errors import InvalidInputError
from kinbandits.experiments.backends import WorkerLostError, backend
from kinbandits.experiments.config import FORMAT, Cell, Experiment
from kinbandits.experiments.storage import CellStore
from kinbandits.policy import KMTLUCB
from kinbandits.progress import Progress, clock
from kinbandits.similarity import Stepwise
from kinbandits.simulate import simulate
from kinbandits.trace import Trace

_FRUITLESS = 3  # attempts without a single finished cell before giving up


def run_experiment(
    experiment: Experiment,
    directory: str | PathLike[str],
    *,
    resume: bool = False,
    extend: bool = False,
    jobs: int = -1,
    backend_name: str = "loky",
    scheduler: str | None = None,
    stream: TextIO | None = None,
    name: str = "experiment",
) -> Path:
    """Run every cell that is not finished, and write ``results.csv``; gives its path.

    Args:
        resume: go on with what is there. Without it, a directory that holds an experiment is refused.
        extend: like ``resume``, but the directory may hold another experiment, whose cells are kept and used.
        jobs: how many cells at a time; -1 is all processors.
        backend_name, scheduler: ``"loky"``, ``"dask"`` or ``"ray"``, and the address of a cluster (else local).
        stream: where progress is written; None is silence.
        name: of the experiment in its directory, where several share one (see `CellStore`).
    """
    store = CellStore(directory, name)
    experiment.check()
    store.open(experiment, resume, extend)

    def say(text: str) -> None:
        if stream is not None:
            print(text, file=stream, flush=True)

    with store.locked():
        cells = experiment.cells()
        rounds = {e.name: e.make(experiment.seeds_of(e)[0]).horizon for e in experiment.environments}
        work = {cell.id: float(rounds[cell.environment.name]) ** 2 for cell in cells}
        failed: set[str] = set()
        if set(work) - store.done():
            with backend(backend_name, jobs, scheduler, store.directory, say) as run:
                started = time.monotonic()
                with _watched(work, store.done, stream):
                    failed = _until_done(run, store, cells, work, say)
                say(f"{len(cells)} cells, {clock(time.monotonic() - started)}")
        store.tidy()
        table = store.write_table(experiment)
    if failed:
        _raise_failed(store, cells, failed)
    return table


@contextlib.contextmanager
def _watched(
    work: dict[str, float], done: Callable[[], set[str]], stream: TextIO | None, every: float = 0.5
) -> Iterator[None]:
    """Progress, seen by counting result files; ``work`` is that of every cell, its rounds squared, by id."""
    total = sum(work.values())

    def state() -> tuple[int, float]:
        finished = done() & set(work)
        return len(finished), sum(work[i] for i in finished) / total

    before, share = state()
    with Progress(len(work), "cells", stream=stream, done=before, share=share) as progress:
        stop = threading.Event()

        def watch() -> None:
            seen = -1
            while not stop.wait(every):
                count, share = state()
                if count != seen:
                    progress.to(count, share)
                seen = count

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            progress.to(*state())


def _until_done(
    run: Callable[..., None],
    store: CellStore,
    cells: list[Cell],
    work: dict[str, float],
    say: Callable[[str], None],
) -> set[str]:
    """Send what is left, again after every loss, as long as something gets finished. Gives failed ids."""
    fruitless = 0
    for path in store.errors.glob("*.txt"):
        path.unlink()  # a resumed run tries again
    while True:
        before = store.done()
        failed = {path.stem for path in store.errors.glob("*.txt")}
        left = [c for c in cells if c.id not in before and c.id not in failed]
        if not left:
            return failed & set(work)
        # The longest first, so that no processor is left with a long one at the end.
        left.sort(key=lambda c: -work[c.id])
        try:
            run(run_cell, [(str(store.directory.resolve()), c) for c in left])
        except WorkerLostError as loss:
            fruitless = 0 if store.done() - before else fruitless + 1
            if fruitless >= _FRUITLESS:
                raise InvalidInputError(
                    f"workers died {fruitless} times without finishing a cell ({loss}); is there enough memory? "
                    "Try fewer --jobs, then --resume"
                ) from loss
            say(f"a worker died ({loss}); going on with the {len(set(work) - store.done())} cells left")


def _raise_failed(store: CellStore, cells: list[Cell], failed: set[str]) -> None:
    first = next(c for c in cells if c.id in failed)
    why = (store.errors / f"{first.id}.txt").read_text(encoding="utf-8").splitlines()[1]
    raise InvalidInputError(
        f"{len(failed)} of {len(cells)} cells failed; the first, {first}: {why}. The whole story is in "
        f"{store.errors}; the other cells are kept, and --resume tries the failed ones again"
    )


def compute_cell(cell: Cell) -> Trace:
    """Play the cell's policy on its environment. The metadata have settings, final counts and similarity."""
    environment, policy = cell.make()
    settings = repr(policy)
    trace = simulate(policy, environment)
    matrix = getattr(policy, "similarity_matrix", None)
    several = len(getattr(policy, "terms", (None,))) > 1
    metadata: dict[str, Any] = {
        "format": FORMAT,
        "environment": cell.environment.name,
        "environment_settings": cell.environment.record(),
        "method": cell.method.name,
        "policy": settings,
        "seed": cell.seed,
        "arms": [str(a) for a in environment.arms],
        "counts": list(getattr(policy, "counts", {}).values()),
        "similarity": matrix().tolist() if matrix is not None and not several else [],
    }
    if isinstance(policy, KMTLUCB) and isinstance(policy.similarity, Stepwise):
        with contextlib.suppress(InvalidInputError):  # rows are no longer kept
            metadata["choices"] = policy.similarity_report(complete=False).to_data()
    lasting: dict[str, Any] = {name: column for name, column in trace.columns.items() if name != "seconds"}
    return Trace.of(lasting, metadata)


def run_cell(directory: str, cell: Cell) -> bool:
    """Compute one cell on one thread and write it down; False if it failed (then errors/ says why)."""
    store = CellStore(directory)
    if cell.id in store.done():  # another attempt got here first
        return True
    started, clock, cpu = time.time(), time.perf_counter(), time.process_time()
    try:
        with threadpool_limits(1):
            result = compute_cell(cell)
    except Exception as error:
        store.write_error(cell, f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}")
        return False
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
    return True
