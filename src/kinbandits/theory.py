"""The paper's analysis as pure functions: numbers in, a bound out, with the paper's number in each docstring.

Every function refuses arguments outside the conditions of its statement and says which one.
All logarithms are natural.

Notation (the paper's symbol, our argument)
    T            horizon        rounds
    N            n_arms         arms
    delta        delta          probability of failure
    lambda       ridge
    c, B         norm_bound     bound on the RKHS norm of f*
    c_k          kernel_bound   bound on k~(x~, x~)
    m            max(1, c_k / lambda)
    alpha        factor         `confidence_factor`
    s, w         width, radius  w = (alpha + c sqrt(lambda)) s; s^2 = (k - k_t' (K + lambda I)^-1 k_t) / lambda
    k            prior          k~(x~, x~) of the candidate
    Q, q         n_stages       stages of SupKMTL-UCB, q = 1, ..., Q
    K            (n, n)         kernel matrix of n rows (arm, context) [K~; the paper's K~_{T+1} has n = T + 1]
    K_X          (n, n)         kernel matrix of their contexts
    mu                          similarity of any two different arms
    log g        log_g          log det(K + lambda I) - n log lambda; half of it is the information gain gamma
    r                           effective rank (Definition 1)
    lmax         lmax_z         largest eigenvalue of the (N, N) similarity matrix, whose diagonal is one
    L            n c_k lmax     bounds the largest eigenvalue of K, if no arm has more than n rows
    sigma        noise          rewards are sub-Gaussian around f* (1/2 for an interval of length 1)

>>> import kinbandits as kb
>>> K = kb.theory.equicorrelated(mu=0.5, n_arms=3)
>>> round(kb.theory.log_g(K, ridge=1.0), 4)
1.9095
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import as_float64
from kinbandits._conditions import kernel_matrix, magnitude, nonnegative, probability, spectrum_of, whole
from kinbandits._types import Matrix
from kinbandits._value import one_of, positive, real
from kinbandits.errors import InvalidInputError
from kinbandits.self_normalised import (
    check_self_normalised,
    norm_inflation,
    self_normalised_bound,
    self_normalised_factor,
)

__all__ = [
    "cgp_ucb_bound", "cgp_ucb_prior_bound", "check_self_normalised", "confidence_factor", "effective_rank",
    "effective_rank_bound", "equicorrelated", "gap_bound", "log_g", "log_g_of_similarity", "n_stages",
    "norm_inflation", "radius", "rank_bound", "regret_bound", "self_normalised_bound", "self_normalised_factor",
    "squared_width_sum_bound", "stage_delta", "stage_size_bound", "width_lower_bound", "width_sum_bound",
    "width_upper_bound",
]  # fmt: skip

Form = Literal["printed", "derived"]


# -- Theorem 1, the steps of its proof, and the bounds of neighbours ---------------------------------


def confidence_factor(horizon: int, n_arms: int, delta: float) -> float:
    """alpha = sqrt(log(2 T N / delta) / 2), Lemma 1.

    >>> round(confidence_factor(horizon=1000, n_arms=5, delta=0.1), 4)
    2.3993
    """
    T, N = whole("horizon", horizon, 1), whole("n_arms", n_arms, 1)
    return math.sqrt(math.log(2 * T * N / probability("delta", delta)) / 2)


@overload
def radius(width: float, factor: float, norm_bound: float, ridge: float) -> float: ...
@overload
def radius(width: ArrayLike, factor: float, norm_bound: float, ridge: float) -> Matrix: ...
def radius(width: Any, factor: float, norm_bound: float, ridge: float) -> Any:
    """w = (alpha + c sqrt(lambda)) s, Lemma 1: |mean - f*| is at most this, with probability 1 - delta / T.

    ``width`` is one number or an array.

    >>> radius(width=0.5, factor=2.0, norm_bound=1.0, ridge=4.0)
    2.0
    """
    s = as_float64("width", width)
    if s.size and s.min() < 0:
        raise InvalidInputError(f"width must be at least 0, got {s.min():.6g}")
    alpha = positive("factor", factor, zero=True)
    w = (alpha + positive("norm_bound", norm_bound, zero=True) * math.sqrt(positive("ridge", ridge))) * s
    return float(w) if np.ndim(width) == 0 else w


def n_stages(horizon: int) -> int:
    """Q = ceil(log T), and at least 1: the stages of SupKMTL-UCB (Algorithm 3, line 2).

    The logarithm is natural. Then 2^-Q <= T^-log(2) <= 1 / sqrt(T), so that a round always ends.

    >>> [n_stages(T) for T in (1, 2, 10, 1000)]
    [1, 1, 3, 7]
    """
    return max(1, math.ceil(math.log(whole("horizon", horizon, 1))))


def stage_delta(horizon: int, delta: float) -> float:
    """delta / (Q + 1): what ``delta=`` of `SupKMTLUCB` must be for Theorem 1 to hold with probability 1 - delta.

    Lemma 1's intervals fail with delta each in Q stages, and Azuma's inequality once more.

    >>> round(stage_delta(horizon=1000, delta=0.1), 6)
    0.0125
    """
    return probability("delta", delta) / (n_stages(horizon) + 1)


def regret_bound(
    horizon: int,
    n_arms: int,
    delta: float,
    ridge: float,
    norm_bound: float,
    kernel_bound: float,
    log_g: float,
    form: Form = "printed",
) -> float:
    """Theorem 1: SupKMTL-UCB's regret R(T) is at most this, with probability at least 1 - delta.

        2 sqrt(T) + 10 (a + c sqrt(lambda)) sqrt(2 m log g) sqrt(T ceil(log T)),
        a = sqrt(log(2 T N (log T + 1) / delta) / 2)

    ``form="derived"`` is what the proof gives: Q + 1 in place of log T + 1, and Q = max(1, ceil(log T)). The last
    step of the proof (8 becomes 10) also needs m Q log g >= 1/2. Below that, which takes next to no data, the
    derived form adds the concentration term sqrt(2 T log(2 (Q + 1) / delta)) as it is.

    >>> round(regret_bound(1000, 5, 0.1, 1.0, 1.0, 1.0, log_g=20.0))
    19144
    """
    T, N, p = whole("horizon", horizon, 1), whole("n_arms", n_arms, 1), probability("delta", delta)
    lam, c = positive("ridge", ridge), positive("norm_bound", norm_bound, zero=True)
    m, gain = magnitude(kernel_bound, lam), positive("log_g", log_g, zero=True)
    if one_of("form", form, "printed", "derived") == "printed":
        stages, tries, extra = math.ceil(math.log(T)), math.log(T) + 1, 0.0
    else:
        stages = n_stages(T)
        tries = stages + 1
        extra = 0.0 if m * stages * gain >= 0.5 else math.sqrt(2 * T * math.log(2 * tries / p))
    alpha = math.sqrt(math.log(2 * T * N * tries / p) / 2)
    main = 10 * (alpha + c * math.sqrt(lam)) * math.sqrt(2 * m * gain) * math.sqrt(T * stages)
    return 2 * math.sqrt(T) + main + extra


def gap_bound(stage: int) -> float:
    """2^(3-q), Lemma 11: how far below the best arm an arm can be that is still in play at stage q.

    >>> [gap_bound(q) for q in (1, 2, 3, 4)]
    [4.0, 2.0, 1.0, 0.5]
    """
    return 2.0 ** (3 - whole("stage", stage, 1))


def stage_size_bound(
    stage: int,
    horizon: int,
    n_arms: int,
    delta: float,
    ridge: float,
    norm_bound: float,
    kernel_bound: float,
    log_g: float,
) -> float:
    """Lemma 12, solved for the size of stage q: |Psi^q| <= 4^q (alpha + c sqrt(lambda))^2 2 m log g.

    The paper writes |Psi^q| <= 2^q (alpha + c sqrt(lambda)) sqrt(2 m log g |Psi^q|). ``log_g`` may be that of
    all rounds, or that of the rounds of the stage, which is smaller.

    >>> round(stage_size_bound(1, 1000, 5, 0.1, 1.0, 1.0, 1.0, log_g=5.0), 1)
    462.2
    """
    q, m = whole("stage", stage, 1), magnitude(kernel_bound, ridge)
    w = radius(1.0, confidence_factor(horizon, n_arms, delta), norm_bound, ridge)
    return 4.0**q * w**2 * 2.0 * m * positive("log_g", log_g, zero=True)


def cgp_ucb_prior_bound(horizon: int, n_arms: int, delta: float, ridge: float, log_g: float) -> float:
    """CGP-UCB's bound where f* is drawn from the Gaussian process: sqrt(C T beta_T gamma_T) + 2.

    C = 8 / log(1 + 1 / lambda), beta_T = 2 log(N T^2 pi^2 / (6 delta)), gamma_T = log(g) / 2, with Gaussian noise
    of variance lambda and k~(x~, x~) <= 1 (Krause and Ong, 2011, Theorem 1, for N arms).

    >>> round(cgp_ucb_prior_bound(1000, 5, 0.1, 1.0, log_g=20.0))
    2053
    """
    T, N, p = whole("horizon", horizon, 1), whole("n_arms", n_arms, 1), probability("delta", delta)
    gain = positive("log_g", log_g, zero=True) / 2
    beta = 2 * math.log(N * T**2 * math.pi**2 / (6 * p))
    return math.sqrt(8 / math.log1p(1 / positive("ridge", ridge)) * T * beta * gain) + 2


def cgp_ucb_bound(horizon: int, delta: float, ridge: float, norm_bound: float, log_g: float) -> float:
    """CGP-UCB's agnostic regret bound with its constants: sqrt(C T beta_T gamma_T) + 2.

    C = 8 / log(1 + 1 / lambda), beta_T = 2 c^2 + 300 gamma_T log(T / delta)^3, gamma_T = log(g) / 2, with noise
    bounded by sqrt(lambda) and k~(x~, x~) <= 1 (Krause and Ong, 2011, Theorem 1; Srinivas et al., 2010,
    Theorem 3, without the 2). It bounds expected regret, as the first half of the proof of Theorem 1 does.

    >>> round(cgp_ucb_bound(1000, 0.1, 1.0, 1.0, log_g=20.0))
    520126
    """
    T, p = whole("horizon", horizon, 1), probability("delta", delta)
    gain = positive("log_g", log_g, zero=True) / 2
    scale = 8 / math.log1p(1 / positive("ridge", ridge))
    beta = 2 * real("norm_bound", norm_bound) ** 2 + 300 * gain * math.log(T / p) ** 3
    return math.sqrt(scale * T * beta * gain) + 2


# -- what a kernel matrix says: Theorems 2 and 3, Corollary 1 ----------------------------------------


def log_g(K: ArrayLike, ridge: float) -> float:
    """log g = log det(K + lambda I) - n log lambda, the sum of log(1 + eigenvalue / lambda) (Theorem 1).

    The paper's g([T]) is of the T + 1 rows after the last round; any kernel matrix will do here.

    >>> round(log_g([[1.0, 0.0], [0.0, 1.0]], ridge=1.0), 4)
    1.3863
    """
    return float(np.log1p(spectrum_of("K", kernel_matrix("K", K)) / positive("ridge", ridge)).sum())


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


# -- widths, and sums of widths along a run ----------------------------------------------------------


def width_upper_bound(kernel_bound: float, ridge: float) -> float:
    """Lemma 6, right side: s^2 <= c_k / lambda. (It bounds the square of the width.)

    >>> width_upper_bound(kernel_bound=1.0, ridge=0.25)
    4.0
    """
    return positive("kernel_bound", kernel_bound) / positive("ridge", ridge)


def width_lower_bound(
    n: int,
    kernel_bound: float,
    lmax_z: float,
    prior: float,
    ridge: float,
    form: Literal["derived", "printed"] = "derived",
) -> float:
    """Lemma 6, left side: s^2 >= 4 (L + lambda) / (L + 2 lambda)^2 (k + lambda) - 1, with L = n c_k lmax(K_Z).

    It bounds the square of the width, and is often below zero, where it says nothing. It falls as lmax(K_Z)
    grows, hence as mu does in K_Z(mu) (Theorem 4).

    The paper has equal counts; any will do with n the largest. The "printed" form has 4 L + lambda in the
    numerator: a weaker bound, and for small L one that rises with mu, against Theorem 4.

    >>> width_lower_bound(n=1, kernel_bound=1.0, lmax_z=1.0, prior=1.0, ridge=1.0)
    0.7777777777777777
    """
    lam, c = positive("ridge", ridge), positive("kernel_bound", kernel_bound)
    k = positive("prior", prior, zero=True)
    if k > c * (1 + 1e-12):
        raise InvalidInputError(f"prior must be at most kernel_bound = {kernel_bound}, got {prior!r}")
    lmax = positive("lmax_z", lmax_z)
    if lmax < 1 - 1e-9:
        raise InvalidInputError(
            f"lmax_z must be at least 1, got {lmax_z!r}: the lemma needs a similarity matrix with a diagonal of "
            "ones, whose largest eigenvalue is at least 1"
        )
    L = whole("n", n, 1) * c * lmax
    numerator = 4 * (L + lam) if one_of("form", form, "derived", "printed") == "derived" else 4 * L + lam
    return numerator / (L + 2 * lam) ** 2 * (k + lam) - 1


def squared_width_sum_bound(log_g: float, kernel_bound: float, ridge: float) -> float:
    """Lemma 8 (the determinant lemma): the sum of s^2 over the rows of a run is at most 2 m log g.

    It needs uniform weights and a similarity that does not change. ``log_g`` of the rows themselves is enough;
    the paper counts one row more.

    >>> squared_width_sum_bound(log_g=3.0, kernel_bound=1.0, ridge=0.5)
    12.0
    """
    return 2 * magnitude(kernel_bound, ridge) * positive("log_g", log_g, zero=True)


def width_sum_bound(count: int, log_g: float, kernel_bound: float, ridge: float) -> float:
    """Lemma 9: the sum of s over ``count`` rows is at most sqrt(2 m count log g).

    >>> width_sum_bound(count=6, log_g=3.0, kernel_bound=1.0, ridge=1.0)
    6.0
    """
    return math.sqrt(whole("count", count, 0) * squared_width_sum_bound(log_g, kernel_bound, ridge))
