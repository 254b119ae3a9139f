"""A policy that learns from the log and decides without acting, and what it would have earned.

It learns the same rows in the same order as the served policy, behind it: when the served one is not up to date,
it waits. At each decision of the log it is asked what it would have done, before it learns the reward. Its value is
told by `ope.estimate` from the served policy's propensities, with its own means as the model of ``dr``.

It is asked with a frozen copy, made anew when it has learned a sixteenth of its rows more: so many decisions are
asked together.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from kinbandits.errors import FormatError, KinbanditsError
from kinbandits.estimators import Evaluation, estimate
from kinbandits.logs import Log
from kinbandits.service.chooser import shared_context
from kinbandits.service.config import Settings
from kinbandits.service.edits import Edits
from kinbandits.service.events import OUTCOMES, Event
from kinbandits.service.learner import Learner

_KEPT = 20_000  # rounds that are evaluated: the last ones
_MOST_OPEN = 50_000  # decisions that wait for their outcome
_LEAST_ROWS = 16  # between two copies


class Account:
    """Rounds of the log, with what the shadow would have done.

    A round is a list: propensity, reward (None while it is open, NaN if it does not count), probability with which
    the shadow plays the arm that was played, its mean there, its mean of the other arms by their probabilities.
    """

    def __init__(self, in_order: bool) -> None:
        self._in_order = in_order  # no round before those decided earlier: good rewards come early, defaults late
        self._open: dict[str, list[Any]] = {}
        self._kept: deque[list[float]] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def ask(self, event: Event) -> None:
        """A decision was made."""
        self._open[str(event.decision)] = [event.body["propensity"], None]
        if len(self._open) > _MOST_OPEN:
            del self._open[next(iter(self._open))]

    def settle(self, decision: str, reward: float | None) -> None:
        """What became of a decision; None if no reward is to be learned of it."""
        if decision in self._open:
            self._open[decision][1] = float("nan") if reward is None else reward

    def answer(self, decision: str, numbers: Sequence[float]) -> None:
        """What the shadow would have done."""
        if decision in self._open:
            self._open[decision][2:] = numbers

    def collect(self) -> None:
        """Take over the rounds that are complete."""
        done = []
        for name, found in self._open.items():
            if found[1] is None and self._in_order:
                break
            if found[1] is not None:
                done.append(name)
        with self._lock:
            found = [self._open.pop(name) for name in done]
            self._kept.extend(r for r in found if len(r) == 5 and r[1] == r[1])

    def evaluation(self) -> tuple[Evaluation, Evaluation, float] | None:
        """Of the shadow and of what was served, and how often they agree; None if there are too few rounds."""
        with self._lock:
            rounds = list(self._kept)
        if len(rounds) < 2:
            return None
        propensities, rewards, same, mean, others = zip(*rounds, strict=True)
        target, model = [[p, 1.0 - p] for p in same], list(zip(mean, others, strict=True))
        played = [0] * len(rounds)
        live = estimate(rewards, [1.0] * len(rounds), played, [[1.0]] * len(rounds))
        return estimate(rewards, propensities, played, target, model), live, sum(same) / len(same)

    def to_data(self) -> dict[str, Any]:
        """As JSON data."""
        return {"open": {k: r for k, r in self._open.items() if len(r) == 5}, "kept": list(self._kept)}

    def load(self, data: dict[str, Any]) -> None:
        """From what `to_data` gave."""
        self._open = dict(data["open"])
        self._kept.extend(data["kept"])


class Shadow(Learner):
    """A policy that follows the log beside the served one."""

    def __init__(self, name: str, settings: Settings, edits: Edits, snapshot: bytes | None = None) -> None:
        super().__init__(settings, edits)
        self.name = name
        service = settings.service
        self.account = Account(in_order=bool(service.reward_wait) and service.default_reward is not None)
        self._asked: list[Event] = []  # since the copy was made
        if snapshot is not None:
            try:
                self.restore(snapshot)
            except FormatError:  # other settings, or corrected since: it learns again from the beginning
                pass
            else:
                self.account.load(self.more)
        self._copy()

    def apply(self, events: Iterable[Event], *, bulk: bool = False) -> bool:
        """Take in the next events, and say what it would have done."""
        part: list[Event] = []
        rows = self.state.learned
        for event in events:
            part.append(event)
            if event.kind == "decision" and "propensity" in event.body:
                self.account.ask(event)
                self._asked.append(event)
            elif event.kind in OUTCOMES and event.decision is not None:
                learned = event.kind in ("reward", "default")
                self.account.settle(event.decision, self.edits.reward(event) if learned else None)
            rows += event.is_learned
            if rows >= self._next:
                super().apply(part)
                part = []
                self._answer(self._asked)
                self._copy()
        super().apply(part)
        self._answer(self._asked)
        self.account.collect()
        return False

    def _copy(self) -> None:
        self.publish()
        self._next = self.state.learned + max(_LEAST_ROWS, self.state.learned // 16)
        self._asked = []

    def _answer(self, asked: Sequence[Event]) -> None:
        """Ask the copy about decisions; those that it cannot decide do not count."""
        self._asked = []
        if not asked:
            return
        bodies = [event.body for event in asked]
        chosen = [b["index"] for b in bodies]
        contexts, candidates = [shared_context(b) for b in bodies], [b["candidates"] for b in bodies]
        rounds = Log.of_rounds(contexts, candidates, chosen, [0.0] * len(asked), [1.0] * len(asked))
        policy = self.serving.policy
        try:
            target = rounds.table(policy.probabilities)
            means = rounds.table(lambda contexts, names: policy.predict(contexts, names).mean)
        except KinbanditsError:
            if len(asked) > 1:
                self._answer(asked[: len(asked) // 2])
                self._answer(asked[len(asked) // 2 :])
            return
        for event, i, p, q in zip(asked, chosen, target.tolist(), means.tolist(), strict=True):
            rest = 1.0 - p[i]
            others = sum(a * b for a, b in zip(p, q, strict=True)) - p[i] * q[i]
            self.account.answer(str(event.decision), (p[i], q[i], others / rest if rest > 1e-12 else 0.0))

    def snapshot_data(self) -> dict[str, Any]:
        """What a snapshot has besides."""
        return self.account.to_data()


def shadows_of(settings: Settings, learner: Learner) -> list[Shadow]:
    """The shadows beside a learner, as its snapshot has them."""
    named = ((name, settings.for_shadow(name)) for name in settings.shadow)
    edits = Edits(learner.edits.events, learner.edits.upto)  # a shadow begins with the log, whatever a start knows
    return [Shadow(name, own, edits, learner.beside.get(name)) for name, own in named]
