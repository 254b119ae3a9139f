"""The paper's own figures: its synthetic problem, similarity beside counts alone, the exploration sweep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinbandits.environments import SyntheticNews
from kinbandits.paper.sweep import CountEffect, SweepPoint
from kinbandits.plotting import OKABE_ITO, canvas, cluster_order, color_bar, matrix_panel, plot_style

__all__ = ["counts_figure", "sweep_figure", "synthetic_figure"]

_LOOKS = {
    "KMTL-UCB": (OKABE_ITO[0], "-", "o"),
    "KMTL-UCB-Est": (OKABE_ITO[1], "--", "s"),
    "counts only": (OKABE_ITO[6], ":", "^"),
    "no self pairs": (OKABE_ITO[4], "-.", "v"),
    "Kernel-UCB-Ind": (OKABE_ITO[2], "-", "D"),
}


def synthetic_figure(environment: SyntheticNews, users: int = 1500) -> Any:
    """The synthetic problem as it is played: contexts of every article for many users, coloured by the reward."""
    environment = environment.replace(horizon=users)
    rounds = list(environment.rounds())
    contexts = np.stack([r.context for r in rounds])  # (users, N, 2)
    means = np.stack([r.rewards for r in rounds])
    N = environment.n_arms
    look: dict[str, Any] = {"s": 5, "cmap": "viridis", "linewidths": 0, "rasterized": True}
    with plot_style():
        figure, axes = canvas(N, 1, 2.3 * N + 1.2, 2.9)
        for a, ax in enumerate(axes[0]):
            points = ax.scatter(*contexts[:, a].T, c=means[:, a], vmin=means.min(), vmax=means.max(), **look)
            ax.set(title=f"article {a + 1}, θ = {math.degrees(environment.theta[a]):.1f}°", aspect="equal")
            ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xlabel="first coordinate")
            ax.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
        axes[0, 0].set_ylabel("second coordinate")
        bar = figure.colorbar(points, ax=axes[0].tolist(), shrink=0.85, pad=0.01)
        bar.set_label("reward")
        bar.outline.set_visible(False)
        return figure


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
