"""One round's candidates, seen from the history: kernel vectors k and what is computed from them.

Notation as in `base`; for candidate b with arm a_b, k_b[i] = sum over terms of K_arm[a_b, a_i] k_X(x_b, x_i).
With one context for all candidates and one term, k_b = K_arm[a_b, arms] * kx with a single kernel row kx, and sums
over the history group by arm: they cost t + N^2 instead of N t. With one arm for all candidates (a task that is
given) K_arm[a_b, arms] is one vector.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.base import Query
from kinbandits.terms import Terms

_BLOCK = 64  # candidates whose kernel vectors are in the cache together
LEAST = 64  # candidates below which comparing anew is as cheap as keeping
MOST = 2**24  # numbers kept (128 MB): eight tasks with 2,000 candidates each, at 1,000 rows


def different_arms(query: Query, K_arms: list[Matrix], cold: NDArray[np.bool_]) -> tuple[Indices, Indices]:
    """With one context, arms of equal similarity (and coldness) are equal: who differ, and who stands for each."""
    rows = np.hstack([*(K[query.arms] for K in K_arms), cold[:, None]])
    if len({row.tobytes() for row in rows}) == len(rows):  # the usual case, and `unique` is slow
        everyone = np.arange(len(rows))
        return everyone, everyone
    _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, place.reshape(-1)


class Probe:
    """Kernel vectors of the candidates of one round."""

    def __init__(
        self, query: Query, kx: list[Matrix], K_arms: list[Matrix], arms: Indices, prior: Vector | None = None
    ) -> None:
        """From kernel values with all rows and, where the prior is not given, with itself: (1 or k, t or t + 1)."""
        self.query, self.kept = query, kx
        self._K_arms, self._arms = K_arms, arms
        if prior is not None:
            self.__dict__["prior"] = prior

    @cached_property
    def prior(self) -> Vector:
        """k(x~, x~) of each candidate."""
        arms, prior = self.query.arms, np.zeros(len(self.query.arms))
        for K_arm, K in zip(self._K_arms, self.kept, strict=True):
            prior += K_arm.diagonal()[arms] * K[:, -1]
        return prior

    @cached_property
    def largest_prior(self) -> float:
        return float(self.prior.max())

    @cached_property
    def _lent(self) -> list[Matrix]:
        """K_arm[a_b] of every candidate b, (k, N) per term."""
        return [K_arm[self.query.arms] for K_arm in self._K_arms]

    @cached_property
    def _kx(self) -> list[Matrix]:
        return [K[:, : len(self._arms)] for K in self.kept]

    @cached_property
    def _fast(self) -> bool:
        """Whether one kernel row serves all candidates."""
        return self.query.shared and len(self.kept) == 1

    @cached_property
    def _row(self) -> Vector:
        return np.asarray(self._kx[0][0])

    @cached_property
    def _task(self) -> Vector | None:
        """k_b = task * kx_b, if one task is given."""
        arms = self.query.arms
        if self.query.shared or len(self.kept) > 1 or (arms != arms[0]).any():
            return None
        return np.asarray(self._lent[0][0][self._arms])

    @cached_property
    def k(self) -> Matrix:
        """All kernel vectors, (k, t)."""
        total = self._lent[0][:, self._arms] * self._kx[0]
        for lent, kx in zip(self._lent[1:], self._kx[1:], strict=True):
            total += lent[:, self._arms] * kx
        return total

    @property
    def row(self) -> Vector | None:
        """The kernel row of all candidates, if one row serves them all."""
        return self._row if self._fast else None

    @property
    def lent(self) -> Matrix:
        """K_arm[a_b] of every candidate b, (k, N), of the first term."""
        return self._lent[0]

    def columns(self, which: Indices) -> Matrix:
        """Kernel vectors of some candidates as columns, (t, m)."""
        if self._task is not None:
            return np.ascontiguousarray((self._kx[0][which] * self._task).T)
        if "k" in self.__dict__ or not self._fast:
            return np.ascontiguousarray(self.k[which].T)
        return np.ascontiguousarray((self._lent[0][which][:, self._arms] * self._kx[0]).T)

    def part(self, candidate: int, rows: Indices) -> Vector:
        """The kernel vector of one candidate on these rows."""
        if self._fast:
            return np.asarray(self._lent[0][candidate].take(self._arms.take(rows)) * self._row.take(rows))
        if self._task is not None:
            return np.asarray(self._kx[0][candidate].take(rows) * self._task.take(rows))
        return np.asarray(self.k[candidate].take(rows))

    def dot(self, v: Vector) -> Vector:
        if self._fast:
            return np.asarray(self._lent[0] @ self._by_arm(self._row * v))
        if self._task is not None:
            return np.asarray(self._kx[0] @ (self._task * v))
        return np.asarray(self.k @ v)

    def dot_arm(self, arm: int, rows: Indices, v: Vector) -> Vector:
        """k_b . v for a vector that is zero except on the rows of one arm."""
        if self._fast:
            return np.asarray(self._lent[0][:, arm] * (self._row[rows] @ v))
        return np.asarray(self.k[:, rows] @ v)

    def squares_by_arm(self, v: Vector) -> Vector:
        """sum_i k_b[i]^2 v[a_i] for every candidate, v given per arm (N,)."""
        if self._fast:
            return np.asarray(self._lent[0] ** 2 @ (self._by_arm(self._row * self._row) * v))
        return np.asarray(self.k**2 @ v[self._arms])

    def largest(self, v: Vector) -> Vector:
        """max_i k_b[i]^2 v_i for every candidate (v >= 0)."""
        if self._fast:
            most = np.zeros(self._lent[0].shape[1])
            np.maximum.at(most, self._arms, self._row**2 * v)
            return np.asarray((self._lent[0] ** 2 * most).max(axis=1))
        root = np.sqrt(v) if self._task is None else np.sqrt(v) * self._task
        k = self.k if self._task is None else self._kx[0]
        blocks = [np.abs(k[i : i + _BLOCK] * root).max(axis=1) for i in range(0, len(k), _BLOCK)]
        return np.asarray(np.concatenate(blocks) ** 2)

    def quadratic(self, rows: list[Indices], inverses: list[Matrix]) -> Vector:
        """k_b' B^-1 k_b for every candidate and the block-diagonal B with these inverse blocks, on these rows."""
        played = [a for a, mine in enumerate(rows) if len(mine)]
        if self._fast:
            g = np.zeros(len(rows))
            for a in played:
                part = self._row[rows[a]]
                g[a] = part @ (inverses[a] @ part)
            return np.asarray(self._lent[0] ** 2 @ g)
        total = np.zeros(len(self.query.arms))
        for a in played:
            part = self.k[:, rows[a]]
            total += np.einsum("ij,ij->i", part @ inverses[a], part)
        return total

    def _by_arm(self, values: Vector) -> Vector:
        sums = np.bincount(self._arms, weights=values, minlength=self._lent[0].shape[1])
        return np.asarray(sums, dtype=np.float64)


class _Set:
    """Candidates (k, d) with their kernel values in each term, (k, room), of which ``rows`` columns are filled."""

    def __init__(self, contexts: Matrix, terms: int) -> None:
        self.contexts = contexts
        self.values = [np.empty((len(contexts), 0)) for _ in range(terms)]
        self.rows = 0

    def grown(self, terms: Terms, history: History) -> list[Matrix]:
        """Its values with all rows of the history."""
        t = len(history)
        self.rows = self.rows if self.rows <= t else 0  # the history was cut back
        if t > self.values[0].shape[1]:
            room = t + max(16, t // 8)
            for i, old in enumerate(self.values):
                self.values[i] = np.empty((len(old), room))
                self.values[i][:, : self.rows] = old[:, : self.rows]
        if t > self.rows:
            new = history.contexts[self.rows : t]
            for values, term in zip(self.values, terms, strict=True):
                values[:, self.rows : t] = term.context_kernel(term.select(self.contexts), term.select(new))
            self.rows = t
        return [values[:, :t] for values in self.values]

    @property
    def size(self) -> int:
        return sum(values.size for values in self.values) + self.contexts.size


class KeptColumns:
    """Kernel values of candidates, kept from the second time on that a set comes: only new rows are compared."""

    def __init__(self) -> None:
        self._sets: list[_Set] = []  # the last one asked for first
        self._seen: dict[int, None] = {}  # marks of sets that came once

    def of(self, terms: Terms, contexts: Matrix, history: History) -> list[Matrix]:
        """k_X of each candidate (k, d) with each row, (k, t), in each term."""
        if len(contexts) >= LEAST:
            found = self._found(contexts, len(terms))
            if found is not None:
                values = found.grown(terms, history)
                while len(self._sets) > 1 and sum(s.size for s in self._sets) > MOST:
                    self._sets.pop()
                return values
        return [t.context_kernel(t.select(contexts), t.select(history.contexts)) for t in terms]

    def _found(self, contexts: Matrix, terms: int) -> _Set | None:
        for i, kept in enumerate(self._sets):
            if np.array_equal(kept.contexts, contexts):
                self._sets.insert(0, self._sets.pop(i))
                return self._sets[0]
        mark = hash((contexts.shape, contexts[0].tobytes(), contexts.sum(axis=0).tobytes()))
        if mark in self._seen:
            del self._seen[mark]
            self._sets.insert(0, _Set(np.array(contexts), terms))
            return self._sets[0]
        self._seen[mark] = None
        if len(self._seen) > 1000:
            del self._seen[next(iter(self._seen))]
        return None

    def __deepcopy__(self, memo: object) -> KeptColumns:
        return KeptColumns()
