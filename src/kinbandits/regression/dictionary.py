"""The dictionary of the budgeted engine: which (arm, context) points stand for all rows, and their inverses.

Notation (m slots, of which n are taken; K_arm the similarity in force, one per term)
    b        (n,)     arm of each point          C  (n, d)  context of each point
    K_x      (P, n, n)  context-kernel values between points, per term
    K        (n, n)   sum over terms of K_arm[b, b] * K_x: the kernel matrix of the dictionary
    k        (n, q)   values of query points at the dictionary
    P        K^-1
    nugget   (P, n)   mean squared error of older rows' values at each point (`BudgetModel._enter`), _TINY at least
    G        (K_x + diag(nugget))^-1 per term: projects a context on the span of the dictionary's contexts

A value that older rows lack at a new point is z'kappa with z = G k_x. Their values at the points are not exact
either: those at points that entered late are such projections themselves. The nugget is what keeps z from resting
on them: without it z has entries of 1e3 where contexts are dense (K_x has a condition number of 1e15), and every
projection multiplies the errors of those before it, until rounding decides about the sums.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.inverse import Inverse, move_last
from kinbandits.terms import Terms

_TINY = 1e-5  # of k_X(x, x): the least nugget; one context may stand for several arms


class Dictionary:
    """Points in slots; when one leaves, the last takes its place."""

    def __init__(self, terms: Terms, capacity: int, n_features: int, *, by_context: bool) -> None:
        self._terms = terms
        self.capacity = capacity
        self.size = 0
        self.by_context = by_context
        self._arms: Indices = np.zeros(capacity, dtype=np.intp)
        self._contexts: Matrix = np.zeros((capacity, n_features))
        self._K_x: Matrix = np.zeros((len(terms), capacity, capacity))
        self.G = [Inverse(capacity) for _ in terms] if by_context else []
        self._nugget: Matrix = np.zeros((len(terms), capacity))

    @property
    def arms(self) -> Indices:
        """b (a view, as all here)."""
        return self._arms[: self.size]

    @property
    def contexts(self) -> Matrix:
        """C."""
        return self._contexts[: self.size]

    @property
    def grams(self) -> Matrix:
        """K_x, (P, n, n)."""
        return self._K_x[:, : self.size, : self.size]

    def values(self, contexts: Matrix) -> Matrix:
        """k_X between the points and these contexts, (P, n, rows)."""
        if not self.size:
            return np.zeros((len(self._terms), 0, len(contexts)))
        return np.stack([t.context_kernel(t.select(self.contexts), t.select(contexts)) for t in self._terms])

    def pairs(self, K_arms: list[Matrix], arms: Indices, values: Matrix) -> Matrix:
        """k of points (arms, contexts) with these context-kernel values (P, n, rows): (n, rows)."""
        total = K_arms[0][np.ix_(self.arms, arms)] * values[0]
        for K_arm, value in zip(K_arms[1:], values[1:], strict=True):
            total += K_arm[np.ix_(self.arms, arms)] * value
        return np.asarray(total)

    def gram(self, K_arms: list[Matrix]) -> Matrix:
        """K."""
        return self.pairs(K_arms, self.arms, self.grams)

    def lending(self, K_arms: list[Matrix]) -> Matrix:
        """q[a, p, j] = K_arm_p[a, b_j], (N, P, n)."""
        return np.stack([K_arm[:, self.arms] for K_arm in K_arms], axis=1)

    def project(self, values: Matrix) -> Matrix:
        """Coefficients that give k_X(., x) from those of the points, per term, (P, n)."""
        return np.stack([G.matrix @ v for G, v in zip(self.G, values, strict=True)])

    @property
    def nugget(self) -> Matrix:
        """(P, n)."""
        return self._nugget[:, : self.size]

    def add(self, arm: int, context: Vector, values: Matrix, own: Vector, nugget: Vector) -> int:
        """A point more, with its values (P, n) at the others, k_X(x, x) and nugget per term; gives its slot."""
        j = self.size
        self._nugget[:, j] = np.maximum(nugget, _TINY * own)
        for p, value in enumerate(values):
            self._K_x[p, j, :j] = self._K_x[p, :j, j] = value
            self._K_x[p, j, j] = own[p]
        self._arms[j], self._contexts[j] = arm, context
        self.size = j + 1
        bordered = [
            G.border(value, float(corner), 0.0)
            for G, value, corner in zip(self.G, values, own + self._nugget[:, j], strict=False)
        ]
        if not all(bordered):
            self.refresh()
        return j

    def remove(self, j: int) -> None:
        """A point fewer."""
        last = self.size - 1
        move_last(self._K_x, j, last, axes=(1, 2))
        self._nugget[:, j] = self._nugget[:, last]
        self._arms[j], self._contexts[j] = self._arms[last], self._contexts[last]
        for G in self.G:
            G.remove(j)
        self.size = last

    def renumber(self, arm: int) -> None:
        """An arm without points here left: later arms move down by one."""
        self._arms -= self._arms > arm

    def refresh(self) -> None:
        """G anew, which rids it of rounding."""
        for G, K_x, nugget in zip(self.G, self.grams, self.nugget, strict=False):
            if len(K_x):
                G.set(np.linalg.inv(K_x + np.diag(nugget)))

    def retune(self, terms: Terms) -> None:
        """Other similarities, same kernels."""
        self._terms = terms
