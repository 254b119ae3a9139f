"""Events: what happened, in order. An event is never changed; the state of things is what follows from them.

kind          decision   body
decision      its id     context, candidates, arm, index, mean, width, score, propensity, best_mean,
                         best_score, model (the last event its model had learned)
reward        its id     reward, arm, context, delay, uniform (its weight for a uniform choice): learned
default       its id     reward (or null), arm, context: the wait time was over; learned if there is a reward
late          its id     reward, delay: came after the default; recorded, not learned
void          its id     reason: the decision was not carried out
corrected     its id     reward (or null: withdrawn), was (what was learned so far, or null), state (so far), since
                         (the event of the decision), by: what is learned of it instead
rolled_back   -          to (an event), by: what was learned after it, until here, is not
arm_added     -          arm, descriptor, similarity, neighbours, by
arm_retired   -          arm, by
token_added   -          token (its public name), roles, by
token_revoked -          token, by
configured    -          policy and service settings the process started with

Each event carries a digest of its content and of the event before it, so that ``log verify`` notices any
change, loss or re-ordering of what was written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import to_json

from kinbandits._types import Matrix
from kinbandits.errors import InvalidInputError

_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
_EXPONENT = re.compile(rb"e[-0-9]")
OUTCOMES = {"reward": "rewarded", "default": "defaulted", "late": "late", "void": "void"}
STATES = ("open", "rewarded", "defaulted", "late", "void", "withdrawn")
EDITS = ("corrected", "rolled_back")


class Draft(NamedTuple):
    """An event that is not in the log yet. ``key`` and ``request`` belong to decisions: see `Record`."""

    kind: str
    at: float
    body: dict[str, Any]
    decision: str | None = None
    key: str | None = None
    request: str | None = None


class Event(NamedTuple):
    """An event in the log; ``seq`` counts from 1 without gaps, ``at`` is seconds since 1970 (UTC)."""

    seq: int
    kind: str
    decision: str | None
    at: float
    body: dict[str, Any]
    digest: str

    @property
    def is_learned(self) -> bool:
        """Whether the model learns a row from it."""
        return self.kind in ("reward", "default") and self.body["reward"] is not None


class Head(NamedTuple):
    """The last event of a log: it stands for all before it."""

    seq: int
    digest: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """As ``kinbandits log verify`` prints it: the number of the last event, a colon and its digest.

        >>> Head.parse("12:0123456789abcdef0123456789abcdef")
        Head(seq=12, digest='0123456789abcdef0123456789abcdef')
        """
        seq, _, mark = text.strip().partition(":")
        if not (seq.isdecimal() and len(mark) == 32 and set(mark) <= set("0123456789abcdef")):
            raise InvalidInputError(f"a head is a number, a colon and 32 hexadecimal digits, got {text!r}")
        return cls(int(seq), mark)


@dataclass(frozen=True, slots=True)
class Record:
    """A decision and what became of it.

    Attributes:
        id, at, body: of the decision.
        key: the idempotency key it was asked for with, if any; ``request`` is a digest of that request.
        state: open, rewarded, defaulted, late or void.
        reward: the reward that was delivered, in time or late.
    """

    id: str
    seq: int
    at: float
    body: dict[str, Any]
    state: str
    reward: float | None
    key: str | None
    request: str | None


def outcome_of(kind: str, body: dict[str, Any]) -> str | None:
    """The state of a decision after this event; None if it is not about one."""
    if kind == "corrected":
        return "withdrawn" if body["reward"] is None else "rewarded"
    return OUTCOMES.get(kind)


def to_text(body: dict[str, Any]) -> str:
    """The one spelling of a body, which the digest is taken of: that of Python's json, with sorted names.

    >>> to_text({"mean": 0.5, "arm": "b"})
    '{"arm":"b","mean":0.5}'
    """
    text = to_json(body if _in_order(tuple(body)) else dict(sorted(body.items())))  # twice as quick
    # but it may spell exponents, small numbers, NaN and Infinity, and the order of tables in tables, in its own way
    odd = b"0.0000" in text or b"N" in text or b"I" in text or text.rfind(b"{") or _EXPONENT.search(text)
    return _ENCODER.encode(body) if odd else text.decode()


@lru_cache(256)
def _in_order(names: tuple[str, ...]) -> bool:
    return [*names] == sorted(names)


def digest(previous: str, seq: int, kind: str, decision: str | None, at: float, text: str) -> str:
    """The digest of an event, which contains that of the event before it.

    >>> digest("", 1, "void", "0-1", 0.0, "{}")[:8]
    '2b7325d5'
    """
    content = f"{previous}\n{seq}\n{kind}\n{decision or ''}\n{at!r}\n{text}"
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def decision_id(slot: int, number: int) -> str:
    """The id of the ``number``-th decision of a slot (a process's place; a single process has slot 0).

    >>> decision_id(0, 255)
    '0-0000000000ff'
    """
    return f"{slot:x}-{number:012x}"


def number_of(identifier: str) -> tuple[int, int]:
    """(slot, number) of a decision id.

    >>> number_of('0-0000000000ff')
    (0, 255)
    """
    slot, _, number = identifier.partition("-")
    return int(slot, 16), int(number, 16)


def uniform_draws(seed: int, identifiers: Sequence[str]) -> Matrix:
    """Two numbers in [0, 1) that belong to each event id, (n, 2): the random state of the service is the next id.

    >>> uniform_draws(0, ['0-000000000001', '0-000000000002']).round(3)
    array([[0.971, 0.793],
           [0.945, 0.031]])
    """
    key, blake = str(seed).encode()[:64], hashlib.blake2b
    data = b"".join([blake(i.encode(), digest_size=16, key=key).digest() for i in identifiers])
    return np.frombuffer(data, dtype=">u8").reshape(-1, 2) / 2.0**64
