"""What the estimated similarity is made of: counts or contexts, and what it gains at other exploration multipliers.

With a narrow embedding kernel the pairs of a row with itself are most of the distance between two arms, and
k_Z(a, b) is close to exp(-(1/n_a + 1/n_b) / (2 length_scale^2)), which does not look at contexts (`CountOnly`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kinbandits.presets import MULTIPLIER, PAPER
from kinbandits.report.results import Paired, Results, RunGroup, compare, half_width

from kinbandits._types import Matrix
from kinbandits.paper.claims import MARGIN, tost
from kinbandits.paper.protocol import COUNTS, EST, IND, KNOWN, NAMES, PAIRS, SWEEPS, sweep_name
from kinbandits.plotting import OKABE_ITO, canvas, cluster_order, color_bar, matrix_panel, plot_style

_LOOKS = {
    KNOWN: (OKABE_ITO[0], "-", "o"),
    EST: (OKABE_ITO[1], "--", "s"),
    COUNTS: (OKABE_ITO[6], ":", "^"),
    PAIRS: (OKABE_ITO[4], "-.", "v"),
    IND: (OKABE_ITO[2], "-", "D"),
}


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


def counts_figure(effects: Sequence[CountEffect]) -> Any:
    """Above, the estimated similarity; below, what counts alone give, on the same scale and in the same order."""
    with plot_style():
        figure, axes = canvas(len(effects), 2, 2.45 * len(effects) + 0.4, 5.4)
        for column, effect in zip(axes.T, effects, strict=True):
            order = cluster_order(effect.estimated)
            place = np.ix_(order, order)
            names = [effect.arms[i] for i in order]
            apart = ~np.eye(len(order), dtype=bool)
            top = max(float(effect.estimated[apart].max()), float(effect.counted[apart].max()))
            image = matrix_panel(column[0], effect.estimated[place], names, top)
            matrix_panel(column[1], effect.counted[place], names, top)
            column[0].set_title(f"{effect.where}\nestimated", fontsize=9)
            column[1].set_title(f"counts alone\n(correlation {effect.correlation:.2f})", fontsize=9)
            color_bar(figure, image, column.tolist())
        return figure


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


def sweep_figure(points: Sequence[SweepPoint]) -> Any:
    """Final regret against the exploration multiplier, a panel per data set, with 95 % intervals of the mean."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    places = list(dict.fromkeys(p.where for p in points))
    columns = min(4, len(places))
    rows = math.ceil(len(places) / columns)
    with plot_style():
        figure, axes = canvas(columns, rows, max(7.4, 2.9 * columns), 2.6 * rows + 0.5)
        for ax in axes.ravel()[len(places) :]:
            ax.set_axis_off()
        handles: dict[str, Any] = {}
        for ax, where in zip(axes.ravel(), places, strict=False):
            here = [p for p in points if p.where == where]
            for i, method in enumerate(dict.fromkeys(p.method for p in here)):
                line = [p for p in here if p.method == method]
                x = np.array([p.multiplier for p in line]) * 1.04 ** (i - 1.5)  # a little apart
                half = [p.half for p in line]
                yerr = None if np.isnan(half).any() else half
                colour, dash, mark = _LOOKS[method]
                look = {"color": colour, "linestyle": dash, "marker": mark, "markersize": 4, "linewidth": 1.3}
                handles[method] = ax.errorbar(x, [p.mean for p in line], yerr=yerr, capsize=2, **look)
            title = f"{where} (T = {here[0].rounds:,}, {len(here[0].finals)} runs)"
            ax.set(title=title, xscale="log", yscale="log")
            ticks = sorted({p.multiplier for p in here})
            ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
            ax.set_xticks([], minor=True)
            ax.set_xlim(0.08, 1.25)
            ax.set_xlabel("exploration multiplier")
            ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            ax.yaxis.set_major_formatter(ScalarFormatter())
            ax.yaxis.set_minor_formatter(NullFormatter())
        for ax in axes[:, 0]:
            ax.set_ylabel("final regret")
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)
        return figure


@dataclass(frozen=True)
class Control:
    """Two methods at one multiplier on the same runs. ``equal`` is the p value of TOST with a margin of 5 %."""

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
