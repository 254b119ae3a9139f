"""Choosing bandwidths and ridge by cross-validation of the batch regression, as in the paper (section 5).

Labelled examples that the game never sees are dealt to the arms at random, with target 1 if the label is the arm; a
setting is judged by its squared error on held-out rows (five folds), averaged over the rows of an arm, then arms.

Notation (one fold with n rows to learn from and m held out)
    K_X      (n, n)  context kernel            w       (n,)  row weights: n_a ("per_arm") or 1 ("uniform")
    K_Z      (N, N)  similarity                s       (n,)  w^-1/2
    S        (n, n)  s_i s_j K_Z[a_i, a_j] K_X[i, j]
    Q, T             S = Q T Q' with Q orthogonal and T tridiagonal

The regression solves M alpha = y with M = K + ridge diag(w), so alpha = s * (S + ridge I)^-1 (s * y), and

    (S + ridge I)^-1 b = Q (T + ridge I)^-1 Q' b.

T + ridge I is tridiagonal for every ridge, so one reduction (4/3 n^3) serves all ridges, each of which then costs
O(n) and a share of one product with Q: 10^3 reductions a fold in place of 10^4 factorisations for the paper's grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack, solveh_banded
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from kinbandits import presets
from kinbandits._value import from_json as from_spec
from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import positive
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import RBF
from kinbandits.similarity import Similarity, embedding_distances

Method = Literal["independent", "pooled", "known", "estimated"]

PAPER_GRID: tuple[float, ...] = tuple(presets.grid().tolist())


@dataclass(frozen=True)
class Grid:
    """The values tried, for each setting. Precisions are 1 / (2 length_scale^2).

    >>> {name: len(values) for name, values in Grid().axes("independent").items()}
    {'context_precision': 10, 'ridge': 10}
    """

    context: Sequence[float] = PAPER_GRID
    embedding: Sequence[float] = PAPER_GRID
    similarity: Sequence[float] = PAPER_GRID
    ridge: Sequence[float] = PAPER_GRID

    def __post_init__(self) -> None:
        for name in ("context", "embedding", "similarity", "ridge"):
            values = tuple(positive(f"grid {name}", v) for v in getattr(self, name))
            if not values:
                raise InvalidInputError(f"grid {name} is empty; give at least one value")
            object.__setattr__(self, name, values)

    def axes(self, method: Method) -> dict[str, Sequence[float]]:
        """The axes that matter to a method, in order."""
        if method not in get_args(Method):
            known = '"independent", "pooled", "known" or "estimated"'
            raise InvalidInputError(f"method must be {known}, got {method!r}")
        axes: dict[str, Sequence[float]] = {"context_precision": self.context}
        if method == "estimated":
            axes["embedding_precision"] = self.embedding
        if method in ("estimated", "known"):
            axes["similarity_precision"] = self.similarity
        return axes | {"ridge": self.ridge}


class Plays(NamedTuple):
    """Rows for a batch regression: who was played, where, and what came of it."""

    arms: Indices
    contexts: Matrix
    rewards: Vector


@dataclass(frozen=True)
class CrossValidation:
    """What cross-validation found: ``errors`` has one axis for each of ``axes``, the values tried."""

    method: Method
    axes: dict[str, tuple[float, ...]]
    errors: Matrix
    best: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        at = np.unravel_index(int(np.argmin(self.errors)), self.errors.shape)
        best = {name: values[i] for (name, values), i in zip(self.axes.items(), at, strict=True)}
        object.__setattr__(self, "best", best)

    @property
    def error(self) -> float:
        return float(self.errors.min())

    def settings(self, descriptors: ArrayLike | None = None) -> dict[str, Any]:
        """The best setting as arguments of `KMTLUCB` (``descriptors`` as given to `cross_validate`)."""
        return {
            "context_kernel": RBF.from_precision(self.best["context_precision"]),
            "similarity": similarity_of(self.method, self.best, descriptors),
            "ridge": self.best["ridge"],
        }

    def to_json(self) -> dict[str, Any]:
        found = {"method": self.method, "best": self.best, "error": self.error}
        return found | {"axes": self.axes, "errors": self.errors.tolist()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CrossValidation:
        axes = {name: tuple(values) for name, values in data["axes"].items()}
        return cls(data["method"], axes, np.array(data["errors"]))


def similarity_table(method: Method, point: dict[str, float]) -> dict[str, Any]:
    """The similarity that a point of the grid stands for, as an experiment writes it.

    >>> similarity_table("independent", {})
    {'type': 'Independent'}
    """
    if method in ("independent", "pooled"):
        return {"type": method.capitalize()}
    precision = point["similarity_precision"]
    if method == "known":
        return {"type": "Known", "kernel": {"type": "RBF", "precision": precision}, "descriptors": "environment"}
    embedding = {"type": "RBF", "precision": point["embedding_precision"]}
    return {"type": "Estimated", "precision": precision, "embedding_kernel": embedding}


def similarity_of(method: Method, point: dict[str, float], descriptors: ArrayLike | None = None) -> Similarity:
    """The similarity itself."""
    similarity: Similarity = from_spec(similarity_table(method, point), descriptors=descriptors, where=method)
    return similarity


def deal_rows(contexts: ArrayLike, labels: ArrayLike, n_arms: int, seed: int = 0) -> Plays:
    """Labelled examples as plays: rows go to arms at random, as evenly as they can; reward 1 if the label is it.

    >>> rows = deal_rows(np.zeros((6, 1)), [0, 1, 2, 0, 1, 2], n_arms=3)
    >>> np.bincount(rows.arms).tolist()
    [2, 2, 2]
    """
    X, y = np.asarray(contexts, dtype=np.float64), np.asarray(labels)
    if X.ndim != 2 or len(X) != len(y):
        raise InvalidInputError(f"contexts must be 2-D with a label each, got {X.shape} and {y.shape}")
    arms = np.empty(len(y), dtype=np.intp)
    arms[np.random.default_rng(seed).permutation(len(y))] = np.arange(len(y)) % n_arms
    return Plays(arms, X, (y == arms).astype(np.float64))


def cross_validate(
    method: Method,
    rows: Plays,
    n_arms: int,
    *,
    grid: Grid | None = None,
    descriptors: ArrayLike | None = None,
    weighting: Literal["per_arm", "uniform"] = "per_arm",
    folds: int = 5,
    seed: int = 0,
    n_jobs: int = 1,
) -> CrossValidation:
    """The error of every setting on the grid, by ``folds``-fold cross-validation.

    Args:
        method: ``"independent"``, ``"pooled"``, ``"estimated"``, or ``"known"``: an RBF over ``descriptors``.
        rows: what to learn from; for labelled examples, `deal_rows`.
        grid: the values tried (default: the paper's).
        weighting: of the rows, as in `KMTLUCB`.
        folds, seed: how many, and of what; rows of each arm are spread over all of them.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> rows = deal_rows(X, (X[:, 0] > 0).astype(int), n_arms=2)
    >>> found = cross_validate("independent", rows, 2, grid=Grid(context=[0.1, 1.0], ridge=[0.01, 0.1]))
    >>> sorted(found.best)
    ['context_precision', 'ridge']
    """
    from joblib import Parallel, delayed

    grid = grid or Grid()
    axes = {name: tuple(values) for name, values in grid.axes(method).items()}
    if method == "known" and descriptors is None:
        raise InvalidInputError('method="known" needs descriptors=, one per arm')
    if not 2 <= folds <= len(rows.arms):
        raise InvalidInputError(f"folds must be between 2 and the number of rows ({len(rows.arms)}), got {folds}")
    fold = _folds(rows.arms, folds, seed)
    similarities = [
        list(_similarities(method, rows, np.flatnonzero(fold != held), n_arms, grid, descriptors))
        for held in range(folds)
    ]
    tasks = (delayed(_squared_errors)(rows, fold, similarities, n, grid.ridge, weighting) for n in grid.context)
    squared = np.stack(Parallel(n_jobs=n_jobs)(tasks))  # (context, N, similarities * ridges)
    counts = np.bincount(rows.arms, minlength=n_arms)
    played = counts > 0
    errors = (squared[:, played] / counts[played, None]).mean(axis=1)
    return CrossValidation(method, axes, errors.reshape([len(v) for v in axes.values()]))


def _folds(arms: Indices, folds: int, seed: int) -> Indices:
    """The fold of each row: a random order, then arm by arm in turn."""
    order = np.random.default_rng(seed).permutation(len(arms))
    order = order[np.argsort(arms[order], kind="stable")]
    fold = np.empty(len(arms), dtype=np.intp)
    fold[order] = np.arange(len(arms)) % folds
    return fold


def _squared_errors(
    rows: Plays,
    fold: Indices,
    similarities: list[list[Matrix]],
    precision: float,
    ridges: Sequence[float],
    weighting: str,
) -> Matrix:
    """For one precision of k_X: squared errors of held-out rows summed by arm, (N, similarities * ridges)."""
    with threadpool_limits(1):
        K_X = RBF.from_precision(precision)(rows.contexts, rows.contexts)
        found = []
        for held, of_fold in enumerate(similarities):
            problem = _Fold(K_X, rows, np.flatnonzero(fold != held), np.flatnonzero(fold == held), weighting)
            found.append(np.concatenate([problem.squared_errors(K_Z, ridges) for K_Z in of_fold], axis=1))
    return np.asarray(np.sum(found, axis=0))


def _similarities(
    method: Method, rows: Plays, train: Indices, n_arms: int, grid: Grid, descriptors: ArrayLike | None
) -> Iterator[Matrix]:
    """The similarity matrices of the grid after the rows of one fold, in the grid's order."""
    if method != "estimated":
        for precision in grid.similarity if method == "known" else (1.0,):
            point = {"similarity_precision": precision}
            yield similarity_of(method, point, descriptors).matrix(History(n_arms))
        return
    arms, X = rows.arms[train], rows.contexts[train]
    squared = cdist(X, X, "sqeuclidean")
    onehot = (arms[:, None] == np.arange(n_arms)).astype(np.float64)
    for embedding in grid.embedding:
        G = onehot.T @ np.exp(-embedding * squared) @ onehot
        distances = embedding_distances(G, np.bincount(arms, minlength=n_arms))
        for precision in grid.similarity:
            yield np.exp(-precision * distances)


class _Fold:
    """One fold and one context kernel: what all similarities and ridges share."""

    def __init__(self, K_X: Matrix, rows: Plays, train: Indices, test: Indices, weighting: str) -> None:
        self.arms, self.held_arms = rows.arms[train], rows.arms[test]
        counts = np.bincount(self.arms, minlength=int(rows.arms.max()) + 1)
        self.s = 1.0 / np.sqrt(counts[self.arms]) if weighting == "per_arm" else np.ones(len(train))
        self.S = self.s[:, None] * K_X[np.ix_(train, train)] * self.s
        self.k = K_X[np.ix_(test, train)]
        self.b = self.s * rows.rewards[train]
        self.targets = rows.rewards[test]
        self.cold = counts[self.held_arms] == 0

    def squared_errors(self, K_Z: Matrix, ridges: Sequence[float]) -> Matrix:
        """Squared errors on the held-out rows summed by arm, for each ridge, (N, ridges)."""
        S = K_Z[self.arms][:, self.arms]
        S *= self.S
        alpha = self.s[:, None] * shifted_solutions(S, self.b, ridges)
        means = (K_Z[self.held_arms][:, self.arms] * self.k) @ alpha
        means[self.cold] = 0.0  # an arm never played has mean 0
        by_arm = np.zeros((len(K_Z), len(ridges)))
        np.add.at(by_arm, self.held_arms, (means - self.targets[:, None]) ** 2)
        return by_arm


def shifted_solutions(S: Matrix, b: Vector, shifts: Sequence[float]) -> Matrix:
    """(S + shift I)^-1 b for every shift, one column each, from one tridiagonal reduction of S.

    >>> shifted_solutions(np.diag([1.0, 3.0]), np.array([2.0, 4.0]), [1.0, 5.0])
    array([[1.        , 0.33333333],
           [1.        , 0.5       ]])
    """
    n = len(b)
    if n < 3:
        return np.stack([np.linalg.solve(S + shift * np.eye(n), b) for shift in shifts], axis=1)
    work = int(lapack.dsytrd_lwork(n, lower=1)[0])
    reflectors, d, e, tau, info = lapack.dsytrd(np.array(S, order="F"), lower=1, lwork=work, overwrite_a=1)
    if info:
        raise InvalidInputError(f"the kernel matrix could not be reduced (LAPACK dsytrd: {info})")
    # Q' b: the first row of Q is that of the identity; the rest is in the form of a QR factorisation.
    V = np.asfortranarray(reflectors[1:, :-1])
    c = np.array(b, dtype=np.float64)
    c[1:] = lapack.dormqr("L", "T", V, tau, np.asfortranarray(c[1:, None]), 64)[0][:, 0]
    banded = np.zeros((2, n))
    banded[0, 1:] = e
    U = np.empty((n, len(shifts)), order="F")
    for j, shift in enumerate(shifts):
        banded[1] = d + shift
        U[:, j] = solveh_banded(banded, c, check_finite=False)
    U[1:] = lapack.dormqr("L", "N", V, tau, np.asfortranarray(U[1:]), 64 * len(shifts))[0]
    return U
