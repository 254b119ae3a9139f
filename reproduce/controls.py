"""What the estimated similarity is made of, at full length: counts or contexts, and at other exploration.

    python -m reproduce.controls [--data digits,segment] [--streams docs/paper/streams.npz] [--seeds 10] [--jobs -1]

With a narrow embedding kernel the pairs of a row with itself are most of the distance between two arms, and
k_Z(a, b) is close to exp(-(1/n_a + 1/n_b) / (2 length_scale^2)), which does not look at contexts. Here
the estimate, counts alone and independent arms are played on the same streams, all
rounds of every data set, and compared in pairs; the page and its CSV files go to OUT/report.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits.experiments import Experiment, experiment_of, run_experiment
from kinbandits.paper.claims import MARGIN, tost
from kinbandits.paper.presets import MULTIPLIER, PAPER, Precisions, method_table
from kinbandits.paper.protocol import _TITLES, DATA, EST, IND, KNOWN, NAMES, _environment, check_names
from kinbandits.plotting import OKABE_ITO, canvas, plot_style
from kinbandits.report import Section, show_number, show_p, show_paired, write_page
from kinbandits.results import Paired, Results, RunGroup, half_width, paired

COUNTS = "counts only"


@dataclass(frozen=True)
class Sweep:
    """What is played on a data set at other exploration: multipliers of each method."""

    plays: dict[str, tuple[float, ...]]


_SMALL: dict[str, tuple[float, ...]] = dict.fromkeys((EST, COUNTS, IND), (0.1, 0.3, 1.0))
_TWO: dict[str, tuple[float, ...]] = dict.fromkeys((EST, COUNTS, IND), (0.1, 1.0))
SWEEPS = dict.fromkeys(DATA, Sweep(_TWO)) | dict.fromkeys(("digits", "segment"), Sweep(_SMALL))
SWEEPS |= {"synthetic": Sweep({KNOWN: (0.1, 1.0)} | _TWO)}


def sweep_experiment(
    data: Sequence[str] | None = None,
    *,
    seeds: int = 10,
    streams: str | PathLike[str] | None = None,
    horizon: int | None = None,
) -> Experiment:
    """The estimate, its controls and independent arms at several exploration multipliers (`SWEEPS`).

    All have the kernel, ridge and weights that were published for KMTL-UCB-Est; `COUNTS` has the similarity
    of counts alone, "Kernel-UCB-Ind" has independent arms.
    """
    environments, methods = [], []
    for name in check_names(data):
        environments.append(_environment(name, streams, horizon))
        methods += [
            {"name": sweep_name(m, x), "environments": [_TITLES[name]], **_at(name, m, x)}
            for m, multipliers in SWEEPS[name].plays.items()
            for x in multipliers
        ]
    return experiment_of(
        {"name": "The paper, controls", "seeds": seeds, "environments": environments, "methods": methods}
    )


def sweep_name(method: str, multiplier: float) -> str:
    """What a method is called at a multiplier."""
    return f"{method}, {multiplier:g}"


def _at(name: str, method: str, multiplier: float) -> dict[str, Any]:
    p = PAPER[name]
    same = Precisions(p.context, p.embedding, p.arm, p.ridge, None, p.known)  # Ind at Est's settings
    table = method_table(KNOWN if method == KNOWN else EST if method in (COUNTS,) else method, same)
    if method == COUNTS:  # k' is 1 for a row with itself, 0 for any two rows: distances are 1/n_a + 1/n_b
        table["similarity"] = table["similarity"] | {"embedding_kernel": {"type": "RBF", "precision": 1e12}}
    return table | {"exploration": multiplier * math.sqrt(p.ridge)}


_LOOKS = {
    KNOWN: (OKABE_ITO[0], "-", "o"),
    EST: (OKABE_ITO[1], "--", "s"),
    COUNTS: (OKABE_ITO[6], ":", "^"),
    IND: (OKABE_ITO[2], "-", "D"),
}


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
    return Control(first, second, multiplier, float(one.mean()), float(two.mean()), paired(group, *names), equal)


def same_as_counts(found: list[Control]) -> list[str]:
    """The data sets on which the estimate and counts alone are equal within 5 % at the published multiplier."""
    return [c.where for c in found if c.second == COUNTS and c.multiplier == MULTIPLIER and c.equal < 0.05]


def write_controls(directory: Path, command: str = "") -> Path:
    """The page on the finished runs."""
    results = Results.load(directory)
    points, found = sweep_points(results), controls(results)
    rows = [
        (
            c.where, f"{c.multiplier:g}", c.second, str(c.paired.seeds), show_number(c.first_mean),
            show_number(c.second_mean), *show_paired(c.paired), show_p(c.equal),
        )
        for c in found
    ]  # fmt: skip
    columns = ("Data", "Multiplier", f"{EST} against", "Runs", EST, "the other", "Difference", "95 % interval",
               "better / equal / worse", "p of equality")  # fmt: skip
    same, sets = same_as_counts(found), {c.where for c in found if c.second == COUNTS}
    text = (
        f"At the paper's multiplier {MULTIPLIER} the estimate and counts alone are equal within {MARGIN:.0%} (two "
        f"one-sided tests, p below 0.05) on {len(same)} of {len(sets)} problems ({', '.join(same) or 'none'})."
    )
    shown = [
        (p.where, p.method, f"{p.multiplier:g}", f"{p.rounds:,}", show_number(p.mean), show_number(p.half),
         str(len(p.finals)))
        for p in points
    ]  # fmt: skip
    sections = [
        Section(
            "sweep", "Counts alone, and independent arms", text, columns, rows, (1, 3, 4, 5, 6, 7, 8, 9),
            records=[c.record() for c in found], figure=sweep_figure(points),
        ),
        Section(
            "sweep-points", "In numbers", "Final regret; ± is half the 95 % interval of the mean.",
            ("Data", "Method", "Multiplier", "Rounds", "Mean", "±", "Runs"), shown, (2, 3, 4, 5, 6),
            records=[{**p.__dict__, "mean": p.mean, "half": p.half} for p in points],
        ),
    ]  # fmt: skip
    return write_page(
        directory / "report", "Control experiments", "All on the same streams.", sections, command=command
    )


def main() -> None:
    """Play what is not finished, and write the page."""
    parser = argparse.ArgumentParser(description="Counts alone in place of the estimate, at full length.")
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--streams", default=None)
    parser.add_argument("--out", default="runs/controls")
    for name, default in (("seeds", 10), ("jobs", -1), ("horizon", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    experiment = sweep_experiment(
        given.data.split(","), seeds=given.seeds, streams=given.streams, horizon=given.horizon or None
    )
    run_experiment(experiment, given.out, jobs=given.jobs, stream=sys.stderr)
    print(write_controls(Path(given.out), "python -m reproduce.controls"))


if __name__ == "__main__":
    main()
