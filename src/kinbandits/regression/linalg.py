"""Linear algebra that has never heard of arms."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from kinbandits.errors import NumericalWarning, SingularMatrixError

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

LARGEST_JITTER = 1e-6  # of the largest diagonal entry; more would change the answer
_SMALL_PIVOT = 1e-11  # of the largest diagonal entry


def factor(M: Matrix) -> Matrix:
    """The lower Cholesky factor of M, with jitter on the diagonal if rounding made M indefinite.

    Jitter starts at 1e-14 of the largest diagonal entry and grows tenfold, with a warning that names it;
    above 1e-6 the matrix is refused. A factor whose smallest pivot is below 1e-11 of that entry has lost most
    of its digits, and is told of with a warning too. Costs t^3 / 3. M is left as it was.
    """
    if not np.isfinite(M).all():
        raise SingularMatrixError("the kernel matrix holds NaN or infinity; check what the kernel returns")
    scale = float(M.diagonal().max())
    try:
        L = cholesky(M, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        pass
    else:
        smallest = float(L.diagonal().min()) ** 2
        if smallest < _SMALL_PIVOT * scale:
            _warn(M, f"its smallest pivot is {smallest:.3g}, so that few digits of the numbers are certain")
        return L
    jitter = 1e-14
    while jitter <= LARGEST_JITTER:
        try:
            L = cholesky(M + np.diag(np.full(len(M), jitter * scale)), lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            jitter *= 10.0
            continue
        _warn(M, f"{jitter * scale:.3g} was added to its diagonal")
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
    yield 0.0
    scale = float(M.diagonal().max())
    for exponent in range(-14, 1):
        yield 10.0**exponent * scale
    raise SingularMatrixError(
        "a kernel matrix cannot be factorised at all; the kernel is not positive semidefinite "
        "(kinbandits.testing.check_kernel tells)"
    )


def _warn(M: Matrix, what: str) -> None:
    warnings.warn(
        f"the kernel matrix of {len(M)} rows is singular or nearly so in floating point (contexts repeat, or the "
        f"ridge is tiny): {what}. Raise ridge to avoid this",
        NumericalWarning,
        stacklevel=3,
    )


def forward(L: Matrix, B: Matrix) -> Matrix:
    """L^-1 B."""
    return np.asarray(solve_triangular(L, B, lower=True, check_finite=False))


def backward(L: Matrix, B: Matrix) -> Matrix:
    """L^-T B."""
    return np.asarray(solve_triangular(L, B, lower=True, trans=1, check_finite=False))
