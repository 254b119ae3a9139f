"""A dual vector that is nearly right, and a bound on how wrong it is.

Notation (besides `base`, `matrix`)
    alpha    (t,)    dual vector, near M^-1 y
    res      (t,)    y - M alpha
    eta      bound on sqrt(res' M^-1 res): M >= diag(noise), so eta^2 = sum res_i^2 / noise_i
    ones     bound on sum |alpha_i|

Rounding. u = 2^-53. A sum of n products has error at most n u sum |x_i y_i|. From that:
    Y        `drift` bounds |Y - K_context alpha| in every entry; each change of alpha adds to it, and Y is computed
             anew when drift matters
    res      `rounding` of the residual: drift, and (N + 4) u times the terms it is summed from
    mean     `floor`, (t + N) u times kernel bound times ones
These enter eta and the intervals of the ladder, which so hold for exact arithmetic on the same data.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dasum

from kinbandits._types import Matrix, Vector
from kinbandits.regression.exact.matrix import ArmMatrix
from kinbandits.regression.linalg.cholesky import UNIT


class Error(NamedTuple):
    """How wrong the means can be: see above. ``shares`` (N,) is eta^2 arm by arm, without rounding."""

    eta: float
    rounding: float
    floor: float
    shares: Vector


class Dual:
    """alpha, and Y with it, for a matrix that changes and grows.

    Attributes:
        alpha, rewards, res: with room to grow. Y: per term (N, room), of alpha.
        ones, drift: see above.
        error: None when the residual is of an earlier state.
    """

    def __init__(self, matrix: ArmMatrix, rewards: Vector) -> None:
        self._matrix = matrix
        room, t = len(matrix.rows.arms), len(rewards)
        self.alpha: Vector = np.zeros(room)
        self.rewards: Vector = np.zeros(room)
        self.rewards[:t] = rewards
        self.res: Vector = np.zeros(room)
        self.Y: list[Matrix] = [np.zeros((len(matrix.rows.counts), room)) for _ in matrix.strips]
        self.ones = self.drift = 0.0
        self.largest_reward = float(np.abs(rewards).max(initial=0.0))
        self.error: Error | None = None
        self.recomputed = 0

    @property
    def values(self) -> Vector:
        return self.alpha[: self._matrix.size]

    def reserve(self) -> bool:
        """Room for one more row; whether arrays were replaced. After `ArmMatrix.reserve`."""
        room, before = len(self._matrix.rows.arms), len(self.alpha)
        if room == before:
            return False
        self.alpha, self.rewards, self.res = (
            np.concatenate([a, np.zeros(room - before)]) for a in (self.alpha, self.rewards, self.res)
        )
        self.Y = [np.hstack([Y, np.zeros((len(Y), room - before))]) for Y in self.Y]
        return True

    def append(self, arm: int, values: list[Vector], reward: float, factor: float) -> None:
        """A new last row, given as to `ArmMatrix.append`, which comes next: alpha is ``factor`` times its residual.

        Y follows at the cost of t: the kernel values are at hand.
        """
        t = self._matrix.size
        labels, alpha = self._matrix.rows.labels, self.alpha[:t]
        error = reward
        for K_arm, K, Y in zip(self._matrix.K_arms, values, self.Y, strict=True):
            Y[:, t] = np.bincount(labels, weights=K[:t] * alpha, minlength=len(Y))
            error -= float(K_arm[arm] @ Y[:, t])
        g = factor * error
        for Y, K in zip(self.Y, values, strict=True):
            Y[arm, : t + 1] += g * K
        self.alpha[t], self.rewards[t] = g, reward

    def appended(self, reward: float, g: float) -> None:
        """The arrays have a new row, and the matrix too, with alpha = g there: follow with the bounds."""
        kernel, t = self._matrix.kernel_bound, self._matrix.size
        self.largest_reward = max(self.largest_reward, abs(reward))
        self.drift = max(self.drift, t * UNIT * kernel * self.ones)
        self.ones += abs(g)
        self.drift += UNIT * kernel * (3.0 * abs(g) + self.ones)
        self.error = None

    def residual(self) -> tuple[Vector, Error]:
        """res and what it says; computed once per state, then kept up to date by the steps."""
        if self.error is None:
            self.error = self._compute_residual()
            if self.drift_matters():
                self.recompute()
        return self.res[: self._matrix.size], self.error

    def _compute_residual(self) -> Error:
        matrix, t = self._matrix, self._matrix.size
        res = np.subtract(self.rewards[:t], matrix.row_noise * self.values, out=self.res[:t])
        for K_arm, Y in zip(matrix.K_arms, self.Y, strict=True):
            res -= np.einsum("bi,bi->i", Y[:, :t], K_arm.take(matrix.rows.labels, axis=1))
        self.ones = float(dasum(self.values))
        return self._measure()

    def _measure(self) -> Error:
        """What the residual and the rounding in it can do to a mean."""
        matrix, t, noise = self._matrix, self._matrix.size, self._matrix.noise
        res, n_arms = self.res[:t], len(noise.per_arm)
        shares = np.bincount(matrix.rows.labels, weights=res * res, minlength=n_arms) * noise.lift
        summed = self.largest_reward + (2.0 * matrix.kernel_bound + noise.largest) * self.ones
        entry = len(self.Y) * matrix.row_sum * self.drift + (n_arms + 4) * UNIT * summed
        eta = math.sqrt(shares.sum()) + entry * noise.lift_root
        return Error(eta, entry, (t + n_arms) * UNIT * matrix.kernel_bound * self.ones, shares)

    def drift_matters(self) -> bool:
        """Whether computing Y anew would make a difference: its own error is n u as well."""
        fresh = self._matrix.size * UNIT * self._matrix.kernel_bound * self.ones
        return self.drift * self._matrix.noise.lift_root > 1e-8 and self.drift > 32.0 * fresh

    def recompute(self) -> None:
        """Y from its definition: t^2. The error is that of one sum."""
        rows, t = self._matrix.rows, self._matrix.size
        for strips, Y in zip(self._matrix.strips, self.Y, strict=True):
            for b in np.flatnonzero(rows.counts).tolist():
                Y[b, :t] = strips.times(b, self.alpha[rows[b]])
        self.ones = float(dasum(self.values))
        self.drift = t * UNIT * self._matrix.kernel_bound * self.ones
        self.recomputed += 1
        self.error = self._compute_residual()

    def change(self, arm: int, d: Vector) -> None:
        """alpha += d on the rows of one arm; Y and res follow: n_a t."""
        matrix, t = self._matrix, self._matrix.size
        rows = matrix.rows[arm]
        self.alpha[rows] += d
        for strips, K_arm, Y in zip(matrix.strips, matrix.K_arms, self.Y, strict=True):
            z = strips.times(arm, d)
            Y[arm, :t] += z
            z *= np.take(K_arm[:, arm], matrix.rows.labels)
            self.res[:t] -= z
        self.res[rows] -= matrix.noise.per_arm[arm] * d
        size = float(dasum(d))
        self.ones += size
        self.drift += UNIT * matrix.kernel_bound * ((len(rows) + 2) * size + self.ones)
        self.error = self._measure()

    def move(self, d: Vector) -> None:
        """alpha += d on all rows; Y and res follow: t^2."""
        matrix, t = self._matrix, self._matrix.size
        self.alpha[:t] += d
        size = float(dasum(d))
        self.ones += size
        for strips, Y in zip(matrix.strips, self.Y, strict=True):
            for b in np.flatnonzero(matrix.rows.counts).tolist():
                Y[b, :t] += strips.times(b, d[matrix.rows[b]])
        self.drift += UNIT * matrix.kernel_bound * ((len(d) + 2) * size + self.ones)
        self.error = self._compute_residual()

    def tighten(self, eta: float) -> None:
        """Another bound on sqrt(res' M^-1 res), rounding apart, has been found."""
        _, error = self.residual()
        eta += error.rounding * self._matrix.noise.lift_root
        self.error = error._replace(eta=min(error.eta, eta))
