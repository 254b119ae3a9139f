"""What a kernel matrix says about regret: log g, ranks, Theorems 2 and 3, Corollary 1.

Notation
    K        (n, n)  kernel matrix of n rows (arm, context) [K~; the paper's K~_{T+1} has n = T + 1]
    K_X      (n, n)  kernel matrix of their contexts
    arms     (n,)    the arm of each row
    mu               similarity of any two different arms
    ridge            lambda
    r                effective rank (Definition 1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import as_float64
from kinbandits._types import Matrix
from kinbandits._value import one_of, positive, real
from kinbandits.errors import InvalidInputError
from kinbandits.theory.conditions import kernel_matrix, nonnegative, spectrum_of, whole


def log_g(K: ArrayLike, ridge: float) -> float:
    """log g = log det(K + lambda I) - n log lambda, the sum of log(1 + eigenvalue / lambda) (Theorem 1).

    The paper's g([T]) is of the T + 1 rows after the last round; any kernel matrix will do here.

    >>> round(log_g([[1.0, 0.0], [0.0, 1.0]], ridge=1.0), 4)
    1.3863
    """
    return float(np.log1p(spectrum_of("K", kernel_matrix("K", K)) / positive("ridge", ridge)).sum())


def information_gain(K: ArrayLike, ridge: float) -> float:
    """log(g) / 2: what rewards with Gaussian noise of variance lambda tell about f, in nats (section 4.3).

    >>> round(information_gain([[1.0, 0.0], [0.0, 1.0]], ridge=1.0), 4)
    0.6931
    """
    return log_g(K, ridge) / 2


def rank_bound(
    rank_z: int,
    rank_x: int,
    horizon: int,
    kernel_bound: float,
    ridge: float,
    form: Literal["printed", "derived"] = "printed",
) -> float:
    """Theorem 2: log g([T]) <= r_z r_x log(((T + 1) c_k + lambda) / lambda).

    r_z is the rank of the similarity matrix, r_x that of the kernel matrix of the T + 1 contexts. The "derived"
    form is the line of the proof before the last simplification, which is tighter: r log(1 + (T + 1) c_k / (r
    lambda)) with r = min(r_z r_x, T + 1).

    >>> round(rank_bound(rank_z=1, rank_x=2, horizon=99, kernel_bound=1.0, ridge=1.0), 3)
    9.23
    """
    r_z, r_x = whole("rank_z", rank_z, 0), whole("rank_x", rank_x, 0)
    rows = whole("horizon", horizon, 1) + 1
    trace = rows * positive("kernel_bound", kernel_bound) / positive("ridge", ridge)
    if r_x > rows:
        raise InvalidInputError(f"rank_x is {r_x}, but {rows} contexts (horizon + 1) have at most rank {rows}")
    if one_of("form", form, "printed", "derived") == "printed":
        return r_z * r_x * math.log1p(trace)
    r = min(r_z * r_x, rows)
    return r * math.log1p(trace / r) if r else 0.0


def effective_rank(eigenvalues: ArrayLike, ridge: float, horizon: int) -> int:
    """Definition 1: r = min{j : j lambda log T >= sum of the eigenvalues after the j-th}.

    ``eigenvalues`` are those of K~_{T+1}, in any order, at most T + 1 of them (missing ones are zero). What is zero
    but for rounding counts as zero.

    >>> effective_rank([5.0, 1.0, 0.1, 0.01], ridge=1.0, horizon=3)
    2
    """
    T = whole("horizon", horizon, 1)
    values = as_float64("eigenvalues", eigenvalues)
    if values.ndim != 1 or len(values) > T + 1:
        raise InvalidInputError(
            f"eigenvalues must be at most horizon + 1 = {T + 1} numbers in a row, got shape {values.shape}"
        )
    values = nonnegative("eigenvalues", values)
    tails = np.append(np.cumsum(values[::-1])[::-1], 0.0)  # tails[j] = sum of values[j:]
    allowed = np.arange(len(values) + 1) * positive("ridge", ridge) * math.log(T)
    return int(np.argmax(allowed >= tails))


def effective_rank_bound(r: int, horizon: int, kernel_bound: float, ridge: float) -> float:
    """Corollary 1: log g([T]) <= r log(2 T (2 (T + 1) c_k + r lambda - r lambda log T) / (r lambda)).

    It needs lambda log T <= (T + 1) c_k, which the paper does not say (its proof bounds epsilon so); without
    it the statement is false for r = 1. ``r`` is `effective_rank`; 0, which only K = 0 has, gives 0.

    >>> round(effective_rank_bound(r=2, horizon=100, kernel_bound=1.0, ridge=1.0), 3)
    19.754
    """
    rank, T = whole("r", r, 0), whole("horizon", horizon, 1)
    trace, lam = (T + 1) * positive("kernel_bound", kernel_bound), positive("ridge", ridge)
    if lam * math.log(T) > trace:
        raise InvalidInputError(
            "Corollary 1 needs ridge * log(horizon) <= (horizon + 1) * kernel_bound, but "
            f"{lam * math.log(T):.6g} > {trace:.6g}; use a smaller ridge"
        )
    if rank == 0:
        return 0.0
    inside = 2 * T * (2 * trace + rank * lam - rank * lam * math.log(T)) / (rank * lam)
    if rank > T + 1 or inside <= 0:
        raise InvalidInputError(
            f"r = {rank} is no effective rank of a matrix of horizon + 1 = {T + 1} rows with entries up to "
            f"{kernel_bound} and ridge {ridge}; it is too large"
        )
    return rank * math.log(inside)


def equicorrelated(mu: float, n_arms: int) -> Matrix:
    """K_Z(mu) = (1 - mu) I + mu 11': any two different arms have similarity mu (section 4.2).

    Its eigenvalues are 1 + (N - 1) mu, once, and 1 - mu; so mu is between -1/(N - 1) and 1.

    >>> equicorrelated(0.25, 2)
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """
    N, value = whole("n_arms", n_arms, 1), real("mu", mu)
    lowest = -1.0 / (N - 1) if N > 1 else -1.0
    if not lowest - 1e-12 <= value <= 1.0:
        raise InvalidInputError(f"mu must be between {lowest:.6g} and 1 for {N} arms, got {mu!r}")
    return (1.0 - value) * np.eye(N) + value * np.ones((N, N))


def log_g_of_similarity(mu: float, K_X: ArrayLike, arms: Sequence[Any] | NDArray[Any], ridge: float) -> float:
    """log g_mu, Theorem 3: it falls as mu grows from 0 to 1.

    ``mu`` is in [0, 1]: for mu < 0 the theorem is false, since with two arms log g_mu is the same at -mu and mu.
    ``arms`` may be any labels, each as often as one likes; the paper proves it for equal counts. A proof for all:
    for mu1 <= mu2, K(mu1) is the Hadamard product of K(mu2) and C = K_Z(mu1 / mu2) spread over the rows, a
    correlation matrix; as C has a diagonal of ones, K(mu1) + lambda I = (K(mu2) + lambda I) o C, and
    det(A o C) >= det(A) (Oppenheim).

    >>> K_X = np.ones((4, 4))
    >>> [round(log_g_of_similarity(mu, K_X, [0, 0, 0, 1], ridge=1.0), 3) for mu in (0.0, 0.5, 1.0)]
    [2.079, 1.981, 1.609]
    """
    value = real("mu", mu)
    if not 0.0 <= value <= 1.0:
        raise InvalidInputError(f"mu must be between 0 and 1 (Theorem 3 needs mu >= 0), got {mu!r}")
    K, labels = kernel_matrix("K_X", K_X), np.asarray(arms)
    if labels.shape != (len(K),):
        raise InvalidInputError(f"arms must have one entry per row of K_X: {len(K)} rows, but shape {labels.shape}")
    spectrum_of("K_X", K)  # refuses what is no kernel matrix
    same = labels[:, None] == labels[None, :]
    return log_g(np.where(same, 1.0, value) * K, ridge)
