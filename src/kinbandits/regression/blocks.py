"""A matrix B that is like M and easy to invert: one block per arm.

Notation (besides `strips`)
    B        blockdiag over arms of  B_a = K_Z[a, a] K_X[rows of a, rows of a] + b_a I
    P[a]     (n_a, n_a)  B_a^-1
    b_a      the noise of arm a as it will be half-way to the next rebuilding ("per_arm"), or as it is ("uniform")
    lo, hi   lo B <= M <= hi B

By the Schur product theorem, lo = min(smallest eigenvalue of D^-1/2 K_Z D^-1/2, smallest noise_a / b_a), D the
diagonal of K_Z, and hi likewise with the largest: the similarity never lags, only the noise does. A new row borders
P[a]: with u = P k and s = corner - k'u the inverse is [[P + u u'/s, -u/s], [-u'/s, 1/s]], n_a^2. A block is built
anew, n_a^3, when its noise has grown by 15 %, when rounding took over, or after many borders.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dsyev

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.linalg import UNIT, inverse_factor, jittered
from kinbandits.regression.strips import Strips

_AHEAD = 1.15  # b_a over the noise at a rebuilding, and the noise over b_a at the next


class Blocks:
    """P of each arm. ``noise`` (N,) is edited by its owner, and grows."""

    def __init__(self, strips: Strips, diagonal: Vector, noise: Vector, per_arm: bool) -> None:
        self._strips, self._noise, self._ahead = strips, noise, _AHEAD if per_arm else 1.0
        self._buffers: list[Matrix] = [np.empty((0, 0)) for _ in noise]
        self._sizes = [0] * len(noise)
        self._b, self._borders = np.ones(len(noise)), np.zeros(len(noise))
        self._diagonal = diagonal.copy()  # of K_Z
        self._stale = set(np.flatnonzero(strips.counts).tolist())
        self._limits: tuple[float, float] | None = None  # of the similarity

    def row(self, arm: int, K_Z: Matrix, k: Vector, corner: float) -> None:
        """The last row of the strips is new: its kernel values k with earlier rows of its arm, without noise."""
        self._limits = None
        if (changed := K_Z.diagonal() != self._diagonal).any():
            self._stale.update(np.flatnonzero(changed & (self._strips.counts > 0)).tolist())
            self._diagonal = K_Z.diagonal().copy()
        n = len(k)
        if arm in self._stale or self._sizes[arm] != n or not n:
            self._stale.add(arm)
            return
        P, corner = self.P(arm), corner + float(self._b[arm])
        u = P @ k
        s = float(corner - k @ u)
        self._borders[arm] += 1
        aged = self._noise[arm] > _AHEAD * self._b[arm]
        if not s >= 1e-8 * corner or aged or self._borders[arm] > 64 + n // 2:
            self._stale.add(arm)
            return
        if n == len(self._buffers[arm]):
            self._keep(arm, P)
        buffer = self._buffers[arm]
        wide = np.zeros(len(buffer))  # whole lines, which BLAS changes in place
        wide[:n] = u
        dger(1.0 / s, wide, u, a=buffer[:n].T, overwrite_a=1)
        buffer[n, :n] = buffer[:n, n] = -u / s
        buffer[n, n] = 1.0 / s
        self._sizes[arm] = n + 1

    def _keep(self, arm: int, P: Matrix) -> None:
        """The block of an arm, in a buffer with room for more."""
        n = self._sizes[arm] = len(P)
        self._buffers[arm] = np.zeros((int(1.3 * n) + 16,) * 2)
        self._buffers[arm][:n, :n] = P

    def P(self, arm: int) -> Matrix:  # noqa: N802
        """The block of an arm (a view); `refresh` first."""
        n = self._sizes[arm]
        return self._buffers[arm][:n, :n]

    def refresh(self) -> None:
        """Build the blocks that need it."""
        while self._stale:
            arm = self._stale.pop()
            K, b = np.tril(self._strips.within(arm)) * self._diagonal[arm], float(self._noise[arm]) * self._ahead

            def attempt(jitter: float, K: Matrix = K, b: float = b) -> Matrix:
                T = inverse_factor(K + np.diag(np.full(len(K), b + jitter)))
                return T.T @ T

            # B may be any matrix like M: jitter changes no answer.
            P, jitter = jittered(attempt, float(K.diagonal().max()) + b, len(K), quiet=True)
            self._keep(arm, P)
            self._b[arm], self._borders[arm] = b + jitter, 0

    def bounds(self, K_Z: Matrix) -> tuple[float, float]:
        """lo and hi; lo is 0 where the similarity is singular."""
        if self._limits is None:
            scale = K_Z.diagonal()
            if (scale != 1.0).any():
                root = np.sqrt(np.maximum(scale, 1e-300))
                K_Z = K_Z / np.outer(root, root)
            values = dsyev(K_Z, compute_v=0)[0]  # without the checks of NumPy's, which cost as much
            slack = 1e-13 * len(K_Z)
            self._limits = max(float(values[0]) - slack, 0.0), float(values[-1]) + slack
        played = self._strips.counts > 0
        ratio = self._noise[played] / self._b[played]
        return min(self._limits[0], float(ratio.min())), max(self._limits[1], float(ratio.max()))

    def error(self, kernel_bound: float) -> float:
        """A bound on ||P_a - B_a^-1||_2 for all arms, to first order in the unit roundoff.

        An inverse from a Cholesky factor has ||P - B^-1|| <= 8 n^(3/2) u cond ||B^-1|| (Higham, Accuracy and
        Stability, sections 10.1 and 14.3); each bordering adds as much as one row of it. ||B^-1|| <= 1 / b and
        cond <= 1 + n k / b, with k the largest k(x, x).
        """
        n = self._strips.counts
        cond = 1.0 + n * kernel_bound / self._b
        return float((8.0 * n**1.5 * UNIT * cond * (1.0 + self._borders) / self._b).max())

    def forms(self, v: Vector) -> Vector:
        """v_a' P[a] v_a of every arm, for v (t,): sum of n_a^2."""
        found = np.zeros(len(self._noise))
        for a in np.flatnonzero(self._strips.counts).tolist():
            part = v.take(self._strips.rows(a))
            found[a] = part @ (self.P(a) @ part)
        return found

    def apply(self, R: Matrix) -> Matrix:
        """B^-1 R for R (t, m); arms that R does not touch are left out."""
        Z = np.zeros_like(R)
        for a in np.flatnonzero(self._strips.counts).tolist():
            rows: Indices = self._strips.rows(a)
            if (part := R[rows]).any():
                Z[rows] = self.P(a) @ part
        return Z
