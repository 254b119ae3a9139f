"""Batch multi-task regression: scikit-learn's own checks, and the formulas of Blanchard et al. (2011)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import kinbandits as kb
from kinbandits.errors import InvalidInputError
from kinbandits.multitask import MultiTaskKernelRidge


@parametrize_with_checks([MultiTaskKernelRidge(), MultiTaskKernelRidge(kb.RBF(2.0), kb.Pooled(), 0.1, "uniform")])
def test_estimator_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def rbf(A: np.ndarray, B: np.ndarray, scale: float) -> np.ndarray:
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2) / (2.0 * scale**2))


def world(seed: int, n_tasks: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tasks whose rows lie around their own centre, and whose answers turn with it."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-2.0, 2.0, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), rows)
    X = centres[tasks, None] * [1.0, 0.0] + rng.standard_normal((len(tasks), 2))
    return X, np.sin(centres[tasks]) * X[:, 1] + 0.05 * rng.standard_normal(len(tasks)), tasks


@pytest.mark.parametrize("weighting", ["per_arm", "uniform"])
def test_it_is_the_formula_for_old_and_new_tasks(weighting: str) -> None:
    """Every mean embedding, every distance and the whole system, with loops."""
    X, y, tasks = world(0, 4, 9)
    X, y, tasks = X[:-4], y[:-4], tasks[:-4]  # the last task has fewer rows
    X_new = world(1, 1, 7)[0]
    asked, names = np.vstack([X_new, X[:3]]), ["new"] * 7 + ["t0"] * 3
    samples = [X[tasks == a] for a in range(4)] + [X_new]
    D2 = np.empty((5, 5))
    for a, A in enumerate(samples):
        for b, B in enumerate(samples):
            D2[a, b] = rbf(A, A, 0.7).mean() - 2.0 * rbf(A, B, 0.7).mean() + rbf(B, B, 0.7).mean()
    K_Z = np.exp(-D2 / (2.0 * 0.3**2))
    counts = np.bincount(tasks)[tasks] if weighting == "per_arm" else np.ones(len(X))
    M = K_Z[np.ix_(tasks, tasks)] * rbf(X, X, 1.2) + np.diag(0.05 * counts)
    place = np.array([4] * 7 + [0] * 3)
    wanted = (K_Z[np.ix_(place, tasks)] * rbf(asked, X, 1.2)) @ np.linalg.solve(M, y)
    model = MultiTaskKernelRidge(kb.RBF(1.2), kb.Estimated(0.3, kb.RBF(0.7)), 0.05, weighting)  # type: ignore[arg-type]
    model.fit(X, y, tasks=[f"t{a}" for a in tasks])
    np.testing.assert_allclose(model.similarity_, K_Z[:4, :4], rtol=1e-10)
    np.testing.assert_allclose(model.predict(asked, tasks=names), wanted, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.predict(X_new), wanted[:7], rtol=1e-8, atol=1e-10)  # without names: one new task


def test_one_task_is_kernel_ridge() -> None:
    X, y, _ = world(2, 3, 10)
    ours = MultiTaskKernelRidge(kb.RBF(0.8), ridge=0.2, weighting="uniform").fit(X, y)
    theirs = KernelRidge(alpha=0.2, kernel=sk.RBF(0.8)).fit(X, y)
    np.testing.assert_allclose(ours.predict(X[:5] + 0.1), theirs.predict(X[:5] + 0.1), rtol=1e-9)
    X, y, tasks = world(3, 3, 10)
    alone = MultiTaskKernelRidge(kb.RBF(0.8), kb.Independent(), 0.2, "uniform").fit(X, y, tasks)
    for a in range(3):
        theirs = KernelRidge(alpha=0.2, kernel=sk.RBF(0.8)).fit(X[tasks == a], y[tasks == a])
        np.testing.assert_allclose(alone.predict(X, [a] * len(X)), theirs.predict(X), rtol=1e-8, atol=1e-10)


def test_transfer_to_new_distributions_beats_pooling() -> None:
    """Their claim: the distribution of x tells the task, also where no answer of it was seen."""
    X, y, tasks = world(4, 30, 25)
    errors = {}
    for name, similarity in {"embedding": kb.Estimated(0.3, kb.RBF(1.5)), "pooled": kb.Pooled()}.items():
        model = MultiTaskKernelRidge(kb.RBF(2.0), similarity, 1e-3).fit(X, y, tasks)
        squares = []
        for seed in range(100, 110):
            X_new, y_new, _ = world(seed, 1, 25)
            squares.append(((model.predict(X_new, ["?"] * 25) - y_new) ** 2).mean())
        errors[name] = np.mean(squares)
    assert errors["embedding"] < 0.7 * errors["pooled"]


def test_it_is_a_citizen_of_scikit_learn() -> None:
    X, y, _ = world(5, 2, 20)
    model = MultiTaskKernelRidge(similarity=kb.Estimated(0.3, kb.RBF(0.7)))
    model.set_params(ridge=0.5)
    assert model.ridge == 0.5
    assert clone(model).get_params() == model.get_params()
    search = GridSearchCV(
        MultiTaskKernelRidge(kb.RBF()), {"context_kernel": [kb.RBF(0.1), kb.RBF(1.0), kb.RBF(3.0)]}, cv=3
    )
    search.fit(X, y)
    assert search.best_estimator_.context_kernel.length_scale in (1.0, 3.0)
    assert kb.MultiTaskKernelRidge is MultiTaskKernelRidge


def test_bad_input() -> None:
    X, y, tasks = world(6, 3, 5)
    model = MultiTaskKernelRidge(kb.RBF())
    for attempt, text in [
        (lambda: model.fit(X, y, tasks[:-1]), "one name per row"),
        (lambda: model.fit(X, y, tasks + 0.5), "must be names"),
        (lambda: clone(model).set_params(ridge=0.0).fit(X, y), "ridge must be greater than 0"),
        (lambda: clone(model).set_params(weighting="odd").fit(X, y), "weighting must be"),
        (lambda: clone(model).fit(X, y).predict(X, tasks), "fitted without tasks"),
        (
            lambda: clone(model).set_params(similarity=kb.Known(np.eye(2))).fit(X, y, tasks),
            "2 rows, but there are 3",
        ),
        (
            lambda: clone(model).set_params(similarity=kb.Known(np.eye(3))).fit(X, y, tasks).predict(X[:1], ["new"]),
            "does not know tasks",
        ),
    ]:
        with pytest.raises(InvalidInputError, match=text):
            attempt()


def test_the_library_does_not_pull_scikit_learn_in() -> None:
    code = "import sys, kinbandits; dir(kinbandits)"
    found = subprocess.run(
        [sys.executable, "-c", code + "; print('sklearn' in sys.modules)"], capture_output=True, text=True
    )
    assert found.stdout.strip() == "False", found.stderr
