"""The table of open decisions, and the memory of rewarded ones.

A decision is open until its reward comes, it is cancelled, or forgotten (`Pending`). Rewarded ones are remembered
(as many as may be open), so that a repeated delivery is recognised.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Vector
from kinbandits._value import Count, Value
from kinbandits.errors import RewardConflictError, UnknownDecisionError
from kinbandits.policies.decision import Batch, Decision


class Pending(Value):
    """How long decisions are kept open whose reward has not come.

    ``most`` are open at once, or the oldest are forgotten; each is after ``forget_after`` further ones (None:
    never).
    """

    most: Count = 100_000
    forget_after: Count | None = None


class Ticket(NamedTuple):
    """What is kept of an open decision. ``serial`` is that of its batch, where it was made in this process."""

    arm: int
    context: Vector
    propensity: float
    note: Any = None
    serial: int | None = None


class Ledger:
    """Open decisions by number, oldest first."""

    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        self.next_id = 0
        self.forgotten = 0
        self._open: OrderedDict[int, Ticket | tuple[Batch, int]] = OrderedDict()
        self._rewarded: OrderedDict[int, tuple[float, int | None]] = OrderedDict()  # reward, serial of the batch

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[int]:
        return iter(self._open)

    @property
    def n_features(self) -> int | None:
        """Columns of the context of the oldest open decision."""
        return next((len(self.ticket(i).context) for i in self._open), None)

    def open(self, batch: Batch) -> None:
        """Enter the decisions of a batch, and forget what is too old or too much."""
        first, rounds = batch.first_id, len(batch.indices)
        if rounds == 1:
            self._open[first] = batch, 0
        else:
            self._open.update((first + r, (batch, r)) for r in range(rounds))
        self.next_id = first + rounds
        most, after = self.pending.most, self.pending.forget_after
        while len(self._open) > most:
            self._open.popitem(last=False)
            self.forgotten += 1
        if after is not None:
            while self._open and next(iter(self._open)) < self.next_id - after:
                self._open.popitem(last=False)
                self.forgotten += 1

    def ticket(self, decision_id: int) -> Ticket:
        entry = self._open.get(decision_id)
        if entry is None and 0 <= decision_id < self.next_id:
            raise UnknownDecisionError(
                f"decision {decision_id} is no longer open: cancelled, its arm removed, forgotten "
                "(see pending=), or rewarded long ago. observe() takes its row without it"
            )
        if entry is None:
            raise UnknownDecisionError(
                f"this policy never made a decision {decision_id!r}; use decision.id of one of its own"
            )
        if isinstance(entry, Ticket):
            return entry
        batch, row = entry
        note = None if batch.notes is None else batch.notes[row]
        return Ticket(batch.arm(row), batch.context(row), batch.propensities[row].item(), note, batch.serial)

    def number(self, decision: Decision) -> int:
        """The number of a decision, which must not be one of another policy (as far as can be known)."""
        decision_id, batch = decision.id, decision._batch
        entry = self._open.get(decision_id)
        if entry is None:
            serial = self._rewarded.get(decision_id, (0.0, None))[1]
            same = serial is None or serial == batch.serial
        elif not isinstance(entry, Ticket):
            same = entry[0].serial == batch.serial
        elif entry.serial is not None:
            same = entry.serial == batch.serial
        else:  # read from a file
            same = np.array_equal(entry.context, decision.context)
        if not same:
            raise UnknownDecisionError(f"{decision!r} was made by another policy")
        return decision_id

    def is_repeat(self, decision_id: int, reward: float) -> bool:
        """Whether this very reward was taken already; another value for a rewarded decision is an error."""
        known = self._rewarded.get(decision_id)
        if known is None:
            return False
        if known[0] != reward:
            raise RewardConflictError(
                f"decision {decision_id} already has reward {known[0]!r}; a second reward of {reward!r} is "
                "refused. Send the same value again to repeat a delivery, or observe() a new row to add one"
            )
        return True

    def settle(self, decision_id: int, reward: float) -> None:
        entry = self._open.pop(decision_id)
        self._rewarded[decision_id] = reward, entry.serial if isinstance(entry, Ticket) else entry[0].serial
        if len(self._rewarded) > self.pending.most:
            self._rewarded.popitem(last=False)

    def drop(self, decision_id: int) -> None:
        """The decision is void: its reward will not come, or not be taken. One that is void already stays so."""
        if decision_id in self._rewarded:
            raise UnknownDecisionError(f"decision {decision_id} has its reward already, so it cannot be cancelled")
        if decision_id in self._open or not 0 <= decision_id < self.next_id:
            self.ticket(decision_id)
            del self._open[decision_id]

    def drop_arm(self, arm: int) -> None:
        """Void the open decisions for an arm that leaves; numbers of later arms move down by one."""
        kept: OrderedDict[int, Ticket | tuple[Batch, int]] = OrderedDict()
        for decision_id, ticket in self.items():
            if ticket.arm != arm:
                kept[decision_id] = ticket._replace(arm=ticket.arm - (ticket.arm > arm))
        self._open = kept

    def items(self) -> Iterable[tuple[int, Ticket]]:
        return ((decision_id, self.ticket(decision_id)) for decision_id in self._open)

    def copy(self) -> Ledger:
        """A copy; open decisions themselves never change and are shared."""
        other = copy.copy(self)
        other._open, other._rewarded = self._open.copy(), self._rewarded.copy()
        return other

    def to_data(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        tickets = dict(self.items())
        contexts = np.array([t.context for t in tickets.values()]) if tickets else np.empty((0, 0))
        notes = [t.note for t in tickets.values()]
        data = {"next_id": self.next_id, "forgotten": self.forgotten, "notes": notes}
        arrays = {
            "pending_ids": np.array(list(tickets), dtype=np.int64),
            "pending_arms": np.array([t.arm for t in tickets.values()], dtype=np.int64),
            "pending_propensities": np.array([t.propensity for t in tickets.values()], dtype=np.float64),
            "pending_contexts": contexts,
            "rewarded_ids": np.array(list(self._rewarded), dtype=np.int64),
            "rewarded_values": np.array([reward for reward, _ in self._rewarded.values()], dtype=np.float64),
        }
        return data, arrays

    def restore(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.next_id, self.forgotten = int(data["next_id"]), int(data["forgotten"])
        rows = zip(
            arrays["pending_ids"].tolist(),
            arrays["pending_arms"].tolist(),
            arrays["pending_contexts"],
            arrays["pending_propensities"].tolist(),
            data["notes"],
            strict=True,
        )
        self._open = OrderedDict((i, Ticket(a, x.copy(), p, n)) for i, a, x, p, n in rows)
        rewarded = zip(arrays["rewarded_ids"].tolist(), arrays["rewarded_values"].tolist(), strict=True)
        self._rewarded = OrderedDict((i, (reward, None)) for i, reward in rewarded)
