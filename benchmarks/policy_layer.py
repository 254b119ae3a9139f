"""What the policy layer costs apart from the engine: `choose` and `update` with an engine that does nothing.

    python benchmarks/policy_layer.py

Also printed as a ratio to one product of two 64 x 64 matrices, measured in turns with it in the same process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kinbandits as kb
from kinbandits.regression import Prediction, Query

TARGET = 15.0  # microseconds, together, at N = 10, d = 64
BLOCK = 2000  # calls of each kind in a turn
TURNS = 15


class NullEngine:
    """Answers at once, and learns nothing."""

    keeps_all_rows = True

    def __init__(self, real: Any, n_arms: int, n_features: int) -> None:
        self.settings, self.history = real.settings, real.history
        self.n_features, self.n_observations = n_features, 1_000
        self._leaders = np.arange(n_arms)[None, :] == 3

    def leaders(self, query: Query, exploration: Any, tolerance: float = 0.0) -> Any:
        return self._leaders

    def predict(self, query: Query) -> Prediction:
        return Prediction(np.zeros(query.shape), np.ones(query.shape))

    def observe(self, arms: Any, contexts: Any, rewards: Any, *others: Any) -> None:
        return None


def measured(n_arms: int = 10, n_features: int = 64) -> tuple[float, float, float]:
    """Microseconds of CPU of a choose, of a choose with its update, and of a product of two 64 x 64 matrices."""
    policy = kb.KMTLUCB(n_arms, context_kernel=kb.RBF(), similarity=kb.Independent(), engine="exact")
    policy.regression = NullEngine(policy.regression, n_arms, n_features)  # type: ignore[assignment]
    contexts = np.random.default_rng(0).random((BLOCK, n_features))
    A = contexts[:64, :64].copy()

    def choose() -> None:
        for x in contexts:
            policy.choose(x)

    def both() -> None:
        for x in contexts:
            policy.update(policy.choose(x), 1.0)

    def products() -> None:
        for _ in range(BLOCK):
            A @ A

    found: list[tuple[float, ...]] = []
    for _ in range(TURNS):
        found.append(tuple(_timed(run) for run in (both, products, choose)))
        for number in policy.pending():
            policy.cancel(number)
    together, product, choosing = (statistics.median(column) / BLOCK * 1e6 for column in zip(*found, strict=True))
    return choosing, together, product


def _timed(run: Callable[[], None]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def main() -> None:
    choosing, together, product = measured()
    print("policy layer, N = 10, d = 64, an engine that does nothing")
    print(f"  choose and update {together:.1f} us (target {TARGET:g}), of which choose {choosing:.1f} us")
    print(f"  together {together / product:.2f} products of two 64 x 64 matrices ({product:.1f} us each)")


if __name__ == "__main__":
    main()
