"""Multi-task kernel ridge regression: one contract (`base`), several engines.

``naive`` is the paper's formula, dense and literal. ``exact`` gives the same answers from cached parts.
"""

from kinbandits.history import History
from kinbandits.regression.base import Prediction, Query, Regression, Ridge
from kinbandits.regression.dense import DenseRegression
from kinbandits.regression.exact import ExactRegression
from kinbandits.regression.naive import NaiveRegression

__all__ = ["ENGINES", "Prediction", "Query", "Regression", "Ridge", "make_regression"]

ENGINES: dict[str, type[Regression]] = {
    "naive": NaiveRegression,
    "exact": ExactRegression,
    "refactorise": DenseRegression,
}


def make_regression(engine: str, settings: Ridge, history: History) -> Regression:
    """The engine of this name; ``"auto"`` is ``"exact"``."""
    return ENGINES["exact" if engine == "auto" else engine](settings, history)
