"""Multi-task kernel ridge regression: one contract (`contract`), several engines.

``naive`` is the paper's formula, dense and literal. ``exact`` gives the same answers, fast. A budget of so many
points (`switch.Budget`) makes cost and memory constant; ``auto`` starts exact and ends with a dictionary.
"""

from typing import Any, Literal

from numpy.typing import NDArray

from kinbandits.history import History
from kinbandits.regression.contract import Common, Prediction, Product, Query, Regression, Settings
from kinbandits.regression.dictionary import Dictionary
from kinbandits.regression.naive import Naive
from kinbandits.regression.posterior import saved_rows
from kinbandits.regression.switch import Auto, Budget, Switch

__all__ = ["Common", "Engine", "Prediction", "Product", "Query", "Regression", "Settings", "holding", "make", "restore"]

Engine = Literal["naive", "exact", "auto"] | Budget


def make(engine: Engine, settings: Settings, rows: History | None = None) -> Regression:
    """An engine that has learned these rows, which it owns from now on."""
    rows = History(settings.n_arms) if rows is None else rows
    if engine == "naive":
        return Naive(settings, rows)
    if engine == "exact":
        return Switch(settings, rows, None)
    if engine == "auto":
        return Switch(settings, rows, Auto(), forced=False)
    return Switch(settings, rows, engine)


def restore(engine: Engine, settings: Settings, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Regression:
    """The engine of which `Regression.state` gave these."""
    if data["kind"] == "rows":
        return make(engine, settings, saved_rows(settings, data, arrays))
    return holding(engine, Dictionary.restored(settings, data, arrays))


def holding(engine: Engine, dictionary: Dictionary) -> Regression:
    """An engine of this name that has come as far as this dictionary."""
    other = make(engine, dictionary.settings)
    if isinstance(other, Switch):
        other.at_work = dictionary
    return other if isinstance(other, Switch) else dictionary
