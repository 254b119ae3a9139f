"""What the estimated similarity is made of: counts or contexts, and what it gains at other exploration multipliers.

With a narrow embedding kernel the pairs of a row with itself are most of the distance between two arms, and
k_Z(a, b) is close to exp(-(1/n_a + 1/n_b) / (2 length_scale^2)), which does not look at contexts (`CountOnly`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbandits._types import Matrix
from kinbandits.paper.claims import MARGIN, tost
from kinbandits.paper.protocol import COUNTS, EST, IND, NAMES, SWEEPS, sweep_name
from kinbandits.presets import MULTIPLIER, PAPER
from kinbandits.report.results import Results, RunGroup
from kinbandits.report.statistics import Paired, compare, half_width

__all__ = ["Control", "CountEffect", "SweepPoint", "controls", "count_effects", "sweep_points"]


@dataclass(frozen=True)
class CountEffect:
    """The similarity estimated on a data set, and what the counts of the same runs alone give (means of runs)."""

    where: str
    arms: tuple[str, ...]
    estimated: Matrix
    counted: Matrix
    correlation: float


def count_effects(results: Results) -> Iterator[CountEffect]:
    """For every data set with KMTL-UCB-Est. The correlation is over pairs of arms in all runs."""
    for group in results.groups:
        if group.name not in NAMES or EST not in group.methods or group.similarity(EST) is None:
            continue
        precision = PAPER[NAMES[group.name]].arm
        estimated = np.array([run.trace.metadata["similarity"] for run in group.of(EST)])
        counts = np.array([run.trace.metadata["counts"] for run in group.of(EST)], dtype=np.float64)
        inverse = np.where(counts > 0, 1.0 / np.maximum(counts, 1.0), 0.0)
        counted = np.exp(-precision * (inverse[:, :, None] + inverse[:, None, :]))
        above = np.triu_indices(counts.shape[1], k=1)
        pairs = estimated[:, *above].ravel(), counted[:, *above].ravel()
        correlation = float(np.corrcoef(*pairs)[0, 1]) if min(np.ptp(p) for p in pairs) > 0 else float("nan")
        yield CountEffect(
            group.name, tuple(group.arms()), estimated.mean(axis=0), counted.mean(axis=0), correlation
        )


@dataclass(frozen=True)
class SweepPoint:
    """A method on a data set at one multiplier: final regret of each run."""

    where: str
    method: str
    multiplier: float
    rounds: int
    finals: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.finals))

    @property
    def half(self) -> float:
        """Half the 95 % interval of the mean."""
        return float(half_width(np.array(self.finals)))


def sweep_points(sweep: Results) -> list[SweepPoint]:
    """All of them, on the runs that all methods and multipliers of a data set have."""
    return [
        SweepPoint(group.name, method, multiplier, group.rounds, tuple(group.finals(name).tolist()))
        for group in sweep.groups
        for method, multipliers in SWEEPS[NAMES[group.name]].plays.items()
        for multiplier in multipliers
        if (name := sweep_name(method, multiplier)) in group.methods
    ]


@dataclass(frozen=True)
class Control:
    """Two methods at one multiplier on the same runs.

    ``equal`` is the p value of TOST: small if they differ by less than 5 % of the second's mean.
    """

    first: str
    second: str
    multiplier: float
    first_mean: float
    second_mean: float
    paired: Paired
    equal: float

    @property
    def where(self) -> str:
        return self.paired.environment

    def record(self) -> dict[str, Any]:
        """For a table."""
        own = {k: v for k, v in self.__dict__.items() if k != "paired"}
        paired = {n: getattr(self.paired, n) for n in ("difference", "low", "high", "wins", "ties", "losses")}
        return {"where": self.where, **own, "runs": self.paired.seeds, **paired}


def controls(sweep: Results) -> list[Control]:
    """The estimate against counts alone and against independent arms, at every multiplier."""
    return [
        _control(group, EST, other, multiplier)
        for group in sweep.groups
        for other in (COUNTS, IND)
        for multiplier in SWEEPS[NAMES[group.name]].plays[EST]
        if {sweep_name(EST, multiplier), sweep_name(other, multiplier)} <= set(group.methods)
    ]


def _control(group: RunGroup, first: str, second: str, multiplier: float) -> Control:
    names = sweep_name(first, multiplier), sweep_name(second, multiplier)
    one, two = (group.finals(name) for name in names)
    equal = tost(one - two, MARGIN * float(two.mean()))
    return Control(first, second, multiplier, float(one.mean()), float(two.mean()), compare(group, *names), equal)


def same_as_counts(found: list[Control]) -> list[str]:
    """The data sets on which the estimate and counts alone are equal within 5 % at the published multiplier."""
    return [c.where for c in found if c.second == COUNTS and c.multiplier == MULTIPLIER and c.equal < 0.05]
