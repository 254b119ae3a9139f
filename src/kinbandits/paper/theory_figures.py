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
        axes[0, 0].set_ylabel("log g (nats)")
        axes[0, 1].set_ylabel("bound on regret (units of reward)")
        axes[0, 0].set_title(f"log g of {curves.rows} rows (Theorem 3)")
        axes[0, 1].set_title(f"bound at T = {curves.rows} (Theorem 1)")
        for ax in axes[0]:
            ax.set_xlabel("similarity of arms, mu")
            ax.set_ylim(bottom=0)
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
        left.set_title("log g and its bounds")
        left.set_ylabel("nats")
        left.set_yscale("log")
        middle.plot(growth.t, growth.rank, color=GREEN, linestyle="-.", label="rank (in floating point)")
        middle.plot(growth.t, growth.effective_rank, color=BLUE, label="effective rank (Definition 1)")
        middle.set_title("rank of the kernel matrix")
        middle.set_ylabel("rank")
        middle.set_ylim(bottom=0)
        right.plot(growth.t, growth.determinant_lemma, color=RED, linestyle="--", label="2 m log g (Lemma 8)")
        right.plot(growth.t, growth.sum_squared_width, color=BLUE, label="sum of squared widths")
        right.set_title("the determinant lemma")
        right.set_ylabel("sum of s²")
        right.set_yscale("log")
        for ax, place in zip(axes[0], ("lower right", "center right", "center right"), strict=True):
            ax.set_xscale("log")
            ax.set_xlabel("rounds t")
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
        left.set_xscale("log")
        left.set_yscale("log")
        left.set_xlabel("rounds t")
        left.set_ylabel("expected regret (units of reward)")
        left.set_title("regret under the bounds")
        left.legend(loc="upper left", bbox_to_anchor=(-0.12, -0.16), ncols=2)
        shares = np.array(
            [[*stages, settled] for stages, settled in zip(runs.stages, runs.settled, strict=True)], dtype=float
        )
        names = [f"{q}" for q in range(1, shares.shape[1])] + ["settled"]
        right.bar(names, shares.mean(axis=0), color=ORANGE, width=0.7)
        for x, column in enumerate(shares.T):
            right.plot(np.full(len(column), x), column, ".", color=BLACK, markersize=4)
        right.set_xlabel("stage q that the round joined")
        right.set_ylabel("rounds")
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
            informative = run.lower > 0
            ax.plot(
                t[informative], run.lower[informative], color=GREEN, linestyle="-", label="lower bound, derived"
            )
            printed = run.printed > 0
            if printed.any():
                ax.plot(t[printed], run.printed[printed], color=ORANGE, linestyle=":", label="lower bound, printed")
            ax.set_title(f"mu = {run.mu:g}")
            ax.set_xlabel("rounds t")
            ax.set_xscale("log")
            ax.set_ylim(0, run.upper * 1.08)
        axes[0, 0].set_ylabel("squared width s²")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        last = axes[0, -1]
        bins = np.linspace(0.0, widths[0].upper, 30)
        for i, run in enumerate(widths):
            last.hist(
                run.squared,
                bins=bins,
                histtype="step",
                color=OKABE_ITO[i],
                linestyle=_DASHES[i],
                linewidth=1.4,
                label=f"mu = {run.mu:g}",
            )
        last.axvline(widths[0].upper, color=RED, linestyle="--")
        last.set_title("distribution over the run")
        last.set_xlabel("squared width s²")
        last.set_ylabel("rounds")
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
        ax.set_xlabel("true similarity of arms, mu")
        ax.set_ylabel(f"expected regret after {effect.horizon} rounds")
        ax.set_ylim(bottom=0)
        ax.set_title("the multi-task effect")
        ax.legend(loc="lower left")
        return figure


def wrong_figure(wrong: WrongSimilarity) -> Any:
    """The factor on the norm, the bound and the regret against the similarity that the policy takes for true."""
    with plot_style():
        figure, axes = canvas(3, 1, 10.6, 3.3)
        left, middle, right = axes[0]
        left.plot(wrong.used, wrong.inflation, color=BLUE, marker="o")
        left.set_title("norm inflation")
        left.set_ylabel("factor on the norm of f*")
        left.set_ylim(bottom=0)
        middle.plot(wrong.used, wrong.bound, color=GREEN, marker="o", linestyle="--")
        middle.set_title("self-normalised bound")
        middle.set_ylabel(f"bound at T = {wrong.horizon}")
        middle.set_ylim(bottom=0)
        for values, colour, name in ((wrong.proved, GREEN, "proved radius"), (wrong.kmtl, BLUE, "exploration 0.3")):
            right.plot(wrong.used, values.T, color=colour, alpha=0.25, linewidth=0.8)
            right.plot(wrong.used, values.mean(axis=0), color=colour, marker="o", label=name)
        right.set_title("regret of KMTL-UCB")
        right.set_ylabel(f"expected regret after {wrong.horizon} rounds")
        right.set_ylim(bottom=0)
        right.legend(loc="center left")
        for ax in axes[0]:
            ax.axvline(wrong.true, color="0.6", linewidth=0.8, linestyle=":")
            ax.set_xlabel(f"similarity used (true: {wrong.true:g})")
        return figure
