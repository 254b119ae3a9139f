"""What is kept for the next start: snapshots, made beside the stream, and the last event outside the log."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from kinbandits.service.learner import Learner
from kinbandits.service.snapshots import Snapshot
from kinbandits.service.store import StoreUnavailableError

if TYPE_CHECKING:
    from kinbandits.service.engine import Engine

log = logging.getLogger("kinbandits.service")

_HEAD_EVERY = 1.0  # seconds between two notes of the last event outside the log
_SHARE = 100.0  # a snapshot may take one part in so many of the time: what waits for it is not in the p99
_RATE = 2e6  # bytes a second that snapshots may write on average
_EVENTS = 50_000  # even if nothing was learned: reading so many again takes a while
_RETRY = 30.0  # seconds, if one could not be kept


class Keeper:
    """Decides when a snapshot is due, and keeps it on a thread of its own.

    Attributes:
        seq: the event of the latest one. seconds, bytes: what it took.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.store
        self._rows: float = 0  # rows that the latest one has
        self._after = 0.0  # when the next one may be made
        self._next_head = 0.0
        self._work: threading.Thread | None = None
        self.seq, self.seconds, self.bytes = 0, 0.0, 0

    def begin(self, learner: Learner) -> None:
        """Take up where the learner stands."""
        self.seq, self._rows = learner.restored

    def forget(self) -> None:
        """What was kept is not true any more: the next one is due."""
        self._rows, self._after = float("-inf"), 0.0

    def keep(self, learner: Learner, *, put_off: bool) -> None:
        """Keep what is due; snapshots may be put off."""
        if time.monotonic() > self._next_head:
            self._next_head = time.monotonic() + _HEAD_EVERY
            self._keep_head()
        every = self._engine.settings.service.snapshot_every
        due = learner.state.learned - self._rows >= every or learner.seq - self.seq >= _EVENTS
        if due and not put_off and not self._busy and time.monotonic() > self._after and self._store.lead():
            self._work = self._engine.start_thread("keeper", partial(self._save, self._taken(learner)))

    def finish(self, learner: Learner, seconds: float) -> None:
        """Keep the last, if there is time."""
        end = time.monotonic() + seconds
        try:
            self._keep_head()
            if self._work is not None:
                self._work.join(seconds)
            left = end - time.monotonic()
            if not self._busy and learner.state.learned > self._rows and self.seconds < left and self._store.lead():
                self._save(self._taken(learner))
        except StoreUnavailableError as error:
            log.warning("no snapshot at the end", extra={"reason": str(error)})

    @property
    def _busy(self) -> bool:
        return self._work is not None and self._work.is_alive()

    def _taken(self, learner: Learner) -> Snapshot:
        taken = learner.snapshot()
        taken.beside = {shadow.name: shadow.snapshot() for shadow in self._engine.shadows}
        return taken

    def _keep_head(self) -> None:
        head = self._store.head()
        if head != self._store.kept_head():
            self._store.keep_head(head)

    def _save(self, taken: Snapshot) -> None:
        started = time.monotonic()
        try:
            pieces = taken.pieces()
            self._store.save_snapshot(taken.seq, pieces)
        except StoreUnavailableError as error:
            log.warning("snapshot not kept", extra={"reason": str(error)})
            self._after = time.monotonic() + _RETRY
            return
        self.seconds, self.bytes = time.monotonic() - started, sum(map(len, pieces))
        self._after = time.monotonic() + max(_SHARE * self.seconds, self.bytes / _RATE)
        self.seq, self._rows = taken.seq, taken.rows
