"""The rows that a dictionary still has: the last ones with their kernel values, and a sample of all."""

from __future__ import annotations

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History

_GOLDEN = (5.0**0.5 - 1.0) / 2.0


class Recent:
    """The last rows, ``limit`` to half as many more, with their k at the points: new points are exact for these."""

    def __init__(self, rows: History, k: Matrix, limit: int, points: int) -> None:
        self.rows, self.limit = rows, limit
        self._k: Matrix = np.zeros((limit + limit // 2, points))
        self._k[: len(k), : k.shape[1]] = k

    def k(self, n: int) -> Matrix:
        """(rows, n): values at the first n points (a view)."""
        return self._k[: len(self.rows), :n]

    def trim(self) -> None:
        """The oldest leave."""
        if (over := len(self.rows) - self.limit) > 0:
            self._k[: self.limit] = self._k[over : over + self.limit].copy()
            self.rows = self.rows.taken(np.arange(over, len(self.rows)))

    def make_room(self) -> None:
        """For a row more."""
        if len(self.rows) == len(self._k):
            self.trim()

    def append(self, arms: Indices, contexts: Matrix, rewards: Vector, k: Vector) -> None:
        """A row."""
        self._k[len(self.rows), : len(k)] = k
        self.rows.append(arms, contexts, rewards)

    def set_points(self, which: Indices, values: Matrix) -> None:
        """The values (b, rows) at new points."""
        self._k[: len(self.rows), which] = values.T


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
