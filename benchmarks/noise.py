"""Noise: eleven problems with and without it, against the best rule of the study that asked for a learned ridge.

    python benchmarks/noise.py --seeds 10
    python benchmarks/noise.py --problems "clicks,clicks rare" --methods "default;LinUCB, constant" --seeds 20
    python benchmarks/noise.py --problems linear --methods "default;no linear part;features as they are;LinUCB"
    python benchmarks/noise.py --cost

Rewards of labels are 1 for the right arm and 0 for others; "noisy": with probability 0.6 and 0.1; "rare": 0.2 and
0.02. Clicks have log odds linear in the context; wiggly functions have Gaussian noise of 0.5 ("low": 0.1). 1,000
rounds, no start rows, expected regret. "best of study" is the lowest cell of each column of the study's table; a
cell has a standard error of 2 to 5 %. "linear" stands for six problems that are not of the study: rewards linear in
the context with noise of 0.5, once with features in their own units, and the labels of wine as measured (with
scikit-learn); there ratios are to the default. Results are kept in a file, one line of JSON a run; what is there is
not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kinbandits as kb
from kinbandits.baselines import LinUCB
from kinbandits.environments import Streams

ROUNDS = 1000
STREAMS = "docs/paper/streams.npz"


class Problem(NamedTuple):
    """Contexts (T, d), means and rewards (T, N)."""

    X: np.ndarray
    means: np.ndarray
    rewards: np.ndarray


def labels(data: str, seed: int, right: float = 1.0, wrong: float = 0.0) -> Problem:
    """A label set's test stream; arms pay 1 with these probabilities."""
    rounds = list(Streams(data, STREAMS, seed=seed % 10, horizon=ROUNDS).rounds())
    hit = np.array([r.rewards for r in rounds])
    means = wrong + (right - wrong) * hit
    luck = np.random.default_rng(1000 + seed).random(means.shape)
    return Problem(np.array([r.context for r in rounds]), means, (luck < means).astype(float))


def clicks(seed: int, rate: float = 0.0, arms: int = 12, d: int = 6) -> Problem:
    """Bernoulli rewards, log odds linear in the context."""
    rng = np.random.default_rng(seed)
    theta, X = rng.normal(size=(arms, d)) / np.sqrt(d), rng.normal(size=(ROUNDS, d))
    means = 1.0 / (1.0 + np.exp(-(rate + 1.5 * X @ theta.T)))
    return Problem(X, means, (rng.random(means.shape) < means).astype(float))


def wiggly(seed: int, noise: float, arms: int = 10, d: int = 4) -> Problem:
    """Smooth functions of length scale 1.2, scaled to [0, 1], with Gaussian noise."""
    rng = np.random.default_rng(seed)
    X, W = rng.uniform(-1.0, 1.0, (ROUNDS, d)), rng.normal(size=(d, 300)) / 1.2
    f = np.cos(X @ W + rng.uniform(0.0, 2.0 * np.pi, 300)) @ rng.normal(size=(300, arms))
    f = (f - f.min()) / np.ptp(f)
    return Problem(X, f, f + noise * rng.normal(size=f.shape))


def linear(seed: int, arms: int = 10, units: tuple[float, ...] = (1.0,) * 5) -> Problem:
    rng = np.random.default_rng(seed)
    W, X = rng.normal(size=(arms, len(units))), rng.normal(size=(ROUNDS, len(units)))
    means = X @ W.T
    return Problem(X * units, means, means + 0.5 * rng.normal(size=means.shape))


def wine(seed: int) -> Problem:
    """Three kinds of wine by 13 measurements, each in its own unit."""
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(seed).integers(len(X), size=ROUNDS)
    right = np.eye(3)[y[rows]]
    return Problem(X[rows], right, right)


LINEAR: dict[str, tuple[float, Callable[[int], Problem]]] = {
    "2 arms": (0, lambda seed: linear(seed, 2)),
    "10 arms": (0, linear),
    "100 arms": (0, lambda seed: linear(seed, 100)),
    "50 features": (0, lambda seed: linear(seed, units=(1.0,) * 50)),
    "own units": (0, lambda seed: linear(seed, units=(1.0, 1000.0, 0.001))),
    "wine": (0, wine),
}
STUDY: dict[str, tuple[float, Callable[[int], Problem]]] = {
    "clicks": (108, clicks),
    "clicks rare": (116, lambda seed: clicks(seed, -2.5)),
    "digits noisy": (249, lambda seed: labels("digits", seed, 0.6, 0.1)),
    "digits": (174, lambda seed: labels("digits", seed)),
    "segment": (129, lambda seed: labels("segment", seed)),
    "segment noisy": (162, lambda seed: labels("segment", seed, 0.6, 0.1)),
    "wiggly": (95, lambda seed: wiggly(seed, 0.5)),
    "wiggly low": (33, lambda seed: wiggly(seed, 0.1)),
    "pendigits rare": (126, lambda seed: labels("pendigits", seed, 0.2, 0.02)),
    "letter": (758, lambda seed: labels("letter", seed)),
    "pendigits": (165, lambda seed: labels("pendigits", seed)),
}
PROBLEMS = STUDY | LINEAR
AFFINE = kb.Linear() + kb.kernels.Constant(1.0)
AS_THEY_ARE = kb.kernels.DEFAULT_KERNEL.replace(uneven=None)
METHODS: dict[str, Callable[[int, int], Any]] = {
    "default": lambda arms, seed: kb.KMTLUCB(arms, seed=seed),
    "fixed ridge": lambda arms, seed: kb.KMTLUCB(arms, ridge=0.01, exploration=0.1, seed=seed),
    "no linear part": lambda arms, seed: kb.KMTLUCB(arms, context_kernel=kb.kernels.DEFAULT_KERNEL, seed=seed),
    "features as they are": lambda arms, seed: kb.KMTLUCB(arms, context_kernel=AS_THEY_ARE, seed=seed),
    "LinUCB": lambda arms, seed: LinUCB(arms, seed=seed),
    "LinUCB, constant": lambda arms, seed: kb.KMTLUCB(
        arms, similarity=kb.Independent(), context_kernel=AFFINE, ridge=1.0, exploration=1.0, seed=seed
    ),
}


def play(problem: Problem, policy: Any) -> float:
    """Expected regret."""
    regret = problem.means.max(axis=1)[:, None] - problem.means
    total = 0.0
    for x, lost, rewards in zip(problem.X, regret, problem.rewards, strict=True):
        decision = policy.choose(x)
        policy.update(decision, float(rewards[decision.index]))
        total += float(lost[decision.index])
    return total


def results(problems: list[str], methods: list[str], seeds: int, path: Path) -> dict[tuple[str, str], list[float]]:
    """Regrets by problem and method; what the file lacks is played."""
    lines = path.read_text().splitlines() if path.exists() else []
    known = {(r["problem"], r["method"], r["seed"]): r["regret"] for r in map(json.loads, lines)}
    for name in problems:
        for seed in range(seeds):
            missing = [m for m in methods if (name, m, seed) not in known]
            problem = PROBLEMS[name][1](seed) if missing else None
            for method in missing:
                assert problem is not None
                regret = round(play(problem, METHODS[method](problem.means.shape[1], seed)), 3)
                known[name, method, seed] = regret
                with path.open("a") as file:
                    file.write(
                        json.dumps({"problem": name, "method": method, "seed": seed, "regret": regret}) + "\n"
                    )
    return {(p, m): [known[p, m, s] for s in range(seeds)] for p in problems for m in methods}


def table(found: dict[tuple[str, str], list[float]], problems: list[str], methods: list[str], seeds: int) -> str:
    """Means, with the standard error; of the first method also the ratio to the best of the study."""
    reference = "best of study" if any(PROBLEMS[name][0] for name in problems) else "first method"
    head = f"{'problem':16s}{reference:>14s}" + "".join(f"{m:>21s}{'ratio':>7s}" for m in methods)
    lines = [f"expected regret after {ROUNDS} rounds, {seeds} seeds, standard error in brackets", head]
    ratios: dict[str, list[float]] = {m: [] for m in methods}
    for name in problems:
        best = PROBLEMS[name][0] or float(np.mean(found[name, methods[0]]))
        line = f"{name:16s}{best:14.0f}"
        for m in methods:
            v = np.array(found[name, m])
            ratios[m].append(v.mean() / best)
            error = v.std(ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0
            line += f"{f'{v.mean():.1f} ({error:.1f})':>21s}{ratios[m][-1]:7.3f}"
        lines.append(line)
    for word, of in (("mean", np.mean), ("worst", np.max)):
        lines.append(f"{word:30s}" + "".join(f"{'':21s}{of(ratios[m]):7.3f}" for m in methods))
    return "\n".join(lines)


def cost(games: int) -> str:
    """CPU a round on Digits, learned against fixed, game about with the other."""
    spent: dict[str, list[float]] = {"default": [], "fixed ridge": []}
    for seed in range(games):
        problem = labels("digits", seed)
        for method in sorted(spent, reverse=bool(seed % 2)):
            policy, start = METHODS[method](10, seed), time.process_time()
            play(problem, policy)
            spent[method].append(time.process_time() - start)
    learned, fixed = (1e6 * float(np.median(spent[m])) / ROUNDS for m in ("default", "fixed ridge"))
    return (
        f"CPU a round on Digits: learned {learned:.0f} us, fixed ridge {fixed:.0f} us, ratio {learned / fixed:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(STUDY), help="separated by commas")
    parser.add_argument("--methods", default="default;fixed ridge;LinUCB", help="separated by semicolons")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/noise.jsonl"))
    parser.add_argument("--cost", action="store_true", help="only the CPU a round on Digits")
    args = parser.parse_args()
    if args.cost:
        print(cost(args.seeds))
        return
    problems, methods = args.problems.split(","), args.methods.split(";")
    problems = list(LINEAR) if problems == ["linear"] else problems
    print(table(results(problems, methods, args.seeds, args.results), problems, methods, args.seeds))


if __name__ == "__main__":
    main()
