"""The paper's claims, one by one: what it says, what the runs say, and a verdict that knows the count it claims.

    "better in all runs"          reproduced if it is better in every run
    "better in all but one"       reproduced if it is worse in at most one
    "the worst"                   no count is claimed: reproduced if the mean is, and the test agrees
    "equally well"                two one-sided t tests (TOST) with a margin of 5 % of the second method's mean:
                                  reproduced if both reject, contradicted if the 95 % interval of the paired
                                  difference lies wholly beyond the margin, undecided otherwise
    "significant similarity"      of three data sets: reproduced if each has more than each of the other three, with
                                  95 % intervals apart; contradicted if one of the others has more than one of them

A claim of "better" is contradicted where the interval lies on the wrong side of 0. The paper has ten runs: with
fewer the verdict is "not enough runs". p values are those of the claim's own test (paired t; the larger of the pair
for TOST; the largest over the other methods for "best" and "worst"), adjusted by Holm's method over the claims.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from kinbandits._types import Vector
from kinbandits.paper.presets import EST, IND, IND_EQUAL, KNOWN, POOL
from kinbandits.results import Paired, Results, RunGroup, half_width, holm, paired

RUNS = 10
"""Runs of the paper: fewer decide nothing."""
MARGIN = 0.05
"""How far apart "equally well" may be, as a share of the second method's mean."""
SIMILAR, OTHERS = ("Digits", "Segment", "MNIST"), ("Letter", "Pendigits", "USPS")


@dataclass(frozen=True)
class Claim:
    """One claim, checked."""

    where: str  # data set
    says: str  # the claim
    claimed: str  # in how many runs the paper says that it holds, in its words
    holds: int  # in how many runs it holds here
    runs: int  # of how many
    verdict: str  # a key of `kinbandits.report.VERDICTS`
    details: str  # means
    p: float = math.nan  # of the claim's own test
    adjusted: float = math.nan  # by Holm's method over all claims
    difference: float = math.nan  # mean paired difference (NaN where there are several)
    low: float = math.nan  # of its 95 % interval
    high: float = math.nan
    source: str = "paper"  # or "ours", for a check that we add


def check_claims(results: Results) -> list[Claim]:
    """All claims about the data sets that were run."""
    claims = [c if c.runs >= RUNS else replace(c, verdict="not enough runs") for c in _claims(results)]
    return [replace(c, adjusted=p) for c, p in zip(claims, holm([c.p for c in claims]), strict=True)]


def _claims(results: Results) -> Iterator[Claim]:
    groups = {group.name: group for group in results.groups}

    def having(methods: tuple[str, ...], *names: str) -> list[RunGroup]:
        return [groups[n] for n in names if n in groups and set(methods) <= set(groups[n].methods)]

    best = f"{EST} is better than {IND}"
    for group in having((EST, IND), *SIMILAR):
        yield _better(group, IND, best, 1 if group.name == "MNIST" else 0)
    for group in having((EST, IND_EQUAL), "Segment"):
        yield _better(group, IND_EQUAL, f"{best} at equal settings (the published ones differ)", None)
    for group in having((EST, IND), *OTHERS):
        yield _equal(group)
    for group in having((KNOWN, EST), "Synthetic news"):
        yield _extreme(group, KNOWN, f"{KNOWN} with known similarity beats the other methods", 1, 0)
    for group in having((POOL, EST), "Synthetic news"):
        yield _extreme(group, POOL, f"{POOL} is the worst", -1, None)
    for group in having((EST, IND), "Synthetic news"):
        yield _equal(group)
    if len(six := having((EST,), *SIMILAR, *OTHERS)) == 6:
        yield _similar(six)


def inter_task(group: RunGroup, method: str = EST) -> Vector:
    """Mean similarity of two different arms after the last round, of each run."""
    matrices = np.array([run.trace.metadata["similarity"] for run in group.of(method)], dtype=np.float64)
    return np.asarray(matrices[:, ~np.eye(matrices.shape[1], dtype=bool)].mean(axis=1))


def tost(differences: Vector, margin: float) -> float:
    """p value of two one-sided t tests: small if the mean is within ``margin`` of 0 (Schuirmann, 1987).

    >>> tost(np.array([0.1, -0.2, 0.0, 0.1]), margin=1.0) < 0.01
    True
    """
    if len(differences) < 2:
        return math.nan
    if np.ptp(differences) == 0.0:
        return 0.0 if abs(float(differences[0])) < margin else 1.0
    above = stats.ttest_1samp(differences, -margin, alternative="greater").pvalue
    return float(max(above, stats.ttest_1samp(differences, margin, alternative="less").pvalue))


def _similar(sets: list[RunGroup]) -> Claim:
    values = [inter_task(group) for group in sets]
    means, halves = np.array([v.mean() for v in values]), np.array([half_width(v) for v in values])
    lows, highs, n, runs = means - halves, means + halves, len(SIMILAR), min(map(len, values))
    each = np.array([v[:runs] for v in values])
    verdict = "reproduced" if lows[:n].min() > highs[n:].max() else "undecided"
    return Claim(
        where=", ".join(SIMILAR),
        says="there is significant inter-task similarity (more than on the other three)",
        claimed=_words(None),
        holds=int((each[:n].min(axis=0) > each[n:].max(axis=0)).sum()),
        runs=runs,
        verdict="contradicted" if lows[n:].max() > highs[:n].min() else verdict,
        details="mean k_Z of two arms at the end: "
        + ", ".join(f"{g.name} {m:.2f} ± {h:.2f}" for g, m, h in zip(sets, means, halves, strict=True)),
    )


def _verdict(holds: int, runs: int, misses: int | None, low: float, high: float) -> str:
    """The verdict on a claim that gains are positive in all runs but ``misses`` (None: in the mean)."""
    if high < 0.0:
        return "contradicted"
    enough = low > 0.0 if misses is None else holds >= runs - misses
    return "reproduced" if enough else "not reproduced"


def _words(misses: int | None) -> str:
    return {None: "no count", 0: "all runs"}.get(misses, f"all but {misses}")


def _means(group: RunGroup, *methods: str) -> str:
    return f"mean {group.metric}: " + ", ".join(f"{m} {group.finals(m).mean():.1f}" for m in methods)


def _p(pair: Paired) -> float:
    """p of the t test; where all differences are the same, 1 if they are 0, else 0."""
    constant = pair.seeds > 1 and pair.low == pair.high
    return float(pair.difference == 0.0) if constant else pair.t_test


def _better(group: RunGroup, other: str, says: str, misses: int | None) -> Claim:
    pair = paired(group, EST, other)
    low, high = sorted((group.better * pair.low, group.better * pair.high))  # of what is gained
    verdict, means = _verdict(pair.wins, pair.seeds, misses, low, high), _means(group, EST, other)
    return Claim(
        group.name, says, _words(misses), pair.wins, pair.seeds, verdict, means, _p(pair), math.nan, pair.difference,
        pair.low, pair.high, "ours" if misses is None else "paper",
    )  # fmt: skip


def _equal(group: RunGroup) -> Claim:
    pair, differences = paired(group, EST, IND), group.finals(EST) - group.finals(IND)
    margin = MARGIN * float(np.abs(group.finals(IND)).mean())
    p, within = tost(differences, margin), int((np.abs(differences) <= margin).sum())
    apart = "contradicted" if pair.low > margin or pair.high < -margin else "undecided"
    return Claim(
        group.name, f"{EST} and {IND} perform equally well", _words(None), within, pair.seeds,
        "reproduced" if p < 0.05 else apart,
        f"{_means(group, EST, IND)}; margin {margin:.1f}; runs counted are those within it",
        p, math.nan, pair.difference, pair.low, pair.high,
    )  # fmt: skip


def _extreme(group: RunGroup, method: str, says: str, sign: int, misses: int | None) -> Claim:
    """``sign`` is 1 for the best of all methods, -1 for the worst."""
    others = [m for m in group.methods if m != method]
    side, finals = sign * group.better, group.finals(method)
    holds = int((side * (finals - np.array([group.finals(m) for m in others])) > 0).all(axis=0).sum())
    pairs = [paired(group, method, m) for m in others]
    low = min(min(side * pair.low, side * pair.high) for pair in pairs)
    high = min(max(side * pair.low, side * pair.high) for pair in pairs)
    verdict = _verdict(holds, len(finals), misses, low, high)
    means = _means(group, *group.methods)
    return Claim(group.name, says, _words(misses), holds, len(finals), verdict, means, max(map(_p, pairs)))
