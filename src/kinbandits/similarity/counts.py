"""A control for the estimated similarity: counts alone, without a look at contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kinbandits._types import Matrix
from kinbandits._value import positive
from kinbandits.history import History
from kinbandits.similarity.base import Similarity


@dataclass(frozen=True, eq=False, repr=False)
class CountOnly(Similarity):
    """What `Estimated` becomes when its kernel k' finds no two contexts alike: k_Z knows counts, and no contexts.

    k_Z(a, b) = exp(-(1/n_a + 1/n_b) / (2 length_scale^2)), with 0 for 1/n of an arm never played. Use it to see
    whether an estimate says anything about contexts: if this control does as well, it does not.

    Args:
        length_scale: as that of `Estimated`.

    Example:
        >>> history = History.of(2, np.array([0, 0, 1]), np.zeros((3, 1)), np.zeros(3))
        >>> CountOnly(length_scale=1.0).matrix(history).round(4)
        array([[1.    , 0.4724],
               [0.4724, 1.    ]])
    """

    length_scale: float = 1.0

    fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_scale", positive("length_scale", self.length_scale))

    def matrix(self, history: History) -> Matrix:
        counts = history.counts
        inverse = np.where(counts > 0, 1.0 / np.maximum(counts, 1), 0.0)
        K = np.exp(-(inverse[:, None] + inverse[None, :]) / (2.0 * self.length_scale**2))
        np.fill_diagonal(K, 1.0)
        return np.asarray(K)
