"""Similarities that do not look at the data: known beforehand, or settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import as_float64, square_matrix
from kinbandits._frames import column_names, row_names
from kinbandits._types import Matrix
from kinbandits._value import Real, frozen_array
from kinbandits.errors import InvalidInputError, NotPositiveSemidefiniteError
from kinbandits.history import History
from kinbandits.kernels import KernelRule, Median, as_kernel_or_rule
from kinbandits.similarity.base import ArmInfo, Similarity

TOLERANCE = 1e-10  # how far a matrix may be from symmetric and positive semidefinite


class Independent(Similarity):
    """k_Z(a, b) = 1 if a = b, else 0: every arm learns alone.

    >>> Independent().matrix(History(n_arms=2))
    array([[1., 0.],
           [0., 1.]])
    """

    def matrix(self, history: History) -> Matrix:
        return np.eye(history.n_arms)


class Pooled(Similarity):
    """k_Z(a, b) = 1: all arms are one.

    >>> Pooled().matrix(History(n_arms=2))
    array([[1., 1.],
           [1., 1.]])
    """

    def matrix(self, history: History) -> Matrix:
        return np.ones((history.n_arms, history.n_arms))


class Mixed(Similarity):
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

    def check_arms(self, n_arms: int) -> None:
        """The smallest eigenvalue is 1 - mu or 1 + (N - 1) mu."""
        smallest = 1.0 + (n_arms - 1) * self.mu
        if smallest < -TOLERANCE:
            raise NotPositiveSemidefiniteError(
                f"Mixed(mu={self.mu}) over {n_arms} arms has eigenvalue {smallest:.6g} < 0; "
                f"mu must be at least {-1 / (n_arms - 1):.6g}"
            )

    def matrix(self, history: History) -> Matrix:
        matrix = np.full((history.n_arms, history.n_arms), self.mu)
        np.fill_diagonal(matrix, 1.0)
        return matrix


class Nearest(NamedTuple):
    """What `Known.nearest` gives: the similarity, and its distance from the matrix asked about."""

    similarity: Known
    distance: float


class Known(Similarity, init=False):
    """A similarity that is given: as a matrix, or as a kernel over one descriptor per arm.

    Args:
        matrix: (N, N), symmetric and positive semidefinite to 1e-10; negative entries are welcome.
            Or a kernel, with ``descriptors`` as the second argument.
        descriptors: (N, p), or N numbers, in the order of the arms; or a dict of them by arm, or a table of pandas
            whose index names the arms, in any order (so may a matrix). With them ``add_arm(name, descriptor)``
            works, and a new arm borrows from its kin at once.
        kernel: over the descriptors. Default: an `RBF` whose length scale is their median distance; arms that are
            added later do not change it.

    >>> from kinbandits import RBF
    >>> Known(RBF(length_scale=1.0), [0.0, 1.0]).matrix(History(n_arms=2)).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> Known(descriptors=[0.0, 1.0, 3.0]).kernel
    RBF(length_scale=2.0)
    """

    given: Any = None
    descriptors: Any = None
    kernel: Any = None
    names: tuple[Any, ...] | None = None  # of the rows, until they are in the order of a policy's arms

    def __init__(
        self,
        matrix: object = None,
        descriptors: ArrayLike | None = None,
        *,
        kernel: object = None,
        given: object = None,
        names: Sequence[Any] | None = None,
    ) -> None:
        matrix = given if matrix is None else matrix
        if kernel is None and (isinstance(matrix, KernelRule) or callable(matrix)):
            matrix, kernel = None, matrix
        if (matrix is None) == (descriptors is None) or (kernel is not None and descriptors is None):
            raise InvalidInputError(
                "Known takes a matrix, or a kernel with descriptors (one row per arm), or descriptors alone"
            )
        known = row_names(descriptors if matrix is None else matrix) if names is None else list(names)
        self._set(given=None, descriptors=None, kernel=None, names=None if known is None else tuple(known))
        if known is not None and len(set(known)) < len(known):
            raise InvalidInputError(
                f"two rows are called {max(known, key=known.count)!r}; arms have different names"
            )
        if matrix is not None:
            columns = column_names(matrix)
            if columns is not None and known is not None and columns != [str(name) for name in known]:
                raise InvalidInputError(
                    "the similarity matrix must have the same names in rows and columns, in one order, but they "
                    f"are {known[:8]} and {columns[:8]}"
                )
            self._set(given=frozen_array(square_matrix("the similarity matrix", matrix, symmetric=True)))
            check_psd("the similarity matrix", self.given)
            return
        rows = as_float64("descriptors", _rows(descriptors) if isinstance(descriptors, Mapping) else descriptors)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or not rows.size:
            raise InvalidInputError(f"descriptors must be (arms, features), got shape {rows.shape}")
        found = as_kernel_or_rule(Median(uneven=30.0) if kernel is None else kernel)
        fitted = found.fit(rows) if isinstance(found, KernelRule) else found
        fitted.check_features(rows.shape[1])
        self._set(descriptors=frozen_array(rows), kernel=fitted)
        check_psd("the similarity of the descriptors", self._matrix)

    def __repr__(self) -> str:
        return super().__repr__().replace("Known(given=", "Known(matrix=")

    @classmethod
    def nearest(cls, matrix: ArrayLike) -> Nearest:
        """The nearest similarity to a matrix that is none, and how far it is. Published ones often are not quite.

        The symmetric part of the matrix with its negative eigenvalues set to 0: no positive semidefinite matrix is
        nearer in Frobenius norm, the root of the sum of squared differences.

        >>> similarity, distance = Known.nearest([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
        >>> round(distance, 4)
        0.2728
        >>> similarity.matrix(History(3)).round(2)
        array([[1.07, 0.8 , 0.07],
               [0.8 , 1.14, 0.8 ],
               [0.07, 0.8 , 1.07]])
        """
        given = square_matrix("matrix", matrix)
        values, vectors = np.linalg.eigh((given + given.T) / 2.0)
        cut = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return Nearest(cls((cut + cut.T) / 2.0), float(np.linalg.norm(cut - given)))

    @property
    def describes_arms(self) -> bool:
        return self.descriptors is not None

    @property
    def arm_argument(self) -> str:
        return "similarity" if self.descriptors is None else "descriptor"

    @property
    def _matrix(self) -> Matrix:
        if self.kernel is None:
            return np.array(self.given)
        K = self.kernel(self.descriptors, self.descriptors)
        return np.asarray((K + K.T) / 2.0)

    def check_arms(self, n_arms: int) -> None:
        rows = len(self.given if self.descriptors is None else self.descriptors)
        if rows != n_arms:
            what = "matrix" if self.descriptors is None else "descriptors"
            raise InvalidInputError(f"Known: {what} has {rows} rows, but there are {n_arms} arms")

    def for_arms(self, names: Sequence[Any]) -> Known:
        """Rows that have names in the order of the arms."""
        if self.names is None:
            self.check_arms(len(names))
            return self
        missing = [name for name in names if name not in self.names]
        strange = [name for name in self.names if name not in names]
        if missing or strange:
            what = f"has no row for arm {missing[0]!r}" if missing else f"has a row {strange[0]!r}, which is no arm"
            raise InvalidInputError(
                f"Known {what}; its rows are {', '.join(map(repr, self.names[:8]))}, the arms "
                f"{', '.join(map(repr, names[:8]))}. Rows without names (a list, an array) are taken in order"
            )
        order = [self.names.index(name) for name in names]
        if self.descriptors is not None:
            return Known(self.kernel, self.descriptors[order])
        return Known(self.given[np.ix_(order, order)])

    def matrix(self, history: History) -> Matrix:
        return self._matrix

    def _with_arm(self, n_arms: int, info: ArmInfo) -> Known:
        """One more descriptor, or one more row and column (``similarity``: to each arm, then to itself)."""
        if self.descriptors is not None:
            if info.descriptor is None:
                raise InvalidInputError("this policy knows arms by descriptor; add_arm needs descriptor=")
            row = np.atleast_1d(as_float64("descriptor", info.descriptor))[None, :]
            if row.shape[1] != self.descriptors.shape[1]:
                raise InvalidInputError(
                    f"descriptor has {row.shape[1]} entries, but the other arms' have {self.descriptors.shape[1]}"
                )
            return Known(self.kernel, np.vstack([self.descriptors, row]))
        if info.similarity is None:
            raise InvalidInputError(
                f"this policy has a known similarity matrix; add_arm needs similarity= with {n_arms} entries "
                "(to each arm in order), or one more for the arm itself (1 if left out)"
            )
        row = np.atleast_1d(as_float64("similarity", info.similarity))
        if row.shape not in ((n_arms,), (n_arms + 1,)):
            raise InvalidInputError(
                f"similarity must have {n_arms} entries (to each arm in order), or one more for the arm "
                f"itself, got shape {row.shape}"
            )
        row = row if len(row) == n_arms + 1 else np.append(row, 1.0)
        return Known(np.block([[self.given, row[:-1, None]], [row[None, :]]]))

    def without_arm(self, arm: int) -> Known:
        if self.descriptors is not None:
            return Known(self.kernel, np.delete(self.descriptors, arm, axis=0))
        return Known(np.delete(np.delete(self.given, arm, axis=0), arm, axis=1))


def _rows(descriptors: Mapping[Any, Any]) -> list[Any]:
    """The descriptors of a mapping, one for each arm."""
    rows = [np.asarray(row) for row in descriptors.values()]
    for name, row in zip(descriptors, rows, strict=True):
        if row.ndim > 1 or row.shape != rows[0].shape:
            raise InvalidInputError(
                f"the descriptor of {name!r} has shape {row.shape}, but that of {next(iter(descriptors))!r} has "
                f"{rows[0].shape}; a dict has a descriptor for each arm"
            )
    return rows


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

    arm_argument: ClassVar[str] = "neighbours"

    def __post_init__(self) -> None:
        adjacency = square_matrix("adjacency", self.adjacency, symmetric=True)
        if (adjacency < 0).any():
            raise InvalidInputError(f"adjacency must not be negative, got {adjacency.min():.6g}")
        np.fill_diagonal(adjacency, 0.0)
        self._set(adjacency=frozen_array(adjacency))

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

    def _with_arm(self, n_arms: int, info: ArmInfo) -> Graph:
        """One more node, with an edge of weight 1 to each neighbour (none given: alone)."""
        adjacency = np.zeros((n_arms + 1, n_arms + 1))
        adjacency[:-1, :-1] = self.adjacency
        edges = list(info.neighbours or ())
        adjacency[-1, edges] = adjacency[edges, -1] = 1.0
        return self.replace(adjacency=adjacency)

    def without_arm(self, arm: int) -> Graph:
        return self.replace(adjacency=np.delete(np.delete(self.adjacency, arm, axis=0), arm, axis=1))


class Settled(Similarity):
    """A matrix that was chosen from the data and no longer changes. Arms that come later stand alone.

    >>> Settled([[1.0, 0.5], [0.5, 1.0]]).with_arm(2).matrix(History(n_arms=3))
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """

    chosen: Any

    def __post_init__(self) -> None:
        self._set(chosen=frozen_array(self.chosen))

    def check_arms(self, n_arms: int) -> None:
        if len(self.chosen) != n_arms:
            raise InvalidInputError(f"Settled: {len(self.chosen)} rows, but there are {n_arms} arms")

    def matrix(self, history: History) -> Matrix:
        return np.array(self.chosen)

    def _with_arm(self, n_arms: int, info: ArmInfo) -> Settled:
        grown = np.pad(self.chosen, (0, 1))
        grown[-1, -1] = 1.0
        return Settled(grown)

    def without_arm(self, arm: int) -> Settled:
        return Settled(np.delete(np.delete(self.chosen, arm, axis=0), arm, axis=1))


def check_psd(name: str, matrix: Matrix) -> None:
    """Raise unless ``matrix`` is positive semidefinite to 1e-10 of its largest entry."""
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -TOLERANCE * max(1.0, float(np.abs(matrix).max())):
        raise NotPositiveSemidefiniteError(
            f"{name} is not positive semidefinite: its smallest eigenvalue is {smallest:.6g}. A similarity must "
            "be a covariance between arms; kb.Known.nearest(matrix) gives the nearest one and how far it is"
        )
