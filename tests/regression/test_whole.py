"""The whole reference: an inverse that grows by rows, and how far what it says may be trusted."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.history import History
from kinbandits.regression.base import Query, RegressionSettings
from kinbandits.regression.exact.ladder import LadderRegression
from kinbandits.regression.exact.lagged import LaggedReference
from kinbandits.regression.linalg.inverse import GrowingInverse
from kinbandits.terms import Term, Terms


def positive_definite(n: int, seed: int) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(n, n + 5))
    return np.asarray(root @ root.T)


def test_a_grown_inverse_is_the_inverse() -> None:
    M = positive_definite(150, 0)
    inverse = GrowingInverse(M[:100, :100].copy())
    for i in range(100, 150):
        inverse.append(M[i, :i], M[i, i])
    assert (inverse.size, inverse.appended) == (150, 50)
    np.testing.assert_allclose(inverse.times(M), np.eye(150), atol=1e-10)
    masked = np.zeros((150, 2))
    row = np.random.default_rng(1).normal(size=150)
    masked[:40, 0], masked[40:100, 1], masked[100:, 0] = row[:40], row[40:100], row[100:]
    found = inverse.times_parts(row, [0, 40, 100], masked)
    np.testing.assert_allclose(found, np.linalg.solve(M, masked), atol=1e-10)


def test_a_row_that_rounding_spoils_is_refused_and_changes_nothing() -> None:
    M = positive_definite(20, 1)
    inverse = GrowingInverse(M.copy())
    before = inverse.times(np.eye(20))
    with pytest.raises(np.linalg.LinAlgError, match="safely"):
        inverse.append(M[3], M[3, 3], least=1e-3)
    assert inverse.size == 20
    np.testing.assert_array_equal(inverse.times(np.eye(20)), before)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        GrowingInverse(-M)


def aged(seed: int, growth: float = 1.5) -> tuple[LadderRegression, LaggedReference, np.random.Generator]:
    rng = np.random.default_rng(seed)
    n_arms = 4
    alike = 0.9 + 0.1 * np.eye(n_arms)
    sims = [kb.Mixed(0.95), kb.Estimated(5.0, kb.RBF(1.0)), kb.Pooled(), kb.Known(alike)]
    terms = Terms((Term(sims[seed % 4], kb.RBF(float(10 ** rng.uniform(-1, 2)))),))
    X = rng.normal(size=(120, 2))
    X = np.round(X) if seed % 3 == 0 else X
    history = History.of(n_arms, rng.integers(n_arms, size=120), X, rng.normal(size=120))
    weighting = "per_arm" if seed % 8 < 4 else "uniform"
    regression = LadderRegression(
        RegressionSettings(terms, float(10 ** rng.uniform(-7, 0)), weighting, "borrow"), history
    )  # type: ignore[arg-type]
    reference = LaggedReference(regression.matrix, growth)
    regression._use(reference)
    return regression, reference, rng


def lagged_matrix(regression: LadderRegression, reference: LaggedReference) -> np.ndarray:
    """B in order of arrival."""
    snapshot = reference.ready()
    arranged, order = regression.matrix.by_arm(snapshot.K_arms)
    B = np.empty_like(arranged)
    B[np.ix_(order, order)] = arranged
    B[np.diag_indices_from(B)] += snapshot.noise[regression.history.arms]
    return B


@pytest.mark.parametrize("seed", range(12))
def test_the_rounding_of_a_solve_stays_below_its_bound(seed: int) -> None:
    """k - B u in extended precision, while rows are bordered on."""
    regression, reference, rng = aged(seed)
    for _ in range(50):
        x = rng.normal(size=(1, 1, 2))
        probe = regression._probe(Query(np.arange(4), x))
        u = reference.candidates(probe)
        B = lagged_matrix(regression, reference).astype(np.longdouble)
        error = np.linalg.norm((probe.k.T - B @ u).astype(float), axis=0)
        assert (error <= reference.rounding(np.linalg.norm(probe.k, axis=1))).all()
        regression.observe(rng.integers(4, size=1), x[0], rng.normal(size=1))
    assert reference.refreshes >= 1


@pytest.mark.parametrize("seed", range(8))
def test_what_an_old_inverse_says_of_widths_and_means_holds(seed: int) -> None:
    regression, reference, rng = aged(seed, growth=2.0)
    told = 0
    for _ in range(60):
        query = Query(np.arange(4), rng.normal(size=(1, 1 if rng.random() < 0.7 else 4, 2)))
        probe = regression._probe(query)
        found = reference.widths(probe)
        if found is not None and found.guess is not None:
            res, error_now = regression.dual_state.residual()
            mean, explained = (a[0] for a in regression._moments(query))
            slack = 1e-9 * probe.prior
            told += 1
            assert (found.low <= explained + slack).all()
            assert (found.high >= explained - slack).all()
            r = probe.k.T - regression.matrix.times(found.guess.u)
            M = regression.matrix.times(np.eye(len(r)))
            assert (np.einsum("ij,ij->j", r, np.linalg.solve(M, r)) <= found.guess.remainder**2 + 1e-9).all()
            close = probe.dot(regression.dual_state.values) + res @ found.guess.u
            error = found.guess.remainder * error_now.eta + 1e-8 * (1.0 + np.abs(mean).max())
            assert (np.abs(close - mean) <= error).all()
        regression.observe(rng.integers(4, size=1), query.contexts[0, :1], rng.normal(size=1))
    assert told > 10


def test_a_row_that_was_a_candidate_is_appended_without_a_pass() -> None:
    """The columns computed for the choice are those the new row needs."""
    regression, reference, rng = aged(1)
    query = Query(np.arange(4), rng.normal(size=(1, 1, 2)))
    reference.candidates(regression._probe(query))
    regression.observe(np.array([2]), query.contexts[0], np.ones(1))
    assert reference._snapshot is not None
    inverse = reference._snapshot.inverse
    passes = []
    times, inverse.times = inverse.times, lambda R: passes.append(1) or times(R)  # type: ignore
    reference.ready()
    assert (inverse.appended, passes) == (1, [])
    B = lagged_matrix(regression, reference)
    np.testing.assert_allclose(reference.apply(B), np.eye(len(B)), atol=1e-6)
