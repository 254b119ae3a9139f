"""Which (arm, context) points stand for all rows, and which rows are still there.

Notation (m slots, of which n are taken)
    b        (n,)    arm of each point           C  (n, d)  context of each point
    k        (n,)    kernel values of a row at the points
    K        (n, n)  kernel matrix of the points
    nugget   (n,)    mean squared error of older rows' k at each point, `_TINY` of its own value at least

A value that older rows lack at a new point is z'k, z = (K + diag(nugget))^-1 k_new over the `_NEAREST` points that
say most of it. At points that entered late these are projections themselves, and the nugget keeps z from resting on
them: without it z has entries of 1e3 where contexts are dense, and errors multiply.
"""

from __future__ import annotations

import copy
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg.lapack import dposv

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.contract import Query
from kinbandits.regression.pairs import Pairs, entries

_TINY = 1e-5
_NEAREST = 128


class PointSet(NamedTuple):
    """Arms (n,) and contexts (n, d)."""

    arms: Indices
    contexts: Matrix


class Points:
    """Points in slots."""

    def __init__(self, pairs: Pairs, capacity: int, d: int) -> None:
        self.pairs, self.capacity, self.size = pairs, capacity, 0
        self._arms: Indices = np.zeros(capacity, dtype=np.intp)
        self._contexts: Matrix = np.zeros((capacity, d))
        self._K: Matrix = np.zeros((capacity, capacity))
        self._nugget: Vector = np.zeros(capacity)
        self._asked: tuple[bytes, list[Matrix]] | None = None  # the context last asked for, and its values

    @property
    def arms(self) -> Indices:
        """b (a view, as all here)."""
        return self._arms[: self.size]

    @property
    def contexts(self) -> Matrix:
        return self._contexts[: self.size]

    @property
    def K(self) -> Matrix:  # noqa: N802
        return self._K[: self.size, : self.size]

    @property
    def nugget(self) -> Vector:
        return self._nugget[: self.size]

    def values(self, X: Matrix) -> list[Matrix]:
        """Context-kernel values of these contexts at the points, (rows, n), for each term."""
        asked, key = self._asked, X.tobytes() if len(X) == 1 else b""
        if not key or asked is None or asked[0] != key:
            found = [t.kernel(t.select(X), t.select(self.contexts)) for t in self.pairs.terms]
            if not key:
                return found
            self._asked = asked = key, found
        return asked[1]

    def at(self, arms: Indices, X: Matrix) -> Matrix:
        """k of rows of these arms, whose contexts are theirs, or one for all: (rows, n)."""
        k = np.zeros((len(arms), self.size))
        for K_Z, values in zip(self.pairs.K_Zs, self.values(X), strict=True):
            k += entries(K_Z, arms, self.arms) * values
        return k

    def of_query(self, query: Query) -> Matrix:
        """k of every candidate, (R * k, n)."""
        if query.shared and query.shape[0] == 1:
            return self.at(query.arms, query.contexts[0])
        return self.pairs.columns(self.arms, self.contexts, query).T

    # -- points come and go ---------------------------------------------------------------------

    def projections(self, k: Matrix, leaving: Indices) -> Matrix:
        """Coefficients z that give k (b, n) at new points from the values at the points that stay, (b, n)."""
        z = np.zeros(k.shape)
        stay = np.delete(np.arange(self.size), leaving)
        own = self._K.diagonal()[stay]
        for i, column in enumerate(k):
            near = stay
            if len(stay) > _NEAREST:
                near = stay[np.sort(np.argpartition(-np.square(column[stay]) / own, _NEAREST)[:_NEAREST])]
            if len(near):
                M = self._K[np.ix_(near, near)]
                M.flat[:: len(near) + 1] += self._nugget[near]
                _, found, info = dposv(M, column[near], lower=1, overwrite_a=1)
                if not info:
                    z[i, near] = found
        return z

    def put(self, slots: Indices, new: PointSet, k: Matrix, nugget: Vector) -> None:
        """New points in these slots, the next one or others' places; k (b, n) at all points then, nugget (b,)."""
        self.size, self._asked = max(self.size, int(slots[0]) + 1), None
        self._K[slots, : self.size], self._K[: self.size, slots] = k, k.T
        self._nugget[slots] = np.maximum(nugget, _TINY * self._K.diagonal()[slots])
        self._arms[slots], self._contexts[slots] = new

    def fill(self, new: PointSet, nugget: Vector | None = None) -> None:
        """These points, where there were none."""
        self.size, self._asked = n, _ = len(new.arms), None
        self._arms[:n], self._contexts[:n] = new
        self._K[:n, :n] = self.pairs.gram(new.arms, new.contexts, new.arms, new.contexts)
        self._nugget[:n] = _TINY * self._K.diagonal()[:n] if nugget is None else nugget

    def copy(self) -> Self:
        """For others to read."""
        other = copy.copy(self)
        other._arms, other._contexts = self._arms.copy(), self._contexts.copy()
        other._K = self._K[:0, :0]
        return other


class Recent:
    """The last ``limit`` rows with their k at the points: they make new points exact for the recent past.

    Buffers hold twice as many rows, so that dropping the oldest is rarely a copy.
    """

    def __init__(self, limit: int, slots: int, d: int) -> None:
        self.limit = limit
        self._low = self._high = 0
        self._arms: Indices = np.zeros(2 * limit, dtype=np.intp)
        self._contexts: Matrix = np.zeros((2 * limit, d))
        self._rewards: Vector = np.zeros(2 * limit)
        self._k: Matrix = np.zeros((2 * limit, slots))

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

    def k(self, size: int) -> Matrix:
        """(rows, size): values at the first ``size`` slots."""
        return self._k[self._low : self._high, :size]

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

    def fill(self, rows: History, k: Matrix) -> None:
        """These rows, ``limit`` at most, where there were none."""
        n = len(rows)
        self._low, self._high = 0, n
        self._arms[:n], self._rewards[:n], self._k[:n, : k.shape[1]] = rows.arms, rows.rewards, k
        if n:
            self._contexts[:n] = rows.contexts

    def set_slots(self, slots: Indices, values: Matrix) -> None:
        """The values (b, rows) at new points."""
        self._k[self._low : self._high, slots] = values.T


class Sample:
    """At most ``limit`` of all rows, spread evenly over time: those whose number i has frac(i g) below ``rate``.

    g is the golden ratio: which rows these are depends on their number alone, and they follow no period.
    """

    limit = 4096

    def __init__(self, rows: History, numbers: Indices, seen: int, rate: float = 1.0) -> None:
        self.rows, self.numbers, self.seen, self.rate = rows, numbers, seen, rate
        self._thin()

    @classmethod
    def of(cls, rows: History) -> Sample:
        """Of these rows; rows that were forgotten before came first."""
        seen = len(rows) + rows.forgotten
        return cls(rows.copy(), np.arange(rows.forgotten, seen), seen)

    def append(self, arms: Indices, contexts: Matrix, rewards: Vector) -> None:
        numbers = np.arange(self.seen, self.seen + len(arms))
        self.seen += len(arms)
        taken = _spread(numbers) < self.rate
        if taken.any():
            self.rows.append(arms[taken], contexts[taken], rewards[taken])
            self.numbers = np.append(self.numbers, numbers[taken])
        self._thin()

    def _thin(self) -> None:
        while len(self.rows) > self.limit:
            self.rate /= 2.0
            keep = np.flatnonzero(_spread(self.numbers) < self.rate)
            self.rows, self.numbers = self.rows.taken(keep), self.numbers[keep]
        self.rows.forgotten = self.seen - len(self.rows)

    def copy(self) -> Sample:
        return Sample(self.rows.copy(), self.numbers, self.seen, self.rate)


def _spread(numbers: Indices) -> Vector:
    return np.asarray(numbers * ((5.0**0.5 - 1.0) / 2.0) % 1.0)
