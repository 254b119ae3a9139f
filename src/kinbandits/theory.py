"""The paper's analysis as pure functions: numbers in, a bound out, with the paper's number in each docstring.

Every function refuses arguments outside the conditions of its statement and says which one. Logarithms are natural.

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
    Q, q         stage          stages of SupKMTL-UCB, q = 1, ..., Q
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

import inspect
import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from kinbandits._checks import as_float64, square_matrix
from kinbandits._types import Matrix, Vector
from kinbandits._value import Check, Count, Natural, NotNegative, Positive, Real, one_of, real
from kinbandits.errors import InvalidInputError, NotPositiveSemidefiniteError

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", float, Vector)

# -- conditions ---------------------------------------------------------------------------------------


def _probability(name: str, value: Any) -> float:
    if not 0.0 < (number := real(name, value)) <= 1.0:
        raise InvalidInputError(f"{name} must be a probability above 0 and at most 1, got {value!r}")
    return number


def _kernel(name: str, values: Any) -> Matrix:
    """A symmetric, positive semidefinite matrix; or none at all, of no rows."""
    K = square_matrix(name, values, symmetric=True) if np.size(values) else as_float64(name, values).reshape(0, 0)
    _spectrum(name, np.linalg.eigvalsh(K))
    return K


def _spectrum(name: str, eigenvalues: NDArray[Any]) -> Vector:
    """Largest first, what is only rounding set to zero; refused if one is below zero by more."""
    values = np.sort(eigenvalues)[::-1]
    scale = max(float(np.abs(values).max(initial=0.0)), np.finfo(float).tiny)
    if values.min(initial=0.0) < -1e-10 * scale:
        raise NotPositiveSemidefiniteError(
            f"{name} must not have a negative eigenvalue, but one is {values[-1]:.6g}; a kernel matrix is positive "
            "semidefinite"
        )
    return np.where(values > len(values) * np.finfo(float).eps * scale, values, 0.0)


def _widths(name: str, values: Any) -> Any:
    """Numbers of at least 0: one, or an array of them."""
    widths = as_float64(name, values)
    if (least := widths.min(initial=0.0)) < 0:
        raise InvalidInputError(f"{name} must be at least 0, got {least:.6g}")
    return widths if np.ndim(values) else float(widths)


Probability = Annotated[float, Check(_probability)]
Kernel = Annotated[ArrayLike, Check(_kernel)]
Eigenvalues = Annotated[ArrayLike, Check(as_float64)]
Form = Annotated[Literal["printed", "derived"], Check(lambda name, value: one_of(name, value, "printed", "derived"))]
Radius = Annotated[Literal["sum", "tight"], Check(lambda name, value: one_of(name, value, "sum", "tight"))]


def _checked(function: F) -> F:
    """Every argument is checked by its annotation before the statement is evaluated."""
    signature = inspect.signature(function, eval_str=True)
    checks = {
        name: check.run
        for name, parameter in signature.parameters.items()
        for check in getattr(parameter.annotation, "__metadata__", ())
    }

    @wraps(function)
    def statement(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        return function(**{n: checks[n](n, value) if n in checks else value for n, value in given.items()})

    return cast(F, statement)


# -- Theorem 1, the steps of its proof, and the bounds of neighbours ---------------------------------


@_checked
def confidence_factor(horizon: Count, n_arms: Count, delta: Probability) -> float:
    """alpha = sqrt(log(2 T N / delta) / 2), Lemma 1.

    >>> round(confidence_factor(horizon=1000, n_arms=5, delta=0.1), 4)
    2.3993
    """
    return math.sqrt(math.log(2 * horizon * n_arms / delta) / 2)


@_checked
def radius(width: Annotated[S, Check(_widths)], factor: NotNegative, norm_bound: NotNegative, ridge: Positive) -> S:
    """w = (alpha + c sqrt(lambda)) s, Lemma 1: |mean - f*| is at most this, with probability 1 - delta / T.

    >>> radius(width=0.5, factor=2.0, norm_bound=1.0, ridge=4.0)
    2.0
    """
    return (factor + norm_bound * math.sqrt(ridge)) * width


@_checked
def n_stages(horizon: Count) -> int:
    """Q = ceil(log T), and at least 1: the stages of SupKMTL-UCB (Algorithm 3, line 2).

    >>> [n_stages(T) for T in (1, 2, 10, 1000)]
    [1, 1, 3, 7]
    """
    return max(1, math.ceil(math.log(horizon)))


@_checked
def stage_delta(horizon: Count, delta: Probability) -> float:
    """delta / (Q + 1): what ``delta=`` of `SupKMTLUCB` must be for Theorem 1 to hold with probability 1 - delta.

    Lemma 1's intervals fail with delta each in Q stages, and Azuma's inequality once more.

    >>> round(stage_delta(horizon=1000, delta=0.1), 6)
    0.0125
    """
    return delta / (n_stages(horizon) + 1)


@_checked
def regret_bound(
    horizon: Count,
    n_arms: Count,
    delta: Probability,
    ridge: Positive,
    norm_bound: NotNegative,
    kernel_bound: Positive,
    log_g: NotNegative,
    form: Form = "printed",
) -> float:
    """Theorem 1: SupKMTL-UCB's regret R(T) is at most this, with probability at least 1 - delta.

        2 sqrt(T) + 10 (a + c sqrt(lambda)) sqrt(2 m log g) sqrt(T ceil(log T)),
        a = sqrt(log(2 T N (log T + 1) / delta) / 2)

    ``form="derived"`` is what the proof gives (see the errata in docs/theory.md).

    >>> round(regret_bound(1000, 5, 0.1, 1.0, 1.0, 1.0, log_g=20.0))
    19144
    """
    T, m = horizon, _m(kernel_bound, ridge)
    if form == "printed":
        stages, tries, extra = math.ceil(math.log(T)), math.log(T) + 1, 0.0
    else:
        stages = n_stages(T)
        tries = stages + 1
        extra = 0.0 if m * stages * log_g >= 0.5 else math.sqrt(2 * T * math.log(2 * tries / delta))
    w = radius(1.0, math.sqrt(math.log(2 * T * n_arms * tries / delta) / 2), norm_bound, ridge)
    return 2 * math.sqrt(T) + 10 * w * math.sqrt(2 * m * log_g * T * stages) + extra


def _m(kernel_bound: float, ridge: float) -> float:
    return max(1.0, kernel_bound / ridge)


# -- what a kernel matrix says: Theorems 2 and 3, Corollary 1 ----------------------------------------


@_checked
def log_g(K: Kernel, ridge: Positive) -> float:
    """log g = log det(K + lambda I) - n log lambda, the sum of log(1 + eigenvalue / lambda) (Theorem 1).

    >>> round(log_g([[1.0, 0.0], [0.0, 1.0]], ridge=1.0), 4)
    1.3863
    """
    return float(np.log1p(_spectrum("K", np.linalg.eigvalsh(np.asarray(K))) / ridge).sum())


@_checked
def rank_bound(
    rank_z: Natural, rank_x: Natural, horizon: Count, kernel_bound: Positive, ridge: Positive, form: Form = "printed"
) -> float:
    """Theorem 2: log g([T]) <= r_z r_x log(((T + 1) c_k + lambda) / lambda).

    r_z is the rank of the similarity matrix, r_x that of the kernel matrix of the T + 1 contexts. "derived" is the
    tighter line of the proof before the last: r log(1 + (T + 1) c_k / (r lambda)) with r = min(r_z r_x, T + 1).

    >>> round(rank_bound(rank_z=1, rank_x=2, horizon=99, kernel_bound=1.0, ridge=1.0), 3)
    9.23
    """
    rows = horizon + 1
    if rank_x > rows:
        raise InvalidInputError(f"rank_x is {rank_x}, but {rows} contexts (horizon + 1) have at most rank {rows}")
    trace, r = rows * kernel_bound / ridge, rank_z * rank_x
    if form == "printed":
        return r * math.log1p(trace)
    r = min(r, rows)
    return r * math.log1p(trace / max(r, 1))


@_checked
def effective_rank(eigenvalues: Eigenvalues, ridge: Positive, horizon: Count) -> int:
    """Definition 1: r = min{j : j lambda log T >= sum of the eigenvalues after the j-th}.

    ``eigenvalues`` are those of K~_{T+1}, in any order; missing ones are zero.

    >>> effective_rank([5.0, 1.0, 0.1, 0.01], ridge=1.0, horizon=3)
    2
    """
    values = np.asarray(eigenvalues)
    if values.ndim != 1 or len(values) > horizon + 1:
        raise InvalidInputError(
            f"eigenvalues must be at most horizon + 1 = {horizon + 1} numbers in a row, got shape {values.shape}"
        )
    values = _spectrum("a matrix with these eigenvalues", values)
    tails = np.append(np.cumsum(values[::-1])[::-1], 0.0)  # tails[j] = sum of values[j:]
    return int(np.argmax(np.arange(len(values) + 1) * ridge * math.log(horizon) >= tails))


@_checked
def effective_rank_bound(r: Natural, horizon: Count, kernel_bound: Positive, ridge: Positive) -> float:
    """Corollary 1: log g([T]) <= r log(2 T (2 (T + 1) c_k + r lambda - r lambda log T) / (r lambda)).

    It needs lambda log T <= (T + 1) c_k, which the paper does not say. ``r`` is `effective_rank`.

    >>> round(effective_rank_bound(r=2, horizon=100, kernel_bound=1.0, ridge=1.0), 3)
    19.754
    """
    T, trace, lost = horizon, (horizon + 1) * kernel_bound, ridge * math.log(horizon)
    if lost > trace:
        raise InvalidInputError(
            "Corollary 1 needs ridge * log(horizon) <= (horizon + 1) * kernel_bound, but "
            f"{lost:.6g} > {trace:.6g}; use a smaller ridge"
        )
    inside = 2 * T * (2 * trace + r * ridge - r * lost) / (max(r, 1) * ridge)
    if r > T + 1 or inside <= 0:
        raise InvalidInputError(
            f"r = {r} is no effective rank of a matrix of horizon + 1 = {T + 1} rows with entries up to "
            f"{kernel_bound} and ridge {ridge}; it is too large"
        )
    return r * math.log(inside)


@_checked
def equicorrelated(mu: Real, n_arms: Count) -> Matrix:
    """K_Z(mu) = (1 - mu) I + mu 11': any two different arms have similarity mu, from -1/(N - 1) to 1 (section 4.2).

    >>> equicorrelated(0.25, 2)
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """
    lowest = -1.0 / max(n_arms - 1, 1)
    if not lowest - 1e-12 <= mu <= 1.0:
        raise InvalidInputError(f"mu must be between {lowest:.6g} and 1 for {n_arms} arms, got {mu!r}")
    return (1.0 - mu) * np.eye(n_arms) + mu * np.ones((n_arms, n_arms))


@_checked
def log_g_of_similarity(mu: Real, K_X: Kernel, arms: Sequence[Any] | NDArray[Any], ridge: Positive) -> float:
    """log g_mu, Theorem 3: it falls as mu grows from 0 to 1 (below 0 the theorem is false).

    ``arms`` may be any labels, each as often as one likes; the paper proves it for equal counts. A proof for all:
    for mu1 <= mu2, K(mu1) + lambda I is the Hadamard product of K(mu2) + lambda I and C = K_Z(mu1 / mu2) spread over
    the rows, a correlation matrix; and det(A o C) >= det(A) (Oppenheim).

    >>> K_X = np.ones((4, 4))
    >>> [round(log_g_of_similarity(mu, K_X, [0, 0, 0, 1], ridge=1.0), 3) for mu in (0.0, 0.5, 1.0)]
    [2.079, 1.981, 1.609]
    """
    if not 0.0 <= mu <= 1.0:
        raise InvalidInputError(f"mu must be between 0 and 1 (Theorem 3 needs mu >= 0), got {mu!r}")
    K, labels = np.asarray(K_X), np.asarray(arms)
    if labels.shape != (len(K),):
        raise InvalidInputError(f"arms must have one entry per row of K_X: {len(K)} rows, but shape {labels.shape}")
    return log_g(np.where(labels[:, None] == labels, 1.0, mu) * K, ridge)


# -- widths, and sums of widths along a run ----------------------------------------------------------


@_checked
def width_lower_bound(
    n: Count, kernel_bound: Positive, lmax_z: Positive, prior: NotNegative, ridge: Positive, form: Form = "derived"
) -> float:
    """Lemma 6, left side: s^2 >= 4 (L + lambda) / (L + 2 lambda)^2 (k + lambda) - 1, with L = n c_k lmax(K_Z).

    It falls as lmax(K_Z) grows, hence as mu does in K_Z(mu) (Theorem 4); below zero it says nothing. n is the most
    rows of an arm, the candidate included. "printed" has 4 L + lambda in the numerator, which is weaker.

    >>> width_lower_bound(n=1, kernel_bound=1.0, lmax_z=1.0, prior=1.0, ridge=1.0)
    0.7777777777777777
    """
    if prior > kernel_bound * (1 + 1e-12):
        raise InvalidInputError(f"prior must be at most kernel_bound = {kernel_bound}, got {prior!r}")
    if lmax_z < 1 - 1e-9:
        raise InvalidInputError(
            f"lmax_z must be at least 1, got {lmax_z!r}: the lemma needs a similarity matrix with a diagonal of "
            "ones, whose largest eigenvalue is at least 1"
        )
    L = n * kernel_bound * lmax_z
    numerator = 4 * (L + ridge) if form == "derived" else 4 * L + ridge
    return numerator / (L + 2 * ridge) ** 2 * (prior + ridge) - 1


@_checked
def squared_width_sum_bound(log_g: NotNegative, kernel_bound: Positive, ridge: Positive) -> float:
    """Lemma 8 (the determinant lemma): the sum of s^2 over the rows of a run is at most 2 m log g.

    So the sum of s over n rows is at most sqrt(2 m n log g) (Lemma 9). It needs uniform weights and a similarity that
    does not change; ``log_g`` is of the rows themselves.

    >>> squared_width_sum_bound(log_g=3.0, kernel_bound=1.0, ridge=0.5)
    12.0
    """
    return 2 * _m(kernel_bound, ridge) * log_g


# -- KMTL-UCB itself, from self-normalised intervals; and what a wrong similarity costs -----------------


@_checked
def self_normalised_factor(
    log_g: NotNegative,
    delta: Probability,
    ridge: Positive,
    norm_bound: NotNegative,
    noise: NotNegative = 0.5,
    form: Radius = "tight",
) -> float:
    """beta: with probability 1 - delta, |mean - f*| <= beta s for all arms and rounds at once.

    It holds whoever chooses the arms, if the kernel was fixed beforehand and rows have equal weights.
    ``form="sum"`` is sigma sqrt(log g + 2 log(1/delta)) + sqrt(lambda) B (Abbasi-Yadkori et al., 2011); ``"tight"``
    is sqrt(sigma^2 (log g + 2 log(1/delta)) + lambda B^2) (proof in docs/theory.md, as Flynn and Reeb, 2024).

    >>> [round(self_normalised_factor(2.0, 0.1, 1.0, 1.0, form=form), 4) for form in ("sum", "tight")]
    [2.285, 1.6283]
    """
    spread = noise**2 * (log_g - 2.0 * math.log(delta))
    if form == "sum":
        return math.sqrt(spread) + math.sqrt(ridge) * norm_bound
    return math.sqrt(spread + ridge * norm_bound**2)


@_checked
def self_normalised_bound(
    horizon: Count,
    delta: Probability,
    ridge: Positive,
    norm_bound: NotNegative,
    kernel_bound: Positive,
    log_g: NotNegative,
    noise: NotNegative = 0.5,
    form: Radius = "tight",
) -> float:
    """2 beta sqrt(2 m T log g): the expected regret of KMTL-UCB is at most this, with probability 1 - delta.

    For every T at once, if exploration is that beta (`rules.Confidence`; see `check_self_normalised`).

    >>> round(self_normalised_bound(1000, 0.1, 1.0, 1.0, 1.0, log_g=20.0))
    1070
    """
    beta = self_normalised_factor(log_g, delta, ridge, norm_bound, noise, form)
    return 2.0 * beta * math.sqrt(horizon * squared_width_sum_bound(log_g, kernel_bound, ridge))  # Lemma 9


def check_self_normalised(policy: Any) -> None:
    """Refuse a policy that the bound does not cover, and say why: weights, or what is read off the data.

    >>> import kinbandits as kb
    >>> fixed = {"context_kernel": kb.RBF(), "similarity": kb.Mixed(0.5), "ridge": 1.0, "rewards": None}
    >>> check_self_normalised(kb.KMTLUCB(2, **fixed, cold_start="borrow"))
    """
    conditions = {
        "the ridge is learned; give a number": policy.ridge is not None,
        "the level and unit of rewards are learned; give rewards=None or (low, high)": policy.rewards != "learn",
        'weighting must be "uniform"': policy.weighting == "uniform",
        'cold_start must be "borrow", so that every arm has the ordinary posterior': policy.cold_start == "borrow",
        "rows must not be forgotten (memory)": policy.memory is None,
        "the context kernel is learned; give context_kernel=": all(
            hasattr(t.context_kernel, "diag") for t in policy.kernel
        ),
        **{
            f"the similarity {t.similarity!r} follows the data; fix it beforehand": t.similarity.fixed
            for t in policy.kernel
        },
    }
    reasons = [reason for reason, holds in conditions.items() if not holds]
    if reasons:
        raise InvalidInputError("the self-normalised bound does not hold for this policy: " + "; ".join(reasons))


@_checked
def norm_inflation(true: Kernel, used: Kernel) -> float:
    """sqrt(lmax(K_used^-1 K_true)): ||f|| under the similarity used is at most this times ||f|| under the true one.

    f* keeps its guarantee if ``norm_bound`` is multiplied by this. Infinite where f* may leave the space of K_used.

    >>> round(norm_inflation(equicorrelated(0.0, 3), equicorrelated(0.5, 3)), 4)  # strangers taken for kin
    1.4142
    """
    K_true, K_used = np.asarray(true), np.asarray(used)
    if K_true.shape != K_used.shape:
        raise InvalidInputError(f"true and used must have one shape, got {K_true.shape} and {K_used.shape}")
    values, vectors = np.linalg.eigh(K_used)
    lost = vectors[:, values <= 1e-12 * max(values[-1], 1e-300)]
    kept = vectors[:, lost.shape[1] :]
    if np.abs(lost.T @ K_true @ lost).max(initial=0.0) > 1e-10 * max(1.0, float(np.abs(K_true).max())):
        return math.inf
    return math.sqrt(max(float(eigh(kept.T @ K_true @ kept, kept.T @ K_used @ kept, eigvals_only=True)[-1]), 0.0))
