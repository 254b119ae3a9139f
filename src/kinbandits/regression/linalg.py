"""Linear algebra that has never heard of arms."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri, dpstrf, dtrtrs

from kinbandits._types import Matrix, Vector
from kinbandits.errors import NumericalWarning, SingularMatrixError

LARGEST_JITTER = 1e-6  # of the largest diagonal entry; more would change the answer
SMALL_PIVOT = 1e-11  # of the largest diagonal entry


def factor(M: Matrix, overwrite: bool = False) -> Matrix:
    """The lower Cholesky factor of M, with jitter on the diagonal if rounding made M indefinite.

    Jitter starts at 1e-14 of the largest diagonal entry and grows tenfold, with a warning that names it;
    above 1e-6 the matrix is refused. A factor whose smallest pivot is below 1e-11 of that entry has lost most
    of its digits, and is told of with a warning too. Costs t^3 / 3. M is left as it was, unless it may be
    overwritten: then the factor is in its place (and what is above the diagonal of the factor means nothing).
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
    jitter = 1e-14
    while jitter <= LARGEST_JITTER:
        try:
            L = cholesky(M + np.diag(np.full(len(M), jitter * scale)), lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            jitter *= 10.0
            continue
        warn_singular(len(M), f"{jitter * scale:.3g} was added to its diagonal")
        return L
    raise SingularMatrixError(
        f"the kernel matrix of {len(M)} rows is not positive definite, even with {LARGEST_JITTER:g} of its "
        "largest entry added to the diagonal. The kernel may not be positive semidefinite "
        "(kinbandits.testing.check_kernel tells), or ridge is far too small"
    )


def shifts(M: Matrix) -> Iterator[float]:
    """0 and ever larger amounts to add to the diagonal of M, until it can be factorised.

    For matrices that only guide: the caller takes the shift into account, so there is no warning.
    """
    scale = float(M.diagonal().max())  # before M is overwritten
    yield 0.0
    for exponent in range(-14, 1):
        yield 10.0**exponent * scale
    raise SingularMatrixError(
        "a kernel matrix cannot be factorised at all; the kernel is not positive semidefinite "
        "(kinbandits.testing.check_kernel tells)"
    )


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


def inverted(M: Matrix) -> Matrix:
    """The inverse of a positive definite M (C order), in its memory: n^3. Raises LinAlgError if M is not.

    >>> inverted(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[ 0.3125, -0.125 ],
           [-0.125 ,  0.25  ]])
    """
    L, info = dpotrf(M.T, lower=1, clean=0, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError("not positive definite")
    inverse, _ = dpotri(L, lower=1, overwrite_c=1)
    P: Matrix = inverse.T  # its upper triangle, row by row
    _mirror(P)
    return P


def _mirror(M: Matrix) -> None:
    """Make M symmetric from its upper triangle, in place, block by block (a block fits the cache)."""
    block = 64
    for low in range(0, len(M), block):
        high = min(low + block, len(M))
        own = M[low:high, low:high]
        own[:] = np.triu(own) + np.triu(own, 1).T
        M[high:, low:high] = M[low:high, high:].T


def posterior_inverse(K: Matrix, S: Matrix, ridge: float) -> tuple[Matrix, Matrix]:
    """K^-1 and (ridge K + S)^-1, by way of B = ridge I + L^-1 S L^-T with K = L L'.

    ridge K + S may have a condition number of 1e14 where B has 1e7, so the second inverse is L^-T B^-1 L^-1.
    Where rounding made K indefinite, up to 1e-8 of its largest diagonal entry is added. About 5 m^3.
    """
    n = len(K)
    if not n:
        return np.zeros((0, 0)), np.zeros((0, 0))
    top = float(K.diagonal().max())
    L = None
    for jitter in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
        try:
            L = cholesky(K + np.diag(np.full(n, jitter * top)), lower=True, check_finite=False)
            break
        except np.linalg.LinAlgError:
            continue
    if L is None:
        raise SingularMatrixError(
            f"the kernel matrix of {n} dictionary points is not positive definite; the kernel may not be positive "
            "semidefinite (kinbandits.testing.check_kernel tells)"
        )
    L_inverse = forward(L, np.eye(n))
    B = L_inverse @ S @ L_inverse.T
    B = (B + B.T) / 2.0
    try:
        T = forward(cholesky(B + ridge * np.eye(n), lower=True, check_finite=False), L_inverse)
    except np.linalg.LinAlgError:  # rounding in S: what is below zero there is zero
        values, vectors = np.linalg.eigh(B)
        T = (vectors / np.sqrt(np.maximum(values, 0.0) + ridge)).T @ L_inverse
    return L_inverse.T @ L_inverse, T.T @ T


def low_rank_root(K: Matrix, least: int = 64) -> Matrix | None:
    """U (N, r) with K = U U' to rounding, if N is at least ``least`` and r at most a third of it; else None.

    Pivoted Cholesky, which stops when the largest remaining variance is 1e-12 of the largest: N r^2.
    """
    n = len(K)
    if n < least:
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
