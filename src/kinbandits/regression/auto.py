"""``engine="auto"``: exact while that is affordable, then budgeted.

At `CHANGEOVER` rows all of them are still there, so the dictionary is built from every row, in order: the budgeted
engine then knows what it would know had it been there from the start, with `LEAST_BUDGET` points at least. How far
the decisions agree across the change is a test (`tests/regression/test_auto.py`). Kernels with a finite feature map
stay exact: there the exact engine's cost does not grow either. A similarity that changes in steps stays
as it is then.
"""

from __future__ import annotations

import dataclasses

from kinbandits.regression.base import Regression, RegressionSettings
from kinbandits.regression.budgeted import BudgetedRegression, largest_budget
from kinbandits.regression.exact import ExactRegression

CHANGEOVER = 5000  # rows: the paper's longest experiments (T = 4000) stay exact
LEAST_BUDGET = 1000


def changed_over(regression: Regression) -> Regression:
    """The regression to go on with: itself, or budgeted if it has passed `CHANGEOVER` rows."""
    if not isinstance(regression, ExactRegression) or not regression.grows:
        return regression
    if len(regression.history) <= CHANGEOVER:
        return regression
    settled = regression.settings.terms.settled(regression.similarity_matrices)
    settings = dataclasses.replace(regression.settings, terms=settled)
    settings = budgeted_settings(settings, regression.history.n_arms)
    return BudgetedRegression(settings, regression.history)


def budgeted_settings(settings: RegressionSettings, n_arms: int) -> RegressionSettings:
    """The settings after the change: as many points as asked for, `LEAST_BUDGET` at least, if they fit."""
    budget = max(settings.budget, LEAST_BUDGET)
    return dataclasses.replace(settings, budget=min(budget, largest_budget(settings, n_arms)))
