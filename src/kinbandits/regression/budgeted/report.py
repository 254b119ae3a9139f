"""How good a dictionary is: measured on the rows that are still kept.

residual            prior - k' P k of a row: the variance the dictionary cannot see, at most the prior
effective dimension sum of mu / (mu + ridge) over the eigenvalues mu of the kernel matrix of all rows, for which
those of the rows kept stand, times (rows learned / rows kept)
error               the same rows fitted exactly and by the dictionary, and compared on rows left out and on those
                    fitted: the larger of the two
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._work import finished
from kinbandits.errors import BudgetWarning
from kinbandits.regression.budgeted.slices import posterior_inverses

if TYPE_CHECKING:
    from kinbandits.regression.budgeted.engine import BudgetedRegression
    from kinbandits.regression.budgeted.model import Model


TOO_BLIND = 0.1  # of the prior variance: a mean residual above this and the budget is too small
_MOST = 1000  # rows looked at


def budget_report(regression: BudgetedRegression) -> dict[str, Any]:
    """What `KMTLUCB.engine_report` gives for the budgeted engine."""
    model, settings = regression.model, regression.settings
    report: dict[str, Any] = {
        "budget": settings.budget,
        "rows": regression.n_observations,
        "points": 0 if model is None else model.size,
    }
    if model is None:
        return report
    residuals, priors = _residuals(model, _sample(model))
    mu = _spectrum(model)
    mean_error, width_error = _errors(model)
    enough = bool(residuals.mean() <= TOO_BLIND * priors.mean())
    needed, guessed = needed_points(model, enough)
    follower_error = max(f.error(model.tally.counts) for f in model.followers)
    return report | {
        "rows_kept": len(model.recent),
        "swaps": model.tally.swaps,
        "refreshes": model.tally.refreshes,
        "largest_residual": float(residuals.max()),
        "mean_residual": float(residuals.mean()),
        "mean_prior": float(priors.mean()),
        "effective_dimension": float((mu / (mu + settings.ridge * len(mu) / max(model.tally.n, len(mu)))).sum()),
        "effective_dimension_seen": _seen(model),
        "mean_error": mean_error,
        "width_error": width_error,
        "budget_needed": needed,
        "budget_needed_is_extrapolated": guessed,
        "budget_is_enough": enough,
        "embedding_error": follower_error,
    }


def warn_if_small(model: Model) -> None:
    """Warn if the dictionary is blind to too much of the prior variance."""
    residuals, priors = _residuals(model, _sample(model, 200))
    blind = float(residuals.mean() / priors.mean())
    if blind <= TOO_BLIND:
        return
    needed, guessed = needed_points(model, enough=False)
    warnings.warn(
        f"points={model.settings.budget} is too small for this kernel: its points miss {blind:.0%} of the variance "
        f"of the last rows (up to {TOO_BLIND:.0%} is fine), so means are flat and arms are explored without end. "
        f"{'About ' if guessed else ''}points={needed} would do, or a wider length_scale; engine_report() has the "
        "figures",
        BudgetWarning,
        stacklevel=6,
    )


def _sample(model: Model, most: int = _MOST) -> Indices:
    """Which rows kept to look at: all, or evenly spread ones."""
    n = len(model.recent)
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))


def _at_points(model: Model, rows: Indices) -> Matrix:
    """k of these rows kept, (n, rows), with the similarity in force."""
    return model.points.at(model.recent.arms[rows], model.recent.contexts[rows]).T


def _residuals(model: Model, rows: Indices) -> tuple[Vector, Vector]:
    kept = model.recent
    prior = model.settings.terms.prior(model.points.K_arms, kept.arms[rows], kept.contexts[rows])
    k = _at_points(model, rows)
    return np.maximum(prior - np.einsum("ij,ij->j", k, model.posterior.P @ k), 0.0), prior


def _spectrum(model: Model) -> Vector:
    kept, rows = model.recent, _sample(model)
    a, X = kept.arms[rows], kept.contexts[rows]
    mu = np.linalg.eigvalsh(model.settings.terms.gram(model.points.K_arms, a, X, a, X))[::-1]
    return np.asarray(np.maximum(mu, 0.0))


def needed_points(model: Model, enough: bool) -> tuple[int, bool]:
    """Points that would miss no more than `TOO_BLIND`, and whether the rows kept were too few to see it.

    Points are chosen while rows come: where those in force are not ``enough``, a quarter more is advised at least.
    """
    best, guessed = _best(model)
    return (best if enough else max(best, math.ceil(1.25 * model.settings.budget))), guessed


def _best(model: Model) -> tuple[int, bool]:
    """As `needed_points`, with all rows in view.

    Of every two rows kept one may become a point (the one of the largest residual, again and again: pivoted
    Cholesky) and the other is a judge. Where the judges' mean residual does not fall so far, it is continued as a
    power of the number of points.
    """
    kept, rows = model.recent, _sample(model)
    a, X = kept.arms[rows], kept.contexts[rows]
    K = model.settings.terms.gram(model.points.K_arms, a, X, a, X)
    may, judge = np.arange(0, len(rows), 2), np.arange(1, len(rows), 2)
    residual = K.diagonal().copy()
    wanted = TOO_BLIND * float(residual.mean())
    columns = np.zeros((len(rows), len(may)))
    curve: list[float] = []
    for r in range(len(may)):
        pivot = may[int(np.argmax(residual[may]))]
        if residual[pivot] <= 1e-12:
            return max(r, 1), False
        column = K[:, pivot] - columns[:, :r] @ columns[pivot, :r]
        columns[:, r] = column / np.sqrt(residual[pivot])
        residual = np.maximum(residual - columns[:, r] ** 2, 0.0)
        curve.append(float(residual[judge].mean()) if len(judge) else 0.0)
        if curve[-1] <= wanted:
            return r + 1, False
    half, end = max(1, len(curve) // 2), len(curve)
    slope = np.log(curve[half - 1] / curve[-1]) / np.log(end / half) if end > half else 0.0
    more = (curve[-1] / wanted) ** (1.0 / max(slope, 0.05))
    return int(min(np.ceil(end * more), 10 * model.tally.n)), True


def _seen(model: Model) -> float:
    """tr(S~ A) = n - ridge tr(K A): the effective dimension within the dictionary, at most its size."""
    K = model.points.gram
    return float(model.size - model.settings.ridge * np.einsum("ij,ij->", K, model.posterior.A))


def _errors(model: Model) -> tuple[float, float]:
    """Root mean square difference of means and of widths, dictionary against exact, both from scratch."""
    rows = _sample(model, 600)
    if len(rows) < 2:
        return 0.0, 0.0
    found = np.array([_compared(model, rows[::2], rows[1::2]), _compared(model, rows, rows)])
    mean_error, width_error = found.max(axis=0).tolist()
    return mean_error, width_error


def _compared(model: Model, learn: Indices, test: Indices) -> tuple[float, float]:
    """The same, of the rows kept in ``learn`` at those in ``test``."""
    settings, kept = model.settings, model.recent
    arms, X, rewards = kept.arms[learn], kept.contexts[learn], kept.rewards[learn]
    noise = settings.noise(arms, np.bincount(arms, minlength=model.n_arms))
    K = settings.terms.gram(model.points.K_arms, arms, X, arms, X)
    cross = settings.terms.gram(model.points.K_arms, arms, X, kept.arms[test], kept.contexts[test])
    prior = settings.terms.prior(model.points.K_arms, kept.arms[test], kept.contexts[test])
    M = cho_factor(K + np.diag(noise), lower=True)
    mean = cross.T @ cho_solve(M, rewards)
    width = settings.width(prior, np.einsum("ij,ij->j", cross, cho_solve(M, cross)))
    k, k_test = _at_points(model, learn), _at_points(model, test)
    weighted = k * (settings.ridge / noise)
    gram = model.points.gram
    P, A, _ = finished(posterior_inverses(gram, weighted @ k.T, settings.ridge))
    gap = P - settings.ridge * A
    mean_dictionary = k_test.T @ (A @ (weighted @ rewards))
    width_dictionary = settings.width(prior, np.einsum("ij,ij->j", k_test, gap @ k_test))
    return _root_mean_square(mean - mean_dictionary), _root_mean_square(width - width_dictionary)


def _root_mean_square(errors: Vector) -> float:
    return float(np.sqrt(np.mean(errors * errors)))
