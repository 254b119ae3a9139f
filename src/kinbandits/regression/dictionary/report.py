"""How good a dictionary is, measured on the rows that are still kept.

residual    prior - k' P k of a row: the variance the dictionary cannot see, at most the prior
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from kinbandits._types import Vector
from kinbandits.errors import BudgetWarning

if TYPE_CHECKING:
    from kinbandits.regression.dictionary.engine import Dictionary

TOO_BLIND = 0.1  # of the prior variance: a mean residual above this and the budget is too small


def _residuals(engine: Dictionary) -> tuple[Vector, Vector]:
    """Residuals and priors of the last rows, 500 at most."""
    recent = engine.recent
    last = slice(max(0, len(recent) - 500), None)
    k = recent.k(engine.size)[last]
    prior = engine.pairs.prior(recent.arms[last], recent.contexts[last])
    return prior - np.einsum("ij,ij->i", k @ engine.inverses.P, k), prior


def blindness(engine: Dictionary) -> float:
    """The share of the prior variance of rows that the dictionary cannot see."""
    if not engine.size:
        return 0.0
    residual, prior = _residuals(engine)
    return max(0.0, float(residual.sum() / max(float(prior.sum()), 1e-300)))


def warn_if_blind(engine: Dictionary) -> None:
    """Warn if the dictionary is blind to too much of the prior variance."""
    share = blindness(engine)
    if share > TOO_BLIND:
        warnings.warn(
            f"the dictionary of {engine.capacity} points cannot see {100.0 * share:.0f} % of the prior variance of "
            f"the rows: means are poor and widths stay large. Try {2 * engine.capacity} points, or a wider kernel",
            BudgetWarning,
            stacklevel=3,
        )


def report(engine: Dictionary) -> dict[str, Any]:
    """For a person to read."""
    known: dict[str, Any] = {"method": "dictionary", "budget": engine.capacity, "points": engine.size}
    known["rows"] = engine.n_rows
    if not engine.size:
        return known
    residual, prior = _residuals(engine)
    share = float(residual.mean() / max(float(prior.mean()), 1e-300))
    enough = share <= TOO_BLIND
    rows = engine.rows
    assert rows is not None
    return known | {
        "rows_kept": len(rows),
        "rebuilt_from": engine.rebuilt_from,
        "swaps": engine.swaps,
        "refreshes": engine.refreshes,
        "largest_residual": float(residual.max()),
        "mean_residual": float(residual.mean()),
        "mean_prior": float(prior.mean()),
        "budget_is_enough": enough,
        "advice": "" if enough else f"try {2 * engine.capacity} points",
    }
