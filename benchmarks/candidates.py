"""What a decision among many candidates costs, in units of one matrix product of their size.

    python benchmarks/candidates.py [--candidates 2000] [--rows 1000] [--features 5,20,180] [--noise 0]

A task is given and one of k candidates is chosen and learned, at t rows. The unit is (k x t) @ (t x t), one thread:
what the widths of all candidates cost if they are computed from M^-1. "new": candidates differ from round to round;
"same": each of the tasks has its own, which come again. The median of the rounds, CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import kinbandits as kb

SIMILARITIES = {
    "independent": kb.Independent(),
    "mixed": kb.Mixed(0.5),
    "pooled": kb.Pooled(),
    "default": kb.Adaptive(),
}


def unit(k: int, t: int) -> float:
    """Seconds of the product."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(k, t)), rng.normal(size=(t, t))
    found = []
    for _ in range(5):
        started = time.process_time()
        A @ B
        found.append(time.process_time() - started)
    return statistics.median(found)


def seconds(kin: kb.similarity.Similarity, k: int, t: int, d: int, rounds: int, noise: float, same: bool) -> float:
    """Of a decision and learning its reward."""
    rng = np.random.default_rng(1)
    tasks, w = 4, rng.normal(size=(4, d)) / np.sqrt(d)
    policy = kb.KMTLUCB(tasks, similarity=kin)
    arms, X = np.arange(t) % tasks, rng.uniform(-1.0, 1.0, (t, d))
    rewards = np.sin(3.0 * np.sum(w[arms] * X, axis=1)) + noise * rng.standard_normal(t)
    policy.observe(arms, X, rewards, own_contexts=True)
    offers = rng.uniform(-1.0, 1.0, (tasks, k, d))
    found = []
    for i in range(rounds + 2 * tasks):
        task = i % tasks
        if not same:
            offers[task] = rng.uniform(-1.0, 1.0, (k, d))
        started = time.process_time()
        decision = policy.choose(offers[task], task=task)
        mean = np.sin(3.0 * offers[task][decision.index] @ w[task])
        policy.update(decision, float(mean + noise * rng.standard_normal()))
        if i >= 2 * tasks:
            found.append(time.process_time() - started)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--features", default="5,20,180")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--noise", type=float, default=0.0, help="of rewards: the more, the more widths are needed")
    asked = parser.parse_args()
    k, t = asked.candidates, asked.rows
    one = unit(k, t)
    print(f"one ({k} x {t}) @ ({t} x {t}) product: {1000 * one:.0f} ms\n")
    print("| similarity | features | new candidates | same candidates |\n|---|---|---|---|")
    for d in [int(n) for n in asked.features.split(",")]:
        for name, similarity in SIMILARITIES.items():
            new, same = (seconds(similarity, k, t, d, asked.rounds, asked.noise, s) / one for s in (False, True))
            print(f"| {name} | {d} | {new:.2f} | {same:.2f} |", flush=True)


if __name__ == "__main__":
    main()
