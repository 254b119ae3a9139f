"""The baseline of `engine.py`: kernel matrices cached and grown by a row, one Cholesky factor per change.

It is what a careful implementer would write. The library's own `Dense` is shorter, and slower beyond the 100 rows
that it is made for.

Notation as in `contract`; besides,
    K_X      one (t, t) matrix of context-kernel values per term, in a buffer that doubles
    L        lower Cholesky factor of M, in memory that is used again
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from kinbandits._types import Matrix, Vector
from kinbandits.regression.contract import Query
from kinbandits.regression.dense import Factored, Solved
from kinbandits.regression.pairs import Followed, Pairs, dense


class Refactorise(Factored):
    """Exact: t^2 kernel values kept, t^3 / 3 for a factor after each change, t^2 for each prediction."""

    def _build(self) -> None:
        self._followed = Followed(self.settings, self._rows)
        self._size, self._buffers = 0, [np.empty((0, 0)) for _ in self.settings.terms]
        self._solved: Solved | None = None
        self._work: Vector = np.empty(0)
        self._enter(0, self._compared(0))

    @property
    def pairs(self) -> Pairs:
        return self._followed.pairs

    def _compared(self, start: int) -> list[Matrix]:
        X = self._rows.contexts
        return [t.kernel(t.select(X[start:]), t.select(X)) for t in self.settings.terms] if len(X) > start else []

    def _absorb(self, start: int, news: Any) -> None:
        self._followed.observe(start)
        self._enter(start, news)

    def _enter(self, start: int, news: list[Matrix]) -> None:
        end = len(self._rows)
        for i, new in enumerate(news):
            if end > len(self._buffers[i]):
                grown = np.zeros((max(end, 2 * start, 64),) * 2)
                grown[:start, :start] = self._buffers[i][:start, :start]
                self._buffers[i] = grown
            self._buffers[i][start:end, :end] = new
            self._buffers[i][:start, start:end] = new[:, :start].T
        self._solved = None

    def _matrix(self) -> Matrix:
        arms, t = self._rows.arms, len(self._rows)
        if t * t > len(self._work):
            self._work = np.empty(2 * t * t)
        M = self._work[: t * t].reshape(t, t)
        for i, (K, K_Z) in enumerate(zip(self._buffers, self.pairs.K_Zs, strict=True)):
            product = M if i == 0 else np.empty((t, t))
            np.take(dense(K_Z).take(arms, axis=0), arms, axis=1, out=product, mode="clip")
            product *= K[:t, :t]
            if i:
                M += product
        self._work[: t * t : t + 1] += self._noise()
        return M

    def _factor(self) -> Solved:
        if self._solved is None:
            L, info = dpotrf(self._matrix().T, lower=1, clean=0, overwrite_a=1)
            assert not info
            self._solved = Solved(L, dtrtrs(L, self.y, lower=1)[0])
        return self._solved

    def _moments(self, query: Query, prior: Matrix) -> tuple[Matrix, Matrix]:
        solved = self._factor()
        c = dtrtrs(solved.L, self._columns(query), lower=1)[0]
        explained = np.einsum("ij,ij->j", c, c)
        return (c.T @ solved.z).reshape(query.shape), prior - explained.reshape(query.shape)

    def report(self) -> dict[str, Any]:
        return {"method": "refactorise"}
