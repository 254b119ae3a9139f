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
point some n^2 more. Rounding accumulates, so the owner sets all of it afresh now and then, n^3.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits.errors import SingularMatrixError
from kinbandits.regression.linalg import factor, lower_inverse

LATE = 16  # rows


class Inverses:
    """P, A, gap, w and usage; ``usage`` does not follow rows. Arrays are replaced, never edited (but for late rows)."""

    def __init__(self, ridge: float, K: Matrix, S: Matrix, v: Vector) -> None:
        """From the sums, n^3.

        With K = L L', X = L^-1 and B = X S X' + ridge I = R R': A = (R^-1 X)' (R^-1 X), and P S P is
        (R'X)' (R'X) - ridge P. ridge K + S may have a condition number of 1e14 where B has 1e7.
        """
        self.ridge, n = ridge, len(v)
        X = lower_inverse(factor(K, quiet=True)[0]) if n else K
        B = X @ S @ X.T
        B = (B + B.T) / 2.0
        try:
            R = factor(B + ridge * np.eye(n), quiet=True)[0]
        except SingularMatrixError:  # projections have made S indefinite
            values, vectors = np.linalg.eigh(B)
            R = factor((vectors * np.maximum(values, 0.0)) @ vectors.T + ridge * np.eye(n), quiet=True)[0]
        T = lower_inverse(R) @ X
        self.P, self._A = X.T @ X, T.T @ T
        self.v, self.w = v.copy(), T.T @ (T @ v)
        self.usage: Vector = np.maximum(np.square(R.T @ X).sum(axis=0) - ridge * self.P.diagonal(), 0.0)
        self._begin()

    def _begin(self) -> None:
        """No late rows."""
        self._gap: Matrix = self.P / self.ridge - self._A
        self._u, self._c, self._late = np.empty((LATE, len(self.v))), np.empty(LATE), 0

    def write(self) -> Matrix:
        """The late rows into A, and A."""
        if self._late:
            u = self._u[: self._late]
            self._A = self._A - (u * self._c[: self._late, None]).T @ u
            self._begin()
        return self._A

    def forms(self, k: Matrix) -> Vector:
        """k' gap k of each row of k (rows, n)."""
        found: Vector = np.einsum("ij,ij->i", k @ self._gap, k)
        if self._late:
            found += np.square(k @ self._u[: self._late].T) @ self._c[: self._late]
        return found

    def between(self, k: Matrix) -> Matrix:
        """k gap k' for k (rows, n)."""
        late = k @ self._u[: self._late].T
        return np.asarray(k @ self._gap @ k.T + (late * self._c[: self._late]) @ late.T)

    def missed(self, share: float) -> Vector:
        """What is lost without each point: squared error, and ``share`` of the prior variance of rows."""
        lost = self.w**2 / self.write().diagonal() + share * self.usage / self.P.diagonal()
        return np.maximum(lost, 0.0)  # rounding may leave A with a negative diagonal

    def log_det(self) -> float:
        """log det(I + K^-1/2 S K^-1/2 / ridge)."""
        return float(np.linalg.slogdet(self.P / self.ridge)[1] - np.linalg.slogdet(self.write())[1])

    def add(self, k: Vector, y: float) -> bool:
        """A row more. False: rounding has taken over A."""
        if self._late == LATE:
            self.write()
        u, c = self._u[: self._late], self._c[: self._late]
        Ak = self._A @ k - (c * (u @ k)) @ u
        q = float(k @ Ak)
        if not q >= -1e-9:
            return False
        self._u[self._late], self._c[self._late] = Ak, 1.0 / (1.0 + q)
        self.v = self.v + y * k
        self.w = self.w + ((y - float(k @ self.w)) / (1.0 + q)) * Ak
        self._late += 1
        return True

    def border(self, u: Vector, left: float, s12: Vector, s22: float, v: float) -> None:
        """A point more: u = P k, its residual ``left`` = k(x~, x~) - k'u, and its sum v.

        With k~ = k_new - u'k, what is new in its kernels: s12 = S between k~ and the points, s22 of k~ with itself.
        On (k, k~) the matrix ridge K + S is [[D, s12'], [s12, ridge left + s22]], so A is bordered by u + s12 A, with
        the Schur complement ridge left + (s22 - s12 A s12'): no small difference of large numbers, as there would be
        with the point's own line of ridge K + S.
        """
        change = s12 @ self.write()
        more = max(s22 - float(change @ s12), 0.0)
        self.P = _bordered(self.P, u, left)
        self._A = _bordered(self._A, u + change, self.ridge * left + more)
        self.v, self.usage = np.append(self.v, v), np.append(self.usage, 1.0)
        self.w = self._A @ self.v
        self._begin()


def _bordered(M: Matrix, line: Vector, schur: float) -> Matrix:
    """[[M + l l'/s, -l/s], [-l'/s, 1/s]]."""
    n = len(M)
    grown = np.empty((n + 1, n + 1))
    np.add(M, np.outer(line, line / schur), out=grown[:n, :n])
    grown[n, :n] = grown[:n, n] = -line / schur
    grown[n, n] = 1.0 / schur
    return grown
