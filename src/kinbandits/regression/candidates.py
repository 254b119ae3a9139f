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
    """Candidates of a single round."""

    def __init__(self, query: Query, pairs: Pairs, arms: Indices, values: list[Matrix]) -> None:
        """``values``: context-kernel values of the contexts with all rows (of these arms), for each term."""
        self.query, self._K_Zs, self._arms, self._values = query, pairs.K_Zs, arms, values
        self._K_Z, self._n_arms = pairs.K_Zs[0], pairs.n_arms
        alone = len(values) == 1 and query.contexts.shape[1] == 1
        self.k_x: Vector | None = values[0][0] if alone else None  # the row of all, if one serves them all

    @cached_property
    def _k(self) -> Matrix:
        """All kernel vectors, (k, t)."""
        pairs = zip(self._K_Zs, self._values, strict=True)
        return sum(entries(K_Z, self.query.arms, self._arms) * values for K_Z, values in pairs)  # type: ignore[return-value]

    def dot(self, v: Vector) -> Vector:
        """k'v."""
        if self.k_x is None:
            return np.asarray(self._k @ v)
        return times(
            self._K_Z, self.query.arms, np.asarray(np.bincount(self._arms, self.k_x * v, self._n_arms), np.float64)
        )

    def dot_arm(self, arm: int, rows: Indices, d: Vector) -> Vector:
        """k'v for v that is d on these rows, which are an arm's, else zero."""
        if self.k_x is None:
            return np.asarray(self._k[:, rows] @ d)
        return entries(self._K_Z, self.query.arms, np.array([arm]))[:, 0] * float(self.k_x.take(rows) @ d)

    def squares(self, v: Vector) -> Vector:
        """sum_i k_i^2 v[a_i], v (N,)."""
        if self.k_x is None:
            return np.asarray(np.square(self._k) @ v[self._arms])
        return self._by_arm(np.bincount(self._arms, self.k_x * self.k_x, self._n_arms) * v)

    def forms(self, of_arms: Callable[[Vector], Vector]) -> Vector:
        """k'B^-1 k, where ``of_arms`` (v) gives v_a' B_a^-1 v_a of every arm."""
        if self.k_x is None:
            return np.array([of_arms(k).sum() for k in self._k])
        return self._by_arm(of_arms(self.k_x))

    def _by_arm(self, v: Vector) -> Vector:
        """sum_a K_Z[b, a]^2 v[a]."""
        return np.asarray(np.square(entries(self._K_Z, self.query.arms, np.arange(self._n_arms))) @ v)

    def largest(self, v: Vector) -> Vector:
        """max_i k_i^2 v_i (v >= 0)."""
        if self.k_x is None:
            return np.asarray((self._k**2 * v).max(axis=1))
        most, K_Z = np.zeros(self._n_arms), self._K_Z
        np.maximum.at(most, self._arms, self.k_x * self.k_x * v)
        if isinstance(K_Z, Common):
            return np.asarray(np.maximum(most[self.query.arms], K_Z.shared**2 * most.max()))
        return np.asarray((K_Z[self.query.arms] ** 2 * most).max(axis=1))

    def columns(self, which: Indices, rows: Indices | slice = slice(None)) -> Matrix:
        """Kernel vectors of some candidates, on some rows, as columns."""
        if self.k_x is None:
            return np.ascontiguousarray(self._k[which][:, rows].T)
        return entries(self._K_Z, self._arms[rows], self.query.arms[which]) * self.k_x[rows, None]

    def row(self, arm: int, context: Vector, arms: Indices, rows: Indices) -> Matrix | None:
        """Kernel values (1, rows) of a point with some rows, if its context is one of these."""
        same = np.flatnonzero((self.query.contexts[0] == context).all(axis=1))
        if not len(same):
            return None
        total, arms = np.zeros((1, len(rows))), arms[rows]
        for K_Z, values in zip(self._K_Zs, self._values, strict=True):
            total += entries(K_Z, np.array([arm]), arms) * values[same[0]].take(rows)
        return total


class SeenBefore:
    """Kernel values of candidates, kept from the second time on that a set comes: only new rows are compared."""

    def __init__(self) -> None:
        self.sets: dict[bytes, tuple[int, list[Matrix]]] = {}  # by contexts, the last one asked for last
        self._once: dict[int, None] = {}  # marks of sets that came once

    def values(self, query: Query, pairs: Pairs, history: History) -> list[Matrix]:
        """k_X of each context of a single round with each row, in each term."""
        X, contexts = history.contexts, query.contexts[0]
        if len(contexts) < LEAST:
            return [t.kernel(t.select(contexts), t.select(X)) for t in pairs.terms]
        key, t = contexts.tobytes(), len(X)
        n, buffers = self.sets.pop(key, (0, []))
        new = [term.kernel(term.select(contexts), term.select(X[n:])) for term in pairs.terms] if n < t else []
        if not n and hash(key) not in self._once:
            self._once[hash(key)] = None
            if len(self._once) > 1000:
                del self._once[next(iter(self._once))]
            return new
        if not n or t > buffers[0].shape[1]:
            grown = [np.empty((len(contexts), t + max(16, t // 8))) for _ in pairs.terms]
            for buffer, old in zip(grown, buffers, strict=False):
                buffer[:, :n] = old[:, :n]
            buffers = grown
        for buffer, values in zip(buffers, new, strict=False):
            buffer[:, n:t] = values
        self.sets[key] = t, buffers
        while len(self.sets) > 1 and sum(b.size for _, kept in self.sets.values() for b in kept) > MOST:
            del self.sets[next(iter(self.sets))]
        return [buffer[:, :t] for buffer in buffers]
