"""The lagged engine: answers from an inverse that is behind by a stated amount. Not exact, and it says how far off.

B is M as it was at the last refresh, with new rows appended; it is refreshed when the history has grown by a fifth,
at sizes fixed beforehand, so that the answers are a function of the data, whenever they were asked for.
Mean and width are computed with B in place of M (the kernel vector k is up to date):

    mean = k' B^-1 y,     width = sqrt((prior - k' B^-1 k) / ridge)

For fixed similarities and uniform weights B = M, and the answers are exact. Otherwise `report` bounds the error of
every mean by sqrt(k(x, x)) eta, where eta^2 = sum res_i^2 / noise_i and res = y - M B^-1 y (see `state`): t^2 when
asked. Prefer ``engine="exact"``, which is faster for most similarities; this one has a steadier cost.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.base import Query
from kinbandits.regression.dual import DualRegression
from kinbandits.regression.growing import GrowingInverse
from kinbandits.regression.whole import WholeReference, _root
from kinbandits.terms import TermsTracker

GROWTH = 1.2  # refresh when the history is this many times what it was


def refreshed_at(rows: int) -> int:
    """The size at which a history of ``rows`` rows had its last refresh.

    >>> [refreshed_at(rows) for rows in (1, 33, 34, 72, 73)]
    [1, 1, 34, 34, 73]
    """
    size = 1
    while (following := int(GROWTH * size) + 33) <= rows:
        size = following
    return size


class ScheduledReference(WholeReference):
    """The inverse with the similarity and the counts of the last refresh."""

    def _ready(self) -> GrowingInverse:
        size = refreshed_at(len(self._owner.history))
        if self._inverse is None or self._tired or size != self.size_at_refresh:
            self._refresh_at(size)
        elif self._behind:
            try:
                self._extend()
            except np.linalg.LinAlgError:
                self._refresh_at(size)
        assert self._inverse is not None
        return self._inverse

    def _refresh_at(self, size: int) -> None:
        head = self._owner.history.head(size)
        self._K_arms = TermsTracker(self._owner.settings.terms, head).matrices
        self._counts = head.counts
        self._roots = [_root(K) for K in self._K_arms]
        self._invert()
        self.size_at_refresh = size


class LaggedRegression(DualRegression):
    """Mean and width from a lagged inverse: t^2 a decision and an update, t^3 a refresh."""

    _reference: WholeReference

    def _choose_reference(self) -> None:
        self._reference = ScheduledReference(self)
        self._spread = math.nan
        self._next_check = 2**62

    def dual(self) -> Vector:
        """B^-1 y."""
        if not len(self.history):
            return np.zeros(0)
        return self._reference.apply(self.history.rewards[:, None])[:, 0]

    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        prior = self._prior(query)
        if not len(self.history):
            return np.zeros(query.shape), self.settings.width(prior, np.zeros(1))
        k = self._cross(*query.points())
        mean = (self.dual() @ k).reshape(query.shape)
        explained = np.einsum("ij,ij->j", k, self._reference.apply(k)).reshape(query.shape)
        return mean, self.settings.width(prior, explained)

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        gram = self.settings.terms.gram(self.similarity_matrices, arms, contexts, arms, contexts)
        if not len(self.history):
            return gram
        k = self._cross(arms, contexts)
        return gram - k.T @ self._reference.apply(k)

    def mean_error(self) -> float:
        """A bound on how far a mean can be from the exact one, for k(x, x) up to the largest seen."""
        if not len(self.history):
            return 0.0
        res = self.history.rewards - self.times_matrix(self.dual()[:, None])[:, 0]
        return math.sqrt(self._kernel_bound * float((res**2 / self.noise).sum()))

    def report(self) -> dict[str, Any]:
        low, high = self._reference.bounds() if len(self.history) else (1.0, 1.0)
        return {
            "refreshes": self._reference.refreshes,
            "rows since refresh": len(self.history) - self._reference.size_at_refresh,
            "mean error bound": self.mean_error(),
            "explained within": (1.0 / high, 1.0 / low) if low > 0.0 else None,
            "bytes": sum(s.nbytes for s in self._strips) + self._reference.nbytes,
        }
