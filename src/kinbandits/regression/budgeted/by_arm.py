"""A dictionary laid out for being read often: points in order of their arms.

Notation as in `posterior` and `frozen`; besides,
    kappa_a     context-kernel values of a context at the points of arm a
    Q[a, a']    kappa_a' gap[a, a'] kappa_a'

With one context for all candidates, k of candidate b is K_Z[b, a] kappa_a on the points of arm a. So k' gap k is
K_Z[b] Q K_Z[b]', and Q costs one product with half of gap for all candidates, where each would need one of its own.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Matrix
from kinbandits.regression.base import Query
from kinbandits.regression.budgeted.model import Model

_MOST_ARMS = 64  # with points; beyond that Q itself costs


class ByArm:
    """Reads the posterior of a model as it was when this was made."""

    def __init__(self, model: Model) -> None:
        points = model.points
        order = np.argsort(points.arms, kind="stable")
        self._model, self._order = model, order
        self._played, starts = np.unique(points.arms[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        self._slices = [slice(start, end) for start, end in zip(starts.tolist(), ends, strict=True)]
        self._starts = starts
        (self._K,) = points.K_arms
        self._alone = not np.any(self._K - np.diag(self._K.diagonal()))
        gap, ends = model.posterior.gap, ends if self._alone else [len(order)] * len(starts)
        self._panels = [
            gap[order[s]].take(order[s.start : end], axis=1) for s, end in zip(self._slices, ends, strict=True)
        ]
        self._w = model.posterior.w[order]
        self._last: tuple[Query, tuple[Matrix, Matrix]] | None = None

    @classmethod
    def of(cls, model: Model | None) -> ByArm | None:
        """The model laid out by arm, if it can be read better so."""
        if model is None or not model.size or len(model.points.K_arms) > 1:
            return None
        return cls(model) if len(np.unique(model.points.arms)) <= _MOST_ARMS else None

    def read(self, query: Query) -> tuple[Matrix, Matrix]:
        """Means and k' gap k, both (R, k), of contexts that all candidates share; the last query again is free."""
        last = self._last
        if last is None or last[0] is not query:
            last = self._last = query, self._read(query)
        return last[1]

    def _read(self, query: Query) -> tuple[Matrix, Matrix]:
        kappa = self._model.points.values(query.contexts[:, 0, :])[0][:, self._order]  # (R, n)
        K = self._K[np.ix_(query.arms, self._played)]  # (k, played)
        mean = np.add.reduceat(kappa * self._w, self._starts, axis=1) @ K.T
        Q = np.zeros((len(kappa), len(self._played), len(self._played)))
        for p, (rows, panel) in enumerate(zip(self._slices, self._panels, strict=True)):
            told = (kappa[:, rows] @ panel) * kappa[:, rows.start : rows.start + panel.shape[1]]
            starts = self._starts[p : p + 1 if self._alone else None] - rows.start
            Q[:, p, p : p + len(starts)] = 2.0 * np.add.reduceat(told, starts, axis=1)
            Q[:, p, p] /= 2.0
        return mean, np.asarray(np.einsum("rka,ka->rk", K @ Q, K))
