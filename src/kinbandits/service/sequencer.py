"""Puts requests in order, chooses, writes and answers: in its thread, or in the one that hands them in.

Every request is answered, whatever happens: a request that cannot be written must not take others with it.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kinbandits.service import chooser
from kinbandits.service.events import Draft, Record, decision_id, number_of
from kinbandits.service.page import Chosen, Page
from kinbandits.service.problems import Problem, unavailable
from kinbandits.service.requests import Decide, Outcome, Request, Reward, deliver
from kinbandits.service.store import StoreDamagedError, StoreUnavailableError

if TYPE_CHECKING:
    from kinbandits.service.engine import Engine

log = logging.getLogger("kinbandits.service")

_MOST_AT_ONCE = 256
_SWEPT = 1000  # decisions that are defaulted at once, at most
_QUICK = 0.002  # seconds that the thread which hands in batches may wait for the log, on average
_RECENT = 0.1  # the last batch's share of that average: one that waits for 10 ms (a checkpoint) is no trouble
_LONG = 0.1  # seconds that a batch may take it in all
_SLOW = 0.25  # seconds for which batches go to the other thread if it took longer,
_SHARE = 20.0  # or so many times what it took: others are held up for a twentieth of the time at most


class Sequencer:
    """Takes requests from a queue; one transaction for all that wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.store
        self._settings = engine.settings.service
        self._requests: queue.SimpleQueue[Sequence[Request] | None] = queue.SimpleQueue()  # as they were handed in
        self.number = 0  # of this slot's last decision: the random state of the service
        self.n_features = self._settings.n_features
        self.last_error: str | None = None
        self._damaged = False
        self._waiting, self._counting = 0, threading.Lock()
        self._turn = threading.Lock()  # one batch at a time
        self._slow_until = 0.0
        self._wait = 0.0  # for the log, on average
        self.next_sweep = 0.0

    def begin(self) -> None:
        """Take up where the log ends."""
        self.n_features = self._settings.n_features or self._engine.learner.state.n_features
        self.number = self._store.last_number()

    @property
    def waiting(self) -> int:
        """Requests that were handed in and are not taken up yet."""
        return self._waiting

    def put(self, requests: Sequence[Request]) -> None:
        """Hand in requests; together, since each time the other thread is woken up."""
        self._count(len(requests))
        self._requests.put(requests)

    def take(self, requests: Sequence[Request]) -> None:
        """Answer decisions and rewards at once, in this thread, if the log is quick; else `put`.

        A log that may be anywhere (`Store.shared`) is not waited for here, nor one that was slow or away, nor a
        model that was.
        """
        started, worked = time.monotonic(), time.thread_time()
        away = self._store.shared or self.last_error is not None or started < self._slow_until or self._waiting
        few = len(requests) <= _MOST_AT_ONCE and all(type(r) in (Decide, Reward) for r in requests)
        if away or not few or not self._turn.acquire(blocking=False):
            self.put(requests)
            return
        try:
            self._answer(requests)
        finally:
            self._turn.release()
        ended = time.monotonic()
        took = ended - started
        self._wait += _RECENT * (took - (time.thread_time() - worked) - self._wait)
        if took > _LONG or self._wait > _QUICK:
            self._slow_until = ended + max(_SLOW, _SHARE * took)

    def _count(self, more: int) -> None:
        with self._counting:
            self._waiting += more

    def stop(self) -> None:
        """End when all that was handed in is answered."""
        self._requests.put(None)

    def drain(self, problem: Problem) -> None:
        """Answer all that wait with a problem."""
        while True:
            try:
                requests = self._requests.get_nowait()
            except queue.Empty:
                return
            self._count(-len(requests or ()))
            deliver([(request, problem) for request in requests or ()])

    def run(self) -> None:
        """The thread."""
        running = True
        while running:
            batch, running = self._next_batch()
            with self._turn:
                self._answer(batch)
                self.sweep()

    def refusal(self, request: Decide) -> Problem | None:
        """Why this request cannot be decided, if so."""
        try:
            chooser.check(request, self._engine.serving, self.n_features, self._settings.max_candidates)
        except Problem as problem:
            return problem
        return None

    def _known_refusal(self, request: Request) -> Problem | None:
        """Why it cannot be carried out, whatever the log says. A key may be that of an earlier decision."""
        return self.refusal(request) if isinstance(request, Decide) and request.key is None else None

    def _next_batch(self) -> tuple[list[Request], bool]:
        """All that wait, up to a limit, and whether there will be more."""
        batch: list[Request] = []
        try:
            found = self._requests.get(timeout=self._sweep_interval)
            while found is not None:
                batch.extend(found)
                self._count(-len(found))
                if len(batch) >= _MOST_AT_ONCE:
                    return batch, True
                found = self._requests.get_nowait()
        except queue.Empty:
            return batch, True
        return batch, False

    def _answer(self, requests: Sequence[Request]) -> None:
        if not requests:
            return
        try:
            answers = self._write(requests)
        except StoreUnavailableError as error:
            self._trouble(error)
            answers = [(r, self._known_refusal(r) or unavailable()) for r in requests]
        except Exception:
            if len(requests) > 1:  # one of them is bad; the others must not suffer
                for request in requests:
                    self._answer([request])
                return
            log.exception("request failed")
            answers = [(requests[0], Problem(500, "internal", "the request could not be carried out"))]
        deliver(answers)

    def _write(self, requests: Sequence[Request]) -> list[tuple[Request, Outcome]]:
        """Choose, write, flush. Nothing is remembered unless all of it is on disk.

        Who has changed an arm is answered by the follower, when the change is in force: nobody else waits for that.
        """
        self._recover()
        bodies = self._choose([r for r in requests if isinstance(r, Decide)])
        with self._store.transaction() as tx:
            page = Page(tx, self._engine.clock(), self._settings, self._engine.serving)
            outcomes = page.fill(requests, bodies)
            events = tx.append(page.drafts) if page.drafts else []
        made = [e.decision for e in events if e.kind == "decision" and e.decision is not None]
        if made:
            self.number = number_of(max(made))[1]
        if made and self.n_features is None:
            first = next(e.body["context"] for e in events if e.kind == "decision")
            self.n_features = len(first[0]) if isinstance(first[0], list) else len(first)
        self._engine.follower.hand_over(events)
        answers = list(zip(requests, outcomes, strict=True))
        if page.changed_arms:
            held = [a for a in answers if a[0] in page.changed_arms]
            answers = [a for a in answers if a[0] not in page.changed_arms]
            self._engine.follower.answer_after(events[-1].seq, held)
        return answers

    def _trouble(self, error: StoreUnavailableError) -> None:
        if self.last_error is None:
            log.error("log not available", extra={"reason": str(error)})
        self.last_error = str(error)
        self._damaged |= isinstance(error, StoreDamagedError)

    def _recover(self) -> None:
        """After the log was away: show that it can be written, and ask again what we remember of it."""
        if self._damaged:
            raise StoreDamagedError(self.last_error or "the log is damaged")
        if self.last_error is not None:
            self._store.reconnect()
            self._store.probe()
            self.number = self._store.last_number()
            self.last_error = None
            log.info("log available again")

    def _choose(self, decides: Sequence[Decide]) -> dict[Decide, Chosen]:
        """An id and a body for each decision that is not a repeat, by request."""
        keys = {r.key for r in decides if r.key is not None}
        known = self._store.known_keys(keys) if keys else set()
        policy = self._engine.serving.policy
        few = len(policy.arms) - len(policy.retired) <= self._settings.max_candidates
        usual = self.n_features if few else None
        fresh: list[Decide] = []
        chosen: dict[Decide, Chosen] = {}
        for request in decides:
            if request.key is not None and request.key in known:
                continue
            if request.key is not None:
                known.add(request.key)
            context = request.context
            plain = request.arms is None and len(context) == usual and type(context[0]) is float
            problem = None if plain else self.refusal(request)
            if problem is None:
                fresh.append(request)
            else:
                chosen[request] = problem
        if self.n_features is None and fresh:  # the first decision settles the length of a context
            length = _length(fresh[0])
            wrong = Problem(409, "context_length", f"a context of this service has {length} numbers")
            chosen.update({r: wrong for r in fresh if _length(r) != length})
            fresh = [r for r in fresh if _length(r) == length]
        ids = [decision_id(self._store.slot, self.number + 1 + i) for i in range(len(fresh))]
        bodies = chooser.choose(fresh, ids, self._engine.serving)
        for request, identifier, body in zip(fresh, ids, bodies, strict=True):
            chosen[request] = body if isinstance(body, Problem) else (identifier, body)
        return chosen

    # -- overdue decisions ----------------------------------------------------------------------

    @property
    def _sweep_interval(self) -> float:
        wait = self._settings.reward_wait
        return min(1.0, max(0.05, wait / 4)) if wait else 1.0

    def sweep(self) -> None:
        """Default the decisions whose wait time is over; the leader's duty. Also see whether the log is back."""
        settings = self._settings
        if time.monotonic() < self.next_sweep or not (settings.reward_wait or self.last_error):
            return
        self.next_sweep = time.monotonic() + self._sweep_interval
        try:
            self._recover()
            if not settings.reward_wait or not self._store.lead():
                return
            now = self._engine.clock()
            with self._store.transaction() as tx:
                overdue = tx.overdue(now - settings.reward_wait, _SWEPT)
                events = tx.append([defaulted(r, settings.default_reward, now) for r in overdue]) if overdue else []
            self._engine.follower.hand_over(events)
            if len(overdue) >= _SWEPT:
                self.next_sweep = 0.0
        except StoreUnavailableError as error:
            self._trouble(error)


def defaulted(record: Record, reward: float | None, now: float) -> Draft:
    """The event that a decision's wait time is over."""
    body = {"reward": reward, **chooser.learned_row(record.body)}
    return Draft("default", now, body, record.id)


def _length(request: Decide) -> int:
    first = request.context[0]
    return len(first) if isinstance(first, list) else len(request.context)
