"""The lagged engine: exact where nothing lags, and within its stated error elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.history import History
from kinbandits.regression.base import Query, Ridge
from kinbandits.regression.dense import DenseRegression
from kinbandits.regression.lagged import LaggedRegression
from kinbandits.terms import Term, Terms


def pair(sim: kb.Similarity, weighting: str, n_rows: int) -> tuple[LaggedRegression, DenseRegression]:
    """The lagged engine fed row by row, and the truth."""
    rng = np.random.default_rng(n_rows)
    settings = Ridge(Terms((Term(sim, kb.RBF(0.7)),)), 0.05, weighting, "borrow")  # type: ignore[arg-type]
    lagged, truth = LaggedRegression(settings, History(4)), DenseRegression(settings, History(4))
    for _ in range(n_rows):
        row = rng.integers(4, size=1), rng.normal(size=(1, 2)), rng.normal(size=1)
        lagged.observe(*row)
        truth.observe(*row)
        lagged.leaders(Query(np.arange(4), rng.normal(size=(1, 1, 2))), np.array([0.1]))
    return lagged, truth


QUERY = Query(np.arange(4), np.random.default_rng(0).normal(size=(5, 1, 2)))


def test_exact_where_nothing_lags() -> None:
    lagged, truth = pair(kb.Mixed(0.5), "uniform", 140)
    np.testing.assert_allclose(lagged.predict(QUERY).mean, truth.predict(QUERY).mean, atol=1e-10)
    np.testing.assert_allclose(lagged.predict(QUERY).width, truth.predict(QUERY).width, rtol=1e-8)
    assert lagged.mean_error() < 1e-9


@pytest.mark.parametrize("n_rows", [90, 137, 160])
@pytest.mark.parametrize(
    ("sim", "weighting"), [(kb.Estimated(0.3), "uniform"), (kb.Mixed(0.7), "per_arm")], ids=str
)
def test_the_stated_error_holds(sim: kb.Similarity, weighting: str, n_rows: int) -> None:
    lagged, truth = pair(sim, weighting, n_rows)
    report = lagged.report()
    error = np.abs(lagged.predict(QUERY).mean - truth.predict(QUERY).mean).max()
    assert error <= report["mean error bound"] + 1e-12
    assert report["rows since refresh"] <= 0.2 * n_rows + 33
    if report["explained within"] is not None:  # k'M^-1 k over k'B^-1 k
        low, high = report["explained within"]
        width, exact = lagged.predict(QUERY).width, truth.predict(QUERY).width
        ratio = (1.0 - 0.05 * exact**2) / (1.0 - 0.05 * width**2)
        assert low - 1e-9 <= ratio.min() <= ratio.max() <= high + 1e-9


def test_it_does_lag() -> None:
    """Per-arm weights move with every row; a factor left behind must show in the report."""
    lagged, truth = pair(kb.Mixed(0.7), "per_arm", 137)
    assert lagged.report()["mean error bound"] > 1e-6
    assert np.abs(lagged.predict(QUERY).mean - truth.predict(QUERY).mean).max() > 1e-9
