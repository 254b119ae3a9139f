"""Off-policy evaluation: what other policies would have earned, from a log, with intervals.

    print(kb.ope.evaluate(log, {"live": live, "new": new}))

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
    And they do not know that few rows with large rewards have a small variance where the truth is smaller. So each
    end is where the distance to the estimate is z deviations *as they are at that end*: of a count, N - end =
    z sqrt(end); of a share, Wilson's interval. The variance changes with the mean by third over second moment, to
    which adds one row that might have come: with the largest weight that there could be, W = max pi / min p, and
    the highest reward for the upper end, the lowest for the lower one. ``direct`` has the interval of ``dr``.

    Without a reward range, rewards of 0 and 1 alone are clicks, in [0, 1]. Others have no limits: no interval stops
    at the rewards that were seen, and the row that might have come has the highest (lowest) of those, and their
    spread again beyond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from kinbandits._checks import LARGEST, as_float64
from kinbandits._html import html_table
from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import positive, real
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
        clipped: rows whose weight was clipped.
        difference: dr less that of the policy it is compared with, row by row, if there is one.
    """

    estimates: dict[str, Estimate]
    n: int
    effective_n: float
    mean_weight: float
    largest_weight: float
    logged: float
    warnings: tuple[str, ...]
    clipped: int = 0
    difference: Estimate | None = None

    def __str__(self) -> str:
        lines = [f"{'estimator':<10} {'value':>9}   interval"]
        for e in self.estimates.values():
            lines.append(f"{e.name:<10} {e.value:>9.4f}   {e.low:.4f} .. {e.high:.4f}")
        return "\n".join([*lines, *self._notes])

    def _repr_html_(self) -> str:
        rows = [[e.name, f"{e.value:.4f}", f"{e.low:.4f} .. {e.high:.4f}"] for e in self.estimates.values()]
        return html_table("Reward a round", ["estimator", "value", "interval"], rows, self._notes)

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
    clip: float | None = None,
) -> Evaluation:
    """What the target policy would have earned per round.

    Args:
        rewards: (n,) r.
        propensities: (n,) p, each above 0 and at most 1.
        chosen: (n,) which candidate was played, counted from 0.
        target: (n, k) pi; rows sum to 1. Candidates that a round lacks have probability 0.
        model: (n, k) q, for ``direct`` and ``dr``. Learn it from other rows than it is used on.
        level: of the intervals.
        reward_range: (lowest, highest) possible reward, which limits what the intervals expect of a row that did
            not come. Left out, rewards of 0 and 1 alone are in [0, 1], others have no limits.
        clip: the largest weight; heavier rows count as if they had this one. Less variance, and a bias.

    Example:
        >>> log = dict(rewards=[1.0, 0.0, 1.0, 1.0], propensities=[0.5] * 4, chosen=[0, 1, 0, 1])
        >>> found = estimate(**log, target=[[1.0, 0.0]] * 4)      # always the first
        >>> found.estimates["ips"].value, found.effective_n
        (1.0, 2.0)
    """
    r, p, pi, played = _checked(rewards, propensities, chosen, target)
    q = None if model is None else as_float64("model", model)
    if q is not None and q.shape != pi.shape:
        raise InvalidInputError(f"model has shape {q.shape}, but target has {pi.shape}")
    return evaluated(tally(terms(r, p, pi, played, q, clip)), level=level, reward_range=reward_range)


# -- what is additive over rows ---------------------------------------------------------------------

Tally = dict[str, NDArray[np.float64]]
_W, _IPS, _R, _DIRECT, _DR, _MORE = range(6)


class Terms(NamedTuple):
    """What rows add to the estimators, (n,) each: w, r, direct, dr; extremes and counts of the whole."""

    w: Vector
    r: Vector
    direct: Vector | None
    dr: Vector | None
    least: Vector  # of p, r
    most: Vector  # of pi, r, w
    counts: Vector  # rows chosen for certain, weights clipped, rewards other than 0 and 1
    clip: float


def terms(
    r: Vector, p: Vector, pi: Matrix, played: Indices, q: Matrix | None = None, clip: float | None = None
) -> Terms:
    """What these rows add."""
    rows = np.arange(len(r))
    w = pi[rows, played] / p
    limit = np.inf if clip is None else positive("clip", clip)
    clipped, w = int((w > limit).sum()), np.minimum(w, limit)
    direct = dr = None
    if q is not None:
        direct = np.einsum("ij,ij->i", pi, q)
        dr = direct + w * (r - q[rows, played])
    certain = (p >= 1.0 - 1e-12).sum()
    least, most = np.array([p.min(), r.min()]), np.array([pi.max(), r.max(), w.max()])
    others = ((r != 0.0) & (r != 1.0)).sum()
    return Terms(w, r, direct, dr, least, most, np.array([certain, clipped, others], dtype=np.float64), limit)


def tally(given: Terms, against: Terms | None = None) -> Tally:
    """Their sums: `merged` adds those of other rows. ``against`` has the terms of another target, to compare with.

    Means and sums of powers around them, never raw squares: nothing is lost where rewards are nearly equal.
    """
    w, r = given.w, given.r
    nothing = np.zeros(len(r))
    direct, dr = (nothing if v is None else v for v in (given.direct, given.dr))
    more = nothing if against is None or against.dr is None else dr - against.dr
    values = np.stack([w, w * r, r, direct, dr, more])
    means = values.mean(axis=1)
    apart = values - means[:, None]
    v = w * w
    total = float(v.sum())
    middle = float(v @ r) / total if total else 0.0
    return {
        "n": np.array([float(len(r))]),
        "means": means,
        "squares": (apart**2).sum(axis=1),
        "cubes": (apart**3).sum(axis=1),
        "ratio": np.array([total, middle, float(v @ (r - middle) ** 2)]),
        "least": given.least,
        "most": given.most,
        "counts": given.counts,
        "has": np.array([given.dr is not None, against is not None], dtype=np.float64),
        "clip": np.array([given.clip]),
    }


def merged(a: Tally, b: Tally) -> Tally:
    """Of the rows of both."""
    n, m = a["n"], b["n"]
    apart = b["means"] - a["means"]
    (v, x, s), (u, y, t) = a["ratio"], b["ratio"]
    total = v + u
    share = u / total if total else 0.0
    return {
        "n": n + m,
        "means": a["means"] + apart * m / (n + m),
        "squares": a["squares"] + b["squares"] + apart**2 * n * m / (n + m),
        "cubes": a["cubes"]
        + b["cubes"]
        + apart**3 * n * m * (n - m) / (n + m) ** 2
        + 3.0 * apart * (n * b["squares"] - m * a["squares"]) / (n + m),
        "ratio": np.array([total, x + (y - x) * share, s + t + v * share * (y - x) ** 2]),
        "least": np.minimum(a["least"], b["least"]),
        "most": np.maximum(a["most"], b["most"]),
        "counts": a["counts"] + b["counts"],
        "has": np.minimum(a["has"], b["has"]),
        "clip": a["clip"],
    }


def evaluated(found: Tally, *, level: float = 0.95, reward_range: tuple[float, float] | None = None) -> Evaluation:
    """The estimators' answers from a tally."""
    level = real("level", level)
    if not 0.0 < level < 1.0:
        raise InvalidInputError(f"level must be between 0 and 1, got {level!r}")
    z = float(ndtri(0.5 + level / 2.0))
    n, means, squares = int(found["n"][0]), found["means"], found["squares"]
    W = min(float(found["most"][0] / found["least"][0]), float(found["clip"][0]))
    (low, high), bounded = _limits(found, reward_range)
    within = (low, high) if bounded else (-np.inf, np.inf)

    ends = W * min(low, 0.0), W * max(high, 0.0)
    estimates = {"ips": _interval(found, "ips", _IPS, z, ends, within, skew=1.0)}
    if means[_W] > 0.0:
        estimates["snips"] = _snips(found, z, W, low, high, bounded)
    difference = None
    if found["has"][0]:
        direct = float(means[_DIRECT])
        ends = W * min(0.0, low - direct), W * max(0.0, high - direct)
        dr = _interval(found, "dr", _DR, z, ends, within)
        error = dr.standard_error  # the influence function of a regular plug-in estimate is that of dr
        estimates["direct"] = Estimate("direct", direct, min(dr.low, direct), max(dr.high, direct), error)
        estimates["dr"] = dr
        if found["has"][1]:
            widest = max(-ends[0], ends[1])
            most = within[1] - within[0]
            difference = _interval(found, "difference", _MORE, z, (-widest, widest), (-most, most))
    square = float(squares[_W] + n * means[_W] ** 2)
    effective = float(n * means[_W]) ** 2 / square if square else 0.0
    return Evaluation(
        estimates=estimates,
        n=n,
        effective_n=effective,
        mean_weight=float(means[_W]),
        largest_weight=float(found["most"][2]),
        logged=float(means[_R]),
        warnings=tuple(_warnings(found, effective, W)),
        clipped=int(found["counts"][1]),
        difference=difference,
    )


def _limits(found: Tally, given: tuple[float, float] | None) -> tuple[tuple[float, float], bool]:
    """The highest and lowest reward that a row may have that did not come, and whether there are none beyond."""
    least, most = float(found["least"][1]), float(found["most"][1])
    if given is None and not found["counts"][2]:
        return (0.0, 1.0), True
    if given is None:
        return (2.0 * least - most, 2.0 * most - least), False
    low, high = real("reward_range[0]", given[0]), real("reward_range[1]", given[1])
    if not (low <= least and most <= high):
        raise InvalidInputError(f"reward_range is ({low}, {high}), but rewards are in [{least}, {most}]")
    return (low, high), True


def _interval(
    found: Tally,
    name: str,
    of: int,
    z: float,
    extremes: tuple[float, float],
    most: tuple[float, float],
    *,
    skew: float = 2.0 / 3.0,
) -> Estimate:
    """A mean of terms, which cannot be beyond ``most``; ``extremes`` are the terms that might have come.

    ``skew`` is how much of the variance's slope counts: 1 is the score interval, 2/3 that of the likelihood ratio
    to second order. The first covers as it says for ips, whose terms have one sign, the second for dr, whose terms
    have both (docs/evaluation.md).
    """
    n, (value, squares, cubes) = int(found["n"][0]), (float(found[k][of]) for k in ("means", "squares", "cubes"))
    if n == 1:
        return Estimate(name, value, -float("inf"), float("inf"), float("inf"))
    squares *= n / (n - 1)
    ends = []
    for extreme, sign in zip(extremes, (-1, 1), strict=True):
        second = squares + extreme**2
        slope = (cubes + extreme**3) / second if second else 0.0
        ends.append(value + _distance(z * z * squares / n**2, skew * z * z * slope / n, 0.0, sign))
    low, high = min(max(ends[0], most[0]), value), max(min(ends[1], most[1]), value)
    return Estimate(name, value, low, high, float(np.sqrt(squares) / n))


def _snips(found: Tally, z: float, W: float, low: float, high: float, bounded: bool) -> Estimate:
    total, sums = float(found["n"][0] * found["means"][_W]), float(found["n"][0] * found["means"][_IPS])
    weight, mean, around = (float(x) for x in found["ratio"])
    ends = ratio_interval(total, sums, (weight, mean, around), W, (low, high), z, bounded)
    error = float(np.sqrt(around + weight * (mean - ends[1]) ** 2) / total)
    return Estimate("snips", ends[1], ends[0], ends[2], error)


def ratio_interval(
    total: float,
    sums: float,
    squares: tuple[float, float, float],
    largest: float,
    limits: tuple[float, float],
    z: float = 1.959964,
    bounded: bool = True,
) -> tuple[float, float, float]:
    """(low, value, high) of a ratio: d snips = sum(w (r - snips)) / sum(w).

    Wilson's interval: the variance is as (x - low) (high - x). Where rewards have no limits, it is the same everywhere.
    A third of a row that might have come, of the largest weight, is added first.

    Args:
        total, sums: sum(w), sum(w r).
        squares: sum(w^2), the mean of r with weights w^2, and the sum of squares around it.
        largest: the largest weight that a row may have.
        limits: the lowest and the highest reward that a row may have.
        z: normal quantile.
        bounded: whether there are no rewards beyond the limits.

    >>> [round(end, 2) for end in ratio_interval(40.0, 10.0, (40.0, 0.25, 7.5), 1.0, (0.0, 1.0))]  # 10 clicks of 40
    [0.14, 0.25, 0.41]
    """
    value, (low, high), ends = sums / total, limits, []
    weight, mean, around = squares
    for reward, sign in ((low, -1), (high, 1)):
        grown = total + largest / 3.0
        middle = (sums + largest / 3.0 * reward) / grown
        spread = around + weight * (mean - middle) ** 2 + (largest * (reward - middle)) ** 2 / 3.0
        variance, room = z * z * spread / grown**2, (middle - low) * (high - middle)
        curve = variance / room if room > 0.0 and bounded else 0.0
        ends.append(middle + _distance(variance, curve * (low + high - 2.0 * middle), curve, sign))
    if bounded:
        ends = [max(ends[0], low), min(ends[1], high)]
    return min(ends[0], value), value, max(ends[1], value)


def _distance(variance: float, slope: float, curve: float, sign: int) -> float:
    """The x of this sign with x^2 = variance + slope x - curve x^2: z deviations away, as they are there."""
    return (slope / 2.0 + sign * float(np.sqrt(slope**2 / 4.0 + (1.0 + curve) * variance))) / (1.0 + curve)


def _warnings(tally: Tally, effective: float, W: float) -> list[str]:
    found = []
    n, mean = int(tally["n"][0]), float(tally["means"][_W])
    certain = float(tally["counts"][0]) / n
    if certain > 0.01:
        found.append(
            f"{certain:.0%} of the rows were chosen with probability 1: where the target would have chosen "
            "otherwise the log knows nothing, and ips, snips and dr are biased. Log with epsilon above 0"
        )
    error = np.sqrt(tally["squares"][_W] / (n - 1) / n) if n > 1 else 0.0
    if abs(mean - 1.0) > 4.0 * error + 1e-9 and not tally["counts"][1]:
        found.append(
            f"the weights' mean is {mean:.2f}, where full support would give 1: the target plays what the log "
            "never did, or the logged propensities are wrong"
        )
    if effective < 0.01 * n or effective < 30:
        found.append(f"the effective sample size is {effective:.0f} of {n} rows: intervals are wide")
    if n < 10.0 * W:
        found.append(
            f"one row may weigh {W:.0f} of {n}: the log rarely plays what the target prefers, so that a few rows "
            "decide. Log more rounds, or with a larger epsilon"
        )
    if tally["least"][1] == tally["most"][1] and tally["counts"][2]:
        found.append("all rewards are the same, so nothing is known of their spread; give reward_range")
    if tally["counts"][1]:
        found.append(
            f"{int(tally['counts'][1])} of {n} weights were clipped: ips, snips and dr are biased towards less "
            "change, and their intervals do not know by how much"
        )
    return found


def _checked(
    rewards: ArrayLike, propensities: ArrayLike, chosen: ArrayLike, target: ArrayLike
) -> tuple[Vector, Vector, Matrix, Indices]:
    r, p, pi = (
        as_float64("rewards", rewards),
        as_float64("propensities", propensities),
        as_float64("target", target),
    )
    played = np.asarray(chosen)
    if r.ndim != 1 or not len(r):
        raise InvalidInputError(f"rewards must be (n,) with at least one row, got shape {r.shape}")
    if pi.ndim != 2 or len(pi) != len(r) or p.shape != r.shape or played.shape != r.shape:
        raise InvalidInputError(
            f"{len(r)} rewards need as many propensities, choices and rows of target; got shapes {p.shape}, "
            f"{played.shape}, {pi.shape}"
        )
    if p.min() < 1.0 / LARGEST or p.max() > 1.0 + 1e-12:
        swapped = r.min() > 0.0 and r.max() <= 1.0
        hint = "; the rewards could be propensities: are the two swapped?" if swapped else ""
        raise InvalidInputError(
            f"propensities must be above 0 (not below {1.0 / LARGEST:g}) and at most 1; they are in [{p.min()}, "
            f"{p.max()}]{hint}"
        )
    if not np.issubdtype(played.dtype, np.integer) or played.min() < 0 or played.max() >= pi.shape[1]:
        raise InvalidInputError(f"chosen must be whole numbers from 0 to {pi.shape[1] - 1}")
    if pi.min() < -1e-12 or np.abs(pi.sum(axis=1) - 1.0).max() > 1e-9:
        raise InvalidInputError("each row of target must be probabilities that sum to 1")
    return r, p, pi, played.astype(np.intp)
