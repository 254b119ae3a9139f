"""The exact engine: the answers of `naive`, from whichever structure makes them cheap.

    linear   kernels with a finite feature map, fixed similarity, uniform weights: the cost does not grow
    grown    fixed similarity, uniform weights: M only grows by rows
    dense    few rows, or several terms of which one changes: a Cholesky factor per change
    ladder   an estimated similarity, or weights 1/n_a: exact decisions from intervals

The choice is looked at before rows are learned, by their number; `report` says which is at work.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.contract import Prediction, Query, Regression, Settings, State
from kinbandits.regression.dense import Dense
from kinbandits.regression.grown import Grown
from kinbandits.regression.ladder import Ladder
from kinbandits.regression.linear import Linear
from kinbandits.regression.posterior import RowPosterior

SMALL = 100  # rows below which a fresh factor is the cheapest thing there is
_ARM_ROWS = 4  # rows per arm from which on blocks are worth it


class Delegating(Regression):
    """An engine that hands everything to the one at work, and another takes over when the rows say so."""

    at_work: Regression

    @property
    def settings(self) -> Settings:  # type: ignore[override]
        return self.at_work.settings

    @abstractmethod
    def _successor(self, rows: int, contexts: Matrix) -> Any:
        """What makes another engine of (settings, history), if one should take over at so many rows; else None."""

    @property
    def n_rows(self) -> int:
        return self.at_work.n_rows

    @property
    def counts(self) -> Indices:
        return self.at_work.counts

    @property
    def rows(self) -> History | None:
        return self.at_work.rows

    @property
    def k_z(self) -> list[Matrix]:
        return self.at_work.k_z

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector) -> None:
        known = self.at_work.rows
        successor = self._successor(self.n_rows + len(arms), contexts) if len(arms) and known is not None else None
        if successor is None or known is None:
            self.at_work.observe(arms, contexts, rewards)
            return
        grown = known.copy()
        grown.append(arms, contexts, rewards)
        self.at_work = successor(self.settings, grown)

    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        return self.at_work.leaders(query, exploration, tolerance)

    def predict(self, query: Query) -> Prediction:
        return self.at_work.predict(query)

    def covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        return self.at_work.covariance(arms, contexts)

    def log_det(self) -> float:
        return self.at_work.log_det()

    def dual(self) -> tuple[Indices, Matrix, Vector]:
        return self.at_work.dual()

    def snapshot(self) -> Regression:
        return self.at_work.snapshot()

    def state(self) -> State:
        return self.at_work.state()

    def report(self) -> dict[str, Any]:
        return self.at_work.report()


class Exact(Delegating):
    """Exact, by the method that fits."""

    at_work: RowPosterior

    def __init__(self, settings: Settings, rows: History) -> None:
        self._feature_rows: float | None = None  # rows from which on feature space pays, once known
        self.at_work = self._method(settings, len(rows), rows.contexts)(settings, rows)

    def _method(self, settings: Settings, t: int, contexts: Matrix) -> type[RowPosterior]:
        if self._feature_rows is None and t and len(contexts):
            self._feature_rows = Linear.pays_from(settings, contexts)
        if self._feature_rows is not None and t >= self._feature_rows:
            return Linear
        if settings.growing:
            return Grown
        fits = len(settings.terms) == 1 and t >= max(SMALL, _ARM_ROWS * settings.n_arms)
        return Ladder if fits else Dense

    def _successor(self, rows: int, contexts: Matrix) -> Any:
        method = self._method(self.settings, rows, contexts)
        return None if type(self.at_work) is method else method

    def changed(self, settings: Settings, *, rows: History | None = None, removed: int | None = None) -> Exact:
        known = self.at_work._changed_rows(settings, rows, removed)
        other = Exact.__new__(Exact)
        other._feature_rows = None
        method = other._method(settings, len(known), known.contexts)
        same = type(self.at_work) is method and not self.at_work.reads_only
        other.at_work = self.at_work.changed(settings, rows=rows, removed=removed) if same else method(settings, known)
        return other
