"""What refits cost: CPU seconds of the update at each milestone of the default, and of the update after it.

    python benchmarks/refits.py                 20 related arms, 5 features, arms played at random
    python benchmarks/refits.py --similarity 0  unrelated arms

Ratios to an ordinary update count; seconds are printed for interest.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import kinbandits as kb
from kinbandits.environments import HiddenDescriptors
from kinbandits.model import following


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--similarity", type=float, default=0.9)
    parser.add_argument("--arms", type=int, default=20)
    parser.add_argument("--rows", type=int, default=5000)
    args = parser.parse_args()
    problem = HiddenDescriptors(similarity=args.similarity, n_arms=args.arms, horizon=args.rows)
    played = np.random.default_rng(0).integers(0, args.arms, args.rows)
    policy, refits, others, stone = kb.KMTLUCB(problem.arms), [], [], following(0)
    for n, (arm, shown) in enumerate(zip(played.tolist(), problem.rounds(), strict=True), 1):
        start = time.process_time()
        policy.observe([arm], shown.context[None, :], [shown.rewards[arm]])
        (refits if n == stone else others).append((n, time.process_time() - start))
        stone = following(n)
    ordinary = float(np.median([seconds for _, seconds in others]))
    print(f"an ordinary update: {1000 * ordinary:.2f} ms of CPU (median)")
    together, rest = (sum(seconds for _, seconds in part) for part in (refits, others))
    print(f"{len(refits)} refits: {together:.1f} s; all other updates: {rest:.1f} s")
    for n, seconds in refits[-10:]:
        print(f"refit at {n:5,} rows: {seconds:6.2f} s, {seconds / ordinary:6,.0f} ordinary updates")


if __name__ == "__main__":
    main()
