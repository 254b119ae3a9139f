"""The scale on which rewards are learned: as given, from a stated range, or from the first rewards seen.

The default exploration is meant for rewards between 0 and 1. Rewards r are learned as (r - offset) / scale, and
means and widths are told in the rewards' own units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import real
from kinbandits.errors import InvalidInputError, InvalidTypeError

RewardScaling = Literal["running"]
SETTLED_ROWS = 60  # as many as the default context kernel takes to settle


@dataclass(frozen=True)
class RewardScale:
    """How rewards are scaled now.

    Attributes:
        offset, scale: see above.
        limits: (lowest, highest) that are accepted, where the range was stated.
        seen: all rewards so far, while the scale still follows them; None once it is settled.
    """

    offset: float = 0.0
    scale: float = 1.0
    limits: tuple[float, float] | None = None
    seen: tuple[float, ...] | None = None

    @classmethod
    def of(cls, reward_range: object, reward_scaling: object) -> Self:
        """From the arguments of a policy."""
        if reward_scaling not in (None, "running"):
            raise InvalidInputError(f'reward_scaling must be None or "running", got {reward_scaling!r}')
        if reward_range is not None and reward_scaling is not None:
            raise InvalidInputError("give reward_range=, or reward_scaling=, not both")
        if reward_scaling is not None:
            return cls(seen=())
        if reward_range is None:
            return cls()
        low, high = _range(reward_range)
        return cls(low, high - low, (low, high))

    def grown(self, rewards: Vector) -> RewardScale:
        """After these rewards too. One outside the stated range is refused."""
        if self.limits is not None:
            low, high = self.limits
            if rewards.min() < low or rewards.max() > high:
                bad = rewards[(rewards < low) | (rewards > high)][0]
                raise InvalidInputError(f"reward {bad} is outside reward_range=({low}, {high})")
        if self.seen is None:
            return self
        seen = (*self.seen, *rewards.tolist())
        first = seen[:SETTLED_ROWS]
        if min(first) == max(first):  # rare rewards: follow until two differ
            first = seen
        low, width = min(first), max(first) - min(first)
        settled = len(seen) >= SETTLED_ROWS and width > 0.0
        return replace(self, offset=low, scale=width or 1.0, seen=None if settled else seen)

    def without(self, keep: NDArray[np.bool_]) -> RewardScale:
        """When rows leave with their arm: the scale follows those that stay."""
        if self.seen is None:
            return self
        return replace(self, seen=tuple(r for r, k in zip(self.seen, keep.tolist(), strict=True) if k))

    def learned(self, rewards: Vector) -> Vector:
        """On the scale of learning."""
        if self.offset == 0.0 and self.scale == 1.0:
            return rewards
        return np.asarray((rewards - self.offset) / self.scale)

    def same_scale(self, other: RewardScale) -> bool:
        """Whether what was learned on one is right on the other."""
        return self.offset == other.offset and self.scale == other.scale

    def to_data(self) -> dict[str, Any]:
        """For a saved file."""
        seen = None if self.seen is None else list(self.seen)
        return {"offset": self.offset, "scale": self.scale, "seen": seen}

    def restored(self, data: dict[str, Any]) -> RewardScale:
        """From what `to_data` gave."""
        seen = None if data["seen"] is None else tuple(data["seen"])
        return replace(self, offset=data["offset"], scale=data["scale"], seen=seen)


def structure(rewards: object, reward_range: object, reward_scaling: object) -> Literal["one_of_n"] | None:
    """The declared structure of rewards, checked."""
    if rewards not in (None, "one_of_n"):
        raise InvalidInputError(f'rewards must be None or "one_of_n", got {rewards!r}')
    if rewards is not None and (reward_range is not None or reward_scaling is not None):
        raise InvalidInputError(
            'rewards="one_of_n" says that rewards are 0 or 1; leave reward_range= and reward_scaling= out'
        )
    return None if rewards is None else "one_of_n"


def told_to_all(arms: Indices, contexts: Matrix, rewards: Vector, n_arms: int) -> tuple[Indices, Matrix, Vector]:
    """One of ``n_arms`` pays: the rows, and after each row of reward 1 those of all other arms, with reward 0.

    >>> arms, _, rewards = told_to_all(np.array([2, 0]), np.zeros((2, 1)), np.array([1.0, 0.0]), 3)
    >>> arms.tolist(), rewards.tolist()
    ([2, 0, 1, 0], [1.0, 0.0, 0.0, 0.0])
    """
    wrong = rewards[(rewards != 0.0) & (rewards != 1.0)]
    if len(wrong):
        raise InvalidInputError(f'rewards="one_of_n" takes rewards of 0 and 1 only, got {wrong[0]}')
    told: list[int] = []
    rows: list[int] = []
    for i, (arm, reward) in enumerate(zip(arms.tolist(), rewards.tolist(), strict=True)):
        everyone = [arm, *(b for b in range(n_arms) if b != arm)] if reward else [arm]
        told += everyone
        rows += [i] * len(everyone)
    place = np.array(rows, dtype=np.intp)
    known = np.array(told, dtype=np.intp)
    return known, contexts[place], np.where(known == arms[place], rewards[place], 0.0)


def _range(value: Any) -> tuple[float, float]:
    try:
        first, last = value
    except (TypeError, ValueError):
        raise InvalidTypeError(f"reward_range must be (lowest, highest), got {value!r}") from None
    low, high = real("reward_range[0]", first), real("reward_range[1]", last)
    if not low < high:
        raise InvalidInputError(f"reward_range must be (lowest, highest), got {value!r}")
    return low, high
