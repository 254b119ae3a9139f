"""The paper's formula, literally: the oracle that everything faster is tested against. Never optimise it.

    f^_t(x~) = k~(x~)' (eta K~ + lambda I)^-1 eta y
    s(x~)    = lambda^-1/2 sqrt(k~(x~, x~) - k~(x~)' (eta K~ + lambda I)^-1 eta k~(x~))

Everything is built anew from the rows at every call: similarity, kernel matrix, weights, solution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.contract import Query
from kinbandits.regression.pairs import Followed, Pairs
from kinbandits.regression.posterior import RowPosterior


class Naive(RowPosterior):
    """Dense, from scratch, at every call: t^3."""

    @property
    def pairs(self) -> Pairs:  # type: ignore[override]
        return Followed(self.settings, self._rows).pairs

    def _build(self) -> None:
        """Nothing to keep."""

    def _compared(self, start: int) -> None:
        """Nothing to compare."""

    def _absorb(self, start: int, news: Any) -> None:
        """Nothing to keep."""

    def _merged(self, query: Query) -> tuple[Query, Indices | None]:
        return query, None  # every candidate by itself

    def _system(self) -> tuple[Matrix, Matrix]:
        """(eta K~ + lambda I) and eta."""
        h = self._rows
        K = self.pairs.gram(h.arms, h.contexts, h.arms, h.contexts)
        eta = np.diag(1.0 / h.counts[h.arms]) if self.settings.weighting == "per_arm" else np.eye(len(h))
        return eta @ K + self.settings.ridge * np.eye(len(h)), eta

    def _explained(self, arms: Indices, contexts: Matrix) -> tuple[Vector, Matrix]:
        """k' (eta K~ + lambda I)^-1 eta (y, k) of these points."""
        h, (A, eta) = self._rows, self._system()
        k = self.pairs.gram(h.arms, h.contexts, arms, contexts)
        return k.T @ np.linalg.solve(A, eta @ self.y), k.T @ np.linalg.solve(A, eta @ k)

    def _moments(self, query: Query, prior: Matrix) -> tuple[Matrix, Matrix]:
        mean, explained = self._explained(*query.points())
        return mean.reshape(query.shape), prior - explained.diagonal().reshape(query.shape)

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        return self.pairs.gram(arms, contexts, arms, contexts) - self._explained(arms, contexts)[1]

    def _weights(self) -> Vector:
        """(eta K~ + lambda I)^-1 eta y."""
        A, eta = self._system()
        return np.asarray(np.linalg.solve(A, eta @ self.y))

    def log_det(self) -> float:
        """log det(eta K~ / lambda + I)."""
        if not len(self._rows):
            return 0.0
        return float(np.linalg.slogdet(self._system()[0] / self.settings.ridge)[1])

    def report(self) -> dict[str, Any]:
        return {"method": "naive"}
