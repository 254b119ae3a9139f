"""Large work (`Work`) in pieces of equal cost, one with each row; a kernel value counts `VALUE` operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from kinbandits._types import Matrix, Vector
from kinbandits._work import Work
from kinbandits.errors import SingularMatrixError

Found = TypeVar("Found")

PIECE = 1.5e8  # work done in one update: some milliseconds
VALUE = 1000.0  # what a kernel value costs, in floating point operations


class Sliced(Generic[Found]):
    """Work under way, ``pieces`` of it done. ``start`` begins it and is pure: a copy can do the same again."""

    def __init__(self, start: Callable[[], Work[Found]], pieces: int = 0) -> None:
        self._start = start
        self._work = start()
        self.pieces = 0
        for _ in range(pieces):
            self.advance()

    def advance(self, piece: float = PIECE) -> Found | None:
        """One piece; what was found, if it was the last."""
        self.pieces += 1
        done = 0.0
        try:
            while done < piece:
                done += next(self._work)
        except StopIteration as end:
            found: Found = end.value
            return found
        return None

    def __deepcopy__(self, memo: object) -> Sliced[Found]:
        return Sliced(self._start, self.pieces)


def posterior_inverses(K: Matrix, S: Matrix, ridge: float) -> Work[tuple[Matrix, Matrix, Vector]]:
    """P = K^-1, A = (ridge K + S)^-1 and the diagonal of P S P, in pieces: about 8 n^3 in all.

    With K = L L', B = L^-1 S L^-T + ridge I = R R': A = (R^-1 L^-1)' (R^-1 L^-1), and P S P is
    (R' L^-1)' (R' L^-1) - ridge P. ridge K + S may have a condition number of 1e14 where B has 1e7. Where rounding
    made K or B indefinite, up to 1e-6 of the largest diagonal entry is added; where B stays so, K gets more first.
    """
    n = len(K)
    step = _step(n)
    top = float(K.diagonal().max()) if n else 1.0
    for added in (0.0, 1e-10, 1e-8, 1e-6, 1e-4):
        L = yield from _factor(K, added * top)
        X = yield from _lower_inverse(L)
        B = np.empty((n, n))
        for low in range(0, n, step):
            high = min(low + step, n)
            B[low:high, :high] = (X[low:high, :high] @ S[:high]) @ X[:high].T
            yield 2.0 * (high - low) * high * n * 2.0
        try:
            R = yield from _factor(B, ridge)
            break
        except SingularMatrixError:
            if added == 1e-4:
                raise
    T = yield from _lower_inverse(R)
    for high in range(n, 0, -step):  # R^-1 L^-1, from below, in the place of R^-1
        low = max(0, high - step)
        T[low:high, :high] = T[low:high, :high] @ X[:high, :high]
        yield 2.0 * (high - low) * high * high
    P, A, usage = np.empty((n, n)), np.empty((n, n)), np.empty(n)
    for low in range(0, n, step):
        high = min(low + step, n)
        for inverse, root in ((P, X), (A, T)):
            inverse[low:high] = root[low:, low:high].T @ root[low:]
            yield 2.0 * (high - low) * n * (n - low)
        usage[low:high] = np.square(R[low:].T @ X[low:, low:high]).sum(axis=0) - ridge * P.diagonal()[low:high]
        yield 2.0 * (high - low) * n * (n - low)
    return P, A, np.maximum(usage, 0.0)


def _step(n: int) -> int:
    """Rows at a time, so that a product with an n x n matrix is about half a piece."""
    return max(16, int(PIECE / (4.0 * n * n))) if n else 1


def _factor(M: Matrix, shift: float) -> Work[Matrix]:
    """The lower factor of M + shift I (only the lower triangle of M is read), block column by block column."""
    n, step = len(M), _step(len(M))
    top = float(M.diagonal().max()) if n else 1.0
    for jitter in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
        L = np.zeros((n, n))
        try:
            for low in range(0, n, step):
                high = min(low + step, n)
                block = M[low:, low:high] - L[low:, :low] @ L[low:high, :low].T
                block[: high - low].flat[:: high - low + 1] += shift + jitter * top
                corner = cholesky(block[: high - low], lower=True, check_finite=False)
                rest = block[high - low :].T
                L[low:high, low:high] = corner
                L[high:, low:high] = solve_triangular(corner, rest, lower=True, check_finite=False).T
                yield (high - low) * ((n - low) * (2.0 * low + (high - low)) + (high - low) ** 2 / 3.0)
        except np.linalg.LinAlgError:
            continue
        return L
    raise SingularMatrixError(
        f"the kernel matrix of {n} dictionary points is not positive definite; the kernel may not be positive "
        "semidefinite (kinbandits.testing.check_kernel tells)"
    )


def _lower_inverse(L: Matrix) -> Work[Matrix]:
    """L^-1 of a lower factor, block row by block row."""
    n, step = len(L), _step(len(L))
    X = np.zeros((n, n))
    for low in range(0, n, step):
        high = min(low + step, n)
        corner = solve_triangular(L[low:high, low:high], np.eye(high - low), lower=True, check_finite=False)
        X[low:high, low:high] = corner
        if low:
            X[low:high, :low] = -corner @ (L[low:high, :low] @ X[:low, :low])
        yield (high - low) * (2.0 * low * low + 2.0 * (high - low) * low + (high - low) ** 2)
    return X
