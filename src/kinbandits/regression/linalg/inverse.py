"""Explicit inverses of symmetric positive definite matrices that grow.

Notation
    P      (n, n)  the inverse
    u      P m of a new row with values m to the earlier ones;  s = corner - m'u, its Schur complement

The inverse of the grown matrix is [[P + u u'/s, -u/s], [-u'/s, 1/s]]. `Inverse` writes that down at once;
`GrowingInverse` keeps the vectors (-u, 1) apart, where P is too large to be written with each row. Rounding
accumulates in both, so the owner sets them afresh now and then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dpotrf, dpotri

from kinbandits._types import Matrix, Vector


def inverted(M: Matrix) -> Matrix:
    """The inverse of a positive definite M (C order), in its memory: n^3. Raises LinAlgError if M is not.

    Only the lower triangle of M is read.

    >>> inverted(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[ 0.3125, -0.125 ],
           [-0.125 ,  0.25  ]])
    """
    L, info = dpotrf(M.T, lower=0, clean=0, overwrite_a=1)  # for LAPACK it is the upper one of M'
    if info:
        raise np.linalg.LinAlgError("not positive definite")
    inverse, _ = dpotri(L, lower=0, overwrite_c=1)
    P: Matrix = inverse.T
    block = 64  # made symmetric in place, block by block (a block fits the cache)
    for low in range(0, len(P), block):
        high = min(low + block, len(P))
        own = P[low:high, low:high]
        np.copyto(own, own.T, where=_ABOVE[: high - low, : high - low])
        P[low:high, high:] = P[high:, low:high].T
    return P


_ABOVE = np.triu(np.ones((64, 64), dtype=bool), 1)


class SquareBuffer:
    """A matrix with room to grow."""

    def __init__(self, capacity: int) -> None:
        self.buffer: Matrix = np.zeros((capacity, capacity))
        self.size = 0

    @property
    def matrix(self) -> Matrix:
        return self.buffer[: self.size, : self.size]

    def set(self, P: Matrix) -> None:
        self.size = 0
        self.reserve(len(P))
        self.size = len(P)
        self.buffer[: self.size, : self.size] = P

    def reserve(self, n: int) -> bool:
        """Room for n rows; whether the buffer was replaced."""
        if n <= len(self.buffer):
            return False
        grown = np.zeros((max(n, int(1.3 * len(self.buffer)), 16),) * 2)
        grown[: self.size, : self.size] = self.matrix
        self.buffer = grown
        return True


class Inverse(SquareBuffer):
    """P in a buffer that grows when it must."""

    def border(self, column: Vector, corner: float, least: float) -> bool:
        """M gains a row: ``column`` and ``corner``. False, and nothing changed, if the Schur complement < least."""
        n = self.size
        u = self.matrix @ column
        s = float(corner - column @ u)
        if not s >= least:
            return False
        self.reserve(n + 1)
        if n:
            wide = np.zeros(len(self.buffer))  # whole lines, which BLAS changes in place
            wide[:n] = u
            dger(1.0 / s, wide, u, a=self.buffer[:n].T, overwrite_a=1)
        self.buffer[n, :n] = self.buffer[:n, n] = -u / s
        self.buffer[n, n] = 1.0 / s
        self.size = n + 1
        return True


def move_last(array: NDArray[np.float64], j: int, last: int, axes: tuple[int, ...]) -> None:
    """Slot ``last`` takes the place of slot j, along each of the axes, in place."""
    for axis in axes:
        view = np.moveaxis(array, axis, 0)
        view[j] = view[last]


class GrowingInverse:
    """P of a matrix that is given once, and then grows: [P 0; 0 0] + sum_j G_j G_j' / s_j, G_j = (-u, 1, 0 ..).

    A new row costs one product and no update of P, and a product with the inverse is one pass over P and one over G
    (m, t), m the rows appended.

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
        return self.P.nbytes + self._G.nbytes

    @property
    def appended(self) -> int:
        return self.size - self.given

    def append(self, k: Vector, corner: float, least: float = 0.0, u: Vector | None = None) -> None:
        """Grow by a row of values k and ``corner``; ``u`` is P k if known: else t^2. LinAlgError if s <= least."""
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
        """P R for R (t, m)."""
        Z = np.zeros_like(R)
        Z[: self.given] = self.P @ R[: self.given]
        return self._with_rows(Z, R)

    def times_parts(self, parts: Vector, starts: list[int], masked: Matrix) -> Matrix:
        """P times the columns of ``masked`` (t, N), whose given rows are those of ``parts`` slice by slice.

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
