"""The engine: a thread that writes and a thread that learns, both supervised.

If one of them dies, the engine has failed: it takes no more commands, and tells whoever runs it, who ends the
process. The only way back is a new start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from kinbandits.service.config import Settings
from kinbandits.service.learner import Learner, Serving
from kinbandits.service.ledger import Answer, Command, Result
from kinbandits.service.messages import Problem, unavailable
from kinbandits.service.snapshots import local_folder
from kinbandits.service.store import Store
from kinbandits.service.writer import Job, Writer

log = logging.getLogger("kinbandits.service")

MOST_WAITING = 5_000  # requests; more are refused at once
_TO_STOP = 6.0  # seconds in which the threads must have ended
_TO_ANSWER = 10.0  # seconds after which a request is answered without a result
_STUCK = 5.0  # seconds that a transaction may take until the service is not ready
_FAILED = "the service has failed and is ending"


class Engine:
    """A policy behind its log. ``start`` it, ``submit`` commands, ``stop`` it.

    Args:
        store: the log.
        settings: of policy and service.
        clock: seconds since 1970.
        on_ready: called when commands are taken.
        on_failure: called with a message when a thread has died.
    """

    serving: Serving  # what decisions are made from; the learner replaces it

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Callable[[], float] = time.time,
        on_ready: Callable[[], None] = lambda: None,
        on_failure: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.store, self.settings, self.clock = store, settings, clock
        self.on_ready, self.on_failure = on_ready, on_failure
        self.folder: Path = store.database.folder or local_folder(store.id)
        self.learner, self.writer = Learner(self), Writer(self)
        self.state = "starting"
        self.is_writer = False
        self.failure: str | None = None
        self._threads: list[threading.Thread] = []

    # -- life -----------------------------------------------------------------------------------

    def start(self, wait: float | None = None) -> None:
        """Start the threads; with ``wait``, return when commands are taken, or raise after so many seconds."""
        for name, work in (("learner", self.learner.run), ("writer", self.writer.run)):
            thread = threading.Thread(target=self._supervise, args=(name, work), name=f"kinbandits_{name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        end = time.monotonic() + (wait or 0.0)
        while wait and not self.is_writer:
            if self.failure is not None or time.monotonic() > end:
                raise RuntimeError(self.failure or self.trouble)
            time.sleep(0.002)

    def accept(self) -> None:
        """Called by the writer, when it has become one."""
        self.is_writer, self.state = True, "ready"
        self.on_ready()

    def stop(self) -> None:
        """Answer the requests that wait, save a snapshot, and end: within seconds."""
        self.is_writer, self.state = False, "stopping"
        end = time.monotonic() + _TO_STOP
        stops = (self.writer.stop, self.learner.stop)
        for thread, stop in zip(reversed(self._threads), stops, strict=False):
            stop()
            thread.join(max(0.1, end - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            log.warning("stopped in the middle of work; the next start continues from the log")
        self._threads.clear()
        self.writer.drain(unavailable("the service is shutting down"))

    def _supervise(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            log.critical("a thread has died", exc_info=True, extra={"thread_name": name})
            began = "the service could not start" if self.state == "starting" else f"the {name} has died"
            self.failure = f"{began}: {type(error).__name__}: {error}"
            self.is_writer, self.state = False, "failed"
            self.writer.drain(unavailable(_FAILED))
            self.on_failure(self.failure)

    # -- state ----------------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """Why commands are not taken now; None if they are."""
        if self.failure is not None:
            return _FAILED
        if self.state == "starting" and self.learner.progress[1]:
            return "starting: event {:,} of {:,}".format(*self.learner.progress)
        if not self.is_writer:
            return self.state
        if self.writer.last_error is not None:
            return "the log cannot be written now"
        return "the log does not answer" if self.writer.busy_seconds > _STUCK else None

    @property
    def ready(self) -> bool:
        """Whether commands are taken and the last ones could be written."""
        return self.trouble is None

    @property
    def last_seq(self) -> int:
        """The last event that this process knows of."""
        return self.writer.position.seq if hasattr(self.writer, "position") else self.serving.seq

    # -- commands -------------------------------------------------------------------------------

    def _put(self, job: Job) -> None:
        if not self.is_writer:
            raise unavailable(f"no requests are taken now ({self.trouble}); try again, with the same key")
        if self.writer.waiting > MOST_WAITING:
            raise unavailable("too many requests wait; try again, with the same key")
        self.writer.put(job)
        if self.failure is not None:  # it failed in between
            self.writer.drain(unavailable(_FAILED))

    def submit(self, commands: Sequence[Command]) -> Future[list[Result]]:
        """Ask, from a thread, and do not wait: the results are there when they are on disk."""
        future: Future[list[Result]] = Future()

        def answer(results: list[Result]) -> None:
            if future.set_running_or_notify_cancel():  # else nobody waits for it any more
                future.set_result(results)

        self._put(Job(commands, answer))
        return future

    def ask(self, command: Command, timeout: float = 30.0) -> Answer:
        """Ask and wait for the answer, from a thread."""
        return _answer(self.submit([command]).result(timeout)[0])

    async def results(self, commands: Sequence[Command]) -> list[Result]:
        """Ask and wait for the results, from an event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Result]] = loop.create_future()

        def resolve(results: list[Result]) -> None:
            if not future.done():  # else nobody waits for it any more
                future.set_result(results)

        def answer(results: list[Result]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(resolve, results)

        self._put(Job(commands, answer))
        try:
            async with asyncio.timeout(_TO_ANSWER):
                return await future
        except TimeoutError:
            raise unavailable("the log does not answer; try again, with the same key") from None

    async def answer(self, command: Command) -> Answer:
        """Ask and wait for the answer, from an event loop."""
        return _answer((await self.results([command]))[0])

    def wait_for(self, seq: int, timeout: float = 30.0) -> bool:
        """Whether the serving model has learned the log up to event ``seq``, within this time."""
        end = time.monotonic() + timeout
        while self.serving.seq < seq and time.monotonic() < end:
            time.sleep(0.002)
        return self.serving.seq >= seq

    async def in_force(self, answer: Answer) -> Answer:
        """An answer about an arm, when the model has it; its ``seq`` is left out."""
        await asyncio.to_thread(self.wait_for, answer.pop("seq"), _TO_ANSWER)
        return answer


def _answer(result: Result) -> Answer:
    if isinstance(result, Problem):
        raise result
    return result
