"""Rules: from what the regression says to who is played. Given as ``exploration=``.

A rule gives the leaders of each round, who share it alike, or the probability with which each candidate is played.

Notation (k candidates of one round; all on the scale on which rewards are learned)
    mean, width  (k,)    of the posterior; width is the paper's s, which contains lambda^-1/2
    beta                 multiplier of the width: the paper's exploration parameter
    score        (k,)    mean + beta * width
    C            (k, k)  joint posterior covariance
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from kinbandits._types import Mask, Matrix, Vector
from kinbandits._value import Count, NotNegative, OpenPart, Positive, Real, Value, Whole, one_of, positive
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.regression.contract import Prediction, Query, Regression, best

__all__ = [
    "GPUCB", "UCB", "Confidence", "InverseGap", "Logarithmic", "Rule", "Schedule", "State", "Thompson", "as_rule",
    "symmetric_root",
]  # fmt: skip

TIE = 1e-12
MANY = 10.0  # candidates, up to which a deviation is one deviation
SHARED = 0.75  # of a deviation, where arms were found to share: part of each width is then about what they have in
# common, which is the same for all and decides nothing


class State:
    """What a rule may ask of R rounds: the regression's answers, on the scale on which rewards are learned.

    ``deviations`` says how many deviations of the arms' functions one unit of that scale is: 2 where it is learned;
    ``shares``, whether the arms were found to share a function of the context.
    """

    def __init__(self, engine: Regression, query: Query, deviations: float = 1.0, shares: bool = False) -> None:
        self.engine, self.query, self.deviations, self.shares = engine, query, deviations, shares

    @property
    def ridge(self) -> float:
        return self.engine.settings.ridge

    @property
    def rows(self) -> int:
        return self.engine.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """(R, k)."""
        return self.query.shape

    def log_det(self) -> float:
        """log det(I + K / ridge) of the rows learned."""
        return self.engine.log_det()

    def learned(self, reward: float) -> float:
        """A reward in its own units, on the scale of learning."""
        return (reward - self.engine.settings.level) / self.engine.settings.unit

    @cached_property
    def prediction(self) -> Prediction:
        """Mean and width of every candidate, (R, k) each."""
        mean, width = self.engine.predict(self.query)
        level, unit = self.engine.settings.level, self.engine.settings.unit
        return Prediction((mean - level) / unit, width / unit)

    def covariance(self, round: int) -> Matrix:
        """C of one round."""
        one = Query(self.query.arms, self.query.contexts[round : round + 1])
        return np.asarray(self.engine.covariance(*one.points()) / self.engine.settings.unit**2)

    def leaders(self, beta: Vector, tolerance: float) -> Mask:
        """Who has the largest score, (R, k). Engines can tell without every number."""
        return self.engine.leaders(self.query, beta, tolerance)


class Rule(Value, ABC):
    """Who is played: a frozen value."""

    def beta(self, state: State, first_round: int) -> Vector:
        """The multiplier of the width, (R,): what a decision reports; 0 if there is none."""
        return np.zeros(state.shape[0])

    @abstractmethod
    def leaders(self, state: State, beta: Vector, tolerance: float) -> Mask | Matrix:
        """A mask of the leaders of each round, (R, k), or the probability of each candidate.

        ``beta`` is what `beta` gave. Scores within ``tolerance`` (relative) are a tie.
        """


# -- upper confidence bounds -----------------------------------------------------------------------


class Schedule(Value, ABC):
    """How the multiplier of the width changes with the number of decisions: ``kb.UCB(schedule)``."""

    @abstractmethod
    def at(self, t: int, state: State) -> float:
        """beta at decision t, counted from 1."""


class UCB(Rule):
    """Play the largest mean + beta * width: the paper's rule, and the default.

    Args:
        exploration: beta, a number, a `Schedule`, or a function t -> beta_t of the number of the decision, from 1.
            None: beta = deviations * sqrt(ridge), so that beta * width is so many posterior deviations whatever the
            ridge; and 3/4 of it where arms were found to share (`Learned`). Among n > 10 candidates it is
            log 10 / log n of that: of many candidates one looks promising by chance, and in as many rounds each can
            be tried less often.
        deviations: see there.
        ceiling: a reward that is never exceeded. Scores are capped there, and of those that reach it the largest mean
            is played.

    >>> import kinbandits as kb
    >>> kb.KMTLUCB(arms=2, exploration=kb.UCB(0.2, ceiling=1.0)).exploration
    UCB(exploration=0.2, ceiling=1.0)
    """

    exploration: Any = None
    deviations: NotNegative = 1.0
    ceiling: Real | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        beta = self.exploration
        if beta is not None and not callable(beta) and not isinstance(beta, Schedule):
            self._set(exploration=positive("exploration", beta, zero=True))

    def beta(self, state: State, first_round: int) -> Vector:
        rounds, k = state.shape
        beta = self.exploration
        if beta is None:
            many = min(1.0, math.log(MANY) / math.log(max(k, 2)))
            deviations = self.deviations * (SHARED if state.shares else 1.0)
            return np.full(rounds, deviations * many * math.sqrt(state.ridge))
        if isinstance(beta, float):
            return np.full(rounds, beta)
        values = np.empty(rounds)
        for i in range(rounds):
            t = first_round + i + 1
            values[i] = beta.at(t, state) if isinstance(beta, Schedule) else float(beta(t))
        if not (values >= 0.0).all() or np.isinf(values).any():
            bad = values[~(values >= 0.0) | np.isinf(values)][0]
            raise InvalidInputError(f"the exploration schedule returned {bad!r}; it must be at least 0 and finite")
        return values

    def leaders(self, state: State, beta: Vector, tolerance: float) -> Mask:
        if self.ceiling is None:
            return state.leaders(beta, tolerance)  # Alg. 1: a_t = argmax p_{a,t}
        mean, width = state.prediction
        score, top = mean + beta[:, None] * width, state.learned(self.ceiling)
        leads = best(np.minimum(score, top), tolerance)
        return best(np.where(leads, mean, -np.finfo(float).max), tolerance) & leads


class Logarithmic(Schedule):
    """beta_t = scale * sqrt(log(t + shift)), with t + shift at least 2.

    shift = 1 is what Gang of Bandits, CLUB and COFIBA run; scale = sqrt(2), shift = -1 is UCB1, which counts the
    rounds before this one.

    >>> round(Logarithmic(scale=0.5).at(99, None), 4)
    1.073
    """

    scale: NotNegative = 1.0
    shift: Whole = 1

    def at(self, t: int, state: State) -> float:
        return self.scale * math.sqrt(math.log(max(t + self.shift, 2)))


class GPUCB(Schedule):
    """GP-UCB (Srinivas et al., 2010, Theorem 1): scale * sqrt(ridge * 2 log(n_arms t^2 pi^2 / (6 delta))).

    The root of the ridge turns our width, which contains ridge^-1/2, into their standard deviation.

    Args:
        n_arms: size of the decision set.
        delta: probability of failure.
        scale: 1 is the theorem; practice takes less.
    """

    n_arms: Count
    delta: OpenPart = 0.1
    scale: NotNegative = 1.0

    def at(self, t: int, state: State) -> float:
        beta = 2.0 * math.log(self.n_arms * t**2 * math.pi**2 / (6.0 * self.delta))
        return self.scale * math.sqrt(state.ridge * max(beta, 0.0))


class Confidence(Schedule):
    """The self-normalised radius: noise * sqrt(log_det + 2 log(1 / delta)) + sqrt(ridge) * norm_bound.

    With uniform weights and a fixed similarity the mean is then within beta_t * width of the truth in all rounds at
    once, with probability 1 - delta (Abbasi-Yadkori et al., 2011, Theorem 2).

    Args:
        noise: sigma, a bound on the noise of rewards (sub-Gaussian).
        norm_bound: a bound on the norm of the reward function.
        delta: probability of failure.
        form: ``"self-normalised"``, as above; or ``"tight"``, the root of the sum of the two squares, which holds too
            (`kinbandits.theory.self_normalised_factor`).

    >>> round(Confidence(noise=0.5).radius(log_det=2.0, ridge=1.0), 4)
    2.285
    """

    noise: NotNegative = 0.1
    norm_bound: NotNegative = 1.0
    delta: OpenPart = 0.1
    form: Literal["self-normalised", "tight"] = "self-normalised"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("form", self.form, "self-normalised", "tight")

    def radius(self, log_det: float, ridge: float) -> float:
        """beta, for log det(I + K / ridge) of the rows learned."""
        spread = self.noise * math.sqrt(max(log_det, 0.0) - 2.0 * math.log(self.delta))
        parts = spread, math.sqrt(ridge) * self.norm_bound
        return math.hypot(*parts) if self.form == "tight" else sum(parts)

    def at(self, t: int, state: State) -> float:
        return self.radius(state.log_det(), state.ridge)


# -- by chance -------------------------------------------------------------------------------------


class Thompson(Rule):
    """Play each candidate with the probability that it is the best one: Thompson's rule, as ``exploration=``.

    Draws are joint, f = mean + scale * z root' with root root' = C: kin rise and fall together. The candidate is drawn
    from how often each leads in many draws, not from one draw: the same rule to Monte Carlo error, with exact
    ``decision.propensity``.

    Args:
        samples: joint draws; an even number, as they come in pairs +z, -z. One more draw is divided by the chance of
            each candidate to beat the leader, so that none is impossible.
        scale: multiplies the deviation sqrt(ridge) * width, or half of it where the unit of rewards, two deviations, is
            learned. Linear Thompson sampling (Agrawal and Goyal, 2013), with deviation v * width, has v / sqrt(ridge).

    >>> import kinbandits as kb
    >>> rule = kb.Thompson()
    >>> policy = kb.KMTLUCB(arms=2, context_kernel=kb.RBF(), ridge=0.01, rewards=None, exploration=rule)
    >>> policy.observe([0, 1], [[0.0], [0.0]], [1.0, 0.9])
    >>> policy.probabilities([0.0]).round(1)
    array([0.8, 0.2])
    """

    samples: Count = 1000
    scale: NotNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples % 2:
            raise InvalidInputError(f"samples must be an even number of at least 2, got {self.samples!r}")

    def leaders(self, state: State, beta: Vector, tolerance: float) -> Matrix:
        mean = state.prediction.mean
        shares = [self.shares(mean[r], state.covariance(r) / state.deviations**2) for r in range(state.shape[0])]
        return np.array(shares).reshape(state.shape)

    def shares(self, mean: Vector, covariance: Matrix) -> Vector:
        """The probability with which each candidate is played, (k,): positive wherever it can be the best.

        >>> Thompson().shares(np.zeros(2), np.ones((2, 2)))
        array([0.5, 0.5])
        """
        step = self.scale * (_normal(self.samples // 2, len(mean)) @ symmetric_root(covariance).T)
        f = np.concatenate([mean + step, mean - step])
        leads = best(f, TIE)
        counted = (leads / leads.sum(axis=1, keepdims=True)).sum(axis=0)
        chances = self._chances(mean, covariance)
        return np.asarray((counted + chances / chances.sum()) / (self.samples + 1))

    def _chances(self, mean: Vector, covariance: Matrix) -> Vector:
        """P(f_a >= f_b) for the leader b by mean: it bounds the probability that a is the best."""
        from scipy.special import ndtr

        b = int(mean.argmax())
        variance = covariance.diagonal() + covariance[b, b] - 2.0 * covariance[b]
        noise = 1e-12 * max(float(covariance.diagonal().max()), np.finfo(float).tiny)
        deviation = self.scale * np.sqrt(np.maximum(variance, 0.0))
        certain = (variance <= noise) | (deviation == 0.0)
        gap = (mean - mean[b]) / np.where(certain, 1.0, deviation)
        tied = mean >= mean[b] - TIE * abs(mean[b])
        return np.asarray(np.where(certain, tied.astype(np.float64), ndtr(gap)))


def symmetric_root(K: Matrix, rounding: bool = True) -> Matrix:
    """The symmetric R, R R' = K; with ``rounding``, directions that are zero but for it stay zero.

    It is the only root that is the same on every processor: eigenvectors of equal eigenvalues are arbitrary.

    >>> symmetric_root(np.array([[4.0]]))
    array([[2.]])
    """
    values, vectors = np.linalg.eigh(K)
    floor = rounding * len(values) * np.finfo(float).eps * max(float(values[-1]), 0.0)
    root: Matrix = (vectors * np.sqrt(np.where(values > floor, values, 0.0))) @ vectors.T
    return root


@lru_cache(maxsize=16)
def _normal(rows: int, k: int) -> Matrix:
    """Standard normal numbers, always the same; scaled so that their mean square is one in every column."""
    z = np.random.default_rng(rows).standard_normal((rows, k))
    z *= math.sqrt(rows) / np.linalg.norm(z, axis=0)
    z.setflags(write=False)
    return z


class InverseGap(Rule):
    """Play each candidate with probability 1 / (k + gamma * gap), and the leader with the rest: ``exploration=``.

    The rule for logs that will be evaluated: probabilities are exact, never 0, and highest where the candidates are
    close, which is where another policy would choose otherwise. The gap is the largest score - score, with score =
    mean + optimism * sqrt(ridge) * width; leaders that tie share the rest alike. It is the rule of Abe and Long (1999),
    analysed as SquareCB (Foster and Rakhlin, 2020) and FALCON (Simchi-Levi and Xu, 2022) for optimism 0.

    Args:
        scale: gamma = scale * k * sqrt(n) after n rows: random play costs at most 1 / (scale sqrt(n)) in a round, in T
            rounds 2 sqrt(T) / scale, on the scale of learning.
        gamma: a number, in place of that.
        optimism: posterior deviations added to the means before gaps are taken. 1 is the upper bound of the default
            rule, so that candidates little is known of are near the leader.

    >>> import kinbandits as kb
    >>> rule = kb.InverseGap(optimism=0.0)
    >>> policy = kb.KMTLUCB(arms=2, context_kernel=kb.RBF(), ridge=0.01, rewards=None, exploration=rule)
    >>> policy.observe([0, 1], [[0.0], [0.0]], [1.0, 0.5])
    >>> policy.probabilities([0.0]).round(2)
    array([0.97, 0.03])
    """

    scale: Positive = 20.0
    gamma: NotNegative | None = None
    optimism: NotNegative = 1.0

    def beta(self, state: State, first_round: int) -> Vector:
        return np.full(state.shape[0], self.optimism * math.sqrt(state.ridge))

    def leaders(self, state: State, beta: Vector, tolerance: float) -> Matrix:
        mean, width = state.prediction
        gamma = self.scale * state.shape[1] * math.sqrt(state.rows) if self.gamma is None else self.gamma
        return self.shares(mean + beta[:, None] * width, gamma, tolerance)

    @staticmethod
    def shares(scores: Matrix, gamma: float, tolerance: float = 0.0) -> Matrix:
        """The probability of each candidate, (R, k), given the scores.

        >>> InverseGap.shares(np.array([[0.7, 0.5, 0.7]]), gamma=10.0)
        array([[0.4, 0.2, 0.4]])
        """
        lead = best(scores, tolerance)
        gap = scores.max(axis=1, keepdims=True) - scores
        p = np.where(lead, 0.0, 1.0 / (scores.shape[1] + gamma * gap))
        rest = (1.0 - p.sum(axis=1, keepdims=True)) / lead.sum(axis=1, keepdims=True)
        return np.asarray(np.where(lead, rest, p))


Exploration = float | Schedule | Rule | Callable[[int], float]


def as_rule(exploration: Any) -> Rule:
    """A rule as it is; a number, a schedule or a function as the multiplier of `UCB`."""
    if isinstance(exploration, Rule):
        return exploration
    if isinstance(exploration, type):
        raise InvalidTypeError(
            f"exploration is the class {exploration.__name__}; give a value, {exploration.__name__}()"
        )
    return UCB() if exploration is None else UCB(exploration)
