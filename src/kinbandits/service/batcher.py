"""Requests are handed to the engine in batches: a batch costs little more than one request."""

from __future__ import annotations

import asyncio

from kinbandits.service.engine import Engine
from kinbandits.service.problems import unavailable
from kinbandits.service.requests import AddArm, Answer, Request, RetireArm

_MOST_WAITING = 20_000
_MOST_EXPECTED = 256  # requests that are awaited at most
_PAUSE = 0.0002  # seconds without a new one after which no more are awaited
_LONGEST = 0.004  # and in all


class Batcher:
    """Hands requests to the engine, many at once.

    A batch costs little more than one request. So what comes in one turn of the event loop is handed in together;
    while the engine is busy requests gather here; and clients that were answered together are awaited, as long as
    one comes after the other. Who comes alone does not wait.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        engine.held = lambda: len(self._pending)
        self._pending: list[Request] = []
        self._asked = 0  # handed in and not yet answered
        self._answered = 0  # since the engine was last given something
        self._expected = 1  # how many are expected
        self._gathering = False

    async def ask(self, request: Request) -> Answer:
        """The engine's answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        request.future = future
        self.put(request)
        return await future

    def put(self, request: Request) -> None:
        """Ask; the request's future will be answered on this event loop."""
        if self._engine.waiting > _MOST_WAITING:
            raise unavailable("too much is waiting to be written; try again")
        self._pending.append(request)
        self._gather()

    def _is_answered(self, future: object) -> None:
        self._asked -= 1
        self._answered += 1
        if not self._asked:
            self._expected = min(self._answered + len(self._pending), _MOST_EXPECTED)
            if self._pending:
                self._gather()

    def _gather(self) -> None:
        if not self._asked and not self._gathering:
            self._gathering = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self._look, loop, loop.time(), 0, 0.0)

    def _look(self, loop: asyncio.AbstractEventLoop, began: float, seen: int, since: float) -> None:
        """Hand in what is pending, unless more are expected and still coming (``seen`` so many, ``since`` when)."""
        found, now = len(self._pending), loop.time()
        since = since if found == seen else now
        if found >= self._expected or now > min(since + _PAUSE, began + _LONGEST):
            self._gathering = False
            self._hand_in()
        else:  # in the next turn: a timer would take a millisecond at least
            loop.call_soon(self._look, loop, began, found, since)

    def _hand_in(self) -> None:
        requests, self._pending = self._pending, []
        prompt = [r for r in requests if not isinstance(r, AddArm | RetireArm)]  # those wait for the model
        self._asked, self._answered = self._asked + len(prompt), 0
        for request in prompt:
            request.future.add_done_callback(self._is_answered)
        try:
            self._engine.submit_all(requests)
        except Exception as error:  # nobody must be kept waiting
            for request in requests:
                if not request.future.done():
                    request.future.set_exception(error)
