"""The rows a policy has learned from, in order of arrival.

Notation
    t         number of rows
    arms      (t,)    index of the arm each row belongs to
    contexts  (t, d)
    rewards   (t,)
    counts    (N,)    n_a, rows per arm
    marks     since when candidates have contexts of their own
"""

from __future__ import annotations

import copy
from typing import NamedTuple, Self

import numpy as np

from kinbandits._types import Indices, Matrix, Vector

GIVEN = 2  # contexts of their own, and one arm that was given: what True (1) does not say


def golden(size: int) -> Vector:
    """frac(i g) for i below ``size``, g the golden ratio: numbers in [0, 1), spread as evenly as a sequence can be.

    >>> golden(4).round(3)
    array([0.   , 0.618, 0.236, 0.854])
    """
    return np.asarray(np.arange(size) * ((5.0**0.5 - 1.0) / 2.0) % 1.0)


class Marks(NamedTuple):
    """Since which row candidates have contexts of their own, and since which of them arms were rivals."""

    own: int | None = None
    rivals: int | None = None

    def grown(self, size: int, own_contexts: int) -> Marks:
        """When rows come after ``size`` rows."""
        own = size if own_contexts and self.own is None else self.own
        return Marks(own, size if own_contexts and own_contexts != GIVEN and self.rivals is None else self.rivals)

    def cut(self, rows: slice) -> Marks:
        """When only these rows are left."""
        left = [None if row is None or row >= rows.stop else max(0, row - int(rows.start)) for row in self]
        return Marks(*left)

    def anywhere(self) -> Marks:
        """When rows are left of which it is not known where they were."""
        return Marks(*(None if row is None else 0 for row in self))


class History:
    """Rows in growing buffers: appending costs the new rows, not a copy of the old ones (amortised).

    >>> history = History(n_arms=2)
    >>> history.append(np.array([0, 1, 1]), np.zeros((3, 4)), np.array([1.0, 0.0, 1.0]))
    >>> len(history), history.counts.tolist()
    (3, [1, 2])
    """

    def __init__(self, n_arms: int) -> None:
        self.n_arms = n_arms
        self.forgotten = 0  # rows that were learned and are no longer here
        self.marks = Marks()
        self._size = 0
        self._arms: Indices = np.empty(0, dtype=np.intp)
        self._contexts: Matrix = np.empty((0, 0))
        self._rewards: Vector = np.empty(0)

    @classmethod
    def of(cls, n_arms: int, arms: Indices, contexts: Matrix, rewards: Vector) -> Self:
        history = cls(n_arms)
        history.append(arms, contexts, rewards)
        return history

    def __len__(self) -> int:
        return self._size

    @property
    def arms(self) -> Indices:
        return self._arms[: self._size]

    @property
    def contexts(self) -> Matrix:
        return self._contexts[: self._size]

    @property
    def rewards(self) -> Vector:
        return self._rewards[: self._size]

    @property
    def counts(self) -> Indices:
        return np.bincount(self.arms, minlength=self.n_arms)

    @property
    def n_features(self) -> int | None:
        return self._contexts.shape[1] if self._size else None

    @property
    def own_contexts_from(self) -> int | None:
        """The first row of a round in which every candidate had a context of its own."""
        return self.marks.own

    @property
    def tasks_given(self) -> bool:
        """Whether in all such rounds the arm was given, so that no arm was chosen before another."""
        return self.marks.own is not None and self.marks.rivals is None

    def append(self, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: int = False) -> None:
        """Add rows at the end; ``own_contexts`` if every candidate had its own (`GIVEN`: all of one arm)."""
        if not len(arms):
            return
        self.marks = self.marks.grown(self._size, own_contexts)
        end = self._size + len(arms)
        if end > len(self._arms) or not self._size:
            self._grow(max(end, 2 * self._size, 64), contexts.shape[1])
        self._arms[self._size : end] = arms
        self._contexts[self._size : end] = contexts
        self._rewards[self._size : end] = rewards
        self._size = end

    def _grow(self, capacity: int, n_features: int) -> None:
        arms, contexts, rewards = self.arms, self.contexts, self.rewards
        self._arms = np.empty(capacity, dtype=np.intp)
        self._contexts = np.empty((capacity, n_features))
        self._rewards = np.empty(capacity)
        if self._size:
            self._arms[: self._size], self._rewards[: self._size] = arms, rewards
            self._contexts[: self._size] = contexts

    def truncate(self, size: int) -> None:
        self._size = min(self._size, size)
        self.marks = self.marks.cut(slice(0, self._size))

    def head(self, size: int) -> History:
        return self._part(slice(0, size), self.marks.cut(slice(0, size)), 0)

    def recent(self, size: int) -> History:
        """The last ``size`` rows, as a history of its own that knows how many it has forgotten."""
        if len(self) <= size:
            return self.copy()
        rows = slice(len(self) - size, len(self))
        return self._part(rows, self.marks.cut(rows), self.forgotten + len(self) - size)

    def sample(self, size: int, most: int) -> History:
        """At most about ``most`` of the first ``size`` rows, spread over time: those with frac(i g) < most / size.

        Which rows these are depends on ``size`` alone, and they follow no period.
        """
        if size <= most:
            return self.head(size)
        rows = np.flatnonzero(golden(size) < most / size)
        return self._part(rows, self.marks.cut(slice(0, size)).anywhere(), size - len(rows))

    def taken(self, rows: Indices) -> History:
        return self._part(rows, self.marks.anywhere(), self.forgotten + len(self) - len(rows))

    def _part(self, rows: slice | Indices, marks: Marks, forgotten: int) -> History:
        part = History.of(self.n_arms, self.arms[rows], self.contexts[rows], self.rewards[rows])
        part.marks, part.forgotten = marks, forgotten
        return part

    def without_arm(self, arm: int) -> History:
        """The rows of all other arms; arms above ``arm`` move down by one."""
        keep = self.arms != arm
        arms = self.arms[keep]
        rest = History.of(
            self.n_arms - 1, np.where(arms > arm, arms - 1, arms), self.contexts[keep], self.rewards[keep]
        )
        rest.forgotten = self.forgotten
        places = [None if row is None else int(keep[:row].sum()) for row in self.marks]
        rest.marks = Marks(*(None if row is None or row >= len(rest) else row for row in places))
        return rest

    def with_rewards(self, rewards: Vector) -> History:
        other = History.of(self.n_arms, self.arms, self.contexts, rewards)
        other.marks = self.marks
        return other

    def copy(self) -> History:
        return copy.deepcopy(self)
