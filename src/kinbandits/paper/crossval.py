"""Choosing bandwidths and ridge by cross-validation of the batch regression, as in the paper (section 5).

Labelled examples that the game never sees are dealt to the arms at random, with target 1 if the label is the arm; a
setting is judged by its squared error on held-out rows (five folds), averaged over the rows of an arm, then arms.

Notation (one fold with n rows to learn from and m held out)
    K_X      (n, n)  context kernel            w       (n,)  row weights: n_a ("per_arm") or 1 ("uniform")
    K_Z      (N, N)  similarity                s       (n,)  w^-1/2
    S        (n, n)  s_i s_j K_Z[a_i, a_j] K_X[i, j] = V diag(e) V'

The regression solves M alpha = y with M = K + ridge diag(w), so alpha = s * (S + ridge I)^-1 (s * y), and one
eigendecomposition of S serves all ridges: (S + ridge I)^-1 b = V ((V' b) / (e + ridge)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from kinbandits._files import replacing
from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import positive
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import RBF
from kinbandits.logs import Log
from kinbandits.paper.presets import grid as paper_grid
from kinbandits.similarity import Independent, Known, Pooled, Similarity, embedding_distances

Method = Literal["independent", "pooled", "known", "estimated"]
PAPER_GRID: tuple[float, ...] = tuple(paper_grid().tolist())


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

    def axes(self, method: Method) -> dict[str, tuple[float, ...]]:
        """The axes that matter to a method, in order."""
        if method not in get_args(Method):
            known = '"independent", "pooled", "known" or "estimated"'
            raise InvalidInputError(f"method must be {known}, got {method!r}")
        axes: dict[str, Sequence[float]] = {"context_precision": self.context}
        if method == "estimated":
            axes["embedding_precision"] = self.embedding
        if method in ("estimated", "known"):
            axes["similarity_precision"] = self.similarity
        return {name: tuple(values) for name, values in (axes | {"ridge": self.ridge}).items()}


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


def deal_rows(contexts: ArrayLike, labels: ArrayLike, n_arms: int, seed: int = 0) -> Log:
    """Labelled examples as a log: rows go to arms at random, as evenly as they can; reward 1 if the label is it.

    >>> log = deal_rows(np.zeros((6, 1)), [0, 1, 2, 0, 1, 2], n_arms=3)
    >>> np.bincount(log.played).tolist()
    [2, 2, 2]
    """
    X, y = np.asarray(contexts, dtype=np.float64), np.asarray(labels)
    if X.ndim != 2 or len(X) != len(y):
        raise InvalidInputError(f"contexts must be 2-D with a label each, got {X.shape} and {y.shape}")
    arms = np.empty(len(y), dtype=np.intp)
    arms[np.random.default_rng(seed).permutation(len(y))] = np.arange(len(y)) % n_arms
    return Log.of(arms.tolist(), X, (y == arms).astype(np.float64), arms=range(n_arms))


def cost(method: Method, log: Log, grid: Grid | None = None) -> float:
    """How much work it is: decompositions times rows cubed."""
    *axes, _ = (grid or Grid()).axes(method).values()
    return float(np.prod([len(values) for values in axes])) * float(len(log)) ** 3


def cross_validate(
    method: Method,
    log: Log,
    *,
    grid: Grid | None = None,
    descriptors: ArrayLike | None = None,
    weighting: Literal["per_arm", "uniform"] = "per_arm",
    folds: int = 5,
    seed: int = 0,
    jobs: int | None = None,
    folder: str | PathLike[str] | None = None,
    told: Callable[[float], None] = lambda share: None,
) -> CrossValidation:
    """The error of every setting on the grid, by ``folds``-fold cross-validation.

    Args:
        method: ``"independent"``, ``"pooled"``, ``"estimated"``, or ``"known"``: an RBF over ``descriptors``.
        log: what to learn from; for labelled examples, `deal_rows`.
        grid: the values tried (default: the paper's).
        weighting: of the rows, as in `KMTLUCB`.
        folds, seed: how many, and of what; rows of each arm are spread over all of them.
        jobs: processes; left out, what ``joblib.parallel_config`` says, else one.
        folder: where what is done is kept, and read from when called again.
        told: is called with the share that is done.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> log = deal_rows(X, (X[:, 0] > 0).astype(int), n_arms=2)
    >>> found = cross_validate("independent", log, grid=Grid(context=[0.1, 1.0], ridge=[0.01, 0.1]))
    >>> sorted(found.best)
    ['context_precision', 'ridge']
    """
    from joblib import Parallel, delayed

    grid = grid or Grid()
    axes = grid.axes(method)
    if method == "known" and descriptors is None:
        raise InvalidInputError('method="known" needs descriptors=, one per arm')
    if not 2 <= folds <= len(log):
        raise InvalidInputError(f"folds must be between 2 and the number of rows ({len(log)}), got {folds}")
    fold = _folds(log.played, folds, seed)
    similarities = [list(_similarities(method, log[fold != held], grid, descriptors)) for held in range(folds)]
    place = None if folder is None else Path(folder)
    key = repr((method, axes, weighting, folds, seed, log.stamp))
    squared = _kept(place, key, len(grid.context))
    left = [i for i in range(len(grid.context)) if i not in squared]
    tasks = (delayed(_squared_errors)(log, fold, similarities, grid.context[i], grid.ridge, weighting) for i in left)
    for i, found in zip(left, Parallel(n_jobs=jobs, return_as="generator")(tasks), strict=True):
        squared[i] = found
        _keep(place, key, i, found)
        told(len(squared) / len(grid.context))
    told(1.0)
    counts = np.bincount(log.played, minlength=len(log.arms))
    played = counts > 0
    table = np.stack([squared[i] for i in range(len(grid.context))])  # (context, N, similarities * ridges)
    errors = (table[:, played] / counts[played, None]).mean(axis=1)
    return CrossValidation(method, axes, errors.reshape([len(v) for v in axes.values()]))


def _kept(place: Path | None, key: str, n: int) -> dict[int, Matrix]:
    """What was done before, of the same job."""
    found: dict[int, Matrix] = {}
    for i in range(n if place is not None else 0):
        path = Path(f"{place}-{i}.npz")
        if path.exists():
            with np.load(path, allow_pickle=False) as arrays:
                if str(arrays["key"]) == key:
                    found[i] = arrays["squared"]
    return found


def _keep(place: Path | None, key: str, i: int, squared: Matrix) -> None:
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(f"{place}-{i}.npz") as part, part.open("wb") as stream:
            np.savez(stream, squared=squared, key=np.array(key))


def _folds(arms: Indices, folds: int, seed: int) -> Indices:
    """The fold of each row: a random order, then arm by arm in turn."""
    order = np.random.default_rng(seed).permutation(len(arms))
    order = order[np.argsort(arms[order], kind="stable")]
    fold = np.empty(len(arms), dtype=np.intp)
    fold[order] = np.arange(len(arms)) % folds
    return fold


def _squared_errors(
    log: Log,
    fold: Indices,
    similarities: list[list[Matrix]],
    precision: float,
    ridges: Sequence[float],
    weighting: str,
) -> Matrix:
    """For one precision of k_X: squared errors of held-out rows summed by arm, (N, similarities * ridges)."""
    with threadpool_limits(1):
        K_X = RBF.from_precision(precision)(log.contexts, log.contexts)
        found = []
        for held, of_fold in enumerate(similarities):
            problem = _Fold(K_X, log, np.flatnonzero(fold != held), np.flatnonzero(fold == held), weighting)
            found.append(np.concatenate([problem.squared_errors(K_Z, ridges) for K_Z in of_fold], axis=1))
    return np.asarray(np.sum(found, axis=0))


def _similarities(method: Method, train: Log, grid: Grid, descriptors: ArrayLike | None) -> Iterator[Matrix]:
    """The similarity matrices of the grid after the rows of one fold, in the grid's order."""
    n_arms = len(train.arms)
    if method != "estimated":
        fixed: list[Similarity] = [Independent() if method == "independent" else Pooled()]
        if method == "known":
            fixed = [Known(RBF.from_precision(precision), descriptors) for precision in grid.similarity]
        yield from (similarity.matrix(History(n_arms)) for similarity in fixed)
        return
    arms, X = train.played, train.contexts
    squared = cdist(X, X, "sqeuclidean")
    onehot = (arms[:, None] == np.arange(n_arms)).astype(np.float64)
    for embedding in grid.embedding:
        G = onehot.T @ np.exp(-embedding * squared) @ onehot
        distances = embedding_distances(G, np.bincount(arms, minlength=n_arms))
        for precision in grid.similarity:
            yield np.exp(-precision * distances)


class _Fold:
    """One fold and one context kernel: what all similarities and ridges share."""

    def __init__(self, K_X: Matrix, log: Log, train: Indices, test: Indices, weighting: str) -> None:
        self.arms, self.held_arms = log.played[train], log.played[test]
        counts = np.bincount(self.arms, minlength=len(log.arms))
        self.s = 1.0 / np.sqrt(counts[self.arms]) if weighting == "per_arm" else np.ones(len(train))
        self.S = self.s[:, None] * K_X[np.ix_(train, train)] * self.s
        self.k = K_X[np.ix_(test, train)]
        self.b = self.s * log.rewards[train]
        self.targets = log.rewards[test]
        self.cold = counts[self.held_arms] == 0

    def squared_errors(self, K_Z: Matrix, ridges: Sequence[float]) -> Matrix:
        """Squared errors on the held-out rows summed by arm, for each ridge, (N, ridges)."""
        alpha = self.s[:, None] * shifted_solutions(K_Z[self.arms][:, self.arms] * self.S, self.b, ridges)
        means = (K_Z[self.held_arms][:, self.arms] * self.k) @ alpha
        means[self.cold] = 0.0  # an arm never played has mean 0
        by_arm = np.zeros((len(K_Z), len(ridges)))
        np.add.at(by_arm, self.held_arms, (means - self.targets[:, None]) ** 2)
        return by_arm


def shifted_solutions(S: Matrix, b: Vector, shifts: Sequence[float]) -> Matrix:
    """(S + shift I)^-1 b for every shift, one column each, from one eigendecomposition of S.

    >>> shifted_solutions(np.diag([1.0, 3.0]), np.array([2.0, 4.0]), [1.0, 5.0])
    array([[1.        , 0.33333333],
           [1.        , 0.5       ]])
    """
    e, V = np.linalg.eigh(S)
    return np.asarray(V @ ((V.T @ b)[:, None] / (np.maximum(e, 0.0)[:, None] + np.asarray(shifts))))
