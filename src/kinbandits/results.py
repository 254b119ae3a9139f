"""Runs on the same streams, grouped by environment and method, and compared in pairs; and `kb.compare`.

Notation
    curve   (T,)        what is counted, summed up to each round: regret, or expected regret where the environment
                        knows the means; the average reward where nobody knows the best one (a replayed log)
    curves  (seeds, T)  one row a run, cut to the shortest

All methods meet the same streams, so runs with the same seed are pairs. Intervals are Student's; p values of
several comparisons are adjusted by Holm's method.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from scipy import stats

from kinbandits._html import html_table, text_table
from kinbandits._types import Matrix
from kinbandits._value import Value, as_int
from kinbandits.environments import Environment
from kinbandits.errors import InvalidInputError, InvalidTypeError, package
from kinbandits.experiments.store import CellStore
from kinbandits.policy import Policy
from kinbandits.progress import Progress
from kinbandits.simulate import simulate
from kinbandits.trace import Trace

Maker = Callable[[Any], Policy]


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
        """``"expected regret"``, ``"regret"`` or ``"average reward"``: the first that is known of all runs."""
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
        """The similarity at the end, mean of all runs; None for a policy that has none."""
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
    record: Mapping[str, Any]  # the experiment as plain data
    missing: int = 0  # how many cells are not finished
    times: tuple[Mapping[str, Any], ...] = ()  # side information: seconds and hosts, never part of a result

    @classmethod
    def load(cls, directory: str | PathLike[str]) -> Results:
        """The finished cells of an experiment's directory."""
        store = CellStore(directory)
        record = store.record()["record"]
        grouped: dict[str, list[Run]] = {}
        times, missing = [], 0
        for environment, method, seed, trace, timing in store.recorded():
            if trace is None:
                missing += 1
                continue
            times.append(timing)
            run = Run(environment, method, seed, trace, float(timing.get("seconds", "nan")))
            grouped.setdefault(environment, []).append(run)
        if not times:
            raise InvalidInputError(f"{directory} has no finished cell yet; run it: kinbandits run FILE")
        groups = (RunGroup(name, tuple(runs)) for name, runs in grouped.items())
        return cls(record["name"], tuple(g for g in groups if g.seeds), record, missing, tuple(times))


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


def paired(group: RunGroup, first: str, second: str) -> Paired:
    """Two methods, seed by seed."""
    differences = group.finals(first) - group.finals(second)
    gains, nonzero = group.better * differences, differences[differences != 0.0]
    half, mean = float(half_width(differences)), float(differences.mean())
    wins, ties, losses = (int(found.sum()) for found in (gains > 0, gains == 0, gains < 0))
    t_test = wilcoxon = math.nan
    if len(differences) > 1 and np.ptp(differences) > 0.0:
        t_test = float(stats.ttest_1samp(differences, 0.0).pvalue)
    if len(nonzero) > 1:
        exact = len(np.unique(np.abs(nonzero))) == len(nonzero)
        wilcoxon = float(stats.wilcoxon(nonzero, method="exact" if exact else "approx").pvalue)
    return Paired(group.name, first, second, mean, mean - half, mean + half, wins, ties, losses, t_test, wilcoxon)


def compare_all(groups: Iterable[RunGroup]) -> list[Paired]:
    """On every environment, its first method against each other one, with adjusted p values."""
    found = [paired(group, group.methods[0], other) for group in groups for other in group.methods[1:]]
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


# -- several policies on the same streams -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` gives. Printed, it is a table; `plot` and `plot_differences` are matplotlib figures."""

    group: RunGroup

    @cached_property
    def summaries(self) -> list[Summary]:
        """Mean, spread and 95 % interval of each policy."""
        return summarise(self.group)

    @cached_property
    def differences(self) -> list[Paired]:
        """The first policy minus each other, seed by seed."""
        return compare_all([self.group])

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row a run: policy, seed, what is counted, mean reward, seconds."""
        runs = [run for method in self.group.methods for run in self.group.of(method)]
        columns = {
            "policy": [run.method for run in runs],
            "seed": [run.seed for run in runs],
            self.group.metric.replace(" ", "_"): [float(run.trace.curve(self.group.metric)[-1]) for run in runs],
            "mean_reward": [run.trace.mean_reward for run in runs],
            "seconds": [run.seconds for run in runs],
        }
        return package("pandas", "to_pandas needs").DataFrame(columns)

    def plot(self) -> Any:
        """Curves of all policies, with the 95 % band of their mean."""
        from kinbandits.figures import regret_figure

        return regret_figure([self.group])

    def plot_differences(self) -> Any:
        """The first policy against each other one, seed by seed."""
        if len(self.group.methods) < 2:
            raise InvalidInputError("there is one policy only: nothing to compare it with")
        from kinbandits.figures import difference_figure

        return difference_figure([self.group])

    def __str__(self) -> str:
        return text_table(*self._table, right=range(1, 6))

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.group.methods)}; {self._table[0]})"

    def _repr_html_(self) -> str:
        return html_table(*self._table)

    @property
    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        """Title, columns and rows."""
        group = self.group
        title = f"{group.metric} on {group.name}, {group.rounds:,} rounds, {len(group.seeds)} seeds"
        rows = []
        for s, d in zip(self.summaries, [None, *self.differences], strict=True):
            gap = "" if d is None else f"{d.difference:+.4g} ({d.low:+.4g} to {d.high:+.4g})"
            mean = [s.method, f"{s.mean:.4g}", f"{s.sd:.2g}", f"{s.low:.4g} to {s.high:.4g}"]
            rows.append([*mean, gap, f"{s.seconds:.2g}"])
        return title, ["policy", "mean", "sd", "95 % interval", "first minus it", "seconds"], rows


def compare(
    policies: Mapping[str, Maker],
    environment: Environment | Callable[[int], Environment],
    *,
    seeds: int | Iterable[int] = 5,
    horizon: int | None = None,
    jobs: int = 1,
    progress: bool = False,
) -> Comparison:
    """Play several policies on the same streams: a table, a figure, and differences seed by seed.

    Args:
        policies: by name, each a policy class or a function that makes a new policy for an environment.
        environment: one with a ``seed``, or a function that makes the environment of a seed.
        seeds: how many (0, 1, ...), or which. horizon: rounds of each run (all, if left out).
        jobs: processes; -1 is all processors. progress: show a bar.

    >>> import kinbandits as kb
    >>> environment = kb.environments.SyntheticNews(horizon=30)
    >>> policies = {
    ...     "with descriptors": lambda e: kb.KMTLUCB(e.arms, similarity=kb.Known(descriptors=e.descriptors)),
    ...     "independent": lambda e: kb.KMTLUCB(e.arms, similarity=kb.Independent()),
    ... }
    >>> found = compare(policies, environment, seeds=2)
    >>> [(s.method, len(s.finals)) for s in found.summaries]
    [('with descriptors', 2), ('independent', 2)]
    """
    import joblib

    if not policies:
        raise InvalidInputError("policies is empty; give at least one, such as {'default': kb.KMTLUCB}")
    for name, make in policies.items():
        if not callable(make):
            raise InvalidTypeError(
                f"policies[{name!r}] must be a policy class or a function that makes a new policy of an "
                f"environment, such as lambda e: kb.KMTLUCB(e.arms); got {type(make).__name__}"
            )
    chosen = list(range(as_int("seeds", seeds, 1))) if isinstance(seeds, int) else [as_int("seeds", s) for s in seeds]
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidInputError(f"seeds must be a number, or different numbers; got {chosen}")
    todo = [(name, make, seed) for name, make in policies.items() for seed in chosen]
    work = joblib.Parallel(n_jobs=jobs, return_as="generator")(
        joblib.delayed(_run)(name, make, environment, seed, horizon) for name, make, seed in todo
    )
    runs: list[Run] = []
    with Progress(len(todo), "runs", stream=sys.stderr if progress else None) as bar:
        for run in work:
            runs.append(run)
            bar.to(len(runs))
    return Comparison(RunGroup(runs[0].environment, tuple(runs)))


def _run(name: str, make: Maker, environment: Any, seed: int, horizon: int | None) -> Run:
    if isinstance(environment, Value) and hasattr(environment, "seed"):
        game: Any = environment.replace(seed=seed)
    elif callable(environment):
        game = environment(seed)
    else:
        raise InvalidTypeError(
            "environment must have a seed, or be a function that makes the environment of a seed, such as "
            f"lambda seed: kb.environments.SyntheticNews(seed=seed); got {type(environment).__name__}"
        )
    policy = make(game.arms) if isinstance(make, type) else make(game)
    if not isinstance(policy, Policy):
        raise InvalidTypeError(f"policies[{name!r}] made {type(policy).__name__}, not a policy")
    trace = simulate(policy, game, horizon)
    return Run(game.name, name, seed, trace, float(np.sum(trace["seconds"])))
