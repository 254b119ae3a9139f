"""Which engine is at work, by settings and by the number of rows. Looked at before rows are learned.

    linear      kernels with a finite feature map, fixed similarity, uniform weights: the cost does not grow
    grown       fixed similarity, uniform weights: M only grows by rows
    dense       few rows, or several terms of which one changes: a Cholesky factor per change
    ladder      an estimated similarity, or weights 1/n_a: exact decisions from intervals
    dictionary  with a budget, beyond so many rows: constant cost

The first four are exact. The change to a dictionary comes with the row that is one too many: it is built of all
rows at once, and the exact engine is let go. What is learned from the data settles then: an estimated similarity
stays as it is. Where the exact engine's cost does not grow (`linear`), or where a dictionary cannot follow (weights
1/n_a), nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.contract import Regression, Settings
from kinbandits.regression.dense import Dense
from kinbandits.regression.dictionary.engine import Dictionary, check, settled
from kinbandits.regression.grown import Grown
from kinbandits.regression.ladder import Ladder
from kinbandits.regression.linear import Linear
from kinbandits.regression.posterior import RowPosterior

SMALL = 100  # rows below which a fresh factor is the cheapest thing there is
_ARM_ROWS = 4  # rows per arm from which on blocks are worth it


class Budget(Protocol):
    """How many points, and after how many rows; None: from the first row."""

    @property
    def points(self) -> int: ...

    @property
    def after(self) -> int | None: ...


@dataclass(frozen=True)
class Auto:
    """What ``engine="auto"`` does: the paper's longest experiments (T = 4000) stay exact."""

    points: int = 512
    after: int | None = 5000


def _of_engine(name: str) -> Any:
    """An attribute, or method, of the engine at work."""
    return property(attrgetter(f"at_work.{name}"))


class Switch(Regression):
    """Hands everything to the engine at work, and exchanges it when the rows say so."""

    settings, n_rows, counts, rows, k_z = map(_of_engine, ("settings", "n_rows", "counts", "rows", "k_z"))
    leaders, predict, covariance = map(_of_engine, ("leaders", "predict", "covariance"))
    log_det, dual, snapshot = map(_of_engine, ("log_det", "dual", "snapshot"))
    state, report = map(_of_engine, ("state", "report"))

    def __init__(self, settings: Settings, rows: History, budget: Budget | None, *, forced: bool = True) -> None:
        """Without a budget all is exact. ``forced``: weights 1/n_a are refused, not kept exact."""
        self._budget, self._forced = budget, forced
        self._feature_rows: float | None = None  # rows from which on feature space pays, once known
        method = self._method(settings, len(rows), rows.contexts)
        self.at_work: Regression = method(settings, rows)

    def _method(self, settings: Settings, t: int, contexts: Matrix) -> Callable[[Settings, History], Regression]:
        if self._budget is not None and self._forced:
            check(settings)
        if self._feature_rows is None and len(contexts):
            self._feature_rows = Linear.pays_from(settings, contexts)
        linear = self._feature_rows is not None and t >= self._feature_rows
        if self._budget is not None and settings.weighting == "uniform":
            after = self._budget.after
            if t > (after or 0) and not (after is not None and linear):
                return self._dictionary
        if linear:
            return Linear
        if settings.growing:
            return Grown
        fits = len(settings.terms) == 1 and t >= max(SMALL, _ARM_ROWS * settings.n_arms)
        return Ladder if fits else Dense

    def _dictionary(self, settings: Settings, rows: History) -> Dictionary:
        assert self._budget is not None
        return Dictionary(settled(settings, rows), self._budget.points, rows)

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector) -> None:
        now = self.at_work
        if isinstance(now, RowPosterior) and len(arms):
            method = self._method(now.settings, now.n_rows + len(arms), contexts)
            if method is not type(now):
                rows = now.rows.copy()
                rows.append(arms, contexts, rewards)
                self.at_work = method(now.settings, rows)
                return
        now.observe(arms, contexts, rewards)

    def changed(self, settings: Settings, *, rows: History | None = None, removed: int | None = None) -> Switch:
        now = self.at_work
        other = Switch.__new__(Switch)
        other._budget, other._forced, other._feature_rows = self._budget, self._forced, None
        if not isinstance(now, RowPosterior) and (rows is None or rows.forgotten):
            other.at_work = now.changed(settings, rows=rows, removed=removed)
            return other
        if not isinstance(now, RowPosterior):
            return Switch(settings, rows.copy(settings.n_arms), self._budget, forced=self._forced)  # type: ignore[union-attr]
        known = now.changed_rows(settings, rows, removed)  # may be fewer than it takes
        method = other._method(settings, len(known), known.contexts)
        same = method is type(now) and not now.reads_only
        other.at_work = now.changed(settings, rows=rows, removed=removed) if same else method(settings, known)
        return other
