"""The rule of the paper: the largest upper confidence bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinbandits._types import Mask, Vector
from kinbandits._value import Real, positive
from kinbandits.errors import InvalidInputError
from kinbandits.regression import capped
from kinbandits.rules.base import Answer, Rule

Exploration = float | Callable[..., float]


class UCB(Rule):
    """Play the largest mean + exploration * width.

    Args:
        exploration: beta, a number or a schedule t -> beta_t of the number of the decision, counted from 1
            (`kinbandits.exploration` has some).
        ceiling: a reward that is never exceeded. Scores are capped there, and of those that reach it the largest
            mean is played.

    >>> import kinbandits as kb
    >>> kb.KMTLUCB(arms=2, exploration=kb.UCB(0.2, ceiling=1.0)).exploration
    UCB(exploration=0.2, ceiling=1.0)
    """

    exploration: Exploration = 0.1
    ceiling: Real | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.exploration):
            self._set(exploration=positive("exploration", self.exploration, zero=True))

    @property
    def in_units_of_rewards(self) -> bool:
        return "ridge" not in getattr(self.exploration, "needs", ())

    def exploration_at(
        self, first_round: int, shape: tuple[int, int], log_det: Callable[[], float], ridge: float
    ) -> Vector:
        rounds, candidates = shape
        beta = self.exploration
        if not callable(beta):
            return np.array([beta] * rounds)
        told: dict[str, float] = {}
        for name in getattr(beta, "needs", ()):
            told[name] = log_det() if name == "log_det" else ridge if name == "ridge" else candidates
        differ = rounds if vars(type(beta)).get("of_time", True) else min(rounds, 1)
        values = np.empty(differ)
        for i in range(differ):
            values[i] = value = float(beta(first_round + i + 1, **told))
            if not 0.0 <= value < np.inf:
                raise InvalidInputError(f"the exploration schedule returned {value!r}; it must be at least 0")
        return values if differ == rounds else values.repeat(rounds)

    def leaders(self, answer: Answer, exploration: Vector, tolerance: float) -> Mask:
        # Algorithm 1: p_{a,t} = mean + beta * s; choose argmax p_{a,t}
        if self.ceiling is None:
            return answer.leaders(exploration, tolerance)
        mean, width = answer.prediction
        return capped(mean, mean + exploration[:, None] * width, answer.learned(self.ceiling), tolerance)


def as_rule(exploration: Exploration | Rule) -> Rule:
    """A rule as it is; a number or a schedule as the multiplier of `UCB`."""
    return exploration if isinstance(exploration, Rule) else UCB(exploration)
