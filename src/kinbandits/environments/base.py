"""What an environment is: rounds that a policy can be played on, the same for every policy.

Notation
    N        number of arms
    context  (d,) one for all arms, or (N, d) one per arm
    rewards  (N,) what each arm would have paid in this round
    means    (N,) what each arm pays on average, given the context
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits._value import as_int
from kinbandits.errors import InvalidInputError

StartRows = tuple[list[Any], Matrix, Vector]


@dataclass(frozen=True, eq=False)
class Round:
    """One round: what is shown, and what each arm pays.

    Attributes:
        context: (d,), the same for all arms, or (N, d), one row per arm.
        rewards: (N,) realised rewards of all arms. NaN where it is not known what an arm would have paid
            (a log knows one arm a round); a choice of such an arm is left out of the game.
        means: (N,) expected rewards given the context, or None if nobody knows them.
        candidates: the arm of each candidate, where these are not all arms in order: some arms, or one arm (a task)
            several times with a context for each. Context, rewards and means are then those of the candidates.
        delay: how many rounds later the reward is known: 0 before the next one, n after n more choices.
    """

    context: Matrix
    rewards: Vector
    means: Vector | None = None
    candidates: list[Any] | None = None
    delay: int = 0


@runtime_checkable
class Environment(Protocol):
    """The small protocol that `kinbandits.simulate` plays on. Any object with these will do.

    ``rounds()`` must give the same rounds each time it is called, so that every policy meets the same game.
    An attribute ``descriptors``, one row per arm, may say how arms are related; it is not shown to policies.
    `check_environment` tells whether an object keeps the contract.
    """

    @property
    def name(self) -> str:
        """A short name for tables and figures."""

    @property
    def arms(self) -> list[Any]:
        """Names of the arms (str or int), in the order of ``Round.rewards``."""

    @property
    def horizon(self) -> int:
        """How many rounds there are."""

    def start_rows(self) -> StartRows:
        """Rows given to the policy before round 1: arm names, contexts (n, d), rewards (n,). May be empty."""

    def rounds(self) -> Iterator[Round]:
        """The rounds, in order."""


class Drawn:
    """Mixed into environments that are drawn from a seed: arms are numbered from 0, and there are no start rows."""

    n_arms: int

    @property
    def arms(self) -> list[Any]:
        return list(range(self.n_arms))

    def start_rows(self) -> StartRows:
        return no_rows()


def no_rows() -> StartRows:
    """The start rows of an environment that has none."""
    return [], np.empty((0, 0)), np.empty(0)


def checked_horizon(asked: int, available: int, but: str) -> int:
    """The horizon asked for (0 asks for all there is), refused if it is longer; ``but`` says what there is."""
    if as_int("horizon", asked) > available:
        raise InvalidInputError(f"horizon is {asked}, but {but}")
    return asked or available


def seeded(seed: int, streams: int) -> list[np.random.Generator]:
    """Independent random generators from one seed: one each for contexts, noise, and so on."""
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(streams)]
