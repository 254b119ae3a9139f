"""The figures of a report, as a reviewer of a paper would want them. Their look is in `kinbandits.plotting`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinbandits._types import Matrix
from kinbandits.plotting import OKABE_ITO, STYLES, canvas, label_ends, matrices_figure, plot_style
from kinbandits.results import RunGroup, half_width

_POINTS = 250  # a curve in a figure needs no more


def looks(groups: Sequence[RunGroup]) -> dict[str, dict[str, Any]]:
    """Colour and line style of every method, the same in all figures."""
    methods = list(dict.fromkeys(m for p in groups for m in p.methods))
    return {
        method: {"color": OKABE_ITO[i % len(OKABE_ITO)], "linestyle": STYLES[i % len(STYLES)]}
        for i, method in enumerate(methods)
    }


def regret_figure(groups: Sequence[RunGroup]) -> Any:
    """Mean regret of every method with its 95 % band, a panel per environment (the paper's figures)."""

    def draw(ax: Any, curves: Matrix, i: int, look: dict[str, Any]) -> None:
        at = _places(curves)
        mean, half = curves[:, at].mean(axis=0), half_width(curves[:, at])
        ax.plot(at + 1, mean, linewidth=1.5, **look)
        if len(curves) > 1:
            ax.fill_between(at + 1, mean - half, mean + half, color=look["color"], alpha=0.18, linewidth=0)

    return _curves(groups, draw)


def appendix_figure(groups: Sequence[RunGroup]) -> Any:
    """Every run as a thin line, and the mean with its 95 % confidence interval at ten rounds (the appendix)."""

    def draw(ax: Any, curves: Matrix, i: int, look: dict[str, Any]) -> None:
        at, step = _places(curves), curves.shape[1] / 10
        ax.plot(at + 1, curves[:, at].T, color=look["color"], linewidth=0.4, alpha=0.3)
        # Bars of different methods stand a little apart, so that none hides another.
        marks = (np.arange(1, 11) * step - 1 - step * 0.12 * i).astype(int).clip(0)
        half = None if len(curves) < 2 else half_width(curves[:, marks])
        drawn = {"marker": "os^Dv"[i % 5], "markersize": 3, "capsize": 2, "linewidth": 1.2, **look}
        ax.errorbar(marks + 1, curves[:, marks].mean(axis=0), yerr=half, **drawn)

    return _curves(groups, draw)


def _places(curves: Matrix) -> Any:
    n = curves.shape[1]
    return np.unique(np.linspace(0, n - 1, min(n, _POINTS)).astype(np.intp))


def _curves(groups: Sequence[RunGroup], draw: Callable[[Any, Matrix, int, dict[str, Any]], None]) -> Any:
    """A panel for each environment; ``draw`` gets the axes, the curves of a method, its number and its look."""
    n = len(groups)
    columns = n if n <= 3 else (2 if n == 4 else 3)
    rows = math.ceil(n / columns)
    with plot_style():
        figure, axes = canvas(columns, rows, 4.4 * columns + 0.8, 2.75 * rows + 0.2)
        look = looks(groups)
        for ax in axes.ravel()[n:]:
            ax.set_axis_off()
        for ax, group in zip(axes.ravel(), groups, strict=False):
            ends = []
            for i, method in enumerate(group.methods):
                curves = group.curves(method)
                draw(ax, curves, i, look[method])
                ends.append((float(curves[:, -1].mean()), method, look[method]))
            counted = group.metric if group.better > 0 else f"cumulative {group.metric}"
            ax.set(title=f"{group.name} (N = {len(group.arms())})", xlabel="round t", ylabel=counted)
            ax.set_xlim(0, 1.01 * group.rounds)
            if group.better < 0:
                ax.set_ylim(bottom=0)
            label_ends(ax, ends)
        return figure


def difference_figure(groups: Sequence[RunGroup]) -> Any:
    """Final value of the first method minus each other's, seed by seed, with the mean and its 95 % interval."""
    pairs = [(p, m) for p in groups for m in p.methods[1:]]
    with plot_style():
        figure, axes = canvas(1, 1, 6.8, 0.42 * len(pairs) + 1.3)
        ax = axes[0, 0]
        look = looks(groups)
        for y, (group, method) in enumerate(pairs):
            base = group.finals(method)
            values = 100.0 * (group.finals(group.methods[0]) - base) / np.abs(base).mean()
            dots = {"color": look[method]["color"], "markersize": 4, "alpha": 0.55, "linewidth": 0}
            ax.plot(values, np.full(len(values), y), "o", **dots)
            half = 0.0 if len(values) < 2 else float(half_width(values))
            bar = {"color": "black", "marker": "D", "markersize": 4.5, "capsize": 3, "linewidth": 1.2}
            ax.errorbar(values.mean(), y, xerr=half, **bar)
        ax.axvline(0.0, color="0.5", linewidth=0.8)
        labels = [f"{group.name}: {group.methods[0]}\nminus {method}" for group, method in pairs]
        ax.set_yticks(range(len(pairs)), labels, fontsize=7.5)
        ax.set_ylim(len(pairs) - 0.5, -0.5)
        sides = {group.better: group.metric for group, _ in pairs}
        better = "; ".join(f"{what}: {'right' if side > 0 else 'left'}" for side, what in sorted(sides.items()))
        metric = next(iter(sides.values())) if len(sides) == 1 else "value"
        where = f"{better} of 0 the first is better"
        ax.set_xlabel(f"difference in final {metric}, % of the second method's mean\n({where})")
        return figure


def similarity_figure(groups: Sequence[RunGroup]) -> Any | None:
    """Similarity of arms at the end, mean of all runs, on one scale from 0 to 1.

    None if no method learned one: all are the identity or all ones.
    """
    shown = []
    for group in groups:
        for method in group.methods:
            K = group.similarity(method)
            if K is not None and len(K) > 2 and not np.allclose(K, np.eye(len(K))) and not np.allclose(K, 1.0):
                shown.append((group, method, K))
    one = len({method for _, method, _ in shown}) == 1
    panels = [(group.name if one else f"{group.name}, {method}", K, group.arms()) for group, method, K in shown]
    return matrices_figure(panels, 1.0) if panels else None
