"""Matrices of low rank, and the pair of inverses that a dictionary needs."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpstrf

from kinbandits._types import Matrix, Vector
from kinbandits.regression.linalg.cholesky import forward, jittered


def posterior_inverse(K: Matrix, S: Matrix, ridge: float) -> tuple[Matrix, Matrix]:
    """K^-1 and (ridge K + S)^-1, by way of B = ridge I + L^-1 S L^-T with K = L L'.

    ridge K + S may have a condition number of 1e14 where B has 1e7, so the second inverse is L^-T B^-1 L^-1.
    Where rounding made K indefinite, up to 1e-6 of its largest diagonal entry is added. About 5 m^3.
    """
    n = len(K)
    if not n:
        return np.zeros((0, 0)), np.zeros((0, 0))
    top = float(K.diagonal().max())
    try:
        L = cholesky(K, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        L, _ = jittered(
            lambda more: cholesky(K + np.diag(np.full(n, more)), lower=True, check_finite=False),
            top,
            n,
            first=1e-12,
            growth=100.0,
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
