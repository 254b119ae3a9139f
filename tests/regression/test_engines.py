"""Every exact engine against the paper's formula, after every observation."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.regression import Query, Regression
from kinbandits.regression.base import best
from strategies import (
    COLD_STARTS,
    EXACT_ENGINES,
    KERNELS,
    SIMILARITIES,
    WEIGHTINGS,
    Rows,
    queries,
    random_rows,
    regression,
    two_terms,
)

N_ARMS = 4


def agree(found: np.ndarray, wanted: np.ndarray, what: str, scale: float = 1.0) -> None:
    """Equal to 1e-9, relative; numbers that should be 0 to 1e-12 of the scale."""
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11 * scale, err_msg=what)


def compare(engine: Regression, naive: Regression, asked: list[Query]) -> None:
    for query in asked:
        found, wanted = engine.predict(query), naive.predict(query)
        assert found.mean.shape == found.width.shape == query.shape
        agree(found.mean, wanted.mean, "mean")
        # The width is a root of a difference, so it is the square that is known to so many digits.
        ridge = naive.settings.ridge
        agree(ridge * found.width**2, ridge * wanted.width**2, "width^2", scale=100.0)
        compare_leaders(engine, naive, query)


def compare_leaders(engine: Regression, naive: Regression, query: Query) -> None:
    """The same candidates lead, but for leads that rounding could undo."""
    exploration = np.linspace(0.0, 0.7, query.shape[0])
    mean, width = naive.predict(query)
    scores = mean + exploration[:, None] * width
    certain, possible = best(scores, 0.0), best(scores, 1e-9)
    found = engine.leaders(query, exploration)
    assert found.any(axis=1).all()
    assert not (found & ~possible).any(), "a candidate leads that is clearly behind"
    clear = possible.sum(axis=1) == 1
    np.testing.assert_array_equal(found[clear], certain[clear])


def compare_state(engine: Regression, naive: Regression, rng: np.random.Generator) -> None:
    """What does not depend on the kind of query."""
    h = naive.history
    pairs = zip(engine.similarity_matrices, naive.similarity_matrices, strict=True)
    for found, wanted in pairs:
        agree(found, wanted, "similarity")
    agree(engine.dual(), naive.dual(), "dual", scale=10.0)
    assert engine.log_det() == pytest.approx(naive.log_det(), rel=1e-9, abs=1e-10)
    arms = np.array([0, h.n_arms - 1, 0])
    X = rng.uniform(-1.0, 1.0, (3, 3))
    agree(engine.covariance(arms, X), naive.covariance(arms, X), "covariance", scale=100.0)
    agree(engine.contributions(0, X[0]), naive.contributions(0, X[0]), "contributions", scale=10.0)


def follow(engine_name: str, rows: Rows, kernel: object, start: int, **settings: str) -> None:
    """Learn ``start`` rows at once and the rest one by one; compare after every observation."""
    engine = regression(engine_name, rows[:start], kernel, **settings)
    naive = regression("naive", rows[:start], kernel, **settings)
    rng = np.random.default_rng(start)
    for i in range(start, len(rows) + 1):
        compare(engine, naive, queries(rng, rows.n_arms))
        compare_state(engine, naive, rng)
        if i < len(rows):
            row = rows[i : i + 1]
            engine.observe(row.arms, row.contexts, row.rewards)
            naive.observe(row.arms, row.contexts, row.rewards)


EVERY = [(k, "estimated", w, "explore", 1) for k in KERNELS for w in WEIGHTINGS] + [
    ("rbf", s, w, c, terms) for s in SIMILARITIES for w in WEIGHTINGS for c in COLD_STARTS for terms in (1, 2)
]


@pytest.mark.parametrize(
    ("kernel", "similarity", "weighting", "cold_start", "terms"), EVERY, ids=["-".join(map(str, e)) for e in EVERY]
)
@pytest.mark.parametrize("engine", EXACT_ENGINES)
def test_equals_naive(
    engine: str, kernel: str, similarity: str, weighting: str, cold_start: str, terms: int
) -> None:
    """From nothing on, row by row; methods at the sizes where they are at work: `test_methods`."""
    value, k = SIMILARITIES[similarity](N_ARMS), KERNELS[kernel]
    product = kb.Term(value, k) if terms == 1 else two_terms(value, k)
    rows = random_rows(seed=7, n_arms=N_ARMS, t=9)
    follow(engine, rows, product, start=0, weighting=weighting, cold_start=cold_start)


@pytest.mark.parametrize("n_arms", [1, 6])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("engine", EXACT_ENGINES)
def test_equals_naive_when_long(engine: str, similarity: str, weighting: str, n_arms: int) -> None:
    """Beyond the sizes at which an engine may change its method, and after a bulk of rows."""
    rows = random_rows(seed=3, n_arms=n_arms, t=232)
    product = kb.Term(SIMILARITIES[similarity](n_arms), kb.RBF(length_scale=0.5))
    follow(engine, rows, product, start=222, weighting=weighting, cold_start="explore")


@pytest.mark.slow
@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("engine", EXACT_ENGINES)
def test_leads_as_naive_all_the_way(engine: str, similarity: str, weighting: str) -> None:
    """One game of 260 rounds in which the leader is played; the leader is compared in every round."""
    n_arms = 5
    product = kb.Term(SIMILARITIES[similarity](n_arms), kb.RBF(length_scale=0.4))
    nothing = random_rows(seed=0, n_arms=n_arms, t=0)
    fast = regression(engine, nothing, product, weighting=weighting, ridge=0.01)
    naive = regression("naive", nothing, product, weighting=weighting, ridge=0.01)
    rng = np.random.default_rng(11)
    for t in range(260):
        shared = t % 2 == 0
        query = Query(np.arange(n_arms), rng.uniform(-1.0, 1.0, (1, 1 if shared else n_arms, 3)))
        compare_leaders(fast, naive, query)
        if t % 25 == 0:
            compare(fast, naive, [query])
        arm = int(fast.leaders(query, np.array([0.1])).argmax())
        x = query.contexts[0, 0 if shared else arm]
        reward = np.array([np.cos(2.0 * x[0] + arm) + 0.05 * rng.standard_normal()])
        for one in (fast, naive):
            one.observe(np.array([arm]), x[None, :], reward)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("engine", EXACT_ENGINES)
def test_bulk_is_one_by_one(engine: str, similarity: str, weighting: str) -> None:
    rows = random_rows(seed=5, n_arms=3, t=20)
    product = kb.Term(SIMILARITIES[similarity](3), kb.Matern())
    bulk = regression(engine, rows, product, weighting=weighting)
    single = regression(engine, rows[:0], product, weighting=weighting)
    for i in range(len(rows)):
        row = rows[i : i + 1]
        single.observe(row.arms, row.contexts, row.rewards)
    compare(single, bulk, queries(np.random.default_rng(0), 3))
    compare_state(single, bulk, np.random.default_rng(0))
    for a, b in zip(single.similarity_matrices, bulk.similarity_matrices, strict=True):
        np.testing.assert_array_equal(a, b)  # to the last bit: a saved policy must resume exactly


@pytest.mark.parametrize("engine", ["naive", *EXACT_ENGINES])
def test_a_copy_shares_nothing(engine: str) -> None:
    rows = random_rows(seed=9, n_arms=3, t=12)
    product = kb.Term(SIMILARITIES["estimated"](3), kb.RBF())
    original = regression(engine, rows[:10], product)
    query = queries(np.random.default_rng(0), 3)[0]
    before = original.predict(query)
    other = original.copy()
    other.observe(rows.arms[10:], rows.contexts[10:], rows.rewards[10:])
    np.testing.assert_array_equal(original.predict(query).mean, before.mean)
    assert len(original.history) == 10
    assert len(other.history) == 12
    assert np.abs(other.predict(query).mean - before.mean).max() > 1e-6
