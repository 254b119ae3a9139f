"""The thread that follows the log and teaches the model, in slices.

How it keeps up
    - Rows are learned in slices of about `_SLICE` seconds; between slices a new copy of the model is published, no
      more often than copying takes a tenth of the time (half of it, where a copy takes long).
    - While it keeps up (`_UNHURRIED`) it leaves half of the core to others. Another thread writes snapshots.

What gives way when it does not (in this order; the lag is in metrics, dashboard and log)
    1. It no longer pauses; behind for `_BEHIND` seconds, it publishes at most once a second.
    2. Shadows wait (from half of that on), and snapshots are put off.
    3. Decisions go on, from an older model. No row is dropped: what was not learned is learned later, or at the
       next start.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kinbandits.service.events import Event
from kinbandits.service.keeper import Keeper
from kinbandits.service.learner import Learner, Serving, take_up
from kinbandits.service.requests import Outcome, Request, deliver
from kinbandits.service.shadow import shadows_of
from kinbandits.service.store import StoreUnavailableError

if TYPE_CHECKING:
    from kinbandits.service.engine import Engine

log = logging.getLogger("kinbandits.service")

_POLL = 0.25  # seconds to wait for news at most
_LEISURE = 0.01  # seconds between two looks at decisions, which are only counted
_SLICE = 0.05  # seconds that a slice should take
_MOST_IN_SLICE = 2000  # events
_PART = 16  # events after which a new model may be published
_SHADOW_EVENTS = 64  # that a shadow takes in at once
_MOST_HELD = 20_000  # events that wait in memory; beyond that they are read from the log again
_UNHURRIED = 0.5  # seconds behind the log up to which it leaves half of the core to others
_BEHIND = 2.0  # and from which other things give way
_TO_LEARN = 2.0  # seconds that are left for learning when the service ends
_TO_KEEP = 2.0  # and for a last snapshot
_TO_ANSWER = 10.0  # seconds after which a change of arms is answered even if it is not yet in force


class Follower:
    """Learns what was written."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.store
        self._news = threading.Condition()
        self._written: deque[Event] = deque()  # by this process
        self._marks: deque[tuple[int, float]] = deque()  # (seq, when it came): what is not published yet
        self._held: list[tuple[int, float, Sequence[tuple[Request, Outcome]]]] = []
        self._stopping = threading.Event()
        self._fresh: Learner | None = None  # being taught what was corrected
        self._per_event = 0.001  # seconds, as the last slices had it
        self._taught_shadow = 0.0  # when
        self._published = 0.0  # when
        self._told = 0.0  # when it was last told of news
        self.publish_seconds = 0.0
        self.slice_seconds = 0.0
        self._warned = 0.0
        self.keeper = Keeper(engine)

    # -- asked by other threads -----------------------------------------------------------------

    def hand_over(self, events: Sequence[Event]) -> None:
        """Events that this process has written."""
        if not events:
            return
        now = time.monotonic()
        with self._news:
            self._marks.append((events[-1].seq, now))
            self._written.extend(events)
            if len(self._written) > _MOST_HELD:
                self._written.clear()
            # Decisions are only counted, which is not done after each of them.
            if now > self._told + _LEISURE or any(event.kind != "decision" for event in events):
                self._told = now
                self._news.notify_all()

    def answer_after(self, seq: int, answers: Sequence[tuple[Request, Outcome]]) -> None:
        """Answer these when the model has taken in event ``seq``."""
        with self._news:
            self._held.append((seq, time.monotonic() + _TO_ANSWER, answers))

    def wait_for(self, seq: int, timeout: float) -> bool:
        """Whether the model has taken in the log up to event ``seq``, within this time."""
        with self._news:
            self._news.notify_all()  # who waits need not wait for leisure too
            return self._news.wait_for(lambda: self._engine.serving.seq >= seq, timeout)

    def stop(self) -> None:
        """Learn what there is time for, and end."""
        self._stopping.set()
        with self._news:
            self._news.notify_all()

    @property
    def behind_seconds(self) -> float:
        """How long the oldest event has waited that the serving model does not know."""
        with self._news:
            return max(0.0, time.monotonic() - self._marks[0][1]) if self._marks else 0.0

    @property
    def behind_events(self) -> int:
        """How many events of this process the serving model does not know."""
        with self._news:
            return max(0, max(seq for seq, _ in self._marks) - self._engine.serving.seq) if self._marks else 0

    # -- the thread -----------------------------------------------------------------------------

    def run(self) -> None:
        """The thread."""
        end = float("inf")
        while True:
            stopping = self._stopping.is_set()
            if stopping and end == float("inf"):
                end = time.monotonic() + _TO_LEARN
            try:
                events = self._next(0.0 if stopping else _POLL)
                if events:
                    self._take(events, stopping)
                self._answer_held()
                if not stopping:
                    self._relearn()
                    self._teach_shadows()
                    self.keeper.keep(self._engine.learner, put_off=self.behind_seconds > _BEHIND)
            except StoreUnavailableError as error:
                log.warning("following the log failed", extra={"reason": str(error)})
                events = []
                self._stopping.wait(_POLL)
            if stopping and (not events or time.monotonic() > end):
                break
        self._finish()

    def _next(self, seconds: float) -> list[Event]:
        """The next slice of events."""
        seq = self._engine.learner.seq
        n = max(1, min(_MOST_IN_SLICE, int(_SLICE / self._per_event)))
        if self._something_to_do:
            seconds = 0.0
        if self._store.shared:
            events = self._read(seq, n)
            if not events and seconds:
                self._publish_if_due(True)
                self._store.wait(seconds)
                self._stopping.wait(_LEISURE)  # more may come, and are read together
                events = self._read(seq, n)
            if events:
                with self._news:
                    self._marks.append((events[-1].seq, time.monotonic()))
            return events
        with self._news:
            if not self._marks and not self._pending_publish:
                self._news.wait_for(lambda: self._marks or self._stopping.is_set(), seconds)
            missing = bool(self._marks) and self._marks[-1][0] > seq
        if missing:
            return self._read(seq, n)
        if self._pending_publish and not self._publish_if_due(self._stopping.is_set()):
            self._stopping.wait(min(seconds, 0.02))
        return []

    def _read(self, seq: int, n: int) -> list[Event]:
        """The next events: those that this process has written are at hand, others are read from the log."""
        with self._news:
            while self._written and self._written[0].seq <= seq:
                self._written.popleft()
            own: list[Event] = []
            while self._written and len(own) < n and self._written[0].seq == seq + 1 + len(own):
                own.append(self._written.popleft())
            if not own and self._written:
                n = min(n, self._written[0].seq - seq - 1)
        return own or self._store.read(seq, n)

    def _take(self, events: Sequence[Event], stopping: bool) -> None:
        learner = self._engine.learner
        seconds = 0.0
        for low in range(0, len(events), _PART):
            started = time.monotonic()
            self._changed |= learner.apply(events[low : low + _PART])
            seconds += time.monotonic() - started
            self._publish_if_due(stopping and low + _PART >= len(events))
        self.slice_seconds = seconds
        self._per_event = 0.5 * self._per_event + 0.5 * max(1e-6, seconds / len(events))
        behind = self.behind_seconds
        if behind > _BEHIND and time.monotonic() > self._warned + 10.0:
            self._warned = time.monotonic()
            log.warning("learning is behind", extra={"seconds": round(behind, 1), "events": self.behind_events})
        if seconds > 0.005 and behind < _UNHURRIED and not stopping:
            self._stopping.wait(min(seconds, 1.0))  # leave half of the core to others

    _changed = False  # whether the policy knows more than what is published

    @property
    def _pending_publish(self) -> bool:
        return self._engine.serving.seq < self._engine.learner.seq

    def _publish_if_due(self, now: bool) -> bool:
        """Let decisions see what was learned, unless it was just done: copying must not take most of the time."""
        learner = self._engine.learner
        if not self._pending_publish:
            return True
        least = 1.0 if self.behind_seconds > _BEHIND else min(9.0 * self.publish_seconds, 0.5)
        pause = max(self.publish_seconds, least)
        if self._changed and not now and time.monotonic() < self._published + pause:
            return False
        started = time.monotonic()
        if self._changed:
            learner.publish()
            self._changed = False
            self.publish_seconds = time.monotonic() - started
            self._published = time.monotonic()
        else:
            learner.serving = Serving(learner.serving.policy, learner.seq)
        with self._news:
            while self._marks and self._marks[0][0] <= learner.seq:
                self._marks.popleft()
            self._news.notify_all()
        return True

    def _answer_held(self) -> None:
        with self._news:
            now, seq = time.monotonic(), self._engine.serving.seq
            due = [answers for after, end, answers in self._held if after <= seq or end < now]
            self._held = [h for h in self._held if not (h[0] <= seq or h[1] < now)]
        for answers in due:
            deliver(answers)

    # -- a new model, when something was corrected ----------------------------------------------

    def _relearn(self) -> None:
        """One slice of teaching another learner what is true now; in place of the old one when it has caught up."""
        learner = self._engine.learner
        if self._fresh is None:
            if not learner.outdated:
                return
            self._fresh = take_up(self._store, self._engine.settings)
            log.info("learning again", extra={"from_event": self._fresh.seq, "to_event": learner.seq})
        fresh = self._fresh
        started = time.monotonic()
        while fresh.seq < learner.seq and time.monotonic() < started + _SLICE:
            fresh.apply(self._store.read(fresh.seq, min(learner.seq - fresh.seq, 200)))
        if fresh.seq < learner.seq:
            return
        self._fresh = None
        fresh.publish()
        self._engine.learner = fresh
        self._engine.shadows = shadows_of(self._engine.settings, fresh)
        self.keeper.forget()
        log.info("learned again", extra={"rows": fresh.policy.n_observations})

    def _teach_shadows(self) -> None:
        """A slice for the shadow that is behind most, if the served policy is not. Many together cost less."""
        shadow = min(self._engine.shadows, key=lambda s: s.seq, default=None)
        if shadow is None or self.behind_seconds > _BEHIND / 2:
            return
        behind = self._engine.learner.seq - shadow.seq
        if behind >= _SHADOW_EVENTS or (behind and time.monotonic() > self._taught_shadow + _POLL):
            shadow.apply(self._store.read(shadow.seq, _SHADOW_EVENTS))
            self._taught_shadow = time.monotonic()

    @property
    def _something_to_do(self) -> bool:
        """Besides following the log."""
        learner = self._engine.learner
        late = any(shadow.seq + _SHADOW_EVENTS <= learner.seq for shadow in self._engine.shadows)
        return self._fresh is not None or learner.outdated or late

    def _finish(self) -> None:
        try:
            self._publish_if_due(True)
            self.keeper.finish(self._engine.learner, _TO_KEEP)
        finally:
            with self._news:
                held, self._held = self._held, []
            for _, _, answers in held:
                deliver(answers)
