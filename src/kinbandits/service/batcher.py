"""Requests are handed to the engine in batches: a batch costs little more than one request."""

from __future__ import annotations

import asyncio

from kinbandits.service.engine import Engine
from kinbandits.service.problems import unavailable
from kinbandits.service.requests import Answer, Request

_MOST_WAITING = 20_000
_MOST_EXPECTED = 256  # requests that are awaited at most
_MOMENT = 0.00025  # seconds that are waited, for each of them
_LONGEST = 0.004  # and for all
_MOST_MISSES = 8


class Batcher:
    """Hands requests to the engine, many at once.

    A batch costs little more than one request. So what comes in one turn of the event loop is handed in together;
    while the engine is busy requests gather here; and clients that were answered together are awaited for a moment,
    to come back together. When they do not, that is not tried again for a while; one alone never waits.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        engine.held = lambda: len(self._pending)
        self._pending: list[Request] = []
        self._asked = 0  # handed in and not yet answered
        self._answered = 0  # since the engine was last given something
        self._expected = 1  # how many are expected
        self._gathering = 0  # a number for each wait, so that an old timer ends none but its own
        self._waiting = False
        self._due = False  # handed in at the end of this turn
        self._misses = 0  # waits in a row for requests that did not come
        self._skip = 0  # times that nothing is awaited

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
        if not self._asked and not self._due:
            self._consider()

    def _is_answered(self, future: object) -> None:
        self._asked -= 1
        self._answered += 1
        if not self._asked:
            self._expected = min(self._answered + len(self._pending), _MOST_EXPECTED)
            if self._pending:
                self._consider()

    def _consider(self) -> None:
        """Hand in what is pending, unless more are expected at once."""
        if len(self._pending) >= self._expected:
            self._misses = 0
            self._soon()
        elif self._skip:
            self._skip -= 1
            self._soon()
        elif not self._waiting:
            self._waiting = True
            moment = min(_MOMENT * self._expected, _LONGEST)
            asyncio.get_running_loop().call_later(moment, self._waited, self._gathering)

    def _soon(self) -> None:
        self._due = True
        asyncio.get_running_loop().call_soon(self._hand_in)

    def _waited(self, gathering: int) -> None:
        if gathering == self._gathering and not self._due:
            self._misses = min(self._misses + 1, _MOST_MISSES)
            self._skip = 2**self._misses
            self._hand_in()

    def _hand_in(self) -> None:
        self._waiting = self._due = False
        self._gathering += 1
        requests, self._pending = self._pending, []
        self._asked, self._answered = self._asked + len(requests), 0
        for request in requests:
            request.future.add_done_callback(self._is_answered)
        try:
            self._engine.submit_all(requests)
        except Exception as error:  # nobody must be kept waiting
            for request in requests:
                if not request.future.done():
                    request.future.set_exception(error)
