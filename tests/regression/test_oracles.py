"""Oracles next door: other people's programs, and textbook formulas in feature space."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.linear_model import Ridge as SklearnRidge

import kinbandits as kb
from kinbandits.regression import Query
from strategies import EXACT_ENGINES, Rows, negative_similarity, random_rows, regression

ENGINE_NAMES = ["naive", *EXACT_ENGINES]
engines = pytest.mark.parametrize("engine", ENGINE_NAMES)
weightings = pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
RIDGE = 0.2


class ArmTimesRBF(sk.Kernel):
    """scikit-learn kernel on rows (arm, context): k_Z(a, b) times an RBF."""

    def __init__(self, K_arm: np.ndarray, length_scale: float) -> None:
        self.K_arm, self.length_scale = K_arm, length_scale

    def __call__(self, X, Y=None, eval_gradient=False):  # type: ignore[no-untyped-def]
        Y = X if Y is None else Y
        a, b = X[:, 0].astype(int), Y[:, 0].astype(int)
        return self.K_arm[np.ix_(a, b)] * sk.RBF(self.length_scale)(X[:, 1:], Y[:, 1:])

    def diag(self, X):  # type: ignore[no-untyped-def]
        return np.diag(self.K_arm)[X[:, 0].astype(int)].copy()

    def is_stationary(self) -> bool:
        return False


@engines
@weightings
@pytest.mark.parametrize("similarity", ["independent", "pooled", "known", "estimated"])
def test_gaussian_process_regressor(engine: str, weighting: str, similarity: str) -> None:
    """alpha = ridge * counts (or ridge): the same mean, sqrt(ridge) * width its deviation, the same covariance."""
    N = 4
    rows = random_rows(seed=4, n_arms=N, t=40)
    value = {
        "independent": kb.Independent(),
        "pooled": kb.Pooled(),
        "known": kb.Known(negative_similarity(N)),
        "estimated": kb.Estimated(0.4, kb.RBF(0.6)),
    }[similarity]
    ours = regression(engine, rows, kb.Term(value, kb.RBF(0.7)), RIDGE, weighting, "borrow")
    counts = np.bincount(rows.arms, minlength=N)
    alpha = RIDGE * (counts[rows.arms] if weighting == "per_arm" else np.ones(len(rows)))
    K_arm = value.matrix(rows.history())
    theirs = GaussianProcessRegressor(ArmTimesRBF(K_arm, 0.7), alpha=alpha, optimizer=None)
    theirs.fit(np.column_stack([rows.arms, rows.contexts]), rows.rewards)

    rng = np.random.default_rng(0)
    arms, X = rng.integers(N, size=15), rng.uniform(-1.0, 1.0, (15, 3))
    mean, deviation = theirs.predict(np.column_stack([arms, X]), return_std=True)
    found = ours.predict(Query(arms, X[None]))
    np.testing.assert_allclose(found.mean[0], mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(np.sqrt(RIDGE) * found.width[0], deviation, rtol=1e-7)
    _, covariance = theirs.predict(np.column_stack([arms, X]), return_cov=True)
    np.testing.assert_allclose(ours.covariance(arms, X), covariance, atol=1e-10)


@engines
def test_linear_pooled_is_ridge_regression(engine: str) -> None:
    rows = random_rows(seed=2, n_arms=2, t=25)
    ours = regression(engine, rows, kb.Term(kb.Pooled(), kb.Linear()), RIDGE)
    theirs = SklearnRidge(alpha=RIDGE, fit_intercept=False).fit(rows.contexts, rows.rewards)
    X = np.random.default_rng(1).standard_normal((6, 3))
    np.testing.assert_allclose(
        ours.predict(Query(np.array([0]), X[:, None])).mean[:, 0], theirs.predict(X), rtol=1e-9
    )


@engines
def test_textbook_disjoint_linucb(engine: str) -> None:
    """Li et al. (2010), Algorithm 1, with lambda: A_a = lambda I + X_a'X_a, theta_a = A_a^-1 X_a'r_a."""
    rows = random_rows(seed=6, n_arms=3, t=30)
    ours = regression(engine, rows, kb.Term(kb.Independent(), kb.Linear()), RIDGE)
    X = np.random.default_rng(1).standard_normal((5, 3))
    mean, width = ours.predict(Query(np.arange(3), X[:, None]))
    for a in range(3):
        mine = rows[np.flatnonzero(rows.arms == a)]
        A_inverse = np.linalg.inv(RIDGE * np.eye(3) + mine.contexts.T @ mine.contexts)
        theta = A_inverse @ mine.contexts.T @ mine.rewards
        np.testing.assert_allclose(mean[:, a], X @ theta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(width[:, a], np.sqrt(np.einsum("ij,jk,ik->i", X, A_inverse, X)), rtol=1e-9)


def test_textbook_disjoint_linucb_plays_the_same_game() -> None:
    """The whole algorithm, 150 rounds, against `LinUCB` as a user makes it."""
    N, d, alpha = 4, 3, 0.8
    policy = kb.baselines.LinUCB(N, exploration=alpha, tie_break="first")
    A, b = np.stack([np.eye(d)] * N), np.zeros((N, d))
    rng = np.random.default_rng(5)
    truth = rng.standard_normal((N, d))
    for _ in range(150):
        x = rng.standard_normal(d)
        inverse = np.linalg.inv(A)
        scores = np.array([x @ inverse[a] @ b[a] + alpha * np.sqrt(x @ inverse[a] @ x) for a in range(N)])
        decision = policy.choose(x)
        np.testing.assert_allclose(decision.scores, scores, rtol=1e-8, atol=1e-10)
        assert decision.arm == int(scores.argmax())
        reward = float(truth[decision.index] @ x + 0.1 * rng.standard_normal())
        policy.update(decision, reward)
        A[decision.index] += np.outer(x, x)
        b[decision.index] += reward * x


@engines
def test_hybrid_is_its_explicit_feature_map(engine: str) -> None:
    """Shared columns once for all arms, arm columns once for each arm: one ridge regression."""
    N, shared, own = 3, [0, 1], [1, 2]
    rows = random_rows(seed=8, n_arms=N, t=30)
    kernel = kb.baselines.LinUCB(N, sharing="hybrid", shared_columns=shared, arm_columns=own).terms
    ours = regression(engine, rows, kernel, RIDGE, cold_start="borrow")

    def phi(arms: np.ndarray, X: np.ndarray) -> np.ndarray:
        features = np.zeros((len(X), 2 + 2 * N))
        features[:, :2] = X[:, shared]
        for i, a in enumerate(arms):
            features[i, 2 + 2 * a : 4 + 2 * a] = X[i, own]
        return features

    check_feature_space(ours, rows, phi(rows.arms, rows.contexts), np.ones(len(rows)), phi)


@engines
@weightings
@pytest.mark.parametrize("similarity", ["known", "graph", "pooled"])
def test_feature_space_solution_of_the_appendix(engine: str, weighting: str, similarity: str) -> None:
    """theta = D^-1 Phi' eta y with D = Phi' eta Phi + lambda I; s^2 = phi' D^-1 phi; for a polynomial kernel."""
    N = 3
    rows = random_rows(seed=9, n_arms=N, t=30)
    value = {
        "known": kb.Known(negative_similarity(N)),
        "graph": kb.Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
        "pooled": kb.Pooled(),
    }[similarity]
    polynomial = (kb.Linear() + kb.kernels.Constant(1.0)) ** 2
    ours = regression(engine, rows, kb.Term(value, polynomial), RIDGE, weighting, "borrow")
    values, vectors = np.linalg.eigh(value.matrix(rows.history()))
    Z = vectors * np.sqrt(np.maximum(values, 0.0))  # k_Z(a, b) = Z[a] . Z[b]

    def phi(arms: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Arm features times (1, x) times (1, x), written out."""
        ones = np.column_stack([np.ones(len(X)), X])
        return np.einsum("ia,ip,iq->iapq", Z[arms], ones, ones).reshape(len(X), -1)

    counts = np.bincount(rows.arms, minlength=N)
    eta = 1.0 / counts[rows.arms] if weighting == "per_arm" else np.ones(len(rows))
    check_feature_space(ours, rows, phi(rows.arms, rows.contexts), eta, phi)


def check_feature_space(ours, rows: Rows, Phi, eta, phi) -> None:  # type: ignore[no-untyped-def]
    D = Phi.T @ (eta[:, None] * Phi) + RIDGE * np.eye(Phi.shape[1])
    theta = np.linalg.solve(D, Phi.T @ (eta * rows.rewards))
    rng = np.random.default_rng(2)
    arms, X = rng.integers(rows.n_arms, size=12), rng.uniform(-1.0, 1.0, (12, 3))
    features = phi(arms, X)
    mean, width = ours.predict(Query(arms, X[None]))
    np.testing.assert_allclose(mean[0], features @ theta, rtol=1e-8, atol=1e-10)
    s = np.sqrt(np.einsum("ij,ij->i", features, np.linalg.solve(D, features.T).T))
    np.testing.assert_allclose(width[0], s, rtol=1e-8)
