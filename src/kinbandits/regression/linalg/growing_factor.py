"""A Cholesky factor that grows by rows, kept in panels.

Notation
    t      rows so far                 W   panel height (rows)
    L      (t, t) lower factor; panel p holds its rows p W .. (p + 1) W as two contiguous arrays:
           ``left[p]`` (W, p W), what stands left of the diagonal block, and ``diagonal[p]`` (W, W)

A new row is l = L^-1 k, d = sqrt(k(x, x) - l'l): the row-wise Cholesky algorithm itself, so a factor grown
row by row is as good as one computed at once. Rows beside the last one are the identity, so that a panel
is always whole. Panels are separate arrays because LAPACK wrappers copy a matrix that is a slice of a larger
buffer; growing allocates one panel, never a copy of what is there.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dtrsm

from kinbandits._types import Matrix, Vector

_HEIGHT = 128


class GrowingCholesky:
    """The factor L of a symmetric positive definite matrix that grows.

    Example:
        >>> M = np.array([[4.0, 2.0], [2.0, 5.0]])
        >>> L = GrowingCholesky()
        >>> L.append(M)
        >>> L.forward(np.array([[2.0], [5.0]])).ravel()
        array([1., 2.])
    """

    def __init__(self) -> None:
        self.size = 0
        self.smallest_pivot = np.inf
        self._left: list[Matrix] = []
        self._diagonal: list[Matrix] = []

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(a.nbytes for a in (*self._left, *self._diagonal))

    def append(self, rows: Matrix) -> None:
        """Grow by m rows, given with all columns up to themselves, (m, t + m).

        Costs m t^2 + m^2 t. Raises LinAlgError, and changes nothing, if the grown matrix is not positive
        definite in floating point.
        """
        before = self.size
        done = 0
        try:
            while done < len(rows):
                room = _HEIGHT - self.size % _HEIGHT
                take = min(room, len(rows) - done)
                self._append_within_panel(rows[done : done + take, : self.size + take])
                done += take
        except np.linalg.LinAlgError:
            self._truncate(before)
            raise

    def _append_within_panel(self, rows: Matrix) -> None:
        start, m = self.size, len(rows)
        panel, offset = divmod(start, _HEIGHT)
        new = self.forward(rows[:, :start].T) if start else np.empty((0, m))  # L^-1 k, (t, m)
        schur = rows[:, start:] - new.T @ new
        if m == 1:
            if not schur[0, 0] > 0.0:
                raise np.linalg.LinAlgError("not positive definite")
            corner = np.sqrt(schur)
        else:
            corner = np.linalg.cholesky(schur)
        if offset == 0:
            self._left.append(np.zeros((_HEIGHT, start)))
            self._diagonal.append(np.asfortranarray(np.eye(_HEIGHT)))
        base = panel * _HEIGHT
        self._left[panel][offset : offset + m] = new[:base].T
        self._diagonal[panel][offset : offset + m, :offset] = new[base:].T
        self._diagonal[panel][offset : offset + m, offset : offset + m] = corner
        self.size = start + m
        self.smallest_pivot = min(self.smallest_pivot, float(corner.diagonal().min()) ** 2)

    def _truncate(self, size: int) -> None:
        panels = -(-size // _HEIGHT)
        del self._left[panels:], self._diagonal[panels:]
        if size % _HEIGHT:
            offset = size % _HEIGHT
            self._left[-1][offset:] = 0.0
            self._diagonal[-1][offset:] = np.eye(_HEIGHT)[offset:]
        self.size = size

    def forward(self, B: Matrix) -> Matrix:
        """L^-1 B for B (t, m): t^2 m flops."""
        C = np.zeros((len(self._diagonal) * _HEIGHT, B.shape[1]))
        C[: self.size] = B
        for p, (left, diagonal) in enumerate(zip(self._left, self._diagonal, strict=True)):
            low, high = p * _HEIGHT, (p + 1) * _HEIGHT
            rhs = C[low:high] - left @ C[:low] if p else C[low:high]
            C[low:high] = dtrsm(1.0, diagonal, rhs, lower=1)
        return C[: self.size]

    def explained(self, k: Vector) -> float:
        """|L^-1 k|^2."""
        c = self.forward(k[:, None])[:, 0]
        return float(c @ c)

    def extend(self, z: Vector, y: Vector) -> Vector:
        """L^-1 y, given z = L^-1 y of the first rows: t a new row."""
        new = len(y) - len(z)
        if new > _HEIGHT:
            return self.forward(y[:, None])[:, 0]
        z = np.append(z, np.empty(new))
        for i in range(len(y) - new, len(y)):
            panel, offset = divmod(i, _HEIGHT)
            base = panel * _HEIGHT
            done = self._left[panel][offset] @ z[:base] + self._diagonal[panel][offset, :offset] @ z[base:i]
            z[i] = (y[i] - done) / self._diagonal[panel][offset, offset]
        return z

    def backward(self, B: Matrix) -> Matrix:
        """L^-T B for B (t, m): t^2 m flops."""
        C = np.zeros((len(self._diagonal) * _HEIGHT, B.shape[1]))
        C[: self.size] = B
        for p in reversed(range(len(self._diagonal))):
            low, high = p * _HEIGHT, (p + 1) * _HEIGHT
            C[low:high] = dtrsm(1.0, self._diagonal[p], C[low:high], lower=1, trans_a=1)
            if p:
                C[:low] -= self._left[p].T @ C[low:high]
        return C[: self.size]

    def log_det(self) -> float:
        """log det of the matrix, from the diagonal of L."""
        return float(2.0 * sum(np.log(np.diag(d)).sum() for d in self._diagonal))
