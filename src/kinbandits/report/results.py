"""What a report is made of: the runs of an experiment, grouped by environment and method.

Notation
    curve   (T,)        what is counted, summed up to each round: regret, or expected regret where the environment
                        knows the means; the average reward where nobody knows the best one (a replayed log)
    curves  (seeds, T)  one row a run, cut to the shortest

All methods meet the same streams, so runs with the same seed are pairs. Intervals are Student's; p values of
several comparisons are adjusted by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from scipy import stats

from kinbandits._types import Matrix
from kinbandits.errors import InvalidInputError
from kinbandits.experiments.storage import CellStore
from kinbandits.trace import Trace


@dataclass(frozen=True, eq=False)
class Run:
    """One run: a method on an environment, with a seed."""

    environment: str
    method: str
    seed: int
    trace: Trace
    seconds: float = float("nan")


@dataclass(frozen=True, eq=False)
class RunGroup:
    """All runs on one environment: methods in order, and for each the same seeds."""

    name: str
    runs: tuple[Run, ...]

    @cached_property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(run.method for run in self.runs))

    @cached_property
    def seeds(self) -> list[int]:
        """Those that every method has run."""
        sets = [{r.seed for r in self.runs if r.method == m} for m in self.methods]
        return sorted(set.intersection(*sets))

    @cached_property
    def metric(self) -> str:
        """``"expected regret"``, ``"regret"`` or ``"average reward"``: the first that is known."""
        found = {run.trace.metric for run in self.runs}
        known = all(np.isfinite(run.trace["expected_regret"]).all() for run in self.runs)
        order = ("average reward", "expected regret", "regret") if known else ("average reward", "regret")
        return next(metric for metric in order if metric in found)

    @property
    def better(self) -> int:
        """-1 if less is better, 1 if more is."""
        return 1 if self.metric == "average reward" else -1

    @cached_property
    def rounds(self) -> int:
        return min(len(run.trace) for run in self.runs)

    def of(self, method: str) -> list[Run]:
        found = {run.seed: run for run in self.runs if run.method == method}
        return [found[seed] for seed in self.seeds]

    def curves(self, method: str) -> Matrix:
        """What is counted, up to each round, one row a seed."""
        return np.array([run.trace.curve(self.metric)[: self.rounds] for run in self.of(method)])

    def finals(self, method: str) -> Matrix:
        return np.array([run.trace.curve(self.metric)[-1] for run in self.of(method)])

    def similarity(self, method: str) -> Matrix | None:
        """The similarity in force at the end, mean of all runs; None for a policy that has none."""
        matrices = [np.asarray(run.trace.metadata["similarity"], dtype=np.float64) for run in self.of(method)]
        if not matrices or any(m.size == 0 or m.shape != matrices[0].shape for m in matrices):
            return None
        return np.asarray(np.mean(matrices, axis=0))

    def arms(self) -> list[str]:
        return list(self.runs[0].trace.metadata["arms"])


@dataclass(frozen=True, eq=False)
class Results:
    """Everything a report needs."""

    name: str  # of the experiment
    groups: tuple[RunGroup, ...]  # by environment
    record: Mapping[str, Any]  # the experiment as plain data (settings, seeds)
    missing: int = 0  # how many cells are not finished
    # side information: seconds and hosts, never part of a result
    times: tuple[Mapping[str, Any], ...] = field(default=())

    @classmethod
    def load(cls, directory: str | PathLike[str], name: str = "experiment") -> Results:
        """The finished cells of an experiment's directory (``name`` as in `CellStore`)."""
        store = CellStore(directory, name)
        record = store.record()["record"]
        runs, times, missing = [], [], 0
        for environment, method, seed, result, timing in store.recorded():
            if result is None:
                missing += 1
                continue
            times.append(timing)
            runs.append(Run(environment, method, seed, result, float(timing.get("seconds", "nan"))))
        if not runs:
            raise InvalidInputError(f"{directory} has no finished cell yet; run it: kinbandits run FILE --resume")
        return cls(record["name"], _groups(runs), record, missing, tuple(times))

    def group(self, name: str) -> RunGroup | None:
        return next((p for p in self.groups if p.name == name), None)

    @property
    def seconds(self) -> float:
        return float(np.nansum([r.seconds for p in self.groups for r in p.runs]))


def _groups(runs: Iterable[Run]) -> tuple[RunGroup, ...]:
    grouped: dict[str, list[Run]] = {}
    for run in runs:
        grouped.setdefault(run.environment, []).append(run)
    return tuple(p for name, r in grouped.items() if (p := RunGroup(name, tuple(r))).seeds)


@dataclass(frozen=True)
class Summary:
    """One method on one environment."""

    environment: str
    method: str
    rounds: int
    metric: str
    mean: float  # of the final values over seeds
    sd: float  # NaN for a single seed
    low: float  # of the 95 % interval of the mean
    high: float
    best: int  # in how many seeds this method is the best of all; ties count for each
    finals: tuple[float, ...]  # value of each seed
    seconds: float  # mean time of a run


@dataclass(frozen=True)
class Paired:
    """Two methods on the same streams; ``difference`` is first minus second."""

    environment: str
    first: str
    second: str
    difference: float
    low: float
    high: float
    wins: int  # seeds in which the first is better
    ties: int  # equal
    losses: int  # worse
    t_test: float  # p value of the paired t test
    wilcoxon: float  # of Wilcoxon's signed-rank test; both are NaN where there is too little to tell
    adjusted: float = float("nan")  # that of the t test by Holm's method over all comparisons of the report

    @property
    def seeds(self) -> int:
        return self.wins + self.ties + self.losses


def half_width(values: Matrix) -> Matrix:
    """Half the width of Student's 95 % interval of the mean over the first axis; NaN for a single row.

    >>> half_width(np.array([1.0, 2.0, 3.0])).round(3)
    np.float64(2.484)
    """
    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], np.nan)
    factor = float(stats.t.ppf(0.975, n - 1))
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


def _t_test(differences: Matrix) -> float:
    if len(differences) < 2 or np.ptp(differences) == 0.0:
        return math.nan
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def _wilcoxon(differences: Matrix) -> float:
    nonzero = differences[differences != 0.0]
    if len(nonzero) < 2:
        return math.nan
    method: Any = "exact" if len(np.unique(np.abs(nonzero))) == len(nonzero) else "approx"
    return float(stats.wilcoxon(nonzero, method=method).pvalue)
