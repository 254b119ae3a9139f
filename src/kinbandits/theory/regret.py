"""Theorem 1, the steps of its proof, and the bounds of neighbours.

Notation (the paper's symbol, our argument; all logarithms are natural)
    T            horizon        rounds
    N            n_arms         arms
    delta        delta          probability of failure
    lambda       ridge
    c            norm_bound     bound on the RKHS norm of f*
    c_k          kernel_bound   bound on k~(x~, x~)
    m            max(1, c_k / lambda)
    alpha        factor         `confidence_factor`
    s, w         width, radius  w = (alpha + c sqrt(lambda)) s
    Q, q         n_stages       stages of SupKMTL-UCB, q = 1, ..., Q
    log g([T])   log_g          log det(K~ + lambda I) - n log lambda
    gamma_T      log_g / 2      information gain
"""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import as_float64
from kinbandits._types import Matrix
from kinbandits._value import one_of, positive, real
from kinbandits.errors import InvalidInputError
from kinbandits.theory.conditions import magnitude, probability, whole

Form = Literal["printed", "derived"]


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


def kmtl_ucb_rate(horizon: int, log_g: float) -> float:
    """sqrt(T log g): Theorem 1 without constants and logarithms of T.

    >>> kmtl_ucb_rate(horizon=100, log_g=4.0)
    20.0
    """
    return math.sqrt(whole("horizon", horizon, 1) * positive("log_g", log_g, zero=True))


def lin_ucb_rate(
    horizon: int, n_features: int, n_arms: int = 1, sharing: Literal["pooled", "independent"] | None = None
) -> float:
    """sqrt(d T) for pooled Lin-UCB, sqrt(N d T) for one model per arm (section 4.2), without logarithms.

    ``sharing`` defaults to ``"independent"`` where ``n_arms`` is given; ``"pooled"`` ignores ``n_arms``.

    >>> lin_ucb_rate(horizon=100, n_features=4), lin_ucb_rate(horizon=100, n_features=4, n_arms=9)
    (20.0, 60.0)
    """
    T, d, N = whole("horizon", horizon, 1), whole("n_features", n_features, 1), whole("n_arms", n_arms, 1)
    if sharing is not None:
        one_of("sharing", sharing, "pooled", "independent")
    return math.sqrt((1 if sharing == "pooled" else N) * d * T)


def cgp_ucb_rate(horizon: int, log_g: float) -> float:
    """log(g) sqrt(T): CGP-UCB without a Gaussian prior on f* (section 4.3), without constants.

    Ours is sqrt(log g) times smaller, as soon as log g > 1.

    >>> cgp_ucb_rate(horizon=100, log_g=4.0) / kmtl_ucb_rate(horizon=100, log_g=4.0)
    2.0
    """
    return math.sqrt(whole("horizon", horizon, 1)) * positive("log_g", log_g, zero=True)


def stage_delta(horizon: int, delta: float) -> float:
    """delta / (Q + 1): what ``delta=`` of `SupKMTLUCB` must be for Theorem 1 to hold with probability 1 - delta.

    Lemma 1's intervals fail with delta each in Q stages, and Azuma's inequality once more.

    >>> round(stage_delta(horizon=1000, delta=0.1), 6)
    0.0125
    """
    return probability("delta", delta) / (n_stages(horizon) + 1)


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
