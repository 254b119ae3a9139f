"""The scripts in examples/ run, and do what they say."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb

EXAMPLES = Path(__file__).parent.parent / "examples"
NEEDS = {"coba_learner": "coba", "new_tasks": "numpy", "river_policy": "river"}


def load(name):
    pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested():
    assert {p.stem for p in EXAMPLES.glob("*.py")} == set(NEEDS)


@pytest.mark.filterwarnings("ignore")
def test_coba_plays_our_policy():
    result = load("coba_learner").main(rounds=150)
    rewards = {}
    for learner, reward in zip(*(result.interactions[c] for c in ("learner_id", "reward")), strict=True):
        rewards.setdefault(learner, []).append(reward)
    ours, random = (sum(v) / len(v) for _, v in sorted(rewards.items()))
    assert ours > random + 0.02


@pytest.mark.filterwarnings("ignore")
def test_river_plays_our_policy():
    assert load("river_policy").main(rounds=150) > 0.8


def test_what_a_new_task_borrows_is_the_formula_of_blanchard_lee_and_scott():
    example = load("new_tasks")
    (X, y, tasks), X_new = example.world(0, 4, 9), example.world(1, 1, 7)[0]
    X, y, tasks = X[:-4], y[:-4], tasks[:-4]  # the last task has fewer rows

    def rbf(A, B, scale):
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2) / (2.0 * scale**2))

    samples = [X[tasks == a] for a in range(4)] + [X_new]
    inner = np.array([[rbf(A, B, 0.7).mean() for B in samples] for A in samples])
    D2 = inner.diagonal()[:, None] - 2.0 * inner + inner.diagonal()
    K_Z = np.exp(-D2 / (2.0 * 0.3**2))
    M = K_Z[np.ix_(tasks, tasks)] * rbf(X, X, 1.2) + np.diag(0.05 * np.bincount(tasks)[tasks])
    wanted = (K_Z[4, tasks] * rbf(X_new, X, 1.2)) @ np.linalg.solve(M, y)
    found = example.predict_new_task(X, y, tasks, X_new, kb.Estimated(0.3, kb.RBF(0.7)), kb.RBF(1.2), 0.05)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)
    errors = example.main(4)
    assert errors["by distribution"] < 0.7 * errors["all tasks one"]
