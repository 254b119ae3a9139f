"""What a kernel is, and what is made of kernels: sums, products, multiples, and functions of other libraries."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from kinbandits._types import Matrix
from kinbandits._value import Value, positive
from kinbandits.errors import InvalidInputError, InvalidTypeError


class Kernel(Value, ABC):
    """A symmetric positive semidefinite function of two contexts."""

    __array_ufunc__ = None  # numpy.float64(2.0) * k is ours to compute

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
        return

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> tuple[Matrix, float] | None:
        """n draws (n, d) from the spectral density and the root of k(x, x), where k is a function of x - x'.

        The kernel is then near the mean of cos(w . (x - x')) over the draws w, times k(x, x).
        """
        return None

    @property
    def parts(self) -> list[Kernel]:
        return [v for v in self._fields().values() if isinstance(v, Kernel)]

    def __add__(self, other: object) -> Kernel:
        return Sum(self, as_kernel(other)) if callable(other) else NotImplemented

    __radd__ = __add__

    def __mul__(self, other: object) -> Kernel:
        if is_number(other):
            return Scaled(float(other), self)  # type: ignore[arg-type]
        return Product(self, as_kernel(other)) if callable(other) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, degree: int) -> Kernel:
        if not isinstance(degree, int) or isinstance(degree, bool) or degree < 1:
            raise InvalidInputError(f"a kernel can be raised to a whole power of at least 1, got {degree!r}")
        power = self
        for _ in range(degree - 1):
            power = Product(power, self)
        return power


class Pair(Kernel):
    """Two kernels on the same contexts, combined value by value."""

    first: Kernel
    second: Kernel

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

    @classmethod
    def made(cls, **fields: Any) -> Any:
        """Also where one of the two is a rule (`kernels.rules`)."""
        return cls.combine(fields["first"], fields["second"])

    def check_features(self, n_features: int) -> None:
        self.first.check_features(n_features)
        self.second.check_features(n_features)


class Sum(Pair):
    """The sum of two kernels, written ``k1 + k2``."""

    combine = staticmethod(operator.add)

    def features(self, A: Matrix) -> Matrix | None:
        first, second = self.first.features(A), self.second.features(A)
        return None if first is None or second is None else np.hstack([first, second])

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> tuple[Matrix, float] | None:
        """Each draw from one of the two, in proportion to k(x, x)."""
        first, second = self.first.frequencies(n, d, rng), self.second.frequencies(n, d, rng)
        if first is None or second is None:
            return None
        (one, a), (other, b) = first, second
        share = a * a / (a * a + b * b)
        return np.where((rng.random(n) < share)[:, None], one, other), math.sqrt(a * a + b * b)


class Product(Pair):
    """The product of two kernels, written ``k1 * k2``."""

    combine = staticmethod(operator.mul)

    def features(self, A: Matrix) -> Matrix | None:
        """All products of one feature of each."""
        first, second = self.first.features(A), self.second.features(A)
        if first is None or second is None:
            return None
        return np.asarray(np.einsum("ip,iq->ipq", first, second).reshape(len(A), -1))

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> tuple[Matrix, float] | None:
        """The sums of the frequencies of both."""
        first, second = self.first.frequencies(n, d, rng), self.second.frequencies(n, d, rng)
        if first is None or second is None:
            return None
        return first[0] + second[0], first[1] * second[1]


class Scaled(Kernel):
    """A kernel times a number of at least 0, written ``2.0 * k``."""

    factor: float
    kernel: Kernel

    def __post_init__(self) -> None:
        self._set(factor=positive("factor of a kernel", self.factor, zero=True))

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

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> tuple[Matrix, float] | None:
        found = self.kernel.frequencies(n, d, rng)
        return None if found is None else (found[0], found[1] * math.sqrt(self.factor))

    @classmethod
    def made(cls, **fields: Any) -> Any:
        """Also a multiple of a rule."""
        return fields["factor"] * fields["kernel"]

    def check_features(self, n_features: int) -> None:
        self.kernel.check_features(n_features)


class Foreign(Kernel):
    """A scikit-learn kernel, or a plain callable ``f(A, B) -> matrix``, called once per row for its diagonal."""

    function: Callable[[Matrix, Matrix], Any]

    def __call__(self, A: Matrix, B: Matrix) -> Matrix:
        K = np.asarray(self.function(_read_only(A), _read_only(B)), dtype=np.float64)
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
    """The same numbers, which a foreign kernel cannot change: they may be the history's own."""
    view = A.view()
    view.setflags(write=False)
    return view


def as_kernel(kernel: object) -> Kernel:
    """A kernel of ours from a kernel of ours, a scikit-learn kernel or a callable."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type):
        raise InvalidTypeError(
            f"{kernel.__name__} is a class; a kernel is a value of it, such as {kernel.__name__}()"
        )
    if callable(kernel):
        return Foreign(kernel)
    raise InvalidTypeError(
        f"a kernel must be a kinbandits kernel, a scikit-learn kernel or a callable f(A, B), got {kernel!r}"
    )


def is_number(other: object) -> bool:
    """Whether it is a number that a kernel can be multiplied by."""
    return isinstance(other, int | float | np.integer | np.floating) and not isinstance(other, bool)
