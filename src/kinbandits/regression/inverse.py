"""The explicit inverse of a symmetric positive definite matrix that grows, shrinks and takes rank-one terms.

Every change costs n^2. Rounding accumulates, so the owner sets it afresh now and then. Rows are slots: when one is
removed, the last takes its place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger

from kinbandits._types import Matrix, Vector


class Inverse:
    """P = M^-1 in a buffer of fixed capacity."""

    def __init__(self, capacity: int) -> None:
        self._buffer: Matrix = np.zeros((capacity, capacity))
        self._scratch: Matrix = np.empty(capacity * capacity)  # fresh memory each time costs more than the sum
        self.size = 0

    @property
    def matrix(self) -> Matrix:
        """P (a view)."""
        return self._buffer[: self.size, : self.size]

    def set(self, P: Matrix) -> None:
        """Start again from a known inverse."""
        self.size = len(P)
        self._buffer[: self.size, : self.size] = P

    def border(self, column: Vector, corner: float, least: float) -> bool:
        """M gains a row: ``column`` and ``corner``. False, and nothing changed, if the Schur complement < least.

        With u = P m and s = corner - m'u:  M^-1 = [[P + u u'/s, -u/s], [-u'/s, 1/s]].
        """
        n = self.size
        u = self.matrix @ column
        s = float(corner - column @ u)
        if not s >= least:
            return False
        self._add_outer(u, u / s)
        self._buffer[n, :n] = self._buffer[:n, n] = -u / s
        self._buffer[n, n] = 1.0 / s
        self.size = n + 1
        return True

    def remove(self, j: int) -> None:
        """M loses row and column j: the rest of P minus g g' / g_j, g the column of j."""
        g = self.matrix[:, j].copy()
        self._add_outer(g, -g / g[j])
        last = self.size - 1
        move_last(self._buffer, j, last, axes=(0, 1))
        self.size = last

    def add(self, k: Vector, weight: float = 1.0, u: Vector | None = None) -> bool:
        """M gains weight * k k' (Sherman and Morrison). False, and nothing changed, if rounding has taken over.

        ``u`` is P k, if it is known. Rounding has taken over when k'P k is negative, or, with a negative weight,
        when M would no longer be positive definite.
        """
        u = self.matrix @ k if u is None else u
        q = float(k @ u)
        s = 1.0 + weight * q
        if not (q >= -1e-9 and s > 1e-8):
            return False
        self._add_outer(u, (-weight / s) * u)
        return True

    def _add_outer(self, left: Vector, right: Vector) -> None:
        add_outer(self.matrix, left, right, self._scratch)


def add_outer(M: Matrix, left: Vector, right: Vector, scratch: Vector) -> None:
    """M += left right', in place: one pass by BLAS where M is contiguous, else by way of ``scratch``."""
    if M.size and M.flags.c_contiguous:
        dger(1.0, right, left, a=M.T, overwrite_a=1)  # M.T is what Fortran calls a matrix
        return
    product = scratch[: M.size].reshape(M.shape)
    np.multiply(left[:, None], right, out=product)
    M += product


def move_last(array: NDArray[np.float64], j: int, last: int, axes: tuple[int, ...]) -> None:
    """Slot ``last`` takes the place of slot j, along each of the axes, in place."""
    for axis in axes:
        view = np.moveaxis(array, axis, 0)
        view[j] = view[last]
