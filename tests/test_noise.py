"""Noise, level and unit of rewards, learned: against the definition, whatever the unit, however rows arrive."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinbandits as kb
from kinbandits.history import History
from kinbandits.noise import Noise
from kinbandits.policy.ahead import Ahead
from kinbandits.regression import RegressionSettings
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


def played(times: float = 1.0, plus: float = 0.0, t: int = 150, **others: Any) -> tuple[list[Any], kb.KMTLUCB]:
    policy = kb.KMTLUCB(4, **others)
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
    each = 45 / 4

    def evidence(K: np.ndarray, ridge: float) -> float:
        M = np.linalg.inv(K + ridge * np.eye(45))
        level = one @ M @ z / (one @ M @ one)
        fit = (z - level) @ M @ (z - level)
        return float(-0.5 * (44 * np.log(fit) - np.linalg.slogdet(M)[1] + np.log(one @ M @ one)))

    share, against = each / (each + 15.0), rule.prior * np.abs(np.log(rule.ridges / rule.usual))
    smooth, rough = (np.array([evidence(C, r) for r in rule.ridges]) for C in (K, K**16))
    lead = share * (rough.max() - max(smooth.max(), evidence(np.zeros((45, 45)), 1.0)))
    odds = np.exp(lead - 5.0) if rough.argmax() < smooth.argmax() else 0.0
    by_kind = np.exp(share * (smooth - smooth.max()) - against), np.exp(share * (rough - rough.max()) - against)
    weights = sum(o * w / w.sum() for o, w in zip((1.0, odds), by_kind, strict=True)) / (1.0 + odds)
    np.testing.assert_allclose([w for _, w in found.posterior], weights, atol=1e-6)
    ridge = min(float(np.exp(weights @ np.log(rule.ridges))), 45 / 4 / 20)
    M = np.linalg.inv(K + ridge * np.eye(45))
    level = one @ M @ z / (one @ M @ one)
    s = np.sqrt((z - level) @ M @ (z - level) / 44)
    assert found.ridge == pytest.approx(ridge)
    assert found.level == pytest.approx(low + wide * level)
    assert found.unit == pytest.approx(wide * min(1.0, max(2.0 * s, z.std() / np.sqrt(1.0 + ridge))))


def test_a_rough_function_without_noise_is_no_noise() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (400, 2))
    y = np.sin(6.0 * X[:, 0]) * np.cos(6.0 * X[:, 1])
    ridges = []
    for rewards in (y, rng.permutation(y)):  # a function of the context, and noise
        policy = kb.KMTLUCB(2)
        policy.observe([0, 1] * 200, X, rewards)
        ridges.append(policy.noise.ridge)
    assert ridges[0] < 0.03
    assert ridges[1] > 0.3


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
    for given_numbers in (
        {"ridge": 0.2},
        {"exploration": 0.1},
        {"exploration": kb.UCB(0.2)},
        kb.presets.paper("digits"),
    ):
        policy = kb.KMTLUCB(4, **given_numbers)
        assert "noise" not in policy.engine_report()
        assert policy.rewards is None
    assert kb.KMTLUCB(4, ridge=0.2).exploration == 0.1
    assert kb.KMTLUCB(4, exploration=0.3).ridge == 0.01
    fixed = kb.KMTLUCB(4, ridge=0.2, rewards=kb.rewards.Standardized())  # each part by itself
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
    ("wrong", "told"),
    [
        ({"usual": 0.0}, "usual"),
        ({"usual": 5.0}, "usual must not be above most"),
        ({"prior": -1.0}, "prior"),
        ({"first": 1}, "first must be at least 3"),
        ({"growth": 1.0}, "growth"),
        ({"until": 2.5}, "until must be a whole number"),
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        kb.LearnedRidge(**wrong)


def test_after_the_change_of_engine_what_was_learned_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinbandits.regression.auto.CHANGEOVER", 50)
    _, exact = played(t=150, engine="exact", ridge=kb.LearnedRidge(until=50))
    _, policy = played(t=150, ridge=kb.LearnedRidge(until=50))
    assert type(policy.regression).__name__ == "BudgetedRegression"
    assert policy.engine_report()["noise"] == exact.engine_report()["noise"]
    assert policy.regression.settings.ridge == exact.regression.settings.ridge


KINDS = {"normal": 0.0, "clicks": 0.3, "rare": 0.03, "same": 0.0}  # and how often a reward is 1 more


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**16), n_arms=st.integers(1, 5), kind=st.sampled_from(list(KINDS)))
def test_engines_agree_before_and_after_the_change(seed: int, n_arms: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    X, arms, luck = rng.normal(size=(70, 2)), rng.integers(n_arms, size=70), rng.random(70)
    y = X[:, 0] + rng.normal(size=70) if kind == "normal" else 7.0 + (luck < KINDS[kind])
    y[2] += kind != "same"
    same = {"context_kernel": RBF, "similarity": kb.Independent()}
    exact, naive, auto = (
        kb.KMTLUCB(n_arms, ridge=kb.LearnedRidge(until=45), engine=engine, **same)
        for engine in ("exact", "naive", "auto")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kinbandits.regression.auto.CHANGEOVER", 45)
        for policy in (exact, naive, auto):
            in_pieces(policy, arms, X, y)
        noise = auto.noise
        told = kb.KMTLUCB(n_arms, ridge=noise.ridge, **same)
        in_pieces(told, arms, X, (y - noise.level) / noise.unit)
    assert type(auto.regression).__name__ == "BudgetedRegression"
    assert exact.noise == naive.noise == noise
    for one, other in ((exact, naive), (auto, told)):
        found, wanted = one.predict(X[:20, None, :]), other.predict(X[:20, None, :])
        level, unit = (0.0, 1.0) if other is naive else (noise.level, noise.unit)
        np.testing.assert_allclose(found.mean, level + unit * wanted.mean, atol=1e-8 * noise.unit)
        np.testing.assert_allclose(found.width, unit * wanted.width, rtol=1e-8)


def in_pieces(policy: kb.KMTLUCB, arms: np.ndarray, X: np.ndarray, y: np.ndarray) -> None:
    for low in range(0, len(y), 2):
        policy.observe(arms[low : low + 2], X[low : low + 2], y[low : low + 2])


def test_the_first_reward_that_differs_sets_the_unit_after_the_change_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinbandits.regression.auto.CHANGEOVER", 40)
    X, arms = np.random.default_rng(0).normal(size=(90, 2)), np.arange(90) % 3
    policies = []
    for times in (1.0, 1000.0):
        policy = kb.KMTLUCB(3, ridge=kb.LearnedRidge(until=40))
        in_pieces(policy, arms, X, times * (5.0 + (np.arange(90) > 80)))
        assert type(policy.regression).__name__ == "BudgetedRegression"
        assert policy.noise.unit == pytest.approx(times)
        policies.append(policy)
    means = [policy.predict(X[85]).mean for policy in policies]
    np.testing.assert_allclose(means[1], 1000.0 * means[0])
    assert means[0][85 % 3] > 5.1


def test_rewards_that_never_differ_leave_all_arms_to_be_tried() -> None:
    policy = kb.KMTLUCB(4)
    X = np.random.default_rng(0).normal(size=(60, 2))
    for x in X:
        policy.update(policy.choose(x), 3.0)
    assert min(policy.counts.values()) > 5
    np.testing.assert_allclose(policy.predict(X[0]).mean, 3.0)


def test_rare_rewards_are_found() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    policy = kb.KMTLUCB(4)
    for x, luck in zip(X, rng.random(500), strict=True):
        decision = policy.choose(x)
        policy.update(decision, float(luck < (0.08 if decision.index == 2 else 0.01)))
    assert policy.noise is not None
    assert policy.noise.ridge > 0.1
    assert -0.05 < policy.noise.level < 0.1
    assert max(policy.counts, key=lambda arm: policy.counts[arm]) == 2


def test_the_unit_has_a_floor_where_a_smooth_function_is_known() -> None:
    X = np.linspace(-1.0, 1.0, 900)[:, None]
    y = np.sin(2.0 * X[:, 0])
    found = Noise.of(kb.LearnedRidge()).grown(TERMS, History.of(4, np.arange(900) % 2, X, y), 0)
    assert found.ridge == 0.01
    assert found.unit >= 0.9 * y.std() / np.sqrt(1.01)  # a move of less than a tenth is not made


def test_what_was_learned_is_told() -> None:
    _, policy = played(t=60)
    report = policy.engine_report()["noise"]
    assert report["moves"][-1]["ridge"] == report["ridge"]
    told = str(policy.explain_arm(0, [0.1, 0.2]))
    assert f"Rewards: ridge {report['ridge']:.3g}" in told
    assert f"last moved at {report['moves'][-1]['rows']} rows" in told
    assert "Rewards" not in str(kb.KMTLUCB(4, ridge=0.1).explain_arm(0, [0.1, 0.2]))


# -- taking force later -----------------------------------------------------------------------------


def noisy_from(start: int, rows: int = 440) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three arms that are alike, two columns; rewards are smooth, and noisy from row ``start`` on."""
    rng = np.random.default_rng(2)
    arms, X = rng.integers(3, size=rows), rng.normal(size=(rows, 2))
    y = np.sin(X[:, 0]) + 0.3 * arms * X[:, 1]
    return arms, X, np.where(np.arange(rows) < start, y, y + 2.0 * rng.normal(size=rows))


def one_by_one(policy: kb.KMTLUCB, rows: tuple[np.ndarray, ...], start: int, end: int) -> None:
    arms, X, y = rows
    for i in range(start, end):
        policy.observe([arms[i]], X[i : i + 1], y[i : i + 1])


def test_from_300_rows_on_noise_takes_force_a_sixteenth_later_in_whatever_pieces_rows_come(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = noisy_from(290)
    asked = np.random.default_rng(0).normal(size=(5, 2))
    slow, slices, bulk = (kb.KMTLUCB(3, engine="exact") for _ in range(3))
    assert slow.noise is not None
    prepared: list[bool] = []
    ready = Ahead.ready

    def spied(self: Ahead, settings: RegressionSettings) -> object:
        found = ready(self, settings)
        prepared.append(found is not None and found[1] is not None and bool(found[0]))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Ahead, "ready", spied)
        one_by_one(slices, rows, 0, 395)
        assert slices.noise is not None
        assert slices.noise.moves[-1].rows < 300  # what 380 rows said is not yet in force
        other = slices.copy()
        assert copy.deepcopy(slices)._ahead is None  # work under way is not copied, but begun again
        slices.save(tmp_path / "half-way")
        loaded = kb.load(tmp_path / "half-way")
        for policy in (slices, other, loaded):
            one_by_one(policy, rows, 395, 440)  # type: ignore[arg-type]
    assert prepared == [True] * 3  # choice and factor were there when the noise took force
    with monkeypatch.context() as patch:
        patch.setattr(kb.KMTLUCB, "_look_ahead", lambda self, noise, stone: None)
        one_by_one(slow, rows, 0, 440)
    bulk.observe(*rows)
    for policy in (slices, other, loaded, bulk):
        np.testing.assert_allclose(np.array(policy.noise.moves), np.array(slow.noise.moves), rtol=1e-9)
        assert policy.noise.moves[-1].rows == 403
        np.testing.assert_allclose(policy.similarity_matrix(), slow.similarity_matrix(), rtol=1e-9)
        np.testing.assert_allclose(policy.predict(asked).mean, slow.predict(asked).mean, rtol=1e-8, atol=1e-10)


def test_a_kernel_that_fails_while_noise_is_made_ready_is_told_of_when_it_takes_force() -> None:
    rows = noisy_from(290)
    policy = kb.KMTLUCB(3, engine="exact")
    one_by_one(policy, rows, 0, 385)
    assert policy._ahead is not None
    policy._ahead._work = (1 / 0 for _ in "x")  # type: ignore[assignment]
    policy._ahead.noise = None
    one_by_one(policy, rows, 385, 420)
    assert policy.noise is not None
    assert policy.noise.moves[-1].rows == 403
