"""Inverse-gap weighting: probabilities from the formula, played as they are told, everywhere a rule can stand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

import kinbandits as kb
from kinbandits.rules import InverseGap, RootGamma, SquareCBGamma
from kinbandits.testing import check_policy
from strategies import engine_of, negative_similarity, random_rows

ENGINES = ["naive", "exact", "budgeted", "auto"]
N = 4
X = np.array([0.2, -0.3, 0.5])


def taught(engine: str = "exact", rule: object = None, **settings: object) -> kb.KMTLUCB:
    usual = {"similarity": kb.Known(negative_similarity(N)), "context_kernel": kb.RBF(0.8), "ridge": 0.3}
    settings = {**usual, "exploration": rule or InverseGap(), "engine": engine_of(engine, 64), **settings}
    policy = kb.KMTLUCB(N, **settings)  # type: ignore[arg-type]
    rows = random_rows(seed=3, n_arms=N, t=25)
    policy.observe(rows.arms, rows.contexts, rows.rewards)
    return policy


def literal(scores: np.ndarray, gamma: float) -> np.ndarray:
    """One round, candidate by candidate (no ties)."""
    b = int(scores.argmax())
    p = [0.0 if a == b else 1.0 / (len(scores) + gamma * (scores[b] - s)) for a, s in enumerate(scores)]
    p[b] = 1.0 - sum(p)
    return np.array(p)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("optimism", [0.0, 1.0])
def test_probabilities_are_those_of_the_formula(engine: str, optimism: float) -> None:
    policy = taught(engine, InverseGap(RootGamma(2.0), optimism))
    mean, width = policy.predict(X)
    wanted = literal(mean + optimism * math.sqrt(0.3) * width, 2.0 * N * math.sqrt(25))
    np.testing.assert_allclose(policy.probabilities(X[None, None])[0], wanted, rtol=1e-9)
    decision = policy.choose(X, scores=True)
    assert decision.propensity == pytest.approx(wanted[decision.index])
    assert decision.exploration == pytest.approx(optimism * math.sqrt(0.3))


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 6)), elements=st.floats(-1e6, 1e6)),
    st.floats(0.0, 1e9),
)
def test_laws(scores: np.ndarray, gamma: float) -> None:
    """They sum to 1, none is 0, the better are played more, alike are played alike, and random play is cheap."""
    p = InverseGap.shares(scores, gamma)
    k = scores.shape[1]
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert (p > 0.0).all()
    for s, row in zip(scores, p, strict=True):
        order = np.argsort(s, kind="stable")
        assert (np.diff(row[order]) >= -1e-12).all()
        for value in s:
            assert np.ptp(row[s == value]) == 0.0
        gap = s.max() - s
        assert gamma * float(row @ gap) <= k * (1.0 + 1e-9)
    np.testing.assert_allclose(InverseGap.shares(scores, 0.0), 1.0 / k)


@given(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3), st.integers(0, 20))
def test_any_unit_of_reward(unit: float, level: float, seed: int) -> None:
    """With the default rewards, level and unit of the rewards change nothing."""
    rng = np.random.default_rng(seed)
    rows = [0, 1, 2] * 10, rng.normal(size=(30, 2)), rng.normal(size=30)
    one, two = (kb.KMTLUCB(3, similarity=kb.Independent(), exploration=InverseGap()) for _ in range(2))
    one.observe(*rows)
    two.observe(rows[0], rows[1], level + unit * rows[2])
    x = rng.normal(size=(4, 1, 2))
    np.testing.assert_allclose(two.probabilities(x), one.probabilities(x), rtol=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_what_is_played_is_what_is_told(epsilon: float) -> None:
    """Chi-square over 10^5 draws: of a policy, and of a frozen one whose caller keeps the random numbers."""
    n = 100_000
    policy = taught(epsilon=epsilon, seed=5)
    p = policy.probabilities(X[None, None])[0]
    assert p.sum() == pytest.approx(1.0, rel=1e-12)
    rounds = np.broadcast_to(X, (n, 1, 3))
    uniform = np.random.default_rng(1).random((n, 2))
    for made in (policy.choose_many(rounds), policy.frozen().propose(rounds, uniform=uniform)):
        counts = np.bincount(made.index, minlength=N)
        assert stats.chisquare(counts, n * p).pvalue > 1e-3
        np.testing.assert_allclose(made.propensity, p[made.index], rtol=1e-9)
    single = np.bincount([policy.choose(X).index for _ in range(1000)], minlength=N)
    assert stats.chisquare(single, 1000 * p).pvalue > 1e-3


@pytest.mark.parametrize("engine", ENGINES)
def test_contract(engine: str) -> None:
    check_policy(kb.KMTLUCB(N, context_kernel=kb.RBF(0.8), exploration=InverseGap(), engine=engine_of(engine, 64)))


@pytest.mark.parametrize("rule", [InverseGap(7.0), InverseGap(SquareCBGamma(), 0.0), InverseGap(RootGamma(3.0))])
def test_it_goes_on_after_saving(rule: InverseGap, tmp_path: Path) -> None:
    policy = taught(rule=rule, seed=9)
    policy.save(tmp_path / "p.kb")
    loaded = kb.load(tmp_path / "p.kb")
    assert loaded.exploration == rule
    for _ in range(5):
        one, two = policy.choose(X), loaded.choose(X)
        assert (one.arm, one.propensity) == (two.arm, two.propensity)


def test_theory() -> None:
    """gamma = sqrt(k n / (ridge B^2 + log det + log(2 / delta))), over the means."""
    policy = taught(rule=InverseGap(SquareCBGamma(delta=0.2, norm_bound=3.0), optimism=0.0))
    gamma = math.sqrt(N * 25 / (0.3 * 9.0 + policy.log_det() + math.log(10.0)))
    np.testing.assert_allclose(policy.probabilities(X[None, None])[0], literal(policy.predict(X).mean, gamma))


def test_candidates_with_contexts_of_their_own() -> None:
    policy = taught(similarity=kb.Pooled(), cold_start="borrow")
    items = np.random.default_rng(2).normal(size=(7, 3))
    p = policy.probabilities(items[None], [0] * 7)[0]
    mean, width = (each[0] for each in policy.predict(items[None], [0] * 7))
    wanted = literal(mean + math.sqrt(0.3) * width, 20.0 * 7 * 5.0)
    np.testing.assert_allclose(p, wanted, rtol=1e-9)
    assert policy.choose(items, [0] * 7).propensity in p


def test_in_a_file_of_settings() -> None:
    from kinbandits.experiments import experiment_of

    table = {"type": "InverseGap", "gamma": {"type": "RootGamma", "scale": 5.0}, "optimism": 0.5}
    method = {"name": "igw", "similarity": {"type": "Independent"}, "exploration": table}
    data = {"name": "x", "environments": [{"kind": "hidden-descriptors", "horizon": 5}], "methods": [method]}
    (cell,) = experiment_of({**data, "seeds": 1}).cells()
    assert cell.make()[1].exploration == InverseGap(RootGamma(5.0), 0.5)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"gamma": -1.0}, ValueError),
        ({"gamma": math.sqrt}, TypeError),
        ({"gamma": math.inf}, ValueError),
        ({"optimism": -0.1}, ValueError),
    ],
)
def test_bad_settings(wrong: dict[str, float], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"gamma must|optimism must"):
        InverseGap(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scale must"):
        RootGamma(0.0)
    with pytest.raises(ValueError, match="delta must"):
        SquareCBGamma(delta=1.0)
