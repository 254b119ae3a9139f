"""Who is played, with which probability: exact for every rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

import kinbandits as kb
from kinbandits.rules import GPUCB, Logarithmic, symmetric_root
from strategies import played

X = np.array([0.2, -0.3, 0.5])
RULES: dict[str, dict[str, Any]] = {
    "ties": {"exploration": 0.5, "context_kernel": kb.Constant(), "similarity": "pooled"},
    "ties, first": {"exploration": 0.5, "context_kernel": kb.Constant(), "similarity": "pooled", "tie_break": "first"},
    "epsilon": {"exploration": 0.5, "epsilon": 0.3},
    "Thompson": {"exploration": kb.Thompson(400), "cold_start": "borrow"},
    "Thompson, epsilon": {"exploration": kb.Thompson(400), "epsilon": 0.2},
    "inverse gap": {"exploration": kb.InverseGap(0.5)},
    "ceiling": {"exploration": kb.UCB(0.5, ceiling=0.4)},
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_propensities_are_how_often_each_candidate_is_played(name: str) -> None:
    n, policy = 4_000, played(**({"similarity": "known", "seed": 5} | RULES[name]))
    p = policy.probabilities(X)
    assert p.sum() == pytest.approx(1.0)
    rounds, uniform = np.tile(X, (n, 1)), np.random.default_rng(1).random((n, 2))
    for made in (policy.choose_many(rounds), policy.frozen().propose(rounds, uniform=uniform)):
        counts, possible = np.bincount(made.index, minlength=4), p > 0.0
        assert not counts[~possible].any()
        if possible.sum() > 1:
            assert stats.chisquare(counts[possible], n * p[possible]).pvalue > 1e-3
        np.testing.assert_allclose(made.propensity, p[made.index], rtol=1e-9)
    single = policy.choose(X)
    assert single.propensity == pytest.approx(p[single.index])


def test_inverse_gap_is_the_formula() -> None:
    policy = played("known", exploration=kb.InverseGap(2.0), ridge=0.3)
    mean, width = policy.predict(X)
    s, gamma = mean + math.sqrt(0.3) * width, 2.0 * 4 * math.sqrt(policy.n_observations)
    p = [0.0 if a == s.argmax() else 1.0 / (4 + gamma * (s.max() - v)) for a, v in enumerate(s)]
    p[int(s.argmax())] = 1.0 - sum(p)
    np.testing.assert_allclose(policy.probabilities(X), p, rtol=1e-9)


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 6)), elements=st.floats(-1e6, 1e6)),
    st.floats(0.0, 1e9),
)
def test_laws_of_inverse_gap(scores: np.ndarray, gamma: float) -> None:
    """They sum to 1, none is 0, the better are played more, and random play is cheap."""
    p = kb.InverseGap.shares(scores, gamma)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert (p > 0.0).all()
    for s, row in zip(scores, p, strict=True):
        assert (np.diff(row[np.argsort(s, kind="stable")]) >= -1e-12).all()
        assert gamma * float(row @ (s.max() - s)) <= len(s) * (1.0 + 1e-9)


def test_thompson_plays_each_with_the_probability_that_it_is_the_best() -> None:
    policy = played("known", exploration=kb.Thompson(20_000), cold_start="borrow", ridge=0.3)
    draws = np.random.default_rng(0).multivariate_normal(policy.predict(X).mean, policy.covariance(X), 200_000)
    wanted = np.bincount(draws.argmax(axis=1), minlength=4) / 200_000
    np.testing.assert_allclose(policy.probabilities(X), wanted, atol=0.015)
    shares = kb.Thompson().shares(np.array([0.0, 6.0]), np.eye(2))
    assert 0.0 < shares[0] < 1e-4  # none is impossible
    assert kb.Thompson().shares(np.zeros(3), np.ones((3, 3))) == pytest.approx([1 / 3] * 3)
    C = np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])
    np.testing.assert_allclose(symmetric_root(C) @ symmetric_root(C).T, C, atol=1e-12)


def test_the_multiplier_of_the_width() -> None:
    """Deviations times sqrt(ridge), fewer among many candidates; schedules count decisions from 1."""
    policy = kb.KMTLUCB(1, exploration=kb.UCB(deviations=2.0), ridge=0.09)
    for k in (2, 10, 11, 400):
        beta = policy.choose(np.linspace(0.0, 1.0, k)[:, None], task=0).exploration
        assert beta == pytest.approx(0.6 * min(1.0, math.log(10) / math.log(k)))
    asked: list[int] = []
    policy = kb.KMTLUCB(2, exploration=lambda t: asked.append(t) or float(t))
    policy.observe([1], [[0.2]], [0.1])  # logged rows are no decisions
    many = [policy.choose([0.0]), *policy.choose_many(np.zeros((3, 1)))]
    assert [d.exploration for d in many] == asked == [1.0, 2.0, 3.0, 4.0]
    policy = kb.KMTLUCB(5, exploration=GPUCB(5, delta=0.2), ridge=0.04)
    policy.choose_many(np.zeros((2, 1)))
    wanted = 0.2 * math.sqrt(2.0 * math.log(5 * 9 * math.pi**2 / (6 * 0.2)))
    assert policy.choose([0.0]).exploration == pytest.approx(wanted)
    assert kb.KMTLUCB(2, exploration=Logarithmic(2.0)).choose([0.0]).exploration == pytest.approx(
        2 * math.log(2) ** 0.5
    )


def test_the_largest_mean_of_those_that_reach_the_ceiling() -> None:
    free, capped = (played("independent", exploration=kb.UCB(0.3, ceiling=c)) for c in (None, 0.6))
    found = free.choose(X, scores=True)
    above, mean = found.scores >= 0.6, free.predict(X).mean
    assert above.sum() >= 2
    assert capped.choose(X).index == int(np.argmax(np.where(above, mean, -np.inf)))
