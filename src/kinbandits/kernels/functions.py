"""The kernels themselves: of distances, of inner products, and those whose length scale is read off the data.

Notation as in `kinbandits.kernels`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._types import Matrix
from kinbandits._value import positive
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.kernels.algebra import Kernel


def _length_scale(value: object) -> float | tuple[float, ...]:
    if np.ndim(value) == 0:  # type: ignore[arg-type]
        return positive("length_scale", value)  # type: ignore[arg-type]
    scales = tuple(positive("length_scale", v) for v in value)  # type: ignore[attr-defined]
    if not scales:
        raise InvalidInputError("length_scale must not be empty; give one number, or one per feature")
    return scales


@dataclass(frozen=True, eq=False, repr=False)
class Stationary(Kernel):
    """Base of kernels of the scaled distance, with k(x, x) = 1."""

    length_scale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_scale", _length_scale(self.length_scale))

    def _distances(self, A: Matrix, B: Matrix, metric: Literal["euclidean", "sqeuclidean"]) -> Matrix:
        """Distances r (or their squares) of all pairs of rows; one length scale is divided out at the end."""
        if isinstance(self.length_scale, tuple):
            scales = np.asarray(self.length_scale)
            return np.asarray(cdist(np.asarray(A / scales), np.asarray(B / scales), metric))
        r: Matrix = cdist(A, B, metric)
        r *= self.length_scale ** (-2.0 if metric == "sqeuclidean" else -1.0)
        return r

    def diag(self, A: Matrix) -> Matrix:
        """One for every row."""
        return np.ones(len(A))

    def refits(self, before: int, after: int) -> bool:
        """Never."""
        return False

    def check_features(self, n_features: int) -> None:
        """Raise if there is one length scale per feature and their number differs."""
        if isinstance(self.length_scale, tuple) and len(self.length_scale) != n_features:
            raise InvalidInputError(
                f"length_scale has {len(self.length_scale)} entries, but contexts have {n_features} features; "
                "give one number, or one per feature"
            )


@dataclass(frozen=True, eq=False, repr=False)
class RBF(Stationary):
    """The Gaussian kernel, k(x, x') = exp(-r^2 / 2).

    Args:
        length_scale: ell, one number or one per feature. A precision gamma, as scikit-learn's ``rbf_kernel``
            and the authors' scripts have it, is 1 / (2 ell^2): see `RBF.from_precision`.

    Example:
        >>> import numpy as np
        >>> RBF(length_scale=2.0)(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
        array([[1.    , 0.6065]])
    """

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        K = self._distances(A, B, "sqeuclidean")
        K *= -0.5
        return np.exp(K, out=K)

    def from_squares(self, squares: Matrix) -> Matrix | None:
        """As a call, to the last bit, unless there is a length scale per feature."""
        if isinstance(self.length_scale, tuple):
            return None
        K: Matrix = squares * self.length_scale**-2.0
        K *= -0.5
        return np.exp(K, out=K)

    @classmethod
    def from_precision(cls, precision: float) -> RBF:
        """The kernel exp(-precision ||x - x'||^2).

        >>> RBF.from_precision(0.5)
        RBF()
        """
        return cls(length_scale=math.sqrt(0.5 / positive("precision", precision)))

    @classmethod
    def median(cls, contexts: ArrayLike) -> RBF:
        """The kernel whose length scale is the median distance between the rows of ``contexts``.

        >>> RBF.median([[0.0], [1.0], [3.0]])
        RBF(length_scale=2.0)
        """
        return cls(length_scale=median_distance(np.asarray(contexts, dtype=np.float64)))


@dataclass(frozen=True, eq=False, repr=False)
class RationalQuadratic(Stationary):
    """k(x, x') = (1 + r^2 / (2 alpha))^-alpha: an RBF mixed over length scales, the wider the smaller alpha is.

    With alpha 2 and the median distance as length scale it is what `KMTLUCB` takes where nothing is said: better
    than the RBF on the paper's data sets, about as good on smooth functions (docs, "Ablation").

    Example:
        >>> import numpy as np
        >>> RationalQuadratic(length_scale=2.0)(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
        array([[1.    , 0.6667]])
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        return self._of(self._distances(A, B, "sqeuclidean"))

    def from_squares(self, squares: Matrix) -> Matrix | None:
        """As a call, to the last bit, unless there is a length scale per feature."""
        return None if isinstance(self.length_scale, tuple) else self._of(squares * self.length_scale**-2.0)

    def _of(self, K: Matrix) -> Matrix:
        K *= 0.5 / self.alpha
        K += 1.0
        if self.alpha == 1.0:
            return np.reciprocal(K, out=K)
        return np.power(K, -self.alpha, out=K)


@dataclass(frozen=True, eq=False, repr=False)
class Median(Kernel):
    """A kernel whose length scale is the median distance of the first contexts learned from.

    The length scale follows the data until ``rows`` rows have been learned, and is fixed from then on. It is no
    kernel by itself: `fitted` gives the one with the length scale.

    Args:
        rows: how many are looked at.
        kernel: `RBF`, `RationalQuadratic` or `Matern`; its length scale is in units of the median.
        coarse: while it follows the data, round it to a power of 2^(1/4). It then seldom changes, which saves time.

    Example:
        >>> history = History.of(1, np.array([0, 0]), np.array([[0.0], [3.0]]), np.zeros(2))
        >>> Median().fitted(history)
        RBF(length_scale=3.0)
        >>> Median(kernel=RationalQuadratic(0.5)).fitted(history)
        RationalQuadratic(length_scale=1.5)
        >>> Median(coarse=True).fitted(history)
        RBF(length_scale=2.82...)
    """

    rows: int = 60
    kernel: Any = RBF()
    coarse: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Stationary):
            raise InvalidTypeError(
                f"kernel must have a length scale (in units of the median), such as kb.RBF(); got {self.kernel!r}"
            )

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        raise InvalidTypeError("Median() has no length scale yet; Median().fitted(history) is the kernel")

    def diag(self, A: Matrix) -> Matrix:
        """One for every row, whatever the length scale."""
        return np.ones(len(A))

    def refits(self, before: int, after: int) -> bool:
        """While fewer than ``rows`` rows have been learned."""
        return before < self.rows

    def fitted(self, history: History) -> Stationary:
        """The kernel of the first rows; its median is taken as 1 while no two of them differ."""
        rows = history.contexts[: self.rows]
        median = median_distance(rows) if len(rows) else 1.0
        if self.coarse and len(rows) < self.rows:
            median = 2.0 ** (round(4.0 * math.log2(median)) / 4.0)
        scale = self.kernel.length_scale
        scaled = tuple(s * median for s in scale) if isinstance(scale, tuple) else scale * median
        fitted: Stationary = self.kernel.replace(length_scale=scaled)
        return fitted

    def check_features(self, n_features: int) -> None:
        """As the kernel does."""
        self.kernel.check_features(n_features)


DEFAULT_KERNEL = Median(kernel=RationalQuadratic(alpha=2.0), coarse=True)
"""Where nothing else is said. Why this one: see the ablation page of the documentation."""


@dataclass(frozen=True, eq=False, repr=False)
class Matern(Stationary):
    """The Matern kernel of smoothness ``nu`` = 1/2, 3/2 or 5/2.

    With s = sqrt(2 nu) r: exp(-s), (1 + s) exp(-s), (1 + s + s^2/3) exp(-s).

    Example:
        >>> import numpy as np
        >>> Matern(nu=0.5)(np.zeros((1, 1)), np.ones((1, 1))).round(4)
        array([[0.3679]])
    """

    nu: float = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise InvalidInputError(f"nu must be 0.5, 1.5 or 2.5, got {self.nu!r}")

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        s = self._distances(A, B, "euclidean")
        s *= math.sqrt(2.0 * self.nu)
        K = np.exp(-s)
        if self.nu == 1.5:
            K *= 1.0 + s
        elif self.nu == 2.5:
            K *= 1.0 + s + s * s / 3.0
        return K


@dataclass(frozen=True, eq=False, repr=False)
class Linear(Kernel):
    """The inner product, k(x, x') = x . x'. With an intercept: ``Linear() + Constant(1.0)``.

    Example:
        >>> import numpy as np
        >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
        array([[11.]])
    """

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        return np.asarray(A @ B.T)

    def diag(self, A: Matrix) -> Matrix:
        """Squared lengths of the rows."""
        return np.asarray(np.einsum("ij,ij->i", A, A))

    def features(self, A: Matrix) -> Matrix:
        """The contexts themselves."""
        return A


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Kernel):
    """The same value for every pair: an unknown offset, when added to another kernel.

    Example:
        >>> import numpy as np
        >>> Constant(2.0).diag(np.zeros((3, 1)))
        array([2., 2., 2.])
    """

    value: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", positive("value", self.value, zero=True))

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        return np.full((len(A), len(B)), self.value)

    def diag(self, A: Matrix) -> Matrix:
        """The value, once per row."""
        return np.full(len(A), self.value)

    def features(self, A: Matrix) -> Matrix:
        """One column, the root of the value."""
        return np.full((len(A), 1), math.sqrt(self.value))


def cdist(A: Matrix, B: Matrix, metric: str = "euclidean") -> Matrix:
    """SciPy's distances, imported when first needed: `scipy.spatial` is half the time of importing kinbandits."""
    from scipy.spatial import distance

    return np.asarray(distance.cdist(A, B, metric))  # type: ignore[call-overload]


def median_distance(contexts: Matrix) -> float:
    """The median distance between pairs of different rows; 1.0 where no two rows differ."""
    if contexts.ndim != 2:
        raise InvalidInputError(f"contexts must be 2-D (rows, features), got shape {contexts.shape}")
    rows = contexts[:2000]  # enough for a median, and bounds the matrix below
    distances = cdist(rows, rows)[np.triu_indices(len(rows), k=1)]
    distances = distances[distances > 0]
    return float(np.median(distances)) if distances.size else 1.0
