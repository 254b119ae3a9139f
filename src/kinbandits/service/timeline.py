"""The recent past in buckets of time, for each range that the dashboard offers: counts, rewards, shares of arms.

What a uniform choice would have earned is told from the log itself: each reward weighs 1 / (k p), for k candidates,
one of which was played with probability p.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

RANGES = {"1h": 3600.0, "6h": 21_600.0, "24h": 86_400.0, "7d": 604_800.0, "30d": 2_592_000.0}
POINTS = 120  # buckets of a range
_SHORTEST = min(RANGES.values()) / POINTS  # seconds of a bucket; those of the other ranges are multiples of it


@dataclass
class Bucket:
    """Sums over a stretch of time: of rewards r, their weights w, and what intervals need."""

    decisions: int = 0
    rewards: int = 0
    r: float = 0.0
    r2: float = 0.0
    w: float = 0.0
    w2: float = 0.0
    wr: float = 0.0
    w2r: float = 0.0
    w2r2: float = 0.0
    arms: Counter[str] = field(default_factory=Counter)

    def add(self, other: Bucket) -> None:
        """Add another stretch."""
        for name in ("decisions", "rewards", "r", "r2", "w", "w2", "wr", "w2r", "w2r2"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.arms.update(other.arms)

    def mean(self, binary: bool, z: float = 1.96) -> tuple[float, float, float] | None:
        """(low, mean, high) of the rewards; Wilson's interval where all are 0 or 1."""
        n = self.rewards
        if not n:
            return None
        mean = self.r / n
        if binary:
            middle = (mean + z * z / (2 * n)) / (1 + z * z / n)
            half = z / (1 + z * z / n) * math.sqrt(max(0.0, mean * (1 - mean) / n + z * z / (4 * n * n)))
            return max(0.0, middle - half), mean, min(1.0, middle + half)
        half = z * math.sqrt(max(0.0, self.r2 / n - mean * mean) / max(1, n - 1))
        return mean - half, mean, mean + half

    def uniform(self, z: float = 1.96) -> tuple[float, float, float] | None:
        """(low, value, high) of what a uniform choice would have earned."""
        if not self.w:
            return None
        value = self.wr / self.w
        square = max(0.0, self.w2r2 - 2 * value * self.w2r + value * value * self.w2)
        half = z * math.sqrt(square) / self.w
        return value - half, value, value + half


class Timeline:
    """Buckets for each range; old ones are dropped."""

    def __init__(self) -> None:
        self.binary = True  # whether all rewards so far are 0 or 1
        self._buckets: dict[str, dict[int, Bucket]] = {name: {} for name in RANGES}
        self._now: tuple[float, list[Bucket]] = (-math.inf, [])  # the last that was asked for

    def decision(self, at: float, arm: str) -> None:
        """A decision was made."""
        for bucket in self._at(at):
            bucket.decisions += 1
            bucket.arms[arm] += 1

    def reward(self, at: float, r: float, weight: float | None) -> None:
        """A reward was learned; its weight for a uniform choice, if it is known."""
        self.binary = self.binary and r in (0.0, 1.0)
        for bucket in self._at(at):
            bucket.rewards += 1
            bucket.r += r
            bucket.r2 += r * r
            if weight is not None:
                bucket.w += weight
                bucket.w2 += weight**2
                bucket.wr += weight * r
                bucket.w2r += weight**2 * r
                bucket.w2r2 += (weight * r) ** 2

    def series(self, name: str, now: float) -> list[tuple[float, Bucket]]:
        """(middle, in seconds before now; bucket) of a range, oldest first, without empty ones."""
        width = RANGES[name] / POINTS
        found = sorted(self._buckets[name].items())
        return [((i + 0.5) * width - now, b) for i, b in found if i * width >= now - RANGES[name] - width]

    def _at(self, at: float) -> list[Bucket]:
        now, found = self._now
        if at // _SHORTEST == now:
            return found
        found = []
        for name, seconds in RANGES.items():
            buckets, index = self._buckets[name], int(at // (seconds / POINTS))
            if index not in buckets:
                buckets[index] = Bucket()
                if len(buckets) > 2 * POINTS:
                    for old in sorted(buckets)[: len(buckets) - POINTS - 1]:
                        del buckets[old]
            if index in buckets:
                found.append(buckets[index])
        self._now = at // _SHORTEST, found
        return found

    def to_data(self) -> dict[str, Any]:
        """As JSON data."""
        ranges = {
            n: [[i, {**vars(b), "arms": dict(b.arms)}] for i, b in buckets.items()]
            for n, buckets in self._buckets.items()
        }
        return {"binary": self.binary, "ranges": ranges}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Timeline:
        """From what `to_data` gave."""
        timeline = cls()
        timeline.binary = data["binary"]
        for name, buckets in data["ranges"].items():
            for i, told in buckets:
                timeline._buckets[name][i] = Bucket(**{**told, "arms": Counter(told["arms"])})
        return timeline
