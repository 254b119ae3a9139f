"""The model, as a function of the log: one thread reads what was committed and teaches the policy in that order.

`Fold` is policy and stats after some event. Decisions read `Serving`, a frozen copy that replaces the one before in one
assignment; nobody waits for it. After a correction or a roll-back another fold is made, from a snapshot that is old
enough or from the whole log, while the old one decides.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import kinbandits as kb
from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.service import snapshots
from kinbandits.service.config import Settings
from kinbandits.service.databases import StoreUnavailableError
from kinbandits.service.events import ARM_KINDS, EDITS, ArmName, Body, Event
from kinbandits.service.stats import Stats
from kinbandits.service.store import LAST, Store

if TYPE_CHECKING:
    from kinbandits.service.engine import Engine

log = logging.getLogger("kinbandits.service")

_TOGETHER = 64  # rows that are learned at once while requests are answered,
_MANY = 20_000  # and at a start
_READ = 128  # events that are read at once while requests are answered
_PUBLISH = 0.05  # seconds between two copies of the model, at least
_SHARE = 10.0  # and so many times what the last copy took, up to a second
_POLL = 0.25  # seconds until a decision, which is only counted, is read


class Serving(NamedTuple):
    """What decisions are made from: the model after event ``seq``."""

    policy: kb.KMTLUCB
    stats: Stats
    seq: int
    arms: frozenset[ArmName]
    playable: list[ArmName]  # what the policy itself chooses among


# -- what the model begins with ---------------------------------------------------------------------


def first_policy(store: Store, settings: Settings) -> tuple[kb.KMTLUCB, Stats, int, int]:
    """What the model of a log begins with: policy, stats, the last event it knows, the event that says so."""
    row = store.beginning()
    if row is None:
        policy = settings.new_policy()
        return policy, Stats(policy.arms), 0, 0
    policy = snapshots.unpacked(row.policy)
    if row.stats is not None and row.settings != settings.fingerprint():
        raise InvalidInputError(
            f"the log was archived up to event {row.upto:,} with other settings in [policy], and what was archived "
            "cannot be learned again from the log. Fit the new settings to archive and log (kinbandits fit), and "
            "serve with --start"
        )
    for arm in policy.retired:  # the service says which arms are active
        policy.activate_arm(arm)
    if row.stats is None:
        settings.check_start(policy, "the policy that this log was started with")
        return policy, Stats(policy.arms), row.upto, row.seq
    stats = Stats.from_data(json.loads(row.stats))
    for event in store.special("arm_added"):
        if event.seq <= stats.seq:
            change_arms(policy, event.kind, event.body)
    stats.active = dict.fromkeys(policy.arms, True) | stats.active
    return policy, stats, row.upto, row.seq


def begin_with(store: Store, settings: Settings) -> str | None:
    """Write into the log which fitted policy its model begins with, if the settings name another than it has.

    From then on the log itself holds it, and a start without ``--start`` continues with it. Rows of this very log
    that the file has learned are not learned again.
    """
    if settings.service.start is None:
        return None
    path = Path(settings.service.start)
    policy, content = settings.check_start(kb.load(path), str(path)), path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    before = store.special("started", "archived")
    if before and before[-1].kind == "started" and before[-1].body["sha256"] == digest:
        return None
    last, upto, archived = store.last_seq(), 0, store.archived()
    for source in policy.learned_from:
        if source["first"] == store.id:
            upto = int(source["head"].partition(":")[0])
            if not source["whole"] or upto > last:
                raise InvalidInputError(
                    f"{path} has learned only a part of the log {store.name}, or more than is left of it, so that rows "
                    "would be learned twice or never. Fit it again from the whole log, or serve a new log (--store)"
                )
    if upto < archived:
        raise InvalidInputError(
            f"{path} has not learned what was archived of {store.name} (up to event {archived:,}); fit it to the "
            "archive and the log together"
        )
    store.lock()
    now, stats = max(time.time(), store.last_at()), store.beginning().stats if archived else None
    with store.transaction() as tx:
        event = Event(last + 1, "started", None, now, {"sha256": digest, "upto": upto})
        tx.begin_with(event, settings.fingerprint(), content, stats)
    return f"The model begins with {path}" + (f", which knows this log up to event {upto:,}." if upto else ".")


def change_arms(policy: kb.KMTLUCB, event_kind: str, body: Body) -> None:
    """Do what an event about an arm says. Which arms are active is up to the service, not the policy."""
    if event_kind == "arm_added" and body["arm"] not in policy.arms:
        details = {name: body[name] for name in ("similarity", "neighbours") if body.get(name) is not None}
        policy.add_arm(body["arm"], body.get("descriptor"), **details)


# -- the fold ---------------------------------------------------------------------------------------


class Fold:
    """Policy and stats after some event of a log. One thread at a time."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.settings, self.edits = settings, store.edits()
        self.policy, self.stats, self.known, self.begun = first_policy(store, settings)
        self.dirty = True  # whether the policy has changed since it was copied
        self.outdated = False  # whether something was edited after its edits were read
        self._rows: list[tuple[Event, float]] = []  # events that carry a row, and the reward to learn

    def apply(self, events: Iterable[Event], together: int = _TOGETHER) -> None:
        """Take in the next events; ``flush`` learns the last of their rows."""
        for event in events:
            self.stats.apply(event)
            reward = self.edits.reward(event)
            if reward is not None and event.seq > self.known:
                self._rows.append((event, reward))
                if len(self._rows) >= together:
                    self.flush()
            elif event.kind in ARM_KINDS:
                self.flush()
                try:
                    change_arms(self.policy, event.kind, event.body)
                    self.dirty = True
                except Exception as error:
                    self._refuse(event, error)
            elif event.kind in EDITS:
                self.outdated |= event.seq > self.edits.upto

    def flush(self) -> None:
        """Learn the rows that were taken in."""
        rows, self._rows = self._rows, []
        for _, alike in groupby(rows, lambda row: (row[0].body["own_contexts"], len(row[0].body["context"]))):
            self._learn(list(alike))

    def _learn(self, rows: Sequence[tuple[Event, float]]) -> None:
        """Teach the policy rows of one kind; one that it refuses is counted and left out, whatever it raises."""
        bodies, wanted = [event.body for event, _ in rows], self.settings.service.n_features
        arms, contexts = [b["arm"] for b in bodies], [b["context"] for b in bodies]
        try:
            if wanted is not None and len(contexts[0]) != wanted:
                raise InvalidInputError(f"its context has {len(contexts[0])} numbers in place of {wanted}")
            rewards = [reward for _, reward in rows]
            self.policy.observe(arms, contexts, rewards, own_contexts=bodies[0]["own_contexts"])
            self.dirty = True
        except Exception as error:
            if len(rows) == 1:
                self._refuse(rows[0][0], error)
                return
            half = len(rows) // 2
            self._learn(rows[:half])
            self._learn(rows[half:])

    def _refuse(self, event: Event, error: Exception) -> None:
        self.stats.refuse(event.seq, f"{type(error).__name__}: {error}")
        log.warning("event not learned", extra={"seq": event.seq, "reason": f"{type(error).__name__}: {error}"})

    def serving(self, before: Serving | None = None) -> Serving:
        """A copy for others to read."""
        self.flush()
        stats = self.stats.copy()
        if before is not None and not self.dirty:
            return before._replace(stats=stats, seq=stats.seq)
        policy = self.policy.frozen()
        self.dirty = False
        return Serving(policy, stats, stats.seq, frozenset(policy.arms), list(policy.active_arms))

    def save(self, folder: Path) -> Path:
        """Save a snapshot."""
        self.flush()
        return snapshots.save(folder, self.policy, self.stats, **self._about(), edits=self.edits.upto)

    def _about(self) -> dict[str, Any]:
        return {"settings": self.settings.fingerprint(), "begun": self.begun}

    def restore(self, path: Path) -> None:
        """Continue from a snapshot; one that is damaged or does not fit is a `FormatError`."""
        policy, stats, about = snapshots.load(path, **self._about())
        if stats.seq > self.edits.upto:
            raise FormatError("the log ends before it")
        if not self.edits.allow(stats.seq, about["edits"]):
            raise FormatError("something that it has learned was corrected since")
        self.policy, self.stats = policy, stats


def restored(store: Store, settings: Settings, folder: Path | None) -> Fold:
    """The fold of the latest snapshot that fits and is still true; a new one if there is none."""
    fold = Fold(store, settings)
    for path in snapshots.found(folder) if folder is not None else ():
        try:
            fold.restore(path)
            return fold
        except FormatError as error:
            log.warning("snapshot not used", extra={"snapshot": path.name, "reason": str(error)})
    return fold


def replay(store: Store, settings: Settings, upto: int = LAST) -> Fold:
    """The fold of a whole log, or of its events up to ``upto``."""
    fold = Fold(store, settings)
    fold.apply(store.read_all(fold.stats.seq, upto), _MANY)
    fold.flush()
    return fold


# -- the thread -------------------------------------------------------------------------------------


class Learner:
    """The thread. It reads events from the log, whichever process has written them."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._store, self._settings = engine, engine.store, engine.settings
        self._last = 0  # the last event that this process has committed
        self._marks: deque[tuple[int, float]] = deque()  # (seq, when it was committed) of what is not published yet
        self._news = threading.Event()
        self._stopping = False
        self._published = self._saved = 0.0  # when
        self._saved_rows = 0
        self.publish_seconds = self.save_seconds = 0.0
        self.progress = (0, 0)  # while it starts: the last event read, and the last there is
        self.caught_up = threading.Event()
        self.fold: Fold

    # -- called by other threads ----------------------------------------------------------------

    def committed(self, events: Sequence[Event]) -> None:
        """This process has committed these events."""
        self._marks.append((events[-1].seq, time.monotonic()))
        self._last = events[-1].seq
        if any(event.kind != "decision" for event in events):
            self._news.set()

    def behind(self) -> float:
        """Seconds since the oldest event was committed that the serving model does not know; the log is not asked."""
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
        fold, last = restored(self._store, self._settings, self._engine.folder), self._store.last_seq()
        while fold.stats.seq < last and not self._stopping:
            fold.apply(self._store.read(fold.stats.seq, 2000), _MANY)
            self.progress = (fold.stats.seq, last)
        fold.flush()
        return fold

    def _follow(self) -> None:
        """Learn what waits, publish, and save a snapshot now and then."""
        seq, events = self.fold.stats.seq, list[Event]()
        try:
            if seq < self._last or not self._engine.is_writer:
                events = self._store.read(seq, _READ)
                self.fold.apply(events)
                self.fold.flush()
            if self.fold.outdated and not events:
                log.info("corrected: learning again")
                self.fold = self._made()
        except StoreUnavailableError as error:
            log.warning("the log cannot be read", extra={"reason": str(error)})
            self._news.wait(1.0)
            return
        # There is something to publish: later events, or the same ones learned again.
        news = self.fold.dirty or self.fold.stats.seq != self._engine.serving.seq
        waited, took = time.monotonic() - self._published, self.publish_seconds
        if news and waited > max(_PUBLISH, took, min(_SHARE * took, 1.0)):
            self._publish()
        if not events:
            rows = abs(self.fold.stats.learned - self._saved_rows)
            quiet = time.monotonic() - self._saved > _SHARE * _SHARE * self.save_seconds
            if rows >= self._settings.service.snapshot_every and quiet:
                self._save()
            if self._news.wait(_PUBLISH if news else _POLL):
                self._news.clear()

    def _publish(self) -> None:
        started = time.monotonic()
        before = self._engine.serving if self.caught_up.is_set() else None
        try:
            serving = self.fold.serving(before)
        except Exception:
            if before is None:
                raise
            log.exception("the model cannot be copied; the one before it continues to decide")
            self.fold.dirty = False
            serving = before._replace(stats=self.fold.stats.copy(), seq=self.fold.stats.seq)
        self._engine.serving = serving
        while self._marks and self._marks[0][0] <= serving.seq:
            self._marks.popleft()
        self._published = time.monotonic()
        self.publish_seconds = self._published - started

    def _save(self) -> None:
        started = time.monotonic()
        try:
            self.fold.save(self._engine.folder)
        except Exception as error:  # a snapshot is a cache
            log.warning("no snapshot", extra={"reason": f"{type(error).__name__}: {error}"})
        self._saved_rows, self._saved = self.fold.stats.learned, time.monotonic()
        self.save_seconds = self._saved - started
