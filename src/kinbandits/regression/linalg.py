"""Linear algebra that has never heard of arms: factors, inverses, blocks, and what rounding does to them.

Notation
    M    (n, n)  symmetric positive definite
    L    (n, n)  its lower Cholesky factor, M = L L'
    T    (n, n)  L^-1

NumPy's routines let other threads run while they work, SciPy's LAPACK wrappers do not: they are given triangular
solves, and at most `_ALONE` rows of what costs n^3.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from kinbandits._types import Indices, Matrix
from kinbandits.errors import NumericalWarning, SingularMatrixError

UNIT = 2.0**-53
_SMALL_PIVOT = 1e-11  # of its diagonal entry: below it a pivot has lost its digits
_LARGEST_JITTER = 1e-6  # of the largest diagonal entry; more would change the answer
_ALONE = 1024
_BLOCK = 128  # below which products gain nothing

Found = TypeVar("Found")
Buffer = TypeVar("Buffer", bound=NDArray[Any])


def jittered(
    attempt: Callable[[float], Found], scale: float, rows: int, before: float = 0.0, *, quiet: bool = False
) -> tuple[Found, float]:
    """``attempt(jitter)`` for ever larger amounts to add to a diagonal, until it raises no LinAlgError; and which.

    Amounts are ``before``, then 1e-12 to 1e-6 times ``scale``, the largest diagonal entry. A matrix that needs more
    is refused: the answer would be another. A warning says how much it was, unless ``quiet``.
    """
    jitter = before
    while jitter <= _LARGEST_JITTER * 1.000001 * scale:
        try:
            found = attempt(jitter)
        except np.linalg.LinAlgError:
            jitter = max(1e-12 * scale, 10.0 * jitter)
            continue
        if jitter > before and not quiet:
            warnings.warn(
                f"the kernel matrix of {rows} rows is singular or nearly so in floating point (contexts repeat, or "
                f"the ridge is tiny): {jitter:.3g} was added to its diagonal. Raise ridge to avoid this",
                NumericalWarning,
                stacklevel=2,
            )
        return found, jitter
    raise SingularMatrixError(
        f"the kernel matrix of {rows} rows is not positive definite, even with {_LARGEST_JITTER:g} of its "
        "largest entry added to the diagonal. The kernel may not be positive semidefinite "
        "(kinbandits.testing.check_kernel tells), or ridge is far too small"
    )


def _cholesky(M: Matrix) -> Matrix:
    """L; only the lower triangle of M is read."""
    if len(M) > _ALONE or not len(M):
        return np.asarray(np.linalg.cholesky(M), dtype=np.float64)
    U, info = lapack.dpotrf(M.T, lower=0)  # which costs half as much where copies count
    if info:
        raise np.linalg.LinAlgError("not positive definite")
    return np.asarray(U.T)


def certain(pivots: NDArray[Any], M: Matrix) -> None:
    """LinAlgError if a pivot has lost its digits against the diagonal entry of M."""
    if not (pivots >= _SMALL_PIVOT * M.diagonal()).all():
        raise np.linalg.LinAlgError("few digits are certain")


def factor(M: Matrix, *, quiet: bool = False) -> tuple[Matrix, float]:
    """L, with jitter if it takes that, and how much: n^3 / 3."""

    def attempt(jitter: float) -> Matrix:
        N = M + np.diag(np.full(len(M), jitter)) if jitter else M
        L = _cholesky(N)
        certain(np.square(L.diagonal()), N)
        return L

    try:
        return attempt(0.0), 0.0
    except np.linalg.LinAlgError:
        if not np.isfinite(M).all():
            raise SingularMatrixError(
                "the kernel matrix holds NaN or infinity; check what the kernel returns"
            ) from None
    return jittered(attempt, float(M.diagonal().max()), len(M), quiet=quiet)


def lower_inverse(L: Matrix) -> Matrix:
    """T of L, in halves: n^3 2/3, nearly all of it in products."""
    n, h = len(L), len(L) // 2
    if n <= _BLOCK:
        return np.tril(lapack.dtrtri(L, lower=1)[0]) if n else L
    T = np.zeros((n, n))
    T[:h, :h] = lower_inverse(L[:h, :h])
    T[h:, h:] = lower_inverse(L[h:, h:])
    np.matmul(T[h:, h:], L[h:, :h] @ -T[:h, :h], out=T[h:, :h])
    return T


def inverse_factor(M: Matrix) -> Matrix:
    """T of M; LinAlgError if a pivot has lost its digits."""
    L = _cholesky(M)
    certain(np.square(L.diagonal()), M)
    return lower_inverse(L)


def solve_lower(L: Matrix, B: Matrix, *, transposed: bool = False) -> Matrix:
    """L^-1 B, or L^-T B."""
    return np.asarray(solve_triangular(L, B, lower=True, trans=1 if transposed else 0, check_finite=False))


def components(K: Matrix) -> Indices:
    """Which block of a symmetric K each row belongs to, numbered from 0: blocks are linked by nothing but zeros.

    >>> components(np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]))
    array([0, 1, 0])
    """
    if not np.any(K, where=~np.eye(len(K), dtype=bool)):
        return np.arange(len(K))
    from scipy.sparse import csr_array  # slow to import, and not needed by every policy
    from scipy.sparse.csgraph import connected_components

    return np.asarray(connected_components(csr_array(K), directed=False)[1], dtype=np.intp)


def room_for(array: Buffer, rows: int) -> Buffer:
    """``array``, or a longer copy of it (the rest zero) that has room for so many rows."""
    if rows <= len(array):
        return array
    grown = np.zeros((max(rows, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown  # type: ignore[return-value]
