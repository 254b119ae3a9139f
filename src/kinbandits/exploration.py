"""Exploration schedules, as frozen values: how the multiplier of the width changes with the number of decisions.

A plain number is the constant schedule, and the default. A value can be saved with the policy, a function cannot.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from kinbandits._value import Value, positive, real
from kinbandits.errors import InvalidInputError

__all__ = ["ConstantExploration", "Decaying", "GPUCBExploration", "Schedule"]


class Schedule(Value, ABC):
    """A function t -> beta_t of the number of the decision, counted from 1."""

    @abstractmethod
    def __call__(self, t: int) -> float:
        """The multiplier of the width at decision t."""


@dataclass(frozen=True, eq=False, repr=False)
class ConstantExploration(Schedule):
    """beta_t = value.

    >>> ConstantExploration(0.1)(500)
    0.1
    """

    value: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", positive("value", self.value, zero=True))

    def __call__(self, t: int) -> float:
        return self.value


@dataclass(frozen=True, eq=False, repr=False)
class Decaying(Schedule):
    """beta_t = max(floor, start (1 + t / rounds)^-power): from start, halved (for power 1) after ``rounds``.

    >>> [round(Decaying(0.2, rounds=100)(t), 3) for t in (1, 100, 300)]
    [0.198, 0.1, 0.05]
    """

    start: float = 0.2
    rounds: float = 500.0
    power: float = 1.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        for name, zero in (("start", True), ("rounds", False), ("power", True), ("floor", True)):
            object.__setattr__(self, name, positive(name, getattr(self, name), zero=zero))

    def __call__(self, t: int) -> float:
        return max(self.floor, self.start * math.pow(1.0 + t / self.rounds, -self.power))


@dataclass(frozen=True, eq=False, repr=False)
class GPUCBExploration(Schedule):
    """GP-UCB (Srinivas et al., 2010, Theorem 1): scale * sqrt(ridge * 2 log(n_arms t^2 pi^2 / (6 delta))).

    The root of the ridge turns our width, which contains ridge^-1/2, into their standard deviation.

    Args:
        n_arms: size of the decision set.
        ridge: of the policy; their noise variance.
        delta: probability of failure.
        scale: 1 is the theorem; practice takes less.

    Example:
        >>> round(GPUCBExploration(n_arms=10)(100), 3)
        0.535
    """

    n_arms: int
    ridge: float = 0.01
    delta: float = 0.1
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridge", positive("ridge", self.ridge))
        object.__setattr__(self, "scale", positive("scale", self.scale, zero=True))
        object.__setattr__(self, "delta", real("delta", self.delta))
        if not 0.0 < self.delta < 1.0:
            raise InvalidInputError(f"delta must be between 0 and 1, got {self.delta!r}")
        if isinstance(self.n_arms, bool) or not isinstance(self.n_arms, int) or self.n_arms < 1:
            raise InvalidInputError(f"n_arms must be a whole number of at least 1, got {self.n_arms!r}")

    def __call__(self, t: int) -> float:
        beta = 2.0 * math.log(self.n_arms * t**2 * math.pi**2 / (6.0 * self.delta))
        return self.scale * math.sqrt(self.ridge * max(beta, 0.0))
