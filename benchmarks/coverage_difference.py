"""How often the interval of a paired difference covers the truth, is wrongly above it, and is rightly above 0.

    python benchmarks/coverage_difference.py [--logs 1000] [--rows 500 2000 8000] [--worlds other]

Loggers: fixed; drifting from one preference to another; learning, whose propensities follow the rewards seen. All
play every arm with at least ``floor``. The first target is what the logger began with, the second another policy.
The model of dr is the mean reward of (type, arm) in the other half of the rows.

``--worlds other`` are problems with other numbers of types and arms, rarer and more frequent rewards, and loggers
that learn otherwise; the interval was not chosen on them.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from kinbandits.estimators import Evaluation, evaluated, tallies


class World(NamedTuple):
    """A kind of problem."""

    types: int = 5
    arms: int = 4
    rewards: tuple[float, float] = (0.05, 0.3)  # of which range the chances of a click are
    prior: float = 1.0  # clicks that a learning logger supposes of an arm it has not played
    other: int = 2  # how far the second target's arm is from that of the first


WORLDS = {
    "first": [World()],
    "other": [
        World(3, 6, (0.01, 0.08)),
        World(3, 6, (0.4, 0.9)),
        World(3, 6, (0.01, 0.3), 0.2),
        World(2, 10, (0.02, 0.5), 0.2, 5),
        World(1, 2, (0.2, 0.5), 1.0, 1),
    ],
}


def logged(kind: str, n: int, means: np.ndarray, floor: float, prior: float, rng: np.random.Generator) -> tuple:
    """Types, arms chosen, their propensities, and rewards (n, logs) of several logs; means (logs, types, arms)."""
    logs, types, arms = means.shape
    which, played, clicks = np.arange(logs), np.zeros_like(means), np.zeros_like(means)
    t, u = rng.integers(types, size=(n, logs)), rng.random((n, logs))
    chosen, p, r = np.empty((n, logs), dtype=int), np.empty((n, logs)), np.empty((n, logs))
    for i in range(n):
        share = np.full((logs, arms), floor)
        if kind == "learning":
            rates = (clicks[which, t[i]] + prior) / (played[which, t[i]] + 1.0)
            share[which, rates.argmax(axis=1)] += 1.0 - arms * floor
        else:
            turn = 0.0 if kind == "fixed" else i / n
            share[which, t[i] % arms] += (1.0 - arms * floor) * (1.0 - turn)
            share[which, (t[i] + 1) % arms] += (1.0 - arms * floor) * turn
        a = (u[i][:, None] > share.cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
        chosen[i], p[i] = a, share[which, a]
        r[i] = rng.random(logs) < means[which, t[i], a]
        clicks[which, t[i], a] += r[i]
        played[which, t[i], a] += 1
    return t, chosen, p, r


def model(t: np.ndarray, chosen: np.ndarray, r: np.ndarray, types: int, arms: int) -> np.ndarray:
    """Mean reward of (type, arm) in the other half of the rows."""
    q, half = np.zeros((len(t), arms)), np.arange(len(t)) % 2
    for h in (0, 1):
        cell = t[half != h] * arms + chosen[half != h]
        total = np.bincount(cell, r[half != h], types * arms) + 0.2
        n = np.bincount(cell, minlength=types * arms) + 1.0
        q[half == h] = (total / n).reshape(types, arms)[t[half == h]]
    return q


def evaluations(
    kind: str, n: int, floor: float, effect: float, logs: int, rng: np.random.Generator, world: World, known: bool
) -> list[tuple[Evaluation, float]]:
    """The evaluation of each log, and the true difference."""
    every = np.arange(world.types)
    first, second = every % world.arms, (every + world.other) % world.arms
    means = rng.uniform(*world.rewards, size=(logs, world.types, world.arms))
    means[:, every, second] = (means[:, every, first] + effect).clip(0.0, 1.0)
    base, other = (floor + (1.0 - world.arms * floor) * np.eye(world.arms)[best] for best in (first, second))
    found = []
    for *rows, mean in zip(*(a.T for a in logged(kind, n, means, floor, world.prior, rng)), means, strict=True):
        t, chosen, p, r = rows
        q = model(t, chosen, r, world.types, world.arms)
        sums = tallies(r, p, chosen, [base[t], other[t]], q)
        answer = evaluated(sums, 1, level=0.95, reward_range=(0.0, 1.0) if known else None)
        found.append((answer, float(((other - base) * mean).sum(axis=1).mean())))
    return found


def measured(
    kind: str, n: int, floor: float, effect: float, logs: int, seed: int, world: World | None = None, known: bool = True
) -> tuple[float, float, float]:
    """The shares of intervals that cover the truth, that are wholly above it, and that are above 0."""
    rng, hits = np.random.default_rng(seed), []
    for size in [100] * (logs // 100) + [logs % 100] * (logs % 100 > 0):
        for found, truth in evaluations(kind, n, floor, effect, size, rng, world or World(), known):
            d = found.difference
            assert d is not None
            hits.append((d.low <= truth <= d.high, d.low > truth, d.low > 0.0))
    covered, above, opened = np.mean(hits, axis=0).tolist()
    return covered, above, opened


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2000, 8000])
    parser.add_argument("--worlds", choices=list(WORLDS), default="first")
    given = parser.parse_args()
    print(f"95 % intervals of the difference, {given.logs} logs; 'above': a gate that opens wrongly (2.5 % allowed)")
    print(f"{'logger':<10} {'rows':>6} {'floor':>6} {'effect':>7} {'covered':>8} {'above':>7} {'above 0':>8}  world")
    for kind in ("fixed", "drifting", "learning"):
        for n in given.rows:
            for world in WORLDS[given.worlds]:
                for floor in (0.0125, 0.05):
                    for effect in (0.0, 0.1):
                        shares = measured(kind, n, floor, effect, given.logs, 1, world)
                        numbers = "{:8.3f} {:7.3f} {:8.3f}".format(*shares)
                        print(f"{kind:<10} {n:>6} {floor:>6} {effect:>7} {numbers}  {tuple(world)}", flush=True)


if __name__ == "__main__":
    main()
