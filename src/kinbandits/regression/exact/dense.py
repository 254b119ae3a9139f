"""The dense engine, for few rows and for memories that change every row's weight: a Cholesky factor per change."""

from __future__ import annotations

import numpy as np

from kinbandits._types import Matrix
from kinbandits.regression.base import Regression
from kinbandits.regression.frozen import FrozenRegression
from kinbandits.regression.linalg.cholesky import Solved
from kinbandits.regression.rows import FactorRegression
from kinbandits.terms import TermsTracker


class DenseRegression(FactorRegression):
    """Exact: t^2 context-kernel values kept per term, t^3 / 3 for a factor after each change."""

    _solved: Solved | None

    def _build(self) -> None:
        self._tracker = TermsTracker(self.settings.terms, self.history)
        self._grams = [np.empty((0, 0)) for _ in self.settings.terms]
        self._grams, self._solved = self._grown(0), None

    @property
    def similarity_matrices(self) -> list[Matrix]:
        return self._tracker.matrices

    def _absorb(self, start: int) -> None:
        grown = self._grown(start)  # kernels may fail here and in the next line, where nothing has changed yet
        self._tracker.observe(start)
        self._grams, self._solved = grown, None

    def _grown(self, start: int) -> list[Matrix]:
        """The context-kernel matrices of all rows, of which those up to ``start`` are known."""
        X, t = self.history.contexts, len(self.history)
        if t == start:
            return self._grams
        grams: list[Matrix] = []
        for term, before in zip(self.settings.terms, self._grams, strict=True):
            K, new = np.empty((t, t)), term.context_kernel(term.select(X[start:]), term.select(X))
            K[:start, :start], K[start:], K[:start, start:] = before, new, new[:, :start].T
            grams.append(K)
        return grams

    def _factor(self) -> Solved:
        if self._solved is None:
            arms, M = self.history.arms, np.diag(self._noise())
            for K, K_arm in zip(self._grams, self.similarity_matrices, strict=True):
                M += K_arm.take(arms, axis=0).take(arms, axis=1) * K
            self._solved = Solved.of(M, self.history.rewards, overwrite=True)
        return self._solved

    def frozen(self) -> Regression:
        if self.settings.memory is not None:  # every row's weight changes with the next
            return self.copy()
        return FrozenRegression(self.settings, self.history, self.similarity_matrices)
