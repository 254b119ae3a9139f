"""One HTML page on the theory: bounds, and runs beside them, with a paragraph on each picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from kinbandits.paper import theory_figures as draw
from kinbandits.paper.theory_effects import (
    MultiTaskEffect,
    WrongSimilarity,
    multi_task_effect,
    wrong_similarity,
)
from kinbandits.paper.theory_runs import (
    DELTA,
    Growth,
    RegretRuns,
    SimilarityCurves,
    Size,
    Widths,
    regret_runs,
    similarity_curves,
    width_runs,
)
from kinbandits.report.html import FORMATS, Section, one_line, write_page

_LEAD = (
    'The bounds of "Multi-Task Learning for Contextual Bandits" (Deshmukh, Dogan and Scott, 2017) as '
    "kinbandits.theory computes them, and real runs beside them. Runs are on problems built in the RKHS, "
    f"where f* and its norm are known; regret is expected regret; logarithms are natural; δ = {DELTA}."
)
STEPS = ("curves", "regret", "widths", "effect", "wrong similarity", "page")


@dataclass(frozen=True)
class TheoryReport:
    """What `write_theory` made: the page, and its numbers by name."""

    page: Path
    numbers: dict[str, float]


def write_theory(
    out: str | PathLike[str],
    size: Size | None = None,
    *,
    command: str = "",
    formats: Sequence[str] = FORMATS,
    done: Callable[[str], None] | None = None,
) -> TheoryReport:
    """Compute everything and write ``index.html`` with ``figures/`` into the directory ``out``.

    Args:
        out: the directory; made if it is not there.
        size: how much is run.
        command: the command that asked for it, to be shown.
        formats: of the figures beside the page.
        done: called with the name of each of `STEPS` when it is finished.
    """
    size = Size() if size is None else size
    tell = done or (lambda step: None)
    curves = similarity_curves()
    tell("curves")
    runs = regret_runs(size)
    tell("regret")
    widths = width_runs()
    tell("widths")
    effect = multi_task_effect(Size(min(size.horizon, 200), 2 * size.seeds, size.jobs))
    tell("effect")
    wrong = wrong_similarity(Size(min(size.horizon, 200), size.seeds, size.jobs))
    tell("wrong similarity")
    numbers = _numbers(curves, runs, widths, effect, wrong)
    sections = [
        Section(name, title, one_line(text), figure=figure)
        for name, title, text, figure in (
            ("similarity", "Kin make the bound smaller", _on_similarity(curves), draw.similarity_figure(curves)),
            ("growth", "Along a real run", _on_growth(runs.growth), draw.growth_figure(runs.growth)),
            ("regret", "Regret under the bound", _on_regret(runs), draw.regret_figure(runs)),
            ("widths", "Widths between their bounds", _on_widths(widths), draw.width_figure(widths)),
            ("effect", "The multi-task effect", _on_effect(effect), draw.effect_figure(effect)),
            ("wrong", "What a wrong similarity costs", _on_wrong(wrong), draw.wrong_figure(wrong)),
        )
    ]
    rows = [(name, shown(value)) for name, value in numbers.items()]
    records = [{"what": name, "value": value} for name, value in numbers.items()]
    sections.append(Section("numbers", "Numbers", "", ("What", "Value"), rows, (1,), records=records))
    page = write_page(Path(out), "The theory, checked", _LEAD, sections, command=command, formats=formats)
    tell("page")
    return TheoryReport(page, numbers)


def shown(value: float) -> str:
    """A number for a table.

    >>> shown(62306.4), shown(2.26912)
    ('62,306', '2.269')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _on_similarity(curves: SimilarityCurves) -> str:
    most = curves.n_arms[-1]
    shrinks = 1 - curves.bound[-1, -1] / curves.bound[-1, 0]
    return f"""
        The same {curves.rows} contexts (RBF kernel, λ = 1, c = 1) are dealt to N arms in turn, and the
        similarity mu of any two arms goes from 0 (strangers) to 1 (one function). Left: log g falls as mu
        grows, for every N, which is Theorem 3; at mu = 1 all curves meet, for then the number of arms no longer
        matters. Right: Theorem 1's bound follows with the square root of log g: for {most} arms, full
        similarity makes it {shrinks:.0%} smaller. Most of the fall comes late: arms must be close kin before
        the bound feels it.
        """


def _on_growth(growth: Growth) -> str:
    log_g = growth.log_g[-1]
    return f"""
        A run of KMTL-UCB (proved radius) with {growth.t[-1]} rounds, its kernel matrix examined after t rounds.
        Left: log g grows like a logarithm of t, to {log_g:.1f}; Corollary 1 stands
        {growth.corollary_1[-1] / log_g:.1f} times above it, Theorem 2 {growth.theorem_2[-1] / log_g:.1f} times,
        because a smooth kernel has many eigenvalues that are positive but tiny, which the rank counts in full.
        Middle: the effective rank, {growth.effective_rank[-1]} at the end, does not. Right: the sum of squared
        widths stays below 2 m log g (the determinant lemma), at the end by a factor of
        {growth.determinant_lemma[-1] / growth.sum_squared_width[-1]:.0f}; m = max(1, 1/λ) is most of it.
        """


def _on_regret(runs: RegretRuns) -> str:
    T, along, times = runs.horizon, runs.growth, runs.theorem_1 / runs.horizon
    sup, proved, kmtl = (float(values[:, -1].mean()) for values in (runs.sup, runs.proved, runs.kmtl))
    deepest = max(q for stages in runs.stages for q, n in enumerate(stages, 1) if n)
    return f"""
        Three algorithms on the same problems (δ = {DELTA}; lines: mean, bands: all runs). SupKMTL-UCB,
        whose stages have δ / (Q + 1) so that Theorem 1 holds with probability 1 − δ, loses {sup:.1f}; the
        theorem bounds it by {runs.theorem_1:,.0f} (log g = {runs.sup_log_g:.1f}, of its own rows),
        {times:.0f} times T. It is a mark and no curve, since the algorithm is built for its T; so are the
        bounds of CGP-UCB, with the same log g: {runs.cgp_agnostic:,.0f} without a prior,
        {runs.cgp_prior:,.0f} if f* were drawn from the Gaussian process. KMTL-UCB with the self-normalised
        radius loses {proved:.1f}, and its bound, which holds for all t at once, is
        {along.self_normalised[-1]:,.0f} (log g = {along.log_g[-1]:.1f}); its intervals miss f* in
        {runs.missed} of {T * len(runs.proved)} rounds. With exploration 0.3, for which nothing is proved,
        it loses {kmtl:.1f}. Right: in {T} rounds SupKMTL-UCB has reached stage {deepest} of
        {len(runs.stages[0])}: at a stage it plays the arm it is least sure of, not the best one.
        """


def _on_wrong(wrong: WrongSimilarity) -> str:
    first, last = wrong.inflation[0], wrong.inflation[-1]
    at = int(np.argmin(np.abs(wrong.used - wrong.true)))
    return f"""
        Five arms of similarity {wrong.true:g}, played as if it were another. f* has a larger norm under a wrong
        similarity: {first:.2f} times if arms are taken for strangers, {last:.2f} times at {wrong.used[-1]:g},
        without limit as it goes to 1, where the policy can no longer tell arms apart. The guarantee then needs
        a radius for that norm, and the bound goes from {wrong.bound[at]:,.0f} (right similarity) to
        {wrong.bound[0]:,.0f} and {wrong.bound[-1]:,.0f}. Regret is more patient than the bound: with
        exploration 0.3 it is {wrong.kmtl[:, 0].mean():.1f}, {wrong.kmtl[:, at].mean():.1f} and {
        wrong.kmtl[:, -1].mean():.1f}.
        """


def _on_widths(widths: list[Widths]) -> str:
    quiet = ", ".join(f"{int(np.sum(w.lower > 0))} at mu = {w.mu:g}" for w in widths)
    printed = sum(int(np.sum(w.printed > 0)) for w in widths) or "none"
    medians = ", ".join(f"{np.median(w.squared):.3f}" for w in widths)
    return f"""
        Squared widths of KMTL-UCB's choices (5 arms, λ = {widths[0].ridge:g}) between the bounds of Lemma 6.
        The upper bound c/λ is attained in the first round and never broken. The lower bound falls with mu,
        which is Theorem 4, but it is above zero only for the first rounds ({quiet}), even at this large λ;
        after that it says nothing. The form printed in the paper is weaker: it is above zero in
        {printed} of these rounds. Right: what the theorem is about can be seen all the same: with mu the
        distribution moves to the left (medians {medians}).
        """


def _on_effect(effect: MultiTaskEffect) -> str:
    kin, alone = effect.kin.mean(axis=0), effect.alone.mean(axis=0)
    return f"""
        {len(effect.kin)} problems for each mu, with the same contexts and noise; thin lines are single
        problems. The regret of KMTL-UCB falls from {kin[0]:.1f} at mu = 0 to {kin[-1]:.1f} at mu = 1. A policy
        that learns each arm alone stays where it was ({alone[0]:.1f} and {alone[-1]:.1f}): single arms are
        equally hard for all mu, and what is gained is gained from kin.
        """


def _numbers(
    curves: SimilarityCurves,
    runs: RegretRuns,
    widths: list[Widths],
    effect: MultiTaskEffect,
    wrong: WrongSimilarity,
) -> dict[str, float]:
    g = runs.growth
    found = {
        f"log g, N = {curves.n_arms[-1]}, mu = 0": curves.log_g[-1, 0],
        f"log g, N = {curves.n_arms[-1]}, mu = 1": curves.log_g[-1, -1],
        "Corollary 1 / log g at the end of the run": g.corollary_1[-1] / g.log_g[-1],
        "Theorem 2 / log g at the end of the run": g.theorem_2[-1] / g.log_g[-1],
        "determinant lemma / sum of squared widths": g.determinant_lemma[-1] / g.sum_squared_width[-1],
        "horizon T": float(runs.horizon),
        "log g of SupKMTL-UCB's rows": runs.sup_log_g,
        "Theorem 1 bound at T": runs.theorem_1,
        "Theorem 1 bound / T": runs.theorem_1 / runs.horizon,
        "CGP-UCB agnostic bound at T": runs.cgp_agnostic,
        "CGP-UCB bound with a prior at T": runs.cgp_prior,
        "log g of KMTL-UCB's rows (proved radius)": g.log_g[-1],
        "self-normalised bound at T": g.self_normalised[-1],
        "intervals of the proved radius that miss f*": float(runs.missed),
        "SupKMTL-UCB: mean regret": float(runs.sup[:, -1].mean()),
        "KMTL-UCB, proved radius: mean regret": float(runs.proved[:, -1].mean()),
        "KMTL-UCB: mean regret": float(runs.kmtl[:, -1].mean()),
        **{f"{name}: log-log slope": slope for name, slope in runs.slopes.items()},
    }
    for w in widths:
        found[f"rounds with an informative lower width bound, mu = {w.mu:g}"] = float(np.sum(w.lower > 0))
    for mu, kin, alone in zip(effect.mus, effect.kin.mean(axis=0), effect.alone.mean(axis=0), strict=True):
        found[f"regret at mu = {mu:g}: KMTL-UCB"] = float(kin)
        found[f"regret at mu = {mu:g}: Independent"] = float(alone)
    for mu, factor, bound, regret in zip(
        wrong.used, wrong.inflation, wrong.bound, wrong.kmtl.mean(axis=0), strict=True
    ):
        found[f"similarity {wrong.true:g} taken for {mu:g}: norm inflation"] = float(factor)
        found[f"similarity {wrong.true:g} taken for {mu:g}: bound"] = float(bound)
        found[f"similarity {wrong.true:g} taken for {mu:g}: regret of KMTL-UCB"] = float(regret)
    return {name: float(value) for name, value in found.items()}
