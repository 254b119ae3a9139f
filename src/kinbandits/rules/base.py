"""What a rule is, and the regression's answer that it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np

from kinbandits._types import Mask, Matrix, Vector
from kinbandits._value import Value
from kinbandits.regression import Prediction, Query, Regression
from kinbandits.rewards import RewardScale


class Answer:
    """What the regression says of R rounds, when it is asked, on the scale on which rewards are learned."""

    def __init__(self, regression: Regression, query: Query, scale: RewardScale) -> None:
        self._regression, self._query, self._scale = regression, query, scale

    @property
    def shape(self) -> tuple[int, int]:
        return self._query.shape

    @property
    def rows(self) -> int:
        return self._regression.n_observations

    @property
    def ridge(self) -> float:
        return self._regression.settings.ridge

    def log_det(self) -> float:
        """log det(I + K / ridge) of the rows learned."""
        return self._regression.log_det()

    @cached_property
    def prediction(self) -> Prediction:
        """Mean and width of every candidate, (R, k) each."""
        return self._regression.predict(self._query)

    def covariance(self, round: int) -> Matrix:
        """Joint posterior covariance of the candidates of one round, (k, k)."""
        one = Query(self._query.arms, self._query.contexts[round : round + 1])
        return self._regression.covariance(*one.points())

    def leaders(self, exploration: Vector, tolerance: float) -> Mask:
        """Who has the largest mean + exploration * width, (R, k). Engines can tell without every number."""
        return self._regression.leaders(self._query, exploration, tolerance)

    @property
    def deviations(self) -> float:
        """How many deviations of the arms' functions a unit of that scale is."""
        return self._scale.deviations

    def learned(self, reward: float) -> float:
        """A reward in its own units, on the scale of learning."""
        return (reward - self._scale.offset) / self._scale.scale


class Rule(Value, ABC):
    """Who is played. A frozen value, given as ``exploration=``."""

    @property
    def in_units_of_rewards(self) -> bool:
        """Whether its numbers are meant for rewards as they are, whatever their noise."""
        return False

    def exploration_at(
        self, first_round: int, shape: tuple[int, int], log_det: Callable[[], float], ridge: float
    ) -> Vector:
        """The multiplier of the width, (R,): what a decision reports. 0 if there is none. ``shape`` is (R, k)."""
        return np.zeros(shape[0])

    @abstractmethod
    def leaders(self, answer: Answer, exploration: Vector, tolerance: float) -> Mask | Matrix:
        """A mask of the leaders of each round, (R, k), or the probability of each candidate.

        ``exploration`` is what `exploration_at` gave. Scores within ``tolerance`` (relative) are a tie.
        """
