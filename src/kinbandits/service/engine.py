"""The engine: requests are put in order, decided, written and flushed, then answered; rewards are learned apart.

    sequencer   one thread: takes all requests that wait, chooses for the decisions among them, writes everything
                in one transaction, and answers when it is on disk. Under load, one flush serves many requests.
    follower    one thread: reads what was written (by this or any process), teaches the policy, and puts a
                new frozen copy in place. Decisions never wait for it.

Every request is answered, whatever happens: a request that cannot be written must not take others with it.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from kinbandits.errors import KinbanditsError
from kinbandits.service import chooser
from kinbandits.service.config import Settings
from kinbandits.service.events import Draft, Event, Head, Record, decision_id, number_of
from kinbandits.service.learner import Learner, Serving, follow
from kinbandits.service.problems import Problem, unavailable
from kinbandits.service.requests import AnyFuture, Decide, Outcome, Request, deliver
from kinbandits.service.store import Store, StoreUnavailableError
from kinbandits.service.writing import Page

log = logging.getLogger("kinbandits.service")

_MOST_AT_ONCE = 256
_HEAD_EVERY = 1.0  # seconds between two notes of the last event outside the log
_POLL = 0.25  # seconds a follower waits for news at most: with the time to learn, the bound of staleness


class Engine:
    """A policy behind its log. ``start`` it, ``submit`` requests, ``stop`` it.

    Args:
        store: the log.
        settings: of policy and service.
        clock: seconds since 1970.
    """

    def __init__(self, store: Store, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.store, self.settings, self.clock = store, settings, clock
        self.learner: Learner = Learner(settings)
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._number = 0  # of this slot's last decision: the random state of the service
        self._n_features = settings.service.features
        self._news = threading.Condition()
        self._written: list[Event] = []  # by this process, not yet followed (where no other process writes)
        self._snapshot_seq = 0
        self._next_sweep = 0.0
        self._next_head = 0.0
        self._accepting = False
        self.last_error: str | None = None
        self.held: Callable[[], int] = lambda: 0  # requests that gather elsewhere, to be handed in together
        self.learn_seconds = 0.0  # how long the last round of learning took

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the log, then take requests."""
        self.learner = follow(self.store, self.settings)
        if self.learner.state.n_features is not None:
            self._n_features = self.settings.service.features or self.learner.state.n_features
        self._number = self.store.last_number()
        self._snapshot_seq = next((seq for seq, _ in self.store.snapshots()), 0)
        self._accepting = True
        for target in (self._sequence, self._follow):
            thread = threading.Thread(target=target, name=f"kinbandits{target.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Answer what has been asked, learn what was written, keep a snapshot, and end."""
        self._accepting = False
        if self._threads:
            self._requests.put(None)
            self._threads[0].join()
            self._stopping.set()
            with self._news:
                self._news.notify_all()
            self._threads[1].join()
            self._threads.clear()
        self._drain(unavailable("the service is shutting down"))

    @property
    def ready(self) -> bool:
        """Whether requests are taken and the last one could be written."""
        return self._accepting and all(t.is_alive() for t in self._threads) and self.last_error is None

    @property
    def serving(self) -> Serving:
        """What decisions are made from now."""
        return self.learner.serving

    @property
    def n_features(self) -> int | None:
        """Columns of a context, once settled."""
        return self._n_features

    @property
    def waiting(self) -> int:
        """Requests that wait to be written, here or where they are handed in."""
        return self._requests.qsize() + self.held()

    def submit(self, request: Request) -> AnyFuture:
        """Ask; the request's future is answered when the answer is on disk."""
        if not self._accepting:
            deliver([(request, unavailable("the service is not taking requests now"))])
        elif isinstance(request, Decide) and (problem := self._refusal(request)) is not None:
            deliver([(request, problem)])
        else:
            self._requests.put(request)
        return request.future

    def ask(self, request: Request, timeout: float = 30.0) -> dict[str, Any]:
        """Ask and wait for the answer (for threads; the HTTP face awaits instead)."""
        future = self.submit(request)
        assert isinstance(future, Future)
        return future.result(timeout)

    def wait_for(self, seq: int, timeout: float = 30.0) -> bool:
        """Whether the model has taken in the log up to event ``seq``, within this time."""
        with self._news:
            return self._news.wait_for(lambda: self.serving.seq >= seq, timeout)

    def _refusal(self, request: Decide) -> Problem | None:
        try:
            chooser.check(request, self.serving, self._n_features, self.settings.service.max_candidates)
        except Problem as problem:
            return problem
        return None

    # -- sequencer ------------------------------------------------------------------------------

    def _sequence(self) -> None:
        running = True
        while running:
            batch = self._next_batch()
            if batch and batch[-1] is None:
                running = False
                batch.pop()
            requests = [r for r in batch if r is not None]
            self._answer(requests)
            self._sweep()

    def _next_batch(self) -> list[Request | None]:
        batch: list[Request | None] = []
        try:
            batch.append(self._requests.get(timeout=self._sweep_interval))
            while batch[-1] is not None and len(batch) < _MOST_AT_ONCE:
                batch.append(self._requests.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _answer(self, requests: Sequence[Request]) -> None:
        if not requests:
            return
        try:
            outcomes = self._write(requests)
        except StoreUnavailableError as error:
            log.error("log not available", extra={"reason": str(error)})
            self.last_error = str(error)
            outcomes = [unavailable()] * len(requests)
        except Exception:
            if len(requests) > 1:  # one of them is bad; the others must not suffer
                for request in requests:
                    self._answer([request])
                return
            log.exception("request failed")
            outcomes = [Problem(500, "internal", "the request could not be carried out")]
        deliver(list(zip(requests, outcomes, strict=True)))

    def _write(self, requests: Sequence[Request]) -> list[Outcome]:
        """Choose, write, flush. Nothing is remembered unless all of it is on disk."""
        self._recover()
        decides = [r for r in requests if isinstance(r, Decide)]
        bodies = self._choose(decides)
        with self.store.transaction() as tx:
            page = Page(tx, self.clock(), self.settings.service, self.serving.policy)
            outcomes = page.fill(requests, bodies)
            events = tx.append(page.drafts) if page.drafts else []
        made = [e.decision for e in events if e.kind == "decision" and e.decision is not None]
        if made:
            self._number = number_of(max(made))[1]
        if made and self._n_features is None:
            first = next(e.body["context"] for e in events if e.kind == "decision")
            self._n_features = len(first[0]) if isinstance(first[0], list) else len(first)
        self._hand_over(events)
        if page.arms_changed and not self.wait_for(events[-1].seq):
            log.warning("arm change is written but not yet in force")
        return outcomes

    def _recover(self) -> None:
        """After the log was away: what we remember of it may be wrong, so ask again."""
        if self.last_error is not None:
            self.store.reconnect()
            self._number = self.store.last_number()
            self.last_error = None
            log.info("log available again")

    def _choose(self, decides: Sequence[Decide]) -> dict[Decide, tuple[str, dict[str, Any]] | Problem]:
        """An id and a body for each decision that is not a repeat, by request."""
        keys = {r.key for r in decides if r.key is not None}
        known = self.store.known_keys(keys) if keys else set()
        fresh: list[Decide] = []
        chosen: dict[Decide, tuple[str, dict[str, Any]] | Problem] = {}
        for request in decides:
            if request.key is not None and request.key in known:
                continue
            if request.key is not None:
                known.add(request.key)
            problem = self._refusal(request)  # the arms may have changed since it was asked
            if problem is None:
                fresh.append(request)
            else:
                chosen[request] = problem
        if self._n_features is None and fresh:  # the first decision settles the length of a context
            length = _length(fresh[0])
            wrong = Problem(409, "context_length", f"a context of this service has {length} numbers")
            chosen.update({r: wrong for r in fresh if _length(r) != length})
            fresh = [r for r in fresh if _length(r) == length]
        ids = [decision_id(self.store.slot, self._number + 1 + i) for i in range(len(fresh))]
        for request, identifier, body in zip(fresh, ids, chooser.choose(fresh, ids, self.serving), strict=True):
            chosen[request] = body if isinstance(body, Problem) else (identifier, body)
        return chosen

    def _hand_over(self, events: list[Event]) -> None:
        if events and not self.store.shared:
            with self._news:
                self._written.extend(events)
                self._news.notify_all()

    @property
    def _sweep_interval(self) -> float:
        wait = self.settings.service.reward_wait
        return min(1.0, max(0.05, wait / 4)) if wait else 1.0

    def _sweep(self) -> None:
        """Default the decisions whose wait time is over; the leader's duty."""
        settings = self.settings.service
        now = self.clock()
        if now < self._next_sweep or not (settings.reward_wait or self.last_error):
            return
        self._next_sweep = now + self._sweep_interval
        try:
            self._recover()
            if not settings.reward_wait or not self.store.lead():
                return
            with self.store.transaction() as tx:
                overdue = tx.overdue(now - settings.reward_wait)
                events = tx.append([defaulted(r, settings.default_reward, now) for r in overdue]) if overdue else []
            self._hand_over(events)
            if len(overdue) >= 1000:
                self._next_sweep = 0.0
        except StoreUnavailableError as error:
            self.last_error = str(error)

    def _drain(self, problem: Problem) -> None:
        while True:
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return
            if request is not None:
                deliver([(request, problem)])

    # -- follower -------------------------------------------------------------------------------

    def _follow(self) -> None:
        while True:
            last_round = self._stopping.is_set()
            try:
                events = self._news_since(0.0 if last_round else _POLL)
                if events:
                    started = time.monotonic()
                    changed = self.learner.apply(events)
                    self._publish(changed)
                    self.learn_seconds = time.monotonic() - started
                    self._keep_head(events[-1])
                    if not last_round and self.learn_seconds > 0.005:
                        self._stopping.wait(min(self.learn_seconds, 1.0))  # at most half of a core
                if self.learner.seq - self._snapshot_seq >= self.settings.service.snapshot_every or (
                    last_round and self.learner.seq > self._snapshot_seq
                ):
                    self._snapshot()
            except StoreUnavailableError as error:
                log.warning("following the log failed", extra={"reason": str(error)})
                if last_round:
                    return
                self._stopping.wait(_POLL)
            except KinbanditsError:
                log.exception("learning failed")
                self._stopping.wait(_POLL)
            else:
                if last_round and not events:
                    self.store.keep_head(self.store.head())
                    return

    def _news_since(self, seconds: float) -> list[Event]:
        if not self.store.shared:
            with self._news:
                self._news.wait_for(lambda: self._written or self._stopping.is_set(), seconds)
                events, self._written = self._written, []
                return events
        events = self.store.read(self.learner.seq, 5000)
        if not events and seconds:
            self.store.wait(seconds)
            events = self.store.read(self.learner.seq, 5000)
        return events

    def _publish(self, changed: bool) -> None:
        if changed:
            self.learner.publish()
        else:
            self.learner.serving = Serving(self.serving.policy, self.learner.seq)
        with self._news:
            self._news.notify_all()

    def _keep_head(self, event: Event) -> None:
        if time.monotonic() >= self._next_head:
            self.store.keep_head(Head(event.seq, event.digest))
            self._next_head = time.monotonic() + _HEAD_EVERY

    def _snapshot(self) -> None:
        if self.store.lead():
            self.store.save_snapshot(self.learner.seq, self.learner.to_bytes())
        self._snapshot_seq = self.learner.seq


def defaulted(record: Record, reward: float | None, now: float) -> Draft:
    """The event that a decision's wait time is over."""
    body = {"reward": reward, **chooser.learned_row(record.body)}
    return Draft("default", now, body, record.id)


def _length(request: Decide) -> int:
    first = request.context[0]
    return len(first) if isinstance(first, list) else len(request.context)
