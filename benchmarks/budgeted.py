"""The budgeted engine: cost that does not grow, and what its approximation costs in regret.

    python benchmarks/budgeted.py cost      per-round CPU time and memory at t = 2,000 and 100,000
    python benchmarks/budgeted.py regret    against exact, four data sets, ten streams (needs KINBANDITS_DATA)
    python benchmarks/budgeted.py kors      against a dictionary by KORS (EK-UCB's idea) at equal size
    python benchmarks/budgeted.py mnist     one pass over MNIST, k_Z estimated (needs KINBANDITS_DATA)
    python benchmarks/budgeted.py arms      1,000 arms with hidden descriptors, T = 20,000
    python benchmarks/budgeted.py million   1,000,000 rounds without growth or NaN
    python benchmarks/budgeted.py updates   every update of engine="auto", 0 to 20,000 rounds, docs/update-times.png
    python benchmarks/budgeted.py draw      docs/budgeted-mnist.png, of what mnist printed (docs/budgeted-mnist.txt)

Ratios are within one run; seconds are never compared across runs. ``--rounds`` and ``--seeds`` cut a part short.
"""

from __future__ import annotations

import argparse
import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

import kinbandits as kb
from kinbandits.errors import BudgetWarning
from kinbandits.kernels import DEFAULT_KERNEL
from kinbandits.regression.budgeted import BudgetedRegression

Array = NDArray[Any]


def resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def product_seconds(n: int = 256, repeats: int = 30) -> float:
    """CPU seconds of one n x n x n product: the yardstick, taken beside each measurement."""
    a = np.random.default_rng(0).random((n, n))
    times = []
    for _ in range(repeats):
        start = time.process_time()
        a @ a
        times.append(time.process_time() - start)
    return float(np.median(times))


class Clusters:
    """A stream: contexts near one of N centres in d dimensions; the arm of that centre pays 1, with 5 % noise."""

    def __init__(self, n_arms: int, d: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.centres = self.rng.standard_normal((n_arms, 3, d))
        self.n_arms, self.d = n_arms, d

    def draw(self) -> tuple[Array, int]:
        label, part = int(self.rng.integers(self.n_arms)), int(self.rng.integers(3))
        return self.centres[label, part] + 0.7 * self.rng.standard_normal(self.d), label

    def reward(self, arm: int, label: int) -> float:
        return float((arm == label) != (self.rng.random() < 0.05))


def play(policy: kb.KMTLUCB, stream: Clusters, rounds: int) -> float:
    """CPU seconds of these rounds; drawing the stream is outside."""
    drawn = [stream.draw() for _ in range(rounds)]
    start = time.process_time()
    for x, label in drawn:
        decision = policy.choose(x)
        policy.update(decision, stream.reward(decision.arm, label))
    return time.process_time() - start


def cost(rounds: int, seeds: int) -> None:
    stream = Clusters(10, 64, 0)
    kernel = default_kernel(np.array([stream.draw()[0] for _ in range(200)]))
    last = rounds or 100_000
    policy = kb.KMTLUCB(10, context_kernel=kernel, engine=kb.Budgeted(points=512), pending=kb.Pending(1000))
    print(f"m=512, N=10, d=64, {kernel}, uniform weights, Independent")
    found = {}
    for t in (2_000, last):
        while policy.n_observations < t - 1000:  # logged rows: the label's arm, or any
            drawn = [stream.draw() for _ in range(min(2000, t - 1000 - policy.n_observations))]
            arms = [y if stream.rng.random() < 0.5 else int(stream.rng.integers(10)) for _, y in drawn]
            for (x, y), a in zip(drawn, arms, strict=True):
                policy.observe([a], x[None, :], [stream.reward(a, y)])
        # The yardstick beside each stretch, so that a busy machine disturbs both alike.
        stretches = []
        for _ in range(10):
            unit = product_seconds()
            stretches.append(play(policy, stream, 100) / 100 / unit)
        found[t] = float(np.median(stretches)), resident_mb()
        print(
            f"t = {t:>7}: a round costs {found[t][0]:5.2f} products of 256^3; resident {found[t][1]:.0f} MB",
            flush=True,
        )
    (a, memory_a), (b, memory_b) = found.values()
    print(f"cost ratio {b / a:.3f} (bar: 1.2); memory ratio {memory_b / memory_a:.3f} (bar: 1.05)")

    stream = Clusters(10, 16, 0)
    kernel = default_kernel(np.array([stream.draw()[0] for _ in range(200)]))
    similarities = (kb.Independent(), kb.Known(kb.RBF(0.3), np.linspace(0.0, 1.0, 10)[:, None]), estimated(kernel))
    for similarity in similarities:
        name, bar = type(similarity).__name__, 2.0 if isinstance(similarity, kb.Estimated) else 0.5
        policy = kb.KMTLUCB(
            10, context_kernel=kernel, similarity=similarity, ridge=0.01, exploration=0.1, engine=kb.Budgeted(256)
        )
        play(policy, stream, 1500)
        ratios = []
        for _ in range(10):
            unit = product_seconds()
            ratios.append(play(policy, stream, 100) / 100 / unit)
        print(
            f"budget=256, N=10, d=16, {name}: a round at t = 1,500 to 2,500 costs {np.median(ratios):.2f} products "
            f"of 256^3 (bar: {bar:g})"
        )


def default_kernel(contexts: Array) -> kb.RationalQuadratic:
    """The kernel that `KMTLUCB` takes where nothing is said."""
    kernel: kb.RationalQuadratic = DEFAULT_KERNEL.kernel.replace(length_scale=float(np.median(pdist(contexts))))
    return kernel


def estimated(kernel: kb.kernels.Kernel) -> kb.Estimated:
    return kb.Estimated(length_scale=0.3, embedding_kernel=kernel)


# -- data sets ----------------------------------------------------------------------------------


def rows_of(name: str, horizon: int | None, seed: int) -> tuple[Array, Array, Array, Array]:
    """Features, start rows, stream rows, labels: balanced classes, 50 rows a class kept out, permuted by seed."""
    data = kb.datasets.load(name)
    X, y = data.features(), data.y
    rng = np.random.default_rng([20171204, seed])
    by_class = [rng.permutation(np.flatnonzero(y == c)) for c in range(y.max() + 1)]
    start = np.array([rows[0] for rows in by_class])
    least = min(len(rows) for rows in by_class) - 51
    stream = rng.permutation(np.concatenate([rows[51 : 51 + least] for rows in by_class]))
    return X, start, stream[:horizon], y


def regret_of(
    policy: Any, X: Array, start: Array, stream: Array, y: Array, every: int = 0
) -> tuple[float, list[float]]:
    for arm, row in enumerate(start):
        policy.observe([arm], X[row][None, :], [float(y[row] == arm)])
    total, curve = 0.0, []
    for i, row in enumerate(stream, 1):
        decision = policy.choose(X[row])
        reward = float(y[row] == decision.arm)
        policy.update(decision, reward)
        total += 1.0 - reward
        if every and i % every == 0:
            curve.append(total)
            print(f"  t = {i:>6}: regret {total:.0f} ({total / i:.4f} a round)", flush=True)
    return total, curve


def median_kernel(X: Array) -> kb.RationalQuadratic:
    """The default kernel, its median taken of 500 rows."""
    return default_kernel(X[np.random.default_rng(0).choice(len(X), 500, replace=False)])


SETS = {"digits": (1230, 256), "segment": (1000, 256), "pendigits": (4000, 512), "usps": (4000, 1000)}


def regret(rounds: int, seeds: int, names: list[str]) -> None:
    print("default kernel and similarity, ridge 0.01, exploration 0.1, uniform weights, mean regret")
    for name in names or list(SETS):
        horizon, budget = SETS[name]
        pairs = []
        for seed in range(seeds or 10):
            X, start, stream, y = rows_of(name, rounds or horizon, seed)
            kernel, n = median_kernel(X), len(start)
            fixed = {"ridge": 0.01, "exploration": 0.1}  # engines compared at equal settings, none of them learned
            settings: dict[str, Any] = {"context_kernel": kernel, "tie_break": "first", **fixed}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BudgetWarning)
                found = [
                    regret_of(kb.KMTLUCB(n, engine=engine, **settings), X, start, stream, y)[0]
                    for engine in ("exact", kb.Budgeted(points=budget))
                ]
            pairs.append(found)
            print(f"  {name} seed {seed}: exact {found[0]:.0f}, budgeted {found[1]:.0f}", flush=True)
        exact, budgeted = np.mean(pairs, axis=0)
        print(
            f"{name}: T={len(stream)}, m={budget}, {len(pairs)} seeds: exact {exact:.1f}, budgeted {budgeted:.1f}, "
            f"ratio {budgeted / exact:.3f} (bar: 1.05)",
            flush=True,
        )


def kors(rounds: int, seeds: int) -> None:
    import sys

    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "regression"))
    from kors import KorsUCB

    print("against EK-UCB's idea (dictionary by KORS), median rule, equal budgets, mean regret")
    for name, budget in (("digits", 128), ("digits", 256), ("segment", 64)):
        pairs = []
        for seed in range(seeds or 5):
            X, start, stream, y = rows_of(name, rounds or SETS[name][0], seed)
            kernel, n = median_kernel(X), len(start)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BudgetWarning)
                ours = kb.KMTLUCB(n, context_kernel=kernel, engine=kb.Budgeted(points=budget), tie_break="first")
                pairs.append(
                    [regret_of(p, X, start, stream, y)[0] for p in (ours, KorsUCB(n, kernel, budget, seed))]
                )
        a, b = np.mean(pairs, axis=0)
        print(
            f"{name}: m={budget}, {len(pairs)} seeds: budgeted {a:.1f}, KORS {b:.1f}, ratio {a / b:.3f} (bar: 1)",
            flush=True,
        )


def mnist(rounds: int, seeds: int) -> None:
    X, start, stream, y = rows_of("mnist", rounds or None, 0)
    kernel = median_kernel(X)
    policy = kb.KMTLUCB(
        10, context_kernel=kernel, similarity=estimated(kernel), engine=kb.Budgeted(points=256), tie_break="first"
    )
    print(f"MNIST, T={len(stream)}, {kernel}, {policy.similarity}, budget 256", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("always", BudgetWarning)
        regret_of(policy, X, start, stream, y, every=2500)
    for key, value in policy.engine_report().items():
        print(f"  {key}: {value}")


def draw(rounds: int, seeds: int) -> None:
    """The curve that ``mnist`` printed, as a figure."""
    import matplotlib.pyplot as plt

    docs = Path(__file__).parent.parent / "docs"
    text = (docs / "budgeted-mnist.txt").read_text()
    found = np.array([[int(t), int(r)] for t, r in re.findall(r"t = +(\d+): regret (\d+)", text)])
    t, total = np.vstack([[0, 0], found]).T
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.plot(t, total, color="#0072B2")
    left.set(xlabel="rounds", ylabel="regret", title="MNIST, one pass, 256 points")
    right.plot((t[1:] + t[:-1]) / 2, np.diff(total) / np.diff(t), color="#D55E00", marker="o", markersize=3)
    right.set(xlabel="rounds", ylabel="regret a round", title="in stretches of 2,500 rounds", ylim=(0, None))
    for axes in (left, right):
        axes.set_xticks(range(0, 60_001, 20_000))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
    left.yaxis.set_major_formatter("{x:,.0f}")
    figure.savefig(docs / "budgeted-mnist.png", dpi=120)


def arms(rounds: int, seeds: int) -> None:
    """Protocol of the hidden-descriptor problem with N = 1,000: p = 1, noise 0.1, expected regret."""
    N, T = 1000, rounds or 20_000
    rng = np.random.default_rng(seeds)
    z = rng.random((N, 1))
    K_arm = kb.RBF(length_scale=0.2)(z, z)
    frequencies = rng.standard_normal((200, 5)) / 1.5
    root = np.linalg.cholesky(K_arm + 1e-9 * np.eye(N))
    W = root @ rng.standard_normal((N, 400))

    def features(x: Array) -> Array:
        angles = frequencies @ x
        return np.concatenate([np.cos(angles), np.sin(angles)]) / np.sqrt(200)

    contexts = rng.uniform(-1, 1, (T, 5))
    noise = 0.1 * rng.standard_normal(T)
    kernel = kb.RBF(length_scale=1.5)
    makers: dict[str, Callable[[], Any]] = {
        "known descriptors, budgeted m=256": lambda: kb.KMTLUCB(
            N,
            context_kernel=kernel,
            similarity=kb.Known(kb.RBF(length_scale=0.2), z),
            engine=kb.Budgeted(),
            tie_break="first",
        ),
        "independent, exact": lambda: kb.KMTLUCB(
            N, context_kernel=kernel, similarity=kb.Independent(), engine="exact", tie_break="first"
        ),
        "LinUCB, exact": lambda: kb.baselines.LinUCB(N, engine="exact", tie_break="first", exploration=0.1),
        "LinUCB pooled, exact": lambda: kb.baselines.LinUCB(
            N, sharing="pooled", engine="exact", tie_break="first", exploration=0.1
        ),
    }
    print(f"{N} arms, T={T}, expected regret")
    for name, make in makers.items():
        policy, total = make(), 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            for t in range(T):
                f = W @ features(contexts[t])
                decision = policy.choose(contexts[t])
                total += float(f.max() - f[decision.arm])
                policy.update(decision, float(f[decision.arm] + noise[t]))
                if t + 1 in (T // 4, T // 2, T):
                    print(f"  {name}: t = {t + 1}: {total:.0f}", flush=True)


def million(rounds: int, seeds: int) -> None:
    stream = Clusters(5, 8, 1)
    kernel = default_kernel(np.array([stream.draw()[0] for _ in range(200)]))
    policy = kb.KMTLUCB(
        5,
        context_kernel=kernel,
        similarity=estimated(kernel),
        engine=kb.Budgeted(points=64),
        pending=kb.Pending(1000),
    )
    last, step = rounds or 1_000_000, (rounds or 1_000_000) // 20
    memory: list[float] = []
    for i in range(20):
        for low in range(0, step, 500):  # few contexts at a time, so that only the policy could fill the memory
            play(policy, stream, min(500, step - low))
        x, _ = stream.draw()
        mean, width = policy.predict(x)
        assert np.isfinite([mean, width]).all(), "not finite"
        memory.append(resident_mb())
        print(
            f"t = {(i + 1) * step:>8}: resident {memory[-1]:.0f} MB, widths {width.min():.3f} to {width.max():.3f}",
            flush=True,
        )
    growth = memory[-1] / memory[0]
    print(f"{last} rounds, all finite; memory at the end over that after {step}: {growth:.3f} (bar: 1.05)")
    assert growth <= 1.05


def updates(rounds: int, seeds: int) -> None:
    """CPU time of every update, N=10, d=6, the change from exact to budgeted included."""
    import matplotlib.pyplot as plt

    T = rounds or 20_000
    policies: dict[str, Any] = {"Independent": {"similarity": kb.Independent()}, "default policy": {}}
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
    for (name, given), ax in zip(policies.items(), axes, strict=True):
        stream, policy = Clusters(10, 6, 0), kb.KMTLUCB(10, **given)
        times, change = np.empty(T), T
        for i in range(T):
            x, label = stream.draw()
            decision = policy.choose(x)
            reward = stream.reward(decision.arm, label)
            start = time.process_time()
            policy.update(decision, reward)
            times[i] = 1e3 * (time.process_time() - start)
            if change == T and isinstance(policy.regression, BudgetedRegression):
                change = i
        late = times[change + 1 :]
        medians = times.max() / np.median(times)
        print(f"{name}, T={T}: median {np.median(times):.2f} ms, largest {times.max():.1f} ms at {times.argmax()}")
        print(f"  {medians:.0f} medians (bar: 50 ms or 30); change at {change}, then {late.mean():.2f} ms (bar: 2)")
        ax.plot(times, ".", markersize=1, color="#0072B2")
        ax.axvline(change, color="#D55E00", linewidth=0.8)
        ax.set(xlabel="round", title=name, yscale="log", xticks=range(0, T + 1, max(1, T // 4)))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("ms of one update")
    figure.savefig(Path(__file__).parent.parent / "docs" / "update-times.png", dpi=120)


def main() -> None:
    parts = {
        "updates": updates,
        "cost": cost,
        "kors": kors,
        "mnist": mnist,
        "arms": arms,
        "million": million,
        "draw": draw,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*parts, "regret"])
    parser.add_argument("names", nargs="*", help="data sets, for regret")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=0)
    options = parser.parse_args()
    if options.part == "regret":
        regret(options.rounds, options.seeds, options.names)
    else:
        parts[options.part](options.rounds, options.seeds)


if __name__ == "__main__":
    main()
