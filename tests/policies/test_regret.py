"""Regret with slack, on small versions of the problems that matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.environments import HiddenDescriptors


def regret_of(make: Callable[[int], Any], seeds: int, similarity: float, rounds: int = 300) -> float:
    """On arms that are so alike, the mean of some seeds."""
    found = []
    for seed in range(seeds):
        environment = HiddenDescriptors(seed=seed, n_arms=10, similarity=similarity, horizon=rounds)
        trace = kb.simulate(make(10), environment)
        found.append(float(trace.cumulative_expected_regret[-1]))
    return float(np.mean(found))


@pytest.mark.slow
@pytest.mark.parametrize(("similarity", "most"), [(0.9, 0.8), (0.0, 1.15)], ids=["closely related", "unrelated"])
def test_the_default_shares_where_it_helps_and_only_there(similarity: float, most: float) -> None:
    learned = regret_of(lambda n: kb.KMTLUCB(n), 4, similarity)
    alone = regret_of(lambda n: kb.KMTLUCB(n, similarity=kb.Independent()), 4, similarity)
    assert learned < most * alone, (learned, alone)


def game(widths: np.ndarray, early: float, seed: int, rounds: int = 400) -> float:
    """Three arms that differ in two features; the first 80 contexts are ``early`` times as wide."""
    rng, policy, total = np.random.default_rng(seed), kb.KMTLUCB(3, seed=seed), 0.0
    for t in range(rounds):
        x = rng.normal(size=3)
        means = np.array([x[0], -x[0], 0.8 * np.sin(2.0 * x[1])])
        decision = policy.choose(x * widths * (early if t < 80 else 1.0))
        total += means.max() - means[decision.index]
        policy.update(decision, float(means[decision.index] + 0.1 * rng.normal()))
    return total


def test_a_useless_wide_column_does_not_hide_the_others() -> None:
    plain = np.mean([game(np.ones(3), 1.0, seed) for seed in range(3)])
    hidden = np.mean([game(np.array([1.0, 1.0, 25.0]), 1.0, seed) for seed in range(3)])
    assert hidden < 2.0 * plain, (hidden, plain)


@pytest.mark.filterwarnings("ignore::kinbandits.errors.ChangeWarning")
@pytest.mark.parametrize("early", [30.0, 1 / 30.0])
def test_first_contexts_on_another_scale_do_not_settle_the_kernel(early: float) -> None:
    plain = np.mean([game(np.ones(3), 1.0, seed) for seed in range(3)])
    moved = np.mean([game(np.ones(3), early, seed) for seed in range(3)])
    assert moved < 7.0 * plain, (moved, plain)
