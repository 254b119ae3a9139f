"""How often the interval of a paired difference covers the truth, and how often it is wrongly above 0.

    python benchmarks/coverage_difference.py [--logs 1000] [--rows 500 2000 8000]

Loggers: fixed; drifting from one preference to another; learning, whose propensities follow the rewards seen. All
play every arm with at least ``floor``. The first target is what the logger began with, the second another policy.
The model of dr is the mean reward of (type, arm) in the other half of the rows.
"""

from __future__ import annotations

import argparse

import numpy as np

from kinbandits.estimators import Evaluation, evaluated, tally, terms

TYPES, ARMS = 5, 4


def logged(kind: str, n: int, means: np.ndarray, floor: float, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Types, arms chosen, their propensities, rewards."""
    types = rng.integers(TYPES, size=n)
    first, second = np.arange(TYPES) % ARMS, (np.arange(TYPES) + 1) % ARMS
    chosen, p, r = np.empty(n, dtype=int), np.empty(n), np.empty(n)
    sums, counts = np.zeros((TYPES, ARMS)), np.zeros((TYPES, ARMS))
    for i, t in enumerate(types.tolist()):
        share = np.full(ARMS, floor)
        if kind == "learning":
            share[int(np.argmax((sums[t] + 1.0) / (counts[t] + 1.0)))] += 1.0 - ARMS * floor
        else:
            turn = 0.0 if kind == "fixed" else i / n
            share[first[t]] += (1.0 - ARMS * floor) * (1.0 - turn)
            share[second[t]] += (1.0 - ARMS * floor) * turn
        a = int(rng.choice(ARMS, p=share))
        chosen[i], p[i], r[i] = a, share[a], float(rng.random() < means[t, a])
        sums[t, a] += r[i]
        counts[t, a] += 1
    return types, chosen, p, r


def model(types: np.ndarray, chosen: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Mean reward of (type, arm) in the other half of the rows."""
    q, half = np.zeros((len(types), ARMS)), np.arange(len(types)) % 2
    for h in (0, 1):
        cell = types[half != h] * ARMS + chosen[half != h]
        total = np.bincount(cell, r[half != h], TYPES * ARMS) + 0.2
        n = np.bincount(cell, minlength=TYPES * ARMS) + 1.0
        q[half == h] = (total / n).reshape(TYPES, ARMS)[types[half == h]]
    return q


def one(
    kind: str, n: int, floor: float, effect: float, rng: np.random.Generator, known: bool
) -> tuple[Evaluation, float]:
    """The evaluation of one log, and the true difference."""
    means = rng.uniform(0.05, 0.3, size=(TYPES, ARMS))
    base = floor + (1.0 - ARMS * floor) * np.eye(ARMS)[np.arange(TYPES) % ARMS]
    other = floor + (1.0 - ARMS * floor) * np.eye(ARMS)[(np.arange(TYPES) + 2) % ARMS]
    means[np.arange(TYPES), (np.arange(TYPES) + 2) % ARMS] = means[np.arange(TYPES), np.arange(TYPES) % ARMS] + effect
    means = means.clip(0.0, 1.0)
    types, chosen, p, r = logged(kind, n, means, floor, rng)
    q = model(types, chosen, r)
    first = terms(r, p, base[types], chosen, q)
    second = terms(r, p, other[types], chosen, q)
    found = evaluated(tally(second, first), reward_range=(0.0, 1.0) if known else None)
    return found, float(((other - base) * means).sum(axis=1).mean())


def measured(
    kind: str, n: int, floor: float, effect: float, logs: int, seed: int, known: bool = True
) -> tuple[float, float]:
    """The share of intervals that cover the truth, and of those wholly above it."""
    rng = np.random.default_rng(seed)
    covered = above = 0
    for _ in range(logs):
        found, truth = one(kind, n, floor, effect, rng, known)
        d = found.difference
        assert d is not None
        covered += d.low <= truth <= d.high
        above += d.low > truth
    return covered / logs, above / logs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2000, 8000])
    given = parser.parse_args()
    print(f"95 % intervals of the difference, {given.logs} logs; 'above': a gate that opens wrongly (2.5 % allowed)")
    print(f"{'logger':<10} {'rows':>6} {'floor':>6} {'effect':>7} {'covered':>8} {'above':>7}")
    for kind in ("fixed", "drifting", "learning"):
        for n in given.rows:
            for floor in (0.0125, 0.05):
                for effect in (0.0, 0.1):
                    covered, above = measured(kind, n, floor, effect, given.logs, seed=1)
                    print(f"{kind:<10} {n:>6} {floor:>6} {effect:>7} {covered:>8.3f} {above:>7.3f}", flush=True)


if __name__ == "__main__":
    main()
