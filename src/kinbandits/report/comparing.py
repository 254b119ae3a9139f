"""``kb.compare``: several policies on the same streams, as a table, a figure and paired differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinbandits._html import html_table, text_table
from kinbandits._value import Value, as_int
from kinbandits.environments import Environment
from kinbandits.errors import InvalidInputError, InvalidTypeError, package
from kinbandits.policy import Policy
from kinbandits.progress import Told, telling
from kinbandits.report.figures import difference_figure, regret_figure
from kinbandits.report.results import Paired, Results, Run, RunGroup, Summary, compare_all, summarise
from kinbandits.simulate import simulate
from kinbandits.trace import Trace

Maker = Callable[[Any], Policy]


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
        return compare_all(self._results)

    def trace(self, name: str, seed: int) -> Trace:
        for run in self.group.runs:
            if (run.method, run.seed) == (name, seed):
                return run.trace
        raise InvalidInputError(
            f"there is no run of {name!r} with seed {seed}; there are {', '.join(self.group.methods)} with seeds "
            f"{', '.join(map(str, self.group.seeds))}"
        )

    def columns(self) -> dict[str, list[Any]]:
        """One row a run: policy, seed, what is counted, mean reward, seconds."""
        runs = [run for method in self.group.methods for run in self.group.of(method)]
        return {
            "policy": [run.method for run in runs],
            "seed": [run.seed for run in runs],
            self.group.metric.replace(" ", "_"): [float(run.trace.curve(self.group.metric)[-1]) for run in runs],
            "mean_reward": [run.trace.mean_reward for run in runs],
            "seconds": [run.seconds for run in runs],
        }

    def to_pandas(self) -> Any:
        """`columns` as a pandas DataFrame."""
        return package("pandas", "to_pandas needs").DataFrame(self.columns())

    def to_polars(self) -> Any:
        """`columns` as a polars DataFrame."""
        return package("polars", "to_polars needs").DataFrame(self.columns())

    def plot(self) -> Any:
        """Curves of all policies, with the 95 % band of their mean."""
        return regret_figure(self._results)

    def plot_differences(self) -> Any:
        """The first policy against each other one, seed by seed."""
        if len(self.group.methods) < 2:
            raise InvalidInputError("there is one policy only: nothing to compare it with")
        return difference_figure(self._results)

    def __str__(self) -> str:
        return text_table(self._title, self._columns, self._rows, right=range(1, len(self._columns)))

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.group.methods)}; {self._title})"

    def _repr_html_(self) -> str:
        return html_table(self._title, self._columns, self._rows)

    @property
    def _title(self) -> str:
        group = self.group
        return f"{group.metric} on {group.name}, {group.rounds:,} rounds, {len(group.seeds)} seeds"

    _columns = ("policy", "mean", "sd", "95 % interval", "first minus it", "seconds")

    @property
    def _rows(self) -> list[list[str]]:
        rows = []
        for s, d in zip(self.summaries, [None, *self.differences], strict=True):
            gap = "" if d is None else f"{d.difference:+.4g} ({d.low:+.4g} to {d.high:+.4g})"
            rows.append(
                [s.method, f"{s.mean:.4g}", f"{s.sd:.2g}", f"{s.low:.4g} to {s.high:.4g}", gap, f"{s.seconds:.2g}"]
            )
        return rows

    @property
    def _results(self) -> Results:
        return Results("comparison", (self.group,), {})


def compare(
    policies: Mapping[str, Maker],
    environment: Environment | Callable[[int], Environment],
    *,
    seeds: int | Iterable[int] = 5,
    horizon: int | None = None,
    jobs: int = 1,
    progress: bool | Told | None = None,
) -> Comparison:
    """Play several policies on the same streams: a table, a figure, and differences seed by seed.

    Args:
        policies: by name, each a policy class or a function that makes a new policy for an environment.
        environment: one with a ``seed``, or a function that makes the environment of a seed.
        seeds: how many (0, 1, ...), or which. horizon: rounds of each run (all, if left out).
        jobs: processes; -1 is all processors.
        progress: True shows a bar; or a function of the number of runs done and of all.

    >>> import kinbandits as kb
    >>> environment = kb.environments.SyntheticNews(horizon=30)
    >>> policies = {
    ...     "with descriptors": lambda e: kb.KMTLUCB(e.arms, similarity=kb.Known(descriptors=e.descriptors)),
    ...     "Lin-UCB": kb.baselines.LinUCB,
    ... }
    >>> found = compare(policies, environment, seeds=2)
    >>> [(s.method, len(s.finals)) for s in found.summaries]
    [('with descriptors', 2), ('Lin-UCB', 2)]
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
    chosen = (
        list(range(as_int("seeds", seeds, 1))) if isinstance(seeds, int) else [as_int("seeds", s) for s in seeds]
    )
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidInputError(f"seeds must be a number, or different numbers; got {chosen}")
    todo = [(name, make, seed) for name, make in policies.items() for seed in chosen]
    work = joblib.Parallel(n_jobs=jobs, return_as="generator")(
        joblib.delayed(_run)(name, make, environment, seed, horizon) for name, make, seed in todo
    )
    runs = []
    with telling(progress, "runs") as tell:
        for run in work:
            runs.append(run)
            tell(len(runs), len(todo))
    return Comparison(RunGroup(runs[0].environment, tuple(runs)))


def _run(name: str, make: Maker, environment: Any, seed: int, horizon: int | None) -> Run:
    game = _seeded(environment, seed)
    policy = make(game.arms) if isinstance(make, type) else make(game)
    if not isinstance(policy, Policy):
        raise InvalidTypeError(f"policies[{name!r}] made {type(policy).__name__}, not a policy")
    trace = simulate(policy, game, horizon)
    return Run(game.name, name, seed, trace, float(np.sum(trace["seconds"])))


def _seeded(environment: Any, seed: int) -> Any:
    if isinstance(environment, Value) and hasattr(environment, "seed"):
        return environment.replace(seed=seed)
    if callable(environment):
        return environment(seed)
    raise InvalidTypeError(
        "environment must have a seed, or be a function that makes the environment of a seed, such as "
        f"lambda seed: kb.environments.SyntheticNews(seed=seed); got {type(environment).__name__}"
    )
