"""What is counted while the log is read once: states, arms, and the recent past in buckets of time.

What a uniform choice would have earned is estimated from the log itself: a reward weighs w = 1 / (k p), for k
candidates, one of which was played with probability p.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

from kinbandits.estimators import ratio_interval
from kinbandits.service.events import ARM_KINDS, STATES, ArmName, Event, row_of, step

FINE, COARSE = (10.0, 360), (600.0, 4320)  # seconds of a bucket, and how many are kept: an hour, 30 days
_SUMS = ("decisions", "rewards", "r", "w", "w2", "wr", "w2r", "w2r2", "r2")


class Bucket(dict[str, float]):
    """Sums over a stretch of time: of rewards r, their weights w, and what intervals need."""

    def __init__(self, values: dict[str, float] | None = None) -> None:
        super().__init__(values or dict.fromkeys(_SUMS, 0.0))

    def add(self, other: Bucket) -> None:
        """Add another stretch."""
        for name in _SUMS:
            self[name] += other[name]

    def reward(self, r: float, w: float) -> None:
        """A reward was learned."""
        for name, value in zip(_SUMS[1:], (1, r, w, w * w, w * r, w * w * r, (w * r) ** 2, r * r), strict=True):
            self[name] += value


Interval = tuple[float, float, float]  # low, value, high


class Stats:
    """Fold of the log up to event ``seq``.

    Attributes:
        states: how many decisions are open, rewarded, defaulted, late, void, withdrawn.
        arms: per arm: pulls, rewards, their sum and sum of squares, time of the last pull.
        active: per arm, whether it may be chosen.
        learned: rows there are to learn; ``refused`` are those that the model did not take, with the last few.
        extremes: lowest and highest reward, largest 1 / k, smallest propensity.
    """

    def __init__(self, arms: Iterable[ArmName] = ()) -> None:
        self.seq, self.at = 0, 0.0
        self.states = dict.fromkeys(STATES, 0)
        self.arms: dict[ArmName, list[float]] = {}
        self.active: dict[ArmName, bool] = dict.fromkeys(arms, True)
        self.learned, self.refused = 0, 0
        self.last_refused: list[list[Any]] = []
        self.features: int | None = None
        self.extremes = [math.inf, -math.inf, 0.0, 1.0]
        self.series: dict[str, list[list[Any]]] = {"fine": [], "coarse": []}

    def apply(self, event: Event) -> None:
        """The next event."""
        if event.seq != self.seq + 1:
            raise AssertionError(f"event {event.seq} after event {self.seq}")
        self.seq, self.at = event.seq, event.at
        body = event.body
        if event.kind == "decision":
            self.states["open"] += 1
            arm = self._arm(body["arm"])
            self.arms[body["arm"]] = [arm[0] + 1, *arm[1:4], event.at]
            context = body["context"]
            self.features = len(context[0]) if isinstance(context[0], list) else len(context)
            self.extremes[2] = max(self.extremes[2], 1.0 / len(body["candidates"]))
            self.extremes[3] = min(self.extremes[3], body["propensity"])
            for bucket in self._buckets(event.at):
                bucket["decisions"] += 1
        elif event.kind in ARM_KINDS:
            self.active[body["arm"]] = event.kind != "arm_retired"
        elif event.decision is not None:
            before = body["state"] if event.kind == "corrected" else "defaulted" if event.kind == "late" else "open"
            self.states[before] -= 1
            self.states[step(before, event) or "open"] += 1
            if event.kind == "corrected":
                self._reward(body["arm"], body["was"], -1)
            self._learn(event)

    def _learn(self, event: Event) -> None:
        row = row_of(event)
        if event.kind == "corrected":
            self._reward(event.body["arm"], event.body["reward"], 1)
        elif row is not None and row[1] is not None:
            reward = row[1]
            self._reward(row[0]["arm"], reward, 1)
            self.extremes[:2] = [min(self.extremes[0], reward), max(self.extremes[1], reward)]
            for bucket in self._buckets(event.at):
                bucket.reward(reward, row[0]["uniform"])

    def _arm(self, arm: ArmName) -> list[float]:
        self.active.setdefault(arm, False)
        return self.arms.get(arm) or [0, 0, 0.0, 0.0, 0.0]

    def _reward(self, arm: ArmName, value: float | None, sign: int) -> None:
        if value is not None:
            self.learned += sign
            pulls, rewards, total, squares, last = self._arm(arm)
            self.arms[arm] = [pulls, rewards + sign, total + sign * value, squares + sign * value**2, last]

    def refuse(self, seq: int, reason: str) -> None:
        """The model did not take the row of this event."""
        self.refused += 1
        self.last_refused = [*self.last_refused[-4:], [seq, reason]]

    def _buckets(self, at: float) -> list[Bucket]:
        found = []
        for name, (seconds, most) in (("fine", FINE), ("coarse", COARSE)):
            series, index = self.series[name], int(at // seconds)
            if not series or series[-1][0] < index:
                series.append([index, Bucket()])
                if len(series) > most:
                    del series[: len(series) - most]
            found.append(series[-1][1])
        return found

    # -- reading --------------------------------------------------------------------------------

    def copy(self) -> Stats:
        """As it is now, for other threads."""
        other = copy.copy(self)
        other.states, other.arms, other.active = dict(self.states), dict(self.arms), dict(self.active)
        other.extremes = list(self.extremes)
        other.series = {n: [*s[:-1], *([i, Bucket(b)] for i, b in s[-1:])] for n, s in self.series.items()}
        return other

    def since(self, seconds: float, now: float, points: int = 60) -> list[tuple[float, Bucket]]:
        """(seconds before now, bucket) of the recent past, oldest first, without empty ones; at most so many."""
        name, (width, _) = ("fine", FINE) if seconds <= FINE[0] * FINE[1] else ("coarse", COARSE)
        found = [(index, bucket) for index, bucket in self.series[name] if index >= (now - seconds) // width]
        step = max(1, math.ceil((now // width - found[0][0] + 1) / points)) if found else 1
        merged: dict[int, Bucket] = {}
        for index, bucket in found:
            merged.setdefault(index // step, Bucket()).add(bucket)
        return [(min(0.0, (i + 0.5) * step * width - now), b) for i, b in merged.items()]

    def earned(self, bucket: Bucket) -> Interval | None:
        """(low, mean, high) of the rewards."""
        n, r, r2 = bucket["rewards"], bucket["r"], bucket["r2"]
        return self._interval(n, n, r, r, r2, 1.0)

    def uniform(self, bucket: Bucket, epsilon: float) -> Interval | None:
        """(low, value, high) of what a uniform choice would have earned, where ``epsilon`` is the floor."""
        largest = max(self.extremes[2] / self.extremes[3], 1.0 / epsilon if epsilon else 0.0)
        w, w2, wr, w2r, w2r2 = (bucket[k] for k in ("w", "w2", "wr", "w2r", "w2r2"))
        return self._interval(w, w2, wr, w2r, w2r2, largest)

    def _interval(self, w: float, w2: float, wr: float, w2r: float, w2r2: float, largest: float) -> Interval | None:
        """Wilson's interval of a weighted mean, as `kinbandits.estimators` has it for ``snips``."""
        if not w:
            return None
        low, high = self.extremes[:2]
        around = max(0.0, w2r2 - w2r**2 / w2)
        return ratio_interval(w, wr, (w2, w2r / w2, around), largest, (low, high))

    def arm_table(self) -> list[dict[str, Any]]:
        """Per arm: pulls, rewards, mean reward and its standard error, last pull, retired."""
        rows = []
        for name, active in self.active.items():
            pulls, n, total, squares, last = self.arms.get(name) or [0, 0, 0.0, 0.0, 0.0]
            mean = total / n if n else None
            spread = max(0.0, squares / n - (total / n) ** 2) if n else 0.0
            error = math.sqrt(spread / (n - 1)) if n > 1 else None
            row = {"arm": name, "retired": not active, "pulls": int(pulls), "rewards": int(n), "mean_reward": mean}
            rows.append(row | {"standard_error": error, "last_pull": last or None})
        return rows

    def to_data(self) -> dict[str, Any]:
        """As JSON data."""
        data = dict(vars(self))
        return data | {name: list(getattr(self, name).items()) for name in ("arms", "active")}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Stats:
        """From what `to_data` made."""
        stats = cls()
        vars(stats).update(data | {name: dict(data[name]) for name in ("arms", "active")})
        stats.series = {n: [[i, Bucket(b)] for i, b in s] for n, s in data["series"].items()}
        return stats
