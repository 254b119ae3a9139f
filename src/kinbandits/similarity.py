"""Similarities of arms, as frozen values: k_Z of the paper.

Three kinds. `Independent`, `Pooled`, `Mixed`, `Known` and `Graph` are known beforehand. `Estimated` is the paper's
estimate, which follows every row. `Learned` is what the rewards say, and is fitted with the policy's model.

Notation
    k_Z      (N, N)  symmetric, positive semidefinite
    G        (N, N)  G[a, b] = sum of k'(x, x') over rows x of arm a and x' of arm b    (Estimated)
    n_a      (N,)    rows of each arm
    D2       (N, N)  squared distances of mean embeddings
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import as_float64, square_matrix
from kinbandits._frames import column_names, row_names
from kinbandits._types import ArmName, Indices, Matrix, Vector
from kinbandits._value import Positive, Real, Value, frozen_array
from kinbandits.errors import InvalidInputError, InvalidTypeError, NotPositiveSemidefiniteError
from kinbandits.history import History
from kinbandits.kernels import RBF, Kernel, as_kernel, median_distance
from kinbandits.regression.contract import KZ, Common

__all__ = [
    "Estimated", "Graph", "Independent", "Known", "Learned", "Mixed", "Pooled", "Similarity", "Tracker",
    "embedding_distances",
]  # fmt: skip

TOLERANCE = 1e-10  # how far a matrix may be from symmetric and positive semidefinite
_BLOCK = 1024  # rows of kernel values computed at a time

ArmArgument = Literal["descriptor", "similarity", "neighbours"]


class Similarity(Value, ABC):
    """How arms resemble each other."""

    fixed: ClassVar[bool] = True
    """Whether the matrix is the same whatever the history."""

    @property
    def arm_argument(self) -> ArmArgument | None:
        """The argument of ``add_arm`` that describes a new arm, if it needs one."""
        return None

    @property
    def describes_arms(self) -> bool:
        """Whether arms have descriptors, so that an arm without data can borrow from its kin."""
        return self.arm_argument == "descriptor"

    @abstractmethod
    def matrix(self, history: History) -> Matrix:
        """The (N, N) similarity matrix after this history, from its definition."""

    def in_force(self, n_arms: int) -> KZ:
        """What the regression is given: the matrix, or this value where it follows the history."""
        return self.matrix(History(n_arms)) if self.fixed else self

    def tracker(self, history: History) -> Tracker:
        """An object that follows `matrix` as ``history`` grows."""
        return Tracker(self, history)

    def for_arms(self, arms: Sequence[ArmName]) -> Similarity:
        """This similarity for these arms, rows that have names in their order. Raise if it does not fit."""
        self.check_arms(len(arms))
        return self

    def check_arms(self, n_arms: int) -> None:
        """Raise if this similarity does not fit ``n_arms`` arms."""

    def with_arm(self, n_arms: int, value: Any = None) -> Similarity:
        """This similarity for one arm more, number ``n_arms``; ``value`` is its `arm_argument`."""
        return self

    def without_arm(self, arm: int) -> Similarity:
        """This similarity with arm number ``arm`` taken out."""
        return self


class Tracker:
    """Follows ``similarity.matrix(history)`` as the history grows; this one computes it anew when asked for."""

    def __init__(self, similarity: Similarity, history: History) -> None:
        self._similarity, self._history = similarity, history
        self._matrix: Matrix | None = None
        self._size = -1

    @property
    def matrix(self) -> Matrix:
        """The similarity matrix now in force, (N, N). Do not write into it."""
        if self._matrix is None or self._size != len(self._history):
            self._matrix = self._similarity.matrix(self._history)
            self._size = len(self._history)
        return self._matrix

    def observe(self, start: int, squares: Matrix | None = None) -> None:
        """The rows from ``start`` on are new. Arrays are replaced, not edited: a shallow copy is a way back."""


# -- known beforehand ------------------------------------------------------------------------------


class Alike(Similarity):
    """k_Z = (1 - shared) I + shared 11': any two arms have the same similarity."""

    @property
    @abstractmethod
    def shared(self) -> float:
        """The similarity of any two arms."""

    def in_force(self, n_arms: int) -> KZ:
        return Common(n_arms, self.shared)

    def matrix(self, history: History) -> Matrix:
        matrix = np.full((history.n_arms, history.n_arms), self.shared)
        np.fill_diagonal(matrix, 1.0)
        return matrix


class Independent(Alike):
    """k_Z(a, b) = 1 if a = b, else 0: every arm learns alone.

    >>> Independent().matrix(History(n_arms=2))
    array([[1., 0.],
           [0., 1.]])
    """

    shared = 0.0


class Pooled(Alike):
    """k_Z(a, b) = 1: all arms are one.

    >>> Pooled().matrix(History(n_arms=2))
    array([[1., 1.],
           [1., 1.]])
    """

    shared = 1.0


class Mixed(Alike):
    """k_Z = (1 - mu) I + mu 11': every two arms have similarity mu (Evgeniou and Pontil; the paper's K_Z(mu)).

    >>> Mixed(mu=0.25).matrix(History(n_arms=2))
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    mu: Real

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -1.0 <= self.mu <= 1.0:
            raise InvalidInputError(f"mu must be between -1/(number of arms - 1) and 1, got {self.mu!r}")

    @property
    def shared(self) -> float:
        return self.mu

    def check_arms(self, n_arms: int) -> None:
        """The smallest eigenvalue is 1 - mu or 1 + (N - 1) mu."""
        smallest = 1.0 + (n_arms - 1) * self.mu
        if smallest < -TOLERANCE:
            raise NotPositiveSemidefiniteError(
                f"Mixed(mu={self.mu}) over {n_arms} arms has eigenvalue {smallest:.6g} < 0; "
                f"mu must be at least {-1 / (n_arms - 1):.6g}"
            )


class Known(Similarity, init=False):
    """A similarity that is known: as a matrix, or as a kernel over one descriptor per arm.

    Args:
        matrix: (N, N), symmetric and positive semidefinite to 1e-10; negative entries are welcome.
        descriptors: (N, p), or N numbers, in the order of the arms; or a mapping from arms to descriptors, or a table
            whose index names the arms, in any order. With them ``add_arm(name, descriptor)`` works, and a new arm
            borrows from its kin at once.
        kernel: over the descriptors. Default: an `RBF` whose length scale is their median distance (each descriptor in
            its own width where they differ 30 times); arms that are added later do not change it.

    >>> from kinbandits import RBF
    >>> Known(descriptors=[0.0, 1.0], kernel=RBF(1.0)).matrix(History(n_arms=2)).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> Known(descriptors={"b": 1.0, "a": 0.0, "c": 3.0}).for_arms(["a", "b", "c"]).descriptors.ravel().tolist()
    [0.0, 1.0, 3.0]
    """

    given: Any = None
    descriptors: Any = None
    kernel: Any = None
    names: Any = None

    def __init__(
        self,
        matrix: Any = None,
        descriptors: Any = None,
        *,
        kernel: object = None,
        given: Any = None,
        names: Sequence[ArmName] | None = None,
    ) -> None:
        if callable(matrix) and kernel is None:
            matrix, kernel = None, matrix
        matrix = given if matrix is None else matrix
        if (matrix is None) == (descriptors is None) or (kernel is not None and descriptors is None):
            raise InvalidInputError(
                "Known takes a matrix, or descriptors (one row per arm), with or without a kernel= over them"
            )
        rows = row_names(descriptors if matrix is None else matrix) if names is None else list(names)
        if rows is not None and len(set(rows)) < len(rows):
            raise InvalidInputError(f"two rows are called {max(rows, key=rows.count)!r}; arms have different names")
        self._set(given=None, descriptors=None, kernel=None, names=None if rows is None else tuple(rows))
        if matrix is None:
            X = _descriptors(descriptors)
            k = descriptor_kernel(X) if kernel is None else as_kernel(kernel)
            k.check_features(X.shape[1])
            self._set(descriptors=frozen_array(X), kernel=k)
            check_psd("the similarity of the descriptors", self._matrix)
            return
        columns = column_names(matrix)
        if columns is not None and rows is not None and columns != [str(name) for name in rows]:
            raise InvalidInputError(
                "the similarity matrix must have the same names in rows and columns, in one order, but they "
                f"are {rows[:8]} and {columns[:8]}"
            )
        K = square_matrix("the similarity matrix", matrix, symmetric=True)
        check_psd("the similarity matrix", K)
        self._set(given=frozen_array(K))

    def __repr__(self) -> str:
        return super().__repr__().replace("Known(given=", "Known(matrix=")

    @classmethod
    def nearest(cls, matrix: ArrayLike) -> tuple[Known, float]:
        """The nearest similarity to a matrix that is none, and how far it is. Published ones often are not quite.

        The symmetric part of the matrix with its negative eigenvalues set to 0: no positive semidefinite matrix is
        nearer in Frobenius norm.

        >>> similarity, distance = Known.nearest([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
        >>> round(distance, 4)
        0.2728
        """
        given = square_matrix("matrix", matrix)
        values, vectors = np.linalg.eigh((given + given.T) / 2.0)
        cut = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return cls((cut + cut.T) / 2.0), float(np.linalg.norm(cut - given))

    @property
    def arm_argument(self) -> ArmArgument:
        return "similarity" if self.descriptors is None else "descriptor"

    @property
    def _matrix(self) -> Matrix:
        if self.kernel is None:
            return np.array(self.given)
        K = self.kernel(self.descriptors, self.descriptors)
        return np.asarray((K + K.T) / 2.0)

    def matrix(self, history: History) -> Matrix:
        return self._matrix

    def check_arms(self, n_arms: int) -> None:
        what = "matrix" if self.descriptors is None else "descriptors"
        rows = len(self.given if self.descriptors is None else self.descriptors)
        if rows != n_arms:
            raise InvalidInputError(f"Known: {what} has {rows} rows, but there are {n_arms} arms")

    def for_arms(self, arms: Sequence[ArmName]) -> Known:
        if self.names is None:
            self.check_arms(len(arms))
            return self
        missing = [a for a in arms if a not in self.names]
        unknown = [n for n in self.names if n not in arms]
        if missing or unknown:
            what = f"has no row for arm {missing[0]!r}" if missing else f"has a row {unknown[0]!r}, which is no arm"
            raise InvalidInputError(
                f"Known {what}; its rows are {', '.join(map(repr, self.names[:8]))}, the arms "
                f"{', '.join(map(repr, arms[:8]))}. Rows without names (a list, an array) are taken in order"
            )
        return self._taken([self.names.index(a) for a in arms])

    def _taken(self, rows: list[int]) -> Known:
        """These rows, without names."""
        if self.descriptors is not None:
            return Known(descriptors=self.descriptors[rows], kernel=self.kernel)
        return Known(self.given[np.ix_(rows, rows)])

    def with_arm(self, n_arms: int, value: Any = None) -> Known:
        """One more descriptor, or one more row and column (to each arm, then to itself)."""
        if self.descriptors is not None:
            if value is None:
                raise InvalidInputError("this policy knows arms by descriptor; add_arm needs descriptor=")
            row = np.atleast_1d(as_float64("descriptor", value))
            if row.shape != self.descriptors.shape[1:]:
                raise InvalidInputError(
                    f"descriptor has shape {row.shape}, but the other arms have {self.descriptors.shape[1]} numbers"
                )
            return Known(descriptors=np.vstack([self.descriptors, row]), kernel=self.kernel)
        row = np.empty(0) if value is None else np.atleast_1d(as_float64("similarity", value))
        if row.shape not in ((n_arms,), (n_arms + 1,)):
            raise InvalidInputError(
                f"this policy has a known similarity matrix; add_arm needs similarity= with {n_arms} entries (to each "
                "arm in order), or one more for the arm itself (1 if left out)"
            )
        row = np.append(row, 1.0)[: n_arms + 1]
        return Known(np.block([[self.given, row[:-1, None]], [row]]))

    def without_arm(self, arm: int) -> Known:
        n_arms = len(self.given if self.descriptors is None else self.descriptors)
        return self._taken([a for a in range(n_arms) if a != arm])


def _descriptors(given: Any) -> Matrix:
    """One row per arm; in a mapping, one value per arm."""
    if isinstance(given, Mapping):
        rows = {name: as_float64(f"the descriptor of {name!r}", row) for name, row in given.items()}
        first = next(iter(rows), None)
        for name, row in rows.items():
            if row.ndim > 1 or row.shape != rows[first].shape:
                raise InvalidInputError(
                    f"the descriptor of {name!r} has shape {row.shape}, but that of {first!r} has "
                    f"{rows[first].shape}; a mapping has a descriptor for each arm"
                )
        given = list(rows.values())
    X = as_float64("descriptors", given)
    X = X[:, None] if X.ndim == 1 else X
    if X.ndim != 2 or not X.size:
        raise InvalidInputError(f"descriptors must be (arms, features), got shape {X.shape}")
    return X


def descriptor_kernel(rows: Matrix) -> RBF:
    """An `RBF` of these descriptors, whose length scale is their median distance.

    >>> descriptor_kernel(np.array([[0.0], [1.0], [3.0]]))
    RBF(length_scale=2.0)
    """
    widths = rows.std(axis=0)
    varies = widths > 1e-9 * np.abs(rows).max(axis=0)
    varying = np.sort(widths[varies])
    if len(rows) < 10 or not len(varying) or varying[-1] <= 30.0 * (usual := varying[(len(varying) - 1) // 2]):
        return RBF(median_distance(rows))
    widths = np.where(varies, widths, usual)
    return RBF(tuple((widths * median_distance(rows / widths)).tolist()))


class Graph(Similarity):
    """Arms (or tasks) on a graph: k_Z = (I + L)^-1 with L the Laplacian (Gang of Bandits).

    Args:
        adjacency: (N, N), symmetric, entries at least 0; the diagonal is ignored.
        normalise: use the normalised Laplacian I - D^-1/2 A D^-1/2.

    >>> Graph([[0, 1], [1, 0]]).matrix(History(n_arms=2)).round(4)
    array([[0.6667, 0.3333],
           [0.3333, 0.6667]])
    """

    adjacency: Any
    normalise: bool = False

    def __post_init__(self) -> None:
        adjacency = square_matrix("adjacency", self.adjacency, symmetric=True)
        if (adjacency < 0).any():
            raise InvalidInputError(f"adjacency must not be negative, got {adjacency.min():.6g}")
        if not isinstance(self.normalise, bool):
            raise InvalidTypeError(f"normalise must be True or False, got {self.normalise!r}")
        np.fill_diagonal(adjacency, 0.0)
        self._set(adjacency=frozen_array(adjacency))

    @property
    def arm_argument(self) -> ArmArgument:
        return "neighbours"

    def check_arms(self, n_arms: int) -> None:
        if len(self.adjacency) != n_arms:
            raise InvalidInputError(f"Graph: adjacency has {len(self.adjacency)} rows, but there are {n_arms} arms")

    def matrix(self, history: History) -> Matrix:
        degrees = self.adjacency.sum(axis=1)
        laplacian = np.diag(degrees) - self.adjacency
        if self.normalise:
            root = np.sqrt(np.where(degrees > 0, degrees, 1.0))
            laplacian = laplacian / np.outer(root, root)
        inverse: Matrix = np.linalg.inv(np.eye(len(laplacian)) + laplacian)
        return (inverse + inverse.T) / 2.0

    def with_arm(self, n_arms: int, value: Any = None) -> Graph:
        """One more node, with an edge of weight 1 to each neighbour, numbers of arms (none: alone)."""
        adjacency = np.pad(self.adjacency, (0, 1))
        edges = list(value or ())
        adjacency[-1, edges] = adjacency[edges, -1] = 1.0
        return self.replace(adjacency=adjacency)

    def without_arm(self, arm: int) -> Graph:
        return self.replace(adjacency=np.delete(np.delete(self.adjacency, arm, axis=0), arm, axis=1))


def check_psd(name: str, matrix: Matrix) -> None:
    """Raise unless ``matrix`` is positive semidefinite to 1e-10 of its largest entry."""
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -TOLERANCE * max(1.0, float(np.abs(matrix).max())):
        raise NotPositiveSemidefiniteError(
            f"{name} is not positive semidefinite: its smallest eigenvalue is {smallest:.6g}. A similarity must "
            "be a covariance between arms; kb.Known.nearest(matrix) gives the nearest one and how far it is"
        )


# -- from the rewards ------------------------------------------------------------------------------


class Learned(Similarity):
    """What the rewards say of the arms: the default of `KMTLUCB`. Fitted with the policy's `Model`, at its milestones.

    Arms are taken as (1 - mu) I + mu B, with B what is known of them beforehand, and then as alike as the rows say
    (`kinbandits.model`). Where all arms see one context and nothing is known, they share only if that explains the
    rewards better by 12 nats; `Independent` until then.

    Args:
        base: B, `Known` with descriptors or a matrix, or `Graph`. None: all arms are as like each other as any two.

    >>> import kinbandits as kb
    >>> kb.KMTLUCB(3, similarity=Learned(kb.Known(descriptors=[0.0, 0.1, 5.0]))).similarity_matrix().round(2)
    array([[1. , 0.5, 0.3],
           [0.5, 1. , 0.3],
           [0.3, 0.3, 1. ]])
    """

    base: Similarity | None = None

    fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.base is not None and (not isinstance(self.base, Similarity) or not self.base.fixed):
            raise InvalidTypeError(f"base must be known beforehand, such as kb.Known(descriptors=X), got {self.base!r}")
        if isinstance(self.base, Independent | Pooled | Mixed):
            raise InvalidInputError(f"base={self.base!r} is what Learned() tries by itself; leave base out")

    @property
    def arm_argument(self) -> ArmArgument | None:
        return None if self.base is None else self.base.arm_argument

    def matrix(self, history: History) -> Matrix:
        raise InvalidInputError("what Learned() has learned is with the policy: policy.similarity_matrix()")

    def for_arms(self, arms: Sequence[ArmName]) -> Learned:
        return self if self.base is None else Learned(self.base.for_arms(arms))

    def with_arm(self, n_arms: int, value: Any = None) -> Learned:
        return self if self.base is None else Learned(self.base.with_arm(n_arms, value))

    def without_arm(self, arm: int) -> Learned:
        return self if self.base is None else Learned(self.base.without_arm(arm))


# -- the paper's estimate --------------------------------------------------------------------------


class Estimated(Similarity):
    """The paper's estimate (its section 3.2): arms are alike when they were played in like contexts.

    k_Z(a, b) = exp(-||Psi_a - Psi_b||^2 / (2 length_scale^2)), where Psi_a is the mean of k'(., x) over the contexts x
    in which arm a was played; an arm never played has Psi_a = 0. Distances are the plain V-statistic.

    Args:
        length_scale: sigma_Z. Distances of embeddings of a kernel with k'(x, x) = 1 are at most sqrt(2).
        embedding_kernel: k', any kernel on contexts; None takes the context kernel of the policy.

    >>> history = History.of(2, np.array([0, 1]), np.array([[0.0], [1.0]]), np.array([0.0, 1.0]))
    >>> Estimated(length_scale=1.0).matrix(history).round(4)
    array([[1.    , 0.6747],
           [0.6747, 1.    ]])
    """

    length_scale: Positive = 1.0
    embedding_kernel: Any = RBF()

    fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.embedding_kernel is not None:
            self._set(embedding_kernel=as_kernel(self.embedding_kernel))

    def with_kernel(self, context_kernel: Kernel) -> Estimated:
        """With the context kernel as k', if none was given."""
        return self.replace(embedding_kernel=context_kernel) if self.embedding_kernel is None else self

    @property
    def kernel(self) -> Kernel:
        if self.embedding_kernel is None:
            raise InvalidInputError(
                "Estimated(embedding_kernel=None) takes the context kernel of its policy; alone it has none"
            )
        kernel: Kernel = self.embedding_kernel
        return kernel

    def matrix(self, history: History) -> Matrix:
        """From all pairs of rows: t^2 kernel values."""
        G = np.zeros((history.n_arms, history.n_arms))
        rows = [history.contexts[history.arms == a] for a in range(history.n_arms)]
        for a, b in np.ndindex(G.shape):
            G[a, b] = self.kernel(rows[a], rows[b]).sum() if len(rows[a]) and len(rows[b]) else 0.0
        return self.from_sums(G, history.counts)

    def from_sums(self, G: Matrix, counts: NDArray[Any]) -> Matrix:
        """The similarity matrix from the sums G of embedding-kernel values and the counts."""
        D2 = embedding_distances(G, counts)
        D2 *= -0.5 / self.length_scale**2
        return np.exp(D2, out=D2)

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
        # Rows are added one by one in order, so that G is the same to the last bit however they arrived; kernel values
        # come in blocks, so that bulk data need no t x t matrix.
        arms, X, kernel = self._history.arms, self._history.contexts, self._estimated.kernel
        G, counts = self._G.copy(), self._counts.copy()  # a failure leaves no trace
        for low in range(start, len(arms), _BLOCK):
            high = min(low + _BLOCK, len(arms))
            K = None if squares is None or high - low > 1 else kernel.from_squares(squares[None, :])
            if K is None:
                K = kernel(X[low:high], X[:high])
            for i in range(low, high):
                _embed(G, counts, arms, K[i - low], i)
        self._G, self._counts, self._matrix = G, counts, None


def _embed(G: Matrix, counts: Indices, arms: Indices, row: Vector, n: int) -> None:
    """Row n of the history, by its embedding-kernel values with rows 0 to n."""
    a = arms[n]
    sums = np.bincount(arms[: n + 1], weights=row[: n + 1], minlength=len(G))
    G[a] += sums
    sums[a] -= row[n]  # the pair of a row with itself stands once in G
    G[:, a] += sums
    counts[a] += 1


def embedding_distances(G: Matrix, counts: NDArray[Any]) -> Matrix:
    """Squared distances of mean embeddings, ||Psi_a||^2 - 2 <Psi_a, Psi_b> + ||Psi_b||^2, from their sums.

    >>> embedding_distances(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1, 0]))
    array([[0., 1.],
           [1., 0.]])
    """
    n = np.maximum(counts, 1.0)
    inner = G + G.T
    inner /= 2.0 * (n[:, None] * n)
    norms = inner.diagonal()
    distances = norms[:, None] - 2.0 * inner
    distances += norms
    distances.flat[:: len(n) + 1] = 0.0
    return np.maximum(distances, 0.0, out=distances)
