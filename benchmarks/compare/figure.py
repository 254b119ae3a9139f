"""The comparison in one figure: regret against CPU a decision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compare.catalogue import PEERS
from compare.plan import DEFAULT
from compare.run import MethodRow, Standings
from kinbandits.errors import MissingPackageError

__all__ = ["FAMILIES", "write_figure"]

FAMILIES = {  # as the summary names them, with a colour
    "linear": ("linear libraries", "#D55E00"),
    "Vowpal Wabbit": ("Vowpal Wabbit", "#E69F00"),
    "kernel": ("kernel rivals", "#009E73"),
    "neural": ("neural rivals", "#CC79A7"),
}
_OURS, _BASE = "#0072B2", "#999999"
_MARKERS = "osD^v<>PXpdH1234"


def write_figure(path: Path, problems: Sequence[Standings]) -> None:
    """One panel a problem: final regret against CPU a decision, ours in blue; left and low is good.

    Problems and methods whose CPU was not measured are left out.
    """
    problems = [p for p in problems if sum(x.cpu_ms is not None for x in p.rows) > 1]
    if not problems:
        return
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError("the figure needs matplotlib; try: pip install 'kinbandits[compare]'") from error
    across = min(3, len(problems))
    down = math.ceil(len(problems) / across)
    figure = Figure(figsize=(4.6 * across, 3.4 * down + 1.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(down, across, squeeze=False).ravel()
    colours = {x.title: _colour(x) for p in problems for x in p.rows}
    alike = {colour: [t for t in colours if colours[t] == colour] for colour in colours.values()}
    markers = {t: _MARKERS[alike[c].index(t) % len(_MARKERS)] for t, c in colours.items()} | {DEFAULT: "*"}
    handles = {}
    for axis, problem in zip(axes, problems, strict=False):
        handles |= _panel(axis, problem, markers)
    for axis in axes[len(problems) :]:
        axis.set_visible(False)
    shown = [handles[t] for group in alike.values() for t in group if t in handles]
    figure.legend(handles=shown, loc="outside lower center", ncols=across + 1, frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _colour(x: MethodRow) -> str:
    if x.title.startswith("kinbandits") or "of ours" in x.title:
        return _OURS
    return FAMILIES[PEERS[x.peer].family][1] if x.peer else _BASE


def _panel(axis: Any, problem: Standings, markers: Mapping[str, str]) -> dict[str, Any]:
    """The handles for the legend, by title."""
    handles = {}
    for x in problem.rows:
        if x.title in ("UCB1", "Uniform") or x.cpu_ms is None:  # far above all others
            continue
        handles[x.title] = axis.errorbar(
            x.cpu_ms, x.mean, yerr=0.0 if math.isnan(x.sd) else x.sd, fmt=markers[x.title], color=_colour(x),
            ms=12 if x.title == DEFAULT else 6, capsize=2, lw=0.8, label=x.title,
        )  # fmt: skip
    axis.set_title(f"{problem.title}, {problem.rounds:,} rounds", fontsize=10)
    axis.set_xlabel("CPU ms a decision and update", fontsize=8)
    axis.set_ylabel("final regret", fontsize=8)
    axis.set(xscale="log", yscale="log")
    axis.minorticks_off()
    for limits, ticks in ((axis.get_xlim(), axis.set_xticks), (axis.get_ylim(), axis.set_yticks)):
        found = _ticks(*limits)
        ticks(found, [f"{t:g}" for t in found], fontsize=7)
    axis.grid(alpha=0.25)
    return handles


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between the two, at most seven, for a logarithmic axis.

    >>> _ticks(55.0, 96.0)
    [60.0, 70.0, 80.0, 90.0]
    >>> _ticks(15.0, 1200.0)
    [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
    """
    tens = range(math.floor(math.log10(max(low, 1e-9))), math.ceil(math.log10(high)) + 1)
    tenth, fifth, half = (tuple(1 + i / n for i in range(9 * n)) for n in (10, 5, 2))
    for digits in (
        tenth,
        fifth,
        half,
        (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
        (1, 1.5, 2, 3, 5, 7),
        (1, 2, 5),
        (1,),
    ):
        found = [d * 10.0**k for k in tens for d in digits if low <= d * 10.0**k <= high]
        if len(found) <= 7:
            break
    return found
