"""The ladder as an engine: exact decisions from intervals, and exact numbers when they are read.

The matrix in strips (`matrix`), a dual vector that is nearly right (`dual`), a matrix like M that is easy to invert
(`reference`, `lagged`), and the rungs on them (`rungs`). Numbers come from a fresh Cholesky factor.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from kinbandits import _compiled as compiled
from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.kernels import cdist
from kinbandits.regression.base import Query, best
from kinbandits.regression.exact.core import Core
from kinbandits.regression.exact.dual import Dual
from kinbandits.regression.exact.lagged import LaggedReference
from kinbandits.regression.exact.matrix import ArmMatrix
from kinbandits.regression.exact.probe import Probe, different_arms
from kinbandits.regression.exact.reference import BlocksReference, Reference
from kinbandits.regression.exact.rungs import Ladder, Round
from kinbandits.regression.linalg.cholesky import Solved
from kinbandits.regression.rows import FactorRegression
from kinbandits.terms import TermsTracker

_BULK = 32  # more rows than this at once are a fresh start, not single updates


class LadderRegression(FactorRegression):
    """Exact decisions at the cost of a few products; exact numbers when they are read."""

    def _build(self) -> None:
        terms = self.settings.terms
        self._tracker = TermsTracker(terms, self.history)
        one = np.zeros((1, 1))
        self._stationary = any(t.columns is None and t.context_kernel.from_squares(one) is not None for t in terms)
        self._counters: Counter[str] = Counter()
        self._fill()

    def _fill(self) -> None:
        """The state from all rows at once; the dual vector starts at zero."""
        h = self.history
        empty = np.zeros((0, 0))
        grams = [
            t.context_kernel(X, X) if len(X := t.select(h.contexts) if len(h) else empty) else empty
            for t in self.settings.terms
        ]
        self.matrix = ArmMatrix(self.settings, h.n_arms, h.arms, self._tracker.matrices, grams)
        self.dual_state = Dual(self.matrix, h.rewards)
        self._use(self._suitable())
        self._forget()

    def _suitable(self) -> Reference:
        """Block-diagonal while the similarity is far from singular, else all of M; asked at every 30 % more."""
        t = len(self.history)
        blocks = BlocksReference(self.matrix)
        self._spread = blocks.spread() if t else 1.0
        self._next_check = int(1.3 * t) + 64
        fits = self._spread <= 20.0 and self.history.n_arms * 8 <= max(t, 1)
        return blocks if fits else LaggedReference(self.matrix)

    def _use(self, reference: Reference) -> None:
        self.reference = reference
        state = self.settings, self.matrix, self.dual_state, reference
        self.core = Core.of(*state)
        self.ladder = Ladder(*state)

    def _forget(self) -> None:
        """What was computed for the present rows is no longer valid."""
        self._solved: Solved | None = None
        self._asked: tuple[Matrix, list[Matrix], Vector | None] | None = None

    # -- learning -------------------------------------------------------------------------------

    @property
    def similarity_matrices(self) -> list[Matrix]:
        return self.matrix.K_arms

    @property
    def counts(self) -> Indices:
        return self.matrix.rows.counts

    def _absorb(self, start: int) -> None:
        h, end = self.history, len(self.history)
        rows, squares = self._kept_rows(start) if end - start == 1 else (None, None)
        if rows is None and end - start <= _BULK:
            X = h.contexts
            new = [t.context_kernel(t.select(X[start:]), t.select(X)) for t in self.settings.terms]
            rows = [[K[i, : start + i + 1] for K in new] for i in range(end - start)]
        self._tracker.observe(start, squares)
        if rows is None:
            self._fill()
            return
        self.matrix.K_arms = self._tracker.matrices
        for arm, reward, values in zip(h.arms[start:].tolist(), h.rewards[start:].tolist(), rows, strict=True):
            self._append(arm, values, reward)
        self._forget()
        if end >= self._next_check:
            suitable = self._suitable()
            if suitable.name != self.reference.name:
                self._use(suitable)

    def _kept_rows(self, start: int) -> tuple[list[list[Vector]] | None, Vector | None]:
        """Kernel values and squared distances of the new row, if it is a candidate of the last query."""
        if self._asked is None:
            return None, None
        contexts, kx, squares = self._asked
        x = self.history.contexts[start].tobytes()
        for c, candidate in enumerate(contexts):
            if candidate.tobytes() == x:
                return [[k[c] for k in kx]], None if squares is None else squares[c]
        return None, None

    def _append(self, arm: int, values: list[Vector], reward: float) -> None:
        if self.core is not None:
            self.core.append(arm, values[0], reward)
            return
        self.matrix.reserve(arm)
        self.dual_state.reserve()
        self.reference.reserve(arm)
        self.dual_state.append(arm, values, reward, self.reference.start(arm, values))
        self.matrix.append(arm, values)
        self.dual_state.appended(reward, float(self.dual_state.values[-1]))
        self.reference.append(arm, values)

    # -- deciding -------------------------------------------------------------------------------

    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        """As the base class, but numbers are computed only as far as the argmax needs them."""
        if query.shape[0] > 1 or not len(self.history):
            return super().leaders(query, exploration, tolerance)
        if query.shared and self.reference.name == "whole" and len(query.arms) > 1:
            different, place = different_arms(query, self.similarity_matrices, self._cold(query.arms))
            if len(different) < len(query.arms):  # pooled arms, say: ties that nothing can settle
                return self.leaders(Query(query.arms[different], query.contexts), exploration, tolerance)[:, place]
        asked = self.asked(query, float(exploration[0]))
        for rung in self.ladder.climb(asked) if self.core is None else self.core.climb(asked):
            leaders = asked.leaders(tolerance)
            if leaders is not None:
                self._counters[f"settled: {rung}"] += 1
                return leaders
        self._counters["settled: dense"] += 1
        return best(self._scores(query, exploration), tolerance)

    def asked(self, query: Query, exploration: float) -> Round:
        """A single round, at the foot of the ladder."""
        return Round(self._probe(query), exploration, self._cold)

    def _probe(self, query: Query) -> Probe:
        X, flat = self.history.contexts, query.contexts[0]
        t = len(X)
        squares: Matrix | None = None
        if self._stationary:
            squares = np.empty((len(flat), t + 1))  # last, the distance to itself
            if compiled.CORE is None:
                squares[:, :t], squares[:, t] = cdist(flat, X, "sqeuclidean"), 0.0
            else:
                compiled.CORE.squares(flat if flat.flags.c_contiguous else flat.copy(), X, t, squares)
        rows = []
        for term in self.settings.terms.terms:
            kernel = term.context_kernel
            K = kernel.from_squares(squares) if squares is not None and term.columns is None else None
            if K is None:
                K = np.empty((len(flat), t + 1))
                K[:, :t], K[:, t] = kernel(term.select(flat), term.select(X)), kernel.diag(term.select(flat))
            rows.append(K)
        self._asked = (flat, rows, squares)  # what a new row needs, if it is one of these
        return Probe(query, rows, self.matrix.K_arms, self.matrix.rows.labels)

    # -- numbers --------------------------------------------------------------------------------

    def _factor(self) -> Solved:
        """A fresh Cholesky factor of M: the definition of the answer."""
        if self._solved is None:
            self._counters["dense factors"] += 1
            self._solved = Solved.of(self.matrix.dense(), self.history.rewards)
        return self._solved

    def report(self) -> dict[str, Any]:
        return {
            "reference": self.reference.name,
            "condition bound": self._spread,
            **dict(sorted(self._counters.items())),
            "cg steps": self.ladder.cg_steps + (0 if self.core is None else self.core.cg_steps),
            "Y recomputed": self.dual_state.recomputed,
            **self.reference.report(),
            "bytes": sum(s.nbytes for s in self.matrix.strips)
            + sum(Y.nbytes for Y in self.dual_state.Y)
            + self.reference.nbytes
            + (self._solved.L.nbytes if self._solved else 0),
        }
