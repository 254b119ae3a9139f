"""Inverse-gap weighting: the further behind the leader, the less often a candidate is played.

Notation (k candidates of one round, n rows learned; all on the scale on which rewards are learned)
    score   (k,)  mean + optimism * sqrt(ridge) * width; with optimism 0 the mean
    gap     (k,)  the largest score - score
    gamma         how fast the probability falls with the gap
    p       (k,)  1 / (k + gamma * gap) for all but the leader, who takes the rest; leaders that tie share it alike

The rule of Abe and Long (1999), analysed as SquareCB (Foster and Rakhlin, 2020) and FALCON (Simchi-Levi and Xu,
2022) for means (optimism 0). Probabilities are exact and above 0; random play costs a round at most k / gamma, in
scores.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits._value import NotNegative, OpenPart, Positive, Value, positive
from kinbandits.errors import InvalidTypeError
from kinbandits.regression.base import best
from kinbandits.rules.base import Answer, Rule


class Gamma(Value, ABC):
    """How fast probabilities fall with the gap, as the rows grow: ``gamma=`` of `InverseGap`."""

    @abstractmethod
    def __call__(self, k: int, rows: int, ridge: float, log_det: Callable[[], float]) -> float:
        """gamma for k candidates after so many rows, at least 0."""


class RootGamma(Gamma):
    """gamma = scale * k * sqrt(rows): random play costs at most 1 / (scale sqrt(n)) units of reward in a round.

    In T rounds that is 2 sqrt(T) / scale units: with the default ``rewards`` about the distance between a good and
    a bad candidate.

    >>> RootGamma(scale=10.0)(k=4, rows=100, ridge=0.01, log_det=lambda: 0.0)
    400.0
    """

    scale: Positive = 20.0

    def __call__(self, k: int, rows: int, ridge: float, log_det: Callable[[], float]) -> float:
        return self.scale * k * math.sqrt(rows)


class SquareCBGamma(Gamma):
    """The theory's: gamma = scale * sqrt(k n / (Reg + log(2 / delta))) (Foster and Rakhlin, 2020, Theorem 1).

    Reg bounds how much worse than the best function the regression has predicted, in squares summed over the n
    rows. For kernel ridge regression and rewards between -1 and 1 it is ridge * norm_bound^2 + log_det (Gammerman,
    Kalnishkan and Vovk, 2004). n stands in place of the horizon, as in FALCON, so that none must be known.

    ``delta`` is the probability of failure, ``norm_bound`` of the reward function. With ``scale`` 1 it explores far
    more than is good on any problem of `docs/comparison`.

    >>> round(SquareCBGamma()(k=4, rows=100, ridge=0.01, log_det=lambda: 20.0), 3)
    4.17
    """

    delta: OpenPart = 0.1
    norm_bound: NotNegative = 1.0
    scale: Positive = 1.0

    def __call__(self, k: int, rows: int, ridge: float, log_det: Callable[[], float]) -> float:
        regret = ridge * self.norm_bound**2 + max(log_det(), 0.0) + math.log(2.0 / self.delta)
        return self.scale * math.sqrt(k * rows / regret)


class InverseGap(Rule):
    """Play each candidate with probability 1 / (k + gamma * gap), and the leader with the rest: ``exploration=``.

    The rule for logs that will be evaluated: probabilities are exact, never 0, and highest where the candidates
    are close, which is where another policy would choose otherwise.

    Args:
        gamma: a number, or how it grows: ``RootGamma(scale)``, ``SquareCBGamma()``.
        optimism: posterior deviations added to the means before gaps are taken. 1 is the upper bound of the default
            rule, so that candidates little is known of are near the leader. 0 is the rule of the theory.

    >>> import kinbandits as kb
    >>> rule = kb.InverseGap(optimism=0.0)
    >>> policy = kb.KMTLUCB(arms=2, context_kernel=kb.RBF(), ridge=0.01, exploration=rule)
    >>> policy.observe([0, 1], [[0.0], [0.0]], [1.0, 0.5])
    >>> policy.probabilities([[[0.0]]]).round(2)
    array([[0.97, 0.03]])
    """

    gamma: float | Gamma = RootGamma()
    optimism: NotNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.gamma, Gamma):
            if callable(self.gamma):
                raise InvalidTypeError(
                    f"gamma must be a number or a Gamma, such as RootGamma(), got {self.gamma!r}"
                )
            self._set(gamma=positive("gamma", self.gamma, zero=True))

    def exploration_at(
        self, first_round: int, shape: tuple[int, int], log_det: Callable[[], float], ridge: float
    ) -> Vector:
        return np.full(shape[0], self.optimism * math.sqrt(ridge))

    def leaders(self, answer: Answer, exploration: Vector, tolerance: float) -> Matrix:
        mean, width = answer.prediction
        gamma = self.gamma
        if isinstance(gamma, Gamma):
            gamma = gamma(answer.shape[1], answer.rows, answer.ridge, answer.log_det)
        return self.shares(mean + exploration[:, None] * width, gamma, tolerance)

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
