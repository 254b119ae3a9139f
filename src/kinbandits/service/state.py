"""What can be told from the log by reading it once: counts, arms, curves. Small, whatever the log's length."""

from __future__ import annotations

import math
from typing import Any

from kinbandits.service.events import OUTCOMES, STATES, Event
from kinbandits.service.timeline import Timeline

ArmName = str | int

_MOST_BUCKETS = 240
_BUCKET = ("decisions", "regret", "regret_most", "width")
DELAY_EDGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0, 100_000.0)


class Curve:
    """Sums over stretches of decisions, at most 240 of them: when there are more, two become one.

    A bucket holds how many decisions fell into it, and the sums of the estimated regret, its upper end, and widths.
    """

    def __init__(self, stride: int = 1, buckets: list[list[float]] | None = None) -> None:
        self.stride = stride
        self.buckets: list[list[float]] = buckets or []

    def decision(self, regret: float, most: float, width: float) -> None:
        """A decision was made."""
        if not self.buckets or self.buckets[-1][0] >= self.stride:
            if len(self.buckets) >= _MOST_BUCKETS:
                pairs = zip(self.buckets[::2], self.buckets[1::2], strict=True)
                self.buckets = [[x + y for x, y in zip(a, b, strict=True)] for a, b in pairs]
                self.stride *= 2
            self.buckets.append([0.0] * len(_BUCKET))
        last = self.buckets[-1]
        last[0] += 1
        last[1] += regret
        last[2] += most
        last[3] += width

    def columns(self) -> dict[str, list[float]]:
        """Each sum, of the same buckets: another thread may be adding some."""
        buckets = list(self.buckets)
        return {name: [b[i] for b in buckets] for i, name in enumerate(_BUCKET)}


class State:
    """Fold of the log up to event ``seq``.

    Attributes:
        states: how many decisions are open, rewarded, defaulted, late, void.
        arms: per arm: pulls, rewards, reward (sum), reward2 (sum of squares), last (time), retired.
        curve: over all decisions with estimates.
        imported: decisions without.
        timeline: the recent past, in buckets of time.
        delays: how many rewards came within each of `DELAY_EDGES` seconds, and later.
        learned: rows the model was given.
        n_features: columns of a context, once there was one.
    """

    def __init__(self, arms: list[ArmName]) -> None:
        self.seq = 0
        self.states = dict.fromkeys(STATES, 0)
        self.arms: dict[ArmName, dict[str, Any]] = {a: _new_arm() for a in arms}
        self.curve = Curve()
        self.imported = 0
        self.timeline = Timeline()
        self.delays = [0] * (len(DELAY_EDGES) + 1)
        self.learned = 0
        self.n_features: int | None = None

    def apply(self, event: Event) -> None:
        """The next event."""
        if event.seq != self.seq + 1:
            raise AssertionError(f"event {event.seq} after event {self.seq}")
        self.seq = event.seq
        body = event.body
        if event.kind == "decision":
            self._decision(event)
        elif event.kind in OUTCOMES:
            self.states["defaulted" if event.kind == "late" else "open"] -= 1
            self.states[OUTCOMES[event.kind]] += 1
            if event.kind in ("reward", "late"):
                self.delays[sum(body["delay"] > edge for edge in DELAY_EDGES)] += 1
            if event.is_learned:
                self.learned += 1
                self.timeline.reward(event.at, body["reward"], body.get("uniform"))
                arm = self.arms.setdefault(body["arm"], _new_arm())
                arm["rewards"] += 1
                arm["reward"] += body["reward"]
                arm["reward2"] += body["reward"] ** 2
        elif event.kind == "corrected":
            self._corrected(body)
        elif event.kind == "arm_added":
            self.arms.setdefault(body["arm"], _new_arm())
        elif event.kind == "arm_retired":
            self.arms.setdefault(body["arm"], _new_arm())["retired"] = True

    def _corrected(self, body: dict[str, Any]) -> None:
        self.states[body["state"]] -= 1
        self.states["withdrawn" if body["reward"] is None else "rewarded"] += 1
        arm = self.arms.setdefault(body["arm"], _new_arm())
        for value, sign in ((body["was"], -1), (body["reward"], 1)):
            if value is not None:
                self.learned += sign
                arm["rewards"] += sign
                arm["reward"] += sign * value
                arm["reward2"] += sign * value**2

    def _decision(self, event: Event) -> None:
        body = event.body
        self.states["open"] += 1
        arm = self.arms.setdefault(body["arm"], _new_arm())
        arm["pulls"] += 1
        arm["last"] = event.at
        self.timeline.decision(event.at, str(body["arm"]))
        context = body["context"]
        self.n_features = len(context[0]) if isinstance(context[0], list) else len(context)
        if "best_mean" not in body:
            self.imported += 1
        else:
            lowest = body["mean"] - (body["score"] - body["mean"])
            regret = max(0.0, body["best_mean"] - body["mean"])
            self.curve.decision(regret, max(regret, body["best_score"] - lowest), body["width"])

    @property
    def n_decisions(self) -> int:
        """All decisions, whatever became of them."""
        return sum(self.states.values())

    def to_data(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "seq": self.seq,
            "states": self.states,
            "arms": [[name, stats] for name, stats in self.arms.items()],
            "curve": [self.curve.stride, self.curve.buckets],
            "imported": self.imported,
            "timeline": self.timeline.to_data(),
            "delays": self.delays,
            "learned": self.learned,
            "n_features": self.n_features,
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> State:
        """From what `to_data` gave."""
        state = cls([])
        state.seq, state.states = data["seq"], dict.fromkeys(STATES, 0) | data["states"]
        state.arms = dict(data["arms"])
        stride, buckets = data["curve"]
        state.curve = Curve(stride, [b if len(b) == len(_BUCKET) else [b[0], *b[-3:]] for b in buckets])
        state.imported = data.get("imported", state.n_decisions - int(sum(state.curve.columns()["decisions"])))
        if "timeline" in data:
            state.timeline = Timeline.from_data(data["timeline"])
        state.delays, state.learned, state.n_features = data["delays"], data["learned"], data["n_features"]
        return state

    def arm_table(self) -> list[dict[str, Any]]:
        """Per arm: name, pulls, rewards, mean reward and its standard error, last pull, retired."""
        rows = []
        for name, a in self.arms.items():
            n = a["rewards"]
            mean = a["reward"] / n if n else None
            spread = max(0.0, a["reward2"] / n - mean * mean) if n and mean is not None else 0.0
            error = math.sqrt(spread / (n - 1)) if n > 1 else None
            rows.append(
                {
                    "arm": name,
                    "pulls": a["pulls"],
                    "rewards": n,
                    "mean_reward": mean,
                    "standard_error": error,
                    "last_pull": a["last"],
                    "retired": a["retired"],
                }
            )
        return rows


def _new_arm() -> dict[str, Any]:
    return {"pulls": 0, "rewards": 0, "reward": 0.0, "reward2": 0.0, "last": None, "retired": False}
