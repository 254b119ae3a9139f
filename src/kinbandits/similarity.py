"""Arm similarity k_Z, as frozen values.

A similarity says how much arm a may learn from arm b: an (N, N) positive semidefinite matrix. Some are
known beforehand, some are estimated from the history. Whatever it is, the rest of the library sees two
things: ``matrix(history)``, the definition, computed from scratch, and ``tracker(history)``, which follows
a growing history at the cost of the new rows.

Notation
    N        number of arms
    K_arm    (N, N)  k_Z(a, b), the similarity matrix
    G        (N, N)  G[a, b] = sum of k'(x, x') over rows x of arm a and x' of arm b
    counts   (N,)    n_a
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import number_array
from kinbandits._value import Value, frozen_array, positive, real
from kinbandits.errors import InvalidInputError, InvalidTypeError, NotPositiveSemidefiniteError
from kinbandits.history import History
from kinbandits.kernels import RBF, Kernel, as_kernel

Matrix = NDArray[np.float64]

TOLERANCE = 1e-10  # how far a matrix may be from symmetric and positive semidefinite
_BLOCK = 1024  # rows of kernel values computed at a time

__all__ = [
    "Estimated",
    "Graph",
    "Independent",
    "Known",
    "Mixed",
    "Pooled",
    "Similarity",
    "Tracker",
]


class Tracker:
    """Follows ``similarity.matrix(history)`` while the history grows.

    This one computes the matrix anew when it is asked for; similarities that can do better have their own.
    """

    def __init__(self, similarity: Similarity, history: History) -> None:
        self._similarity = similarity
        self._history = history
        self._matrix: Matrix | None = None
        self._size = -1

    @property
    def matrix(self) -> Matrix:
        """The similarity matrix now in force, (N, N). Do not write into it."""
        if self._matrix is None or (not self._similarity.fixed and self._size != len(self._history)):
            self._matrix = self._similarity.matrix(self._history)
            self._size = len(self._history)
        return self._matrix

    def observe(self, start: int, squares: Matrix | None = None) -> None:
        """The history has grown: its rows from ``start`` on are new.

        Arrays are replaced, not edited, so that a shallow copy of a tracker is a way back.
        """


class Similarity(Value, ABC):
    """How arms resemble each other."""

    fixed: ClassVar[bool] = True
    """Whether the matrix is the same whatever the history."""

    @property
    def describes_arms(self) -> bool:
        """Whether arms have descriptors, so that an arm without data can borrow from its kin."""
        return False

    @property
    def arm_argument(self) -> str | None:
        """What `with_arm` takes for a new arm: "descriptor", "similarity", "neighbours", or nothing."""
        return None

    @abstractmethod
    def matrix(self, history: History) -> Matrix:
        """The (N, N) similarity matrix after this history, from its definition."""

    def tracker(self, history: History) -> Tracker:
        """An object that follows `matrix` as ``history`` grows."""
        return Tracker(self, history)

    def check_arms(self, n_arms: int) -> None:
        """Raise if this similarity does not fit ``n_arms`` arms."""

    def with_arm(
        self,
        n_arms: int,
        *,
        descriptor: ArrayLike | None = None,
        similarity: ArrayLike | None = None,
        neighbours: Sequence[int] | None = None,
    ) -> Similarity:
        """This similarity for one arm more, which becomes number ``n_arms`` (counted from 0)."""
        self._take(descriptor=descriptor, similarity=similarity, neighbours=neighbours)
        self.check_arms(n_arms + 1)
        return self

    def without_arm(self, arm: int) -> Similarity:
        """This similarity with arm number ``arm`` taken out."""
        return self

    def _take(self, **given: object) -> None:
        """Raise if something is given that this similarity has no use for."""
        for name, value in given.items():
            if value is not None and name != self.arm_argument:
                instead = f"; it takes {self.arm_argument}=" if self.arm_argument else "; leave it out"
                raise InvalidInputError(f"{type(self).__name__} similarity takes no {name}= for a new arm{instead}")


@dataclass(frozen=True, eq=False, repr=False)
class Independent(Similarity):
    """k_Z(a, b) = 1 if a = b, else 0: every arm learns alone.

    >>> Independent().matrix(History(n_arms=2))
    array([[1., 0.],
           [0., 1.]])
    """

    def matrix(self, history: History) -> Matrix:
        """The identity."""
        return np.eye(history.n_arms)


@dataclass(frozen=True, eq=False, repr=False)
class Pooled(Similarity):
    """k_Z(a, b) = 1: all arms are one.

    >>> Pooled().matrix(History(n_arms=2))
    array([[1., 1.],
           [1., 1.]])
    """

    def matrix(self, history: History) -> Matrix:
        """All ones."""
        return np.ones((history.n_arms, history.n_arms))


@dataclass(frozen=True, eq=False, repr=False)
class Mixed(Similarity):
    """k_Z = (1 - mu) I + mu 11': every two arms have similarity mu (Evgeniou and Pontil; the paper's K_Z(mu)).

    >>> Mixed(mu=0.25).matrix(History(n_arms=2))
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", real("mu", self.mu))
        if not -1.0 <= self.mu <= 1.0:
            raise InvalidInputError(f"mu must be between -1/(number of arms - 1) and 1, got {self.mu!r}")

    def check_arms(self, n_arms: int) -> None:
        """The smallest eigenvalue is 1 - mu or 1 + (N - 1) mu."""
        smallest = 1.0 + (n_arms - 1) * self.mu
        if smallest < -TOLERANCE:
            raise NotPositiveSemidefiniteError(
                f"Mixed(mu={self.mu}) over {n_arms} arms has eigenvalue {smallest:.6g} < 0; "
                f"mu must be at least {-1 / (n_arms - 1):.6g}"
            )

    def matrix(self, history: History) -> Matrix:
        """Ones on the diagonal, mu elsewhere."""
        matrix = np.full((history.n_arms, history.n_arms), self.mu)
        np.fill_diagonal(matrix, 1.0)
        return matrix


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Known(Similarity):
    """A similarity that is given: as a matrix, or as a kernel over one descriptor per arm.

    Args:
        matrix: (N, N), symmetric and positive semidefinite to 1e-10; negative entries are welcome.
            Or a kernel, with ``descriptors`` as the second argument.
        descriptors: (N, p), or N numbers. With them ``add_arm(name, descriptor)`` works, and a new arm
            borrows from its kin at once.

    Example:
        >>> Known(RBF(length_scale=1.0), [0.0, 1.0]).matrix(History(n_arms=2)).round(4)
        array([[1.    , 0.6065],
               [0.6065, 1.    ]])
    """

    given: Any = None
    descriptors: Any = None
    kernel: Any = None

    def __init__(
        self,
        matrix: object = None,
        descriptors: ArrayLike | None = None,
        *,
        kernel: object = None,
        given: object = None,
    ) -> None:
        matrix = given if matrix is None else matrix
        if kernel is None and (isinstance(matrix, Kernel) or callable(matrix)):
            matrix, kernel = None, matrix
        if (matrix is None) == (kernel is None) or (kernel is None) != (descriptors is None):
            raise InvalidInputError("Known takes a matrix, or a kernel with descriptors (one row per arm)")
        object.__setattr__(self, "given", None if matrix is None else _known_matrix(matrix))
        object.__setattr__(self, "descriptors", None if descriptors is None else _descriptors(descriptors))
        object.__setattr__(self, "kernel", None if kernel is None else as_kernel(kernel))
        if self.kernel is not None:
            self.kernel.check_features(self.descriptors.shape[1])
            check_psd("the similarity of the descriptors", self._matrix)

    def __repr__(self) -> str:
        return super().__repr__().replace("Known(given=", "Known(matrix=")

    @property
    def describes_arms(self) -> bool:
        """Whether it was given as a kernel over descriptors."""
        return self.descriptors is not None

    @property
    def arm_argument(self) -> str:
        """As it was given: descriptors, or a matrix."""
        return "similarity" if self.descriptors is None else "descriptor"

    @property
    def _matrix(self) -> Matrix:
        if self.kernel is None:
            return np.array(self.given)
        K = self.kernel(self.descriptors, self.descriptors)
        return np.asarray((K + K.T) / 2.0)

    def check_arms(self, n_arms: int) -> None:
        """One row per arm."""
        rows = len(self.given if self.descriptors is None else self.descriptors)
        if rows != n_arms:
            what = "matrix" if self.descriptors is None else "descriptors"
            raise InvalidInputError(f"Known: {what} has {rows} rows, but there are {n_arms} arms")

    def matrix(self, history: History) -> Matrix:
        """The matrix given, or the kernel's over the descriptors."""
        return self._matrix

    def with_arm(
        self,
        n_arms: int,
        *,
        descriptor: ArrayLike | None = None,
        similarity: ArrayLike | None = None,
        neighbours: Sequence[int] | None = None,
    ) -> Known:
        """One more descriptor, or one more row and column (``similarity``: to each arm, then to itself)."""
        self._take(descriptor=descriptor, similarity=similarity, neighbours=neighbours)
        if self.descriptors is not None:
            if descriptor is None:
                raise InvalidInputError("this policy knows arms by descriptor; add_arm needs descriptor=")
            row = np.atleast_1d(number_array("descriptor", descriptor))[None, :]
            if row.shape[1] != self.descriptors.shape[1]:
                raise InvalidInputError(
                    f"descriptor has {row.shape[1]} entries, but the other arms' have {self.descriptors.shape[1]}"
                )
            return Known(self.kernel, np.vstack([self.descriptors, row]))
        if similarity is None:
            raise InvalidInputError(
                f"this policy has a known similarity matrix; add_arm needs similarity= with {n_arms} entries "
                "(to each arm in order), or one more for the arm itself (1 if left out)"
            )
        row = np.atleast_1d(number_array("similarity", similarity))
        if row.shape not in ((n_arms,), (n_arms + 1,)):
            raise InvalidInputError(
                f"similarity must have {n_arms} entries (to each arm in order), or one more for the arm "
                f"itself, got shape {row.shape}"
            )
        row = row if len(row) == n_arms + 1 else np.append(row, 1.0)
        return Known(np.block([[self.given, row[:-1, None]], [row[None, :]]]))

    def without_arm(self, arm: int) -> Known:
        """One row and column, or one descriptor, fewer."""
        if self.descriptors is not None:
            return Known(self.kernel, np.delete(self.descriptors, arm, axis=0))
        return Known(np.delete(np.delete(self.given, arm, axis=0), arm, axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Similarity):
    """Arms (or tasks) on a graph: k_Z = (I + L)^-1 with L the Laplacian (Gang of Bandits).

    Args:
        adjacency: (N, N), symmetric, entries at least 0; the diagonal is ignored.
        normalise: use the normalised Laplacian I - D^-1/2 A D^-1/2.

    Example:
        >>> Graph([[0, 1], [1, 0]]).matrix(History(n_arms=2)).round(4)
        array([[0.6667, 0.3333],
               [0.3333, 0.6667]])
    """

    adjacency: Any
    normalise: bool = False

    def __post_init__(self) -> None:
        adjacency = _square("adjacency", self.adjacency).copy()
        if (adjacency < 0).any():
            raise InvalidInputError(f"adjacency must not be negative, got {adjacency.min():.6g}")
        np.fill_diagonal(adjacency, 0.0)
        object.__setattr__(self, "adjacency", frozen_array(adjacency))

    @property
    def arm_argument(self) -> str:
        """Edges."""
        return "neighbours"

    def check_arms(self, n_arms: int) -> None:
        """One node per arm."""
        if len(self.adjacency) != n_arms:
            raise InvalidInputError(f"Graph: adjacency has {len(self.adjacency)} rows, but there are {n_arms} arms")

    def matrix(self, history: History) -> Matrix:
        """The inverse of I + L."""
        degrees = self.adjacency.sum(axis=1)
        laplacian = np.diag(degrees) - self.adjacency
        if self.normalise:
            root = np.sqrt(np.where(degrees > 0, degrees, 1.0))
            laplacian = laplacian / np.outer(root, root)
        inverse: Matrix = np.linalg.inv(np.eye(len(laplacian)) + laplacian)
        return (inverse + inverse.T) / 2.0

    def with_arm(
        self,
        n_arms: int,
        *,
        descriptor: ArrayLike | None = None,
        similarity: ArrayLike | None = None,
        neighbours: Sequence[int] | None = None,
    ) -> Graph:
        """One more node, with an edge of weight 1 to each neighbour (none given: alone)."""
        self._take(descriptor=descriptor, similarity=similarity)
        adjacency = np.zeros((n_arms + 1, n_arms + 1))
        adjacency[:-1, :-1] = self.adjacency
        edges = list(neighbours or ())
        adjacency[-1, edges] = adjacency[edges, -1] = 1.0
        return self.replace(adjacency=adjacency)

    def without_arm(self, arm: int) -> Graph:
        """The node and its edges leave."""
        return self.replace(adjacency=np.delete(np.delete(self.adjacency, arm, axis=0), arm, axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class Estimated(Similarity):
    """The paper's estimate (its section 3.2): arms are alike when they were played in like contexts.

    k_Z(a, b) = exp(-||Psi_a - Psi_b||^2 / (2 length_scale^2)), where Psi_a is the mean of k'(., x) over the
    contexts x in which arm a was played; an arm never played has Psi_a = 0.

    Args:
        length_scale: sigma_Z. Distances of embeddings of a kernel with k'(x, x) = 1 are at most sqrt(2).
        embedding_kernel: k', any kernel on contexts.

    The squared distance is the plain V-statistic: pairs of a row with itself are included, as in the paper.
    """

    length_scale: float = 1.0
    embedding_kernel: Any = RBF()  # noqa: RUF009 (a frozen value)

    fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_scale", positive("length_scale", self.length_scale))
        object.__setattr__(self, "embedding_kernel", as_kernel(self.embedding_kernel))
        if self.embedding_kernel.refits(0, 1):
            raise InvalidInputError(
                "embedding_kernel must not be read off the data; give it a length scale, such as "
                "kb.RBF.median(contexts)"
            )

    def matrix(self, history: History) -> Matrix:
        """From all pairs of rows: t^2 kernel values."""
        G = np.zeros((history.n_arms, history.n_arms))
        for a in range(history.n_arms):
            for b in range(history.n_arms):
                X, Y = history.contexts[history.arms == a], history.contexts[history.arms == b]
                if len(X) and len(Y):
                    G[a, b] = self.embedding_kernel(X, Y).sum()
        return self.from_sums(G, history.counts)

    def from_sums(self, G: Matrix, counts: NDArray[Any]) -> Matrix:
        """The similarity matrix from the sums G of embedding-kernel values and the counts."""
        distances = embedding_distances(G, counts)
        return np.exp(distances / (-2.0 * self.length_scale**2))

    def tracker(self, history: History) -> Tracker:
        """Keeps G; a new row costs one row of kernel values."""
        return _EstimatedTracker(self, history)


class _EstimatedTracker(Tracker):
    def __init__(self, similarity: Estimated, history: History) -> None:
        super().__init__(similarity, history)
        self._estimated = similarity
        self._G = np.zeros((history.n_arms, history.n_arms))
        self._counts = np.zeros(history.n_arms, dtype=np.intp)
        self.observe(0)

    @property
    def matrix(self) -> Matrix:
        if self._matrix is None:
            self._matrix = self._estimated.from_sums(self._G, self._counts)
        return self._matrix

    def observe(self, start: int, squares: Matrix | None = None) -> None:
        # Rows are added one by one in order, so that G is the same to the last bit however they arrived;
        # kernel values come in blocks, so that bulk data need no t x t matrix.
        arms, X = self._history.arms, self._history.contexts
        G = self._G.copy()  # a kernel that fails half-way leaves no trace
        for low in range(start, len(arms), _BLOCK):
            high = min(low + _BLOCK, len(arms))
            kernel = self._estimated.embedding_kernel
            given = None if squares is None else kernel.from_squares(squares[None, :])
            K = kernel(X[low:high], X[:high]) if given is None else given
            for i in range(low, high):
                a, row = arms[i], K[i - low, : i + 1]
                sums = np.bincount(arms[: i + 1], weights=row, minlength=len(G))
                G[a] += sums
                sums[a] -= row[i]  # the pair of a row with itself stands once in G
                G[:, a] += sums
        self._G, self._matrix = G, None
        self._counts = self._counts + np.bincount(arms[start:], minlength=len(G))


def embedding_distances(G: Matrix, counts: NDArray[Any]) -> Matrix:
    """Squared distances of mean embeddings, ||Psi_a||^2 - 2 <Psi_a, Psi_b> + ||Psi_b||^2, from their sums.

    >>> embedding_distances(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1, 0]))
    array([[0., 1.],
           [1., 0.]])
    """
    n = np.maximum(counts, 1).astype(np.float64)
    inner = (G + G.T) / (2.0 * np.outer(n, n))
    norms = np.diag(inner)
    distances = norms[:, None] - 2.0 * inner + norms[None, :]
    np.fill_diagonal(distances, 0.0)
    return np.maximum(distances, 0.0)


def check_psd(name: str, matrix: Matrix) -> None:
    """Raise unless ``matrix`` is positive semidefinite to 1e-10 of its largest entry."""
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -TOLERANCE * max(1.0, float(np.abs(matrix).max())):
        raise NotPositiveSemidefiniteError(
            f"{name} is not positive semidefinite: its smallest eigenvalue is {smallest:.6g}. A similarity must "
            "be a covariance between arms; adding that much to the diagonal would make it one"
        )


def _square(name: str, values: object) -> Matrix:
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be a square matrix of numbers, got {values!r}") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InvalidInputError(f"{name} must be a square matrix, got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise InvalidInputError(f"{name} must be finite, but it holds NaN or infinity")
    skew = float(np.abs(matrix - matrix.T).max())
    if skew > TOLERANCE * max(1.0, float(np.abs(matrix).max())):
        raise InvalidInputError(
            f"{name} must be symmetric, but it differs from its transpose by {skew:.6g}; "
            "use (M + M.T) / 2 if that is what you mean"
        )
    return (matrix + matrix.T) / 2.0


def _known_matrix(values: object) -> Matrix:
    matrix = _square("the similarity matrix", values)
    check_psd("the similarity matrix", matrix)
    return frozen_array(matrix)


def _descriptors(values: ArrayLike) -> Matrix:
    rows = number_array("descriptors", values)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not rows.size:
        raise InvalidInputError(f"descriptors must be (arms, features), got shape {rows.shape}")
    return frozen_array(rows)
