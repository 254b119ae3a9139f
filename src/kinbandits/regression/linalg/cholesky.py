"""Cholesky factors, jitter for those that rounding spoils, and what is solved with them.

Notation
    M        (t, t)  symmetric positive definite
    L        (t, t)  its lower factor, M = L L'
    z        (t,)    L^-1 y
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtrs

from kinbandits._types import Matrix, Vector
from kinbandits.errors import NumericalWarning, SingularMatrixError

UNIT = 2.0**-53
SMALL_PIVOT = 1e-11  # of the largest diagonal entry
_LARGEST_JITTER = 1e-6  # of the largest diagonal entry; more would change the answer

Found = TypeVar("Found")


def jittered(
    attempt: Callable[[float], Found],
    scale: float,
    rows: int,
    first: float = 1e-12,
    most: float = _LARGEST_JITTER,
    growth: float = 10.0,
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
            jitter *= growth
    raise SingularMatrixError(
        f"the kernel matrix of {rows} rows is not positive definite, even with {most:g} of its "
        "largest entry added to the diagonal. The kernel may not be positive semidefinite "
        "(kinbandits.testing.check_kernel tells), or ridge is far too small"
    )


def factor(M: Matrix, overwrite: bool = False) -> Matrix:
    """The lower Cholesky factor of M, with jitter on the diagonal if rounding made M indefinite.

    Jitter is told of with a warning that names it. A factor whose smallest pivot is below 1e-11 of the largest
    diagonal entry has lost most of its digits: without jitter that is told of, with jitter there is more of it.
    Costs t^3 / 3. M is left as it was, unless it may be overwritten: then the factor is in its place (and what is
    above its diagonal means nothing).
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
    """Raise LinAlgError if a factor with this smallest pivot has lost most of its digits.

    Jitter that barely lets a factor be computed leaves numbers that differ from one BLAS to the next.
    """
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
        """M^-1 y."""
        return backward(self.L, self.z)

    def log_det(self) -> float:
        """log det M."""
        return float(2.0 * np.log(np.diag(self.L)).sum())
