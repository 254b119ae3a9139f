"""The dictionary: which (arm, context) points stand for all rows.

Notation (m slots, of which n are taken; P terms; K_arms the similarity in force, one per term)
    b        (n,)       arm of each point          C  (n, d)  context of each point
    values   (P, n)     context-kernel values of a row at the points
    lending  (N, P, n)  K_arm_p[a, b_j]: what a row of arm a lends to point j
    k        (n,)       sum over terms of lending * values: the full kernel's values of a row
    kappa    (Q, n)     what sums are kept of: k itself (Q = 1), if it never changes; else ``values`` (Q = P)
    grams    (Q, n, n)  kappa of the points themselves
    K        (n, n)     the full kernel's matrix of the points
    nugget   (Q, n)     mean squared error of older rows' kappa at each point, `_TINY` of its own value at least

A value that older rows lack at a new point is z'kappa, z = (gram + diag(nugget))^-1 kappa_new over the `_NEAREST`
points that say most of it. At points that entered late these are projections themselves, and the nugget keeps z
from resting on them: without it z has entries of 1e3 where contexts are dense, and errors multiply.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg.lapack import dposv

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._work import Work
from kinbandits.regression.budgeted.slices import VALUE
from kinbandits.regression.linalg.inverse import move_last
from kinbandits.terms import Terms

_TINY = 1e-5
_NEAREST = 128


class Points:
    """Points in slots; when one leaves, the last takes its place. ``joint``: kappa is k."""

    def __init__(self, terms: Terms, K_arms: Sequence[Matrix], capacity: int, d: int, *, joint: bool) -> None:
        self._terms = terms
        self.joint = joint
        self.capacity = capacity
        self.size = 0
        self.K_arms = list(K_arms)
        kinds = 1 if joint else len(terms)
        self._arms: Indices = np.zeros(capacity, dtype=np.intp)
        self._contexts: Matrix = np.zeros((capacity, d))
        self._grams: Matrix = np.zeros((kinds, capacity, capacity))
        self._nugget: Matrix = np.zeros((kinds, capacity))
        self._lending: Matrix = np.zeros((len(K_arms[0]), len(terms), capacity))
        self._asked: tuple[bytes, Matrix] | None = None  # the context last asked for, and its values

    @property
    def arms(self) -> Indices:
        """b (a view, as all here)."""
        return self._arms[: self.size]

    @property
    def contexts(self) -> Matrix:
        return self._contexts[: self.size]

    @property
    def lending(self) -> Matrix:
        return self._lending[:, :, : self.size]

    @property
    def nugget(self) -> Matrix:
        return self._nugget[:, : self.size]

    @property
    def kinds(self) -> int:
        return len(self._nugget)

    # -- values of rows -------------------------------------------------------------------------

    def context_values(self, others: Matrix, X: Matrix) -> Matrix:
        """k_X between these contexts, (P, others, rows)."""
        if len(self._terms) == 1:
            (t,) = self._terms
            return np.asarray(t.context_kernel(t.select(others), t.select(X)))[None]
        return np.stack([t.context_kernel(t.select(others), t.select(X)) for t in self._terms])

    def values(self, X: Matrix) -> Matrix:
        """Context-kernel values of these contexts at the points, (P, rows, n)."""
        if not self.size:
            return np.zeros((len(self._terms), len(X), 0))
        if len(X) > 1:
            return self.context_values(X, self.contexts)
        asked, told = self._asked, X.tobytes()  # other threads may read, too
        if asked is None or asked[0] != told:
            self._asked = asked = told, self.context_values(X, self.contexts)
        return asked[1]

    def own(self, X: Matrix) -> Matrix:
        """k_X(x, x) of these contexts, (P, rows)."""
        return np.stack([t.context_kernel.diag(t.select(X)) for t in self._terms])

    def pairs(self, arms: Indices, values: Matrix) -> Matrix:
        """k of rows of these arms with these ``values`` (P, rows, n): (rows, n)."""
        lending = self.lending
        k: Matrix = lending[arms, 0] * values[0]
        for p in range(1, len(values)):
            k += lending[arms, p] * values[p]
        return k

    def between(self, arms: Indices, others: Indices, values: Matrix) -> Matrix:
        """The full kernel between rows of these arms, with their context values (P, arms, others)."""
        total: Matrix = self.K_arms[0][np.ix_(arms, others)] * values[0]
        for p in range(1, len(values)):
            total += self.K_arms[p][np.ix_(arms, others)] * values[p]
        return total

    def prior(self, arms: Indices, X: Matrix) -> Vector:
        """The full kernel of these rows with themselves."""
        return np.asarray(self._terms.prior(self.K_arms, arms, X))

    def at(self, arms: Indices, X: Matrix) -> Matrix:
        """k of these rows, (rows, n)."""
        return self.pairs(arms, self.values(X))

    def full(self, arms: Indices, kappa: Matrix) -> Matrix:
        """k of rows with these kappa (Q, rows, n): (rows, n)."""
        return np.asarray(kappa[0]) if self.joint else self.pairs(arms, kappa)

    @property
    def gram(self) -> Matrix:
        grams = self._grams[:, : self.size, : self.size]
        return np.asarray(grams[0]) if self.joint else self.pairs(self.arms, grams)

    # -- points come and go ---------------------------------------------------------------------

    def projections(self, kappa: Matrix, leaving: Indices) -> Matrix:
        """Coefficients z that give kappa (Q, b, n) at new points from those at the points that stay, (Q, b, n)."""
        z = np.zeros(kappa.shape)
        stay = np.delete(np.arange(self.size), leaving)
        own = np.diagonal(self._grams, axis1=1, axis2=2)[:, stay].copy()
        for p, i in np.ndindex(kappa.shape[:2]):
            gram, column, near = self._grams[p], kappa[p, i], stay
            if len(stay) > _NEAREST:
                says = np.square(column[stay]) / own[p]
                near = stay[np.sort(np.argpartition(-says, _NEAREST)[:_NEAREST])]
            M = gram[np.ix_(near, near)]
            M.flat[:: len(near) + 1] += self._nugget[p, near]
            if len(near):
                _, found, info = dposv(M, column[near], lower=1, overwrite_a=1)
                if not info:
                    z[p, i, near] = found
        return z

    def put(self, slots: Indices, arms: Indices, contexts: Matrix, kappa: Matrix, nugget: Matrix) -> None:
        """New points in these slots, the next one or any; kappa (Q, b, n) at all points then, nugget (Q, b)."""
        self.size, self._asked = max(self.size, int(slots[0]) + 1), None
        n = self.size
        self._grams[:, slots, :n] = kappa
        self._grams[:, :n, slots] = np.swapaxes(kappa, 1, 2)
        own = np.diagonal(kappa[:, :, slots], axis1=1, axis2=2)
        self._nugget[:, slots] = np.maximum(nugget, _TINY * own)
        self._arms[slots], self._contexts[slots] = arms, contexts
        for p, K_arm in enumerate(self.K_arms):
            self._lending[:, p, slots] = K_arm[:, arms]

    def remove(self, j: int) -> None:
        last = self.size - 1
        move_last(self._grams, j, last, axes=(1, 2))
        move_last(self._nugget, j, last, axes=(1,))
        move_last(self._lending, j, last, axes=(2,))
        self._arms[j], self._contexts[j] = self._arms[last], self._contexts[last]
        self.size, self._asked = last, None

    def fill(self, arms: Indices, contexts: Matrix, nugget: Matrix | None = None) -> Work[None]:
        n, self._asked = len(arms), None
        self.size = n
        self._arms[:n], self._contexts[:n] = arms, contexts
        self.follow(self.K_arms)
        own = self.prior(arms, contexts)[None] if self.joint else self.own(contexts)
        self._nugget[:, :n] = _TINY * own if nugget is None else nugget
        for low in range(0, n, 64):
            rows = slice(low, min(low + 64, n))
            values = self.values(contexts[rows])
            self._grams[:, rows, :n] = self.pairs(arms[rows], values)[None] if self.joint else values
            yield VALUE * len(self._terms) * n * (rows.stop - low)

    def follow(self, K_arms: Sequence[Matrix]) -> None:
        """This similarity is in force from now on. (Where kappa is k, it never changes.)"""
        self.K_arms = list(K_arms)
        n_arms = len(self.K_arms[0])
        if len(self._lending) != n_arms:
            self._lending = np.zeros((n_arms, *self._lending.shape[1:]))
        for p, K_arm in enumerate(self.K_arms):
            self._lending[:, p, : self.size] = K_arm[:, self.arms]

    def resettle(self, terms: Terms, gone: int | None = None) -> None:
        """Other similarities, same kernels; arm ``gone`` (without points) left, and later ones move down by one."""
        self._terms = terms
        if gone is not None:
            self._arms -= self._arms > gone
