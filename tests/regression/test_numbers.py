"""Sizes and numbers at the edge: many arms, many rows, tiny rewards, matrices that are nearly singular."""

from __future__ import annotations

import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from worlds import agree, queries, random_rows, row, same_answers, same_leaders, settings

from kinbandits.errors import NumericalWarning
from kinbandits.history import History
from kinbandits.kernels import RBF, Constant, Linear
from kinbandits.regression import Common, Product, Query, Settings, make
from kinbandits.regression import candidates as candidates_module
from kinbandits.regression.linalg import components, factor, lower_inverse
from kinbandits.similarity import Estimated

BUDGET: Any = SimpleNamespace(points=64, after=None)


@pytest.mark.filterwarnings("ignore::kinbandits.errors.BudgetWarning")
@pytest.mark.parametrize("kernel", [RBF(), Linear()], ids=["rbf", "linear"])
@pytest.mark.parametrize("shared", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("cold_start", ["explore", "borrow"])
@pytest.mark.parametrize("engine", ["exact", BUDGET], ids=["exact", "budget"])
def test_ten_thousand_arms(engine: Any, cold_start: str, shared: float, kernel: Any) -> None:
    """No matrix of arms is made; arms without rows cost nothing each."""
    n = 10_000
    s = Settings(n, (Product(Common(n, shared), kernel),), 0.1, cold_start=cold_start)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    tracemalloc.start()
    began = time.process_time()
    regression = make(engine, s)
    made = time.process_time() - began
    arms, X, y = rng.integers(n, size=300), rng.normal(size=(300, 5)), rng.normal(size=300)
    for i in range(300):
        if i == 290:
            began = time.process_time()
        query = Query(np.arange(n), X[i][None, None])
        leaders = regression.leaders(query, np.array([0.1]), 1e-12)
        regression.observe(arms[i : i + 1], X[i : i + 1], y[i : i + 1])
    a_round = (time.process_time() - began) / 10.0
    mean, width = regression.predict(query)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made < 1.0
    assert a_round < 0.1
    assert peak < 300e6
    never = np.setdiff1d(np.arange(n), arms)
    assert np.unique(mean[0, never]).size == np.unique(width[0, never]).size == 1
    assert leaders.shape == (1, n)
    if engine == "exact":
        small = np.append(np.unique(arms), never[0])  # the same with the arms that were played, and one more
        place = np.full(n, -1)
        place[small] = np.arange(len(small))
        t = Settings(len(small), (Product(Common(len(small), shared), kernel),), 0.1, cold_start=cold_start)  # type: ignore[arg-type]
        naive = make("naive", t, History.of(len(small), place[arms], X, y))
        wanted = naive.predict(Query(np.arange(len(small)), query.contexts))
        agree(mean[0, small], wanted.mean[0], "mean")
        agree(width[0, small], wanted.width[0], "width", 1e4)


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-160, 1e20])
@pytest.mark.parametrize("engine", ["exact", BUDGET], ids=["exact", "budget"])
@pytest.mark.parametrize("similarity", ["independent", "mixed", "estimated"])
def test_rewards_of_any_size_are_learned(similarity: str, engine: Any, size: float) -> None:
    rows = random_rows(3, 3, 150)
    tiny = History.of(3, rows.arms, rows.contexts, size * rows.rewards)
    s = settings(3, similarity, weighting="uniform")
    one, other = make(engine, s), make(engine, s)
    for i in range(150):
        one.observe(*row(rows, i))
        other.observe(*row(tiny, i))
        if i % 10 == 9:
            query = queries(np.random.default_rng(i), 3)[0]
            found = other.predict(query)
            assert all(np.isfinite(part).all() for part in found)
            if engine == "exact":
                np.testing.assert_allclose(found.mean, size * one.predict(query).mean, rtol=1e-6, atol=1e-10 * size)
            assert other.leaders(query, np.zeros(2)).any(axis=1).all()
            if engine == "exact" and size:
                same_leaders(other, make("naive", s, tiny.head(i + 1)), query)
    assert other.n_rows == 150


@pytest.mark.parametrize("engine", ["exact", BUDGET], ids=["exact", "budget"])
def test_one_reward_that_differs_after_many_equal_ones(engine: Any) -> None:
    rng = np.random.default_rng(0)
    s = Settings(2, (Product(Common(2, 0.5), RBF(0.5)),), 0.1, level=1.0, unit=1e-12)
    regression = make(engine, s, History.of(2, rng.integers(2, size=3000), rng.normal(size=(3000, 1)), np.ones(3000)))
    x = np.full((1, 1), 8.0)
    for arm in (0, 1):
        regression.observe(np.array([arm]), x, np.array([1.0 + arm]))
    mean, width = regression.predict(Query(np.arange(2), x[None]))
    assert np.isfinite([mean, width]).all()
    assert mean[0, 1] > mean[0, 0] + 0.3


@pytest.mark.filterwarnings("ignore::kinbandits.errors.NumericalWarning")
@pytest.mark.filterwarnings("ignore::kinbandits.errors.BudgetWarning")
@pytest.mark.parametrize("ridge", [1e-14, 1e-10, 1e-6])
@pytest.mark.parametrize("engine", ["exact", SimpleNamespace(points=20, after=None), BUDGET], ids=["exact", "20", "64"])
@pytest.mark.parametrize("similarity", ["independent", "pooled", "estimated"])
def test_nearly_singular_matrices_accept_every_row(similarity: str, engine: Any, ridge: float) -> None:
    rng = np.random.default_rng(1)
    s = settings(3, similarity, RBF(50.0), ridge=ridge)
    regression, pool = make(engine, s), rng.normal(size=(30, 2))
    for i in range(250):
        x = pool[rng.integers(30)] + 1e-9 * (i % 3)
        regression.observe(rng.integers(3, size=1), x[None], np.array([np.sin(x.sum())]))
    mean, width = regression.predict(Query(np.arange(3), pool[:, None]))
    assert np.isfinite([mean, width]).all()
    assert regression.n_rows == 250
    if engine == "exact":  # a small backward error
        h, alpha = regression.rows, regression.dual()[2]
        M = regression.k_z[0][np.ix_(h.arms, h.arms)] * RBF(50.0)(h.contexts, h.contexts) + ridge * np.eye(250)  # type: ignore[union-attr]
        assert np.abs(h.rewards - M @ alpha).max() < 1e-12 * np.abs(M).sum(axis=1).max() * np.abs(alpha).max()  # type: ignore[union-attr]
    if engine != "exact" and ridge == 1e-6:  # 64 points see nearly all of it; which 20 there are is up to rounding
        exact = make("exact", s, regression.rows.copy())  # type: ignore[union-attr]
        apart = np.abs(mean - exact.predict(Query(np.arange(3), pool[:, None])).mean)
        assert np.median(apart) < (0.1 if engine is BUDGET else 0.3)


def test_jitter_is_told_of() -> None:
    s = Settings(1, (Product(Common(1), RBF(1e3)),), 1e-13)
    regression = make("exact", s)
    with pytest.warns(NumericalWarning, match="Raise ridge"):
        regression.observe(np.zeros(4, dtype=np.intp), np.zeros((4, 1)), np.ones(4))


@pytest.mark.parametrize("similarity", ["independent", "mixed", "graph"])
def test_a_thousand_rows_by_ones_and_by_many(similarity: str) -> None:
    """Across chunks of T, with snapshots taken on the way."""
    rows = random_rows(8, 4, 900, repeats=0.0)
    s = settings(4, similarity)
    one, many = make("exact", s), make("exact", s, rows.head(37))
    snapshots = []
    for i in range(900):
        one.observe(*row(rows, i))
        if i % 130 == 129:
            snapshots.append((i + 1, one.snapshot()))
    for low, high in ((37, 40), (40, 300), (300, 511), (511, 512), (512, 899), (899, 900)):
        many.observe(*row(rows, low, high))
    asked = queries(np.random.default_rng(0), 4)
    fresh = make("exact", s, rows.copy())
    for query in asked:
        same_answers(one, fresh, query)
        same_answers(many, fresh, query)
    for n, snapshot in snapshots:
        for query in asked:
            same_answers(snapshot, make("exact", s, rows.head(n)), query)
    naive = make("naive", s, rows.copy())
    same_answers(one, naive, asked[0])


@pytest.mark.filterwarnings("ignore::kinbandits.errors.BudgetWarning")
@pytest.mark.parametrize("engine", ["exact", BUDGET], ids=["exact", "budget"])
@pytest.mark.parametrize("kernel", [RBF(2.0), Linear(), (Linear() + Constant(1.0)) ** 2], ids=["rbf", "linear", "poly"])
@pytest.mark.parametrize(
    ("similarity", "t"), [("independent", 90), ("mixed", 12), ("estimated", 30), ("estimated", 240)]
)
def test_other_threads_read_a_snapshot_while_the_engine_learns(
    similarity: str, t: int, kernel: Any, engine: Any
) -> None:
    rows = random_rows(8, 4, t + 200, repeats=0.0)
    learner = make(engine, settings(4, similarity, kernel), rows.head(t - 1))
    learner.observe(*row(rows, t - 1))  # now there is room for more rows in what it shares
    snapshot, asked = learner.snapshot(), queries(np.random.default_rng(0), 4)
    before, done = [learner.predict(query) for query in asked], threading.Event()

    def read() -> None:
        while True:
            last = done.is_set()
            for query, wanted in zip(asked, before, strict=True):
                assert snapshot.leaders(query, np.full(query.shape[0], 0.1)).any(axis=1).all()
                agree(snapshot.predict(query).mean, wanted.mean, "mean", scale=100.0)
                agree(snapshot.predict(query).width, wanted.width, "width", scale=1e4)
            if last:
                return

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for i in range(t, t + 60):
            learner.observe(*row(rows, i))
        learner.observe(*row(rows, t + 60, t + 200))
        done.set()
        for reader in readers:
            reader.result()
    assert snapshot.n_rows == snapshot.counts.sum() == t
    assert np.abs(learner.predict(asked[0]).mean - before[0].mean).max() > 1e-6
    with pytest.raises(TypeError, match="snapshot"):
        snapshot.observe(*row(rows, 0))


@pytest.mark.parametrize("similarity", ["independent", "mixed"])
@pytest.mark.parametrize("most", [candidates_module.MOST, 2000])
def test_candidates_that_come_again(similarity: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernel values of sets that came before are kept; the answers are the same, and sets push each other out."""
    monkeypatch.setattr(candidates_module, "MOST", most)
    rng, n = np.random.default_rng(0), candidates_module.LEAST
    s = settings(3, similarity)
    exact, naive = make("exact", s), make("naive", s)
    offers = [rng.uniform(-1.0, 1.0, (n, 3)) for _ in range(3)]
    for t in range(45):
        task = t * t % 3
        X = offers[task] if t % 5 else rng.uniform(-1.0, 1.0, (n, 3))
        query = Query(np.full(n, task), X[None])
        same_leaders(exact, naive, query)
        i = int(exact.leaders(query, np.array([0.2])).argmax())
        for engine in (exact, naive):
            engine.observe(np.array([task]), X[i : i + 1], np.array([np.sin(3.0 * X[i].sum())]))
    sets = exact.at_work._seen.sets  # type: ignore[attr-defined]
    assert (len(sets) == 1) == (most == 2000)


def test_linear_algebra() -> None:
    rng = np.random.default_rng(0)
    B = rng.normal(size=(300, 310))
    M = B @ B.T
    L, jitter = factor(M)
    assert jitter == 0.0
    np.testing.assert_allclose(lower_inverse(L) @ L, np.eye(300), atol=1e-9)
    assert components(np.diag([1.0, 2.0])).tolist() == [0, 1]
    with pytest.raises(ValueError, match="NaN"):
        factor(np.full((2, 2), np.nan))


def test_estimates_follow_only_their_columns() -> None:
    """A term on some columns has the similarity that those columns say."""
    rows = random_rows(1, 3, 60)
    narrow = History.of(3, rows.arms, rows.contexts[:, [2, 0]], rows.rewards)
    s = Settings(3, (Product(Estimated(0.4, RBF(0.7)), RBF(), (2, 0)),), 0.1)
    found = make("exact", s, rows.head(20))
    for i in range(20, 60):
        found.observe(*row(rows, i))
    np.testing.assert_allclose(found.k_z[0], Estimated(0.4, RBF(0.7)).matrix(narrow), rtol=1e-12)
