"""Kernels of wide neural networks with ReLU units: arc-cosine, and the neural tangent kernel.

Notation (x~ = (x / ell, 1): the context and an intercept)
    u        x~ . y~ / (|x~| |y~|)
    k0(u)    (pi - arccos u) / pi
    k1(u)    (u (pi - arccos u) + sqrt(1 - u^2)) / pi

    arc-cosine (Cho and Saul, 2009)    S_0 = u, S_l = k1(S_{l-1}): what a wide random network sees
    tangent (Jacot et al., 2018)       T_0 = u, T_l = k1(S_{l-1}) + T_{l-1} k0(S_{l-1}): what training one learns

Both are divided by their value at u = 1, so that k(x, x) = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kinbandits._checks import as_int
from kinbandits._types import Matrix
from kinbandits._value import positive
from kinbandits.errors import InvalidTypeError
from kinbandits.kernels.algebra import Kernel
from kinbandits.kernels.functions import cdist


@dataclass(frozen=True, eq=False, repr=False)
class ArcCosine(Kernel):
    """The kernel of a wide ReLU network with ``depth`` hidden layers, of the context and an intercept.

    Args:
        length_scale: contexts are divided by it; `Median` reads it off the data.
        depth: hidden layers.
        tangent: the neural tangent kernel, in place of the arc-cosine kernel.

    Example:
        >>> import numpy as np
        >>> ArcCosine()(np.zeros((1, 1)), np.array([[0.0], [1.0]])).round(4)
        array([[1.    , 0.7554]])
    """

    length_scale: float = 1.0
    depth: int = 1
    tangent: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_scale", positive("length_scale", self.length_scale))
        object.__setattr__(self, "depth", as_int("depth", self.depth, 1))
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
