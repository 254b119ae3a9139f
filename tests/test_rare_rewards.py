"""Rewards that are nearly always the same: conversions, sales among zeros, losses. Every one is learned."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinbandits as kb

ENGINES = ["auto", "exact", kb.Budgeted(points=40), kb.Budgeted(points=30, after=200)]
RULES = [None, 0.1, kb.UCB(1.0), kb.Thompson(), kb.InverseGap()]
MEMORIES = [None, kb.Window(150)]


def rare(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` rewards, nearly all of one value."""
    rewards = np.zeros(n)
    some = rng.random(n) < 0.002
    some[-1 - int(rng.integers(n // 10))] = True
    match kind:
        case "all equal":
            rewards[:] = rng.choice([0.0, 1.0, -3.0, 1e-9, 1e9])
        case "one at the end":
            rewards[-2] = rng.choice([1.0, -1.0, 1e-6, 1e6])
        case "conversions":
            rewards[some] = 1.0
        case "nearly always paid":
            rewards[~some] = 1.0
        case "sales":
            rewards[some] = rng.uniform(5.0, 50.0, some.sum())
        case "losses":
            rewards[some] = -rng.uniform(5.0, 50.0, some.sum())
    return rewards


KINDS = ["all equal", "one at the end", "conversions", "nearly always paid", "sales", "losses"]


def check_learned(policy: kb.KMTLUCB, rewards: np.ndarray, seed: int, updates: int) -> None:
    """All rows but the last ``updates`` in bulk, in pieces; these one by one, as decisions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(rewards), 2))
    bulk = len(rewards) - updates
    edges = np.unique([0, *rng.integers(0, bulk, 6), bulk])
    for low, high in itertools.pairwise(edges):
        policy.observe(rng.integers(0, policy.n_arms, high - low).tolist(), X[low:high], rewards[low:high])
    for x, reward in zip(X[bulk:], rewards[bulk:], strict=True):
        decision = policy.choose(x, scores=True)
        assert 0.0 < decision.propensity <= 1.0
        assert np.isfinite(decision.scores).all()
        policy.update(decision, float(reward))
    mean, width = policy.predict_many(X[:5])
    assert np.isfinite(mean).all()
    assert np.isfinite(width).all()
    assert (width >= 0.0).all()


@pytest.mark.slow
@settings(max_examples=10)
@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(400, 2500),
    n_arms=st.sampled_from([1, 2, 5]),
    rule=st.sampled_from(RULES),
    engine_and_memory=st.one_of(
        st.tuples(st.sampled_from(ENGINES), st.just(None)), st.tuples(st.just("exact"), st.sampled_from(MEMORIES))
    ),
    seed=st.integers(0, 10**6),
)
def test_every_reward_of_a_rare_kind_is_learned(
    kind: str, n: int, n_arms: int, rule: Any, engine_and_memory: tuple[Any, Any], seed: int
) -> None:
    engine, memory = engine_and_memory
    policy = kb.KMTLUCB(n_arms, engine=engine, memory=memory, exploration=rule)
    check_learned(policy, rare(kind, n, np.random.default_rng(seed)), seed, updates=25)
    assert policy.n_observations == n


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_the_formula_learns_them_too(kind: str, rule: Any) -> None:
    policy = kb.KMTLUCB(2, engine="naive", exploration=rule)
    check_learned(policy, rare(kind, 130, np.random.default_rng(0)), 0, updates=10)


@pytest.mark.parametrize("memory", MEMORIES[:2], ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_a_shop_where_one_visitor_in_500_buys(seed: int, memory: Any) -> None:
    """Round by round, as a service would."""
    rng = np.random.default_rng(seed)
    policy = kb.KMTLUCB(2, memory=memory, seed=seed)
    sold = 0
    for _ in range(1600 if memory is None else 700):
        decision = policy.choose(rng.normal(size=3))
        bought = rng.random() < 0.002
        sold += bought
        policy.update(decision, float(bought))
    assert np.isfinite(policy.predict(np.zeros(3)).mean).all()
    assert np.abs(policy.predict(np.zeros(3)).mean).max() < 0.5


@pytest.mark.slow
def test_rare_buyers_are_found() -> None:
    """One arm sells to 1.5 % where the other sells to none: it gets more than its half of the rounds."""
    played = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        policy = kb.KMTLUCB(["dear", "liked"], seed=seed)
        for _ in range(1000):
            decision = policy.choose([1.0])
            policy.update(decision, float(decision.arm == "liked" and rng.random() < 0.015))
        played.append(policy.counts["liked"])
    assert np.mean(played) > 550, played
