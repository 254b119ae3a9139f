"""Why sharing is let in, or not: how well the estimates of `Adaptive` fit rows that independent arms have played.

    python benchmarks/guard.py --problems hidden,letter --seeds 3 --rows 200,400,800

Sharing is wanted on "hidden" and does harm on Letter, though it fits better than independent arms on both. For the
likeliest estimate the nats are printed by which it beats independent arms, and one function that all arms share.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

import kinbandits as kb
from kinbandits.environments import HiddenDescriptors
from kinbandits.history import History
from kinbandits.kernels import DEFAULT_KERNEL
from kinbandits.replayed_games import play_independent
from kinbandits.similarity import Adaptive, FitData
from screen import game

MUS = (0.1, 0.3, 0.6, 0.8, 0.9)  # of the function that all share


def rows_of(problem: str, seed: int, rows: int, streams: str) -> tuple[History, Any]:
    """What independent arms play, and the kernel in force."""
    if problem == "hidden":
        environment = HiddenDescriptors(seed=seed, horizon=min(rows, 1000))
        policy = kb.KMTLUCB(environment.arms, similarity=kb.Independent(), seed=seed)
        kb.simulate(policy, environment)
        return policy.regression.history, policy.regression.settings.terms.terms[0].context_kernel
    X, Y, given = game(problem, seed, rows, streams)
    kernel = DEFAULT_KERNEL.kernel.replace(length_scale=float(np.median(pdist(X[: DEFAULT_KERNEL.rows]))))
    arms = list(given)

    def rule(mean: Any, deviation: Any, t: int) -> Any:
        arms.append(int(np.argmax(mean + 0.1 * deviation)))
        return mean + 0.1 * deviation

    play_independent(kernel(X, X), Y, 0.01, 0.0, given=list(given), rule=rule)
    return History.of(Y.shape[1], np.array(arms), X, Y[np.arange(len(arms)), arms]), kernel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="hidden,letter")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", default="200,400,800")
    parser.add_argument("--streams", default="docs/paper/streams.npz")
    asked = parser.parse_args()
    sizes = [int(n) for n in asked.rows.split(",")]
    print("| problem | seed | rows | estimate | nats over independent | nats over one function for all |")
    print("|---|---|---|---|---|---|")
    for problem in asked.problems.split(","):
        for seed in range(asked.seeds):
            history, kernel = rows_of(problem, seed, max(sizes), asked.streams)
            adaptive = Adaptive().bound(kernel, 0.01, "uniform")
            assert isinstance(adaptive, Adaptive)
            for n in sizes:
                head = history.head(min(n, len(history)))
                own, *others = adaptive.choice(head).candidates
                best = max(others, key=lambda c: c.log_likelihood)
                problem = FitData.of(head, kernel, "uniform")
                common = [problem.fit((1.0 - mu) * np.eye(head.n_arms) + mu, 0.01) for mu in MUS]
                alike = max(fit.log_likelihood for fit in common)
                print(
                    f"| {problem} | {seed} | {len(head)} | {best.mu:g} at scale {best.scale:g} | "
                    f"{best.log_likelihood - own.log_likelihood:+.1f} | {best.log_likelihood - alike:+.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
