"""Engines that keep their rows, and those that keep a factor of M besides."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.base import Query, Regression, RegressionSettings
from kinbandits.regression.linalg.cholesky import Solved


class RowRegression(Regression, ABC):
    """An engine that follows its history."""

    def __init__(self, settings: RegressionSettings, history: History) -> None:
        super().__init__(settings, history)
        self._build()

    def _build(self) -> None:
        """Everything an engine keeps besides settings and history, from these; again if learning failed."""

    @abstractmethod
    def _absorb(self, start: int) -> None:
        """The history has grown; its rows from ``start`` on are new."""

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: int = False) -> None:
        memory = self.settings.memory
        if memory is not None and memory.rows is not None and len(self.history) + len(arms) > memory.rows:
            self._learn_window(memory.rows, arms, contexts, rewards, own_contexts)
            return
        start = len(self.history)
        self.history.append(arms, contexts, rewards, own_contexts)
        try:
            self._absorb(start)
        except BaseException:
            self.history.truncate(start)
            self._build()  # always right, whatever was done until then
            raise

    def _learn_window(self, size: int, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: int) -> None:
        """The same where only the last ``size`` rows are remembered, and some must leave."""
        before = self.history
        grown = before.copy()
        grown.append(arms, contexts, rewards, own_contexts)
        self.history = grown.recent(size)
        try:
            self._build()
        except BaseException:
            self.history = before
            self._build()
            raise


class FactorRegression(RowRegression, ABC):
    """An engine that reads its numbers off a Cholesky factor of M."""

    @abstractmethod
    def _factor(self) -> Solved:
        """Of the current M."""

    def _moments(self, query: Query) -> tuple[Matrix, Matrix]:
        """Mean and k' M^-1 k of every candidate."""
        if not len(self.history):
            return np.zeros(query.shape), np.zeros(query.shape)
        mean, explained = self._factor().moments(self._columns(query))
        return mean.reshape(query.shape), explained.reshape(query.shape)

    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        mean, explained = self._moments(query)
        return mean, self.settings.width(self._prior(query), explained)

    def _scores(self, query: Query, exploration: Vector) -> Matrix:
        mean, explained = self._moments(query)
        return self._scores_of(query, mean, self._prior(query), explained, exploration)

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        gram = self.settings.terms.gram(self.similarity_matrices, arms, contexts, arms, contexts)
        return self._factor().remaining(gram, self._cross(arms, contexts)) if len(self.history) else gram

    def dual(self) -> Vector:
        return self._factor().dual() if len(self.history) else np.zeros(0)

    def log_det(self) -> float:
        return self._factor().log_det() - float(np.log(self._noise()).sum()) if len(self.history) else 0.0
