"""The engine: requests are put in order, decided, written and flushed, then answered; rewards are learned apart.

    `Sequencer`   takes all requests that wait, chooses for the decisions among them, writes everything in one
                  transaction, and answers when it is on disk. Under load, one flush serves many requests. It has a
                  thread; but as long as the log is quick, decisions and rewards are answered by the thread that
                  hands them in: two threads that wake each other cost more than a flush.
    `Follower`    one thread: reads what was written (by this or any process), teaches the policy in small slices,
                  and puts a new frozen copy in place between them. Decisions never wait for it.

Both are supervised: if one dies, the engine has failed, takes no more requests, and says so to whoever runs it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from kinbandits.service.clock import SteadyClock
from kinbandits.service.config import Settings
from kinbandits.service.follower import Follower
from kinbandits.service.learner import Learner, Serving, follow
from kinbandits.service.problems import unavailable
from kinbandits.service.requests import Answer, AnyFuture, Request, deliver
from kinbandits.service.sequencer import Sequencer
from kinbandits.service.shadow import Shadow, shadows_of
from kinbandits.service.store import Store

log = logging.getLogger("kinbandits.service")

_TO_STOP = 6.0  # seconds in which the threads must have ended


class Engine:
    """A policy behind its log. ``start`` it, ``submit`` requests, ``stop`` it.

    Args:
        store: the log.
        settings: of policy and service.
        clock: seconds since 1970.
        on_failure: called with a message when a thread has died.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Callable[[], float] | None = None,
        on_failure: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.store, self.settings = store, settings
        self.clock = clock if clock is not None else SteadyClock()
        self.on_failure = on_failure
        self.learner: Learner = Learner(settings)
        self.shadows: list[Shadow] = []
        self.follower = Follower(self)
        self.sequencer = Sequencer(self)
        self.held: Callable[[], int] = lambda: 0  # requests that gather elsewhere, to be handed in together
        self.failure: str | None = None
        self.progress = (0, 0)  # while it starts: the last event read, and the last there is
        self._threads: list[threading.Thread] = []
        self._accepting = False

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the log, then take requests."""
        head = self.store.head()
        last = self.store.event(head.seq)
        if last is not None and isinstance(self.clock, SteadyClock):
            self.clock.begin(last.at)
        self.learner = follow(self.store, self.settings, self._progressed)
        self.shadows = shadows_of(self.settings, self.learner)
        self.sequencer.begin()
        self.follower.keeper.begin(self.learner)
        self._accepting = True
        work = {"sequencer": self.sequencer.run, "follower": self.follower.run}
        self._threads = [self.start_thread(*named) for named in work.items()]

    def start_thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """A thread that is supervised: if it dies, the engine has failed."""
        thread = threading.Thread(target=self._supervise, args=(name, work), name=f"kinbandits_{name}", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Answer what has been asked, learn what there is time for, keep a snapshot, and end: within seconds."""
        self._accepting = False
        end = time.monotonic() + _TO_STOP
        if self._threads:
            self.sequencer.stop()
            self._threads[0].join(max(0.1, end - time.monotonic()))
            self.follower.stop()
            self._threads[1].join(max(0.1, end - time.monotonic()))
            if any(thread.is_alive() for thread in self._threads):
                log.warning("ended in the middle of learning; the next start goes on from the log")
            self._threads.clear()
        self.sequencer.drain(unavailable("the service is shutting down"))

    def fail(self, message: str) -> None:
        """Take no more requests, and let whoever runs the engine know."""
        self.failure = message
        self._accepting = False
        self.sequencer.drain(unavailable("the service has failed and is ending"))
        self.on_failure(message)

    def _supervise(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            log.critical("a thread has died", exc_info=True, extra={"thread_name": name})
            self.fail(f"the {name} has died: {type(error).__name__}: {error}")

    def _progressed(self, done: int, of: int) -> None:
        self.progress = (done, of)

    # -- state ----------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether requests are taken and the last one could be written."""
        return self.trouble is None

    @property
    def trouble(self) -> str | None:
        """Why requests are not taken now; None if they are."""
        if self.failure is not None:
            return "the service has failed and is ending"
        if not self._accepting:
            done, of = self.progress
            return f"starting: event {done:,} of {of:,}" if of and done < of else "starting or stopping"
        if self.sequencer.last_error is not None:
            return "the log cannot be written now"
        return None

    @property
    def serving(self) -> Serving:
        """What decisions are made from now."""
        return self.learner.serving

    @property
    def n_features(self) -> int | None:
        """Columns of a context, once settled."""
        return self.sequencer.n_features

    @property
    def waiting(self) -> int:
        """Requests that wait to be written, here or where they are handed in."""
        return self.sequencer.waiting + self.held()

    # -- requests -------------------------------------------------------------------------------

    def submit(self, request: Request) -> AnyFuture:
        """Ask, and do not wait: the request's future is answered when the answer is on disk."""
        self._hand_in([request], self.sequencer.put)
        return request.future

    def submit_all(self, requests: Sequence[Request]) -> None:
        """Ask; if the log is quick, all are answered on return."""
        self._hand_in(requests, self.sequencer.take)

    def _hand_in(self, requests: Sequence[Request], to: Callable[[Sequence[Request]], None]) -> None:
        if not self._accepting:
            deliver([(r, unavailable("the service is not taking requests now")) for r in requests])
            return
        to(requests)
        if self.failure is not None:  # it failed in between
            self.sequencer.drain(unavailable("the service has failed and is ending"))

    def ask(self, request: Request, timeout: float = 30.0) -> Answer:
        """Ask and wait for the answer (for threads; the HTTP face awaits instead)."""
        request.future = future = Future[Answer]()
        self.submit(request)
        return future.result(timeout)

    def wait_for(self, seq: int, timeout: float = 30.0) -> bool:
        """Whether the model has taken in the log up to event ``seq``, within this time."""
        return self.follower.wait_for(seq, timeout)
