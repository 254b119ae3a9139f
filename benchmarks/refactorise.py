"""The baseline of `engine.py`: kernel matrices cached and grown by a row, one Cholesky factor per change.

It is what a careful implementer would write. The library's own `DenseRegression` is shorter, and slower beyond the
100 rows that it is made for.

Notation as in `base`; besides,
    K_contexts  one (t, t) matrix of context-kernel values per term, in a buffer that doubles
    L           lower Cholesky factor of M
    c           L^-1 k
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits.regression.linalg.cholesky import Solved
from kinbandits.regression.rows import FactorRegression
from kinbandits.terms import TermsTracker


class GrowingGram:
    """The context-kernel matrix of one term, grown by rows without copying the old ones each time."""

    def __init__(self) -> None:
        self._buffer: Matrix = np.empty((0, 0))
        self._size = 0

    @property
    def matrix(self) -> Matrix:
        """The (t, t) matrix (a view)."""
        return self._buffer[: self._size, : self._size]

    def append(self, rows: Matrix) -> None:
        """Add the kernel values of m new rows with all rows up to themselves, (m, t + m)."""
        start, end = self._size, rows.shape[1]
        if end > len(self._buffer):
            grown = np.zeros((max(end, 2 * start, 64),) * 2)
            grown[:start, :start] = self.matrix
            self._buffer = grown
        self._buffer[start:end, :end] = rows
        self._buffer[:start, start:end] = rows[:, :start].T
        self._size = end


class Refactorise(FactorRegression):
    """Exact: t^2 kernel values kept, t^3 / 3 for a factor after each change, t^2 for each prediction."""

    def _build(self) -> None:
        self._tracker = TermsTracker(self.settings.terms, self.history)
        self._grams = [GrowingGram() for _ in self.settings.terms]
        self._solved: Solved | None = None
        self._work: Vector = np.empty(0)
        self._append(self._kernel_rows(0))

    @property
    def similarity_matrices(self) -> list[Matrix]:
        """Followed, not recomputed."""
        return self._tracker.matrices

    def _absorb(self, start: int) -> None:
        rows = self._kernel_rows(start)
        self._tracker.observe(start)
        self._append(rows)

    def _kernel_rows(self, start: int) -> list[Matrix]:
        """Kernel values of the rows from ``start`` on with all rows, for each term."""
        X = self.history.contexts
        if len(X) == start:
            return []
        return [t.context_kernel(t.select(X[start:]), t.select(X)) for t in self.settings.terms]

    def _append(self, rows: list[Matrix]) -> None:
        for gram, new in zip(self._grams, rows, strict=False):  # no rows at all: nothing to append
            gram.append(new)
        self._solved = None

    def _factor(self) -> Solved:
        if self._solved is None:
            arms = self.history.arms
            t = len(arms)
            if t * t > len(self._work):
                self._work = np.empty(2 * t * t)
            M = self._work[: t * t].reshape(t, t)  # M and then its factor, in memory that is used again
            for i, (gram, K_arm) in enumerate(zip(self._grams, self.similarity_matrices, strict=True)):
                product = M if i == 0 else np.empty((t, t))
                np.take(K_arm.take(arms, axis=0), arms, axis=1, out=product, mode="clip")
                product *= gram.matrix
                if i:
                    M += product
            self._work[: t * t : t + 1] += self._noise()
            self._solved = Solved.of(M, self.history.rewards, overwrite=True)
        return self._solved
