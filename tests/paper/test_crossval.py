"""Cross-validation: the shared reduction against the dense oracle, setting by setting."""

import itertools

import numpy as np
import pytest

from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import RBF
from kinbandits.logs import Log
from kinbandits.paper.crossval import Grid, cross_validate, deal_rows, shifted_solutions
from kinbandits.paper.crossval import _folds as folds_of
from kinbandits.regression import Product, Query, Settings, make
from kinbandits.similarity import Estimated, Independent, Known, Pooled
from kinbandits.terms import Term

N = 3
SMALL = Grid(context=[0.05, 1.0], embedding=[0.1, 3.0], similarity=[0.5, 20.0], ridge=[1e-3, 0.1, 5.0])


def example_rows(n=37):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 2))
    return deal_rows(X, rng.integers(N, size=n), N, seed=1)


def points(grid, method):
    """Every setting of a method."""
    axes = grid.axes(method)
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def similarity_of(method, point, descriptors):
    if method in ("independent", "pooled"):
        return Independent() if method == "independent" else Pooled()
    arm = RBF.from_precision(point["similarity_precision"])
    if method == "known":
        return Known(arm, descriptors)
    return Estimated(arm.length_scale, RBF.from_precision(point["embedding_precision"]))


def oracle_errors(method, rows, grid, descriptors=None):
    """Every setting fitted and judged by itself, with the naive engine."""
    fold = folds_of(rows.played, 5, 0)
    errors = []
    for point in points(grid, method):
        similarity = similarity_of(method, point, descriptors)
        term = Term(similarity, RBF.from_precision(point["context_precision"]))
        squared = np.zeros(N)
        for held in range(5):
            train, test = fold != held, np.flatnonzero(fold == held)
            history = History.of(N, rows.played[train], rows.contexts[train], rows.rewards[train])
            product = Product(similarity.in_force(N), term.context_kernel)
            engine = make("naive", Settings(N, (product,), point["ridge"], "per_arm", "explore"), history)
            for i in test:
                query = Query(rows.played[i : i + 1], rows.contexts[None, i : i + 1])
                squared[rows.played[i]] += (engine.predict(query).mean[0, 0] - rows.rewards[i]) ** 2
        errors.append((squared / np.bincount(rows.played)).mean())
    return np.array(errors)


@pytest.mark.parametrize("method", ["independent", "pooled", "known", "estimated"])
def test_every_point_of_the_grid_equals_the_dense_oracle(method):
    rows = example_rows()
    descriptors = [0.0, 0.4, 1.0] if method == "known" else None
    found = cross_validate(method, rows, grid=SMALL, descriptors=descriptors)
    expected = oracle_errors(method, rows, SMALL, descriptors)
    np.testing.assert_allclose(found.errors.ravel(), expected, rtol=1e-9)
    assert found.best == points(SMALL, method)[int(np.argmin(expected))]


def test_an_arm_without_training_rows_has_mean_zero():
    arms = np.array([0] * 10 + [1] * 10 + [2])  # arm 2's only row is held out once
    rows = Log.of(arms.tolist(), example_rows(21).contexts, np.ones(21), arms=range(N))
    grid = Grid(context=[1.0], ridge=[0.1])
    found = cross_validate("pooled", rows, grid=grid)
    np.testing.assert_allclose(found.errors.ravel(), oracle_errors("pooled", rows, grid), rtol=1e-9)
    assert found.errors.item() > 1 / 3  # arm 2 alone has error 1


def test_shifted_solutions_solve():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(60, 60))
    S, b, shifts = A @ A.T, rng.normal(size=60), [1e-3, 0.3, 100.0]
    for column, shift in zip(shifted_solutions(S, b, shifts).T, shifts, strict=True):
        np.testing.assert_allclose((S + shift * np.eye(60)) @ column, b, atol=1e-9)


def test_processes_do_not_change_the_numbers():
    rows = example_rows()
    alone = cross_validate("estimated", rows, grid=SMALL)
    shared = cross_validate("estimated", rows, grid=SMALL, jobs=2)
    assert alone.errors.tobytes() == shared.errors.tobytes()


def test_what_is_done_is_kept_and_used(tmp_path, monkeypatch):
    from kinbandits.paper import crossval

    rows, shares, calls, real = example_rows(), [], [], crossval._squared_errors
    monkeypatch.setattr(crossval, "_squared_errors", lambda *a: calls.append(a[3]) or real(*a))
    options = {"grid": SMALL, "files": tmp_path / "digits-estimated", "jobs": 1}
    whole = cross_validate("estimated", rows, **options, done=shares.append)
    assert shares == [0.5, 1.0]
    next(tmp_path.glob("*-1.npz")).unlink()  # as after a kill
    again = cross_validate("estimated", rows, **options)
    assert calls == [0.05, 1.0, 1.0]
    np.testing.assert_array_equal(again.errors, whole.errors)
    cross_validate("estimated", example_rows(30), **options)  # other rows: nothing of it is used
    assert len(calls) == 5


def test_deal_is_even_random_and_seeded():
    labels = np.arange(50) % 5
    rows = deal_rows(np.zeros((50, 1)), labels, 5, seed=2)
    assert np.bincount(rows.played).tolist() == [10] * 5
    assert (rows.rewards == (rows.played == labels)).all()
    assert (deal_rows(np.zeros((50, 1)), labels, 5, seed=2).played == rows.played).all()
    assert (deal_rows(np.zeros((50, 1)), labels, 5, seed=3).played != rows.played).any()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"method": "lasso"}, 'method must be "independent"'),
        ({"method": "known"}, "needs descriptors"),
        ({"folds": 1}, "folds must be between 2"),
    ],
)
def test_errors_say_what_is_wrong(change, text):
    arguments = {"method": "pooled", "log": example_rows(), "grid": SMALL} | change
    with pytest.raises(InvalidInputError, match=text):
        cross_validate(**arguments)


def test_an_empty_axis_is_refused():
    with pytest.raises(InvalidInputError, match="grid ridge is empty"):
        Grid(ridge=[])
