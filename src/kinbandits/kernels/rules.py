"""Kernels that are read off the data: a rule has a `fit` that looks at rows and gives a kernel.

A rule stands where a kernel is asked for (``context_kernel=kb.Median()``); a policy fits it to its first rows,
again as they grow, so that it is still a pure function of its data. Rules add, multiply and scale as kernels do.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import Value, positive
from kinbandits.errors import InvalidTypeError
from kinbandits.kernels.algebra import Kernel, as_kernel, is_number
from kinbandits.kernels.functions import RBF, RationalQuadratic, Stationary, median_distance

_OPERATIONS = {"+": operator.add, "*": operator.mul}


class KernelRule(Value, ABC):
    """How a kernel is read off the data."""

    __array_ufunc__ = None  # numpy.float64(2.0) * rule is ours to compute

    @abstractmethod
    def fit(self, X: Matrix, arms: Indices | None = None, rewards: Vector | None = None) -> Kernel:
        """The kernel to use after these rows, of which ``X`` has the contexts."""

    @abstractmethod
    def refits(self, before: int, after: int) -> bool:
        """Whether `fit` may give another kernel when ``before`` rows have grown to ``after``."""

    def check_features(self, n_features: int) -> None:
        """Raise if contexts of ``n_features`` columns do not fit this rule."""

    def __add__(self, other: object) -> KernelRule:
        return Combined(self, as_kernel_or_rule(other), "+") if _allowed(other) else NotImplemented

    def __radd__(self, other: object) -> KernelRule:
        return Combined(as_kernel_or_rule(other), self, "+") if _allowed(other) else NotImplemented

    def __mul__(self, other: object) -> KernelRule:
        if is_number(other):
            return self.__rmul__(other)
        return Combined(self, as_kernel_or_rule(other), "*") if _allowed(other) else NotImplemented

    def __rmul__(self, other: object) -> KernelRule:
        if is_number(other):
            return Combined(float(other), self, "*")  # type: ignore[arg-type]
        return Combined(as_kernel_or_rule(other), self, "*") if _allowed(other) else NotImplemented


class Combined(KernelRule):
    """The sum or product of two rules, or of a rule and a kernel or number, written ``rule + kernel``."""

    first: Any
    second: Any
    operation: Literal["+", "*"] = "+"

    def fit(self, X: Matrix, arms: Indices | None = None, rewards: Vector | None = None) -> Kernel:
        """The sum or product of the kernels that its parts give."""
        fitted = (p.fit(X, arms, rewards) if isinstance(p, KernelRule) else p for p in (self.first, self.second))
        kernel: Kernel = _OPERATIONS[self.operation](*fitted)
        return kernel

    def refits(self, before: int, after: int) -> bool:
        return any(p.refits(before, after) for p in (self.first, self.second) if isinstance(p, KernelRule))

    def check_features(self, n_features: int) -> None:
        for part in (self.first, self.second):
            if isinstance(part, KernelRule | Kernel):
                part.check_features(n_features)


class Median(KernelRule):
    """A kernel whose length scale is the median distance of the first contexts learned from.

    It follows the data until ``rows`` rows have been learned, and is fixed from then on.

    Args:
        rows: how many are looked at.
        kernel: `RBF`, `RationalQuadratic`, `Matern` or `ArcCosine`; its length scale is in units of the median.
        coarse: while it follows the data, round it to a power of 2^(1/4). It then seldom changes, which saves time.
        uneven: where the widest feature is more than so many times as wide as the usual one, each is measured in
            its own width (standard deviation), or cents beside years would be all a distance shows. None: never.

    >>> import numpy as np
    >>> Median().fit(np.array([[0.0], [3.0]]))
    RBF(length_scale=3.0)
    >>> Median(kernel=RationalQuadratic(0.5)).fit(np.array([[0.0], [3.0]]))
    RationalQuadratic(length_scale=1.5)
    >>> Median(coarse=True).fit(np.array([[0.0], [3.0]]))
    RBF(length_scale=2.82...)
    >>> Median(uneven=30.0).fit(np.array([[0.0, 0.0], [1.0, 5000.0]] * 5)).length_scale
    (1.57..., 6463.5...)
    """

    rows: int = 60
    kernel: Any = RBF()
    coarse: bool = False
    uneven: float | None = None

    def __post_init__(self) -> None:
        if self.uneven is not None:
            self._set(uneven=positive("uneven", self.uneven))
            if not isinstance(self.kernel, Stationary):
                raise InvalidTypeError(
                    f"uneven needs a kernel with one length scale per feature, as kb.RBF(); got {self.kernel!r}"
                )
        if not isinstance(self.kernel, Kernel) or not hasattr(self.kernel, "length_scale"):
            raise InvalidTypeError(
                f"kernel must have a length scale (in units of the median), such as kb.RBF(); got {self.kernel!r}"
            )

    def fit(self, X: Matrix, arms: Indices | None = None, rewards: Vector | None = None) -> Kernel:
        """The kernel of the first rows; their median distance is taken as 1 while no two of them differ."""
        seen, scale = X[: self.rows], self.kernel.length_scale
        widths = None if self.uneven is None else uneven_widths(seen, self.uneven)
        if widths is not None:
            seen, scale = seen / widths, tuple((np.asarray(scale) * widths).tolist())
        median = median_distance(seen) if len(seen) else 1.0
        if self.coarse and len(X) < self.rows:
            median = 2.0 ** (round(4.0 * math.log2(median)) / 4.0)
        scaled = tuple(s * median for s in scale) if isinstance(scale, tuple) else scale * median
        fitted: Kernel = self.kernel.replace(length_scale=scaled)
        return fitted

    def refits(self, before: int, after: int) -> bool:
        return before < self.rows

    def check_features(self, n_features: int) -> None:
        self.kernel.check_features(n_features)


DEFAULT_KERNEL = Median(kernel=RationalQuadratic(alpha=1.0), coarse=True, uneven=30.0)
"""Where nothing else is said. Why this one: see the ablation page of the documentation.

Widths 30 times apart: the usual feature is then a thousandth of a squared distance, and nothing is learned from it.
Those of principal components are 2 to 7 times apart, and mean something: there own widths cost up to 45 %.
"""


def uneven_widths(X: Matrix, uneven: float) -> Vector | None:
    """The width of each feature, rounded to a power of 2; None where no feature is too wide for the others.

    The usual width is the (lower) median of the features that vary. One that does not is as wide as the usual one.
    Of fewer than 10 rows the widths are chance: None.

    >>> uneven_widths(np.array([[0.0, 0.0, 1.0], [1.0, 5000.0, 1.0]] * 5), 100.0)
    array([5.000e-01, 2.048e+03, 5.000e-01])
    """
    if len(X) < 10:
        return None
    deviations = X.std(axis=0)
    deviations[deviations <= 1e-9 * np.abs(X).max(axis=0)] = 0.0  # rounding
    varying = np.sort(deviations[deviations > 0.0])
    if not len(varying) or varying[-1] <= uneven * (usual := varying[(len(varying) - 1) // 2]):
        return None
    return np.asarray(2.0 ** np.round(np.log2(np.where(deviations > 0.0, deviations, usual))))


def as_kernel_or_rule(kernel: object) -> Kernel | KernelRule:
    """A rule as it is; a kernel of ours from anything else."""
    return kernel if isinstance(kernel, KernelRule) else as_kernel(kernel)


def _allowed(other: object) -> bool:
    return isinstance(other, KernelRule) or callable(other)
