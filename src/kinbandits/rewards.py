"""What is known about rewards beforehand, and the scale on which they are learned.

The default exploration is meant for rewards between 0 and 1. Rewards r are learned as (r - offset) / scale, and
means and widths are told in the rewards' own units. `Range` states the scale, `Running` takes it from the first
rewards, `Standardized` learns level and unit with the noise (`kinbandits.noise`), `OneOfN` says that one arm pays 1
and all others 0.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits._value import Value, real
from kinbandits.errors import InvalidInputError, InvalidTypeError

__all__ = ["OneOfN", "Range", "RewardScale", "Rewards", "Running", "Standardized", "as_rewards"]

SETTLED_ROWS = 60  # as many as the default context kernel takes to settle
UNITS = 2.0  # deviations of what contexts and arms explain in a unit that is learned


class Rewards(Value, ABC):
    """What is known about rewards; ``rewards=None`` takes them as they are."""

    about_all_arms: ClassVar[bool] = False
    """Whether a reward tells about arms that were not played."""

    def scale(self) -> RewardScale:
        """The scale to begin with."""
        return RewardScale()

    def rows(self, arms: Indices, contexts: Matrix, rewards: Vector, n_arms: int) -> tuple[Indices, Matrix, Vector]:
        """What is learned from these rows."""
        return arms, contexts, rewards


class Range(Rewards):
    """Rewards lie between ``low`` and ``high``: they are learned on a scale of 0 to 1. Others are refused.

    >>> Range(-1.0, 3.0).scale().learned(np.array([1.0]))
    array([0.5])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, real(name, getattr(self, name)))
        if not self.low < self.high:
            raise InvalidInputError(f"low must be less than high, got {self!r}")

    def scale(self) -> RewardScale:
        return RewardScale(self.low, self.high - self.low, (self.low, self.high))


class Running(Rewards):
    """The range is learned: it follows the first 60 rewards (longer, if they are all equal) and then stays."""

    def scale(self) -> RewardScale:
        return RewardScale(seen=())


class Standardized(Rewards):
    """Level and unit are learned, so that the same arms are played whatever the unit and the zero of rewards.

    The level is the constant that explains rewards best, the unit twice the deviation of what contexts and arms
    explain, but no more than rewards differ at all: see `kinbandits.noise`. It is the default where the ridge is
    learned.
    """

    def scale(self) -> RewardScale:
        return RewardScale(deviations=UNITS)


class OneOfN(Rewards):
    """In every round one arm pays 1 and all others 0 (say, which of N classes a context belongs to).

    All arms must have one context. A reward of 1 then also teaches every other arm a 0: N rows in place of one.
    """

    about_all_arms: ClassVar[bool] = True

    def rows(self, arms: Indices, contexts: Matrix, rewards: Vector, n_arms: int) -> tuple[Indices, Matrix, Vector]:
        return expand_one_of_n(arms, contexts, rewards, n_arms)


def as_rewards(rewards: object) -> Rewards | None:
    """``rewards`` if it says something about rewards."""
    if rewards is None or isinstance(rewards, Rewards):
        return rewards
    raise InvalidTypeError(
        f"rewards must be None (as they are), kb.Range(low, high), kb.Running(), kb.rewards.Standardized() or "
        f"kb.OneOfN(), got {rewards!r}"
    )


@dataclass(frozen=True)
class RewardScale:
    """How rewards are scaled now.

    Attributes:
        offset, scale: see above.
        deviations: of the arms' functions in a unit of ``scale``.
        limits: (lowest, highest) that are accepted, where the range was stated.
        seen: all rewards so far, while the scale still follows them; None once it is settled.
    """

    offset: float = 0.0
    scale: float = 1.0
    limits: tuple[float, float] | None = None
    seen: tuple[float, ...] | None = None
    deviations: float = 1.0

    def grown(self, rewards: Vector) -> RewardScale:
        """After these rewards too. One outside the stated range is refused."""
        if self.limits is not None:
            low, high = self.limits
            if rewards.min() < low or rewards.max() > high:
                bad = rewards[(rewards < low) | (rewards > high)][0]
                raise InvalidInputError(f"reward {bad} is outside Range({low}, {high})")
        if self.seen is None:
            return self
        seen = (*self.seen, *rewards.tolist())
        first = seen[:SETTLED_ROWS]
        if min(first) == max(first):  # rare rewards: follow until two differ
            first = seen
        low, width = min(first), max(first) - min(first)
        settled = len(seen) >= SETTLED_ROWS and width > 0.0
        return replace(self, offset=low, scale=width or 1.0, seen=None if settled else seen)

    def without(self, keep: Mask) -> RewardScale:
        """When rows leave with their arm: the scale follows those that stay."""
        if self.seen is None:
            return self
        return replace(self, seen=tuple(r for r, k in zip(self.seen, keep.tolist(), strict=True) if k))

    def learned(self, rewards: Vector) -> Vector:
        """On the scale of learning."""
        if self.offset == 0.0 and self.scale == 1.0:
            return rewards
        return np.asarray((rewards - self.offset) / self.scale)

    def own(self, learned: Vector) -> Vector:
        """Back in the rewards' own units."""
        return learned if self.offset == 0.0 and self.scale == 1.0 else self.offset + self.scale * learned

    def same_scale(self, other: RewardScale) -> bool:
        """Whether what was learned on one is right on the other."""
        return self.offset == other.offset and self.scale == other.scale

    def to_data(self) -> dict[str, Any]:
        """For a saved file."""
        seen = None if self.seen is None else list(self.seen)
        return {"offset": self.offset, "scale": self.scale, "seen": seen}

    def restored(self, data: dict[str, Any]) -> RewardScale:
        """From what `to_data` gave."""
        seen = None if data["seen"] is None else tuple(float(v) for v in data["seen"])
        return replace(self, offset=float(data["offset"]), scale=float(data["scale"]), seen=seen)


def expand_one_of_n(
    arms: Indices, contexts: Matrix, rewards: Vector, n_arms: int
) -> tuple[Indices, Matrix, Vector]:
    """One of ``n_arms`` pays: the rows, and after each row of reward 1 those of all other arms, with reward 0.

    >>> arms, _, rewards = expand_one_of_n(np.array([2, 0]), np.zeros((2, 1)), np.array([1.0, 0.0]), 3)
    >>> arms.tolist(), rewards.tolist()
    ([2, 0, 1, 0], [1.0, 0.0, 0.0, 0.0])
    """
    wrong = rewards[(rewards != 0.0) & (rewards != 1.0)]
    if len(wrong):
        raise InvalidInputError(f"kb.OneOfN() takes rewards of 0 and 1 only, got {wrong[0]}")
    told: list[int] = []
    rows: list[int] = []
    for i, (arm, reward) in enumerate(zip(arms.tolist(), rewards.tolist(), strict=True)):
        everyone = [arm, *(b for b in range(n_arms) if b != arm)] if reward else [arm]
        told += everyone
        rows += [i] * len(everyone)
    place = np.array(rows, dtype=np.intp)
    known = np.array(told, dtype=np.intp)
    return known, contexts[place], np.where(known == arms[place], rewards[place], 0.0)
