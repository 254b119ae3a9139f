"""A Cholesky factor that grows by rows, kept row by row in one piece: for the compiled core, one column at a time.

The same as `GrowingCholesky`, which is the better one for large matrices and many columns.
"""

from __future__ import annotations

import numpy as np

from kinbandits import _compiled as compiled
from kinbandits._types import Matrix, Vector

_MANY = 64  # rows


class PackedCholesky:
    """The factor L of a symmetric positive definite matrix that grows."""

    def __init__(self) -> None:
        self.size = 0
        self.smallest_pivot = np.inf
        self._rows: Vector = np.empty(128)  # row i from i (i + 1) / 2 on

    @staticmethod
    def _solve(what: str, rows: Vector, low: int, n: int, b: Vector, c: Vector) -> float:
        """See `packed` in the core."""
        assert compiled.CORE is not None
        return float(compiled.CORE.packed(what, rows, low, n, b, c))

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self._rows.nbytes

    def append(self, rows: Matrix) -> None:
        """Grow by m rows, given with all columns up to themselves, (m, t + m): t^2 each.

        Raises LinAlgError, and changes nothing, if the grown matrix is not positive definite in floating point.
        """
        before, end = self.size, self.size + len(rows)
        if (needed := end * (end + 1) // 2) > len(self._rows):
            grown = np.empty(max(needed, 2 * len(self._rows)))
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        if not before and end > _MANY:  # LAPACK is the faster one for a whole matrix
            L = np.linalg.cholesky(rows)
            self._rows[:needed] = L[np.tril_indices(end)]
            self.size, self.smallest_pivot = end, float(L.diagonal().min()) ** 2
            return
        smallest = self.smallest_pivot
        for row in rows:
            n = self.size
            work = np.empty(n + 1)
            work[n] = row[n]
            pivot = self._solve("g", self._rows, 0, n, row, work)
            if not pivot > 0.0:
                self.size = before
                raise np.linalg.LinAlgError("not positive definite")
            smallest = min(smallest, pivot)
            self.size = n + 1
        self.smallest_pivot = smallest

    def forward(self, B: Matrix) -> Matrix:
        """L^-1 B for B (t, m): t^2 m flops."""
        C = np.empty((B.shape[1], self.size))
        for b, c in zip(np.ascontiguousarray(B.T), C, strict=True):
            self._solve("f", self._rows, 0, self.size, b, c)
        return C.T

    def explained(self, k: Vector) -> float:
        """|L^-1 k|^2."""
        return self._solve("f", self._rows, 0, self.size, k, np.empty(self.size))

    def extend(self, z: Vector, y: Vector) -> Vector:
        """L^-1 y, given z = L^-1 y of the first rows: t a new row."""
        longer = np.empty(len(y))
        longer[: len(z)] = z
        self._solve("f", self._rows, len(z), len(y), y, longer)
        return longer

    def backward(self, B: Matrix) -> Matrix:
        """L^-T B for B (t, m): t^2 m flops."""
        C = np.empty((B.shape[1], self.size))
        for b, c in zip(np.ascontiguousarray(B.T), C, strict=True):
            self._solve("b", self._rows, 0, self.size, b, c)
        return C.T

    def log_det(self) -> float:
        """log det of the matrix, from the diagonal of L."""
        i = np.arange(self.size)
        return float(2.0 * np.log(self._rows[i * (i + 3) // 2]).sum())
