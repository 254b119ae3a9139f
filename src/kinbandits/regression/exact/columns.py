"""Kernel values of candidates that come again: kept from round to round, so that only new rows are compared.

A set of candidates is kept from the second time on that it comes, and the set that was not asked for longest makes
room. Nothing depends on what is kept but the time it takes.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Matrix
from kinbandits.history import History
from kinbandits.terms import Terms

LEAST = 64  # candidates below which comparing anew is as cheap
MOST = 2**24  # numbers held (128 MB): eight tasks with 2,000 candidates each, at 1,000 rows


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
        """Numbers held."""
        return sum(values.size for values in self.values) + self.contexts.size


class KeptColumns:
    """Gives kernel values of candidates with the history, from what is kept if they came before."""

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
