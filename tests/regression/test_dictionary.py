"""A dictionary of points: exact while every row is one, near the exact answers after, at constant cost."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_engines import Failing
from worlds import SIMILARITIES, agree, queries, random_rows, row, same_leaders, settings

from kinbandits.errors import BudgetWarning
from kinbandits.history import History
from kinbandits.kernels import RBF, Linear, as_kernel
from kinbandits.regression import Product, Query, Settings, make, restore
from kinbandits.regression.dictionary import choose_points, engine_of, merge, sums
from kinbandits.regression.dictionary.rows import Sample

FIXED = [name for name in SIMILARITIES if not name.startswith("estimated")]


def budget(points: int, after: int | None = None) -> Any:
    return SimpleNamespace(points=points, after=after)


def smooth(n: int, n_arms: int = 3, seed: int = 0) -> History:
    """Rows that a small dictionary can see: two features, smooth rewards."""
    rng = np.random.default_rng(seed)
    X, arms = rng.uniform(-1.0, 1.0, (n, 2)), rng.integers(n_arms, size=n)
    f = np.stack([np.sin(2.0 * X[:, 0]), X[:, 1], *(-X[:, 0] for _ in range(n_arms - 2))], axis=1)
    return History.of(n_arms, arms, X, 0.5 * f[np.arange(n), arms] + 0.5 + 0.05 * rng.normal(size=n))


def learned(points: int, rows: History, s: Settings, one_by_one: bool = True) -> Any:
    if not one_by_one:
        return make(budget(points), s, rows.copy())
    engine = make(budget(points), s)
    for i in range(len(rows)):
        engine.observe(*row(rows, i))
    return engine


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("similarity", FIXED)
def test_exact_while_every_row_is_a_point(similarity: str, terms: int, one_by_one: bool) -> None:
    """Contexts differ and the kernel is narrow, so that no row is another's shadow."""
    rows = random_rows(3, 4, 60, repeats=0.0)
    s = settings(4, similarity, RBF(0.15), terms=terms, ridge=0.3, level=0.2, unit=0.5)
    found, exact = learned(80, rows, s, one_by_one), make("exact", s, rows.copy())
    residual = found.report()["largest_residual"]
    assert residual <= 0.05 * 0.3 + 1e-9
    for query in queries(np.random.default_rng(0), 4):
        a, b = found.predict(query), exact.predict(query)
        np.testing.assert_allclose(a.mean, b.mean, atol=0.02)
        np.testing.assert_allclose(a.width, b.width, atol=0.05)
    if residual < 1e-12:
        agree(found.log_det(), exact.log_det(), "log det")
    tight = settings(4, similarity, RBF(0.15), terms=terms, ridge=1e-5)  # every row differs by more than this ridge
    found, exact = learned(80, rows, tight, one_by_one), make("exact", tight, rows.copy())
    if found.report()["points"] == 60:
        for query in queries(np.random.default_rng(0), 4):
            np.testing.assert_allclose(found.predict(query).mean, exact.predict(query).mean, rtol=1e-6, atol=1e-7)
            same_leaders(found, exact, query)


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("similarity", FIXED)
def test_near_the_exact_answers_with_few_points(similarity: str, one_by_one: bool) -> None:
    rows, s = smooth(1000), settings(3, similarity, RBF(0.8), ridge=0.05, level=0.4, unit=0.3)
    found, exact = learned(80, rows, s, one_by_one), make("exact", s, rows.copy())
    assert found.report()["points"] <= 80
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (50, 1, 2))
    a, b = found.predict(Query(np.arange(3), X)), exact.predict(Query(np.arange(3), X))
    assert np.abs(a.mean - b.mean).max() < 0.03
    assert np.abs(a.width - b.width).max() < 0.15
    assert (a.width >= 0.95 * b.width).all()  # what it cannot see makes widths larger
    points = X[:5, 0], np.array([0, 1, 2, 0, 1])
    covariance = found.covariance(points[1], points[0])
    np.testing.assert_allclose(covariance, exact.covariance(points[1], points[0]), atol=2e-3)
    arms, C, w = found.dual()
    k = found.k_z[0][np.ix_(arms, np.arange(3))] * RBF(0.8)(C, X[0])
    np.testing.assert_allclose(0.4 + 0.3 * (w @ k), a.mean[0], rtol=1e-9, atol=1e-10)


@pytest.mark.filterwarnings("ignore::kinbandits.errors.BudgetWarning")
def test_points_are_exchanged_and_it_helps() -> None:
    """The first rows come from one corner: a dictionary that could not change would be blind elsewhere."""
    rows = smooth(1600)
    order = np.argsort(rows.contexts[:, 0] > -0.6, kind="stable")
    rows, s = rows.taken(order), settings(3, "mixed", RBF(0.3), ridge=0.05)
    rows.forgotten = 0
    engine = learned(60, rows, s)
    report = engine.report()
    assert report["swaps"] > 10
    assert report["blindness"] < 0.2
    frozen = make(budget(60), s, rows.head(150))
    seen = Query(np.arange(3), rows.contexts[-100:, None])
    assert frozen.predict(seen).width.mean() > 1.5 * engine.predict(seen).width.mean()


def test_rows_cost_no_memory() -> None:
    rows, s = smooth(3000), settings(3, "known", RBF(0.5))
    engine = learned(40, rows.head(500), s)

    def size() -> int:
        held = [*vars(engine.at_work).values(), *vars(engine.at_work.inverses).values()]
        return sum(a.nbytes for a in [*held, *vars(engine.at_work.recent).values()] if isinstance(a, np.ndarray))

    before = size()
    for i in range(500, 3000):
        engine.observe(*row(rows, i))
    assert 40**2 * 8 < size() == before
    assert engine.n_rows == engine.counts.sum() == 3000


@pytest.mark.parametrize("size", [1, 700, 9000])
def test_a_sample_is_spread_over_all_rows(size: int) -> None:
    sample = Sample(History(1), [], 0)
    X = np.arange(size, dtype=float)[:, None]
    for low in range(0, size, 333):
        part = X[low : low + 333]
        sample.append(np.zeros(len(part), dtype=np.intp), part, part[:, 0])
    kept = sample.rows.contexts[:, 0]
    assert min(size, 1500) <= len(kept) <= Sample.limit
    assert len(kept) + sample.rows.forgotten == size
    assert np.abs(np.quantile(kept, [0.25, 0.5, 0.75]) / size - [0.25, 0.5, 0.75]).max() < 0.03 or size == 1


@pytest.mark.parametrize("ready", [0, 30, 700])
def test_saved_and_restored_goes_on_to_the_bit(ready: int) -> None:
    rows, s = smooth(1000), settings(3, "known", RBF(0.4), level=0.5, unit=0.2)
    engine = learned(50, rows.head(ready), s)
    data, arrays = engine.state()
    again = restore(budget(50), s, data, arrays)
    for i in range(ready, 1000):
        engine.observe(*row(rows, i))
        again.observe(*row(rows, i))
    query = Query(np.arange(3), rows.contexts[:20, None])
    np.testing.assert_array_equal(engine.predict(query).mean, again.predict(query).mean)
    np.testing.assert_array_equal(engine.predict(query).width, again.predict(query).width)
    assert engine.report() == again.report()


CHANGES: dict[str, Any] = {
    "ridge and units": ({"ridge": 0.2, "level": 0.1, "unit": 2.0}, None),
    "an arm more": ({"n_arms": 4}, None),
    "kernel": ({"kernel": RBF(1.0)}, 800),
    "similarity": ({"similarity": "known"}, 800),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("similarity", ["independent", "mixed"])
def test_changed_settings(similarity: str, change: str) -> None:
    changes, sample = CHANGES[change]
    rows = smooth(800)
    engine = learned(120, rows, settings(3, similarity, RBF(0.8), ridge=0.05, level=0.4, unit=0.3))
    query = Query(np.arange(3), rows.contexts[:40, None])
    before = engine.predict(query)
    arguments = {"n_arms": 3, "similarity": similarity, "kernel": RBF(0.8), "ridge": 0.05, **changes}
    s = settings(**arguments)
    other = engine.changed(s)
    exact = make("exact", s, rows.copy(s.n_arms))
    assert other.report()["rebuilt_from"] == sample
    found, wanted = other.predict(query), exact.predict(query)
    assert np.median(np.abs(found.mean - wanted.mean)) < 0.01
    assert np.median(np.abs(found.width / wanted.width - 1.0)) < 0.1
    assert other.n_rows == 800
    assert other.counts.sum() == 800
    other.observe(*row(rows, 0))
    np.testing.assert_array_equal(engine.predict(query).mean, before.mean)


def test_an_arm_leaves_and_the_report_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sample, "limit", 400)
    rows, s = smooth(1000), settings(3, "mixed", RBF(0.8))
    engine = learned(100, rows, s)
    other = engine.changed(settings(2, "mixed", RBF(0.8)), removed=0)
    assert other.counts.tolist() == engine.counts[1:].tolist()
    assert 100 < other.report()["rebuilt_from"] <= 400
    exact = make("exact", settings(2, "mixed", RBF(0.8)), rows.without_arm(0))
    query = Query(np.arange(2), rows.contexts[:40, None])
    assert np.median(np.abs(other.predict(query).mean - exact.predict(query).mean)) < 0.05


@pytest.mark.filterwarnings("ignore::kinbandits.errors.BudgetWarning")
def test_an_update_that_fails_changes_nothing() -> None:
    function, rows = Failing(), random_rows(1, 3, 150)
    engine = learned(30, rows.head(120), settings(3, "mixed", as_kernel(function)))
    query = queries(np.random.default_rng(0), 3)[0]
    failed = 0
    for part in (row(rows, 130), row(rows, 130, 140)):
        for calls in range(3):
            before = engine.predict(query)
            function.left = calls
            try:
                engine.observe(*part)
            except RuntimeError:
                failed += 1
                function.left = 10**9
                np.testing.assert_allclose(engine.predict(query).mean, before.mean, atol=0.05)
                assert engine.n_rows == 120
            function.left = 10**9
            engine = engine if engine.n_rows == 120 else learned(30, rows.head(120), engine.settings)
    assert failed >= 3


def test_sums_computed_apart_are_those_of_all_rows() -> None:
    rows, s = smooth(2000), settings(3, "known", RBF(0.6), level=0.3, unit=2.0)
    points = choose_points(s, rows.head(500), 60)
    again = choose_points(s, rows.head(500), 60)
    np.testing.assert_array_equal(points.contexts, again.contexts)
    batches = [rows.taken(np.arange(low, min(low + 300, 2000))) for low in range(0, 2000, 300)]
    total = functools.reduce(merge, (sums(s, points, batch) for batch in batches))
    assert total.n == 2000
    whole = engine_of(s, points, sums(s, points, rows), capacity=60, kept=rows)
    parts = engine_of(s, points, total, capacity=60, kept=rows.taken(np.arange(1500, 2000)))
    query = Query(np.arange(3), rows.contexts[:30, None])
    np.testing.assert_allclose(parts.predict(query).mean, whole.predict(query).mean, rtol=1e-8, atol=1e-9)
    assert parts.n_rows == 2000
    assert parts.counts.tolist() == rows.counts.tolist()
    exact = make("exact", s, rows.copy())
    assert np.median(np.abs(parts.predict(query).mean - exact.predict(query).mean)) < 0.02
    for i in range(100):
        parts.observe(*row(rows, i))
    assert parts.n_rows == 2100


def test_weights_that_change_are_refused_with_the_reason() -> None:
    s = settings(3, "mixed", weighting="per_arm")
    with pytest.raises(ValueError, match=r"per_arm.*engine=.exact"):
        make(budget(20), s)
    with pytest.raises(ValueError, match="per_arm"):
        make(budget(20), settings(3)).changed(s)


def test_a_blind_dictionary_warns() -> None:
    rows = random_rows(0, 3, 400, d=8, repeats=0.0)
    s = settings(3, "mixed", RBF(0.2))
    engine = make(budget(20), s)
    engine.observe(*row(rows, 0, 39))
    with pytest.warns(BudgetWarning, match="Try 40 points"):
        engine.observe(*row(rows, 39))
    assert engine.report()["advice"] == "try 40 points"


# -- exact, then a dictionary ---------------------------------------------------------------------


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("similarity", ["independent", "mixed", "estimated"])
def test_a_dictionary_takes_over_after_so_many_rows(similarity: str, one_by_one: bool) -> None:
    rows, s = smooth(300), settings(3, similarity, RBF(0.8))
    engine, exact = make(budget(100, 150), s), make("exact", s, rows.head(150))
    for i in range(150):
        engine.observe(*row(rows, i))
    query = Query(np.arange(3), rows.contexts[:40, None])
    agree(engine.predict(query).mean, exact.predict(query).mean, "mean")
    similarity_then = engine.k_z[0]
    for part in [(i, i + 1) for i in range(150, 300)] if one_by_one else [(150, 300)]:
        engine.observe(*row(rows, *part))
    assert engine.report()["method"] == "dictionary"
    exact.observe(*row(rows, 150, 300))
    assert np.median(np.abs(engine.predict(query).mean - exact.predict(query).mean)) < 0.05
    assert engine.n_rows == 300
    if similarity == "estimated":
        if one_by_one:  # it settled at the change
            assert np.abs(engine.k_z[0] - similarity_then).max() < 0.05
            settled = engine.k_z[0]
            other = engine.changed(settings(3, similarity, RBF(0.8), ridge=0.3))
            np.testing.assert_array_equal(other.k_z[0], settled)
        larger = engine.changed(settings(4, similarity, RBF(0.8)))
        assert larger.k_z[0].shape == (4, 4)
    data, arrays = engine.state()
    again = restore(budget(100, 150), s, data, arrays)
    np.testing.assert_array_equal(again.predict(query).mean, engine.predict(query).mean)
    fewer = engine.changed(s, rows=rows.head(50))
    assert fewer.report()["method"] != "dictionary"


def test_auto_stays_exact_where_the_cost_does_not_grow_or_weights_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinbandits.regression.switch.Auto.after", 50)
    monkeypatch.setattr("kinbandits.regression.Auto", lambda: budget(20, 50))
    rows = smooth(120)
    for s, method in (
        (settings(3, "mixed", RBF(0.8)), "dictionary"),
        (settings(3, "mixed", Linear()), "linear"),
        (settings(3, "mixed", RBF(0.8), weighting="per_arm"), "ladder"),
        (Settings(3, (Product(np.eye(3), Linear()),), 0.1), "linear"),
    ):
        engine = make("auto", s)
        engine.observe(*row(rows, 0, 40))
        assert engine.report()["method"] != "dictionary"
        engine.observe(*row(rows, 40, 120))
        assert engine.report()["method"] == method
        assert engine.n_rows == 120
