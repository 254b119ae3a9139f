"""The figures of a report, as a reviewer of a paper would want them. Their look is in `kinbandits.plotting`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices
from kinbandits.plotting import OKABE_ITO, STYLES, canvas, cluster_order, color_bar, matrix_panel, plot_style
from kinbandits.results import Results, RunGroup, half_width

_POINTS = 250  # a curve in a figure needs no more


def looks(results: Results) -> dict[str, dict[str, Any]]:
    """Colour and line style of every method, the same in all figures."""
    methods = list(dict.fromkeys(m for p in results.groups for m in p.methods))
    return {
        method: {"color": OKABE_ITO[i % len(OKABE_ITO)], "linestyle": STYLES[i % len(STYLES)]}
        for i, method in enumerate(methods)
    }


def _grid(results: Results) -> tuple[Any, NDArray[Any]]:
    n = len(results.groups)
    columns = n if n <= 3 else (2 if n == 4 else 3 if n <= 6 else 4)
    rows = math.ceil(n / columns)
    width = {1: 5.2, 2: 7.6, 3: 10.0}.get(columns, 11.6)
    figure, axes = canvas(columns, rows, width, 2.75 * rows + 0.45)
    for ax in axes.ravel()[n:]:
        ax.set_axis_off()
    return figure, axes


def _finish(figure: Any, axes: NDArray[Any], results: Results) -> None:
    """Common parts: labels, limits, and one legend for all panels."""
    handles: dict[str, Any] = {}
    for ax, group in zip(axes.ravel(), results.groups, strict=False):
        label = group.metric if group.better > 0 else f"cumulative {group.metric}"
        ax.set(title=f"{group.name} (N = {len(group.arms())})", xlabel="round t", ylabel=label)
        ax.set_xlim(0, group.rounds)
        if group.better < 0:
            ax.set_ylim(bottom=0)
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(5, len(handles)), frameon=False
    )


def _places(rounds: int) -> Indices:
    return np.unique(np.linspace(0, rounds - 1, min(rounds, _POINTS)).astype(np.intp))


def regret_figure(results: Results) -> Any:
    """Mean regret of every method with its 95 % band, a panel per environment (the paper's figures)."""
    with plot_style():
        figure, axes = _grid(results)
        look = looks(results)
        for ax, group in zip(axes.ravel(), results.groups, strict=False):
            at = _places(group.rounds)
            for method in group.methods:
                curves = group.curves(method)[:, at]
                mean, half = curves.mean(axis=0), half_width(curves)
                ax.plot(at + 1, mean, label=method, linewidth=1.5, **look[method])
                if len(curves) > 1:
                    ax.fill_between(
                        at + 1, mean - half, mean + half, color=look[method]["color"], alpha=0.18, linewidth=0
                    )
        _finish(figure, axes, results)
        return figure


def appendix_figure(results: Results) -> Any:
    """Every run as a thin line, and the mean with its 95 % confidence interval at ten rounds (the appendix)."""
    with plot_style():
        figure, axes = _grid(results)
        look = looks(results)
        for ax, group in zip(axes.ravel(), results.groups, strict=False):
            at = _places(group.rounds)
            for i, method in enumerate(group.methods):
                curves = group.curves(method)
                colour = look[method]["color"]
                ax.plot(at + 1, curves[:, at].T, color=colour, linewidth=0.4, alpha=0.3)
                # Bars of different methods stand a little apart, so that none hides another.
                step = group.rounds / 10
                marks = (np.arange(1, 11) * step - 1 - step * 0.12 * i).astype(int).clip(0)
                half = None if len(curves) < 2 else half_width(curves[:, marks])
                drawn = {"marker": "os^Dv"[i % 5], "markersize": 3, "capsize": 2, "linewidth": 1.2, **look[method]}
                ax.errorbar(marks + 1, curves[:, marks].mean(axis=0), yerr=half, label=method, **drawn)
        _finish(figure, axes, results)
        for ax, group in zip(axes.ravel(), results.groups, strict=False):
            ax.set_xlim(0, 1.02 * group.rounds)
        return figure


def difference_figure(results: Results) -> Any:
    """Final value of the first method minus each other's, seed by seed, with the mean and its 95 % interval."""
    pairs = [(p, m) for p in results.groups for m in p.methods[1:]]
    with plot_style():
        figure, axes = canvas(1, 1, 6.8, 0.42 * len(pairs) + 1.3)
        ax = axes[0, 0]
        look = looks(results)
        labels = []
        for y, (group, method) in enumerate(pairs):
            base = group.finals(method)
            values = 100.0 * (group.finals(group.methods[0]) - base) / np.abs(base).mean()
            colour = look[method]["color"]
            ax.plot(values, np.full(len(values), y), "o", color=colour, markersize=4, alpha=0.55, linewidth=0)
            half = 0.0 if len(values) < 2 else float(half_width(values))
            ax.errorbar(
                values.mean(), y, xerr=half, color="black", marker="D", markersize=4.5, capsize=3, linewidth=1.2
            )
            labels.append(f"{group.name}: {group.methods[0]}\nminus {method}")
        ax.axvline(0.0, color="0.5", linewidth=0.8)
        ax.set_yticks(range(len(pairs)), labels, fontsize=7.5)
        ax.set_ylim(len(pairs) - 0.5, -0.5)
        sides = {group.better: group.metric for group, _ in pairs}
        better = "; ".join(f"{what}: {'right' if side > 0 else 'left'}" for side, what in sorted(sides.items()))
        where = f"{better} of 0 the first is better"
        metric = next(iter(sides.values())) if len(sides) == 1 else "value"
        ax.set_xlabel(f"difference in final {metric}, % of the second method's mean\n({where})")
        return figure


def learned_similarities(results: Results) -> list[tuple[RunGroup, str]]:
    """Environments and methods whose similarity is worth a picture: neither the identity nor all ones."""
    found = []
    for group in results.groups:
        for method in group.methods:
            K = group.similarity(method)
            if K is None or len(K) < 3 or np.allclose(K, np.eye(len(K))) or np.allclose(K, 1.0):
                continue
            found.append((group, method))
    return found


def similarity_figure(results: Results) -> Any | None:
    """Similarity of arms at the end, mean of all runs, in `cluster_order`; one scale from 0 to 1 for all panels.

    The diagonal, which is 1, is blank.
    """
    shown = learned_similarities(results)
    if not shown:
        return None
    with plot_style():
        columns = min(3, len(shown))
        rows = math.ceil(len(shown) / columns)
        figure, axes = canvas(columns, rows, 3.5 * columns, 3.15 * rows)
        for ax in axes.ravel()[len(shown) :]:
            ax.set_axis_off()
        for ax, (group, method) in zip(axes.ravel(), shown, strict=False):
            K = group.similarity(method)
            assert K is not None
            order = cluster_order(K)
            image = matrix_panel(ax, K[np.ix_(order, order)], [group.arms()[i] for i in order], 1.0)
            ax.set_title(group.name if len({m for _, m in shown}) == 1 else f"{group.name}, {method}", fontsize=9)
        color_bar(figure, image, axes)
        return figure
