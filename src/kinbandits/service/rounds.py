"""The log as rounds to learn from or to evaluate with."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kinbandits.logs import Log
from kinbandits.policies import KMTLUCB
from kinbandits.service.chooser import shared_context
from kinbandits.service.config import Settings
from kinbandits.service.edits import Edits
from kinbandits.service.events import Record
from kinbandits.service.learner import Learner, edits_of
from kinbandits.service.store import Store


def decisions_with_rewards(store: Store, upto: int | None = None) -> Iterator[tuple[Record, float | None]]:
    """All decisions, in order, each with the reward that is learned of it up to event ``upto``, if there is one."""
    last = store.last_seq() if upto is None else upto
    edits = Edits([e for e in store.edits() if e.seq <= last], last)
    events = itertools.takewhile(lambda e: e.seq <= last, store.read_all())
    learned = {e.decision: edits.reward(e) for e in events if e.kind in ("reward", "default")}
    for record in itertools.takewhile(lambda r: r.seq <= last, store.all_records()):
        yield record, learned.get(record.id)


@dataclass(frozen=True)
class Logged:
    """Rounds for off-policy evaluation, and what was left out of them.

    Attributes:
        rounds: decisions whose reward is known: delivered in time, or defaulted.
        left_out: how many decisions were left out, by why.
    """

    rounds: Log
    left_out: dict[str, int]

    @property
    def warnings(self) -> list[str]:
        """Where leaving out may mislead, in plain words."""
        missing = self.left_out.get(_NO_DEFAULT, 0) + self.left_out.get(_OPEN, 0)
        if not missing:
            return []
        return [
            f"{missing} decisions have no reward: the values are those of decisions that were rewarded. If no "
            "answer means a reward of 0, set default_reward = 0.0 in [service]"
        ]


_VOID = "void"
_OPEN = "open"
_YOUNG = "younger than the oldest open decision"
_NO_DEFAULT = "defaulted without a reward"
_UNDONE = "withdrawn or rolled back"
_WHY = {"open": _OPEN, "defaulted": _NO_DEFAULT, "late": _NO_DEFAULT}


def logged_rounds(store: Store) -> Logged:
    """The decisions of a log with the rewards that were learned.

    Where decisions are defaulted, good rewards come early and missing ones late. So everything after the oldest
    open decision is left out: its rewards are not all known yet.
    """
    found = list(decisions_with_rewards(store))
    young = False
    defaults = any(record.state in ("defaulted", "late") for record, _ in found)
    used: list[tuple[Record, float]] = []
    left_out: Counter[str] = Counter()
    for record, reward in found:
        young |= defaults and record.state == "open"
        if record.state == "void":
            left_out[_VOID] += 1
        elif young:
            left_out[_YOUNG] += 1
        elif reward is not None:
            used.append((record, reward))
        else:
            left_out[_WHY.get(record.state, _UNDONE)] += 1
    rounds = Log.of_rounds(
        contexts=[shared_context(r.body) for r, _ in used],
        candidates=[r.body["candidates"] for r, _ in used],
        chosen=[r.body["index"] for r, _ in used],
        rewards=[reward for _, reward in used],
        propensities=[r.body["propensity"] for r, _ in used],
    )
    return Logged(rounds, dict(left_out))


def policy_for(settings: Settings, log: Log) -> KMTLUCB:
    """A new policy, with the log's arms that the settings do not name."""
    policy = settings.build()
    for arm in log.arms:
        if arm not in policy.arms:
            policy.add_arm(arm)
    return policy


def replay(store: Store, settings: Settings) -> Learner:
    """Teach a new policy with a whole log, as if it had been there."""
    learner = Learner(settings, edits_of(store, settings))
    learner.apply(store.read_all())
    learner.publish()
    return learner
