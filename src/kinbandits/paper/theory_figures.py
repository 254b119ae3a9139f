"""The theory's pictures. Each takes numbers from `theory_runs` and gives a matplotlib figure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits.paper.theory_effects import MultiTaskEffect, WrongSimilarity
from kinbandits.paper.theory_runs import Growth, RegretRuns, SimilarityCurves, Widths
from kinbandits.plotting import OKABE_ITO, canvas, plot_style

BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK, _ = OKABE_ITO
_DASHES = ("-", "--", "-.", ":")


def similarity_figure(curves: SimilarityCurves) -> Any:
    """Log g and Theorem 1's bound against mu, for several N."""
    with plot_style():
        figure, axes = canvas(2, 1, 8.6, 3.4)
        for i, N in enumerate(curves.n_arms):
            look = {"color": OKABE_ITO[i], "linestyle": _DASHES[i % 4], "label": f"N = {N}"}
            axes[0, 0].plot(curves.mus, curves.log_g[i], **look)
            axes[0, 1].plot(curves.mus, curves.bound[i], **look)
        axes[0, 0].set(ylabel="log g (nats)", title=f"log g of {curves.rows} rows (Theorem 3)")
        axes[0, 1].set(ylabel="bound on regret (units of reward)", title=f"bound at T = {curves.rows} (Theorem 1)")
        for ax in axes[0]:
            ax.set(xlabel="similarity of arms, mu", ylim=(0, None))
        axes[0, 0].legend(title="arms", loc="lower left")
        return figure


def growth_figure(growth: Growth) -> Any:
    """Log g with its bounds, ranks, and the determinant lemma, along a run."""
    with plot_style():
        figure, axes = canvas(3, 1, 11.0, 3.5)
        left, middle, right = axes[0]
        left.plot(growth.t, growth.theorem_2, color=GREEN, linestyle="-.", label="Theorem 2")
        left.plot(growth.t, growth.corollary_1, color=RED, linestyle="--", label="Corollary 1")
        left.plot(growth.t, growth.log_g, color=BLUE, label="log g")
        left.set(title="log g and its bounds", ylabel="nats", yscale="log")
        middle.plot(growth.t, growth.rank, color=GREEN, linestyle="-.", label="rank (in floating point)")
        middle.plot(growth.t, growth.effective_rank, color=BLUE, label="effective rank (Definition 1)")
        middle.set(title="rank of the kernel matrix", ylabel="rank", ylim=(0, None))
        right.plot(growth.t, growth.determinant_lemma, color=RED, linestyle="--", label="2 m log g (Lemma 8)")
        right.plot(growth.t, growth.sum_squared_width, color=BLUE, label="sum of squared widths")
        right.set(title="the determinant lemma", ylabel="sum of s²", yscale="log")
        for ax, place in zip(axes[0], ("lower right", "center right", "center right"), strict=True):
            ax.set(xscale="log", xlabel="rounds t")
            ax.legend(loc=place)
        return figure


def regret_figure(runs: RegretRuns) -> Any:
    """Regret of the algorithms under their bounds, log-log; and how the rounds divide into stages.

    The self-normalised bound holds for every t and is a curve; Theorem 1's is of an algorithm built for T: a mark.
    """
    with plot_style():
        figure, axes = canvas(2, 1, 10.0, 4.6)
        left, right = axes[0]
        t, T = np.arange(1, runs.horizon + 1), runs.horizon
        left.plot([T], [runs.cgp_agnostic], color=PINK, marker="v", linestyle="", label="CGP-UCB at T, no prior")
        left.plot([T], [runs.theorem_1], color=RED, marker="*", markersize=10, linestyle="", label="Theorem 1 at T")
        left.plot([T], [runs.cgp_prior], color=PINK, marker="^", linestyle="", label="CGP-UCB at T, GP prior")
        left.plot(
            runs.growth.t, runs.growth.self_normalised, color=GREEN, linestyle="--", label="self-normalised bound"
        )
        left.plot(t, t, color=BLACK, linewidth=0.8, linestyle=(0, (1, 3)), label="t (reward 1 lost each round)")
        for values, colour, style, name in (
            (runs.sup, ORANGE, "-.", "SupKMTL-UCB"),
            (runs.proved, GREEN, "-", "KMTL-UCB, proved radius"),
            (runs.kmtl, BLUE, "-", "KMTL-UCB"),
        ):
            _band(left, t, values, colour, style, f"{name} (slope {runs.slopes[name]:.2f})")
        left.set(xscale="log", yscale="log", xlabel="rounds t", ylabel="expected regret (units of reward)")
        left.set_title("regret under the bounds")
        left.legend(loc="upper left", bbox_to_anchor=(-0.12, -0.16), ncols=2)
        shares = np.array(
            [[*stages, settled] for stages, settled in zip(runs.stages, runs.settled, strict=True)], dtype=float
        )
        names = [f"{q}" for q in range(1, shares.shape[1])] + ["settled"]
        right.bar(names, shares.mean(axis=0), color=ORANGE, width=0.7)
        for x, column in enumerate(shares.T):
            right.plot(np.full(len(column), x), column, ".", color=BLACK, markersize=4)
        right.set(xlabel="stage q that the round joined", ylabel="rounds")
        right.set_title("SupKMTL-UCB's stages (bars: mean; dots: runs)")
        return figure


def _band(ax: Any, t: NDArray[Any], values: NDArray[np.float64], colour: str, style: str, label: str) -> None:
    ax.plot(t, np.maximum(values.mean(axis=0), 1e-3), color=colour, linestyle=style, label=label)
    low, high = np.maximum(values.min(axis=0), 1e-3), np.maximum(values.max(axis=0), 1e-3)
    ax.fill_between(t, low, high, color=colour, alpha=0.2, linewidth=0)


def width_figure(widths: list[Widths]) -> Any:
    """Squared widths of the choices between Lemma 6's bounds, one panel per mu, and their distribution."""
    with plot_style():
        figure, axes = canvas(len(widths) + 1, 1, 3.1 * (len(widths) + 1), 3.6)
        for ax, run in zip(axes[0], widths, strict=False):
            t = np.arange(1, len(run.squared) + 1)
            ax.plot(t, run.squared, ".", color=BLUE, markersize=3, label="s² of the choice")
            ax.axhline(run.upper, color=RED, linestyle="--", label="upper bound c/λ")
            for form, values, colour in (("derived", run.lower, GREEN), ("printed", run.printed, ORANGE)):
                says = values > 0
                if says.any():
                    dash = "-" if form == "derived" else ":"
                    ax.plot(t[says], values[says], color=colour, linestyle=dash, label=f"lower bound, {form}")
            ax.set(title=f"mu = {run.mu:g}", xlabel="rounds t", xscale="log", ylim=(0, run.upper * 1.08))
        axes[0, 0].set_ylabel("squared width s²")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        last = axes[0, -1]
        bins = np.linspace(0.0, widths[0].upper, 30)
        for i, run in enumerate(widths):
            look = {"color": OKABE_ITO[i], "linestyle": _DASHES[i], "linewidth": 1.4, "label": f"mu = {run.mu:g}"}
            last.hist(run.squared, bins=bins, histtype="step", **look)
        last.axvline(widths[0].upper, color=RED, linestyle="--")
        last.set(title="distribution over the run", xlabel="squared width s²", ylabel="rounds")
        last.set_xlim(0.0, widths[0].upper * 1.05)
        last.legend(loc="upper center")
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        return figure


def effect_figure(effect: MultiTaskEffect) -> Any:
    """Final regret against mu, for those who share and those who do not."""
    with plot_style():
        figure, axes = canvas(1, 1, 5.6, 3.8)
        ax = axes[0, 0]
        for values, colour, style, mark, name in (
            (effect.alone, GREEN, "--", "s", "Independent (each arm alone)"),
            (effect.kin, BLUE, "-", "o", "KMTL-UCB (knows mu)"),
        ):
            ax.plot(effect.mus, values.T, color=colour, alpha=0.25, linewidth=0.8)
            ax.plot(effect.mus, values.mean(axis=0), color=colour, linestyle=style, marker=mark, label=name)
        ax.set(xlabel="true similarity of arms, mu", ylabel=f"expected regret after {effect.horizon} rounds")
        ax.set(title="the multi-task effect", ylim=(0, None))
        ax.legend(loc="lower left")
        return figure


def wrong_figure(wrong: WrongSimilarity) -> Any:
    """The factor on the norm, the bound and the regret against the similarity that the policy takes for true."""
    with plot_style():
        figure, axes = canvas(3, 1, 10.6, 3.3)
        left, middle, right = axes[0]
        left.plot(wrong.used, wrong.inflation, color=BLUE, marker="o")
        left.set(title="norm inflation", ylabel="factor on the norm of f*")
        middle.plot(wrong.used, wrong.bound, color=GREEN, marker="o", linestyle="--")
        middle.set(title="self-normalised bound", ylabel=f"bound at T = {wrong.horizon}")
        for values, colour, name in ((wrong.proved, GREEN, "proved radius"), (wrong.kmtl, BLUE, "exploration 0.3")):
            right.plot(wrong.used, values.T, color=colour, alpha=0.25, linewidth=0.8)
            right.plot(wrong.used, values.mean(axis=0), color=colour, marker="o", label=name)
        right.set(title="regret of KMTL-UCB", ylabel=f"expected regret after {wrong.horizon} rounds")
        right.legend(loc="center left")
        for ax in axes[0]:
            ax.axvline(wrong.true, color="0.6", linewidth=0.8, linestyle=":")
            ax.set(xlabel=f"similarity used (true: {wrong.true:g})", ylim=(0, None))
        return figure
