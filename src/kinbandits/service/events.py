"""Events: what happened, in order. An event is never changed; the state of things is what follows from them.

kind          decision   body
decision      its id     context, candidates, arm, index, mean, width, propensity, model (the last event that the
                         model had learned); ``imported`` in place of the last four where another program decided
reward        its id     reward, delay, and the row that is learned
default       its id     reward (null: nothing is learned), and the row if there is one: its wait was over
late          its id     reward, delay: came after the default; with the row where the default taught nothing
void          its id     reason: the decision was not carried out
corrected     its id     reward (null: withdrawn), was (learned so far), state (so far), since (event of the
                         decision), arm, by; with the row where nothing had been learned of the decision
rolled_back   -          to (an event), by: what was learned after it, until here, is not
arm_added     -          arm, descriptor, similarity, neighbours, by
arm_retired   -          arm, by
arm_returned  -          arm, by
started       -          sha256 of a fitted policy that the model begins with, upto (the last event it knows)
archived      -          upto, decisions, number (of the last decision), path: what came before was moved to a file

A row is arm, context, own_contexts, uniform (the reward's weight for a uniform choice). At most one event of a
decision carries one: that is where its reward is learned, whatever later corrections say it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ArmName = str | int
Body = dict[str, Any]
STATES = ("open", "rewarded", "defaulted", "late", "void", "withdrawn")
EDITS = ("corrected", "rolled_back")
ARM_KINDS = ("arm_added", "arm_retired", "arm_returned")
# What an event makes of a decision: the one definition, for ledger, tables and verify.
STEPS = {
    (None, "decision"): "open",
    ("open", "reward"): "rewarded",
    ("open", "default"): "defaulted",
    ("open", "void"): "void",
    ("defaulted", "late"): "late",
}
CORRECTABLE = ("rewarded", "defaulted", "late", "withdrawn")


class Event(NamedTuple):
    """An event; ``seq`` counts from 1 without gaps, ``at`` is seconds since 1970 (UTC).

    ``key`` and ``request`` (its digest) are those of the request for a decision; only the table of decisions has them.
    """

    seq: int
    kind: str
    decision: str | None
    at: float
    body: Body
    key: str | None = None
    request: str | None = None


class Record(NamedTuple):
    """A decision and what became of it: ``reward`` as delivered, ``learned`` as the model has it."""

    id: str
    seq: int
    at: float
    body: Body
    state: str
    reward: float | None = None
    learned: float | None = None
    key: str | None = None
    request: str | None = None


def step(state: str | None, event: Event) -> str | None:
    """The state of a decision after this event; None if it cannot be.

    >>> step("open", Event(2, "reward", "1", 0.0, {"reward": 1.0}))
    'rewarded'
    """
    if event.kind == "corrected" and state in CORRECTABLE:
        return "withdrawn" if event.body["reward"] is None else "rewarded"
    return STEPS.get((state, event.kind))


def row_of(event: Event) -> tuple[Body, float | None] | None:
    """The row that an event carries and the reward it was written with, if it carries one."""
    return (event.body, event.body["reward"]) if event.decision and "own_contexts" in event.body else None


class Edits:
    """All corrections and roll-backs up to event ``upto``, which say otherwise than the events before them.

    A model cannot unlearn a row: when something is edited, another model is taught, with what is true now.
    """

    def __init__(self, events: Iterable[Event] = (), upto: int = 0) -> None:
        self.events = list(events)
        self.upto = upto
        self._rewards = {e.decision: e.body["reward"] for e in self.events if e.kind == "corrected"}
        self._skipped = [(e.body["to"], e.seq) for e in self.events if e.kind == "rolled_back"]

    def reward(self, event: Event) -> float | None:
        """What is learned of an event; None if nothing is."""
        row = row_of(event)
        if row is None or any(after < event.seq < before for after, before in self._skipped):
            return None
        value: float | None = self._rewards.get(event.decision, row[1])
        return value

    def allow(self, seq: int, upto: int) -> bool:
        """Whether a model of the log up to ``seq``, taught with the edits up to ``upto``, is still true."""
        later = (e for e in self.events if e.seq > upto)
        return all((e.body["since"] if e.kind == "corrected" else e.body["to"] + 1) > seq for e in later)


def decision_id(number: int) -> str:
    """The id of a log's ``number``-th decision.

    >>> decision_id(255)
    '0000000000ff'
    """
    return f"{number:012x}"


def uniform_draws(secret: bytes, identifiers: Sequence[str]) -> NDArray[np.float64]:
    """Two numbers in [0, 1) that belong to each decision of a log, (n, 2). Without its secret nobody foresees them.

    >>> uniform_draws(b"secret", ['000000000001']).round(3)
    array([[0.942, 0.495]])
    """
    data = b"".join(hashlib.blake2b(i.encode(), digest_size=16, key=secret).digest() for i in identifiers)
    return (np.frombuffer(data, dtype=">u8").reshape(-1, 2) >> np.uint64(11)) / 2.0**53
