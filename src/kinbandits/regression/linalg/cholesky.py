"""Cholesky factors, jitter for those that rounding spoils, what is solved with them; factors that grow; blocks.

Notation
    M        (t, t)  symmetric positive definite
    L        (t, t)  its lower factor, M = L L'
    z        (t,)    L^-1 y

A factor that grows is kept in panels of W rows, each as two contiguous arrays: ``left[p]`` (W, p W), what stands
left of the diagonal block, and ``diagonal[p]`` (W, W). A new row is l = L^-1 k, d = sqrt(k(x, x) - l'l): the
row-wise Cholesky algorithm itself, so a factor grown row by row is as good as one computed at once. Rows beside the
last one are the identity, so that a panel is always whole. Panels are separate arrays because LAPACK wrappers copy
a matrix that is a slice of a larger buffer; growing allocates one panel, never a copy of what is there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf, dpstrf, dtrtrs

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.errors import NumericalWarning, SingularMatrixError

UNIT = 2.0**-53
SMALL_PIVOT = 1e-11  # of the largest diagonal entry
_LARGEST_JITTER = 1e-6  # of the largest diagonal entry; more would change the answer
_HEIGHT = 128  # W

Found = TypeVar("Found")


def jittered(
    attempt: Callable[[float], Found], scale: float, rows: int, first: float = 1e-12, most: float = _LARGEST_JITTER
) -> tuple[Found, float]:
    """``attempt(jitter)`` for ever larger amounts to add to a diagonal, until it raises no LinAlgError; and which.

    Amounts are ``first`` to ``most`` times ``scale``, the largest diagonal entry. A matrix of ``rows`` rows that
    needs more is refused: the answer would be another.
    """
    jitter = first
    while jitter <= most * 1.000001:
        try:
            return attempt(jitter * scale), jitter * scale
        except np.linalg.LinAlgError:
            jitter *= 10.0
    raise SingularMatrixError(
        f"the kernel matrix of {rows} rows is not positive definite, even with {most:g} of its "
        "largest entry added to the diagonal. The kernel may not be positive semidefinite "
        "(kinbandits.testing.check_kernel tells), or ridge is far too small"
    )


def factor(M: Matrix, overwrite: bool = False) -> Matrix:
    """The lower Cholesky factor of M, with jitter on the diagonal if rounding made M indefinite.

    Jitter is told of with a warning that names it, and so is a smallest pivot below 1e-11 of the largest diagonal
    entry, which has lost most digits. Costs t^3 / 3. M may be overwritten (above the diagonal the factor then means
    nothing).
    """
    diagonal = M.diagonal().copy()
    scale = float(diagonal.max())
    L, info = dpotrf(M.T, lower=1, clean=not overwrite, overwrite_a=overwrite)
    smallest = float(L.diagonal().min()) ** 2  # NaN if there is one in M
    if not info and np.isfinite(smallest):
        if smallest < SMALL_PIVOT * scale:
            warn_singular(len(M), f"its smallest pivot is {smallest:.3g}, so that few digits are certain")
        return np.asarray(L)
    if overwrite:  # the triangle that LAPACK did not touch, and the diagonal that was kept
        M = np.tril(M, -1)
        M += M.T + np.diag(diagonal)
    if not np.isfinite(M).all():
        raise SingularMatrixError("the kernel matrix holds NaN or infinity; check what the kernel returns")
    n = len(M)

    def attempt(more: float) -> Matrix:
        L = cholesky(M + np.diag(np.full(n, more)), lower=True, check_finite=False)
        check_digits(float(L.diagonal().min()) ** 2, scale)
        return np.asarray(L)

    L, jitter = jittered(attempt, scale, n)
    warn_singular(n, f"{jitter:.3g} was added to its diagonal")
    return np.asarray(L)


def check_digits(smallest: float, scale: float) -> None:
    """Raise LinAlgError if a factor with this smallest pivot has lost digits: they differ from BLAS to BLAS."""
    if smallest < SMALL_PIVOT * scale:
        raise np.linalg.LinAlgError("few digits are certain")


def warn_singular(rows: int, what: str) -> None:
    """Tell that a kernel matrix is nearly singular, and what was done about it."""
    warnings.warn(
        f"the kernel matrix of {rows} rows is singular or nearly so in floating point (contexts repeat, or the "
        f"ridge is tiny): {what}. Raise ridge to avoid this",
        NumericalWarning,
        stacklevel=3,
    )


def forward(L: Matrix, B: Matrix) -> Matrix:
    """L^-1 B."""
    if L.flags.f_contiguous:  # as `factor` gives it: no copy, and none of the wrapper's checks
        X, info = dtrtrs(L, B, lower=1)
        if not info:
            return np.asarray(X)
    return np.asarray(solve_triangular(L, B, lower=True, check_finite=False))


def backward(L: Matrix, B: Matrix) -> Matrix:
    """L^-T B."""
    return np.asarray(solve_triangular(L, B, lower=True, trans=1, check_finite=False))


class Solved(NamedTuple):
    """A factor and the rewards seen through it: everything about a posterior follows from these."""

    L: Matrix
    z: Vector

    @classmethod
    def of(cls, M: Matrix, y: Vector, overwrite: bool = False) -> Solved:
        """From M, which may be overwritten, and y: t^3 / 3."""
        L = factor(M, overwrite)
        return cls(L, forward(L, y))

    def moments(self, k: Matrix) -> tuple[Vector, Vector]:
        """k' M^-1 y and k' M^-1 k of each column of k (t, m): t^2 m."""
        c = forward(self.L, k)
        return c.T @ self.z, np.einsum("ij,ij->j", c, c)

    def remaining(self, prior: Matrix, k: Matrix) -> Matrix:
        """prior - k' M^-1 k, (m, m)."""
        c = forward(self.L, k)
        return np.asarray(prior - c.T @ c)

    def dual(self) -> Vector:
        return backward(self.L, self.z)

    def log_det(self) -> float:
        return float(2.0 * np.log(np.diag(self.L)).sum())


class GrowingCholesky:
    """The factor L of a symmetric positive definite matrix that grows.

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
        return sum(a.nbytes for a in (*self._left, *self._diagonal))

    def append(self, rows: Matrix) -> None:
        """Grow by m rows with all columns up to themselves, (m, t + m): m t^2 + m^2 t. All, or LinAlgError."""
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
        new = self.forward(rows[:, :start].T if m > 1 else rows[0, :start]).T.reshape(m, start)  # (L^-1 k)'
        schur = rows[:, start:] - new @ new.T
        if m == 1 and not schur[0, 0] > 0.0:
            raise np.linalg.LinAlgError("not positive definite")
        corner = np.linalg.cholesky(schur) if m > 1 else np.sqrt(schur)
        if offset == 0:
            self._left.append(np.zeros((_HEIGHT, start)))
            self._diagonal.append(np.asfortranarray(np.eye(_HEIGHT)))
        base, mine, diagonal = panel * _HEIGHT, slice(offset, offset + m), self._diagonal[panel]
        self._left[panel][mine] = new[:, :base]
        diagonal[mine, :offset], diagonal[mine, mine] = new[:, base:], corner
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
        """L^-1 B for B (t, m) or (t,): t^2 m flops."""
        C = self._padded(B)
        for p, (left, diagonal) in enumerate(zip(self._left, self._diagonal, strict=True)):
            low, high = p * _HEIGHT, (p + 1) * _HEIGHT
            C[low:high] = _triangle(diagonal, C[low:high] - left @ C[:low] if p else C[low:high], 0)
        return C[: self.size]

    def extend(self, z: Vector, y: Vector) -> Vector:
        """L^-1 y, given z = L^-1 y of the first rows: t a new row."""
        known = len(z)
        if len(y) - known > _HEIGHT:
            return self.forward(y)
        z = np.concatenate([z, y[known:]])
        for i in range(known, len(y)):
            panel, offset = divmod(i, _HEIGHT)
            base, row = panel * _HEIGHT, self._diagonal[panel][offset]
            done = row[:offset] @ z[base:i] + (self._left[panel][offset] @ z[:base] if base else 0.0)
            z[i] = (z[i] - done) / row[offset]
        return z

    def backward(self, B: Matrix) -> Matrix:
        """L^-T B for B (t, m) or (t,): t^2 m flops."""
        C = self._padded(B)
        for p in reversed(range(len(self._diagonal))):
            low, high = p * _HEIGHT, (p + 1) * _HEIGHT
            C[low:high] = _triangle(self._diagonal[p], C[low:high], 1)
            if p:
                C[:low] -= self._left[p].T @ C[low:high]
        return C[: self.size]

    def _padded(self, B: Matrix) -> Matrix:
        C = np.zeros((len(self._diagonal) * _HEIGHT, *B.shape[1:]))
        C[: self.size] = B
        return C

    def log_det(self) -> float:
        return float(2.0 * sum(np.log(np.diag(d)).sum() for d in self._diagonal))


def _triangle(L: Matrix, B: Matrix, transposed: int) -> Matrix:
    """L^-1 B or L^-T B, for a matrix or for a vector."""
    if B.ndim == 1:
        return np.asarray(dtrsv(L, B, lower=1, trans=transposed))
    return np.asarray(dtrsm(1.0, L, B, lower=1, trans_a=transposed))


def components(K: Matrix | Mask) -> Indices:
    """Which block of a symmetric K each row belongs to, numbered from 0: blocks are linked by nothing but zeros.

    >>> components(np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]))
    array([0, 1, 0])
    """
    if not np.any(K, where=~np.eye(len(K), dtype=bool)):
        return np.arange(len(K))
    from scipy.sparse import csr_array  # slow to import, and not needed by every policy
    from scipy.sparse.csgraph import connected_components

    return np.asarray(connected_components(csr_array(K), directed=False)[1], dtype=np.intp)


def low_rank_root(K: Matrix) -> Matrix | None:
    """U (N, r) with K = U U' to rounding, if N is at least 64 and r at most a third of it; else None.

    Pivoted Cholesky, which stops when the largest remaining variance is 1e-12 of the largest: N r^2.
    """
    n = len(K)
    if n < 64:
        return None
    L, pivots, rank, _ = dpstrf(K, tol=1e-12 * float(K.diagonal().max()), lower=1)
    if rank > n // 3:
        return None
    U = np.zeros((n, rank))
    U[pivots - 1] = np.tril(L)[:, :rank]
    return U


def low_rank_forms(U: Matrix, U_points: Matrix, values: Matrix, w: Vector, W: Matrix) -> tuple[Matrix, Matrix]:
    """k'w and k'W k for k = (U_points u) * values of every row u of U and every column of ``values``, (R, N) each.

    With T = U_points * value (n, r): k = T u, so both need T alone: n^2 r + N r^2 instead of n^2 N a round.
    """
    means = np.empty((values.shape[1], len(U)))
    forms = np.empty((values.shape[1], len(U)))
    for i, value in enumerate(values.T):
        T = U_points * value[:, None]
        means[i] = U @ (w @ T)
        forms[i] = np.einsum("ij,ij->i", U @ (T.T @ (W @ T)), U)
    return means, forms
