"""What is known of the function at the dictionary's points, and how it changes by a row or a point.

Notation (n points)
    K          (n, n)  kernel matrix of the points
    S, v       (n, n), (n,)  sums over rows of k k' and of y k
    P, A       K^-1, (ridge K + S)^-1
    w          A v
    gap        P / ridge - A: width^2 = prior / ridge - k' gap k
    usage      diagonal of P S P: how much prior variance rows owe to each point

A row changes A by -c u u', u = A k. The last rows' u are kept beside A and gap, and written into both when there
are `LATE` of them: one pass over memory instead of one for each row. So a row costs one product, A k, and a new
point some n^2 more. Rounding accumulates, so the owner sets all of it afresh now and then.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dgemm

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.errors import SingularMatrixError
from kinbandits.regression.linalg import factor, forward, lower_inverse

LATE = 16  # rows


class Inverses:
    """P, A, w and usage of ``size`` points, in buffers of fixed capacity."""

    def __init__(self, capacity: int, ridge: float) -> None:
        self.size = 0
        self.ridge = ridge
        self.w: Vector = np.zeros(0)
        self.v: Vector = np.zeros(0)
        self.usage: Vector = np.zeros(0)
        self._P: Matrix = np.zeros((capacity, capacity))
        self._A: Matrix = np.zeros((capacity, capacity))
        self._gap: Matrix | None = None
        self._late_u: Matrix = np.zeros((LATE, capacity))
        self._late_c: Vector = np.zeros(LATE)
        self._late_rows = 0

    @property
    def P(self) -> Matrix:  # noqa: N802
        """K^-1 (a view, as all here)."""
        return self._P[: self.size, : self.size]

    @property
    def A(self) -> Matrix:  # noqa: N802
        """(ridge K + S)^-1."""
        self._write()
        return self._A_before

    def forms(self, k: Matrix) -> Vector:
        """k' gap k of each row of k (rows, n)."""
        found: Vector = np.einsum("ij,ij->i", k @ self._gap_before(), k)
        if self._late_rows:
            u, c = self._late()
            found += np.square(k @ u.T) @ c
        return found

    def between(self, k: Matrix) -> Matrix:
        """k gap k' for k (rows, n)."""
        self._write()
        return k @ self._gap_before() @ k.T

    def missed(self, share: float) -> Vector:
        """What is lost without each point: squared error, and ``share`` of the prior variance of rows."""
        return np.asarray(self.w**2 / self.A.diagonal() + share * self.usage / self.P.diagonal())

    def log_det(self) -> float:
        """log det(I + K^-1/2 S K^-1/2 / ridge)."""
        return float(np.linalg.slogdet(self.P / self.ridge)[1] - np.linalg.slogdet(self.A)[1])

    # -- rows -----------------------------------------------------------------------------------

    def add(self, k: Vector, y: float) -> bool:
        """A row more. False: rounding has taken over A."""
        Ak = self._A_before @ k
        if self._late_rows:
            late, scales = self._late()
            Ak -= (scales * (late @ k)) @ late
        q = float(k @ Ak)
        if not q >= -1e-9:
            return False
        c, n = 1.0 / (1.0 + q), self.size
        self._late_u[self._late_rows, :n], self._late_c[self._late_rows] = Ak, c
        self._late_rows += 1
        self.v = self.v + y * k
        self.w = self.w + (c * (y - float(k @ self.w))) * Ak
        if self._late_rows == LATE:
            self._write()
        return True

    def use(self, k: Matrix, weights: Vector | float = 1.0, slots: Indices | slice = slice(None)) -> None:
        """Rows k (b, n) count in the usage of these points."""
        self.usage[slots] += np.broadcast_to(weights, len(k)) @ np.square(k @ self.P[:, slots])

    # -- points ---------------------------------------------------------------------------------

    def set(self, K: Matrix, S: Matrix, v: Vector) -> None:
        """All afresh, n^3.

        With K = L L', X = L^-1 and B = X S X' + ridge I = R R': A = (R^-1 X)' (R^-1 X), and P S P is
        (R'X)' (R'X) - ridge P. ridge K + S may have a condition number of 1e14 where B has 1e7.
        """
        self._late_rows, self._gap = 0, None
        self.size = n = len(v)
        X = lower_inverse(factor(K, quiet=True)[0])
        B = X @ S @ X.T
        B = (B + B.T) / 2.0
        try:
            R = factor(B + self.ridge * np.eye(n), quiet=True)[0]
        except SingularMatrixError:  # projections have made S indefinite
            values, vectors = np.linalg.eigh(B)
            R = factor((vectors * np.maximum(values, 0.0)) @ vectors.T + self.ridge * np.eye(n), quiet=True)[0]
        T = lower_inverse(R) @ X
        self._P[:n, :n], self._A[:n, :n] = X.T @ X, T.T @ T
        self.v, self.w = v.copy(), T.T @ (T @ v)
        self.usage = np.maximum(np.square(R.T @ X).sum(axis=0) - self.ridge * self.P.diagonal(), 0.0)

    def residuals(self, slots: Indices, k: Matrix, corner: Matrix) -> tuple[Matrix, Matrix]:
        """What new points add: u = P k (b, n) without the points in ``slots`` that leave, and corner - k'u (b, b).

        ``k`` (b, n) has their values at the points, ``corner`` those among themselves.
        """
        leaving = slots[slots < self.size]
        stay = k.copy()
        stay[:, leaving] = 0.0
        G = self.P[:, leaving]
        u = stay @ self.P - (stay @ G) @ np.linalg.solve(G[leaving], G.T)
        u[:, leaving] = 0.0
        left = corner - u @ stay.T
        return u, (left + left.T) / 2.0

    def put(self, slots: Indices, u: Matrix, left: Matrix, s12: Matrix, s22: Matrix, v: Vector) -> None:
        """New points in these slots, the next one or others' places, with their `residuals`.

        With k~ = k_new - u'k, what is new in their kernels: s12 = S between k~ and the points (b, n), s22 among k~
        (b, b). On (k, k~) the matrix ridge K + S is [[D, s12'], [s12, ridge left + s22]], so A is bordered by
        u + s12 A, with the Schur complement ridge left + (s22 - s12 A s12'): no small difference of large numbers,
        as there would be with the points' own lines of ridge K + S. LinAlgError leaves all to be set afresh.
        """
        self._write()
        n, grown = self.size, max(self.size, int(slots[0]) + 1)
        leaving = slots[slots < n]
        for M in (self.P, self._A_before):
            G = M[:, leaving].copy()
            _add_product(M, -G, np.asarray(np.linalg.solve(G[leaving], G.T)))
        self.size = grown
        for M in (self._P, self._A):
            M[slots, :grown] = M[:grown, slots] = 0.0
        s12[:, leaving] = 0.0
        change = s12 @ self._A[:n, :n]
        more = s22 - change @ s12.T
        values, vectors = np.linalg.eigh((more + more.T) / 2.0)
        more = (vectors * np.maximum(values, 0.0)) @ vectors.T
        for M, line, schur in ((self.P, u, left), (self._A_before, u + change, self.ridge * left + more)):
            full = np.zeros((len(slots), grown))
            full[:, :n] = line
            full[:, slots] = -np.eye(len(slots))
            V = forward(np.linalg.cholesky(schur), full)
            _add_product(M, V.T, V)
        self.v, self.usage = np.append(self.v, np.zeros(grown - n)), np.append(self.usage, np.zeros(grown - n))
        self.v[slots], self.usage[slots] = v, 1.0  # their own rows
        self._gap = None
        self.w = self.A @ self.v

    def copy(self) -> Inverses:
        """For others to read."""
        self._write()
        other = Inverses(0, self.ridge)
        other.size, other.w = self.size, self.w
        other._P, other._A, other._gap = self.P.copy(), self._A_before.copy(), self._gap_before().copy()
        return other

    # -- late rows ------------------------------------------------------------------------------

    @property
    def _A_before(self) -> Matrix:  # noqa: N802
        """A without the late rows."""
        return self._A[: self.size, : self.size]

    def _late(self) -> tuple[Matrix, Vector]:
        return self._late_u[: self._late_rows, : self.size], self._late_c[: self._late_rows]

    def _write(self) -> None:
        """The late rows into A and gap."""
        if self._late_rows:
            u, c = self._late()
            _add_product(self._A_before, -(u * c[:, None]).T, u)
            if self._gap is not None:
                _add_product(self._gap, (u * c[:, None]).T, u)
            self._late_rows = 0

    def _gap_before(self) -> Matrix:
        """P / ridge - A, without the late rows."""
        if self._gap is None:
            self._gap = self.P / self.ridge
            self._gap -= self._A_before
        return self._gap


def _add_product(M: Matrix, left: Matrix, right: Matrix) -> None:
    """M += left right (n, b) (b, n), in place: one pass by BLAS where M is contiguous."""
    if M.size and M.flags.c_contiguous:
        dgemm(1.0, right.T, left.T, 1.0, M.T, overwrite_c=1)  # M.T is what Fortran calls a matrix
    else:
        M += left @ right
