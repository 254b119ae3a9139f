"""What a report is made of: the runs of an experiment, grouped by environment and method.

Notation
    curve   (T,)        what is counted, summed up to each round: regret, or expected regret where the environment
                        knows the means; the average reward where nobody knows the best one (a replayed log)
    curves  (seeds, T)  one row a run, cut to the shortest
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits.errors import InvalidInputError
from kinbandits.experiments.storage import CellStore
from kinbandits.trace import Trace

Curve = NDArray[np.float64]


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
        """The runs of a method on the common seeds, in their order."""
        found = {run.seed: run for run in self.runs if run.method == method}
        return [found[seed] for seed in self.seeds]

    def curves(self, method: str) -> Curve:
        """What is counted, up to each round, one row a seed."""
        return np.array([run.trace.curve(self.metric)[: self.rounds] for run in self.of(method)])

    def finals(self, method: str) -> Curve:
        return np.array([run.trace.curve(self.metric)[-1] for run in self.of(method)])

    def similarity(self, method: str) -> Curve | None:
        """The similarity in force at the end, mean of all runs; None for a policy that has none."""
        matrices = [np.asarray(run.trace.metadata["similarity"], dtype=np.float64) for run in self.of(method)]
        if not matrices or any(m.size == 0 or m.shape != matrices[0].shape for m in matrices):
            return None
        return np.asarray(np.mean(matrices, axis=0))

    def arms(self) -> list[str]:
        return list(self.runs[0].trace.metadata["arms"])


@dataclass(frozen=True, eq=False)
class Results:
    """Everything a report needs.

    Attributes:
        name: of the experiment.
        groups: by environment.
        record: the experiment as plain data (settings, seeds).
        missing: how many cells are not finished.
        times: side information: seconds and hosts, never part of a result.
    """

    name: str
    groups: tuple[RunGroup, ...]
    record: Mapping[str, Any]
    missing: int = 0
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
