"""What can be asked of the engine. Each request carries a future; the engine answers every one of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from kinbandits.service.problems import Problem

ArmName = str | int
Answer = dict[str, Any]


class AnyFuture(Protocol):
    """Of `concurrent.futures`, of an event loop, or a call on its connection."""

    def done(self) -> bool:
        """Whether it is answered."""

    def set_result(self, answer: Answer, /) -> None:
        """Answer it."""

    def set_exception(self, error: Exception, /) -> None:
        """Say why there is no answer."""

    def add_done_callback(self, told: Callable[[Any], None], /) -> None:
        """Tell this one when it is answered."""


@dataclass(eq=False, slots=True)
class Request:
    """Something to be put in order, written and answered."""

    future: AnyFuture = field(default_factory=Future[Answer], kw_only=True)


@dataclass(eq=False, slots=True)
class Decide(Request):
    """Choose an arm: a context for all candidates, or one for each."""

    context: list[float] | list[list[float]]
    arms: list[ArmName] | None = None
    key: str | None = None

    def fingerprint(self) -> str:
        """A digest of what was asked, to tell a repeat from another request with the same key."""
        text = json.dumps([self.context, self.arms])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(eq=False, slots=True)
class Reward(Request):
    """The reward of a decision, which is named by its id or by the key it was asked for with."""

    id: str | None
    value: float
    key: str | None = None


@dataclass(eq=False, slots=True)
class Void(Request):
    """The decision was not carried out."""

    id: str
    reason: str


@dataclass(eq=False, slots=True)
class Correct(Request):
    """Another reward than was learned, or none (None)."""

    id: str
    value: float | None
    by: str


@dataclass(eq=False, slots=True)
class RollBack(Request):
    """Forget what was learned after event ``to``."""

    to: int
    by: str


@dataclass(eq=False, slots=True)
class AddArm(Request):
    """A new arm."""

    arm: ArmName
    by: str
    descriptor: list[float] | None = None
    similarity: list[float] | None = None
    neighbours: list[ArmName] | None = None


@dataclass(eq=False, slots=True)
class RetireArm(Request):
    """An arm never to be chosen again."""

    arm: ArmName
    by: str


@dataclass(eq=False, slots=True)
class AddToken(Request):
    """A new token, of which only the hash is kept."""

    name: str
    hash: str
    roles: tuple[str, ...]
    by: str


@dataclass(eq=False, slots=True)
class RevokeToken(Request):
    """A token that shall be valid no longer."""

    name: str
    by: str


Outcome = Answer | Problem


def deliver(answers: Sequence[tuple[Request, Outcome]]) -> None:
    """Answer requests, from whichever thread; those of another thread's event loop in one step."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[AnyFuture, Outcome]]] = defaultdict(list)
    for request, outcome in answers:
        future: Any = request.future
        if isinstance(future, Future):
            _set(future, outcome)
        else:
            loops[future.get_loop()].append((future, outcome))
    here = asyncio._get_running_loop()
    for loop, pairs in loops.items():
        if loop is here:
            _set_all(pairs)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(_set_all, pairs)


def _set_all(pairs: Sequence[tuple[AnyFuture, Outcome]]) -> None:
    for future, outcome in pairs:
        _set(future, outcome)


def _set(future: AnyFuture, outcome: Outcome) -> None:
    if future.done():  # the client has gone
        return
    if isinstance(outcome, Problem):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
