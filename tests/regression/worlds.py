"""What the tests of the engines share: kernels, similarities, rows, queries, comparisons with the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinbandits.history import History
from kinbandits.kernels import RBF, Constant, Linear, Matern, RationalQuadratic, as_kernel
from kinbandits.regression import Common, Product, Query, Regression, Settings, make
from kinbandits.regression.contract import best
from kinbandits.similarity import Estimated

D = 3  # features of a context


def laplacian(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A plain callable kernel, exp(-sum |x - x'|)."""
    return np.asarray(np.exp(-np.abs(A[:, None, :] - B[None, :, :]).sum(axis=2)))


KERNELS: dict[str, Any] = {
    "rbf": RBF(0.8),
    "rbf-per-feature": RBF((0.5, 1.0, 4.0)),
    "matern12": Matern(nu=0.5),
    "matern32": Matern(nu=1.5, length_scale=0.7),
    "matern52": Matern(nu=2.5, length_scale=2.0),
    "rational": RationalQuadratic(length_scale=0.8, alpha=2.5),
    "linear": Linear(),
    "polynomial": (Linear() + Constant(1.0)) ** 2,
    "mixture": 0.5 * RBF() + 0.2 * Linear() * Matern(nu=1.5),
    "callable": as_kernel(laplacian),
}


def known(n: int) -> np.ndarray:
    """A unit-diagonal PSD matrix with entries of both signs, of full rank."""
    B = np.random.default_rng(n).standard_normal((n, n + 1))
    scale = np.sqrt(np.diag(B @ B.T))
    return np.asarray(B @ B.T / np.outer(scale, scale))


def graph(n: int) -> np.ndarray:
    """(I + L)^-1 of a chain that is cut in the middle: two families, and a diagonal that is not 1."""
    A = np.zeros((n, n))
    for a in range(n - 1):
        A[a, a + 1] = A[a + 1, a] = 0.0 if a == n // 2 else 1.0 + (a == 0)
    inverse = np.linalg.inv(np.eye(n) + np.diag(A.sum(axis=1)) - A)
    inverse[np.abs(inverse) < 1e-15] = 0.0
    return np.asarray((inverse + inverse.T) / 2.0)


SIMILARITIES: dict[str, Callable[[int], Any]] = {
    "independent": lambda n: Common(n),
    "pooled": lambda n: Common(n, 1.0),
    "mixed": lambda n: Common(n, 0.6),
    "mixed-negative": lambda n: Common(n, -0.9 / (n - 1) if n > 1 else 0.0),
    "known": known,
    "low-rank": lambda n: np.outer(np.ones(n), np.ones(n)) * 0.5 + 0.5 * np.outer(np.arange(n) % 2, np.arange(n) % 2),
    "graph": graph,
    "estimated": lambda n: Estimated(0.4, RBF(0.7)),
    "estimated-narrow": lambda n: Estimated(0.05, RBF(0.3)),
}


def settings(
    n_arms: int,
    similarity: str = "mixed",
    kernel: Any = None,
    *,
    terms: int = 1,
    ridge: float = 0.1,
    **others: Any,
) -> Settings:
    """A term; with ``terms=2`` a second one, of pooled arms on other columns."""
    first = Product(SIMILARITIES[similarity](n_arms), RBF(0.8) if kernel is None else kernel)
    both = (first, Product(Common(n_arms, 1.0), Linear(), (2, 0)))
    return Settings(n_arms, both[:terms], ridge, **others)


def random_rows(seed: int, n_arms: int, t: int, d: int = D, repeats: float = 0.2) -> History:
    """Rows whose contexts repeat now and then; the last arm is never played (if there are several)."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1.0, 1.0, (t, d))
    for i in range(1, t):
        if rng.random() < repeats:
            contexts[i] = contexts[rng.integers(i)]
    arms = rng.integers(max(n_arms - 1, 1), size=t)
    rewards = np.sin(3.0 * contexts[:, 0] + arms) + 0.1 * rng.standard_normal(t)
    return History.of(n_arms, arms, contexts, rewards)


def queries(rng: np.random.Generator, n_arms: int, d: int = D, rounds: int = 2) -> list[Query]:
    """All arms with one shared context a round; all with their own; one task's candidates; some arms, one twice."""
    everyone, some = np.arange(n_arms), np.array([n_arms - 1, 0, n_arms - 1])
    return [
        Query(everyone, rng.uniform(-1.0, 1.0, (rounds, 1, d))),
        Query(everyone, rng.uniform(-1.0, 1.0, (rounds, n_arms, d))),
        Query(np.zeros(5, dtype=np.intp), rng.uniform(-1.0, 1.0, (1, 5, d))),
        Query(some, rng.uniform(-1.0, 1.0, (rounds, 3, d))),
        Query(some, rng.uniform(-1.0, 1.0, (1, 1, d))),
    ]


def row(rows: History, i: int, end: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    part = slice(i, i + 1 if end is None else end)
    return rows.arms[part], rows.contexts[part], rows.rewards[part]


def agree(found: Any, wanted: Any, what: str, scale: float = 1.0) -> None:
    """Equal to 1e-9, relative; numbers that should be 0 to 1e-11 of the scale."""
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11 * scale, err_msg=what)


def same_leaders(engine: Regression, naive: Regression, query: Query) -> None:
    """The same candidates lead, but for leads that rounding could undo."""
    exploration, s = np.linspace(0.1, 0.7, query.shape[0]), naive.settings
    mean, width = naive.predict(query)
    scores = (mean - s.level) / s.unit + exploration[:, None] * width / s.unit
    possible = best(scores, 1e-9)
    found = engine.leaders(query, exploration)
    assert found.any(axis=1).all()
    assert not (found & ~possible).any(), "a candidate leads that is clearly behind"
    clear = possible.sum(axis=1) == 1
    np.testing.assert_array_equal(found[clear], possible[clear])


def same_answers(engine: Regression, naive: Regression, query: Query) -> None:
    found, wanted, s = engine.predict(query), naive.predict(query), naive.settings
    assert found.mean.shape == found.width.shape == query.shape
    agree(found.mean, wanted.mean, "mean", scale=10.0)
    # The width is a root of a difference, so it is the square that is known to so many digits.
    agree(s.ridge * found.width**2, s.ridge * wanted.width**2, "width^2", scale=1000.0 * s.unit**2)
    same_leaders(engine, naive, query)


def same_state(engine: Regression, naive: Regression, rng: np.random.Generator) -> None:
    """What does not depend on the kind of query."""
    for found, wanted in zip(engine.k_z, naive.k_z, strict=True):
        agree(found, wanted, "similarity")
    agree(engine.dual()[2], naive.dual()[2], "dual", scale=100.0)
    np.testing.assert_allclose(engine.log_det(), naive.log_det(), rtol=1e-9, atol=1e-10)
    arms, X = np.array([0, naive.settings.n_arms - 1, 0]), rng.uniform(-1.0, 1.0, (3, D))
    agree(engine.covariance(arms, X), naive.covariance(arms, X), "covariance", scale=1000.0)
    np.testing.assert_array_equal(engine.counts, naive.counts)
    assert engine.n_rows == naive.n_rows


def pair(s: Settings, rows: History) -> tuple[Regression, Regression]:
    return make("exact", s, rows.copy()), make("naive", s, rows.copy())
