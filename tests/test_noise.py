"""Noise, level and unit of rewards, learned: against the definition, whatever the unit, however rows arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.history import History
from kinbandits.noise import Noise
from kinbandits.terms import Term, as_terms
from strategies import random_rows

pytestmark = pytest.mark.numerical

RBF = kb.RBF(0.8)
TERMS = as_terms(Term(kb.Independent(), RBF))


def world(seed: int = 0, t: int = 150, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Contexts and the rewards of four arms."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (t, 2))
    means = np.sin(3.0 * X[:, :1] + np.arange(4))
    return X, means + noise * rng.standard_normal(means.shape)


def played(times: float = 1.0, plus: float = 0.0, t: int = 150, **settings: Any) -> tuple[list[Any], kb.KMTLUCB]:
    policy = kb.KMTLUCB(4, **settings)
    arms = []
    for x, rewards in zip(*world(t=t), strict=True):
        decision = policy.choose(x)
        arms.append(decision.arm)
        policy.update(decision, float(times * rewards[decision.index] + plus))
    return arms, policy


def test_level_signal_and_weights_are_those_of_the_definition() -> None:
    X, rewards = world(t=45)
    arms = np.arange(45) % 4
    y = 7.0 + rewards[np.arange(45), arms]
    rule = kb.LearnedRidge(first=45)
    found = Noise.of(rule).grown(TERMS, History.of(4, arms, X, y), 0)
    low, wide = y.min(), np.ptp(y)
    z, one = (y - low) / wide, np.ones(45)
    K = RBF(X, X) * (arms[:, None] == arms)
    nats = []
    for ridge in rule.ridges:
        M = np.linalg.inv(K + ridge * np.eye(45))
        level = one @ M @ z / (one @ M @ one)
        fit = (z - level) @ M @ (z - level)
        log_det = -np.linalg.slogdet(M)[1]
        evidence = -0.5 * (44 * np.log(fit) + log_det + np.log(one @ M @ one))
        nats.append(0.5 * evidence - rule.prior * abs(np.log(ridge / rule.usual)))
    weights = np.exp(np.array(nats) - max(nats))
    weights /= weights.sum()
    np.testing.assert_allclose([w for _, w in found.posterior], weights, atol=1e-6)
    ridge = min(float(np.exp(weights @ np.log(rule.ridges))), 45 / 4 / 20)
    M = np.linalg.inv(K + ridge * np.eye(45))
    level = one @ M @ z / (one @ M @ one)
    s = np.sqrt((z - level) @ M @ (z - level) / 44)
    assert found.ridge == pytest.approx(ridge)
    assert found.level == pytest.approx(low + wide * level)
    assert found.unit == pytest.approx(wide * min(1.0, 2.0 * s))


@pytest.mark.parametrize("engine", ["exact", "naive"])
def test_the_same_arms_in_every_unit(engine: str) -> None:
    arms, policy = played(engine=engine, t=90)
    for times, plus in ((1000.0, 0.0), (1.0, 50.0), (1e-6, -3.0)):
        other, scaled = played(times, plus, engine=engine, t=90)
        assert other == arms
        mean, width = policy.predict([0.1, 0.2])
        found = scaled.predict([0.1, 0.2])
        np.testing.assert_allclose(found.mean, times * mean + plus, rtol=1e-6, atol=1e-8 * times)
        np.testing.assert_allclose(found.width, times * width, rtol=1e-6)


def test_equal_rewards_have_no_unit_until_one_differs() -> None:
    for times in (1.0, 1000.0):
        policy = kb.KMTLUCB(2)
        for i in range(9):
            policy.observe([i % 2], [[0.1 * i]], [5.0 * times])
        assert policy.engine_report()["noise"]["level"] == 5.0 * times
        policy.observe([1], [[0.3]], [7.0 * times])  # 10 rows, which are no milestone
        assert policy.engine_report()["noise"]["unit"] == pytest.approx(2.0 * times)


def test_engines_agree() -> None:
    arms, exact = played(engine="exact", t=120)
    others, naive = played(engine="naive", t=120)
    assert arms == others
    assert exact.engine_report()["noise"] == naive.engine_report()["noise"]
    np.testing.assert_allclose(exact.predict([0.3, 0.3]).mean, naive.predict([0.3, 0.3]).mean, rtol=1e-8)


def test_it_does_not_matter_in_which_pieces_rows_come() -> None:
    X, rewards = world()
    arms = np.arange(150) % 4
    y = rewards[np.arange(150), arms]
    bulk, pieces = kb.KMTLUCB(4), kb.KMTLUCB(4)
    bulk.observe(arms, X, y)
    for low in range(0, 150, 7):
        pieces.observe(arms[low : low + 7], X[low : low + 7], y[low : low + 7])
    one, two = bulk.engine_report()["noise"], pieces.engine_report()["noise"]
    for name in ("ridge", "level", "unit"):
        assert one[name] == pytest.approx(two[name], rel=1e-9)
    assert [m["rows"] for m in one["moves"]] == [m["rows"] for m in two["moves"]]


def test_noise_raises_the_ridge_and_its_absence_does_not() -> None:
    ridges = {}
    for noise in (0.01, 2.0):
        X, rewards = world(t=300, noise=noise)
        policy = kb.KMTLUCB(4)
        arms = np.arange(300) % 4
        policy.observe(arms, X, rewards[np.arange(300), arms])
        ridges[noise] = policy.engine_report()["noise"]["ridge"]
    assert ridges[0.01] < 0.02
    assert ridges[2.0] > 0.3


def test_numbers_given_stay() -> None:
    for settings in (
        {"ridge": 0.2},
        {"exploration": 0.1},
        {"exploration": kb.UCB(0.2)},
        kb.presets.paper("digits"),
    ):
        policy = kb.KMTLUCB(4, **settings)
        assert "noise" not in policy.engine_report()
        assert policy.rewards is None
    assert kb.KMTLUCB(4, ridge=0.2).exploration == 0.1
    assert kb.KMTLUCB(4, exploration=0.3).ridge == 0.01
    fixed = kb.KMTLUCB(4, ridge=0.2, rewards=kb.Standardized())  # each part by itself
    fixed.observe([0, 1] * 20, np.linspace(-1, 1, 40)[:, None], np.sin(np.arange(40.0)) + 9.0)
    report = fixed.engine_report()["noise"]
    assert report["ridge"] == 0.2
    assert 8.0 < report["level"] < 10.0
    ranged = kb.KMTLUCB(4, rewards=kb.Range(0.0, 4.0))
    assert isinstance(ranged.ridge, kb.LearnedRidge)
    assert ranged.rewards == kb.Range(0.0, 4.0)


def test_saved_and_resumed(tmp_path: Path) -> None:
    _, policy = played(t=100)
    policy.save(tmp_path / "policy.kb")
    again = kb.load(tmp_path / "policy.kb")
    assert again.engine_report()["noise"] == policy.engine_report()["noise"]
    X, rewards = world(seed=5, t=60)
    for p in (policy, again):
        p.observe(np.arange(60) % 4, X, rewards[np.arange(60), np.arange(60) % 4])
    np.testing.assert_allclose(policy.predict([0.2, 0.1]).mean, again.predict([0.2, 0.1]).mean, rtol=1e-9)
    assert policy.copy().engine_report() == policy.engine_report()


def test_a_kernel_that_fails_leaves_all_as_it_was() -> None:
    class Fails:
        on = False

        def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
            if self.on:
                raise RuntimeError("no")
            return RBF(A, B)

    kernel = Fails()
    policy = kb.KMTLUCB(3, context_kernel=kernel, similarity=kb.Independent())
    rows = random_rows(1, 3, 25)
    policy.observe(rows.arms, rows.contexts, rows.rewards)
    before = policy.engine_report()["noise"], policy.n_observations
    kernel.on = True
    with pytest.raises(RuntimeError):
        policy.observe(rows.arms[:9], rows.contexts[:9], 3.0 * rows.rewards[:9])
    assert (policy.engine_report()["noise"], policy.n_observations) == before


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"usual": 0.0}, "usual"),
        ({"usual": 5.0}, "usual must not be above most"),
        ({"prior": -1.0}, "prior"),
        ({"first": 1}, "first must be at least 3"),
        ({"growth": 1.0}, "growth"),
        ({"until": 2.5}, "until must be a whole number"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        kb.LearnedRidge(**settings)


def test_after_the_change_of_engine_what_was_learned_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinbandits.regression.auto.CHANGEOVER", 50)
    _, exact = played(t=150, engine="exact", ridge=kb.LearnedRidge(until=50))
    _, policy = played(t=150, ridge=kb.LearnedRidge(until=50))
    assert type(policy.regression).__name__ == "BudgetedRegression"
    assert policy.engine_report()["noise"] == exact.engine_report()["noise"]
    assert policy.regression.settings.ridge == exact.regression.settings.ridge
