"""Figures: one look for reports, documentation and notebooks, and the pictures of single objects.

Colours of Okabe and Ito, line styles for grey printers, lines labelled at their ends, units on all axes; matrices use
viridis. matplotlib is imported when a figure is asked for.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix
from kinbandits.errors import package

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
STYLES = ("-", "--", "-.", ":")
_NAMED = 50  # arms of a matrix that are named at its sides
_DPI = 200  # of the images that are saved
_RC: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "kinbandits",
    "pdf.fonttype": 42,
}


@contextmanager
def plot_style() -> Iterator[Any]:
    """The look of all our figures; says so where matplotlib is missing."""
    matplotlib = package("matplotlib", "figures need", "'kinbandits[plot]'")
    with matplotlib.rc_context(_RC):
        yield matplotlib


def canvas(columns: int, rows: int, width: float, height: float) -> tuple[Any, NDArray[Any]]:
    """A figure with a grid of axes, (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    class Picture(Figure):
        """A figure that a notebook shows without pyplot."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            with plot_style():
                _settle(self)
                self.savefig(buffer, format="png", dpi=150)
            return buffer.getvalue()

    # Inches of padding: square panels overshoot the default a little.
    figure = Picture(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.07))
    FigureCanvasAgg(figure)
    return figure, np.array(figure.subplots(rows, columns, squeeze=False))


def label_ends(ax: Any, ends: Sequence[tuple[float, str, Mapping[str, Any]]]) -> None:
    """Name lines at their right ends: the last value, name and look of each. Call it when the limits are set.

    Names that would overlap move apart; a piece of the line leads to each.
    """
    low, high = ax.get_ylim()
    height = ax.figure.get_size_inches()[1] / ax.get_subplotspec().get_gridspec().nrows
    line = 0.17 / max(height - 0.7, 0.5)  # of text, as a part of the axes
    names = {name: textwrap.fill(name, 17) for _, name, _ in ends}
    sizes = {name: line * (1 + text.count("\n")) for name, text in names.items()}
    bottom, places = -1.0, {}
    for value, name, _ in sorted(ends, key=lambda end: end[0]):
        places[name] = max((value - low) / (high - low), bottom + sizes[name] / 2)
        bottom = places[name] + sizes[name] / 2
    top = 1.0 + line / 2
    for name in reversed(places):  # what was pushed above the axes moves down again
        places[name] = min(places[name], top - sizes[name] / 2)
        top = places[name] - sizes[name] / 2
    for value, name, look in ends:
        leader = {"color": look["color"], "linestyle": look["linestyle"], "shrinkA": 1, "shrinkB": 0}
        ax.annotate(
            names[name],
            xy=(1.0, (value - low) / (high - low)),
            xytext=(1.07, places[name]),
            xycoords="axes fraction",
            arrowprops={"arrowstyle": "-", "relpos": (0.0, 0.5), **leader},
            fontsize=8,
            verticalalignment="center",
            annotation_clip=False,
            linespacing=1.0,
        )


def cluster_order(similarity: Matrix) -> Indices:
    """An order of arms that shows blocks: average-linkage clustering of the distances 1 - similarity, leaves in the
    optimal order (neighbours as alike as possible; Bar-Joseph et al., 2001).

    >>> cluster_order(np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.1], [0.9, 0.1, 1.0]])).tolist()[1]
    2
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    n = len(similarity)
    if n < 3:
        return np.arange(n)
    distances = np.maximum(1.0 - (similarity + similarity.T) / 2.0, 0.0)
    np.fill_diagonal(distances, 0.0)
    few = n <= 300  # the optimal order takes n^2 memory and much time
    tree = linkage(squareform(distances, checks=False), "average", optimal_ordering=few)
    return np.asarray(leaves_list(tree), dtype=np.intp)


def matrices_figure(panels: Sequence[tuple[str, Matrix, Sequence[str]]], top: float | None = None) -> Any:
    """Similarity matrices (title, K, names of the arms) on one scale, arms re-ordered by `cluster_order`.

    The diagonal, which is 1, is left blank.
    """
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    largest = max(len(K) for _, K, _ in panels)
    longest = max(len(_short(name)) for _, _, names in panels for name in names)
    side = (2.8 if largest <= 12 else 4.2) + (0.055 * longest if largest <= _NAMED else 0.0)
    with plot_style():
        figure, axes = canvas(columns, rows, side * columns + 0.6, (side + 0.1) * rows)
        for ax in axes.ravel()[len(panels) :]:
            ax.set_axis_off()
        for ax, (title, K, names) in zip(axes.ravel(), panels, strict=False):
            order = cluster_order(K)
            shades = np.ma.masked_array(K[np.ix_(order, order)], mask=np.eye(len(K), dtype=bool))
            image = ax.imshow(shades, cmap="viridis", vmin=min(0.0, float(shades.min())), vmax=top)
            labels = [_short(names[i]) for i in order] if len(K) <= _NAMED else []
            size, turned = 7 if len(K) <= 12 else 5, 90 if any(len(name) > 2 for name in labels) else 0
            ax.set_xticks(range(len(labels)), labels, fontsize=size, rotation=turned)
            ax.set_yticks(range(len(labels)), labels, fontsize=size)
            ax.tick_params(length=0)
            ax.spines[:].set_visible(False)
            ax.set_title(title, fontsize=9)
        bar = figure.colorbar(image, ax=axes, shrink=0.85, pad=0.02, aspect=30)
        bar.ax.tick_params(labelsize=7)
        bar.outline.set_visible(False)
        return figure


# -- the pictures of single objects ---------------------------------------------------------------


def curve_figure(values: Matrix, counted: str, title: str) -> Any:
    """A curve over rounds."""
    with plot_style():
        figure, axes = canvas(1, 1, 5.2, 3.2)
        at = np.unique(np.linspace(0, len(values) - 1, min(len(values), 500)).astype(np.intp))
        axes[0, 0].plot(at + 1, values[at], color=OKABE_ITO[0], linewidth=1.5)
        axes[0, 0].set(title=title, xlabel="round t", ylabel=counted)
        return figure


def contributions_figure(parts: Sequence[tuple[str, float]], title: str) -> Any:
    """Bars: what each part adds to a sum, and under them the sum."""
    total = sum(value for _, value in parts)
    rows = [(_short(name), value) for name, value in parts] + [("together", total)]
    colours = [OKABE_ITO[2] if value >= 0.0 else OKABE_ITO[1] for _, value in parts] + ["#000000"]
    with plot_style():
        figure, axes = canvas(1, 1, 5.2, 0.26 * len(rows) + 1.0)
        ax = axes[0, 0]
        ax.barh(range(len(rows)), [value for _, value in rows], color=colours, height=0.65)
        ax.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=8)
        ax.invert_yaxis()
        ax.axvline(0.0, color="0.5", linewidth=0.8)
        ax.set_xlabel("part of the estimated reward")
        figure.suptitle(title, fontsize=9)
        return figure


def comparison_figure(policies: Mapping[str, Sequence[Any]], more: Mapping[str, Any], logged: float) -> Any:
    """What policies would have earned: an interval for each estimate; beside it, differences to the first."""
    with plot_style():
        figure, axes = canvas(2 if more else 1, 1, 8.6 if more else 5.0, 1.0 + 0.8 * len(policies))
        panels = axes.ravel()
        _whiskers(panels[0], policies)
        panels[0].axvline(logged, color="0.6", linewidth=0.8, linestyle="--")
        panels[0].set_xlabel("reward a round (dashed: the log itself)")
        if more:
            _whiskers(panels[1], {name: [e] for name, e in more.items()})
            panels[1].axvline(0.0, color="0.6", linewidth=0.8)
            panels[1].set_xlabel(f"more than {_short(next(iter(policies)))}, row by row\n(right of 0 is better)")
        return figure


def _whiskers(ax: Any, rows: Mapping[str, Sequence[Any]]) -> None:
    """Intervals, named at their right ends, a group of them for each row."""
    for y, estimates in enumerate(rows.values()):
        for i, e in enumerate(estimates):
            height = y + 0.17 * (i - (len(estimates) - 1) / 2)
            ends, colour = [[e.value - e.low], [e.high - e.value]], OKABE_ITO[i % len(OKABE_ITO)]
            ax.errorbar([e.value], [height], xerr=ends, fmt="o", markersize=4, capsize=2, color=colour)
            ax.annotate(e.name, (e.high, height), (4, 0), textcoords="offset points", fontsize=7, va="center")
    ax.set_yticks(range(len(rows)), [_short(name) for name in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)


def _short(name: str) -> str:
    return name if len(name) <= 28 else f"{name[:27]}…"


def _settle(figure: Any) -> None:
    """Lay the figure out as for the saved image, three times: widths of labels depend on it in turn."""
    if not getattr(figure, "_settled", False):
        figure.set_dpi(_DPI)
        for _ in range(3):
            figure.get_layout_engine().execute(figure)
        figure.set_layout_engine("none")
        figure._settled = True


def save_figure(figure: Any, path: Path) -> None:
    """Write the figure (.png, .svg or .pdf), with nothing in the file that depends on the day."""
    dates: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with plot_style():
        _settle(figure)
        figure.savefig(path, dpi=_DPI, metadata=dates.get(path.suffix))
