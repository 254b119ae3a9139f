"""The dictionary: cost that does not grow, and what its approximation costs in regret. On the engine itself.

    python benchmarks/budgeted.py cost      CPU time a round and memory at t = 2,000 and later, and of 256 points
    python benchmarks/budgeted.py regret    against exact on data sets (needs KINBANDITS_DATA, but for Digits)

Ratios are within one run; seconds are never compared across runs. ``--rounds`` and ``--seeds`` cut a part short.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.spatial.distance import pdist

from engine import Problem, labelled
from kinbandits.errors import BudgetWarning
from kinbandits.kernels import RBF, RationalQuadratic
from kinbandits.regression import Common, Product, Query, Regression, Settings, make

SETS = {"digits": (1230, 256), "segment": (1000, 256), "pendigits": (4000, 512), "usps": (4000, 1000)}


def resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def product_seconds(n: int = 256, repeats: int = 30) -> float:
    """CPU seconds of one n x n x n product: the yardstick, taken beside each measurement."""
    a, times = np.random.default_rng(0).random((n, n)), []
    for _ in range(repeats):
        start = time.process_time()
        a @ a
        times.append(time.process_time() - start)
    return float(np.median(times))


def budget(points: int) -> Any:
    return SimpleNamespace(points=points, after=None)


def median_kernel(X: np.ndarray) -> RationalQuadratic:
    return RationalQuadratic(float(np.median(pdist(X[np.random.default_rng(0).permutation(len(X))[:500]]))))


class Clusters:
    """A stream: contexts near one of N centres in d dimensions; the arm of that centre pays 1, with 5 % noise."""

    def __init__(self, n_arms: int, d: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.centres = self.rng.standard_normal((n_arms, 3, d))
        self.n_arms, self.d = n_arms, d

    def draw(self) -> tuple[np.ndarray, int]:
        label, part = int(self.rng.integers(self.n_arms)), int(self.rng.integers(3))
        return self.centres[label, part] + 0.7 * self.rng.standard_normal(self.d), label

    def play(self, engine: Regression, rounds: int) -> float:
        """CPU seconds of these rounds; drawing the stream is outside."""
        drawn, arms = [(*self.draw(), self.rng.random() < 0.05) for _ in range(rounds)], np.arange(self.n_arms)
        start = time.process_time()
        for x, label, noise in drawn:
            arm = int(engine.leaders(Query(arms, x[None, None]), np.array([0.1]), 1e-12)[0].argmax())
            engine.observe(np.array([arm]), x[None], np.array([float((arm == label) != noise)]))
        return time.process_time() - start


def in_products(stream: Clusters, engine: Regression, stretches: int = 10) -> float:
    """Of a 256^3 product, what a round costs: the yardstick beside each stretch of 100 rounds."""
    return float(np.median([stream.play(engine, 100) / 100 / product_seconds() for _ in range(stretches)]))


def cost(rounds: int, seeds: int) -> None:
    found = []
    for points, d, name, k_z in (
        (512, 64, "Independent", Common(10)),
        (256, 16, "Independent", Common(10)),
        (256, 16, "Mixed", Common(10, 0.3)),
        (256, 16, "Known", RBF(0.3)(*[np.linspace(0.0, 1.0, 10)[:, None]] * 2)),
    ):
        stream = Clusters(10, d, 0)
        kernel = median_kernel(np.array([stream.draw()[0] for _ in range(200)]))
        engine = make(budget(points), Settings(10, (Product(k_z, kernel),), 0.01))  # type: ignore[arg-type]
        for t in (2_000, rounds or 20_000) if points == 512 else (2_500,):
            stream.play(engine, t - 1000 - engine.n_rows)
            found.append((in_products(stream, engine), resident_mb()))
            print(f"{points} points, {name}, t = {t}: {found[-1][0]:.2f} products of 256^3 a round", flush=True)
    (a, before), (b, after) = found[:2]
    print(f"cost ratio {b / a:.3f}; memory ratio {after / before:.3f}")


def regret(rounds: int, seeds: int) -> None:
    print("median kernel, Independent, ridge 0.01, exploration 0.1, uniform weights, mean regret")
    for name, (horizon, points) in SETS.items():
        pairs = []
        for seed in range(seeds or 10):
            data = labelled(name, rounds or horizon, seed)
            if data is None:
                break
            start, contexts, rewards = data
            term, T = Product(Common(start.n_arms), median_kernel(contexts[:, 0])), len(contexts)
            problem = Problem(name, Settings(start.n_arms, (term,), 0.01), *data, 0.1, 0)
            played = [problem.play(engine, T)[0] for engine in ("exact", budget(points))]
            pairs.append([T - rewards[np.arange(T), arms].sum() for arms in played])
        if pairs:
            exact, found = np.mean(pairs, axis=0)
            print(
                f"{name}, {points} points, {len(pairs)} seeds: exact {exact:.1f}, ratio {found / exact:.3f}", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("cost", "regret"))
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", BudgetWarning)
    {"cost": cost, "regret": regret}[arguments.part](arguments.rounds, arguments.seeds)


if __name__ == "__main__":
    main()
