"""Means with intervals, wins seed by seed, and paired tests.

All methods of an experiment meet the same streams, so runs with the same seed are pairs, and differences are far
less noisy than the methods' own spread. Intervals are Student's; p values of several comparisons are adjusted by
Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kinbandits.report.results import Results, RunGroup


@dataclass(frozen=True)
class Summary:
    """One method on one environment.

    Attributes:
        mean, sd: of the final values over seeds (sd NaN for a single seed).
        low, high: 95 % interval of the mean.
        best: in how many seeds this method is the best of all; ties count for each.
        finals: value of each seed.
        seconds: mean time of a run.
    """

    environment: str
    method: str
    rounds: int
    metric: str
    mean: float
    sd: float
    low: float
    high: float
    best: int
    finals: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class Paired:
    """Two methods on the same streams; ``difference`` is first minus second.

    Attributes:
        wins, ties, losses: seeds in which the first is better, equal, worse.
        t_test: p value of the paired t test; Wilcoxon's signed-rank test in ``wilcoxon`` (NaN where there is too
            little to tell).
        adjusted: the t test's p value by Holm's method over all comparisons of the report.
    """

    environment: str
    first: str
    second: str
    difference: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int
    t_test: float
    wilcoxon: float
    adjusted: float = float("nan")

    @property
    def seeds(self) -> int:
        return self.wins + self.ties + self.losses


def half_width(values: NDArray[np.float64], confidence: float = 0.95) -> NDArray[np.float64]:
    """Half the width of Student's interval of the mean over the first axis; NaN for a single row.

    >>> half_width(np.array([1.0, 2.0, 3.0])).round(3)
    np.float64(2.484)
    """
    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], np.nan)
    factor = float(stats.t.ppf(0.5 + confidence / 2.0, n - 1))
    return np.asarray(factor * values.std(axis=0, ddof=1) / math.sqrt(n))[()]


def summarise(group: RunGroup) -> list[Summary]:
    """A row for each method."""
    finals = {m: group.finals(m) for m in group.methods}
    table = group.better * np.array(list(finals.values()))
    best = np.isclose(table, table.max(axis=0), rtol=1e-12, atol=0.0)
    rows = []
    for (method, values), wins in zip(finals.items(), best.sum(axis=1).tolist(), strict=True):
        mean, half = float(values.mean()), float(half_width(values))
        sd = float(values.std(ddof=1)) if len(values) > 1 else math.nan
        seconds = float(np.mean([r.seconds for r in group.of(method)]))
        each = (mean, sd, mean - half, mean + half, wins, tuple(values.tolist()), seconds)
        rows.append(Summary(group.name, method, group.rounds, group.metric, *each))
    return rows


def compare(group: RunGroup, first: str, second: str) -> Paired:
    """Two methods, seed by seed."""
    differences = group.finals(first) - group.finals(second)
    gains = group.better * differences
    half, mean = float(half_width(differences)), float(differences.mean())
    wins, ties, losses = (int(found.sum()) for found in (gains > 0, gains == 0, gains < 0))
    tests = _t_test(differences), _wilcoxon(differences)
    return Paired(group.name, first, second, mean, mean - half, mean + half, wins, ties, losses, *tests)


def compare_all(results: Results) -> list[Paired]:
    """On every environment, its first method against each other one, with adjusted p values."""
    found = [compare(group, group.methods[0], other) for group in results.groups for other in group.methods[1:]]
    adjusted = holm([c.t_test for c in found])
    return [replace(c, adjusted=p) for c, p in zip(found, adjusted, strict=True)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjustment of p values; NaN stays NaN and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    known = [i for i, p in enumerate(p_values) if not math.isnan(p)]
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(sorted(known, key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(known) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def _t_test(differences: NDArray[np.float64]) -> float:
    if len(differences) < 2 or np.ptp(differences) == 0.0:
        return math.nan
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def _wilcoxon(differences: NDArray[np.float64]) -> float:
    nonzero = differences[differences != 0.0]
    if len(nonzero) < 2:
        return math.nan
    method: Any = "exact" if len(np.unique(np.abs(nonzero))) == len(nonzero) else "approx"
    return float(stats.wilcoxon(nonzero, method=method).pvalue)
