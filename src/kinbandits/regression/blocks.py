"""The block-diagonal reference: one inverse per arm, grown with the arm, rebuilt when its noise has aged.

Notation
    B        blockdiag over arms of  B_a = K_a + ridge m_a I,  K_a = the kernel among the rows of arm a
    P[a]     (n_a, n_a)  B_a^-1
    m_a      the count used for arm a's noise: n_a when last rebuilt ("per_arm"), or 1 ("uniform")
    lo, hi   lo B <= M <= hi B

By the Schur product theorem, lo = min(smallest eigenvalue of D^-1/2 K_arm D^-1/2, smallest n_a / m_a) with D the
diagonal of K_arm, and hi likewise with the largest: the similarity never lags, only the noise does.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dger

from kinbandits._types import Matrix, Vector
from kinbandits.regression.linalg import inverted

_GROWTH = 1.15  # rebuild when the noise has grown by more than this
UNIT = 2.0**-53


class BlockInverse:
    """P[a] of one arm."""

    def __init__(self) -> None:
        self._buffer: Matrix = np.empty((0, 0))
        self._u: Vector = np.empty(0)
        self.size = 0
        self.noise = 0.0  # ridge m_a
        self.borders = 0  # rows added since it was rebuilt
        self.rebuilds = 0

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self._buffer.nbytes

    @property
    def inverse(self) -> Matrix:
        """P (a view)."""
        return self._buffer[: self.size, : self.size]

    def stale(self, noise: float) -> bool:
        """Whether the block must be rebuilt for this noise."""
        return self.size == 0 or noise > _GROWTH * self.noise or self.borders > 64 + self.size // 2

    def rebuild(self, K: Matrix, noise: float) -> None:
        """From K_a (n, n), which is overwritten: n^3. Raises LinAlgError if it is not positive definite."""
        n = len(K)
        K[np.diag_indices(n)] += noise
        P = inverted(K)
        self._reserve(n)
        self._buffer[:n, :n] = P
        self.size, self.noise, self.borders = n, noise, 0
        self.rebuilds += 1

    def border(self, k: Vector, corner: float) -> bool:
        """Grow by a row with kernel values k (n,) and ``corner`` = k(x, x) + noise: n^2. False if unsafe."""
        n = self.size
        if n == 0:
            return False
        u = self.inverse @ k
        s = corner - k @ u
        if not s > 1e-8 * corner:
            return False
        self._reserve(n + 1)
        block = self._buffer
        # P + u u' / s, in place: the buffer is whole, so BLAS works on it without a copy (u is 0 beyond n)
        self._u[:n] = u
        self._u[n:] = 0.0
        dger(1.0 / s, self._u, self._u, a=block.T, overwrite_x=0, overwrite_y=0, overwrite_a=1)
        block[n, :n] = block[:n, n] = -u / s
        block[n, n] = 1.0 / s
        self.size, self.borders = n + 1, self.borders + 1
        return True

    def error_bound(self, kernel_bound: float) -> float:
        """A bound on ||P - B_a^-1||_2, to first order in the unit roundoff u.

        An inverse from a Cholesky factor has ||P - B^-1|| <= 8 n^(3/2) u cond ||B^-1|| (Higham, Accuracy and
        Stability, sections 10.1 and 14.3); each bordering adds as much as one row of it. ||B^-1|| <= 1 / noise and
        cond <= 1 + n k / noise, with k the largest k(x, x).
        """
        n = self.size
        cond = 1.0 + n * kernel_bound / self.noise
        return float(8.0 * n**1.5 * UNIT * cond * (1 + self.borders) / self.noise)

    def _reserve(self, n: int) -> None:
        if n > len(self._buffer):
            grown = np.zeros((max(n, int(1.1 * len(self._buffer)), 16),) * 2)
            grown[: self.size, : self.size] = self.inverse
            self._buffer = grown
            self._u = np.zeros(len(grown))
