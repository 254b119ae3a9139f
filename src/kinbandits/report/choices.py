"""A picture of `policy.similarity_report()`: what an adaptive similarity chose over time, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kinbandits.plotting import OKABE_ITO, canvas, plot_style
from kinbandits.report.results import Results

__all__ = ["choices_figure", "recorded_choices"]

_DASHES = ("-", "--", ":", "-.")


def choices_figure(reports: Mapping[str, Any]) -> Any:
    """One column per report (a `SimilarityReport` or its `to_data`), named by its key; three rows.

    Above: the share mu of the estimate that was chosen. Middle: how much better than independent arms each
    candidate fits, with the margin it must reach. Below: how much more its leave-one-out decisions earn, where
    that was judged; or how likely each mu is, where the similarity is an average over mu.
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


def recorded_choices(results: Results, most: int = 4) -> dict[str, Any]:
    """The reports that runs have kept (first seed of each environment and method), those with candidates."""
    found = {}
    for group in results.groups:
        for method in group.methods:
            report = group.of(method)[0].trace.metadata.get("choices")
            if report and any(c["candidates"] for c in report["over_time"]):
                found[f"{group.name}, {method}"] = report
    return dict(list(found.items())[:most])


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
            "linestyle": _DASHES[scales.index(scale) % len(_DASHES)],
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
