"""engine="auto": exact, then budgeted, with decisions that go on as they were."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.regression import auto
from kinbandits.regression.budgeted import BudgetedRegression, Sliced

UNTIL = kb.LearnedRidge(until=150)  # as in earnest: noise is learned until the change of engine


@pytest.fixture
def early(monkeypatch):
    monkeypatch.setattr(auto, "CHANGEOVER", 150)
    monkeypatch.setattr(auto, "LEAST_BUDGET", 80)


def stream(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.stack([np.sin(2 * X[:, 0]), X[:, 1], -X[:, 0]], axis=1) * 0.5 + 0.5


@pytest.mark.parametrize("similarity", [kb.Independent(), kb.Estimated(embedding_kernel=kb.RBF(length_scale=0.5))])
def test_decisions_are_continuous_across_the_change(early, similarity, tmp_path):
    X, f = stream(300)
    kernel = kb.RBF(length_scale=0.8)
    settings = {"context_kernel": kernel, "similarity": similarity, "ridge": UNTIL, "tie_break": "first"}
    changing, exact = kb.KMTLUCB(3, **settings), kb.KMTLUCB(3, engine="exact", **settings)
    agree = []
    for x, row in zip(X, f, strict=True):
        d, e = changing.choose(x), exact.choose(x)
        agree.append(d.arm == e.arm)
        changing.update(d, row[d.arm])
        exact.observe([d.arm], x[None, :], [row[d.arm]])
    assert all(agree[:150])  # the same engine
    assert isinstance(changing.regression, BudgetedRegression)
    assert changing.regression.settings.budget == 256
    assert np.mean(agree[150:]) > 0.95  # what was learned came along
    mean, width = changing.predict(X[:, None, :])
    other = exact.predict(X[:, None, :])
    assert np.abs(mean - other.mean).max() < 0.02
    assert np.abs(width - other.width).max() < 0.3
    changing.save(tmp_path / "p.zip")
    again = kb.load(tmp_path / "p.zip")
    assert isinstance(again.regression, BudgetedRegression)
    np.testing.assert_allclose(again.predict(X[0]).mean, changing.predict(X[0]).mean, rtol=1e-12)


def test_budgeted_after_so_many_rows(tmp_path):
    """``after`` says when, ``points`` how many; a loaded policy and a copy go on alike."""
    X, f = stream(400)
    engine = kb.Budgeted(points=40, after=100)
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(), similarity=kb.Mixed(0.5), engine=engine)
    exact = kb.KMTLUCB(3, context_kernel=kb.RBF(), similarity=kb.Mixed(0.5), engine="exact")
    arms = np.arange(400) % 3
    for i in range(100):
        for p in (policy, exact):
            p.observe(arms[i : i + 1], X[i : i + 1], f[i, arms[i : i + 1]])
    np.testing.assert_allclose(policy.predict(X[0]), exact.predict(X[0]), rtol=1e-9)
    for i in range(100, 400):
        policy.observe(arms[i : i + 1], X[i : i + 1], f[i, arms[i : i + 1]])
    assert policy.engine_report()["points"] == 40
    policy.save(tmp_path / "p.zip")
    again = kb.load(tmp_path / "p.zip")
    assert again.engine == engine
    np.testing.assert_allclose(again.predict(X[0]), policy.predict(X[0]), rtol=1e-12)
    with pytest.raises(ValueError, match="after"):
        kb.Budgeted(after=-1)


def test_a_saved_exact_policy_beyond_the_change_comes_back_ready(monkeypatch, tmp_path):
    """Rows learned by few calls are few pieces of the change: it may be saved long after the change began."""
    monkeypatch.setattr(auto, "MANY", 20)
    X, f = stream(200)
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(), ridge=0.1, engine=kb.Budgeted(40, after=100))
    for low in range(0, 200, 20):
        policy.observe(np.arange(20) % 3, X[low : low + 20], f[low : low + 20, 0])
    assert policy.regression.one_by_one(2)
    policy.save(tmp_path / "p.zip")
    again = kb.load(tmp_path / "p.zip")
    again.observe([0], X[:1], [0.5])
    assert again.engine_report()["points"] == 40


def test_a_feature_map_stays_exact(early):
    X, f = stream(200)
    policy = kb.baselines.LinUCB(3)
    policy.observe([0] * 200, X, f[:, 0])
    assert not isinstance(policy.regression, BudgetedRegression)


def test_a_small_window_stays_exact(early):
    X, f = stream(200)
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(), memory=kb.Window(size=50))
    policy.observe([0] * 200, X, f[:, 0])
    assert not isinstance(policy.regression, BudgetedRegression)
    assert policy.n_observations == 200
    assert policy.counts == {0: 50, 1: 0, 2: 0}


def playing(policy, X, f):
    arms = []
    for x, row in zip(X, f, strict=True):
        decision = policy.choose(x)
        policy.update(decision, row[decision.arm])
        arms.append(decision.arm)
    return arms


@pytest.mark.parametrize("at", [152, 165, 170, 173])
def test_a_change_goes_on_in_copies_and_files(early, monkeypatch, at, tmp_path):
    """Saved while the model is built, or while it catches up: the same decisions, the change at the same row."""
    monkeypatch.setattr("kinbandits.regression.budgeted.slices.PIECE", 5e5)
    monkeypatch.setattr("kinbandits.regression.budgeted.build.PIECE", 5e5)
    monkeypatch.setattr(Sliced.advance, "__defaults__", (5e5,))
    X, f = stream(420)
    kernel = kb.RBF(length_scale=0.8)
    policy = kb.KMTLUCB(3, context_kernel=kernel, similarity=kb.Mixed(mu=0.3), ridge=UNTIL, tie_break="first")
    playing(policy, X[:at], f[:at])
    assert isinstance(policy.regression, auto.AutoRegression)
    assert policy.regression.to_data()[0]["change"]["rows"] == 151
    policy.save(tmp_path / "p.zip")
    others = [policy.copy(), kb.load(tmp_path / "p.zip")]
    wanted = playing(policy, X[at:], f[at:])
    assert isinstance(policy.regression, BudgetedRegression)
    for other in others:
        assert playing(other, X[at:], f[at:]) == wanted
        assert isinstance(other.regression, BudgetedRegression)
        np.testing.assert_array_equal(other.predict(X[0]).mean, policy.predict(X[0]).mean)
    assert policy.n_observations == 420


def test_many_rows_at_once_are_learned_as_a_block(monkeypatch):
    monkeypatch.setattr(auto, "LEAST_BUDGET", 80)
    X, f = stream(7000)
    rng = np.random.default_rng(1)
    arms = rng.integers(0, 3, 7000)
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(length_scale=0.8))
    policy.observe(arms, X, f[np.arange(7000), arms])
    assert isinstance(policy.regression, BudgetedRegression)
    assert policy.n_observations == 7000
    mean, _ = policy.predict(X[:50, None, :])
    assert np.abs(mean - f[:50]).max() < 0.05
    linear = kb.baselines.LinUCB(3)
    linear.observe(arms, X, f[np.arange(7000), arms])
    assert not isinstance(linear.regression, BudgetedRegression)
