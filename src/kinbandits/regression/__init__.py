"""Multi-task kernel ridge regression: one contract (`base`), several engines.

``naive`` is the paper's formula, dense and literal. ``exact`` gives the same answers, fast. ``budgeted`` has
constant cost and memory. ``auto`` starts exact and ends budgeted.
"""

from typing import Any

from numpy.typing import NDArray

from kinbandits.history import History
from kinbandits.regression.auto import AutoRegression, budgeted_settings, changed_over
from kinbandits.regression.base import Prediction, Query, Regression, RegressionSettings, capped
from kinbandits.regression.budgeted import BudgetedRegression
from kinbandits.regression.exact import Coming, ExactRegression
from kinbandits.regression.naive import NaiveRegression

__all__ = [
    "ENGINES",
    "Coming",
    "ExactRegression",
    "Prediction",
    "Query",
    "Regression",
    "RegressionSettings",
    "budgeted_settings",
    "capped",
    "changed_over",
    "make_regression",
    "restore_regression",
]

ENGINES: dict[str, type[Regression]] = {
    "naive": NaiveRegression,
    "exact": ExactRegression,
    "budgeted": BudgetedRegression,
}


def make_regression(engine: str, settings: RegressionSettings, history: History) -> Regression:
    """The engine of this name; ``"auto"`` is exact until `changed_over` says otherwise."""
    if engine == "auto":
        return changed_over(AutoRegression(settings, history))
    return ENGINES[engine](settings, history)


def restore_regression(
    engine: str, settings: RegressionSettings, data: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> Regression:
    """The engine of this name with what `Regression.to_data` gave."""
    empty = History(data["n_arms"])
    if engine == "auto" and "next_check" in data:  # it had changed over
        points = len(arrays.get("dictionary_arms", ()))
        engine, settings = "budgeted", budgeted_settings(settings, data["n_arms"], points)
    return changed_over(make_regression(engine, settings, empty).restored(data, arrays))
