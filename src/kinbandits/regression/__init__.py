"""Multi-task kernel ridge regression: one contract (`contract`), several engines.

``naive`` is the paper's formula, dense and literal. ``exact`` gives the same answers, fast.
"""

from typing import Any

from numpy.typing import NDArray

from kinbandits.history import History
from kinbandits.regression.contract import Common, Prediction, Product, Query, Regression, Settings
from kinbandits.regression.exact import Exact
from kinbandits.regression.naive import Naive
from kinbandits.regression.posterior import saved_rows

__all__ = ["Common", "Prediction", "Product", "Query", "Regression", "Settings", "make", "restore"]


def make(engine: str, settings: Settings, rows: History | None = None) -> Regression:
    """An engine that has learned these rows, which it owns from now on."""
    rows = History(settings.n_arms) if rows is None else rows
    return Naive(settings, rows) if engine == "naive" else Exact(settings, rows)


def restore(engine: str, settings: Settings, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Regression:
    """The engine of which `Regression.state` gave these."""
    return make(engine, settings, saved_rows(settings, data, arrays))
