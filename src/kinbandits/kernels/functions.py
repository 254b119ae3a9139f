"""The kernels: of distances, of inner products, of wide networks. Notation as in `kinbandits.kernels`."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from kinbandits import _compiled as compiled
from kinbandits._types import Matrix
from kinbandits._value import Count, NotNegative, Positive, positive, real
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.kernels.algebra import Kernel


def _length_scale(value: object, name: str = "length_scale") -> float | tuple[float, ...]:
    if np.ndim(value) == 0:  # type: ignore[arg-type]
        return positive(name, value)  # type: ignore[arg-type]
    scales = tuple(positive(name, v) for v in value)  # type: ignore[attr-defined]
    if not scales:
        raise InvalidInputError(f"{name} must not be empty; give one number, or one per feature")
    return scales


class Stationary(Kernel):
    """Base of kernels of the scaled distance, with k(x, x) = 1."""

    length_scale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(length_scale=_length_scale(self.length_scale))

    def _distances(self, A: Matrix, B: Matrix, metric: Literal["euclidean", "sqeuclidean"]) -> Matrix:
        """Distances r (or their squares) of all pairs of rows; one length scale is divided out at the end."""
        if isinstance(self.length_scale, tuple):
            scales = np.asarray(self.length_scale)
            return np.asarray(cdist(np.asarray(A / scales), np.asarray(B / scales), metric))
        r: Matrix = cdist(A, B, metric)
        r *= self.length_scale ** (-2.0 if metric == "sqeuclidean" else -1.0)
        return r

    def diag(self, A: Matrix) -> Matrix:
        return np.ones(len(A))

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> tuple[Matrix, float] | None:
        """Normal with deviation 1/ell, each draw times `_spread`."""
        draws = rng.standard_normal((n, d)) / np.asarray(self.length_scale)
        draws *= self._spread(n, rng)
        return draws, 1.0

    @abstractmethod
    def _spread(self, n: int, rng: np.random.Generator) -> Matrix:
        """What makes the spectral density wider than normal, (n, 1)."""

    def check_features(self, n_features: int) -> None:
        if isinstance(self.length_scale, tuple) and len(self.length_scale) != n_features:
            raise InvalidInputError(
                f"length_scale has {len(self.length_scale)} entries, but contexts have {n_features} features; "
                "give one number, or one per feature"
            )


class RBF(Stationary):
    """The Gaussian kernel, k(x, x') = exp(-r^2 / 2).

    Args:
        length_scale: ell, one number or one per feature. A precision gamma, as scikit-learn's ``rbf_kernel``
            and the authors' scripts have it, is 1 / (2 ell^2): see `RBF.from_precision`.

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

    def _spread(self, n: int, rng: np.random.Generator) -> Matrix:
        return np.ones((n, 1))

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


class RationalQuadratic(Stationary):
    """k(x, x') = (1 + r^2 / (2 alpha))^-alpha: an RBF mixed over length scales, the wider the smaller alpha is.

    With alpha 1 and the median distance as length scale it is what `KMTLUCB` takes where nothing is said: better
    than the RBF on the paper's data sets, about as good on smooth functions (docs, "Ablation").

    >>> RationalQuadratic(length_scale=2.0)(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.6667]])
    """

    alpha: Positive = 1.0

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        return self._of(self._distances(A, B, "sqeuclidean"))

    def from_squares(self, squares: Matrix) -> Matrix | None:
        """As a call, to the last bit, unless there is a length scale per feature."""
        return None if isinstance(self.length_scale, tuple) else self._of(squares * self.length_scale**-2.0)

    def _spread(self, n: int, rng: np.random.Generator) -> Matrix:
        """The root of a gamma variable of shape alpha and mean 1."""
        return np.asarray(np.sqrt(rng.gamma(self.alpha, size=(n, 1)) / self.alpha))

    def _of(self, K: Matrix) -> Matrix:
        K *= 0.5 / self.alpha
        K += 1.0
        if self.alpha == 1.0:
            return np.reciprocal(K, out=K)
        return np.power(K, -self.alpha, out=K)


class Matern(Stationary):
    """The Matern kernel of smoothness ``nu`` = 1/2, 3/2 or 5/2.

    With s = sqrt(2 nu) r: exp(-s), (1 + s) exp(-s), (1 + s + s^2/3) exp(-s).

    >>> Matern(nu=0.5)(np.zeros((1, 1)), np.ones((1, 1))).round(4)
    array([[0.3679]])
    """

    nu: float = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.nu, float) or self.nu not in (0.5, 1.5, 2.5):
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

    def _spread(self, n: int, rng: np.random.Generator) -> Matrix:
        """One over the root of a chi-square of 2 nu degrees over 2 nu."""
        return np.asarray(1.0 / np.sqrt(rng.chisquare(2.0 * self.nu, size=(n, 1)) / (2.0 * self.nu)))


class Linear(Kernel):
    """The inner product, k(x, x') = x . x'. With an intercept: ``Linear() + Constant(1.0)``.

    Args:
        centre: what is subtracted from contexts, one number per feature.
        scale: what they are then divided by, one number or one per feature.

    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    >>> Linear(centre=(1.0, 1.0), scale=2.0).features(np.array([[3.0, 5.0]]))
    array([[1., 2.]])
    """

    centre: tuple[float, ...] | None = None
    scale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        self._set(scale=_length_scale(self.scale, "scale"))
        if self.centre is not None:
            if np.ndim(self.centre) != 1:
                raise InvalidTypeError(f"centre must be one number per feature, got {self.centre!r}")
            self._set(centre=tuple(real("centre", c) for c in self.centre))

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        _check_widths(A, B)
        return np.asarray(self.features(A) @ self.features(B).T)

    def diag(self, A: Matrix) -> Matrix:
        A = self.features(A)
        return np.asarray(np.einsum("ij,ij->i", A, A))

    def features(self, A: Matrix) -> Matrix:
        A = A if self.centre is None else A - np.asarray(self.centre)
        return A if self.scale == 1.0 else np.asarray(A / np.asarray(self.scale))

    def check_features(self, n_features: int) -> None:
        for name in ("centre", "scale"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != n_features:
                raise InvalidInputError(f"{name} has {len(value)} entries, but contexts have {n_features} features")


class Constant(Kernel):
    """The same value for every pair: an unknown offset, when added to another kernel.

    >>> Constant(2.0).diag(np.zeros((3, 1)))
    array([2., 2., 2.])
    """

    value: NotNegative = 1.0

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        return np.full((len(A), len(B)), self.value)

    def diag(self, A: Matrix) -> Matrix:
        return np.full(len(A), self.value)

    def features(self, A: Matrix) -> Matrix:
        return np.full((len(A), 1), math.sqrt(self.value))

    def from_squares(self, squares: Matrix) -> Matrix:
        return np.full(squares.shape, self.value)

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> tuple[Matrix, float]:
        return np.zeros((n, d)), math.sqrt(self.value)


class ArcCosine(Kernel):
    """The kernel of a wide ReLU network with ``depth`` hidden layers, of the context and an intercept.

    With x~ = (x / ell, 1) and u the cosine between x~ and y~, k0(u) = (pi - arccos u) / pi and k1(u) =
    (u (pi - arccos u) + sqrt(1 - u^2)) / pi:

    * arc-cosine (Cho and Saul, 2009), S_0 = u, S_l = k1(S_{l-1}): what a wide random network sees;
    * tangent (Jacot et al., 2018), T_0 = u, T_l = k1(S_{l-1}) + T_{l-1} k0(S_{l-1}): what training one learns,
      divided by its value at u = 1.

    ``length_scale`` divides contexts (`Median` reads it off the data); ``tangent`` takes the second kernel.

    >>> ArcCosine()(np.zeros((1, 1)), np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.7554]])
    """

    length_scale: Positive = 1.0
    depth: Count = 1
    tangent: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tangent, bool):
            raise InvalidTypeError(f"tangent must be True or False, got {self.tangent!r}")

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        # From distances, pair by pair: x~ . y~ = (|x~|^2 + |y~|^2 - |x - y|^2 / ell^2) / 2
        a, b = self._squares(A), self._squares(B)
        u = 0.5 * (a[:, None] + b - cdist(A, B, "sqeuclidean") / self.length_scale**2)
        S = T = np.clip(u / np.sqrt(a[:, None] * b), -1.0, 1.0)
        for _ in range(self.depth):
            turned = math.pi - np.arccos(S)
            next_S = (S * turned + np.sqrt(np.maximum(1.0 - S**2, 0.0))) / math.pi
            T = next_S + T * turned / math.pi
            S = np.clip(next_S, -1.0, 1.0)
        return np.asarray(T / (self.depth + 1.0) if self.tangent else S)

    def _squares(self, A: Matrix) -> Matrix:
        """|x~|^2 of each row."""
        origin = np.zeros((1, A.shape[1]))
        return np.asarray(cdist(A, origin, "sqeuclidean")[:, 0] / self.length_scale**2 + 1.0)

    def diag(self, A: Matrix) -> Matrix:
        return np.ones(len(A))


def _check_widths(A: Matrix, B: Matrix) -> None:
    a, b = np.shape(A), np.shape(B)
    if len(a) != 2 or len(b) != 2 or a[1] != b[1]:
        raise InvalidInputError(
            f"a kernel takes two arrays (rows, features) with the same features, got shapes {a} and {b}"
        )


def cdist(A: Matrix, B: Matrix, metric: str = "euclidean") -> Matrix:
    """Distances of all pairs of rows. SciPy's are imported when first needed: half the time of importing us."""
    _check_widths(A, B)
    if metric == "sqeuclidean" and compiled.CORE is not None and _plain(A) and _plain(B):
        squares = np.empty((len(A), len(B)))
        compiled.CORE.squares(A, B, len(B), squares)
        return squares
    from scipy.spatial import distance

    return np.asarray(distance.cdist(A, B, metric))  # type: ignore[call-overload]


def _plain(A: Matrix) -> bool:
    return A.flags.c_contiguous and A.dtype == np.float64 and A.dtype.byteorder == "="


def median_distance(contexts: Matrix) -> float:
    """The median distance between pairs of different rows; 1.0 where no two rows differ."""
    if contexts.ndim != 2:
        raise InvalidInputError(f"contexts must be 2-D (rows, features), got shape {contexts.shape}")
    rows = contexts[:2000]  # enough for a median, and bounds the matrix below
    distances = cdist(rows, rows)[np.triu_indices(len(rows), k=1)]
    distances = distances[distances > 0]
    return float(np.median(distances)) if distances.size else 1.0
