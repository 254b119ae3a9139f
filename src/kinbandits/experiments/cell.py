"""Running one cell. This is what travels to the workers: a cell's description, never data."""

from __future__ import annotations

import contextlib
import os
import platform
import time
import traceback
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kinbandits._version import __version__
from kinbandits.errors import InvalidInputError
from kinbandits.experiments.config import FORMAT, Cell
from kinbandits.experiments.storage import CellStore
from kinbandits.policies import KMTLUCB
from kinbandits.similarity import Stepwise
from kinbandits.simulate import simulate
from kinbandits.trace import Trace


def compute_cell(cell: Cell) -> Trace:
    """Play the cell's policy on its environment. Depends on nothing but the cell.

    The metadata of the trace hold names, settings, and after the last round ``counts``, the rows of each arm, and
    ``similarity``, the (N, N) matrix (empty for a policy without one).
    """
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
