"""The rules that all engines with an answer of their own share: units, cold start, arms that are alike, rows.

Notation as in `contract`. An engine gives mean and *variance* = prior - k' M^-1 k on the learned scale; everything
else follows here.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.errors import InvalidTypeError
from kinbandits.history import History
from kinbandits.regression.contract import Prediction, Query, Regression, Settings, State, best
from kinbandits.regression.pairs import Pairs, dense

_AT_ONCE = 2**22  # kernel values held at once when many points are predicted


class Posterior(Regression):
    """An engine that answers. Subclasses fill in the posterior without units and without the cold-start rule."""

    pairs: Pairs  # the kernel in force
    reads_only = False

    @property
    @abstractmethod
    def n_terms(self) -> int:
        """Length of the dual: rows, or points of a dictionary."""

    @abstractmethod
    def _moments(self, query: Query, prior: Matrix) -> tuple[Matrix, Matrix]:
        """Mean and variance of every candidate, (R, k) each; there are rows, rounds and candidates."""

    @abstractmethod
    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        """k(x~, x~') - k' M^-1 k of the points; there are rows."""

    @property
    def k_z(self) -> list[Matrix]:
        return [dense(K) for K in self.pairs.K_Zs]

    def _cold(self, arms: Indices) -> Mask:
        """Which of these arms are to be explored without looking at others."""
        explore = self.settings.cold_start == "explore"
        return np.asarray(self.counts[arms] == 0) if explore else np.zeros(len(arms), dtype=bool)

    def _bonus(self, variance: Matrix, exploration: Matrix | float) -> Matrix:
        """exploration * width, rounded once less: (exploration / sqrt(lambda)) sqrt(variance).

        Contexts far from all data differ in the last bits of the variance only; this keeps their order.
        """
        return np.asarray(exploration / math.sqrt(self.settings.ridge) * np.sqrt(np.maximum(variance, 0.0)))

    def _merged(self, query: Query) -> tuple[Query, Indices | None]:
        """The query with one candidate for each kind that must have equal numbers, and which is whose."""
        if not query.shared or len(query.arms) < 2:
            return query, None
        alike = self.pairs.alike(query.arms, self.counts, self.settings.cold_start == "explore")
        if alike is None:
            return query, None
        return Query(query.arms[alike[0]], query.contexts), alike[1]

    def _learned(self, query: Query) -> tuple[Matrix, Matrix]:
        """Mean and variance of every candidate, (R, k) each, as learned."""
        query, place = self._merged(query)
        rounds, k = query.shape
        mean, variance = np.zeros(query.shape), self.pairs.prior(query)
        if rounds and k and self.n_terms:
            warm = ~self._cold(query.arms)
            step = max(1, _AT_ONCE // (self.n_terms * k))
            for some in (slice(low, low + step) for low in range(0, rounds, step)):
                found = self._moments(Query(query.arms, query.contexts[some]), variance[some])
                np.copyto(mean[some], found[0], where=warm)
                np.copyto(variance[some], found[1], where=warm)
        return (mean, variance) if place is None else (mean[:, place], variance[:, place])

    def predict(self, query: Query) -> Prediction:
        s = self.settings
        mean, variance = self._learned(query)
        width = np.sqrt(np.maximum(variance, 0.0) / s.ridge)
        if s.level != 0.0 or s.unit != 1.0:
            mean, width = s.level + s.unit * mean, s.unit * width
        return Prediction(mean, width)

    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        mean, variance = self._learned(query)
        return best(mean + self._bonus(variance, exploration[:, None]), tolerance)

    def covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        cold = self._cold(arms)
        prior = self.pairs.gram(arms, contexts, arms, contexts)
        found = self._covariance(arms, contexts) if self.n_terms else prior
        if cold.any():  # arms without rows keep their prior, apart
            found = np.where(cold[:, None] & cold, prior, np.where(cold[:, None] | cold, 0.0, found))
        return found * self.settings.unit**2

    def snapshot(self) -> Self:
        other = copy.copy(self)
        other.reads_only = True
        return other

    def _check_learns(self) -> None:
        if self.reads_only:
            raise InvalidTypeError("a snapshot does not learn; teach the engine it came from and take another")


class RowPosterior(Posterior):
    """An engine that keeps its rows, and can be made anew from them."""

    def __init__(self, settings: Settings, rows: History) -> None:
        """The engine owns ``rows`` from now on."""
        self.settings, self._rows = settings, rows
        self._build()

    @abstractmethod
    def _build(self) -> None:
        """Everything an engine keeps besides settings and rows, from these; again if learning failed."""

    @abstractmethod
    def _compared(self, start: int) -> Any:
        """What is needed of rows from ``start`` on. Kernels may fail here; nothing changes."""

    @abstractmethod
    def _absorb(self, start: int, news: Any) -> None:
        """Learn the rows from ``start`` on."""

    @abstractmethod
    def _weights(self) -> Vector:
        """M^-1 y; there are rows."""

    def _through(self, k: Matrix) -> tuple[Vector, Matrix]:
        """k' M^-1 y, and a c with c'c = k' M^-1 k, for kernel vectors k (t, m). The two below are made of it."""
        raise NotImplementedError

    def _moments(self, query: Query, prior: Matrix) -> tuple[Matrix, Matrix]:
        mean, c = self._through(self.pairs.columns(self._rows.arms, self._rows.contexts, query))
        return mean.reshape(query.shape), prior - np.einsum("ij,ij->j", c, c).reshape(query.shape)

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        h, pairs = self._rows, self.pairs
        _, c = self._through(pairs.gram(h.arms, h.contexts, arms, contexts))
        return np.asarray(pairs.gram(arms, contexts, arms, contexts) - c.T @ c)

    @property
    def n_rows(self) -> int:
        return len(self._rows) + self._rows.forgotten

    @property
    def n_terms(self) -> int:
        return len(self._rows)

    @property
    def counts(self) -> Indices:
        return self._rows.counts

    @property
    def rows(self) -> History:
        return self._rows

    @property
    def y(self) -> Vector:
        """Rewards as they are learned."""
        return self.settings.learned(self._rows.rewards)

    def _noise(self) -> Vector:
        return self.settings.noise(self._rows.arms, self.counts)

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector) -> None:
        self._check_learns()
        start, compared = len(self._rows), False
        self._rows.append(arms, contexts, rewards)
        try:
            news = self._compared(start)
            compared = True
            self._absorb(start, news)
        except BaseException:
            self._rows.truncate(start)
            if compared:
                self._build()  # always right, whatever was done until then
            raise

    def changed_rows(self, settings: Settings, rows: History | None, removed: int | None) -> History:
        """The rows of a changed engine."""
        known = self._rows if rows is None else rows
        known = known.without_arm(removed) if removed is not None and rows is None else known
        return known.copy(settings.n_arms)

    def changed(self, settings: Settings, *, rows: History | None = None, removed: int | None = None) -> Self:
        return type(self)(settings, self.changed_rows(settings, rows, removed))

    def snapshot(self) -> Self:
        other = super().snapshot()
        other._rows = self._rows.copy()
        return other

    def dual(self) -> tuple[Indices, Matrix, Vector]:
        return self._rows.arms, self._rows.contexts, self._weights() if len(self._rows) else np.zeros(0)

    def state(self) -> State:
        h = self._rows
        arrays = {"arms": h.arms.astype(np.int64), "contexts": h.contexts, "rewards": h.rewards}
        return {"kind": "rows", "forgotten": h.forgotten}, arrays


def saved_rows(settings: Settings, data: dict[str, Any], arrays: dict[str, Matrix]) -> History:
    """The rows of a `state`."""
    rows = History.of(settings.n_arms, arrays["arms"].astype(np.intp), arrays["contexts"], arrays["rewards"])
    rows.forgotten = int(data["forgotten"])
    return rows
