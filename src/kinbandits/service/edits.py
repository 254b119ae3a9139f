"""Corrections and roll-backs: what is learned of an event, when later events say otherwise.

A model cannot unlearn a row. So when something is edited, a new one is taught from the log, or from a snapshot
that is old enough, with what is true now; meanwhile the old one decides.
"""

from __future__ import annotations

from collections.abc import Iterable

from kinbandits.service.events import Event


class Edits:
    """All corrections and roll-backs up to event ``upto``; what came up to ``known`` was learned before."""

    def __init__(self, events: Iterable[Event] = (), upto: int = 0, known: int = 0) -> None:
        self.events = list(events)
        self.known = known
        self.upto = max([upto, *(e.seq for e in self.events)])
        self._rewards = {e.decision: e.body["reward"] for e in self.events if e.kind == "corrected"}
        self._skipped = [(e.body["to"], e.seq) for e in self.events if e.kind == "rolled_back"]

    def reward(self, event: Event) -> float | None:
        """What is learned of an event (a reward or a default); None if nothing is."""
        if event.seq <= self.known or any(after < event.seq < before for after, before in self._skipped):
            return None
        value: float | None = self._rewards.get(event.decision, event.body["reward"])
        return value

    @property
    def in_vain(self) -> int:
        """Those of rows that were learned before: they change nothing."""
        return sum(e.seq > self.known >= _first_touched(e) for e in self.events)

    def allow(self, snapshot: int, upto: int) -> bool:
        """Whether a snapshot after event ``snapshot``, made with the edits up to ``upto``, is still true."""
        later = (e for e in self.events if e.seq > upto)
        return all(_first_touched(e) > snapshot for e in later)


def _first_touched(event: Event) -> int:
    """No event before this one is learned differently for the sake of an edit."""
    return int(event.body["since"] if event.kind == "corrected" else event.body["to"] + 1)
