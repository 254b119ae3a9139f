"""The report on the paper's experiments: claims, and what the estimated similarity is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits.environments import SyntheticNews
from kinbandits.paper import sweep
from kinbandits.paper.claims import MARGIN, Claim, check_claims
from kinbandits.paper.protocol import COUNTS, EST
from kinbandits.plotting import canvas, plot_style
from kinbandits.report.html import FORMATS, Section, one_line
from kinbandits.report.page import Report, show_number, show_p, show_paired, show_signed, write_report
from kinbandits.report.results import Results

SWEEP = "sweep"
"""The name of the sweep's experiment in the directory of the paper's."""

READINGS = (
    ("half-axes", 'An ellipse "with major axis length 1 and minor axis length 0.5": half-axes, as in the code.'),
    ("angles", "The text allows any angle from 0 to 90°; the runs have the scripts' a π/25, 0 to 28.8°."),
    ("synthetic reward", "As in the scripts: a = 0..N-1, and the rotated coordinate in place of the user's own."),
    ("MNIST", "784 columns here, 780 in the paper (which probably leaves out columns that are always 0)."),
    ("Digits", "1,230 balanced rounds under our rule, 1,250 under the authors'."),
)
"""Where the text can be read in several ways, and how the runs read it."""


def write_paper_report(
    directory: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    command: str = "",
    formats: Sequence[str] = FORMATS,
) -> Report:
    """As `kinbandits.report.write_report`, with the sections below where they apply."""
    place = Path(directory)
    return write_report(
        directory, out, command=command, formats=formats, extra=lambda results: _sections(results, place)
    )


def _sections(results: Results, directory: Path) -> Iterator[Section]:
    claims = check_claims(results)
    if claims:
        yield _claims(claims)
    effects = list(sweep.count_effects(results))
    if effects:
        text = """
            Above, k_Z as KMTL-UCB-Est has it after the last round; below, exp(−γ (1/n_a + 1/n_b)) from the counts
            of the same runs, which does not look at contexts. Means over runs, arms in the same order, one scale
            for both. The table has the correlation of the two over all pairs of arms and runs."""
        yield Section(
            "counts", "What the similarity is made of", one_line(text), ("Data", "Correlation with counts alone"),
            [(e.where, f"{e.correlation:.3f}") for e in effects], (1,),
            records=[{"where": e.where, "correlation": e.correlation} for e in effects],
            figure=sweep.counts_figure(effects),
        )  # fmt: skip
    if (directory / f"{SWEEP}.json").exists():
        yield from _sweep(Results.load(directory, SWEEP))
    synthetic = next((e for e in results.record["environments"].values() if e["kind"] == "synthetic-news"), None)
    if synthetic is not None:
        options: dict[str, Any] = {
            k: v for k, v in synthetic.items() if k in ("reward", "n_arms", "angles", "noise")
        }
        text = f"""
            Contexts of the articles for 1,500 users drawn from the ellipse: each article sees the user rotated by
            its own angle θ. Colour: reward (reading: the {options.get("reward", "text")}'s). Angles are those of
            the runs."""
        drawn = synthetic_figure(SyntheticNews(**options))
        yield Section("synthetic", "The synthetic problem", one_line(text), figure=drawn)
    if claims:
        yield Section("readings", "How the text was read", "", ("What", "Reading"), READINGS)


def _claims(claims: Sequence[Claim]) -> Section:
    rows = [
        (
            c.where, c.says + ("" if c.source == "paper" else " (our check, not the paper's)"), c.claimed,
            f"{c.holds} of {c.runs}", c.verdict, show_signed(c.difference),
            "–" if c.low != c.low else f"{show_signed(c.low)} to {show_signed(c.high)}", show_p(c.p),
            show_p(c.adjusted), c.details,
        )
        for c in claims
    ]  # fmt: skip
    columns = ("Data", "Claim", "Paper", "Holds in", "Verdict", "Difference", "95 % interval", "p", "Holm", "Means")
    text = one_line(
        f"""
        The verdict knows the count that the paper claims: "all runs" is reproduced by all runs and by nothing less.
        "Equally well" is tested as equality: two one-sided t tests with a margin of {MARGIN:.0%} of the second
        method's mean; it is contradicted where the 95 % interval of the paired difference lies wholly beyond the
        margin. p is that of the claim's own test; Holm: adjusted over this table.
        """
    )
    return Section(
        "claims", "The paper's claims, one by one", text, columns, rows, (3, 5, 6, 7, 8), (9,),
        [c.__dict__ for c in claims],
    )  # fmt: skip


def _sweep(results: Results) -> Iterator[Section]:
    points, found = sweep.sweep_points(results), sweep.controls(results)
    rows = [
        (
            c.where, f"{c.multiplier:g}", c.second, str(c.paired.seeds), show_number(c.first_mean),
            show_number(c.second_mean), *show_paired(c.paired), show_p(c.equal),
        )
        for c in found
    ]  # fmt: skip
    columns = ("Data", "Multiplier", f"{EST} against", "Runs", EST, "the other", "Difference", "95 % interval",
               "better / equal / worse", "p of equality")  # fmt: skip
    yield Section(
        "sweep", "Is it sharing, and at which exploration?", _sweep_text(found), columns, rows,
        (1, 3, 4, 5, 6, 7, 8, 9), records=[c.record() for c in found], figure=sweep.sweep_figure(points),
    )  # fmt: skip
    shown = [
        (p.where, p.method, f"{p.multiplier:g}", f"{p.rounds:,}", show_number(p.mean), show_number(p.half),
         str(len(p.finals)))
        for p in points
    ]  # fmt: skip
    yield Section(
        "sweep-points", "The sweep in numbers", "Final regret; ± is half the 95 % interval of the mean.",
        ("Data", "Method", "Multiplier", "Rounds", "Mean", "±", "Runs"), shown, (2, 3, 4, 5, 6),
        records=[{**p.__dict__, "mean": p.mean, "half": p.half} for p in points],
    )  # fmt: skip


def _sweep_text(found: Sequence[sweep.Control]) -> str:
    same, all_sets = sweep.same_as_counts(list(found)), {c.where for c in found if c.second == COUNTS}
    alone = [c for c in found if c.second != COUNTS and c.multiplier == 1.0]
    better = [c.where for c in alone if c.paired.high < 0.0]
    return one_line(
        f"""
        All methods have the kernel, ridge and weights published for {EST}; the multiplier is that of sqrt(k − q),
        0.1 in the paper. "{COUNTS}" replaces the estimate by exp(−γ (1/n_a + 1/n_b)). At 0.1 the estimate and
        counts alone are equal within {MARGIN:.0%} (two one-sided tests, p below 0.05) on {len(same)} of
        {len(all_sets)} problems ({", ".join(same) or "none"}). At multiplier 1 {EST} is better than independent
        arms, with a 95 % interval below 0, on {len(better)} of {len(alone)} ({", ".join(better) or "none"}).
        """
    )


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
