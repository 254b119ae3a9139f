"""The model, as a function of the log: one thread reads what was committed and teaches the policy in that order.

`Fold` is policy and stats after some event. What decisions read is `Serving`, a frozen copy that is put in place in
one assignment; nobody waits for it. A correction or a roll-back has another fold made from a snapshot that is old
enough, or from the whole log, while the old one decides.
"""

from __future__ import annotations

import json
import logging
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import kinbandits as kb
from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.service import snapshots
from kinbandits.service.config import Settings
from kinbandits.service.events import ARM_KINDS, EDITS, ArmName, Body, Edits, Event
from kinbandits.service.stats import Stats
from kinbandits.service.store import Store, StoreUnavailableError

if TYPE_CHECKING:
    from kinbandits.service.engine import Engine

log = logging.getLogger("kinbandits.service")

_TOGETHER = 64  # rows that are learned at once while requests are answered,
_MANY = 20_000  # and at a start
_PUBLISH = 0.05  # seconds between two copies of the model, at least
_SHARE = 10.0  # and so many times what the last copy took, up to a second
_POLL = 0.25  # seconds between two looks at decisions, which are only counted
_MOST_WAITING = 20_000  # events in memory; beyond that they are read from the log again


class Serving(NamedTuple):
    """What decisions are made from: the model after event ``seq``."""

    policy: kb.KMTLUCB
    stats: Stats
    seq: int
    arms: frozenset[ArmName]
    playable: list[ArmName]  # what the policy itself chooses among

    @property
    def n_playable(self) -> int:
        """How many arms the policy itself chooses among."""
        return len(self.playable)


class _Row(NamedTuple):
    seq: int
    arm: ArmName
    context: list[float]
    reward: float
    own_contexts: Any

    @property
    def kind(self) -> tuple[Any, int]:
        return self.own_contexts, len(self.context)


def first_policy(store: Store, settings: Settings) -> tuple[kb.KMTLUCB, Stats, int, int]:
    """What the model of a log begins with: policy, stats, the last event it knows, the event that says so."""
    row = store.beginning()
    if row is None:
        policy = settings.new_policy()
        return policy, Stats(list(policy.arms)), 0, 0
    with tempfile.TemporaryDirectory(prefix="kinbandits-") as folder:
        path = Path(folder) / "policy"
        path.write_bytes(row.policy)
        policy = kb.load(path)
    if row.stats is not None and row.settings != settings.fingerprint():
        raise InvalidInputError(
            f"the log was archived up to event {row.upto:,} with other settings in [policy]: what was archived "
            f"cannot be "
            "learned again from here. Fit the new settings to archive and log (kinbandits fit), and serve with "
            "--start"
        )
    for arm in list(policy.retired):  # the service says which arms are active
        if hasattr(policy, "activate_arm"):
            policy.activate_arm(arm)
    if row.stats is None:
        settings.check_start(policy, "the policy that this log was started with")
        return policy, Stats(list(policy.arms), set(policy.retired)), row.upto, row.seq
    stats = Stats.from_data(json.loads(row.stats))
    for event in store.special("arm_added"):
        if event.seq <= stats.seq:
            change_arms(policy, event.kind, event.body)
    stats.active = {arm: arm not in policy.retired for arm in policy.arms} | stats.active
    return policy, stats, row.upto, row.seq


def change_arms(policy: kb.KMTLUCB, event_kind: str, body: Body) -> None:
    """Do what an event about an arm says. Which arms may be chosen is the service's affair, not the policy's."""
    if event_kind == "arm_added" and body["arm"] not in policy.arms:
        details = {name: body.get(name) for name in ("similarity", "neighbours") if body.get(name) is not None}
        policy.add_arm(body["arm"], body.get("descriptor"), **details)


class Fold:
    """Policy and stats after some event of a log. One thread at a time."""

    def __init__(self, store: Store, settings: Settings, edits: Edits) -> None:
        self.settings, self.edits = settings, edits
        self.policy, self.stats, self.known, self.begun = first_policy(store, settings)
        self.dirty = True  # whether the policy has changed since it was copied
        self.outdated = False  # whether something was edited that it does not know
        self._rows: list[_Row] = []

    def apply(self, events: Iterable[Event], together: int = _TOGETHER) -> None:
        """Take in the next events; ``flush`` learns the last of their rows."""
        for event in events:
            self.stats.apply(event)
            reward = self.edits.reward(event)
            if reward is not None and event.seq > self.known:
                body = event.body
                self._rows.append(_Row(event.seq, body["arm"], body["context"], reward, body["own_contexts"]))
                if len(self._rows) >= together:
                    self.flush()
            elif event.kind in ARM_KINDS:
                self.flush()
                self._change_arms(event)
            elif event.kind in EDITS:
                self.outdated |= event.seq > self.edits.upto

    def flush(self) -> None:
        """Learn the rows that were taken in."""
        rows, self._rows = self._rows, []
        for _, alike in groupby(rows, lambda row: row.kind):
            self._learn(list(alike))

    def _learn(self, rows: Sequence[_Row]) -> None:
        """Teach the policy rows of one kind; one that it does not take is counted and left out, whatever it
        raises."""
        wanted = self.settings.service.n_features
        try:
            if wanted is not None and len(rows[0].context) != wanted:
                raise InvalidInputError(f"its context has {len(rows[0].context)} numbers in place of {wanted}")
            _, arms, contexts, rewards, own = zip(*rows, strict=True)
            self.policy.observe(list(arms), list(contexts), list(rewards), own_contexts=own[0])
            self.dirty = True
        except Exception as error:
            if len(rows) > 1:
                half = len(rows) // 2
                self._learn(rows[:half])
                self._learn(rows[half:])
                return
            self.stats.refuse(rows[0].seq, f"{type(error).__name__}: {error}")
            log.warning("event not learned", extra={"seq": rows[0].seq, "reason": f"{type(error).__name__}: {error}"})

    def _change_arms(self, event: Event) -> None:
        try:
            change_arms(self.policy, event.kind, event.body)
            self.dirty = True
        except Exception as error:
            self.stats.refuse(event.seq, f"{type(error).__name__}: {error}")
            log.warning("arm not changed", extra={"seq": event.seq, "reason": str(error)})

    def serving(self, before: Serving | None = None) -> Serving:
        """A copy for others to read."""
        self.flush()
        stats = self.stats.copy()
        if before is not None and not self.dirty:
            return before._replace(stats=stats, seq=stats.seq)
        policy = self.policy.frozen()
        self.dirty = False
        return Serving(policy, stats, stats.seq, frozenset(policy.arms), list(policy.active_arms))

    # -- snapshots ------------------------------------------------------------------------------

    def save(self, folder: Path) -> Path:
        """Keep a snapshot."""
        self.flush()
        return snapshots.save(folder, self.policy, self.stats, **self._about(), edits=self.edits.upto)

    def _about(self) -> dict[str, Any]:
        return {"settings": self.settings.fingerprint(), "begun": self.begun}

    def restore(self, path: Path) -> None:
        """Go on from a snapshot; one that is damaged or does not fit is a `FormatError`."""
        policy, stats, about = snapshots.load(path, **self._about())
        if not self.edits.allow(stats.seq, about["edits"]):
            raise FormatError("what it was taught has been corrected since")
        self.policy, self.stats = policy, stats


def restored(store: Store, settings: Settings, folder: Path | None) -> Fold:
    """The fold of the latest snapshot that fits and is still true; a new one if there is none."""
    last = store.last_seq()  # first: what is edited after it is noticed when it is read
    edits = Edits(store.edits(), last)
    for path in snapshots.found(folder) if folder is not None else ():
        fold = Fold(store, settings, edits)
        try:
            fold.restore(path)
        except FormatError as error:
            log.warning("snapshot not used", extra={"snapshot": path.name, "reason": str(error)})
        else:
            if fold.stats.seq <= last:
                return fold
            log.warning("snapshot not used", extra={"snapshot": path.name, "reason": "the log ends before it"})
    return Fold(store, settings, edits)


def replay(store: Store, settings: Settings, upto: int | None = None) -> Fold:
    """The fold of a whole log, or of its events up to ``upto``."""
    fold = Fold(store, settings, Edits(store.edits(), store.last_seq()))
    fold.apply(store.read_all(fold.stats.seq, upto), _MANY)
    fold.flush()
    return fold


class Learner:
    """The thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._store, self._settings = engine, engine.store, engine.settings
        self._incoming: deque[Event] = deque()  # committed by this process
        self._marks: deque[tuple[int, float]] = deque()  # (seq, when it came): what is not published yet
        self._news = threading.Event()
        self._stopping = False
        self._published = self._saved = 0.0  # when
        self._saved_rows = 0
        self.publish_seconds = self.save_seconds = 0.0
        self.progress = (0, 0)  # while it starts: the last event read, and the last there is
        self.caught_up = threading.Event()
        self.fold: Fold

    # -- called by other threads ----------------------------------------------------------------

    def hand_over(self, events: Sequence[Event]) -> None:
        """Events that this process has committed."""
        self._marks.append((events[-1].seq, time.monotonic()))
        if len(self._incoming) > _MOST_WAITING:
            self._incoming.clear()  # it reads them from the log
        self._incoming.extend(events)
        if any(event.kind != "decision" for event in events):
            self._news.set()

    def behind(self) -> float:
        """Seconds that the oldest event waits which the serving model does not know."""
        try:
            return time.monotonic() - self._marks[0][1]
        except IndexError:
            return 0.0

    def stop(self) -> None:
        """End soon."""
        self._stopping = True
        self._news.set()

    # -- the thread -----------------------------------------------------------------------------

    def run(self) -> None:
        """Catch up with the log, then follow it."""
        self.fold = self._made()
        self._publish()
        self._saved_rows = self.fold.stats.learned if snapshots.found(self._engine.folder) else 0
        self.caught_up.set()
        while not self._stopping:
            self._follow()
        if self.fold.stats.learned != self._saved_rows and not self.fold.outdated:
            self._save()

    def _made(self) -> Fold:
        """A fold of the log as it is now, from the newest snapshot that can be used."""
        fold = restored(self._store, self._settings, self._engine.folder)
        last = self._store.last_seq()
        for events in self._chunks(fold.stats.seq, last):
            fold.apply(events, _MANY)
            self.progress = (fold.stats.seq, last)
            if self._stopping:
                break
        fold.flush()
        return fold

    def _chunks(self, after: int, last: int) -> Iterator[list[Event]]:
        while after < last and (events := self._store.read(after, 2000)):
            yield events
            after = events[-1].seq

    def _follow(self) -> None:
        """Learn what waits, publish, and keep a snapshot now and then."""
        try:
            events = self._next()
            self.fold.apply(events)
            self.fold.flush()
            if self.fold.outdated and not self._incoming:
                log.info("corrected: learning again")
                self.fold = self._made()
        except StoreUnavailableError as error:
            log.warning("the log cannot be read", extra={"reason": str(error)})
            self._news.wait(1.0)
            return
        waited, took = time.monotonic() - self._published, self.publish_seconds
        if self._is_news() and waited > max(_PUBLISH, took, min(_SHARE * took, 1.0)):
            self._publish()
        if not events:
            self._save_if_due()
            if self._news.wait(_PUBLISH if self._is_news() else _POLL):
                self._news.clear()

    def _is_news(self) -> bool:
        """Whether there is something to publish: later events, or the same ones learned again."""
        return self.fold.dirty or self.fold.stats.seq != self._engine.serving.seq

    def _next(self) -> list[Event]:
        """The next events: those that were handed over, or from the log where some are missing."""
        seq = self.fold.stats.seq
        events: list[Event] = []
        while self._incoming and len(events) < _TOGETHER:
            try:
                event = self._incoming.popleft()
            except IndexError:  # cleared by who hands over
                break
            if event.seq > seq:
                events.append(event)
        if (events and events[0].seq != seq + 1) or (not events and not self._engine.is_writer):
            return self._store.read(seq, 2000)
        return events

    def _publish(self) -> None:
        started = time.monotonic()
        before = self._engine.serving if self.caught_up.is_set() else None
        try:
            serving = self.fold.serving(before)
        except Exception:
            if before is None:
                raise
            log.exception("the model cannot be copied; the one before it goes on deciding")
            self.fold.dirty = False
            serving = before._replace(stats=self.fold.stats.copy(), seq=self.fold.stats.seq)
        self._engine.serving = serving
        while self._marks and self._marks[0][0] <= serving.seq:
            self._marks.popleft()
        self._published = time.monotonic()
        self.publish_seconds = self._published - started

    def _save_if_due(self) -> None:
        rows = self.fold.stats.learned - self._saved_rows
        quiet = time.monotonic() - self._saved > _SHARE * _SHARE * self.save_seconds
        if abs(rows) >= self._settings.service.snapshot_every and quiet:
            self._save()

    def _save(self) -> None:
        started = time.monotonic()
        try:
            self.fold.save(self._engine.folder)
        except Exception as error:  # a snapshot is a cache
            log.warning("no snapshot", extra={"reason": f"{type(error).__name__}: {error}"})
        self._saved_rows, self._saved = self.fold.stats.learned, time.monotonic()
        self.save_seconds = self._saved - started
