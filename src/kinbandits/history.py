"""The one container for rows: what was played, where, and what it paid, in order of arrival.

Notation
    t         number of rows
    arms      (t,)    index of the arm each row belongs to
    contexts  (t, d)
    rewards   (t,)    in their own units
    counts    (N,)    n_a, rows per arm

Appending costs the new rows, not a copy of the old ones (amortised). A copy, or a head, shares the memory of the
original: whichever of them would write where another may read copies first.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from kinbandits._types import Indices, Matrix, Vector


class History:
    """Rows in buffers that grow.

    >>> history = History(n_arms=2)
    >>> history.append(np.array([0, 1, 1]), np.zeros((3, 4)), np.array([1.0, 0.0, 1.0]))
    >>> len(history), history.counts.tolist()
    (3, [1, 2])
    """

    def __init__(self, n_arms: int) -> None:
        self.n_arms = n_arms
        self.forgotten = 0  # rows that were learned and are no longer here
        self._size = 0
        self._shared = False  # whether others may read what lies beyond the last row
        self._counts: Indices | None = None
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
        """Do not write into it."""
        if self._counts is None:
            self._counts = np.bincount(self.arms, minlength=self.n_arms)
        return self._counts

    @property
    def n_features(self) -> int | None:
        return self._contexts.shape[1] if self._size else None

    def append(self, arms: Indices, contexts: Matrix, rewards: Vector) -> None:
        """Add rows at the end."""
        if not len(arms):
            return
        end = self._size + len(arms)
        if end > len(self._arms) or self._shared or not self._size:
            self._grow(max(end, 2 * self._size, 64), contexts.shape[1])
        self._arms[self._size : end] = arms
        self._contexts[self._size : end] = contexts
        self._rewards[self._size : end] = rewards
        self._size, self._counts = end, None

    def _grow(self, capacity: int, n_features: int) -> None:
        arms, contexts, rewards = self.arms, self.contexts, self.rewards
        self._arms = np.empty(capacity, dtype=np.intp)
        self._contexts = np.empty((capacity, n_features))
        self._rewards = np.empty(capacity)
        self._shared = False
        if self._size:
            self._arms[: self._size], self._rewards[: self._size] = arms, rewards
            self._contexts[: self._size] = contexts

    def truncate(self, size: int) -> None:
        """Keep the first ``size`` rows."""
        if size < self._size:
            self._size, self._counts, self._shared = size, None, True

    def head(self, size: int) -> History:
        """The first ``size`` rows; no memory is copied until one of the two grows."""
        part = History(self.n_arms)
        part._size, part._shared = min(size, self._size), True
        part._arms, part._contexts, part._rewards = self._arms, self._contexts, self._rewards
        return part

    def copy(self, n_arms: int | None = None) -> History:
        """All rows, of so many arms; no memory is copied until the copy grows."""
        other = self.head(len(self))
        other.forgotten = self.forgotten
        other.n_arms = self.n_arms if n_arms is None else n_arms
        return other

    def taken(self, rows: Indices) -> History:
        """These rows; it knows how many are left out."""
        part = History.of(self.n_arms, self.arms[rows], self.contexts[rows], self.rewards[rows])
        part.forgotten = self.forgotten + len(self) - len(rows)
        return part

    def without_arm(self, arm: int) -> History:
        """The rows of all other arms; arms above ``arm`` move down by one."""
        keep = self.arms != arm
        arms = self.arms[keep]
        arms = np.where(arms > arm, arms - 1, arms)
        rest = History.of(self.n_arms - 1, arms, self.contexts[keep], self.rewards[keep])
        rest.forgotten = self.forgotten
        return rest
