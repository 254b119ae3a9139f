"""The one criterion: how well a covariance explains rewards, with their level and scale left open.

Notation (m rows)
    y        (m,)    rewards                      K        (m, m)  prior covariance, in units of s^2
    M        (m, m)  K + ridge I                  level    1' M^-1 y / 1' M^-1 1, the constant that fits best
    fit      (y - level)' M^-1 (y - level)        s^2      fit / (m - 1), the variance of the arms' functions
    evidence -(m - 1)/2 log fit - 1/2 log det M - 1/2 log 1' M^-1 1    (restricted likelihood, profiled over s^2), nats
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.model.when import golden

RIDGES = (0.01, 0.1, 1.0, 10.0)  # of which the best counts, where two covariances are compared


class Fit(NamedTuple):
    """What rows say of a covariance M: see the notation."""

    evidence: float
    level: float
    variance: float  # s^2


NOTHING = Fit(-math.inf, 0.0, 0.0)


def evidence(blocks: Sequence[tuple[Matrix, Vector]], ridge: float) -> Fit:
    """Of rewards in unrelated blocks (K, y), with level and variance left open.

    Rewards should differ, and be of the order of 1.
    """
    squares = crossed = ones = log_det = 0.0
    m = 0
    for K, y in blocks:
        M = K.copy()
        M.reshape(-1)[:: len(y) + 1] += ridge
        L, failed = lapack.dpotrf(M.T, lower=1, overwrite_a=1)
        if failed:
            return NOTHING
        both = np.ones((2, len(y)))
        both[0] = y
        z, _ = lapack.dtrtrs(L, both.T, lower=1)
        (yy, y1), (_, one) = (z.T @ z).tolist()
        squares, crossed, ones, m = squares + yy, crossed + y1, ones + one, m + len(y)
        log_det += 2.0 * float(np.log(L.diagonal()).sum())
    fit = squares - crossed**2 / ones
    if m < 2 or not fit > 1e-12 * squares:  # all rewards are equal, but for rounding: every M explains them
        return NOTHING
    found = -0.5 * ((m - 1) * math.log(fit) + log_det + math.log(ones))
    return Fit(found, crossed / ones, fit / (m - 1))


def best(blocks: Sequence[tuple[Matrix, Vector]], ridges: Sequence[float]) -> tuple[Fit, float]:
    """The evidence at the best of a few ridges, and that ridge."""
    return max(((evidence(blocks, r), r) for r in ridges), key=lambda found: found[0].evidence)


class Rows(NamedTuple):
    """The rows of a fit, rewards scaled to 0..1."""

    arms: Indices
    X: Matrix
    y: Vector
    each: float  # rows an arm, on average, of all rows

    def of_arms(self, most: int) -> Iterator[tuple[int, Indices]]:
        """The rows of each arm: all of them, or so many, evenly spread."""
        order = np.argsort(self.arms, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(self.arms[order])) + 1):
            few = rows if len(rows) <= most else rows[golden(np.arange(len(rows))) < most / len(rows)]
            yield int(self.arms[rows[0]]), few
