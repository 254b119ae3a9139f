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

    The difference of two targets decides what is deployed. Where few rows of large weight count, or the logger
    learned on the way, its estimated variance is often too small just when the estimate is too high, and a third
    moment says little. So the square of the row that might have come is added to the variance, and skewness may
    widen the interval, not narrow it (benchmarks/coverage_difference.py).

    Without a reward range, rewards of 0 and 1 alone are clicks, in [0, 1]. Others have no limits: no interval stops
    at the rewards that were seen, and the row that might have come has the highest (lowest) of those, and their
    spread again beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from kinbandits._checks import LARGEST, as_float64
from kinbandits._html import text_table
from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import positive, real
from kinbandits.errors import InvalidInputError
from kinbandits.log_rows import check_propensities

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
        difference: dr less that of the policy it is compared with (of the first: the log), row by row; with a model.
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
        rows = [[e.name, f"{e.value:.4f}", f"{e.low:.4f} .. {e.high:.4f}"] for e in self.estimates.values()]
        size = f"rows {self.n}, effective {self.effective_n:.0f}; mean reward of the log {self.logged:.4f}"
        table = text_table("Reward a round", ["estimator", "value", "interval"], rows, [1])
        return "\n".join([table, size, *(f"Warning: {w}" for w in self.warnings)])


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
    return evaluated(tallies(r, p, played, [pi], q, clip), 0, level=level, reward_range=reward_range, clip=clip)


# -- what is additive over rows ---------------------------------------------------------------------

Tally = dict[str, NDArray[Any]]  # (targets, ...): moments; least p, r; most pi, r, w, change of pi; counts
_W, _IPS, _R, _DIRECT, _DR, _MORE, _SQUARED = range(7)


def tallies(
    r: Vector, p: Vector, played: Indices, targets: Sequence[Matrix], q: Matrix | None = None, clip: float | None = None
) -> Tally:
    """The sums over rows for each target (n, k), stacked; `merged` adds those of other rows.

    The first target is compared with the log itself, the others with the first. ``moments`` has by row n, mean, and
    sums of squares and cubes around the mean, never raw squares: nothing is lost where rewards are nearly equal. Its
    last column is r, where a row counts as w^2 rows.
    """
    rows, limit = np.arange(len(r)), np.inf if clip is None else positive("clip", clip)
    others = ((r != 0.0) & (r != 1.0)).sum()
    against, base, found = r, np.zeros_like(targets[0]), list[Tally]()
    for pi in targets:
        w = pi[rows, played] / p
        counts = np.array([(p >= 1.0 - 1e-12).sum(), (w > limit).sum(), others], dtype=np.float64)
        w = np.minimum(w, limit)
        direct = np.full(len(r), np.nan) if q is None else np.einsum("ij,ij->i", pi, q)
        dr = direct if q is None else direct + w * (r - q[rows, played])
        values = np.stack([w, w * r, r, direct, dr, dr - against, r])
        weights = np.ones_like(values)
        weights[_SQUARED] = w * w
        n = weights.sum(axis=1)
        means = (weights * values).sum(axis=1) / np.where(n, n, 1.0)
        apart = values - means[:, None]
        moments = np.stack([n, means, (weights * apart**2).sum(axis=1), (weights * apart**3).sum(axis=1)])
        least, most = [p.min(), r.min()], [pi.max(), r.max(), w.max(), np.abs(pi - base).max()]
        found.append({"moments": moments, "least": np.array(least), "most": np.array(most), "counts": counts})
        if len(found) == 1:
            against, base = dr, pi
    return {name: np.stack([one[name] for one in found]) for name in found[0]}


def merged(a: Tally, b: Tally) -> Tally:
    """Of the rows of both."""
    (n, x, *_), (m, y, *_) = (np.moveaxis(t["moments"], 1, 0) for t in (a, b))
    centre = x + (y - x) * m / np.where(n + m, n + m, 1.0)
    around = [_around(t["moments"], centre) for t in (a, b)]
    return {
        "moments": np.stack([n + m, centre, *(one + other for one, other in zip(*around, strict=True))], axis=1),
        "least": np.minimum(a["least"], b["least"]),
        "most": np.maximum(a["most"], b["most"]),
        "counts": a["counts"] + b["counts"],
    }


def _around(moments: NDArray[Any], centre: Matrix) -> tuple[Matrix, Matrix]:
    """The sums of squares and cubes around another centre."""
    n, mean, squares, cubes = np.moveaxis(moments, 1, 0)
    d = mean - centre
    return squares + n * d**2, cubes + 3.0 * d * squares + n * d**3


def evaluated(
    found: Tally, i: int, *, level: float, reward_range: tuple[float, float] | None, clip: float | None = None
) -> Evaluation:
    """The estimators' answers about target i."""
    found = {name: array[i] for name, array in found.items()}
    level = real("level", level)
    if not 0.0 < level < 1.0:
        raise InvalidInputError(f"level must be between 0 and 1, got {level!r}")
    z = float(ndtri(0.5 + level / 2.0))
    columns, n = found["moments"].T, int(found["moments"][0, 0])
    W = min(float(found["most"][0] / found["least"][0]), np.inf if clip is None else clip)
    least, most = float(found["least"][1]), float(found["most"][1])
    bounded = reward_range is not None or not found["counts"][2]
    low, high = (0.0, 1.0) if bounded else (2.0 * least - most, 2.0 * most - least)
    if reward_range is not None:
        low, high = (real(f"reward_range[{end}]", reward_range[end]) for end in (0, 1))
        if not (low <= least and most <= high):
            raise InvalidInputError(f"reward_range is ({low}, {high}), but rewards are in [{least}, {most}]")
    within = (low, high) if bounded else (-np.inf, np.inf)

    estimates = {"ips": _interval("ips", columns[_IPS], z, (W * min(low, 0.0), W * max(high, 0.0)), within, skew=1.0)}
    weight, direct = float(columns[_W, 1]), float(columns[_DIRECT, 1])
    if weight > 0.0:
        estimates["snips"] = _snips(columns, z, W, low, high, bounded)
    difference = None
    if not np.isnan(direct):
        ends = W * min(0.0, low - direct), W * max(0.0, high - direct)
        dr = _interval("dr", columns[_DR], z, ends, within)
        error = dr.standard_error  # the influence function of a regular plug-in estimate is that of dr
        estimates["direct"] = Estimate("direct", direct, min(dr.low, direct), max(dr.high, direct), error)
        estimates["dr"] = dr
        widest, room = max(-ends[0], ends[1]) * float(found["most"][3] / found["most"][0]), within[1] - within[0]
        difference = _interval("difference", columns[_MORE], z, (-widest, widest), (-room, room), careful=True)
    square = float(columns[_SQUARED, 0])
    effective = (n * weight) ** 2 / square if square else 0.0
    return Evaluation(
        estimates=estimates,
        n=n,
        effective_n=effective,
        mean_weight=weight,
        largest_weight=float(found["most"][2]),
        logged=float(columns[_R, 1]),
        warnings=tuple(_warnings(found, effective, W)),
        clipped=int(found["counts"][1]),
        difference=difference,
    )


def _interval(
    name: str,
    moments: Vector,
    z: float,
    extremes: tuple[float, float],
    most: tuple[float, float],
    *,
    skew: float = 2.0 / 3.0,
    careful: bool = False,
) -> Estimate:
    """A mean of terms, which cannot be beyond ``most``; ``extremes`` are the terms that might have come.

    ``skew`` is how much of the variance's slope counts: 1 is the score interval, 2/3 that of the likelihood ratio
    to second order. The first covers as it says for ips, whose terms have one sign, the second for dr, whose terms
    have both. ``careful`` adds the square of the term that might have come to the variance, and leaves out a slope
    that would bring an end nearer.
    """
    n, value, squares, cubes = (float(x) for x in moments[:4])
    if n == 1:
        return Estimate(name, value, -float("inf"), float("inf"), float("inf"))
    squares *= n / (n - 1)
    ends = []
    for extreme, sign in zip(extremes, (-1, 1), strict=True):
        second = squares + extreme**2
        slope = (cubes + extreme**3) / second if second else 0.0
        slope = sign * max(sign * slope, 0.0) if careful else slope
        variance = z * z * (squares + careful * extreme**2) / n**2
        ends.append(value + _distance(variance, skew * z * z * slope / n, 0.0, sign))
    low, high = min(max(ends[0], most[0]), value), max(min(ends[1], most[1]), value)
    return Estimate(name, value, low, high, float(np.sqrt(squares) / n))


def _snips(columns: Matrix, z: float, W: float, low: float, high: float, bounded: bool) -> Estimate:
    total, sums = float(columns[_W, 0] * columns[_W, 1]), float(columns[_IPS, 0] * columns[_IPS, 1])
    weight, mean, around = (float(x) for x in columns[_SQUARED, :3])
    least, value, most = ratio_interval(total, sums, (weight, mean, around), W, (low, high), z, bounded)
    return Estimate("snips", value, least, most, float(np.sqrt(around + weight * (mean - value) ** 2) / total))


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
    n, mean, squares = (float(x) for x in tally["moments"][:3, _W])
    certain = float(tally["counts"][0]) / n
    if certain > 0.01:
        found.append(
            f"{certain:.0%} of the rows were chosen with probability 1: where the target would have chosen "
            "otherwise the log knows nothing, and ips, snips and dr are biased. Log with epsilon above 0"
        )
    error = np.sqrt(squares / (n - 1) / n) if n > 1 else 0.0
    if abs(mean - 1.0) > 4.0 * error + 1e-9 and not tally["counts"][1]:
        found.append(
            f"the weights' mean is {mean:.2f}, where full support would give 1: the target plays what the log "
            "never did, or the logged propensities are wrong"
        )
    if effective < 0.01 * n or effective < 30:
        found.append(f"the effective sample size is {effective:.0f} of {n:.0f} rows: intervals are wide")
    if n < 10.0 * W:
        found.append(
            f"one row may weigh {W:.0f} of {n:.0f}: the log rarely plays what the target prefers, so that a few rows "
            "decide. Log more rounds, or with a larger epsilon"
        )
    if tally["least"][1] == tally["most"][1] and tally["counts"][2]:
        found.append("all rewards are the same, so nothing is known of their spread; give reward_range")
    if tally["counts"][1]:
        found.append(
            f"{int(tally['counts'][1])} of {n:.0f} weights were clipped: ips, snips and dr are biased towards less "
            "change, and their intervals do not know by how much"
        )
    return found


def _checked(
    rewards: ArrayLike, propensities: ArrayLike, chosen: ArrayLike, target: ArrayLike
) -> tuple[Vector, Vector, Matrix, Indices]:
    r, p, pi = (as_float64(*a) for a in (("rewards", rewards), ("propensities", propensities), ("target", target)))
    played = np.asarray(chosen)
    if r.ndim != 1 or not len(r):
        raise InvalidInputError(f"rewards must be (n,) with at least one row, got shape {r.shape}")
    if pi.ndim != 2 or len(pi) != len(r) or p.shape != r.shape or played.shape != r.shape:
        raise InvalidInputError(
            f"{len(r)} rewards need as many propensities, choices and rows of target; got shapes {p.shape}, "
            f"{played.shape}, {pi.shape}"
        )
    check_propensities(p, r, 1.0 / LARGEST)
    if not np.issubdtype(played.dtype, np.integer) or played.min() < 0 or played.max() >= pi.shape[1]:
        raise InvalidInputError(f"chosen must be whole numbers from 0 to {pi.shape[1] - 1}")
    if pi.min() < -1e-12 or np.abs(pi.sum(axis=1) - 1.0).max() > 1e-9:
        raise InvalidInputError("each row of target must be probabilities that sum to 1")
    return r, p, pi, played.astype(np.intp)
