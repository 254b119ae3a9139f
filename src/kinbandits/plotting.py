"""Figures: one look for reports, documentation and notebooks, and the pictures of single objects.

Colours of Okabe and Ito, line styles for grey printers, units on all axes; matrices use viridis. matplotlib is
imported when a figure is asked for.
"""

from __future__ import annotations

import base64
import io
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
            return _image(self, "png")

    # Inches of padding: square panels overshoot the default a little.
    figure = Picture(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.07))
    FigureCanvasAgg(figure)
    return figure, np.array(figure.subplots(rows, columns, squeeze=False))


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


def matrix_panel(ax: Any, K: Matrix, names: Sequence[str], top: float | None = None) -> Any:
    """A similarity matrix in colours; the diagonal, which is 1, is left blank. Gives the image."""
    shades = np.ma.masked_array(K, mask=np.eye(len(K), dtype=bool))
    image = ax.imshow(shades, cmap="viridis", vmin=min(0.0, float(shades.min())), vmax=top)
    size = 7 if len(names) <= 12 else 5
    angle = 0 if max(map(len, names)) <= 2 else 90
    if len(names) <= _NAMED:
        ax.set_xticks(range(len(names)), names, fontsize=size, rotation=angle)
        ax.set_yticks(range(len(names)), names, fontsize=size)
    else:
        ax.set_xticks([])
        ax.set_yticks([])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return image


def color_bar(figure: Any, image: Any, axes: Any) -> None:
    """The scale of a `matrix_panel`."""
    bar = figure.colorbar(image, ax=axes, shrink=0.85, pad=0.02, aspect=30)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)


# -- the pictures of single objects ---------------------------------------------------------------


def curve_figure(values: Matrix, counted: str, title: str, ax: Any = None, **line: Any) -> Any:
    """A curve over rounds, drawn into ``ax`` or a figure of its own; gives the figure."""
    with plot_style():
        own = ax is None
        if own:
            ax = canvas(1, 1, 5.2, 3.2)[1][0, 0]
            ax.set_title(title)
        at = np.unique(np.linspace(0, len(values) - 1, min(len(values), 500)).astype(np.intp))
        ax.plot(at + 1, values[at], **({"color": OKABE_ITO[0], "linewidth": 1.5} if own else {}) | line)
        ax.set_xlabel("round t")
        ax.set_ylabel(counted)
        if "label" in line:
            ax.legend(frameon=False)
        return ax.figure


def matrix_figure(K: Matrix, names: Sequence[str], title: str) -> Any:
    """A similarity matrix, arms re-ordered by `cluster_order` to show blocks."""
    with plot_style():
        names = [_short(name) for name in names]
        size = 3.0 if len(names) <= 12 else 4.4
        room = 0.055 * max(map(len, names)) if len(names) <= _NAMED else 0.0
        figure, axes = canvas(1, 1, size + room + 0.6, size + room)
        order = cluster_order(K)
        image = matrix_panel(axes[0, 0], K[np.ix_(order, order)], [names[i] for i in order])
        axes[0, 0].set_title(title, fontsize=9)
        color_bar(figure, image, axes)
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
    """What policies would have earned: an interval for each estimate; below, differences to the first."""
    n = len(policies)
    with plot_style():
        figure, axes = canvas(1, 2 if more else 1, 5.5, 1.0 + 0.7 * n)
        panels = axes.ravel()
        estimators = list(dict.fromkeys(e.name for found in policies.values() for e in found))
        for i, found in enumerate(policies.values()):
            for e in found:
                j = estimators.index(e.name)
                _whisker(panels[0], e, n - 1 - i + 0.15 * (len(estimators) / 2 - j), j, e.name if not i else None)
        panels[0].axvline(logged, color="0.6", linewidth=0.8, linestyle="--", label="the log itself")
        panels[0].set_xlabel("reward a round")
        panels[0].legend(ncols=len(estimators) + 1, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
        panels[0].set_yticks(range(n), [_short(name) for name in reversed(list(policies))])
        panels[0].set_ylim(-0.6, n - 0.4)
        if more:
            for i, e in enumerate(more.values()):
                _whisker(panels[1], e, len(more) - 1 - i, len(estimators) - 1, None)
            panels[1].axvline(0.0, color="0.6", linewidth=0.8)
            panels[1].set_yticks(range(len(more)), [_short(name) for name in reversed(list(more))])
            panels[1].set_ylim(-0.6, len(more) - 0.4)
            panels[1].set_xlabel(f"more than {_short(next(iter(policies)))} (dr, row by row)")
    return figure


def _whisker(ax: Any, e: Any, height: float, number: int, label: str | None) -> None:
    ends = [[e.value - e.low], [e.high - e.value]]
    color = OKABE_ITO[number % len(OKABE_ITO)]
    ax.errorbar([e.value], [height], xerr=ends, fmt="o", markersize=4, capsize=2, color=color, label=label)


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


def save_figure(figure: Any, stem: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write the figure in these formats, with nothing in the files that depends on the day."""
    dates: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    paths = []
    with plot_style():
        _settle(figure)
        for kind in formats:
            path = stem.with_suffix(f".{kind}")
            figure.savefig(path, dpi=_DPI, metadata=dates.get(kind))
            paths.append(path)
    return paths


def data_uri(image: Path) -> str:
    """A PNG file as the value of an HTML attribute."""
    return "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()


def _image(figure: Any, kind: str) -> bytes:
    buffer = io.BytesIO()
    with plot_style():
        _settle(figure)
        figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()
