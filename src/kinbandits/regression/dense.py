"""One Cholesky factor of M per change: for few rows, and for everything unusual.

Notation as in `contract`; besides
    L, z     M = L L',  z = L^-1 y
    grams    per term (t, t): context-kernel values of the rows

t^2 kernel values a term are kept, and grow by a row; a factor after each change costs t^3 / 3, an answer t^2. Read
from other threads: a factor that two threads make at once is the same.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.contract import Settings
from kinbandits.regression.linalg import factor, solve_lower
from kinbandits.regression.pairs import Followed, Pairs, entries
from kinbandits.regression.posterior import RowPosterior


class Factored(RowPosterior):
    """An engine that reads its numbers off a Cholesky factor of M."""

    _solved: tuple[Matrix, Vector] | None = None  # L and z

    @abstractmethod
    def _matrix(self) -> Matrix:
        """M."""

    def _factor(self) -> tuple[Matrix, Vector]:
        solved = self._solved
        if solved is None:
            L, _ = factor(self._matrix())
            self._solved = solved = L, solve_lower(L, self.y)
        return solved

    def _through(self, k: Matrix) -> tuple[Vector, Matrix]:
        L, z = self._factor()
        c = solve_lower(L, k)
        return c.T @ z, c

    def _weights(self) -> Vector:
        return solve_lower(*self._factor(), transposed=True)

    def log_det(self) -> float:
        if not len(self._rows):
            return 0.0
        return float(2.0 * np.log(self._factor()[0].diagonal()).sum() - np.log(self._noise()).sum())


class Dense(Factored):
    """Exact for all settings."""

    def _build(self) -> None:
        self._followed = Followed(self.settings, self._rows)
        self.pairs, self._solved = self._followed.pairs, None
        self._grams: list[Matrix] = []  # buffers; made when the first factor is

    def _compared(self, start: int) -> list[Matrix]:
        """Context-kernel values of the rows from ``start`` on with all, for each term."""
        X = self._rows.contexts
        return [t.kernel(t.select(X[start:]), t.select(X)) for t in self.settings.terms] if len(X) > start else []

    def _absorb(self, start: int, news: Any) -> None:
        self._followed.observe(start)
        self.pairs, self._solved = self._followed.pairs, None
        if self._grams or not start:
            self._enter(start, news)

    def _enter(self, start: int, news: list[Matrix]) -> None:
        t, grams = len(self._rows), self._grams or [np.zeros((0, 0)) for _ in news]
        for i, rows in enumerate(news):
            if t > len(grams[i]):
                grown = np.empty((max(t, int(1.5 * start), 32),) * 2)
                grown[:start, :start] = grams[i][:start, :start]
                grams[i] = grown
            grams[i][start:t, :t], grams[i][:start, start:t] = rows, rows[:, :start].T
        self._grams = grams

    def _matrix(self) -> Matrix:
        arms, t = self._rows.arms, len(self._rows)
        if not self._grams:
            self._enter(0, self._compared(0))
        M = np.diag(self._noise())
        for K, K_Z in zip(self._grams, self.pairs.K_Zs, strict=True):
            M += entries(K_Z, arms, arms) * K[:t, :t]
        return M

    def report(self) -> dict[str, Any]:
        return {"method": "dense"}

    def snapshot(self) -> Self:
        """Shares the kernel values: lines that are there are never written again."""
        other = super().snapshot()
        other._grams = list(self._grams)
        return other

    @classmethod
    def frozen(cls, settings: Settings, rows: History, pairs: Pairs) -> Self:
        """A snapshot of these rows under the similarity in force, which costs nothing until it is read."""
        other = cls.__new__(cls)
        other.settings, other._rows, other.pairs, other._grams = settings, rows.copy(), pairs, []
        other.reads_only = True
        return other
