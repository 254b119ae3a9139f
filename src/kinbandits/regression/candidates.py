"""One round's candidates, seen from the rows: kernel vectors k, and what is computed from them.

Notation as in `contract`; for candidate b, k_b[i] = sum over terms of K_Z[a_b, a_i] k_X(x_b, x_i). With one context
for all candidates and one term, k_b = K_Z[a_b, arms] k_x with a single kernel row k_x, and sums over rows group by
arm: they cost t + k N instead of k t, and no kernel vector is formed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.contract import Common, Query
from kinbandits.regression.pairs import Pairs, entries, times

LEAST = 64  # candidates below which comparing anew is as cheap as keeping
MOST = 2**24  # numbers kept (128 MB): eight tasks with 2,000 candidates each, at 1,000 rows


class Candidates:
    """Rounds of candidates; all but `dot` are of a single round."""

    def __init__(self, query: Query, pairs: Pairs, arms: Indices, values: list[Matrix]) -> None:
        """``values``: context-kernel values of the contexts with all rows (of these arms), for each term."""
        self.query, self._pairs, self._arms, self._values = query, pairs, arms, values
        self._by_arm = query.shared and len(values) == 1
        self.k_x: Vector | None = values[0][0] if self._by_arm else None  # the row of all, if one serves them all

    @cached_property
    def _k(self) -> Matrix:
        """All kernel vectors, (k, t)."""
        total = np.zeros((len(self.query.arms), len(self._arms)))
        for K_Z, values in zip(self._pairs.K_Zs, self._values, strict=True):
            total += entries(K_Z, self.query.arms, self._arms) * values
        return total

    @cached_property
    def _n_arms(self) -> int:
        K_Z = self._pairs.K_Zs[0]
        return K_Z.n_arms if isinstance(K_Z, Common) else len(K_Z)

    @cached_property
    def _similar(self) -> Matrix:
        """K_Z of the candidates with all arms, (k, N)."""
        return entries(self._pairs.K_Zs[0], self.query.arms, np.arange(self._n_arms))

    def _sums(self, values: Vector) -> Vector:
        """Row values summed arm by arm, (N,)."""
        return np.asarray(np.bincount(self._arms, weights=values, minlength=self._n_arms))

    def dot(self, v: Vector) -> Matrix:
        """k'v of every candidate, (R, k)."""
        if not self._by_arm:
            return np.asarray((self._k @ v)[None])
        by_arm = np.stack([self._sums(row * v) for row in self._values[0]])
        return times(self._pairs.K_Zs[0], self.query.arms, by_arm)

    def dot_arm(self, arm: int, rows: Indices, d: Vector) -> Vector:
        """k'v for v that is d on these rows, which are an arm's, else zero."""
        if self.k_x is None:
            return np.asarray(self._k[:, rows] @ d)
        return np.asarray(self._similar[:, arm] * float(self.k_x.take(rows) @ d))

    def squares(self, v: Vector) -> Vector:
        """sum_i k_i^2 v[a_i], v (N,)."""
        if self.k_x is None:
            return np.asarray(np.square(self._k) @ v[self._arms])
        return np.asarray(np.square(self._similar) @ (self._sums(self.k_x * self.k_x) * v))

    def forms(self, of_arms: Callable[[Vector], Vector]) -> Vector:
        """k'B^-1 k, where ``of_arms`` (v) gives v_a' B_a^-1 v_a of every arm."""
        if self.k_x is None:
            return np.array([of_arms(k).sum() for k in self._k])
        return np.asarray(np.square(self._similar) @ of_arms(self.k_x))

    def largest(self, v: Vector) -> Vector:
        """max_i k_i^2 v_i (v >= 0)."""
        if self.k_x is None:
            return np.asarray((self._k**2 * v).max(axis=1))
        most, K_Z = np.zeros(self._n_arms), self._pairs.K_Zs[0]
        np.maximum.at(most, self._arms, self.k_x**2 * v)
        if isinstance(K_Z, Common):
            return np.asarray(np.maximum(most[self.query.arms], K_Z.shared**2 * most.max()))
        return np.asarray((K_Z[self.query.arms] ** 2 * most).max(axis=1))

    def columns(self, which: Indices, rows: Indices | slice = slice(None)) -> Matrix:
        """Kernel vectors of some candidates, on some rows, as columns."""
        if self.k_x is None:
            return np.ascontiguousarray(self._k[which][:, rows].T)
        similar = entries(self._pairs.K_Zs[0], self._arms[rows], self.query.arms[which])
        return np.asarray(similar * self.k_x[rows, None])

    def row(self, arm: int, context: Vector, arms: Indices, rows: Indices) -> Matrix | None:
        """Kernel values (1, rows) of a point with some rows, if its context is one of these."""
        same = np.flatnonzero((self.query.contexts[0] == context).all(axis=1))
        if not len(same):
            return None
        total = np.zeros((1, len(rows)))
        for K_Z, values in zip(self._pairs.K_Zs, self._values, strict=True):
            total += entries(K_Z, np.array([arm]), arms[rows]) * values[same[0]].take(rows)
        return total


class _Set:
    """Candidates (k, d) with their kernel values in each term, (k, room), of which ``rows`` columns are filled."""

    def __init__(self, contexts: Matrix, terms: int) -> None:
        self.contexts = contexts
        self.values = [np.empty((len(contexts), 0)) for _ in range(terms)]
        self.rows = 0

    def grown(self, pairs: Pairs, history: History) -> list[Matrix]:
        """Its values with all rows of the history."""
        t = len(history)
        if t > self.values[0].shape[1]:
            for i, old in enumerate(self.values):
                self.values[i] = np.empty((len(old), t + max(16, t // 8)))
                self.values[i][:, : self.rows] = old[:, : self.rows]
        if t > self.rows:
            new = history.contexts[self.rows : t]
            for values, term in zip(self.values, pairs.terms, strict=True):
                values[:, self.rows : t] = term.kernel(term.select(self.contexts), term.select(new))
            self.rows = t
        return [values[:, :t] for values in self.values]


class SeenBefore:
    """Kernel values of candidates, kept from the second time on that a set comes: only new rows are compared."""

    def __init__(self) -> None:
        self.sets: list[_Set] = []  # the last one asked for first
        self._seen: dict[int, None] = {}  # marks of sets that came once

    def values(self, query: Query, pairs: Pairs, history: History) -> list[Matrix]:
        """k_X of each context of a single round with each row, in each term."""
        contexts = query.contexts[0]
        known = self._find(contexts, len(pairs.terms)) if len(contexts) >= LEAST else None
        if known is None:
            return [t.kernel(t.select(contexts), t.select(history.contexts)) for t in pairs.terms]
        values = known.grown(pairs, history)
        while len(self.sets) > 1 and sum(v.size for s in self.sets for v in s.values) > MOST:
            self.sets.pop()
        return values

    def _find(self, contexts: Matrix, terms: int) -> _Set | None:
        for i, known in enumerate(self.sets):
            if np.array_equal(known.contexts, contexts):
                self.sets.insert(0, self.sets.pop(i))
                return known
        mark = hash((contexts.shape, contexts[0].tobytes(), contexts.sum(axis=0).tobytes()))
        if mark not in self._seen:
            self._seen[mark] = None
            if len(self._seen) > 1000:
                del self._seen[next(iter(self._seen))]
            return None
        del self._seen[mark]
        self.sets.insert(0, _Set(np.array(contexts), terms))
        return self.sets[0]
