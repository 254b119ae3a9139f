"""The explicit inverse of a symmetric positive definite matrix that grows by rows. It has never heard of arms.

Notation
    P      (n, n)  inverse of the matrix as it was given, whole
    u      B^-1 k of a new row with values k to the earlier rows;  s = corner - k'u, its Schur complement
    G      (m, t)  row j is (-u, 1, 0 ..) of the j-th row appended since, t = n + m

The inverse of the grown matrix is [P 0; 0 0] + sum_j G_j G_j' / s_j: a new row costs one product and no update of
P, and a product with the inverse is one pass over P and one over G.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits.regression.linalg import inverted


class GrowingInverse:
    """B^-1 of a matrix B that is given once, and then grows.

    Example:
        >>> B = GrowingInverse(np.array([[4.0]]))
        >>> B.append(np.array([2.0]), 5.0)
        >>> B.times(np.array([[4.0], [7.0]])).ravel()
        array([0.375, 1.25 ])
    """

    def __init__(self, M: Matrix) -> None:
        """Of M, which is overwritten: n^3. Raises LinAlgError if it is not positive definite in floating point."""
        self.P: Matrix = inverted(M)
        self.given = self.size = len(M)
        self._G: Matrix = np.zeros((0, 0))
        self._s: Vector = np.zeros(0)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.P.nbytes + self._G.nbytes

    @property
    def appended(self) -> int:
        """Rows appended since."""
        return self.size - self.given

    def append(self, k: Vector, corner: float, least: float = 0.0, u: Vector | None = None) -> None:
        """Grow by a row with values k (t,) and ``corner``; ``u`` is B^-1 k if it is known: t^2 if not.

        Raises LinAlgError, and changes nothing, if the Schur complement is not above ``least``, because rounding
        has taken over.
        """
        u = self.times(k[:, None])[:, 0] if u is None else u
        s = float(corner - k @ u)
        if not s > least:
            raise np.linalg.LinAlgError("not safely positive definite")
        m = self.appended
        if m == len(self._G):
            grown = np.zeros((2 * m + 16, self.given + 2 * m + 16))
            grown[:m, : self._G.shape[1]] = self._G
            self._G, self._s = grown, np.append(self._s, np.ones(m + 16))
        np.negative(u, out=self._G[m, : self.size])
        self._G[m, self.size] = 1.0
        self._s[m] = s
        self.size += 1

    def times(self, R: Matrix) -> Matrix:
        """B^-1 R for R (t, m)."""
        Z = np.zeros_like(R)
        Z[: self.given] = self.P @ R[: self.given]
        return self._with_rows(Z, R)

    def times_parts(self, parts: Vector, starts: list[int], masked: Matrix) -> Matrix:
        """B^-1 times the columns of ``masked`` (t, N), whose given rows are those of ``parts`` slice by slice.

        Column a is zero among the given rows but for starts[a] to starts[a + 1]: one pass over P in all.
        """
        W = np.zeros_like(masked)
        out = np.empty((masked.shape[1], self.given))
        for a in range(masked.shape[1]):
            mine = slice(starts[a], starts[a + 1])
            np.matmul(parts[mine], self.P[mine], out=out[a])
        W[: self.given] = out.T
        return self._with_rows(W, masked)

    def _with_rows(self, Z: Matrix, R: Matrix) -> Matrix:
        m = self.appended
        if m:
            G = self._G[:m, : self.size]
            Z += G.T @ ((G @ R) / self._s[:m, None])
        return Z
