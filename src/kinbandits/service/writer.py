"""The thread that writes: it takes all commands that wait, and answers when they are on disk.

    transaction: look up decisions, choose, apply the rules, insert;  COMMIT (one flush for all);  answer

If something fails before the COMMIT, each command is tried alone, so that a bad one does not hurt the others. Nothing
is tried again after it. While the log cannot be written, all get 503, and the log is tried again each second.
"""

from __future__ import annotations

import itertools
import logging
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from sqlalchemy.exc import IntegrityError

import kinbandits as kb
from kinbandits.service.databases import StoreDamagedError, StoreLostError, StoreUnavailableError
from kinbandits.service.events import Body
from kinbandits.service.learner import change_arms, first_policy
from kinbandits.service.ledger import Command, Ledger, Position, Result
from kinbandits.service.messages import Problem, unavailable

if TYPE_CHECKING:
    from kinbandits.service.engine import Engine

log = logging.getLogger("kinbandits.service")
T = TypeVar("T")

_MOST_AT_ONCE = 1000  # commands of a transaction, and decisions that are defaulted in one
_STANDBY = 0.5  # seconds between two tries to become the writer


class Job(NamedTuple):
    """Commands that came together, and what is called with their results."""

    commands: Sequence[Command]
    answer: Callable[[list[Result]], None]


class Writer:
    """The thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._store, self._settings = engine, engine.store, engine.settings.service
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.put = self._jobs.put
        self._trial: kb.KMTLUCB | None = None  # has all arms, to see whether the similarity takes another
        self._stopping = self._damaged = False
        self._swept = 0.0
        self._busy_since: float | None = None
        wait = self._settings.reward_wait
        self._interval = min(1.0, max(0.05, wait / 4)) if wait else 1.0  # between two sweeps
        self.position: Position
        self.last_error: str | None = None

    # -- called by other threads ----------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self._jobs.qsize()

    @property
    def busy_seconds(self) -> float:
        """How long the current transaction has taken."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    def stop(self) -> None:
        """End when the queue is empty."""
        self._stopping = True
        self._jobs.put(None)

    def drain(self, problem: Problem) -> None:
        """Answer all that wait with a problem."""
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is not None:
                job.answer([problem] * len(job.commands))

    # -- the thread -----------------------------------------------------------------------------

    def run(self) -> None:
        """Become the writer, then write."""
        if not self._become_writer():
            return
        while True:
            jobs = self._gather()
            if jobs:
                self._answer(jobs)
            elif self._stopping:
                return
            if time.monotonic() >= self._swept + self._interval:
                self._sweep()

    def _become_writer(self) -> bool:
        """Wait until this process may write and its model knows the whole log; False if it ends before."""
        engine, store = self._engine, self._store
        if not self._wait(lambda: engine.learner.caught_up.wait(0.1), 0.0):
            return False
        while not store.try_lock():
            engine.state = "standby: another process writes this log"
            if self._stopping:
                return False
            time.sleep(_STANDBY)
        last = store.last_seq()
        if not self._wait(lambda: engine.serving.seq >= last, 0.02):
            return False
        stats = engine.serving.stats
        features = self._settings.n_features or stats.features or engine.serving.policy.n_features
        counters = Counter(duplicate=0, conflicting=0, dangling=0)
        self.position = Position(
            last, store.last_number(), store.last_at(), store.archived(), features, dict(stats.active), counters
        )
        engine.accept()
        return True

    def _wait(self, ready: Callable[[], bool], pause: float) -> bool:
        while not self._stopping and not ready():
            time.sleep(pause)
        return not self._stopping

    def _gather(self) -> list[Job]:
        """All jobs that wait, up to a limit."""
        jobs: list[Job] = []
        size = 0
        try:
            job = self._jobs.get(timeout=self._interval)
            while True:
                if job is not None:
                    jobs.append(job)
                    size += len(job.commands)
                if size >= _MOST_AT_ONCE:
                    return jobs
                job = self._jobs.get_nowait()
        except queue.Empty:
            return jobs

    def _answer(self, jobs: Sequence[Job]) -> None:
        self._busy_since = time.monotonic()
        try:
            results: Iterator[Result] = iter(self._write([c for job in jobs for c in job.commands]))
        except BaseException:  # this thread ends; nobody is left without an answer
            results = itertools.repeat(unavailable())
            raise
        finally:
            self._busy_since = None
            for job in jobs:
                job.answer([next(results) for _ in job.commands])

    def _write(self, commands: Sequence[Command]) -> list[Result]:
        """The result of each command, when it is on disk, or why there is none."""
        try:
            self._recover()
            return self._transact(lambda ledger: ledger.apply(commands))
        except StoreUnavailableError as error:
            self._trouble(error)
            return [unavailable()] * len(commands)
        except IntegrityError as error:
            raise RuntimeError("another process writes this log") from error
        except Exception:
            self._trial = None
            if len(commands) > 1:
                return [result for command in commands for result in self._write([command])]
            log.exception("request failed")
            return [Problem(500, "internal", "the request could not be carried out")]

    def _transact(self, work: Callable[[Ledger], T]) -> T:
        """Choose, write, flush. Nothing is remembered unless all of it is on disk."""
        position = self.position.copy()
        engine, store = self._engine, self._store
        with store.transaction() as tx:
            ledger = Ledger(tx, engine.clock(), position, engine.serving, self._settings, store.secret, self._try_arm)
            result = work(ledger)
        self.position = position
        if ledger.events:
            engine.learner.committed(ledger.events)
        return result

    def _try_arm(self, body: Body) -> None:
        """Raise what the policy raises if it cannot take this arm."""
        if self._trial is None:
            self._trial = first_policy(self._store, self._engine.settings)[0]
            for event in self._store.special("arm_added"):
                change_arms(self._trial, event.kind, event.body)
        change_arms(self._trial, "arm_added", body)

    # -- a log that cannot be written -----------------------------------------------------------

    def _trouble(self, error: StoreUnavailableError) -> None:
        self._trial = None
        if isinstance(error, StoreLostError):
            raise error
        if self.last_error is None:
            log.error("log not available", extra={"reason": str(error)})
        self.last_error = str(error)
        self._damaged |= isinstance(error, StoreDamagedError)

    def _recover(self) -> None:
        """After an error: show that the log can be written again."""
        if self._damaged:
            raise StoreDamagedError(self.last_error or "the log is damaged")
        if self.last_error is not None:
            self._store.probe()
            self.last_error = None
            log.info("log available again")

    def _sweep(self) -> None:
        """Default the decisions whose wait is over, and see whether the log can be written again."""
        self._swept = time.monotonic()
        try:
            self._recover()
            if (
                self._settings.reward_wait
                and self._transact(lambda ledger: ledger.sweep(_MOST_AT_ONCE)) == _MOST_AT_ONCE
            ):
                self._swept = 0.0  # there may be more
        except StoreUnavailableError as error:
            self._trouble(error)
