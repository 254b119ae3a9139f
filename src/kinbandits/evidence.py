"""How well a kernel and a ridge explain rewards: evidence, with the level and the scale of rewards left open.

Notation (m rows)
    K_a      (m_a, m_a)  kernel values of arm a's rows; M_a = K_a + ridge I
    y        (m,)        rewards
    level    1' M^-1 y / 1' M^-1 1, the constant that fits best
    fit      (y - level)' M^-1 (y - level), summed over arms
    s^2      fit / (m - 1), the variance of the arms' functions: rewards have covariance s^2 M
    evidence -(m - 1)/2 log fit - 1/2 log det M - 1/2 log 1' M^-1 1   (restricted likelihood, profiled over s^2)

Arms are taken as unrelated, whatever the similarity in force: noise and shape show within an arm, and each M_a is
small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from kinbandits._types import Matrix, Vector
from kinbandits._work import Work

__all__ = ["Sums", "sums"]


class Sums(NamedTuple):
    """Over all arms, for one ridge: y' M^-1 y, 1' M^-1 y, 1' M^-1 1, log det M."""

    squares: float
    crossed: float
    ones: float
    log_det: float

    @property
    def level(self) -> float:
        return self.crossed / self.ones

    @property
    def fit(self) -> float:
        return max(self.squares - self.crossed**2 / self.ones, 1e-12 * self.squares)

    def evidence(self, m: int) -> float:
        return -0.5 * ((m - 1) * math.log(self.fit) + self.log_det + math.log(self.ones))


def sums(blocks: Sequence[tuple[Matrix, Vector]], ridge: float) -> Work[Sums]:
    """Of these blocks, (K_a, y_a) for each arm."""
    squares = crossed = ones = log_det = 0.0
    for K, y in blocks:
        M = K.copy()
        M.reshape(-1)[:: len(y) + 1] += ridge
        L, failed = lapack.dpotrf(M.T, lower=1, overwrite_a=1)
        if failed:
            return Sums(1.0, 0.0, 1.0, np.inf)
        both = np.ones((2, len(y)))
        both[0] = y
        z, _ = lapack.dtrtrs(L, both.T, lower=1)
        (yy, y1), (_, one) = (z.T @ z).tolist()
        squares, crossed, ones = squares + yy, crossed + y1, ones + one
        log_det += 2.0 * float(np.log(L.diagonal()).sum())
        yield len(y) ** 3 / 3
    return Sums(squares, crossed, ones, log_det)
