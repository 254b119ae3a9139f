"""What is known of the function at the dictionary's points, and how it changes by a row or a point.

Notation (n points)
    K          (n, n)  kernel matrix of the points
    S~, v~     (n, n), (n,)  sums over rows of weight * k k' and of weight * reward * k
    P, A       K^-1, (ridge K + S~)^-1
    w          A v~
    gap        P / ridge - A: width^2 = prior / ridge - k' gap k
    usage      diagonal of P S~ P: how much prior variance rows owe to each point

A row changes A by -c u u', u = A k. The last rows' u are kept beside A and gap, and written into both when there
are `LATE` of them: one pass over memory instead of one for each row. So a row costs one product, A k, and a new
point some n^2 more. Rounding accumulates, so the owner sets all of it afresh now and then.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm

from kinbandits import _compiled as compiled
from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.linalg.inverse import move_last

LATE = 16  # rows


class Posterior:
    """P, A, w and usage of ``size`` points, in buffers of fixed capacity."""

    def __init__(self, capacity: int, ridge: float) -> None:
        self.size = 0
        self.w: Vector = np.zeros(0)
        self._ridge = ridge
        self._P: Matrix = np.zeros((capacity, capacity))
        self._A: Matrix = np.zeros((capacity, capacity))
        self._v: Vector = np.zeros(capacity)
        self._usage: Vector = np.zeros(capacity)
        self._gap: Matrix | None = None
        self._buffer: Vector = np.empty(capacity * capacity)
        self._late_u: Matrix = np.zeros((LATE, capacity))
        self._late_c: Vector = np.zeros(LATE)
        self._late_rows = 0

    @property
    def P(self) -> Matrix:  # noqa: N802
        """K^-1 (a view, as all here)."""
        return self._P[: self.size, : self.size]

    @property
    def A(self) -> Matrix:  # noqa: N802
        """(ridge K + S~)^-1."""
        self._write()
        return self._A_before

    @property
    def v(self) -> Vector:
        return self._v[: self.size]

    @property
    def usage(self) -> Vector:
        return self._usage[: self.size]

    def forms(self, k: Matrix) -> Vector:
        """k' gap k of each row of k (rows, n)."""
        found: Vector = np.einsum("ij,ij->i", k @ self._gap_before(), k)
        if self._late_rows:
            u, c = self._late()
            found += np.square(k @ u.T) @ c
        return found

    def read(self, kx: Vector, arms: Indices, K_arm: Matrix, candidates: Indices) -> Matrix:
        """Mean and k' gap k of candidates, (2, k), where k is K_arm[candidate, arms] * kx: n^2 for all together."""
        found = np.empty((2, len(candidates)))
        if compiled.CORE is not None:
            late = self._late_u, self._late_c, self._late_rows
            compiled.CORE.read(self._gap_before(), kx, arms, K_arm, self.w, *late, candidates, found)
            return found
        k = K_arm[np.ix_(candidates, arms)] * kx
        found[0], found[1] = k @ self.w, self.forms(k)
        return found

    @property
    def gap(self) -> Matrix:
        self._write()
        return self._gap_before()

    def missed(self, share: float) -> Vector:
        """What is lost without each point: squared error, and ``share`` of the prior variance of rows."""
        return np.asarray(self.w**2 / self.A.diagonal() + share * self.usage / self.P.diagonal())

    # -- rows -----------------------------------------------------------------------------------

    def add(self, k: Vector, weight: float, reward: float, decay: float = 1.0) -> bool:
        """A row more; earlier sums count ``decay`` as much. False: rounding has taken over A."""
        Ak = self._A_before @ k
        if self._late_rows:
            late, scales = self._late()
            Ak -= (scales * (late @ k)) @ late
        q = float(k @ Ak)
        if not q >= -1e-9:
            return False
        c = weight / (1.0 + weight * q)
        n = self.size
        self._late_u[self._late_rows, :n], self._late_c[self._late_rows] = Ak, c
        self._late_rows += 1
        if decay < 1.0:
            self._v[:n] *= decay
        self._v[:n] += (weight * reward) * k
        if decay < 1.0:
            self.solve()
        else:  # the same, by A of now
            self.w = self.w + (c * (reward - float(k @ self.w))) * Ak
        if self._late_rows == LATE:
            self._write()
        return True

    def use(self, k: Matrix, weights: Vector, slots: Indices | slice = slice(None)) -> None:
        """Rows k (b, n) count in the usage of these points."""
        self.usage[slots] += weights @ np.square(k @ self.P[:, slots])

    def take_out(self, k: Vector, weight: float, reward: float) -> bool:
        """A row less. False: rounding has taken over A, and all is to be set afresh."""
        n, u = self.size, self.A @ k
        self._v[:n] -= (weight * reward) * k
        self._usage[:n] = np.maximum(self.usage - weight * (self.P @ k) ** 2, 0.0)
        left = 1.0 - weight * float(k @ u)
        if not left > 1e-8:
            return False
        add_product(self.A, (weight / left * u)[:, None], u[None, :])
        self._gap = None
        self.solve()
        return True

    def add_block(self, k: Matrix, weights: Vector, rewards: Vector) -> None:
        """Rows k (b, n) more, at once: n^2 b (Woodbury)."""
        U = self.A @ k.T
        middle = np.diag(1.0 / weights) + k @ U
        add_product(self.A, -U, np.asarray(np.linalg.solve((middle + middle.T) / 2.0, U.T), dtype=np.float64))
        self.use(k, weights)
        self._v[: self.size] += (weights * rewards) @ k
        self._gap = None
        self.solve()

    # -- points ---------------------------------------------------------------------------------

    def set(self, P: Matrix, A: Matrix, v: Vector, usage: Vector, w: Vector | None = None) -> None:
        """Start again from these. P and A become its own: a copy of large ones is seen in an update."""
        self._late_rows = 0
        self.size = n = len(v)
        if n == len(self._v) and P.flags.c_contiguous and A.flags.c_contiguous:
            self._P, self._A = P, A
        else:
            self._P[:n, :n], self._A[:n, :n] = P, A
        self._v[:n], self._usage[:n] = v, usage
        self._gap = None
        self.w = A @ v if w is None else w.copy()

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

    def put(self, slots: Indices, u: Matrix, left: Matrix, news: tuple[Matrix, Matrix], v: Vector) -> None:
        """New points in these slots, the next one or others' places, with their `residuals`.

        With k~ = k_new - u'k, what is new in their kernels: ``news`` are s12 = S~ between k~ and the points (b, n)
        and s22 among k~ (b, b). On (k, k~) the matrix ridge K + S~ is [[D, s12'], [s12, ridge left + s22]], so
        A is bordered by u + s12 A, with the Schur complement ridge left + (s22 - s12 A s12'): no small difference
        of large numbers, as there would be with the points' own lines of ridge K + S~.
        """
        self._write()
        n, grown = self.size, max(self.size, int(slots[0]) + 1)
        leaving = slots[slots < n]
        for M in (self.P, self._A_before):
            G = M[:, leaving].copy()
            add_product(M, -G, np.asarray(np.linalg.solve(G[leaving], G.T), dtype=np.float64))
        self.size = grown
        for M in (self._P, self._A):
            M[slots, :grown] = M[:grown, slots] = 0.0
        s12, s22 = news
        s12[:, leaving] = 0.0
        change = s12 @ self._A[:n, :n]
        told = s22 - change @ s12.T
        values, vectors = np.linalg.eigh((told + told.T) / 2.0)
        told = (vectors * np.maximum(values, 0.0)) @ vectors.T
        for M, line, schur in ((self.P, u, left), (self._A_before, u + change, self._ridge * left + told)):
            full = np.zeros((len(slots), grown))
            full[:, :n] = line
            full[:, slots] = -np.eye(len(slots))
            V = solve_triangular(np.linalg.cholesky(schur), full, lower=True, check_finite=False)
            add_product(M, V.T, V)
        self._v[slots], self._usage[slots] = v, 1.0  # their own rows
        self._gap = None
        self.solve()

    def remove(self, j: int) -> None:
        self._write()
        last = self.size - 1
        for M in (self.P, self._A_before):
            g = M[:, j].copy()
            add_product(M, g[:, None], -g[None, :] / g[j])
            move_last(M, j, last, axes=(0, 1))
        self._v[j], self._usage[j] = self._v[last], self._usage[last]
        self.size = last
        self._gap = None
        self.solve()

    def solve(self) -> None:
        self.w = self.A @ self.v

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
            add_product(self._A_before, -(u * c[:, None]).T, u)
            if self._gap is not None:
                add_product(self._gap, (u * c[:, None]).T, u)
            self._late_rows = 0

    def _gap_before(self) -> Matrix:
        """P / ridge - A, without the late rows."""
        if self._gap is None:
            n = self.size
            self._gap = self._buffer[: n * n].reshape(n, n)
            np.multiply(self.P, 1.0 / self._ridge, out=self._gap)
            self._gap -= self._A_before
        return self._gap


def add_product(M: Matrix, left: Matrix, right: Matrix) -> None:
    """M += left right (n, b) (b, n), in place: one pass by BLAS where M is contiguous."""
    if M.size and M.flags.c_contiguous:
        dgemm(1.0, right.T, left.T, 1.0, M.T, overwrite_c=1)  # M.T is what Fortran calls a matrix
    else:
        M += left @ right
