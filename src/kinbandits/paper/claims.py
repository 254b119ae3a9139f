"""The paper's claims, one by one: what it says, what the runs say, and a verdict that knows the count it claims.

    "better in all runs"          reproduced if it is better in every run
    "better in all but one"       reproduced if it is worse in at most one
    "the worst"                   no count is claimed: reproduced if the mean is, and the test agrees
    "equally well"                equivalence, by two one-sided t tests (TOST) with a margin of 5 % of the second
                                  method's mean: reproduced if both reject, contradicted if the 95 % interval of the
                                  paired difference lies wholly beyond the margin, undecided otherwise

A claim of "better" is contradicted where the interval lies on the wrong side of 0. p values are those of the
claim's own test (paired t; the larger of the pair for TOST; the largest over the other methods for "best" and
"worst"), adjusted by Holm's method over the claims of the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from kinbandits._types import Vector
from kinbandits.paper.protocol import EST, IND, IND_EQUAL, KNOWN, POOL
from kinbandits.report.results import Results, RunGroup
from kinbandits.report.statistics import half_width, holm

__all__ = ["MARGIN", "Claim", "check_claims", "tost"]

MARGIN = 0.05
"""How far apart "equally well" may be, as a share of the second method's mean."""


@dataclass(frozen=True)
class Claim:
    """One claim, checked.

    Attributes:
        where: data set.
        says: the claim.
        source: "paper" for what the paper states, "ours" for a check that we add.
        claimed: in how many runs the paper says that it holds, in its words.
        holds: runs in which it holds here.
        runs: of how many.
        verdict: "reproduced", "not reproduced", "contradicted" or "undecided".
        difference, low, high: mean paired difference and its 95 % interval (NaN where there are several).
        p: of the claim's own test.
        adjusted: by Holm's method over all claims.
        details: means.
    """

    where: str
    says: str
    source: str
    claimed: str
    holds: int
    runs: int
    verdict: str
    difference: float
    low: float
    high: float
    p: float
    adjusted: float
    details: str


def check_claims(results: Results) -> list[Claim]:
    """All claims about the data sets that were run."""
    found = list(_claims(results))
    adjusted = holm([c.p for c in found])
    return [replace(c, adjusted=p) for c, p in zip(found, adjusted, strict=True)]


def _claims(results: Results) -> Iterator[Claim]:
    best = f"{EST} is better than {IND}"
    equal = f"{EST} and {IND} perform equally well"
    for name, misses in (("Digits", 0), ("Segment", 0), ("MNIST", 1)):
        yield from _better(results.group(name), EST, IND, best, misses)
    yield from _better(
        results.group("Segment"), EST, IND_EQUAL, f"{best} at equal settings (the published ones differ)", None
    )
    for name in ("Letter", "Pendigits", "USPS"):
        yield from _equal(results.group(name), EST, IND, equal)
    news = results.group("Synthetic news")
    yield from _extreme(news, KNOWN, f"{KNOWN} with known similarity beats the other methods", 1, 0)
    yield from _extreme(news, POOL, f"{POOL} is the worst", -1, None)
    yield from _equal(news, EST, IND, equal)


def tost(differences: Vector, margin: float) -> float:
    """p value of two one-sided t tests: small if the mean is within ``margin`` of 0 (Schuirmann, 1987).

    >>> tost(np.array([0.1, -0.2, 0.0, 0.1]), margin=1.0) < 0.01
    True
    """
    if len(differences) < 2:
        return math.nan
    if np.ptp(differences) == 0.0:
        return 0.0 if abs(float(differences[0])) < margin else 1.0
    low = stats.ttest_1samp(differences, -margin, alternative="greater").pvalue
    high = stats.ttest_1samp(differences, margin, alternative="less").pvalue
    return float(max(low, high))


def _words(misses: int | None) -> str:
    return {None: "no count", 0: "all runs"}.get(misses, f"all but {misses}")


def _gains(group: RunGroup, first: str, second: str) -> Vector:
    """How much better the first method is, run by run."""
    return np.asarray(group.better * (group.finals(first) - group.finals(second)))


def _mean_test(gains: Vector) -> float:
    if len(gains) < 2:
        return math.nan
    if np.ptp(gains) == 0.0:
        return 1.0 if gains[0] == 0.0 else 0.0
    return float(stats.ttest_1samp(gains, 0.0).pvalue)


def _verdict(holds: int, runs: int, misses: int | None, low: float, high: float) -> str:
    """Of a claim that gains are positive in all runs but ``misses`` (None: in the mean)."""
    if high < 0.0:
        return "contradicted"
    enough = low > 0.0 if misses is None else holds >= runs - misses
    return "reproduced" if enough else "not reproduced"


def _means(group: RunGroup, *methods: str) -> str:
    return f"mean {group.metric}: " + ", ".join(f"{m} {group.finals(m).mean():.1f}" for m in methods)


def _better(group: RunGroup | None, first: str, second: str, says: str, misses: int | None) -> Iterator[Claim]:
    if group is None or not {first, second} <= set(group.methods):
        return
    gains = _gains(group, first, second)
    half, mean, holds = float(half_width(gains)), float(gains.mean()), int((gains > 0).sum())
    verdict = _verdict(holds, len(gains), misses, mean - half, mean + half)
    yield Claim(
        group.name, says, "paper" if misses is not None else "ours", _words(misses), holds, len(gains), verdict,
        *_interval(group, mean, half), _mean_test(gains), math.nan, _means(group, first, second),
    )  # fmt: skip


def _interval(group: RunGroup, mean: float, half: float) -> tuple[float, float, float]:
    """Difference of the values themselves: first minus second."""
    ends = sorted((group.better * (mean - half), group.better * (mean + half)))
    return group.better * mean, ends[0], ends[1]


def _equal(group: RunGroup | None, first: str, second: str, says: str) -> Iterator[Claim]:
    if group is None or not {first, second} <= set(group.methods):
        return
    differences = group.finals(first) - group.finals(second)
    margin = MARGIN * float(np.abs(group.finals(second)).mean())
    p, half, mean = tost(differences, margin), float(half_width(differences)), float(differences.mean())
    if p < 0.05:
        verdict = "reproduced"
    else:
        verdict = "contradicted" if mean - half > margin or mean + half < -margin else "undecided"
    within = int((np.abs(differences) <= margin).sum())
    details = f"{_means(group, first, second)}; margin {margin:.1f}; runs counted are those within it"
    yield Claim(
        group.name, says, "paper", "no count", within, len(differences), verdict, mean, mean - half, mean + half, p,
        math.nan, details,
    )  # fmt: skip


def _extreme(group: RunGroup | None, method: str, says: str, sign: int, misses: int | None) -> Iterator[Claim]:
    """``sign`` is 1 for the best of all methods, -1 for the worst."""
    if group is None or method not in group.methods or len(group.methods) < 2:
        return
    gains = np.array([sign * _gains(group, method, m) for m in group.methods if m != method])
    holds = int((gains > 0).all(axis=0).sum())
    halves = np.array([float(half_width(g)) for g in gains])
    low, high = float((gains.mean(axis=1) - halves).min()), float((gains.mean(axis=1) + halves).min())
    p = max(_mean_test(g) for g in gains)
    verdict = _verdict(holds, gains.shape[1], misses, low, high)
    yield Claim(
        group.name, says, "paper", _words(misses), holds, gains.shape[1], verdict, math.nan, math.nan, math.nan, p,
        math.nan, _means(group, *group.methods),
    )  # fmt: skip
