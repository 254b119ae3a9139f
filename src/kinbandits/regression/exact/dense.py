"""The dense engine, for few rows and for memories that change every row's weight: a Cholesky factor per change."""

from __future__ import annotations

import numpy as np

from kinbandits._types import Matrix
from kinbandits.regression.base import Regression
from kinbandits.regression.frozen import FrozenRegression
from kinbandits.regression.linalg.cholesky import Solved
from kinbandits.regression.linalg.inverse import SquareBuffer
from kinbandits.regression.rows import FactorRegression
from kinbandits.terms import TermsTracker


class DenseRegression(FactorRegression):
    """Exact: t^2 context-kernel values kept per term, t^3 / 3 for a factor after each change."""

    _solved: Solved | None = None

    def _build(self) -> None:
        tracker, new = TermsTracker(self.settings.terms, self.history), self._compared(0)
        self._tracker, self._grams = tracker, [SquareBuffer(16) for _ in new]
        self._enter(0, new)

    @property
    def similarity_matrices(self) -> list[Matrix]:
        return self._tracker.matrices

    def _absorb(self, start: int) -> None:
        new = self._compared(start)  # kernels may fail here and in the next line, where nothing has changed yet
        self._tracker.observe(start)
        self._enter(start, new)

    def _compared(self, start: int) -> list[Matrix]:
        """Context-kernel values of the rows from ``start`` on with all, for each term."""
        X, terms = self.history.contexts, self.settings.terms
        if len(X) == start:
            return [np.empty((0, start)) for _ in terms]
        return [t.context_kernel(t.select(X[start:]), t.select(X)) for t in terms]

    def _enter(self, start: int, new: list[Matrix]) -> None:
        t, self._solved = len(self.history), None
        for K, rows in zip(self._grams, new, strict=True):
            K.reserve(t)
            K.buffer[start:t, :t], K.buffer[:start, start:t], K.size = rows, rows[:, :start].T, t

    def _factor(self) -> Solved:
        if self._solved is None:
            arms, M = self.history.arms, np.diag(self._noise())
            for K, K_arm in zip(self._grams, self.similarity_matrices, strict=True):
                M += K_arm.take(arms, axis=0).take(arms, axis=1) * K.matrix
            self._solved = Solved.of(M, self.history.rewards, overwrite=True)
        return self._solved

    def frozen(self) -> Regression:
        if self.settings.memory is not None:  # every row's weight changes with the next
            return self.copy()
        return FrozenRegression(self.settings, self.history, self.similarity_matrices)
