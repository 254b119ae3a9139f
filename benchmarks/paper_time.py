"""What the paper's experiments cost: measured, and extrapolated for re-factorising every round.

    python benchmarks/paper_time.py runs/paper-paper-streams

The first from the times that the runs wrote down. The second from single rounds of the baseline ``refactorise``
(kernel matrix kept, one Cholesky factor a round) with t = 250 to 4000 rows, on one thread, interpolated in between
and added up over all rounds of all runs. Answers are equal: the report compares every run with the dense reference.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import kinbandits as kb
from engine import make_policy
from kinbandits.experiments import CellStore
from kinbandits.experiments.storage import load_cell
from kinbandits.progress import clock

SIZES = (250, 500, 1000, 2000, 4000)


def seconds_of_a_round(rows: int, n_arms: int, repeats: int = 3) -> float:
    """Median time to choose and to learn with this many rows, re-factorising."""
    rng = np.random.default_rng(rows)
    X = rng.normal(size=(rows + repeats, 16))
    settings = kb.presets.paper("digits")
    policy = make_policy("refactorise", {**settings, "arms": n_arms})
    policy.observe(rng.integers(n_arms, size=rows).tolist(), X[:rows], rng.integers(2, size=rows).astype(float))
    times = []
    for x in X[rows:]:
        start = time.process_time()
        policy.update(policy.choose(x), 1.0)
        times.append(time.process_time() - start)
    return statistics.median(times)


def extrapolated(horizon: int, costs: dict[int, float]) -> float:
    """All rounds of one run: a power law between the sizes measured."""
    t = np.arange(1, horizon + 1)
    logs = np.interp(np.log(t), np.log(list(costs)), np.log(list(costs.values())))
    return float(np.exp(logs).sum())


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where kinbandits paper wrote its runs")
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    measured: dict[str, list[tuple[int, float]]] = {}
    times: dict[str, tuple[float, float]] = {}
    for part, after in (("experiment", ""), ("sweep", ", swept")):
        store = CellStore(arguments.directory, part)
        for environment, _, _, cell in store.record()["cells"]:
            timing = store.timing(cell)
            if timing and cell not in times:
                rounds = len(load_cell(store.cells / f"{cell}.npz"))
                measured.setdefault(environment + after, []).append((rounds, timing["cpu_seconds"]))
                times[cell] = timing["started"], timing["started"] + timing["seconds"]
    with threadpool_limits(1):
        costs = {size: seconds_of_a_round(size, 10) for size in SIZES}
    print("re-factorising, ms a round: " + ", ".join(f"t={t} {1000 * c:.1f}" for t, c in costs.items()))
    print(f"{'data':22} {'runs':>5} {'rounds':>7} {'CPU s a run':>12} {'re-factorising':>15} {'ratio':>7}")
    ours = theirs = 0.0
    for name, runs in measured.items():
        own = [seconds for _, seconds in runs]
        other = [extrapolated(rounds, costs) for rounds, _ in runs]
        ours, theirs = ours + sum(own), theirs + sum(other)
        mean, mean_other = statistics.mean(own), statistics.mean(other)
        print(f"{name:22} {len(runs):5} {runs[0][0]:7} {mean:12.2f} {mean_other:15.1f} {mean_other / mean:7.1f}")
    starts, ends = zip(*times.values(), strict=True)
    print(f"from the first start to the last end: {clock(max(ends) - min(starts))}")
    print(
        f"all: {clock(ours)} of one core, {clock(ours / arguments.cores)} on {arguments.cores}; re-factorising "
        f"each round {clock(theirs)} and {clock(theirs / arguments.cores)}; ratio {theirs / ours:.0f}"
    )


if __name__ == "__main__":
    main()
