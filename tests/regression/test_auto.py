"""engine="auto": exact, then budgeted, with decisions that go on as they were."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.regression import auto
from kinbandits.regression.budgeted import BudgetedRegression


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
    X, f = stream(260)
    kernel = kb.RBF(length_scale=0.8)
    changing = kb.KMTLUCB(3, context_kernel=kernel, similarity=similarity, tie_break="first")
    exact = kb.KMTLUCB(3, context_kernel=kernel, similarity=similarity, engine="exact", tie_break="first")
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
