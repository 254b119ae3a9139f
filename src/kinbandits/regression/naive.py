"""The paper's formula, literally: the oracle that everything faster is tested against. Never optimise it.

    f^_t(x~) = k~(x~)' (eta K~ + lambda I)^-1 eta y
    s(x~)    = lambda^-1/2 sqrt(k~(x~, x~) - k~(x~)' (eta K~ + lambda I)^-1 eta k~(x~))

Everything is built anew from the history at every call: similarity, kernel matrix, weights, solution.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.base import Query
from kinbandits.regression.rows import RowRegression


class NaiveRegression(RowRegression):
    """Dense, from scratch, at every call: t^3."""

    @property
    def similarity_matrices(self) -> list[Matrix]:
        return self.settings.terms.matrices(self.history)

    def _absorb(self, start: int) -> None:
        """Nothing to keep."""

    def _system(self) -> tuple[Matrix, Matrix]:
        """(eta K~ + lambda I) and eta."""
        h = self.history
        K = self.settings.terms.gram(self.similarity_matrices, h.arms, h.contexts, h.arms, h.contexts)
        if self.settings.weighting == "per_arm":
            eta = np.diag(1.0 / h.counts[h.arms])
        else:
            eta = np.eye(len(h))
        if self.settings.memory is not None:
            eta = eta @ np.diag(self.settings.memory.weights(len(h)))
        return eta @ K + self.settings.ridge * np.eye(len(h)), eta

    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        arms, contexts = query.points()
        prior = self.settings.terms.prior(self.similarity_matrices, arms, contexts)
        if not len(self.history):
            mean, explained = np.zeros(len(arms)), np.zeros(len(arms))
        else:
            A, eta = self._system()
            k = self._cross(arms, contexts)
            mean = k.T @ np.linalg.solve(A, eta @ self.history.rewards)
            explained = np.sum(k * np.linalg.solve(A, eta @ k), axis=0)
        width = self.settings.width(prior, explained)
        return mean.reshape(query.shape), width.reshape(query.shape)

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        gram = self.settings.terms.gram(self.similarity_matrices, arms, contexts, arms, contexts)
        if not len(self.history):
            return gram
        A, eta = self._system()
        k = self._cross(arms, contexts)
        return gram - k.T @ np.linalg.solve(A, eta @ k)

    def dual(self) -> Vector:
        """(eta K~ + lambda I)^-1 eta y."""
        if not len(self.history):
            return np.zeros(0)
        A, eta = self._system()
        return np.asarray(np.linalg.solve(A, eta @ self.history.rewards))

    def log_det(self) -> float:
        """log det(eta K~ / lambda + I)."""
        if not len(self.history):
            return 0.0
        A, _ = self._system()
        return float(np.linalg.slogdet(A / self.settings.ridge)[1])
