"""Estimators of what another policy would have earned, with intervals.

Notation
    n                 rows of the log
    r        (n,)     rewards
    p        (n,)     propensities: the probability with which the logged arm was chosen, logged when it was
    pi       (n, k)   probabilities of the target policy for the k candidates of each row
    w        (n,)     pi(logged arm) / p
    q        (n, k)   a model's estimate of each candidate's reward, learned from other rows (cross-fitting)

    ips      mean(w r)                                        unbiased where p > 0 wherever pi > 0
    snips    sum(w r) / sum(w)                                less variance, bias of order 1/n
    direct   mean(sum_a pi(a) q(a))                           no weights; as good as the model
    dr       mean(sum_a pi(a) q(a) + w (r - q(logged arm)))   unbiased if p is right, whatever q

Intervals
    Normal intervals, estimate +- z sqrt(variance / n), are far too narrow where few rows have large weights: such a
    row may just not have come (weights to 191, 1,000 rows: 95 % intervals covered the truth in 26 to 94 % of logs).
    So one row is added that might have come: with the largest weight that there could be, W = max pi / min p, and
    the highest reward for the upper end, the lowest for the lower end. Each end is then that of the normal interval
    of n + 1 rows. For a rare event of equal weights this is close to the exact interval of a Poisson count; with
    many rows it comes to the normal interval. ``direct`` has the interval of ``dr`` around its own value: right
    where the model is, and silent about the model being wrong, so do not trust it alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import number_array
from kinbandits._html import html_table
from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import real
from kinbandits.errors import InvalidInputError

__all__ = ["Estimate", "Evaluation", "estimate"]


@dataclass(frozen=True)
class Estimate:
    """One estimator's answer with its interval."""

    name: str
    value: float
    low: float
    high: float
    standard_error: float


@dataclass(frozen=True)
class Evaluation:
    """The estimators' answers, and how much the log can say.

    Attributes:
        estimates: by name: ips, snips, and with a model direct and dr.
        n: rows used.
        effective_n: (sum w)^2 / sum w^2: how many rows drawn from the target itself would say as much.
        mean_weight: near 1 where the log supports the target; below, where part of it is missing.
        logged: mean reward of the log itself.
        warnings: in plain words.
    """

    estimates: dict[str, Estimate]
    n: int
    effective_n: float
    mean_weight: float
    largest_weight: float
    logged: float
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{'estimator':<10} {'value':>9}   95 % interval"]
        for e in self.estimates.values():
            lines.append(f"{e.name:<10} {e.value:>9.4f}   {e.low:.4f} .. {e.high:.4f}")
        return "\n".join([*lines, *self._notes])

    def _repr_html_(self) -> str:
        rows = [[e.name, f"{e.value:.4f}", f"{e.low:.4f} .. {e.high:.4f}"] for e in self.estimates.values()]
        return html_table("Reward a round", ["estimator", "value", "95 % interval"], rows, self._notes)

    @property
    def _notes(self) -> list[str]:
        size = f"rows {self.n}, effective {self.effective_n:.0f}; mean reward of the log {self.logged:.4f}"
        return [size, *(f"Warning: {w}" for w in self.warnings)]


def estimate(
    rewards: ArrayLike,
    propensities: ArrayLike,
    chosen: ArrayLike,
    target: ArrayLike,
    model: ArrayLike | None = None,
    *,
    level: float = 0.95,
    reward_range: tuple[float, float] | None = None,
) -> Evaluation:
    """What the target policy would have earned per round.

    Args:
        rewards: (n,) r.
        propensities: (n,) p, each above 0 and at most 1.
        chosen: (n,) which candidate was played, counted from 0.
        target: (n, k) pi; rows sum to 1. Candidates that a round lacks have probability 0.
        model: (n, k) q, for ``direct`` and ``dr``. Learn it from other rows than it is used on.
        level: of the intervals.
        reward_range: (lowest, highest) possible reward; left out, those of the log. It limits what the intervals
            expect of a row that did not come.

    Example:
        >>> log = dict(rewards=[1.0, 0.0, 1.0, 1.0], propensities=[0.5] * 4, chosen=[0, 1, 0, 1])
        >>> found = estimate(**log, target=[[1.0, 0.0]] * 4)      # always the first
        >>> found.estimates["ips"].value, found.effective_n
        (1.0, 2.0)
    """
    r, p, pi, played = _checked(rewards, propensities, chosen, target)
    level = real("level", level)
    if not 0.0 < level < 1.0:
        raise InvalidInputError(f"level must be between 0 and 1, got {level!r}")
    from scipy.special import ndtri

    z = float(ndtri(0.5 + level / 2.0))
    n = len(r)
    rows = np.arange(n)
    w = pi[rows, played] / p
    W = float(pi.max() / p.min())
    low, high = _limits(r, reward_range)
    found = {"ips": _interval("ips", w * r, z, W * min(low, 0.0), W * max(high, 0.0))}
    if w.sum() > 0.0:
        found["snips"] = _snips(w, r, z, W, low, high)
    if model is not None:
        q = number_array("model", model)
        if q.shape != pi.shape:
            raise InvalidInputError(f"model has shape {q.shape}, but target has {pi.shape}")
        direct = np.einsum("ij,ij->i", pi, q)
        corrections = w * (r - q[rows, played])
        ends = W * min(0.0, low - direct.mean()), W * max(0.0, high - direct.mean())
        # The influence function of a regular plug-in estimate is that of dr, whatever the model is made of.
        found["direct"] = _interval("direct", direct + corrections - corrections.mean(), z, *ends)
        found["dr"] = _interval("dr", direct + corrections, z, *ends)
    square = float(w @ w)
    effective = float(w.sum()) ** 2 / square if square else 0.0
    return Evaluation(
        estimates=found,
        n=n,
        effective_n=effective,
        mean_weight=float(w.mean()),
        largest_weight=float(w.max()),
        logged=float(r.mean()),
        warnings=tuple(_warnings(w, p, effective, W)),
    )


def _limits(r: Vector, given: tuple[float, float] | None) -> tuple[float, float]:
    if given is None:
        return float(r.min()), float(r.max())
    low, high = real("reward_range[0]", given[0]), real("reward_range[1]", given[1])
    if not (low <= r.min() and r.max() <= high):
        raise InvalidInputError(f"reward_range is ({low}, {high}), but rewards are in [{r.min()}, {r.max()}]")
    return low, high


def _interval(name: str, terms: Vector, z: float, lowest: float, highest: float) -> Estimate:
    """The mean of terms; the ends as if one term more had come, the lowest or the highest there could be."""
    n, value = len(terms), float(terms.mean())
    if n == 1:
        return Estimate(name, value, -float("inf"), float("inf"), float("inf"))
    squares = float(((terms - value) ** 2).sum()) * n / (n - 1)
    ends = [
        value + (extra + sign * z * np.sqrt(squares + extra**2)) / n for extra, sign in ((lowest, -1), (highest, 1))
    ]
    return Estimate(name, value, float(ends[0]), float(ends[1]), float(np.sqrt(squares) / n))


def _snips(w: Vector, r: Vector, z: float, W: float, low: float, high: float) -> Estimate:
    """A ratio: d snips = sum(w (r - snips)) / sum(w). The ends as in `_interval`, within the possible rewards."""
    total = float(w.sum())
    value = float(w @ r / total)
    ends = []
    for reward, sign in ((low, -1), (high, 1)):
        grown = total + W
        middle = (w @ r + W * reward) / grown
        error = np.sqrt(((w * (r - middle)) ** 2).sum() + (W * (reward - middle)) ** 2) / grown
        ends.append(float(np.clip(middle + sign * z * error, low, high)))
    error = float(np.sqrt(((w * (r - value)) ** 2).sum()) / total)
    return Estimate("snips", value, min(ends[0], value), max(ends[1], value), error)


def _warnings(w: Vector, p: Vector, effective: float, W: float) -> list[str]:
    found = []
    n = len(w)
    certain = float((p >= 1.0 - 1e-12).mean())
    if certain > 0.01:
        found.append(
            f"{certain:.0%} of the rows were chosen with probability 1: where the target would have chosen "
            "otherwise the log knows nothing, and ips, snips and dr are biased. Log with epsilon above 0"
        )
    error = w.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    if abs(w.mean() - 1.0) > 4.0 * error + 1e-9:
        found.append(
            f"the weights' mean is {w.mean():.2f}, where full support would give 1: the target plays what the log "
            "never did, or propensities were not logged as they were"
        )
    if effective < 0.01 * n or effective < 30:
        found.append(
            f"only {effective:.0f} of {n} rows speak about the target (effective sample size): intervals are wide"
        )
    if n < 10.0 * W:
        found.append(
            f"one row may weigh {W:.0f} of {n}: the log rarely plays what the target prefers, so that a few rows "
            "decide. Log more rounds, or with a larger epsilon"
        )
    return found


def _checked(
    rewards: ArrayLike, propensities: ArrayLike, chosen: ArrayLike, target: ArrayLike
) -> tuple[Vector, Vector, Matrix, Indices]:
    r, p, pi = (
        number_array("rewards", rewards),
        number_array("propensities", propensities),
        number_array("target", target),
    )
    played = np.asarray(chosen)
    if r.ndim != 1 or not len(r):
        raise InvalidInputError(f"rewards must be (n,) with at least one row, got shape {r.shape}")
    if pi.ndim != 2 or len(pi) != len(r) or p.shape != r.shape or played.shape != r.shape:
        raise InvalidInputError(
            f"{len(r)} rewards need as many propensities, choices and rows of target; got shapes {p.shape}, "
            f"{played.shape}, {pi.shape}"
        )
    if p.min() <= 0.0 or p.max() > 1.0 + 1e-12:
        swapped = r.min() > 0.0 and r.max() <= 1.0
        hint = "; the rewards could be propensities: are the two swapped?" if swapped else ""
        raise InvalidInputError(
            f"propensities must be above 0 and at most 1; they are in [{p.min()}, {p.max()}]{hint}"
        )
    if not np.issubdtype(played.dtype, np.integer) or played.min() < 0 or played.max() >= pi.shape[1]:
        raise InvalidInputError(f"chosen must be whole numbers from 0 to {pi.shape[1] - 1}")
    if pi.min() < -1e-12 or np.abs(pi.sum(axis=1) - 1.0).max() > 1e-9:
        raise InvalidInputError("each row of target must be probabilities that sum to 1")
    return r, p, pi, played.astype(np.intp)
