"""What a policy costs: CPU a decision and update, and memory, in a process of its own.

    PYTHONPATH=benchmarks python -m compare.costs < cell.json

The rounds are made and the packages imported (by a short game) before anything is measured. CPU is the process time
of choose and update alone, on one thread; memory is what the process has grown by, policy and all it has learned.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kinbandits._files import atomic_write
from kinbandits.errors import KinbanditsError
from kinbandits.experiments.config import Cell, EnvironmentConfig, MethodConfig

__all__ = ["cost_of"]


def cost_of(cell: Cell, directory: Path) -> dict[str, float]:
    """Milliseconds a decision and update, and megabytes; measured once and kept in ``directory``."""
    path = directory / f"{cell.id}.json"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        source = json.dumps(
            {
                "environment": cell.environment.model_dump(mode="json"),
                "method": cell.method.model_dump(mode="json"),
                "seed": cell.seed,
            }
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "compare.costs"],
            input=source,
            capture_output=True,
            text=True,
            env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        if done.returncode:
            raise KinbanditsError(f"measuring {cell} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        atomic_write(path, done.stdout.strip().splitlines()[-1].encode())
    found: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _measure(cell: Cell) -> dict[str, float]:
    environment, warm = cell.make()
    start, rounds = environment.start_rows(), list(environment.rounds())
    _play(warm, start, rounds[:20])
    del warm
    gc.collect()
    before = _memory()
    policy = cell.make()[1]
    seconds = _play(policy, start, rounds)
    gc.collect()
    grown = max(_memory() - before, 0.0)
    return {"cpu_ms": 1000.0 * seconds / len(rounds), "megabytes": grown, "rounds": float(len(rounds))}


def _play(policy: Any, start: Any, rounds: Any) -> float:
    names, contexts, rewards = start
    if len(names):
        policy.observe(names, contexts, rewards)
    seconds = 0.0
    for r in rounds:
        clock = time.process_time()
        decision = policy.choose(r.context)
        seconds += time.process_time() - clock
        reward = float(r.rewards[decision.index])
        clock = time.process_time()
        policy.update(decision, reward)
        seconds += time.process_time() - clock
    return seconds


def _memory() -> float:
    """Resident megabytes of this process now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:  # not Linux: the largest so far
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    given = json.load(sys.stdin)
    asked = Cell(
        EnvironmentConfig.model_validate(given["environment"]),
        MethodConfig.model_validate(given["method"]),
        given["seed"],
    )
    print(json.dumps(_measure(asked)))
