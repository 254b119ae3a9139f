"""Regret of the default policy, group by group, beside a named baseline on the same streams.

    python benchmarks/regret.py --groups kin described tasks --seeds 10
    python benchmarks/regret.py --groups study linear clicks --seeds 10
    python benchmarks/regret.py --groups changes --seeds 3
    python benchmarks/regret.py --problems "digits" "clicks" --methods default "fixed ridge"

Expected regret after 1,000 rounds (tasks: 200), no start rows. Groups and their baselines:

    study      eleven problems with and without noise; the lowest cell of each column of the study that asked for a
               learned ridge. Labels pay 1 for the right arm, "noisy" with probability 0.6 and 0.1, "rare" 0.2, 0.02
    linear     rewards linear in the context with noise of 0.5, once with features in their own units; wine as measured
    clicks     Bernoulli rewards, log odds linear in the context; 12 or 50 arms, about 3, 13 or 50 % clicks
    kin        functions of arms drawn over hidden descriptors; independent arms. "known" is told the true similarity
    described  the same, with the descriptors given: `kb.Learned(kb.Known(descriptors=X))`
    tasks      a task is given each round, with candidates of its own
    changes    8,000 rounds; 1,000 of them without rewards, or rewards times 1,000 from then on: regret in rounds 6,000
               to 8,000, beside a policy that begins when the change is over

Games that were played are kept as lines of JSON (``--results``) and not played again; ``--csv`` writes the table.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kinbandits as kb
from kinbandits.environments import HiddenDescriptors, Streams, Tasks
from kinbandits.errors import ChangeWarning

ROUNDS = 1000
STREAMS = next((p for p in ("reproduce/streams.npz", "docs/paper/streams.npz") if os.path.exists(p)), "")


class Game(NamedTuple):
    """Contexts (T, d), means and rewards (T, N)."""

    X: np.ndarray
    means: np.ndarray
    rewards: np.ndarray


def labels(data: str, seed: int, right: float = 1.0, wrong: float = 0.0) -> Game:
    """A label set's test stream; arms pay 1 with these probabilities."""
    rounds = list(Streams(data, STREAMS, seed=seed % 10, horizon=ROUNDS).rounds())
    means = wrong + (right - wrong) * np.array([r.rewards for r in rounds])
    luck = np.random.default_rng(1000 + seed).random(means.shape)
    return Game(np.array([r.context for r in rounds]), means, (luck < means).astype(float))


def clicks(seed: int, rate: float = 0.0, arms: int = 12, d: int = 6, rounds: int = ROUNDS) -> Game:
    rng = np.random.default_rng(seed)
    theta, X = rng.normal(size=(arms, d)) / np.sqrt(d), rng.normal(size=(rounds, d))
    means = 1.0 / (1.0 + np.exp(-(rate + 1.5 * X @ theta.T)))
    return Game(X, means, (rng.random(means.shape) < means).astype(float))


def wiggly(seed: int, noise: float, arms: int = 10, d: int = 4, rounds: int = ROUNDS) -> Game:
    """Smooth functions of length scale 1.2, scaled to [0, 1], with Gaussian noise."""
    rng = np.random.default_rng(seed)
    X, W = rng.uniform(-1.0, 1.0, (rounds, d)), rng.normal(size=(d, 300)) / 1.2
    f = np.cos(X @ W + rng.uniform(0.0, 2.0 * np.pi, 300)) @ rng.normal(size=(300, arms))
    f = (f - f.min()) / np.ptp(f)
    return Game(X, f, f + noise * rng.normal(size=f.shape))


def linear(seed: int, arms: int = 10, units: tuple[float, ...] = (1.0,) * 5) -> Game:
    rng = np.random.default_rng(seed)
    W, X = rng.normal(size=(arms, len(units))), rng.normal(size=(ROUNDS, len(units)))
    means = X @ W.T
    return Game(X * units, means, means + 0.5 * rng.normal(size=means.shape))


def wine(seed: int) -> Game:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(seed).integers(len(X), size=ROUNDS)
    right = np.eye(3)[y[rows]]
    return Game(X[rows], right, right)


def hidden(similarity: float, **shape: Any) -> Callable[[int], Any]:
    return lambda seed: HiddenDescriptors(similarity=similarity, seed=seed, **shape)


FORTY = {"n_arms": 40, "descriptor_size": 2}
GROUPS: dict[str, dict[str, Callable[[int], Any]]] = {
    "study": {
        "clicks": clicks,
        "clicks rare": lambda seed: clicks(seed, -2.5),
        "digits noisy": lambda seed: labels("digits", seed, 0.6, 0.1),
        "digits": lambda seed: labels("digits", seed),
        "segment": lambda seed: labels("segment", seed),
        "segment noisy": lambda seed: labels("segment", seed, 0.6, 0.1),
        "wiggly": lambda seed: wiggly(seed, 0.5),
        "wiggly low": lambda seed: wiggly(seed, 0.1),
        "pendigits rare": lambda seed: labels("pendigits", seed, 0.2, 0.02),
        "letter": lambda seed: labels("letter", seed),
        "pendigits": lambda seed: labels("pendigits", seed),
    },
    "linear": {
        "2 arms": lambda seed: linear(seed, 2),
        "10 arms": linear,
        "100 arms": lambda seed: linear(seed, 100),
        "50 features": lambda seed: linear(seed, units=(1.0,) * 50),
        "own units": lambda seed: linear(seed, units=(1.0, 1000.0, 0.001)),
        "wine": wine,
    },
    "clicks": {
        f"{arms} arms, {percent} %": lambda seed, arms=arms, rate=rate: clicks(seed, rate, arms)
        for arms in (12, 50)
        for percent, rate in ((3, -4.2), (13, -2.3), (50, 0.0))
    },
    "kin": {
        "closely related": hidden(0.9),
        "related": hidden(0.7),
        "loosely related": hidden(0.5),
        "8 arms, loosely": hidden(0.5, n_arms=8),
        "40 arms, 2-D": hidden(0.7, **FORTY),
        "unrelated": hidden(0.0),
    },
    "described": {
        "closely related, described": hidden(0.9),
        "related, described": hidden(0.7),
        "loosely related, described": hidden(0.5),
        "40 arms, 2-D, described": hidden(0.7, **FORTY),
        "unrelated, described": hidden(0.0),
    },
    "tasks": {f"tasks {mu:g}": lambda seed, mu=mu: Tasks(mu=mu, seed=seed) for mu in (0.0, 0.5, 0.9)},
    "changes": {
        "outage, clicks": lambda seed: clicks(seed, arms=10, rounds=8000),
        "outage, wiggly": lambda seed: wiggly(seed, 0.3, rounds=8000),
        "unit, clicks": lambda seed: clicks(seed, arms=10, rounds=8000),
        "unit, wiggly": lambda seed: wiggly(seed, 0.3, rounds=8000),
    },
}
BEST_OF_STUDY = dict(zip(GROUPS["study"], (108, 116, 249, 174, 129, 162, 95, 33, 126, 758, 165), strict=True))
METHODS: dict[str, Callable[[Any, int, Any], Any]] = {
    "default": lambda arms, seed, env: kb.KMTLUCB(arms, seed=seed),
    "independent": lambda arms, seed, env: kb.KMTLUCB(arms, similarity=kb.Independent(), seed=seed),
    "known": lambda arms, seed, env: kb.KMTLUCB(arms, similarity=kb.Known(env.similarity_matrix), seed=seed),
    "described": lambda arms, seed, env: kb.KMTLUCB(
        arms, similarity=kb.Learned(kb.Known(descriptors=env.descriptors)), seed=seed
    ),
    "fixed ridge": lambda arms, seed, env: kb.KMTLUCB(arms, ridge=0.01, seed=seed),
    "LinUCB": lambda arms, seed, env: kb.baselines.lin_ucb(arms, seed=seed),
}
USUAL = {
    "study": ["default", "fixed ridge", "LinUCB"],
    "linear": ["default", "LinUCB"],
    "clicks": ["default", "LinUCB"],
    "kin": ["independent", "default", "known"],
    "described": ["independent", "described", "known"],
    "tasks": ["independent", "default"],
    "changes": ["fresh", "default"],
}


def play(game: Game, policy: Any, first: int = 0, reward: Callable[[int, float], float] | None = None) -> np.ndarray:
    """Expected regret of each round, from the first on."""
    regret = np.zeros(len(game.X))
    for t in range(first, len(game.X)):
        decision = policy.choose(game.X[t])
        paid = float(game.rewards[t, decision.index])
        policy.update(decision, paid if reward is None else reward(t, paid))
        regret[t] = game.means[t].max() - game.means[t, decision.index]
    return regret


def changed(name: str, game: Game, method: str, seed: int) -> float:
    """Regret in rounds 6,000 to 8,000 of a policy that lived through a change, or of one that begins after it."""
    outage = name.startswith("outage")
    start = 0 if method == "default" else 4000 if outage else 3000

    def reward(t: int, paid: float) -> float:
        return (0.0 if 3000 <= t < 4000 else paid) if outage else paid * (1000.0 if t >= 3000 else 1.0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChangeWarning)
        policy = kb.KMTLUCB(game.means.shape[1], seed=seed)
        return float(play(game, policy, start, reward)[6000:].sum())


def regret_of(group: str, name: str, method: str, seed: int) -> float:
    problem = GROUPS[group][name](seed)
    if group == "changes":
        return changed(name, problem, method, seed)
    if isinstance(problem, Game):
        return float(play(problem, METHODS[method](problem.means.shape[1], seed, None)).sum())
    return float(kb.simulate(METHODS[method](problem.arms, seed, problem), problem).final_expected_regret)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=[g for g in GROUPS if g != "changes"])
    parser.add_argument("--problems", nargs="+", help="of these groups; all if left out")
    parser.add_argument("--methods", nargs="+", help="in place of the group's own")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=Path("runs/regret.jsonl"))
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    args.results.parent.mkdir(parents=True, exist_ok=True)
    lines = args.results.read_text().splitlines() if args.results.exists() else []
    known = {(r["problem"], r["method"], r["seed"]): r["regret"] for r in map(json.loads, lines)}
    table: list[list[Any]] = []
    for group in args.groups:
        methods = args.methods or USUAL[group]
        ratios: list[float] = []
        print(f"\n{group}: expected regret, {args.seeds} seeds, standard error in brackets; ratio to the baseline")
        for name in GROUPS[group]:
            if args.problems and name not in args.problems:
                continue
            for seed in range(args.seeds):
                for method in methods:
                    if (name, method, seed) not in known:
                        known[name, method, seed] = round(regret_of(group, name, method, seed), 3)
                        row = {"problem": name, "method": method, "seed": seed, "regret": known[name, method, seed]}
                        with args.results.open("a") as file:
                            file.write(json.dumps(row) + "\n")
            base = BEST_OF_STUDY.get(name) if group == "study" else None
            line = f"{name:28s}" + (f"best of study {base:5d}" if base else "")
            for method in methods:
                v = np.array([known[name, method, seed] for seed in range(args.seeds)])
                base = float(v.mean()) if base is None else base
                error = v.std(ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0
                ratio = v.mean() / base
                line += f"   {method} {v.mean():.1f} ({error:.1f}) {ratio:.2f}"
                table.append([group, name, method, args.seeds, round(v.mean(), 2), round(error, 2), round(ratio, 3)])
                if method == ("described" if group == "described" else "default"):
                    ratios.append(ratio)
            print(line, flush=True)
        print(f"{'mean, worst ratio':28s}{np.mean(ratios):.3f}, {np.max(ratios):.3f}")
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows(
                [["group", "problem", "method", "seeds", "regret", "standard_error", "ratio"], *table]
            )


if __name__ == "__main__":
    main()
