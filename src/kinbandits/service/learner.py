"""The model, following the log: rewards are learned here, away from decisions.

`Learner` folds events into the `State` and teaches the policy in the order of the log: so the model is a function
of the log alone, however often the process was stopped. Rows that stand together are learned together, which costs
less than one by one and comes to the same. A long log that no snapshot covers is learned in bulk: as good a model,
but not the same one to the last digit. What decisions read is a frozen copy (`Serving`), put in place in one step
when it is ready; nobody waits for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from kinbandits.errors import FormatError, InvalidInputError, KinbanditsError
from kinbandits.policy import KMTLUCB
from kinbandits.service import snapshots
from kinbandits.service.config import Settings
from kinbandits.service.edits import Edits
from kinbandits.service.events import EDITS, Event, Head
from kinbandits.service.rules import check_context
from kinbandits.service.state import State
from kinbandits.service.store import Store

log = logging.getLogger("kinbandits.service")

_TOGETHER = 256  # rows that are learned at once, at most
_BULK = 20_000  # events to read at a start from which on all rows are learned at once
_MOST_HELD = 200_000  # rows of them
_PROGRESS = 2.0  # seconds between two lines about a long start


@dataclass(frozen=True)
class Serving:
    """What decisions are made from: the model after event ``seq``."""

    policy: KMTLUCB
    seq: int

    @cached_property
    def arms(self) -> frozenset[str | int]:
        """All arms, to look one up in."""
        return frozenset(self.policy.arms)


class Row(NamedTuple):
    """What is learned of an event."""

    seq: int
    arm: str | int
    context: list[float]
    reward: float
    own: bool  # whether every candidate had a context of its own

    @property
    def kind(self) -> tuple[bool, int]:
        """Rows of one kind can be learned together."""
        return self.own, len(self.context)


class Learner:
    """Policy and state after some event of the log. One thread at a time."""

    def __init__(self, settings: Settings, edits: Edits | None = None) -> None:
        self.settings = settings
        self.edits = edits if edits is not None else Edits()
        self.outdated = False  # whether something was edited that it does not know
        self.policy = settings.build()
        self.state = State(list(self.policy.arms))
        self.refused = 0  # rows the policy would not learn
        self.restored = (0, 0)  # event and rows of the snapshot that it started from
        self.serving = Serving(self.policy.frozen(), 0)
        self.beside: dict[str, bytes] = {}  # snapshots of others that came with its own, by name
        self.more: dict[str, Any] = {}  # what its snapshot had besides policy and state
        self._rows: list[Row] = []  # taken in and not yet learned

    @property
    def seq(self) -> int:
        """The last event taken in."""
        return self.state.seq

    def apply(self, events: Iterable[Event], *, bulk: bool = False) -> bool:
        """Take in the next events; whether the model has changed. In bulk, rows wait for others until `publish`."""
        changed = False
        for event in events:
            self.state.apply(event)
            if event.kind in ("reward", "default"):
                reward = self.edits.reward(event)
                if reward is not None:
                    body = event.body
                    own = body.get("own_contexts", False)
                    self._rows.append(Row(event.seq, body["arm"], body["context"], reward, own))
                if len(self._rows) >= (_MOST_HELD if bulk else _TOGETHER):
                    changed |= self._learn_all()
            elif event.kind in ("arm_added", "arm_retired"):
                self._learn_all()
                self._arms(event)
                changed = True
            elif event.kind in EDITS:
                self.outdated |= event.seq > self.edits.upto
        return changed if bulk else self._learn_all() or changed

    def publish(self) -> None:
        """Let decisions see what was learned."""
        self._learn_all()
        self.serving = Serving(self.policy.frozen(), self.seq)

    def _learn_all(self) -> bool:
        rows, self._rows = self._rows, []
        return sum([self._learn(list(alike)) for _, alike in groupby(rows, lambda row: row.kind)]) > 0

    def _learn(self, rows: Sequence[Row]) -> bool:
        """Teach the policy rows of one kind that follow each other; whether there were any that it took."""
        if len(rows) > 1 and self.policy.regression.one_by_one(len(rows)):
            return sum([self._learn([row]) for row in rows]) > 0
        _, arms, contexts, rewards, own = zip(*rows, strict=True)
        try:
            check_context(contexts[0], self.settings.service.n_features)
            self.policy.observe(arms, contexts, rewards, own_contexts=own[0])
        except KinbanditsError as error:
            if len(rows) > 1:
                half = len(rows) // 2
                return self._learn(rows[:half]) | self._learn(rows[half:])
            # A row that cannot be learned (say, the settings now have another reward range) is left out, and stays
            # in the log. It must not stop the others.
            self.refused += 1
            log.warning("event not learned", extra={"seq": rows[0].seq, "reason": str(error)})
            return False
        return True

    def _arms(self, event: Event) -> None:
        try:
            change_arms(self.policy, event.kind, event.body)
        except KinbanditsError as error:
            log.warning("arm not changed", extra={"seq": event.seq, "reason": str(error)})

    # -- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> snapshots.Snapshot:
        """All of it as it is now; another thread may make bytes of it."""
        known = self.edits.upto, self.settings.fingerprint(), self.snapshot_data()
        return snapshots.Snapshot(self.policy, self.state, *known)

    def snapshot_data(self) -> dict[str, Any]:
        """What a snapshot has besides policy and state."""
        return {}

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot of the same settings; any other, or a damaged one, is a `FormatError`."""
        try:
            found = snapshots.unpack(snapshot, self.settings.fingerprint())
            if not self.edits.allow(found.state.seq, found.edits):
                raise FormatError("what it was taught has been corrected since")
        except FormatError:
            raise
        except Exception as error:  # whatever a file of another release may hold
            raise FormatError(f"the snapshot cannot be read ({type(error).__name__}: {error})") from error
        self.policy, self.state, self.more, self.beside = found.policy, found.state, found.more, found.beside
        self.restored = (found.state.seq, found.state.learned)


def change_arms(policy: KMTLUCB, kind: str, body: dict[str, Any]) -> None:
    """Do what an event of kind arm_added or arm_retired says."""
    if kind == "arm_retired":
        policy.retire_arm(body["arm"])
    elif body["arm"] not in policy.arms:
        details = {name: body.get(name) for name in ("similarity", "neighbours")}
        policy.add_arm(body["arm"], body.get("descriptor"), **details)


def edits_of(store: Store, settings: Settings) -> Edits:
    """Those of a log, of which the file that the policy starts from may know a part."""
    last = store.last_seq()  # first: what is edited after it is either found below, or noticed when it is read
    edits = Edits(store.edits(), last, known_of(store, settings))
    if edits.in_vain:
        log.warning("corrections that the start file does not know: fit it again", extra={"edits": edits.in_vain})
    return edits


def known_of(store: Store, settings: Settings) -> int:
    """The last event of this log that the file which the policy starts from has learned; 0 if none."""
    start, first = settings.service.start, store.event(1)
    mine = [log for log in settings.build().learned_from if first is not None and log["first"] == first.digest]
    if start is None or not mine:
        return 0
    head = Head.parse(mine[0]["head"])
    last = store.event(head.seq)
    if not mine[0]["whole"] or last is None or last.digest != head.digest:
        why = "a part of" if not mine[0]["whole"] else f"{head.seq:,} events of what was once"
        raise InvalidInputError(
            f"{start} has learned {why} the log {store.url}: served with it, rows would be learned twice or never. "
            "Fit it again from the whole log, or serve a new log (--store)"
        )
    return head.seq


Progress = Callable[[int, int], None]


def take_up(store: Store, settings: Settings) -> Learner:
    """A learner as the latest snapshot has it that fits and is still true; a new one if there is none.

    Where most of a long log came after it (say, it was imported), a new one too: it learns in bulk.
    """
    edits = edits_of(store, settings)
    last = edits.upto
    for seq, snapshot in store.snapshots():
        if last - seq > max(_BULK, seq):
            break
        learner = Learner(settings, edits)
        try:
            learner.restore(snapshot)
        except FormatError as error:
            log.warning("snapshot not used", extra={"seq": seq, "reason": str(error)})
        else:
            return learner
    return Learner(settings, edits)


def follow(store: Store, settings: Settings, progress: Progress = lambda done, of: None) -> Learner:
    """The learner after the whole log: the latest snapshot that fits, and the events after it.

    Args:
        store: the log.
        settings: of the policy.
        progress: told the last event taken in, and the last there is.
    """
    learner = take_up(store, settings)
    last, told = store.last_seq(), time.monotonic()
    bulk = last - learner.seq > _BULK
    while events := store.read(learner.seq, 2000):
        learner.apply(events, bulk=bulk)
        progress(learner.seq, last)
        if time.monotonic() > told + _PROGRESS:
            told = time.monotonic()
            log.info("reading the log", extra={"event": learner.seq, "of": last, "rows": learner.state.learned})
    if bulk:
        log.info("learning in bulk", extra={"rows": learner.state.learned})
    learner.publish()
    return learner
