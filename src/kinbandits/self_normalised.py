"""A bound for KMTL-UCB itself, from self-normalised intervals; and what a wrong similarity costs. See `theory`.

The intervals hold for all rounds and arms at once, whoever chooses the arms, if the kernel was fixed beforehand and
rows have equal weights: no stages are needed. The proof is in docs/theory.md.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from kinbandits._conditions import kernel_matrix, magnitude, probability, spectrum_of, whole
from kinbandits._value import one_of, positive
from kinbandits.errors import InvalidInputError

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
    >>> fixed = {"context_kernel": kb.RBF(), "similarity": kb.Mixed(0.5), "ridge": 1.0, "rewards": None}
    >>> check_self_normalised(kb.KMTLUCB(2, **fixed, cold_start="borrow"))
    """
    reasons = []
    if not isinstance(getattr(policy, "ridge", 1.0), int | float):
        reasons.append("the ridge is learned; give a number")
    rewards = getattr(policy, "rewards", None)
    if rewards == "learn":
        reasons.append("the level and unit of rewards are learned; give rewards=None or (low, high)")
    if getattr(policy, "weighting", "uniform") != "uniform":
        reasons.append('weighting must be "uniform"')
    if getattr(policy, "cold_start", "borrow") != "borrow":
        reasons.append('cold_start must be "borrow", so that every arm has the ordinary posterior')
    for term in policy.kernel:
        if not term.similarity.fixed:
            reasons.append(f"the similarity {term.similarity!r} follows the data; fix it beforehand")
        if not hasattr(term.context_kernel, "diag"):
            reasons.append("the context kernel is learned; give context_kernel=")
    if getattr(policy, "memory", None) is not None:
        reasons.append("rows must not be forgotten (memory)")
    if reasons:
        raise InvalidInputError("the self-normalised bound does not hold for this policy: " + "; ".join(reasons))


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
