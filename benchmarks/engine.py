"""How fast is the exact engine? Ratios to two named baselines, in one run, on the engine itself, without a policy.

Equal arms are checked first.

    naive        the paper's formula, everything built anew at every call
    refactorise  the context-kernel matrix cached, one Cholesky factor of the present matrix a round, one triangular
                 solve: what a careful implementer would write

Usage: python benchmarks/engine.py [--quick] [--only TEXT ...]

Problems: Digits, Pendigits and Letter with the published settings (Estimated similarity, weights 1/n_a; Pendigits
and Letter where KINBANDITS_DATA has them), near-singular similarities, Independent, known similarities, Lin-UCB.
Games are timed in CPU seconds of one thread, engine and baseline in turn; where all is played in full, the median
of three counts. Where the baseline would take too long, its cost is measured at some sizes t and interpolated
(marked ~). The naive formula is timed at t = 400.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from kinbandits.history import History
from kinbandits.kernels import RBF, Linear
from kinbandits.regression import Common, Product, Query, Regression, Settings, make
from kinbandits.regression.dense import Dense
from kinbandits.regression.pairs import dense
from kinbandits.similarity import Estimated

GRID = np.logspace(-3, 2, 10)  # the authors' precisions and ridges are points of it
PUBLISHED = {"digits": (0, 2, 9, 0), "pendigits": (0, 0, 9, 0), "letter": (6, 8, 9, 0)}
SIZES = (250, 500, 1000, 2000, 3000, 4000)


class Refactorise(Dense):
    """The library's own, with memory that is used again and nothing copied: faster beyond 100 rows."""

    _work = np.empty(0)

    def _matrix(self) -> np.ndarray:
        arms, t = self._rows.arms, len(self._rows)
        if not self._grams:
            self._enter(0, self._compared(0))
        if t * t > len(self._work):
            self._work = np.empty(2 * t * t)
        M = self._work[: t * t].reshape(t, t)
        (K,), (K_Z,) = self._grams, self.pairs.K_Zs
        np.take(dense(K_Z).take(arms, axis=0), arms, axis=1, out=M, mode="clip")
        M *= K[:t, :t]
        self._work[: t * t : t + 1] += self._noise()
        return M

    def _factor(self) -> tuple[np.ndarray, np.ndarray]:
        if self._solved is None:
            L, info = dpotrf(self._matrix().T, lower=1, clean=0, overwrite_a=1)
            assert not info
            self._solved = L, dtrtrs(L, self.y, lower=1)[0]
        return self._solved

    def _through(self, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        L, z = self._factor()
        c = dtrtrs(L, k, lower=1)[0]
        return c.T @ z, c


def engine_of(name: Any, settings: Settings, rows: History) -> Regression:
    return Refactorise(settings, rows) if name == "refactorise" else make(name, settings, rows)


@dataclass
class Problem:
    """One game: rows that are known, contexts (T, 1, d), rewards of all arms (T, N)."""

    name: str
    settings: Settings
    start: History
    contexts: np.ndarray
    rewards: np.ndarray
    exploration: float
    checked: int

    def choose(self, engine: Regression, t: int) -> int:
        query = Query(np.arange(self.settings.n_arms), self.contexts[t : t + 1])
        return int(engine.leaders(query, np.array([self.exploration]), 1e-12)[0].argmax())

    def learn(self, engine: Regression, t: int, arm: int) -> None:
        engine.observe(np.array([arm]), self.contexts[t], self.rewards[t, arm : arm + 1])

    def play(self, name: Any, rounds: int) -> tuple[list[int], np.ndarray, Regression]:
        """Arms, and CPU seconds of each round."""
        engine, arms, seconds = engine_of(name, self.settings, self.start.copy()), [], np.zeros(rounds)
        for t in range(rounds):
            before = time.process_time()
            arms.append(self.choose(engine, t))
            self.learn(engine, t, arms[-1])
            seconds[t] = time.process_time() - before
        return arms, seconds, engine

    def after(self, name: str, arms: list[int], t: int) -> Regression:
        """The engine after the first t rounds, played like that."""
        rows = self.start.copy()
        chosen = np.array(arms[:t])
        rows.append(chosen, self.contexts[:t, 0], self.rewards[np.arange(t), chosen])
        return engine_of(name, self.settings, rows)

    def cost(self, name: str, arms: list[int], t: int, repeats: int) -> float:
        """Median CPU seconds of a round after t rounds."""
        engine, costs = self.after(name, arms, t), []
        self.choose(engine, t - 1)
        for i in range(t, t + repeats):
            before = time.process_time()
            self.choose(engine, i)
            self.learn(engine, i, arms[i])
            costs.append(time.process_time() - before)
        return float(np.median(costs))


def slope(seconds: np.ndarray, low: int) -> float:
    """Slope of log cost per round against log t, from means of eight stretches."""
    edges = np.geomspace(low, len(seconds), 9).astype(int)
    means = [np.mean(seconds[a:b]) for a, b in pairwise(edges)]
    return float(np.polyfit(np.log((edges[:-1] + edges[1:]) / 2), np.log(means), 1)[0])


def compare(problem: Problem) -> dict[str, Any]:
    """Equal arms first, then costs."""
    horizon, full = len(problem.contexts), problem.checked >= len(problem.contexts)
    totals: dict[str, list[float]] = {"exact": [], "refactorise": []}
    for _ in range(3 if full else 1):
        arms, seconds, engine = problem.play("exact", horizon)
        baseline, base_seconds, _ = problem.play("refactorise", min(problem.checked, horizon))
        totals["exact"].append(float(seconds.sum()))
        totals["refactorise"].append(float(base_seconds.sum()))
    differ, checked = sum(a != b for a, b in zip(arms, baseline, strict=False)), len(baseline)
    total = float(np.median(totals["refactorise"]))
    if not full:
        at = [*(t for t in SIZES if t < horizon - 4), horizon - 4]
        points = [problem.cost("refactorise", arms, t, 3) for t in at]
        rounds = np.arange(1, horizon + 1)
        total = float(np.exp(np.interp(np.log(rounds), np.log(at), np.log(points))).sum())
        for t in np.linspace(checked, horizon - 1, 20).astype(int).tolist():  # the same arm after the same rows
            differ += problem.choose(problem.after("refactorise", arms, t), t) != arms[t]
            checked += 1
    naive = problem.cost("naive", arms, min(400, horizon - 4), 2)
    return {
        "problem": problem.name,
        "T": horizon,
        "differ": differ,
        "checked": checked,
        "mark": "" if full else "~",
        "refactorise / exact": total / float(np.median(totals["exact"])),
        "naive / exact at t=400": naive / float(np.median(seconds[max(0, min(380, horizon - 40)) :][:40])),
        "slope": slope(seconds, max(100, horizon // 4)),
        "ms a round": 1000.0 * float(seconds.mean()),
        "report": engine.report(),
    }


def labelled(name: str, horizon: int, seed: int = 0) -> tuple[History, np.ndarray, np.ndarray] | None:
    """A row of each class to start with; contexts and rewards of balanced classes after."""
    folder = os.environ.get("KINBANDITS_DATA")
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
    elif folder is None:
        print(f"left out: {name} (KINBANDITS_DATA is not set)")
        return None
    else:
        with np.load(Path(folder) / f"{name}.npz") as file:
            X, y = file["X"] * float(file.get("scale", 1.0)), file["y"]
        if name in ("letter", "segment"):  # from -1 to 1, as in the paper's experiments
            X = 2.0 * (X - X.min(axis=0)) / np.maximum(X.max(axis=0) - X.min(axis=0), 1e-12) - 1.0
    rng, n = np.random.default_rng(seed), int(y.max()) + 1
    by_class = [rng.permutation(np.flatnonzero(y == c)) for c in range(n)]
    least = min(len(rows) for rows in by_class) - 1
    start, rest = np.array([rows[0] for rows in by_class]), np.concatenate([r[1 : 1 + least] for r in by_class])
    order = rng.permutation(rest)[:horizon]
    rows = History.of(n, np.arange(n), X[start], np.ones(n))
    return rows, X[order][:, None, :], (y[order][:, None] == np.arange(n)).astype(np.float64)


def problems(quick: bool) -> list[Problem]:
    """What is measured, and how many rounds are checked."""
    found: list[Problem] = []

    def add(name: str, what: str, horizon: int, checked: int, k_z: Any = None, weighting: Any = "per_arm") -> None:
        data = labelled(name, 400 if quick else horizon)
        if data is None or (quick and name != "digits"):
            return
        context, embedding, arm, ridge = (float(GRID[i]) for i in PUBLISHED[name])
        n = data[0].n_arms
        estimated = Estimated(RBF.from_precision(arm).length_scale, RBF.from_precision(embedding))
        term = Product(estimated if k_z is None else k_z(n, estimated), RBF.from_precision(context))
        settings = Settings(n, (term,), ridge, weighting)
        found.append(Problem(f"{name}, {what}", settings, *data, 0.1 * np.sqrt(ridge), checked))

    def known(n: int, _: Any) -> np.ndarray:
        z = np.linspace(0.0, 1.0, n)[:, None]
        return RBF(0.2)(z, z)

    add("digits", "Estimated, per arm", 1230, 1230)
    add("pendigits", "Estimated, per arm", 4000, 1000)
    add("letter", "Estimated, per arm", 2000, 400)
    add("pendigits", "Independent, per arm", 4000, 600, lambda n, _: Common(n))
    add("pendigits", "Pooled, per arm", 1500, 400, lambda n, _: Common(n, 1.0))
    add("pendigits", "Mixed 0.95, per arm", 1500, 400, lambda n, _: Common(n, 0.95))
    add(
        "pendigits",
        "Estimated, 30 times as wide",
        1500,
        400,
        lambda n, e: e.replace(length_scale=30 * e.length_scale),
    )
    for what, k_z in (
        ("Independent", lambda n, _: Common(n)),
        ("Mixed 0.3", lambda n, _: Common(n, 0.3)),
        ("Pooled", lambda n, _: Common(n, 1.0)),
        ("Known", known),
    ):
        add("digits", f"{what}, uniform", 1230, 1230 if quick else 300, k_z, "uniform")
        add("pendigits", f"{what}, uniform", 4000, 400, k_z, "uniform")
    rng = np.random.default_rng(1)
    T = 400 if quick else 4000
    X = rng.normal(size=(T, 1, 10))
    rewards = X[:, 0] @ rng.normal(size=(10, 20)) + 0.1 * rng.normal(size=(T, 20))
    linear = Settings(20, (Product(Common(20), Linear()),), 1.0)
    found.append(Problem("Lin-UCB, 20 arms", linear, History(20), X, rewards, 1.0, 200))
    z, few = rng.uniform(size=(100, 2)), T // 4
    hundred = Settings(100, (Product(RBF(0.2)(z, z), RBF(1.5)),), 0.1)
    f = np.sin(X[:few, 0, :1] + 3.0 * z[:, 0]) + X[:few, 0, 1:2] * z[:, 1]
    found.append(Problem("Known, 100 arms, uniform", hundred, History(100), X[:few, :, :5], f, 0.1, 300))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute")
    parser.add_argument("--only", nargs="*", default=[], help="problems whose name begins so, and nothing else")
    arguments = parser.parse_args()
    chosen = [p for p in problems(arguments.quick) if not arguments.only or p.name.startswith(tuple(arguments.only))]
    chosen[0].play("exact", 200)  # imports and first calls are not measured
    print(f"{'problem':40s} {'T':>5s} {'refactorise':>12s} {'naive':>6s} {'slope':>6s} {'ms':>6s} {'differ':>14s}")
    for problem in chosen:
        row = compare(problem)
        print(
            f"{row['problem'][:40]:40s} {row['T']:5d} "
            f"{row['mark'] + format(row['refactorise / exact'], '.1f'):>12s} {row['naive / exact at t=400']:6.0f} "
            f"{row['slope']:6.2f} {row['ms a round']:6.2f} "
            f"{row['differ']:5d} of {row['checked']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
