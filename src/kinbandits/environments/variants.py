"""Any environment, made harder: another unit, rewards that come late, means that no smooth function has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import Natural, NotNegative, Positive, Real, Value
from kinbandits.environments.base import Environment, Round, StartRows, seeded
from kinbandits.errors import InvalidTypeError


class Variant(Value):
    """Base: the rounds of another environment, changed one by one; arms and the rest are as they were."""

    environment: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.environment, Environment):
            raise InvalidTypeError(f"environment must be an environment, got {self.environment!r}")

    @property
    def arms(self) -> list[Any]:
        return self.environment.arms  # type: ignore[no-any-return]

    @property
    def horizon(self) -> int:
        return int(self.environment.horizon)

    @property
    def descriptors(self) -> Matrix | None:
        return getattr(self.environment, "descriptors", None)

    def start_rows(self) -> StartRows:
        return self.environment.start_rows()  # type: ignore[no-any-return]


class Rescaled(Variant):
    """Rewards in another unit: ``plus`` + ``times`` reward.

    >>> from kinbandits.environments import Clicks
    >>> next(Rescaled(Clicks(n_arms=3), times=1000.0, plus=50.0).rounds()).rewards
    array([  50., 1050.,   50.])
    """

    times: Positive = 1.0
    plus: Real = 0.0

    @property
    def name(self) -> str:
        return f"{self.environment.name}, {self.plus:g} + {self.times:g} r"

    def start_rows(self) -> StartRows:
        arms, contexts, rewards = super().start_rows()
        return arms, contexts, self.plus + self.times * np.asarray(rewards)

    def rounds(self) -> Iterator[Round]:
        for round in self.environment.rounds():
            means = None if round.means is None else self.plus + self.times * round.means
            yield replace(round, rewards=self.plus + self.times * round.rewards, means=means)


class Delayed(Variant):
    """The reward of a round is known some rounds later (`Round.delay`): ``mean`` on average, with a geometric law.

    >>> from kinbandits.environments import Clicks
    >>> [round.delay for round in Delayed(Clicks(horizon=4), mean=10.0).rounds()]
    [34, 8, 13, 2]
    """

    mean: NotNegative = 20.0
    seed: Natural = 0

    @property
    def name(self) -> str:
        return f"{self.environment.name}, {self.mean:g} rounds late"

    def rounds(self) -> Iterator[Round]:
        (rng,) = seeded(self.seed, 1)
        for round in self.environment.rounds():
            yield replace(round, delay=int(rng.geometric(1.0 / (1.0 + self.mean))) - 1)


class Misspecified(Variant):
    """Means are off by ``amount``, up or down, in a pattern too fine for any smooth kernel: the model is wrong.

    The pattern is a function of arm and context: the sign of a fast wave in a direction of the arm's own. No policy
    can do without ``amount`` a round once it has learned the smooth part.

    Args:
        amount: by how much, in the unit of rewards.
        wave: length of the wave, in the unit of contexts.
    """

    amount: NotNegative = 0.1
    wave: Positive = 0.02
    seed: Natural = 0

    @property
    def name(self) -> str:
        return f"{self.environment.name}, off by {self.amount:g}"

    def start_rows(self) -> StartRows:
        arms, contexts, rewards = super().start_rows()
        if len(arms):
            rewards = np.asarray(rewards) + self._off(self._numbers(arms), np.asarray(contexts))
        return arms, contexts, rewards

    def rounds(self) -> Iterator[Round]:
        everyone = np.arange(len(self.arms))
        for round in self.environment.rounds():
            of = everyone if round.candidates is None else self._numbers(round.candidates)
            off = self._off(of, np.broadcast_to(round.context, (len(of), round.context.shape[-1])))
            means = None if round.means is None else round.means + off
            yield replace(round, rewards=round.rewards + off, means=means)

    def _numbers(self, arms: list[Any]) -> Indices:
        number = {arm: i for i, arm in enumerate(self.arms)}
        return np.array([number[arm] for arm in arms], dtype=np.intp)

    def _off(self, arms: Indices, contexts: Matrix) -> Vector:
        (rng,) = seeded(self.seed, 1)
        directions = rng.standard_normal((len(self.arms), contexts.shape[1]))
        waves = np.einsum("kd,kd->k", contexts, directions[arms]) / self.wave
        return np.asarray(self.amount * np.sign(np.sin(waves) + 1e-300))
