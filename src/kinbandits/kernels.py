"""Kernels on contexts, as frozen values: k_X of the paper.

A kernel is called with two arrays of rows and gives the matrix of its values; ``diag`` gives k(x, x) of each row and
never builds a matrix. Kernels add, multiply and scale::

    kb.RBF(length_scale=1.5) + 0.1 * kb.Linear()

Notation
    A   (n, d)  rows            ell  length_scale, one number or one per feature
    B   (m, d)  rows            r    distance of two rows after division by ell
    K   (n, m)  K[i, j] = k(A[i], B[j])

Every entry of K depends on its two rows alone, to the last bit (but for `Linear`), so that a matrix grown row by row
equals one computed at once.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import as_float64
from kinbandits._types import Matrix
from kinbandits._value import NotNegative, Positive, Value, positive
from kinbandits.errors import InvalidInputError, InvalidTypeError

__all__ = [
    "RBF", "Constant", "Foreign", "Kernel", "Linear", "Matern", "Product", "RationalQuadratic", "Scaled", "Stationary",
    "Sum", "as_kernel", "cdist", "median_distance",
]  # fmt: skip


class Kernel(Value, ABC):
    """A symmetric positive semidefinite function of two contexts."""

    __array_ufunc__ = None  # numpy.float64(2.0) * k calls ours

    @abstractmethod
    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        """The matrix K[i, j] = k(A[i], B[j])."""

    @abstractmethod
    def diag(self, A: Matrix) -> Matrix:
        """The vector k(A[i], A[i]), without building a matrix."""

    def features(self, A: Matrix) -> Matrix | None:
        """An explicit finite feature map phi with k(x, x') = phi(x) . phi(x'), where there is one."""
        return None

    def from_squares(self, squares: Matrix) -> Matrix | None:
        """The kernel from squared distances of the rows, where it depends on nothing else; None otherwise."""
        return None

    def check_features(self, n_features: int) -> None:
        """Raise if contexts of ``n_features`` columns do not fit this kernel."""

    def __add__(self, other: object) -> Kernel:
        return Sum(self, as_kernel(other)) if callable(other) else NotImplemented

    __radd__ = __add__

    def __mul__(self, other: object) -> Kernel:
        if isinstance(other, int | float | np.integer | np.floating) and not isinstance(other, bool):
            return Scaled(float(other), self)
        return Product(self, as_kernel(other)) if callable(other) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, degree: int) -> Kernel:
        if not isinstance(degree, int) or isinstance(degree, bool) or degree < 1:
            raise InvalidInputError(f"a kernel can be raised to a whole power of at least 1, got {degree!r}")
        power: Kernel = self
        for _ in range(degree - 1):
            power = Product(power, self)
        return power


# -- made of kernels -------------------------------------------------------------------------------


class Pair(Kernel):
    """Two kernels on the same contexts, combined value by value."""

    first: Kernel
    second: Kernel

    def __post_init__(self) -> None:
        self._set(first=as_kernel(self.first), second=as_kernel(self.second))

    @staticmethod
    @abstractmethod
    def combine(first: Any, second: Any, /) -> Any:
        """The sum, or the product."""

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        return np.asarray(self.combine(self.first(A, B), self.second(A, B)))

    def diag(self, A: Matrix) -> Matrix:
        return np.asarray(self.combine(self.first.diag(A), self.second.diag(A)))

    def from_squares(self, squares: Matrix) -> Matrix | None:
        first, second = self.first.from_squares(squares), self.second.from_squares(squares)
        return None if first is None or second is None else np.asarray(self.combine(first, second))

    def check_features(self, n_features: int) -> None:
        self.first.check_features(n_features)
        self.second.check_features(n_features)


class Sum(Pair):
    """The sum of two kernels, written ``k1 + k2``."""

    combine = staticmethod(operator.add)

    def features(self, A: Matrix) -> Matrix | None:
        first, second = self.first.features(A), self.second.features(A)
        return None if first is None or second is None else np.hstack([first, second])


class Product(Pair):
    """The product of two kernels, written ``k1 * k2``."""

    combine = staticmethod(operator.mul)

    def features(self, A: Matrix) -> Matrix | None:
        """All products of one feature of each."""
        first, second = self.first.features(A), self.second.features(A)
        if first is None or second is None:
            return None
        return np.asarray(np.einsum("ip,iq->ipq", first, second).reshape(len(A), -1))


class Scaled(Kernel):
    """A kernel times a number of at least 0, written ``2.0 * k``."""

    factor: NotNegative
    kernel: Kernel

    def __post_init__(self) -> None:
        self._set(factor=positive("factor of a kernel", self.factor, zero=True), kernel=as_kernel(self.kernel))

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        return self.factor * self.kernel(A, B)

    def diag(self, A: Matrix) -> Matrix:
        return self.factor * self.kernel.diag(A)

    def features(self, A: Matrix) -> Matrix | None:
        """The features times the root of the factor."""
        features = self.kernel.features(A)
        return None if features is None else math.sqrt(self.factor) * features

    def from_squares(self, squares: Matrix) -> Matrix | None:
        K = self.kernel.from_squares(squares)
        return None if K is None else self.factor * K

    def check_features(self, n_features: int) -> None:
        self.kernel.check_features(n_features)


class Foreign(Kernel):
    """A scikit-learn kernel, or a plain callable ``f(A, B) -> matrix``, called once per row for its diagonal."""

    function: Callable[[Matrix, Matrix], Any]

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        found = self.function(_read_only(A), _read_only(B))
        try:
            K = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(f"kernel {self.function!r} returned {found!r}, not a matrix of numbers") from error
        if K.shape != (len(A), len(B)):
            raise InvalidInputError(
                f"kernel {self.function!r} returned shape {K.shape} for {len(A)} and {len(B)} rows; it must "
                f"return ({len(A)}, {len(B)})"
            )
        if not np.isfinite(K).all():
            raise InvalidInputError(f"kernel {self.function!r} returned NaN or infinity for finite contexts")
        return K

    def diag(self, A: Matrix) -> Matrix:
        own = getattr(self.function, "diag", None)
        if own is not None:
            return np.asarray(own(A), dtype=np.float64)
        return np.array([float(self(row, row)[0, 0]) for row in A[:, None, :]])


def _read_only(A: Matrix) -> Matrix:
    """The same numbers, which a foreign kernel cannot change: they may be the policy's own."""
    view = A.view()
    view.setflags(write=False)
    return view


def as_kernel(kernel: object) -> Kernel:
    """A kernel of ours from a kernel of ours, a scikit-learn kernel or a callable."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type):
        raise InvalidTypeError(f"{kernel.__name__} is a class; a kernel is a value of it, such as {kernel.__name__}()")
    if callable(kernel):
        return Foreign(kernel)
    raise InvalidTypeError(
        f"a kernel must be a kinbandits kernel, a scikit-learn kernel or a callable f(A, B), got {kernel!r}"
    )


# -- of distances ----------------------------------------------------------------------------------


def _length_scale(value: Any, name: str = "length_scale") -> float | tuple[float, ...]:
    if not isinstance(value, Iterable) or isinstance(value, str):
        return positive(name, value)
    scales = as_float64(name, value)
    if not scales.size or scales.ndim > 1:
        found = f"an array of shape {scales.shape}"
        raise InvalidInputError(f"{name} must be one number, or a list with one per feature, got {found}")
    return tuple(positive(name, v) for v in scales.tolist()) if scales.ndim else positive(name, float(scales))


class Stationary(Kernel):
    """Base of functions of the squared scaled distance, with k(x, x) = 1."""

    length_scale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(length_scale=_length_scale(self.length_scale))

    @abstractmethod
    def _of(self, squares: Matrix) -> Matrix:
        """The kernel from r^2, in place."""

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        if isinstance(self.length_scale, tuple):
            scales = np.asarray(self.length_scale)
            return self._of(cdist(A / scales, B / scales, "sqeuclidean"))
        squares = cdist(A, B, "sqeuclidean")
        squares *= self.length_scale**-2.0
        return self._of(squares)

    def from_squares(self, squares: Matrix) -> Matrix | None:
        """As a call, to the last bit, unless there is a length scale per feature."""
        return None if isinstance(self.length_scale, tuple) else self._of(squares * self.length_scale**-2.0)

    def diag(self, A: Matrix) -> Matrix:
        return np.ones(len(A))

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

    def _of(self, squares: Matrix) -> Matrix:
        squares *= -0.5
        return np.exp(squares, out=squares)

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
        return cls(length_scale=median_distance(as_float64("contexts", contexts)))


class RationalQuadratic(Stationary):
    """k(x, x') = (1 + r^2 / (2 alpha))^-alpha: an RBF mixed over length scales, the wider the smaller alpha is.

    With alpha 1 it is the kernel of distances that `KMTLUCB` begins with: better than the RBF on the paper's data
    sets, about as good on smooth functions.

    >>> RationalQuadratic(length_scale=2.0)(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.6667]])
    """

    alpha: Positive = 1.0

    def _of(self, squares: Matrix) -> Matrix:
        squares *= 0.5 / self.alpha
        squares += 1.0
        if self.alpha == 1.0:
            return np.reciprocal(squares, out=squares)
        return np.power(squares, -self.alpha, out=squares)


class Matern(Stationary):
    """The Matern kernel of smoothness ``nu`` = 1/2, 3/2 or 5/2.

    With s = sqrt(2 nu) r: exp(-s), (1 + s) exp(-s), (1 + s + s^2/3) exp(-s).

    >>> Matern(nu=0.5)(np.zeros((1, 1)), np.ones((1, 1))).round(4)
    array([[0.3679]])
    """

    nu: Positive = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise InvalidInputError(f"nu must be 0.5, 1.5 or 2.5, got {self.nu!r}")

    def _of(self, squares: Matrix) -> Matrix:
        squares *= 2.0 * self.nu
        s = np.sqrt(squares, out=squares)
        K = np.exp(-s)
        if self.nu == 1.5:
            K *= 1.0 + s
        elif self.nu == 2.5:
            K *= 1.0 + s + s * s / 3.0
        return K


# -- of inner products -----------------------------------------------------------------------------


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
            centre = as_float64("centre", self.centre)
            if centre.ndim != 1:
                raise InvalidTypeError(f"centre must be one number per feature, got {self.centre!r}")
            self._set(centre=tuple(centre.tolist()))

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
        _check_widths(A, B)
        return np.full((len(A), len(B)), self.value)

    def diag(self, A: Matrix) -> Matrix:
        return np.full(len(A), self.value)

    def features(self, A: Matrix) -> Matrix:
        return np.full((len(A), 1), math.sqrt(self.value))

    def from_squares(self, squares: Matrix) -> Matrix:
        return np.full(squares.shape, self.value)


# -- distances -------------------------------------------------------------------------------------


def cdist(A: Matrix, B: Matrix, metric: str = "euclidean") -> Matrix:
    """Distances of all pairs of rows. SciPy's are imported when first needed: half the time of importing us."""
    from scipy.spatial import distance

    _check_widths(A, B)
    return np.asarray(distance.cdist(A, B, metric))  # type: ignore[call-overload]


def _check_widths(A: Matrix, B: Matrix) -> None:
    a, b = (M.shape if isinstance(M, np.ndarray) else () for M in (A, B))
    if len(a) != 2 or len(b) != 2 or a[1] != b[1]:
        raise InvalidInputError(
            f"a kernel takes two arrays of rows with as many columns, (n, d) and (m, d); got {a} and {b}"
        )


def median_distance(contexts: Matrix) -> float:
    """The median distance between pairs of different rows; 1.0 where no two rows differ."""
    if contexts.ndim != 2 or not contexts.size:
        raise InvalidInputError(f"contexts must be 2-D (rows, features), got shape {contexts.shape}")
    rows = contexts[:2000]  # enough for a median, and bounds the matrix below
    distances = cdist(rows, rows)[np.triu_indices(len(rows), k=1)]
    distances = distances[distances > 0.0]
    return float(np.median(distances)) if distances.size else 1.0
