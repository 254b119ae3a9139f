"""The rows that a dictionary still has: the last ones with their kernel values, and a sample of all."""

from __future__ import annotations

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History

_GOLDEN = (5.0**0.5 - 1.0) / 2.0


class Recent:
    """The last ``limit`` rows with their k at the points: they make new points exact for the recent past.

    Buffers hold twice as many rows, so that dropping the oldest is rarely a copy.
    """

    def __init__(self, limit: int, points: int, d: int) -> None:
        self.limit = limit
        self._low = self._high = 0
        self._arms: Indices = np.zeros(2 * limit, dtype=np.intp)
        self._contexts: Matrix = np.zeros((2 * limit, d))
        self._rewards: Vector = np.zeros(2 * limit)
        self._k: Matrix = np.zeros((2 * limit, points))

    def __len__(self) -> int:
        return self._high - self._low

    @property
    def arms(self) -> Indices:
        """(rows,), oldest first (a view, as all here)."""
        return self._arms[self._low : self._high]

    @property
    def contexts(self) -> Matrix:
        return self._contexts[self._low : self._high]

    @property
    def rewards(self) -> Vector:
        """In their own units."""
        return self._rewards[self._low : self._high]

    def k(self, n: int) -> Matrix:
        """(rows, n): values at the first n points."""
        return self._k[self._low : self._high, :n]

    def append(self, arm: int, context: Vector, reward: float, k: Vector) -> None:
        """A row more; beyond the limit the oldest leaves."""
        if len(self) == self.limit:
            self._low += 1
        if self._high == len(self._arms):
            n = len(self)
            for array in (self._arms, self._contexts, self._rewards, self._k):
                array[:n] = array[self._low : self._high].copy()
            self._low, self._high = 0, n
        i = self._high
        self._arms[i], self._contexts[i], self._rewards[i] = arm, context, reward
        self._k[i, : len(k)] = k
        self._high = i + 1

    def set_points(self, which: Indices, values: Matrix) -> None:
        """The values (b, rows) at new points."""
        self._k[self._low : self._high, which] = values.T


class Sample:
    """At most ``limit`` of all rows, spread evenly over time: those whose number i has frac(i g) below ``rate``.

    g is the golden ratio: which rows these are depends on their number alone, and they follow no period.
    """

    limit = 4096

    def __init__(self, rows: History, numbers: list[int], seen: int, rate: float = 1.0) -> None:
        self.rows, self.numbers, self.seen, self.rate = rows, numbers, seen, rate
        self._thin()

    @classmethod
    def of(cls, rows: History) -> Sample:
        """Of these rows; rows that were forgotten before came first."""
        seen = len(rows) + rows.forgotten
        return cls(rows.copy(), list(range(rows.forgotten, seen)), seen)

    def append(self, arms: Indices, contexts: Matrix, rewards: Vector) -> None:
        numbers = range(self.seen, self.seen + len(arms))
        taken = [i for i, number in enumerate(numbers) if number * _GOLDEN % 1.0 < self.rate]
        self.numbers += [numbers[i] for i in taken]
        self.rows.append(arms[taken], contexts[taken], rewards[taken])
        self.seen += len(arms)
        self._thin()

    def _thin(self) -> None:
        while len(self.rows) > self.limit:
            self.rate /= 2.0
            keep = [i for i, number in enumerate(self.numbers) if number * _GOLDEN % 1.0 < self.rate]
            self.rows, self.numbers = self.rows.taken(np.array(keep)), [self.numbers[i] for i in keep]
        self.rows.forgotten = self.seen - len(self.rows)

    def copy(self) -> Sample:
        return Sample(self.rows.copy(), self.numbers.copy(), self.seen, self.rate)
