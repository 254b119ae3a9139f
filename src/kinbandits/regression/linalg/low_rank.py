"""Structure of symmetric matrices: blocks, and low rank."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpstrf

from kinbandits._types import Indices, Matrix, Vector


def components(K: Matrix) -> Indices:
    """Which block of a symmetric K each row belongs to, numbered from 0: blocks are linked by nothing but zeros.

    >>> components(np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]))
    array([0, 1, 0])
    """
    if not np.any(K - np.diag(np.diag(K))):
        return np.arange(len(K))
    from scipy.sparse import csr_array  # slow to import, and not needed by every policy
    from scipy.sparse.csgraph import connected_components

    return np.asarray(connected_components(csr_array(K), directed=False)[1], dtype=np.intp)


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
