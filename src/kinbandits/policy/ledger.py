"""Open decisions by number, and the memory of closed ones.

A decision is open until its reward comes, it is cancelled, or there are more open ones than the ledger holds: then
the oldest is forgotten. Closed ones are remembered (as many as may be open), so that a repeat is recognised.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Vector
from kinbandits.errors import InvalidInputError, RewardConflictError, UnknownDecisionError
from kinbandits.policy.decision import Decision, Decisions

CANCELLED = None


def number_of(decision: Decision | int) -> int:
    """The id of a decision that may be given by its id."""
    return decision.id if isinstance(decision, Decision) else decision


class Ticket(NamedTuple):
    """What is remembered of an open decision; ``arm`` is a number."""

    arm: int
    context: Vector
    propensity: float
    note: Any = None


class Ledger:
    """Open decisions, oldest first; ``most`` of them at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.next_id = 0
        self.open: OrderedDict[int, Ticket] = OrderedDict()
        self._closed: OrderedDict[int, float | None] = OrderedDict()  # the reward, or CANCELLED

    @property
    def n_features(self) -> int | None:
        """Columns of the context of the oldest open decision."""
        return next((len(ticket.context) for ticket in self.open.values()), None)

    def enter(self, decisions: Decisions) -> None:
        """Open these decisions."""
        arms = decisions.query.arms
        for one in decisions:
            self.open[one.id] = Ticket(int(arms[one.index]), one.context, one.propensity, one.note)
        self.next_id = decisions.first_id + len(decisions)
        while len(self.open) > self.most:
            self.open.popitem(last=False)

    def ticket(self, decision: Decision | int) -> Ticket:
        """The ticket of an open decision."""
        number = number_of(decision)
        ticket = self.open.get(number)
        if ticket is not None:
            if isinstance(decision, Decision) and not np.array_equal(ticket.context, decision.context):
                raise UnknownDecisionError(f"{decision!r} was made by a copy of this policy, or by another")
            return ticket
        if number in self._closed and self._closed[number] is CANCELLED:
            raise UnknownDecisionError(f"decision {number} was cancelled; observe() takes its row without it")
        if 0 <= number < self.next_id:
            raise UnknownDecisionError(
                f"decision {number} is no longer open: its arm was removed, it was forgotten (most_pending="
                f"{self.most}), or rewarded long ago. observe() takes its row without it"
            )
        raise UnknownDecisionError(f"this policy never made a decision {number!r}; use decision.id of one of its own")

    def is_repeat(self, decision: Decision | int, reward: float) -> bool:
        """Whether this very reward was taken already; another value for a rewarded decision is an error."""
        number = number_of(decision)
        known = self._closed.get(number, CANCELLED)
        if known is CANCELLED:
            return False
        if known != reward:
            raise RewardConflictError(
                f"decision {number} already has reward {known!r}; a second reward of {reward!r} is "
                "refused. Send the same value again to repeat a delivery, or observe() a new row to add one"
            )
        return True

    def close(self, number: int, reward: float | None) -> None:
        """The reward was learned, or (`CANCELLED`) will not come."""
        del self.open[number]
        self._closed[number] = reward
        if len(self._closed) > self.most:
            self._closed.popitem(last=False)

    def cancel(self, decision: Decision | int) -> None:
        number = number_of(decision)
        if number in self._closed:
            if self._closed[number] is CANCELLED:
                return  # a repeat
            raise InvalidInputError(f"decision {number} was rewarded already; it cannot be cancelled any more")
        self.ticket(decision)
        self.close(number, CANCELLED)

    def drop_arm(self, arm: int) -> None:
        """Void the open decisions for an arm that leaves; numbers of later arms move down by one."""
        self.open = OrderedDict(
            (number, t._replace(arm=t.arm - (t.arm > arm))) for number, t in self.open.items() if t.arm != arm
        )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and arrays, for a file."""
        tickets = self.open.values()
        data = {"next_id": self.next_id, "notes": [t.note for t in tickets]}
        closed = [np.nan if r is CANCELLED else r for r in self._closed.values()]
        return data, {
            "open_ids": np.array(list(self.open), dtype=np.int64),
            "open_arms": np.array([t.arm for t in tickets], dtype=np.int64),
            "open_propensities": np.array([t.propensity for t in tickets], dtype=np.float64),
            "open_contexts": np.array([t.context for t in tickets]) if tickets else np.empty((0, 0)),
            "closed_ids": np.array(list(self._closed), dtype=np.int64),
            "closed_rewards": np.array(closed, dtype=np.float64),
        }

    def restore(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.next_id = int(data["next_id"])
        names = ("open_ids", "open_arms", "open_contexts", "open_propensities")
        for number, arm, context, propensity, note in zip(*(arrays[n] for n in names), data["notes"], strict=True):
            context.setflags(write=False)
            self.open[int(number)] = Ticket(int(arm), context, float(propensity), note)
        for number, reward in zip(arrays["closed_ids"].tolist(), arrays["closed_rewards"].tolist(), strict=True):
            self._closed[number] = CANCELLED if np.isnan(reward) else reward
