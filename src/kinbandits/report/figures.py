"""The figures of a report, as a reviewer of a paper would want them. Their look is in `kinbandits.plotting`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices
from kinbandits.plotting import OKABE_ITO, STYLES, canvas, cluster_order, color_bar, matrix_panel, plot_style
from kinbandits.presets import METHODS
from kinbandits.report.results import Results, RunGroup, half_width

_FIXED: dict[str, int] = dict(zip(METHODS, (0, 1, 2, 3, 5), strict=True))  # the same in every figure
_POINTS = 250  # a curve in a figure needs no more


def looks(results: Results) -> dict[str, dict[str, Any]]:
    """Colour and line style of every method, the same in all figures."""
    methods = list(dict.fromkeys(m for p in results.groups for m in p.methods))
    free = [i for i in range(len(OKABE_ITO)) if i not in {_FIXED[m] for m in methods if m in _FIXED}]
    found: dict[str, dict[str, Any]] = {}
    for method in methods:
        i = _FIXED[method] if method in _FIXED else (free.pop(0) if free else len(found) % len(OKABE_ITO))
        found[method] = {"color": OKABE_ITO[i], "linestyle": STYLES[len(found) % len(STYLES)]}
    return found


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
        ax.set_xlabel("difference in final regret, % of the second method's mean\n(left of 0 the first is better)")
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
    """Similarity of arms at the end, mean of all runs, in `cluster_order`; the diagonal, which is 1, is blank."""
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
            image = matrix_panel(ax, K[np.ix_(order, order)], [group.arms()[i] for i in order])
            ax.set_title(group.name if len({m for _, m in shown}) == 1 else f"{group.name}, {method}", fontsize=9)
            color_bar(figure, image, ax)
        return figure


def choices_figure(reports: Mapping[str, Any]) -> Any:
    """One column per report (a `SimilarityReport` or its `to_data`), named by its key; three rows.

    Above: the share mu that was chosen. Middle: how much better than independent arms each candidate fits, and the
    margin. Below: how much more its leave-one-out decisions earn, where judged; or how likely each mu is.
    """
    shown = {name: r if isinstance(r, dict) else r.to_data() for name, r in reports.items()}
    with plot_style():
        figure, axes = canvas(len(shown), 3, max(5.4, 3.6 * len(shown)), 6.4)
        handles: dict[str, Any] = {}
        for column, (name, report) in zip(axes.T, shown.items(), strict=True):
            _column(column, report)
            column[0].set_title(name)
            for ax in column:
                for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                    handles.setdefault(label, handle)
        axes[0, 0].set_ylabel("chosen mu")
        axes[1, 0].set_ylabel("fit, nats above\nindependent arms")
        averaged = any(c.get("posterior") for c in next(iter(shown.values()))["over_time"])
        axes[2, 0].set_ylabel("how likely mu is" if averaged else "decisions, reward above\nindependent arms")
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)
        return figure


def recorded_choices(results: Results) -> dict[str, Any]:
    """The reports that runs have kept (first seed of each environment and method), those with candidates."""
    found = {}
    for group in results.groups:
        for method in group.methods:
            report = group.of(method)[0].trace.metadata.get("choices")
            if report and any(c["candidates"] for c in report["over_time"]):
                found[f"{group.name}, {method}"] = report
    return dict(list(found.items())[:4])


def _column(axes: Any, report: dict[str, Any]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    past = report["over_time"]
    rows = [c["rows"] for c in past]
    axes[0].step(rows, [c["mu"] for c in past], where="post", color="black", linewidth=1.5, label="chosen")
    axes[0].plot(rows, [c["mu"] for c in past], "o", color="black", markersize=3)
    axes[0].set_ylim(-0.05, 1.0)
    keys = sorted({(e["mu"], e["scale"] or 0.0) for c in past for e in c["candidates"] if e["mu"]})
    mus, scales = sorted({k[0] for k in keys}), sorted({k[1] for k in keys})
    for mu, scale in keys:
        look = {
            "color": OKABE_ITO[mus.index(mu) % len(OKABE_ITO)],
            "linestyle": STYLES[scales.index(scale) % len(STYLES)],
            "linewidth": 1.3,
        }
        label = f"mu = {mu:g}, scale {scale:g}" if scale else f"mu = {mu:g}"
        for ax, what in ((axes[1], "log_likelihood"), (axes[2], "decision_score")):
            leads = [_lead(c["candidates"], mu, scale, what) for c in past]
            if any(y is not None for y in leads):  # gaps stay gaps
                y = [math.nan if v is None else v for v in leads]
                ax.plot(rows, y, marker="o", markersize=2.5, label=label, **look)
    if report["margin"] is not None and not past[-1].get("posterior"):
        axes[1].axhline(report["margin"], color="0.35", linewidth=0.9, linestyle="--", label="needed")
    axes[1].set_yscale("symlog", linthresh=10.0)
    axes[1].yaxis.set_major_formatter(ScalarFormatter())
    _posterior(axes[2], past, mus)
    if not axes[2].lines and not axes[2].collections:
        axes[2].text(0.5, 0.5, "not judged: no candidate fits\nbetter by the margin", ha="center", va="center",
                     transform=axes[2].transAxes, color="0.35", fontsize=8)  # fmt: skip
    axes[2].set_xlabel("rows learned")
    for ax in axes:
        ax.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlim(min(rows) * 0.95, max(rows) * 1.05)


def _posterior(ax: Any, past: list[dict[str, Any]], shown: list[float]) -> None:
    """Bands, one for each mu in the colour of its lines, from mu = 0 below."""
    averaged = [c for c in past if c.get("posterior")]
    if averaged:
        mus = sorted({mu for c in averaged for mu in c["posterior"]}, key=float)
        shares = [[c["posterior"].get(mu, 0.0) for c in averaged] for mu in mus]
        colors = [OKABE_ITO[shown.index(mu) % len(OKABE_ITO)] if (mu := float(m)) in shown else "0.8" for m in mus]
        labels = ["_" if float(mu) else "mu = 0" for mu in mus]
        ax.stackplot([c["rows"] for c in averaged], shares, colors=colors, labels=labels, step="post", alpha=0.6)


def _lead(candidates: list[dict[str, Any]], mu: float, scale: float, what: str) -> float | None:
    """How much more a candidate has than Independent; None where one of them is not known."""
    own = next((e[what] for e in candidates if not e["mu"]), None)
    its = next((e[what] for e in candidates if e["mu"] == mu and (e["scale"] or 0.0) == scale), None)
    return None if own is None or its is None else float(its - own)
