"""The engine: a thread that writes, a thread that learns, both supervised.

If one of them dies, the engine has failed: it takes no more commands, and says so to whoever runs it, who ends the
process. A start is the one way back.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import kinbandits as kb
from kinbandits.errors import InvalidInputError
from kinbandits.service.commands import Command
from kinbandits.service.config import Settings
from kinbandits.service.events import Event
from kinbandits.service.learner import Learner, Serving
from kinbandits.service.ledger import Answer, Result
from kinbandits.service.messages import Problem, unavailable
from kinbandits.service.snapshots import local_folder
from kinbandits.service.store import Store
from kinbandits.service.writer import Job, Writer

log = logging.getLogger("kinbandits.service")

MOST_WAITING = 10_000  # commands; more are refused at once
_TO_STOP = 6.0  # seconds in which the threads must have ended
_TO_ANSWER = 10.0  # seconds after which a request is answered without a result
_STUCK = 5.0  # seconds that a transaction may take until the service is not ready


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
        work = {"learner": self.learner.run, "writer": self.writer.run}
        for name, target in work.items():
            thread = threading.Thread(
                target=self._supervise, args=(name, target), name=f"kinbandits_{name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        end = time.monotonic() + (wait or 0.0)
        while wait and not self.is_writer:
            if self.failure is not None or time.monotonic() > end:
                raise RuntimeError(self.failure or self.trouble)
            time.sleep(0.002)

    def accept(self) -> None:
        """Called by the writer, when it is one."""
        self.is_writer, self.state = True, "ready"
        self.on_ready()

    def stop(self) -> None:
        """Answer what has been asked, keep a snapshot, and end: within seconds."""
        self.is_writer, self.state = False, "stopping"
        end = time.monotonic() + _TO_STOP
        if self._threads:
            learning, writing = self._threads
            self.writer.stop()
            writing.join(max(0.1, end - time.monotonic()))
            self.learner.stop()
            learning.join(max(0.1, end - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            log.warning("ended in the middle of work; the next start goes on from the log")
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
            self.writer.drain(unavailable("the service has failed and is ending"))
            self.on_failure(self.failure)

    # -- state ----------------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """Why commands are not taken now; None if they are."""
        if self.failure is not None:
            return "the service has failed and is ending"
        if self.state == "starting" and self.learner.progress[1]:
            return "starting: event {:,} of {:,}".format(*self.learner.progress)
        if not self.is_writer:
            return self.state
        if self.writer.last_error is not None:
            return "the log cannot be written now"
        if self.writer.busy_seconds > _STUCK:
            return "the log does not answer"
        return None

    @property
    def ready(self) -> bool:
        """Whether commands are taken and the last ones could be written."""
        return self.trouble is None

    @property
    def last_seq(self) -> int:
        """The last event that this process knows of."""
        position = getattr(self.writer, "position", None)
        return self.serving.seq if position is None else position.seq

    # -- commands -------------------------------------------------------------------------------

    def submit(self, commands: Sequence[Command], loop: asyncio.AbstractEventLoop | None = None) -> Job:
        """Ask, and do not wait: the job's future has the results when they are on disk."""
        if not self.is_writer:
            raise unavailable(f"no requests are taken now ({self.trouble}); try again, with the same key")
        if self.writer.waiting > MOST_WAITING:
            raise unavailable("too many requests wait; try again, with the same key")
        job = Job(commands, loop)
        self.writer.put(job)
        if self.failure is not None:  # it failed in between
            self.writer.drain(unavailable("the service has failed and is ending"))
        return job

    def ask(self, command: Command, timeout: float = 30.0) -> Answer:
        """Ask and wait for the answer, from a thread."""
        return _answer(self.submit([command]).future.result(timeout)[0])

    async def results(self, commands: Sequence[Command]) -> list[Result]:
        """Ask and wait for the results, from an event loop."""
        job = self.submit(commands, asyncio.get_running_loop())
        try:
            results: list[Result] = await asyncio.wait_for(job.future, _TO_ANSWER)
        except TimeoutError:
            raise unavailable("the log does not answer; try again, with the same key") from None
        return results

    async def answer(self, command: Command) -> Answer:
        """Ask and wait for the answer, from an event loop."""
        return _answer((await self.results([command]))[0])

    def wait_for(self, seq: int, timeout: float = 30.0) -> bool:
        """Whether the serving model has taken in the log up to event ``seq``, within this time."""
        end = time.monotonic() + timeout
        while self.serving.seq < seq:
            if time.monotonic() > end:
                return False
            time.sleep(0.002)
        return True

    async def in_force(self, answer: Answer) -> Answer:
        """An answer about an arm, when the model has it; its ``seq`` is left out."""
        end = time.monotonic() + _TO_ANSWER
        seq = answer.pop("seq")
        while self.serving.seq < seq and time.monotonic() < end:
            await asyncio.sleep(0.005)
        return answer


def _answer(result: Result) -> Answer:
    if isinstance(result, Problem):
        raise result
    return result


def begin_with(store: Store, settings: Settings) -> str | None:
    """Write into the log which fitted policy its model begins with, if the settings name another than it has.

    From then on the log itself holds it: a start without ``--start`` goes on with it. What the file has learned of
    this very log is not learned again.
    """
    if settings.service.start is None:
        return None
    path = Path(settings.service.start)
    policy = settings.check_start(kb.load(path), str(path))
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    before = store.special("started", "archived")
    if before and before[-1].kind == "started" and before[-1].body["sha256"] == digest:
        return None
    last, upto = store.last_seq(), 0
    for source in getattr(policy, "learned_from", ()):
        if source["first"] == store.id:
            upto = int(source["head"].partition(":")[0])
            if not source["whole"] or upto > last:
                raise InvalidInputError(
                    f"{path} has learned only a part of the log {store.name}, or more than is left of it: "
                    f"served with it, "
                    "rows would be learned twice or never. Fit it again from the whole log, or serve a new log "
                    "(--store)"
                )
    archived = max([0, *(e.body["upto"] for e in before if e.kind == "archived")])
    if upto < archived:
        raise InvalidInputError(
            f"{path} does not know what was archived of {store.name} (up to event {archived:,}); fit it to the "
            f"archive "
            "and the log together"
        )
    stats = None
    if archived:
        row = store.beginning()
        stats = row.stats
    store.lock()
    now = max(time.time(), store.last_at())
    with store.transaction() as tx:
        tx.append([Event(last + 1, "started", None, now, {"sha256": digest, "upto": upto})])
        tx.begin_with(last + 1, upto, settings.fingerprint(), content, stats)
    return f"The model begins with {path}" + (f", which knows this log up to event {upto:,}." if upto else ".")
