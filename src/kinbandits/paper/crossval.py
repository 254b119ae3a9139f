"""Choosing bandwidths and ridge by cross-validation of the batch regression, as in the paper (section 5).

Labelled examples that the game never sees are dealt to the arms at random, with target 1 if the label is the arm; a
setting is judged by its squared error on held-out rows (five folds), averaged over the rows of an arm, then arms.

Notation (one fold with n rows to learn from and m held out)
    K_X      (n, n)  context kernel            w       (n,)  n_a, the rows of the arm: weights are 1/n_a
    K_Z      (N, N)  similarity                s       (n,)  w^-1/2
    S        (n, n)  s_i s_j K_Z[a_i, a_j] K_X[i, j] = V diag(e) V'

The regression solves M alpha = y with M = K + ridge diag(w), so alpha = s * (S + ridge I)^-1 (s * y), and one
eigendecomposition of S serves all ridges: (S + ridge I)^-1 b = V ((V' b) / (e + ridge)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from kinbandits._files import replacing
from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import one_of, positive
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import RBF
from kinbandits.logs import Log
from kinbandits.paper.presets import GRID
from kinbandits.similarity import Independent, Known, Pooled, embedding_distances

Method = Literal["independent", "pooled", "known", "estimated"]


@dataclass(frozen=True)
class Grid:
    """The values tried, for each setting. Precisions are 1 / (2 length_scale^2).

    >>> {name: len(values) for name, values in Grid().axes("independent").items()}
    {'context_precision': 10, 'ridge': 10}
    """

    context: Sequence[float] = GRID
    embedding: Sequence[float] = GRID
    similarity: Sequence[float] = GRID
    ridge: Sequence[float] = GRID

    def __post_init__(self) -> None:
        for name, values in vars(self).items():
            if not len(values):
                raise InvalidInputError(f"grid {name} is empty; give at least one value")
            object.__setattr__(self, name, tuple(positive(f"grid {name}", v) for v in values))

    def axes(self, method: Method) -> dict[str, tuple[float, ...]]:
        """The axes that matter to a method, in order."""
        one_of("method", method, *get_args(Method))
        axes = {"context_precision": self.context}
        if method == "estimated":
            axes["embedding_precision"] = self.embedding
        if method in ("estimated", "known"):
            axes["similarity_precision"] = self.similarity
        return {name: tuple(values) for name, values in (axes | {"ridge": self.ridge}).items()}

    def cost(self, method: Method, rows: int) -> float:
        """How much work it is: decompositions times rows cubed."""
        *axes, _ = self.axes(method).values()
        return float(np.prod([len(values) for values in axes])) * float(rows) ** 3


@dataclass(frozen=True)
class CrossValidation:
    """What cross-validation chose; ``errors`` has one axis for each of ``axes``, the values tried."""

    axes: dict[str, tuple[float, ...]]
    errors: Matrix

    @property
    def best(self) -> dict[str, float]:
        """The setting of least error."""
        at = np.unravel_index(int(np.argmin(self.errors)), self.errors.shape)
        return {name: values[i] for (name, values), i in zip(self.axes.items(), at, strict=True)}


def deal_rows(contexts: ArrayLike, labels: ArrayLike, n_arms: int, seed: int = 0) -> Log:
    """Labelled examples as a log: rows go to arms at random, as evenly as they can; reward 1 if the label is it.

    >>> log = deal_rows(np.zeros((6, 1)), [0, 1, 2, 0, 1, 2], n_arms=3)
    >>> np.bincount(log.played).tolist()
    [2, 2, 2]
    """
    y = np.asarray(labels)
    arms = np.empty(len(y), dtype=np.intp)
    arms[np.random.default_rng(seed).permutation(len(y))] = np.arange(len(y)) % n_arms
    return Log.of(arms.tolist(), contexts, (y == arms).astype(np.float64), arms=range(n_arms))


def cross_validate(
    method: Method,
    log: Log,
    *,
    grid: Grid | None = None,
    descriptors: ArrayLike | None = None,
    folds: int = 5,
    seed: int = 0,
    jobs: int | None = None,
    files: Path | None = None,
    done: Callable[[float], None] = lambda share: None,
) -> CrossValidation:
    """The error of every setting on the grid, by ``folds``-fold cross-validation.

    Args:
        method: ``"independent"``, ``"pooled"``, ``"estimated"``, or ``"known"``: an RBF over ``descriptors``.
        log: what to learn from; for labelled examples, `deal_rows`.
        grid: the values tried (default: the paper's).
        folds, seed: how many, and of what; rows of each arm are spread over all of them.
        jobs: processes; left out, what ``joblib.parallel_config`` says, else one.
        files: finished parts are kept in FILES-0.npz, ..., and read from there when called again.
        done: is called with the share that is done.

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
    key = repr((method, axes, "per_arm", folds, seed, log.stamp))
    kept = [None if files is None else Path(f"{files}-{i}.npz") for i in range(len(grid.context))]
    work = [
        delayed(_kept)(p, key, log, fold, similarities, x, grid.ridge) for p, x in zip(kept, grid.context, strict=True)
    ]
    table = []  # (context, N, similarities * ridges)
    for squared in Parallel(n_jobs=jobs, return_as="generator")(work):
        table.append(squared)
        done(len(table) / len(grid.context))
    counts = np.bincount(log.played, minlength=len(log.arms))
    played = counts > 0
    errors = (np.stack(table)[:, played] / counts[played, None]).mean(axis=1)
    return CrossValidation(axes, errors.reshape([len(v) for v in axes.values()]))


def _kept(path: Path | None, key: str, *job: object) -> Matrix:
    """`_squared_errors` of a job, from its file if it was done before."""
    if path is not None and path.exists():
        with np.load(path, allow_pickle=False) as arrays:
            if str(arrays["key"]) == key:
                return np.asarray(arrays["squared"])
    squared = _squared_errors(*job)  # type: ignore[arg-type]
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part, part.open("wb") as stream:
            np.savez(stream, squared=squared, key=np.array(key))
    return squared


def _folds(arms: Indices, folds: int, seed: int) -> Indices:
    """The fold of each row: a random order, then arm by arm in turn."""
    order = np.random.default_rng(seed).permutation(len(arms))
    order = order[np.argsort(arms[order], kind="stable")]
    fold = np.empty(len(arms), dtype=np.intp)
    fold[order] = np.arange(len(arms)) % folds
    return fold


def _similarities(method: Method, train: Log, grid: Grid, descriptors: ArrayLike | None) -> Iterator[Matrix]:
    """The similarity matrices of the grid after the rows of one fold, in the grid's order."""
    n_arms, arms, X = len(train.arms), train.played, train.contexts
    if method == "known":
        for precision in grid.similarity:
            yield Known(RBF.from_precision(precision), descriptors).matrix(History(n_arms))
    elif method != "estimated":
        yield (Independent() if method == "independent" else Pooled()).matrix(History(n_arms))
    else:
        squared = cdist(X, X, "sqeuclidean")
        onehot = (arms[:, None] == np.arange(n_arms)).astype(np.float64)
        for embedding in grid.embedding:
            G = onehot.T @ np.exp(-embedding * squared) @ onehot
            distances = embedding_distances(G, np.bincount(arms, minlength=n_arms))
            yield from (np.exp(-precision * distances) for precision in grid.similarity)


def _squared_errors(
    log: Log,
    fold: Indices,
    similarities: list[list[Matrix]],
    precision: float,
    ridges: Sequence[float],
) -> Matrix:
    """For one precision of k_X: squared errors of held-out rows summed by arm, (N, similarities * ridges)."""
    n_arms, total = len(log.arms), []
    with threadpool_limits(1):
        K_X = RBF.from_precision(precision)(log.contexts, log.contexts)
        for held, of_fold in enumerate(similarities):
            train, test = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
            arms, held_arms = log.played[train], log.played[test]
            counts = np.bincount(arms, minlength=n_arms)
            s = 1.0 / np.sqrt(counts[arms])
            S, k = s[:, None] * K_X[np.ix_(train, train)] * s, K_X[np.ix_(test, train)]
            columns = []
            for K_Z in of_fold:
                alpha = s[:, None] * shifted_solutions(K_Z[arms][:, arms] * S, s * log.rewards[train], ridges)
                means = (K_Z[held_arms][:, arms] * k) @ alpha
                means[counts[held_arms] == 0] = 0.0  # an arm never played has mean 0
                by_arm = np.zeros((n_arms, len(ridges)))
                np.add.at(by_arm, held_arms, (means - log.rewards[test, None]) ** 2)
                columns.append(by_arm)
            total.append(np.concatenate(columns, axis=1))
    return np.asarray(np.sum(total, axis=0))


def shifted_solutions(S: Matrix, b: Vector, shifts: Sequence[float]) -> Matrix:
    """(S + shift I)^-1 b for every shift, one column each, from one eigendecomposition of S.

    >>> shifted_solutions(np.diag([1.0, 3.0]), np.array([2.0, 4.0]), [1.0, 5.0])
    array([[1.        , 0.33333333],
           [1.        , 0.5       ]])
    """
    e, V = np.linalg.eigh(S)
    return np.asarray(V @ ((V.T @ b)[:, None] / (np.maximum(e, 0.0)[:, None] + np.asarray(shifts))))
