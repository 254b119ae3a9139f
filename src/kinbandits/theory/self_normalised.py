"""A bound for KMTL-UCB itself, from self-normalised intervals; and what a wrong similarity costs.

Notation (as in `kinbandits.theory.regret`; all logarithms are natural)
    sigma        noise          rewards are sub-Gaussian around f* (1/2 for an interval of length 1)
    B            norm_bound     bound on the RKHS norm of f*
    beta         the multiplier of the width s
    log g        log_g          log det(I + K / lambda) of the rows that the policy learned from
    m            max(1, c_k / lambda)

The intervals hold for all rounds and arms at once, whoever chooses the arms, if the kernel was fixed beforehand and
rows have equal weights: no stages are needed. The proof is sketched in docs/theory.md.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from kinbandits._types import Matrix, Vector
from kinbandits._value import one_of, positive
from kinbandits.errors import InvalidInputError
from kinbandits.theory.conditions import kernel_matrix, magnitude, probability, spectrum_of, whole
from kinbandits.theory.spectrum import log_g, log_g_of_similarity

RadiusForm = Literal["sum", "tight"]


def self_normalised_factor(
    log_g: float, delta: float, ridge: float, norm_bound: float, noise: float = 0.5, form: RadiusForm = "tight"
) -> float:
    """beta: with probability 1 - delta, |mean - f*| <= beta s for all arms and rounds at once.

    ``form="sum"`` is sigma sqrt(log g + 2 log(1/delta)) + sqrt(lambda) B (Abbasi-Yadkori et al., 2011); ``"tight"``
    is sqrt(sigma^2 (log g + 2 log(1/delta)) + lambda B^2), which is never larger (proof in docs/theory.md; the
    argument with mixtures is that of Flynn and Reeb, 2024).

    >>> [round(self_normalised_factor(2.0, 0.1, 1.0, 1.0, form=form), 4) for form in ("sum", "tight")]
    [2.285, 1.6283]
    """
    gain, lam = positive("log_g", log_g, zero=True), positive("ridge", ridge)
    sigma, B = positive("noise", noise, zero=True), positive("norm_bound", norm_bound, zero=True)
    spread = sigma**2 * (gain - 2.0 * math.log(probability("delta", delta)))
    if one_of("form", form, "sum", "tight") == "sum":
        return math.sqrt(spread) + math.sqrt(lam) * B
    return math.sqrt(spread + lam * B**2)


def self_normalised_bound(
    horizon: int,
    delta: float,
    ridge: float,
    norm_bound: float,
    kernel_bound: float,
    log_g: float,
    noise: float = 0.5,
    form: RadiusForm = "tight",
) -> float:
    """2 beta sqrt(2 m T log g): the expected regret of KMTL-UCB is at most this, with probability 1 - delta.

    It holds for every T at once, for the policy whose exploration is that beta (`ConfidenceExploration`), with
    uniform weights and a kernel fixed beforehand (`check_self_normalised`).

    >>> round(self_normalised_bound(1000, 0.1, 1.0, 1.0, 1.0, log_g=20.0))
    1070
    """
    T, gain = whole("horizon", horizon, 1), positive("log_g", log_g, zero=True)
    beta = self_normalised_factor(gain, delta, ridge, norm_bound, noise, form)
    return 2.0 * beta * math.sqrt(2.0 * magnitude(kernel_bound, ridge) * T * gain)


def check_self_normalised(policy: Any) -> None:
    """Refuse a policy that the bound does not cover, and say why: weights, or what is read off the data.

    >>> import kinbandits as kb
    >>> fixed = {"context_kernel": kb.RBF(), "similarity": kb.Mixed(0.5), "ridge": 1.0}
    >>> check_self_normalised(kb.KMTLUCB(2, **fixed, cold_start="borrow"))
    """
    reasons = []
    if not isinstance(getattr(policy, "ridge", 1.0), int | float):
        reasons.append("the ridge is learned; give a number")
    rewards = getattr(policy, "rewards", None)
    if rewards is not None and rewards.type_name in ("Running", "Standardized"):
        reasons.append(f"the scale of rewards is read off the data ({rewards!r}); give kb.Range(low, high)")
    if getattr(policy, "weighting", "uniform") != "uniform":
        reasons.append('weighting must be "uniform"')
    if getattr(policy, "cold_start", "borrow") != "borrow":
        reasons.append('cold_start must be "borrow", so that every arm has the ordinary posterior')
    for term in policy.terms:
        if not term.similarity.fixed:
            reasons.append(f"the similarity {term.similarity!r} is read off the data; fix it beforehand")
        if not hasattr(term.context_kernel, "diag"):
            reasons.append(f"the kernel {term.context_kernel!r} is read off the data; give it a length scale")
    if getattr(policy, "memory", None) is not None:
        reasons.append("rows must not be forgotten (memory)")
    if reasons:
        raise InvalidInputError("the self-normalised bound does not hold for this policy: " + "; ".join(reasons))


# -- a wrong similarity -------------------------------------------------------------------------------


def norm_inflation(true: ArrayLike, used: ArrayLike) -> float:
    """sqrt(lmax(K_used^-1 K_true)): ||f|| under the similarity used is at most this times ||f|| under the true one.

    f* keeps its guarantee under a wrong similarity if ``norm_bound`` is multiplied by this. It is infinite where f*
    may leave the space of the similarity used (a direction of the true one that the used one does not have).

    >>> from kinbandits.theory import equicorrelated
    >>> round(norm_inflation(equicorrelated(0.0, 3), equicorrelated(0.5, 3)), 4)  # strangers taken for kin
    1.4142
    """
    K_true, K_used = kernel_matrix("true", true), kernel_matrix("used", used)
    if K_true.shape != K_used.shape:
        raise InvalidInputError(f"true and used must have one shape, got {K_true.shape} and {K_used.shape}")
    spectrum_of("true", K_true)
    spectrum_of("used", K_used)
    values, vectors = np.linalg.eigh(K_used)
    lost = vectors[:, values <= 1e-12 * max(values[-1], 1e-300)]
    if lost.shape[1]:
        if float(np.abs(lost.T @ K_true @ lost).max()) > 1e-10 * max(1.0, float(np.abs(K_true).max())):
            return math.inf
        kept = vectors[:, lost.shape[1] :]
        K_true, K_used = kept.T @ K_true @ kept, kept.T @ K_used @ kept
    return math.sqrt(max(float(eigh(K_true, K_used, eigvals_only=True)[-1]), 0.0))


def task_kernel(b: float, n_arms: int) -> Matrix:
    """((1 + b) I - (b / N) 11')^-1, the task kernel of Sessa et al. (2023): (I + (b / N) 11') / (1 + b).

    Up to its diagonal, (N + b) / (N (1 + b)), it is `Mixed` with mu = b / (N + b).

    >>> task_kernel(1.0, 2)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    N, value = whole("n_arms", n_arms, 1), positive("b", b, zero=True)
    return (np.eye(N) + value / N) / (1.0 + value)


def task_norm_bound(b: float, n_arms: int, norm_bound: float, deviation: float) -> float:
    """Bound on ||f*|| under ``Mixed(b / (N + b))`` if each ||f_a|| <= B and ||f_a - mean of all|| <= deviation B.

    Sessa et al. (2023): under their task kernel ||f||^2 = sum ||f_a||^2 + b sum ||f_a - mean||^2, at most
    N B^2 (1 + b deviation^2); `Mixed` is that kernel times N (1 + b) / (N + b).

    >>> round(task_norm_bound(b=0.0, n_arms=4, norm_bound=1.0, deviation=0.5), 3)  # independent arms
    2.0
    """
    N, value = whole("n_arms", n_arms, 1), positive("b", b, zero=True)
    B, share = positive("norm_bound", norm_bound, zero=True), positive("deviation", deviation, zero=True)
    return B * math.sqrt((N + value) * (1.0 + value * share**2) / (1.0 + value))


def task_bias_bound(b: float, n_arms: int, norm_bound: float, deviation: float) -> float:
    """What may stand for ``norm_bound`` in the sum form of the radius, one arm at a time: B (1 + b deviation).

    Or `task_norm_bound`, where that is smaller. Ridge regression pulls f_a towards the mean of all arms: without
    noise |mean - f*| <= sqrt(ridge) B (1 + b deviation) s at every arm (docs/theory.md has the proof). Never
    larger than the bound of Sessa et al. (2023) for small b. As ``norm_bound`` of `ConfidenceExploration` it is a
    schedule. The form "tight" needs the norm itself.

    >>> task_bias_bound(b=0.0, n_arms=4, norm_bound=1.0, deviation=0.5)  # independent arms: each has its own norm
    1.0
    """
    at_most = task_norm_bound(b, n_arms, norm_bound, deviation)
    return min(at_most, norm_bound * (1.0 + b * deviation))


def task_factors(
    K_X: ArrayLike,
    arms: ArrayLike,
    b: float,
    n_arms: int,
    delta: float,
    ridge: float,
    norm_bound: float,
    deviation: float,
    noise: float = 0.5,
) -> Vector:
    """(N,) beta of every arm under ``Mixed(b / (N + b))``: |mean - f*| <= beta_a s, with probability 1 - delta.

    The noise of other arms reaches an arm only as far as they are alike. So each arm needs log g of its own rows,
    and a share rho of that of the others, rho^2 = mu^2 (N - 1) / D with D = (1 - mu)(1 + (N - 1) mu); where log g
    of all rows together is smaller, that. Both events have delta / 2.

    ``K_X`` is the context kernel of the rows learned, ``arms`` their arms; ``norm_bound`` and ``deviation`` as in
    `task_norm_bound`.

    >>> beta = task_factors(np.eye(30), [0, 1] * 15, 0.0, 2, 0.1, ridge=1.0, norm_bound=1.0, deviation=0.5)
    >>> beta.round(3)  # sqrt(15 log 2 + 2 log 40) / 2 + 1
    array([3.108, 3.108])
    """
    N, value, failure = whole("n_arms", n_arms, 1), positive("b", b, zero=True), probability("delta", delta)
    mu, lam, sigma = value / (N + value), positive("ridge", ridge), positive("noise", noise, zero=True)
    K, rows = kernel_matrix("K_X", K_X), np.asarray(arms)
    together = log_g_of_similarity(mu, K, rows, lam) + 2.0 * math.log(2.0 / failure)
    if rows.size and (rows.min() < 0 or rows.max() >= N):
        raise InvalidInputError(f"arms must be numbers from 0 to {N - 1}, got {rows.min()} to {rows.max()}")
    D = (1.0 - mu) * (1.0 + (N - 1) * mu)
    own = np.array([log_g(K[np.ix_(rows == a, rows == a)], lam / max(1.0, D)) for a in range(N)])
    own += 2.0 * math.log(2.0 * N / failure)
    apart = np.sqrt(own) + mu * math.sqrt((N - 1) / D) * np.sqrt(own.sum() - own)
    bias = math.sqrt(lam) * task_bias_bound(value, N, norm_bound, deviation)
    return np.asarray(sigma * np.minimum(math.sqrt(together), apart) + bias)
