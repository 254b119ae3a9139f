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
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from kinbandits.errors import BudgetWarning
from kinbandits.kernels import RBF, RationalQuadratic
from kinbandits.regression import Common, Product, Query, Regression, Settings, make

Array = NDArray[Any]
EXPLORATION = np.array([0.1])


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


def median_kernel(X: Array) -> RationalQuadratic:
    return RationalQuadratic(
        length_scale=float(np.median(pdist(X[np.random.default_rng(0).permutation(len(X))[:500]])))
    )


def choose(engine: Regression, x: Array) -> int:
    query = Query(np.arange(engine.settings.n_arms), x[None, None])
    return int(engine.leaders(query, EXPLORATION, 1e-12)[0].argmax())


def learn(engine: Regression, arm: int, x: Array, reward: float) -> None:
    engine.observe(np.array([arm]), x[None], np.array([reward]))


class Clusters:
    """A stream: contexts near one of N centres in d dimensions; the arm of that centre pays 1, with 5 % noise."""

    def __init__(self, n_arms: int, d: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.centres = self.rng.standard_normal((n_arms, 3, d))
        self.n_arms, self.d = n_arms, d

    def draw(self) -> tuple[Array, int]:
        label, part = int(self.rng.integers(self.n_arms)), int(self.rng.integers(3))
        return self.centres[label, part] + 0.7 * self.rng.standard_normal(self.d), label

    def play(self, engine: Regression, rounds: int) -> float:
        """CPU seconds of these rounds; drawing the stream is outside."""
        drawn = [(*self.draw(), self.rng.random() < 0.05) for _ in range(rounds)]
        start = time.process_time()
        for x, label, noise in drawn:
            arm = choose(engine, x)
            learn(engine, arm, x, float((arm == label) != noise))
        return time.process_time() - start


def in_products(stream: Clusters, engine: Regression, stretches: int = 10) -> float:
    """Of a 256^3 product, what a round costs: the yardstick beside each stretch of 100 rounds."""
    ratios = []
    for _ in range(stretches):
        unit = product_seconds()
        ratios.append(stream.play(engine, 100) / 100 / unit)
    return float(np.median(ratios))


def cost(rounds: int, seeds: int) -> None:
    stream = Clusters(10, 64, 0)
    kernel = median_kernel(np.array([stream.draw()[0] for _ in range(200)]))
    engine = make(budget(512), Settings(10, (Product(Common(10), kernel),), 0.01))
    found = []
    for t in (2_000, rounds or 20_000):
        stream.play(engine, t - 1000 - engine.n_rows)
        found.append((in_products(stream, engine), resident_mb()))
        print(
            f"512 points, t = {t}: a round costs {found[-1][0]:.2f} products of 256^3; {found[-1][1]:.0f} MB",
            flush=True,
        )
    print(f"cost ratio {found[1][0] / found[0][0]:.3f}; memory ratio {found[1][1] / found[0][1]:.3f}")
    z = np.linspace(0.0, 1.0, 10)[:, None]
    for name, k_z in (("Independent", Common(10)), ("Mixed", Common(10, 0.3)), ("Known", RBF(0.3)(z, z))):
        stream = Clusters(10, 16, 0)
        kernel = median_kernel(np.array([stream.draw()[0] for _ in range(200)]))
        engine = make(budget(256), Settings(10, (Product(k_z, kernel),), 0.01))  # type: ignore[arg-type]
        stream.play(engine, 1500)
        print(f"256 points, {name}: a round costs {in_products(stream, engine):.2f} products of 256^3", flush=True)


def rows_of(name: str, horizon: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Contexts, labels, start rows, stream rows: balanced classes, permuted by seed."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
    else:
        with np.load(Path(os.environ["KINBANDITS_DATA"]) / f"{name}.npz") as file:
            X, y = file["X"] * float(file.get("scale", 1.0)), file["y"]
            if name == "segment":
                X = 2.0 * (X - X.min(axis=0)) / np.maximum(X.max(axis=0) - X.min(axis=0), 1e-12) - 1.0
    rng = np.random.default_rng([20171204, seed])
    by_class = [rng.permutation(np.flatnonzero(y == c)) for c in range(y.max() + 1)]
    least = min(len(rows) for rows in by_class) - 51
    stream = rng.permutation(np.concatenate([rows[51 : 51 + least] for rows in by_class]))
    return np.asarray(X, dtype=np.float64), y, np.array([rows[0] for rows in by_class]), stream[:horizon]


def regret_of(engine: Any, X: Array, y: Array, start: Array, stream: Array) -> int:
    for arm, row in enumerate(start):
        learn(engine, arm, X[row], 1.0)
    total = 0
    for row in stream:
        arm = choose(engine, X[row])
        learn(engine, arm, X[row], float(y[row] == arm))
        total += int(y[row] != arm)
    return total


SETS = {"digits": (1230, 256), "segment": (1000, 256), "pendigits": (4000, 512), "usps": (4000, 1000)}


def regret(rounds: int, seeds: int) -> None:
    print("median kernel, Independent, ridge 0.01, exploration 0.1, uniform weights, mean regret")
    for name, (horizon, points) in SETS.items():
        if name != "digits" and "KINBANDITS_DATA" not in os.environ:
            continue
        pairs = []
        for seed in range(seeds or 10):
            X, y, start, stream = rows_of(name, rounds or horizon, seed)
            settings = Settings(len(start), (Product(Common(len(start)), median_kernel(X)),), 0.01)
            pairs.append([regret_of(make(e, settings), X, y, start, stream) for e in ("exact", budget(points))])
        exact, dictionary = np.mean(pairs, axis=0)
        print(
            f"{name}: T={len(stream)}, {points} points, {len(pairs)} seeds: exact {exact:.1f}, dictionary "
            f"{dictionary:.1f}, ratio {dictionary / exact:.3f}",
            flush=True,
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
