"""Exact while that is affordable, then a dictionary, at once.

The change comes with the row that is one too many: a dictionary is built of all rows, and the exact engine is let
go. What is learned from the data settles then: an estimated similarity stays as it is. Where the exact engine's
cost does not grow (`linear`), or where a dictionary cannot follow (weights 1/n_a), nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from kinbandits._types import Matrix
from kinbandits.history import History
from kinbandits.regression.contract import Regression, Settings
from kinbandits.regression.dictionary.engine import Dictionary, check, settled
from kinbandits.regression.exact import Delegating, Exact
from kinbandits.regression.linear import Linear


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


class Switch(Delegating):
    """An exact engine, then a dictionary."""

    def __init__(self, settings: Settings, rows: History, budget: Budget, *, forced: bool = True) -> None:
        """``forced``: weights 1/n_a are refused, not kept exact."""
        if forced:
            check(settings)
        self.budget, self._forced = budget, forced
        successor = self._successor_of(settings, len(rows), rows.contexts)
        self.at_work: Regression = Exact(settings, rows) if successor is None else successor(settings, rows)

    def _successor_of(self, settings: Settings, rows: int, contexts: Matrix) -> Any:
        after = self.budget.after
        if (after is not None and rows <= after) or settings.weighting == "per_arm":
            return None
        if after is not None and len(contexts) and rows >= Linear.pays_from(settings, contexts):
            return None
        return partial(_dictionary, self.budget.points)

    def _successor(self, rows: int, contexts: Matrix) -> Any:
        if isinstance(self.at_work, Dictionary):
            return None
        return self._successor_of(self.settings, rows, contexts)

    def changed(self, settings: Settings, *, rows: History | None = None, removed: int | None = None) -> Switch:
        if self._forced:
            check(settings)
        other = Switch.__new__(Switch)
        other.budget, other._forced = self.budget, self._forced
        if rows is not None and not rows.forgotten:  # may be fewer than it takes
            Switch.__init__(other, settings, rows.copy(settings.n_arms), self.budget, forced=self._forced)
        else:
            other.at_work = self.at_work.changed(settings, rows=rows, removed=removed)
        return other


def _dictionary(points: int, settings: Settings, rows: History) -> Dictionary:
    return Dictionary(settled(settings, rows), points, rows)
