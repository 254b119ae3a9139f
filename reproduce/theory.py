"""One HTML page on the theory: bounds, and real runs beside them. Needs no network; about a minute.

python -m reproduce.theory --out runs/theory [--horizon 600] [--seeds 4] [--jobs 2]

Problems are built in the RKHS (`RKHSProblem`), where f* and its norm are known; regret is expected regret. Notation as
in `kinbandits.theory`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits import theory
from kinbandits._types import Indices, Matrix, Vector
from kinbandits.environments import RKHSProblem
from kinbandits.kernels import RBF
from kinbandits.plotting import OKABE_ITO, STYLES, canvas, plot_style
from kinbandits.policy import KMTLUCB, SupKMTLUCB
from kinbandits.report import Section, one_line, show_number, write_page
from kinbandits.rules import Confidence
from kinbandits.similarity import Independent, Mixed, Similarity
from kinbandits.simulate import simulate
from kinbandits.trace import Trace
from reproduce.tables import write_tables

DELTA, RIDGE = 0.1, 0.1
MUS = (0.0, 0.25, 0.5, 0.75, 1.0)
BLUE, RED, GREEN, PINK, ORANGE, _, BLACK, _ = OKABE_ITO


@dataclass(frozen=True)
class Size:
    """How much is run: rounds of the long runs, runs of each, processes."""

    horizon: int = 600
    seeds: int = 4
    jobs: int = 1

    def each(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
        """The function on every task, in this many processes."""
        from joblib import Parallel, delayed

        return list(Parallel(n_jobs=self.jobs)(delayed(function)(*task) for task in tasks))


# -- the policies -----------------------------------------------------------------------------------


def sup_for(problem: RKHSProblem) -> SupKMTLUCB:
    """SupKMTL-UCB that knows exactly what Theorem 1 lets it know."""
    return SupKMTLUCB(
        problem.arms,
        horizon=problem.horizon,
        similarity=problem.similarity,
        context_kernel=problem.context_kernel,
        norm_bound=problem.norm,
        ridge=RIDGE,
        delta=theory.stage_delta(problem.horizon, DELTA),
    )


def kmtl_for(problem: RKHSProblem, similarity: Similarity | None = None, exploration: Any = 0.3) -> KMTLUCB:
    """KMTL-UCB with the problem's kernel, uniform weights and ordinary posteriors, as the analysis has it."""
    return KMTLUCB(
        problem.arms,
        similarity=problem.similarity if similarity is None else similarity,
        context_kernel=problem.context_kernel,
        ridge=RIDGE,
        exploration=exploration,
        rewards=None,
        cold_start="borrow",
    )


def proved_for(problem: RKHSProblem, similarity: Similarity | None = None, inflation: float = 1.0) -> KMTLUCB:
    """KMTL-UCB with the self-normalised radius; ``inflation`` multiplies the norm of f*."""
    policy = kmtl_for(problem, similarity, Confidence(0.5, inflation * problem.norm, DELTA, form="tight"))
    theory.check_self_normalised(policy)
    return policy


def rows_of(trace: Trace, problem: RKHSProblem) -> tuple[Indices, Matrix, Matrix]:
    """Arm and context of every row of a trace, and their kernel matrix."""
    arms = np.asarray(trace["arm_index"], dtype=np.intp)
    X = np.array([r.context[a] for r, a in zip(problem.rounds(), arms, strict=False)])
    return arms, X, np.asarray(problem.similarity_matrix[np.ix_(arms, arms)] * problem.context_kernel(X, X))


# -- what similarity does to the bound --------------------------------------------------------------


def curves(n_arms: Sequence[int] = (2, 5, 10, 20), rows: int = 200) -> Section:
    """log g and Theorem 1's bound against mu, a line per N: the same contexts, dealt to N arms in turn."""
    X, mus = np.random.default_rng(0).uniform(-1.0, 1.0, (rows, 2)), np.linspace(0.0, 1.0, 21)
    K_X = RBF(0.5)(X, X)
    gains = np.array([[theory.log_g_of_similarity(mu, K_X, np.arange(rows) % N, 1.0) for mu in mus] for N in n_arms])
    bounds = np.array([
        [theory.regret_bound(rows, N, DELTA, 1.0, 1.0, 1.0, g) for g in line]
        for N, line in zip(n_arms, gains.tolist(), strict=True)
    ])  # fmt: skip
    figure, axes = canvas(2, 1, 8.6, 3.4)
    left, right = axes[0]
    for i, N in enumerate(n_arms):
        look: dict[str, Any] = {"color": OKABE_ITO[i], "linestyle": STYLES[i % 4], "label": f"N = {N}"}
        left.plot(mus, gains[i], **look)
        right.plot(mus, bounds[i], **look)
    left.set(ylabel="log g (nats)", title=f"log g of {rows} rows (Theorem 3)")
    right.set(ylabel="bound on regret (units of reward)", title=f"bound at T = {rows} (Theorem 1)")
    for ax in axes[0]:
        ax.set(xlabel="similarity of arms, mu", ylim=(0, None))
    left.legend(title="arms", loc="lower left")
    text = f"""
        The same {rows} contexts (RBF kernel, λ = 1, c = 1) are dealt to N arms in turn, and the similarity mu of any
        two arms goes from 0 to 1 (one function). log g falls as mu grows, for every N, which is Theorem 3; at mu = 1
        the number of arms no longer matters. Theorem 1's bound follows with the square root of log g: for
        {n_arms[-1]} arms, full similarity makes it {1 - bounds[-1, -1] / bounds[-1, 0]:.0%} smaller."""
    records = [
        {"arms": N, "mu": float(mu), "log_g": gains[i, j], "bound": bounds[i, j]}
        for i, N in enumerate(n_arms)
        for j, mu in enumerate(mus)
    ]
    return Section("curves", "Similar arms make the bound smaller", one_line(text), records=records, figure=figure)


# -- regret under the bounds, and what they say along a run -----------------------------------------


def hard_problem(seed: int, horizon: int) -> RKHSProblem:
    """Few arms that are closely related, a smooth function: SupKMTL-UCB reaches its later stages soonest here."""
    return RKHSProblem(seed=seed, mu=0.9, n_arms=3, horizon=horizon, context_kernel=RBF(2.0), amplitude=1.0)


def _three(seed: int, horizon: int) -> tuple[list[Trace], list[int], int]:
    """Traces of SupKMTL-UCB, the proved radius and exploration 0.3; rounds by stage; intervals that miss f*."""
    problem = hard_problem(seed, horizon)
    sup = sup_for(problem)
    traces = [simulate(sup, problem), simulate(proved_for(problem), problem, numbers=True)]
    arms, _, K = rows_of(traces[1], problem)
    factor = np.linalg.cholesky(np.eye(horizon) + K / RIDGE)
    gains = np.concatenate([[0.0], 2.0 * np.cumsum(np.log(np.diagonal(factor)))[:-1]])  # of the rows before a round
    means = np.array([r.means[a] for r, a in zip(problem.rounds(), arms, strict=True)])  # type: ignore[index]
    radius = Confidence(0.5, problem.norm, DELTA, form="tight")
    beta = np.array([radius.radius(gain, RIDGE) for gain in gains])
    missed = np.abs(traces[1]["mean"] - means) > beta * traces[1]["width"] * (1 + 1e-9)
    traces.append(simulate(kmtl_for(problem), problem))
    return traces, [*(len(stage) for stage in sup.stages), len(sup.settled)], int(missed.sum())


def regret(size: Size) -> tuple[Section, Section, list[tuple[str, str]]]:
    """Three algorithms under their bounds; the bounds along a run; and how loose they are, in numbers."""
    T, problem = size.horizon, hard_problem(0, size.horizon)
    runs = size.each(_three, [(seed, T) for seed in range(size.seeds)])
    names = "SupKMTL-UCB", "KMTL-UCB, proved radius", "KMTL-UCB, exploration 0.3"
    regrets = {n: np.array([run[0][i].cumulative_expected_regret for run in runs]) for i, n in enumerate(names)}
    missed, stages = sum(run[2] for run in runs), np.array([run[1] for run in runs])
    sup_gain = theory.log_g(rows_of(runs[0][0][0], problem)[2], RIDGE)
    bound = theory.regret_bound(T, problem.n_arms, DELTA, RIDGE, problem.norm, 1.0, sup_gain)
    along = growth(runs[0][0][1], problem)

    figure, axes = canvas(2, 1, 10.0, 4.6)
    left, right = axes[0]
    t = np.arange(1, T + 1)
    left.plot([T], [bound], color=RED, marker="*", markersize=10, linestyle="", label="Theorem 1 at T")
    left.plot(along["t"], along["self-normalised"], color=GREEN, linestyle="--", label="self-normalised bound")
    left.plot(t, t, color=BLACK, linewidth=0.8, linestyle=(0, (1, 3)), label="t (reward 1 lost each round)")
    for (colour, style), (name, values) in zip(
        ((ORANGE, "-."), (GREEN, "-"), (BLUE, "-")), regrets.items(), strict=True
    ):
        mean, low, high = (np.maximum(f(axis=0), 1e-3) for f in (values.mean, values.min, values.max))
        left.plot(t, mean, color=colour, linestyle=style, label=f"{name} (slope {slope(values.mean(axis=0)):.2f})")
        left.fill_between(t, low, high, color=colour, alpha=0.2, linewidth=0)
    left.set(xscale="log", yscale="log", xlabel="rounds t", ylabel="expected regret (units of reward)")
    left.set_title("regret under the bounds")
    left.legend(loc="upper left", bbox_to_anchor=(-0.12, -0.16), ncols=2)
    right.bar([*map(str, range(1, stages.shape[1])), "settled"], stages.mean(axis=0), color=ORANGE, width=0.7)
    for x, column in enumerate(stages.T):
        right.plot(np.full(len(column), x), column, ".", color=BLACK, markersize=4)
    right.set(xlabel="stage q that the round joined", ylabel="rounds")
    right.set_title("SupKMTL-UCB's stages (bars: mean; dots: runs)")
    text = f"""
        Three algorithms on the same {size.seeds} problems (3 arms of similarity 0.9, δ = {DELTA}; lines: mean, bands:
        all runs). Theorem 1 is a mark and no curve, since SupKMTL-UCB is built for its T; the self-normalised bound
        holds for all t at once. Slopes are of log regret against log t over the last nine tenths of a run; 1/2 is
        the rate of Theorem 1. Right: the rounds of each stage; at a stage the arm is played of which least is known."""
    shown = Section("regret", "Regret under the bound", one_line(text), figure=figure)
    loose = [
        (f"Theorem 1's bound for SupKMTL-UCB at T = {T} (log g of its rows {sup_gain:.1f})",
         f"{bound:,.0f}: {bound / T:.0f} times T"),
        (f"the self-normalised bound for KMTL-UCB (log g {along['log g'][-1]:.1f})",
         f"{along['self-normalised'][-1]:,.0f}: {along['self-normalised'][-1] / T:.0f} times T"),
        *((f"regret of {n}, mean; slope", f"{v[:, -1].mean():.1f}; {slope(v.mean(axis=0)):.2f}")
          for n, v in regrets.items()),
        ("intervals of the proved radius that miss f*", f"{missed} of {T * size.seeds:,} rounds"),
        ("Corollary 1, Theorem 2 against log g (RBF kernel)",
         f"{along['Corollary 1'][-1] / along['log g'][-1]:.1f} times, "
         f"{along['Theorem 2'][-1] / along['log g'][-1]:.1f} times"),
        (f"2 m log g against the sum of s² (λ = {RIDGE:g})",
         f"{along['2 m log g (Lemma 8)'][-1] / along['sum of squared widths'][-1]:.0f} times"),
    ]  # fmt: skip
    return shown, growth_section(along), loose


def growth(trace: Trace, problem: RKHSProblem, points: int = 25) -> dict[str, Vector]:
    """log g, ranks and bounds after t rows of a trace of KMTL-UCB with its widths, for ``points`` values of t."""
    arms, X, K = rows_of(trace, problem)
    K_X, r_z = problem.context_kernel(X, X), int(np.linalg.matrix_rank(problem.similarity_matrix))
    squared = np.cumsum(np.asarray(trace["width"]) ** 2)
    found: list[dict[str, float]] = []
    for t in np.unique(np.geomspace(4, len(arms), points).astype(int)).tolist():
        values = np.maximum(np.linalg.eigvalsh(K[:t, :t]), 0.0)
        T, log_g = t - 1, float(np.log1p(values / RIDGE).sum())  # the theorems' K~ has T + 1 rows
        r, r_x = theory.effective_rank(values, RIDGE, T), int(np.linalg.matrix_rank(K_X[:t, :t], hermitian=True))
        found.append({
            "t": t, "log g": log_g, "effective rank (Definition 1)": r,
            "rank (in floating point)": int(np.sum(values > t * np.finfo(float).eps * values[-1])),
            "Corollary 1": theory.effective_rank_bound(r, T, 1.0, RIDGE),
            "Theorem 2": theory.rank_bound(r_z, r_x, T, 1.0, RIDGE),
            "self-normalised": theory.self_normalised_bound(t, DELTA, RIDGE, problem.norm, 1.0, log_g),
            "sum of squared widths": squared[t - 1],
            "2 m log g (Lemma 8)": theory.squared_width_sum_bound(log_g, 1.0, RIDGE),
        })  # fmt: skip
    return {name: np.array([row[name] for row in found]) for name in found[0]}


def growth_section(along: dict[str, Vector]) -> Section:
    """The same as figures."""
    figure, axes = canvas(3, 1, 11.0, 3.5)
    panels = (
        ("log g and its bounds", "nats", ("Theorem 2", "Corollary 1", "log g")),
        ("rank of the kernel matrix", "rank", ("rank (in floating point)", "effective rank (Definition 1)")),
        ("the determinant lemma", "sum of s²", ("2 m log g (Lemma 8)", "sum of squared widths")),
    )
    for ax, (title, unit, lines) in zip(axes[0], panels, strict=True):
        looks = ((GREEN, "-."), (RED, "--"), (BLUE, "-"))[-len(lines) :]
        for name, (colour, style) in zip(lines, looks, strict=True):
            ax.plot(along["t"], along[name], color=colour, linestyle=style, label=name)
        scale: dict[str, Any] = {"ylim": (0, None)} if unit == "rank" else {"yscale": "log"}
        ax.set(title=title, ylabel=unit, xscale="log", xlabel="rounds t", **scale)
        ax.legend(loc="lower right" if unit == "nats" else "center right")
    text = f"""
        A run of KMTL-UCB (proved radius) with {along["t"][-1]:.0f} rounds, its kernel matrix examined after t
        rounds. log g grows like a logarithm of t. Theorem 2 stands far above it: a smooth kernel has many
        eigenvalues that are positive but tiny, which the rank counts in full and the effective rank does not. The
        sum of squared widths stays below 2 m log g; m = max(1, 1/λ) is most of the gap."""
    return Section("growth", "Along a real run", one_line(text), figure=figure)


def slope(regret: Vector) -> float:
    """The slope of log regret against log t over the last nine tenths of a run.

    >>> t = np.arange(1, 1001)
    >>> round(slope(3.0 * np.sqrt(t)), 3)
    0.5
    """
    t = np.arange(1, len(regret) + 1)
    late = (t >= len(regret) / 10) & (regret > 0)
    return float(np.polyfit(np.log(t[late]), np.log(regret[late]), 1)[0]) if late.sum() > 1 else float("nan")


# -- the multi-task effect, and a wrong similarity --------------------------------------------------


def effect_problem(seed: int, mu: float, horizon: int) -> RKHSProblem:
    """Short length scale: what one arm is shown says little about what another is, unless they are alike."""
    return RKHSProblem(
        seed=seed, mu=mu, n_arms=5, horizon=horizon, context_kernel=RBF(0.15), centres=60, amplitude=0.5, noise=0.25
    )


def _sharing_and_alone(seed: int, mu: float, horizon: int) -> list[float]:
    problem = effect_problem(seed, mu, horizon)
    return [simulate(p, problem).final_expected_regret for p in (kmtl_for(problem), kmtl_for(problem, Independent()))]


def effect_runs(size: Size) -> tuple[Matrix, Matrix]:
    """Final expected regret, (seeds, mus): of KMTL-UCB that knows mu, and of independent arms."""
    tasks = [(seed, mu, size.horizon) for seed in range(size.seeds) for mu in MUS]
    pairs = np.array(size.each(_sharing_and_alone, tasks)).reshape(size.seeds, len(MUS), 2)
    return pairs[..., 0], pairs[..., 1]


def effect(size: Size) -> Section:
    """Regret against the true similarity, with and without sharing."""
    sharing, alone = effect_runs(size)
    both = {"KMTL-UCB that knows μ": sharing, "independent arms": alone}
    figure, axes = canvas(1, 1, 5.6, 3.8)
    ax = axes[0, 0]
    for (name, values), look in zip(both.items(), ((BLUE, "-", "o"), (GREEN, "--", "s")), strict=True):
        ax.plot(MUS, values.T, color=look[0], alpha=0.25, linewidth=0.8)
        ax.plot(MUS, values.mean(axis=0), color=look[0], linestyle=look[1], marker=look[2], label=name)
    ax.set(xlabel="true similarity of arms, mu", ylabel=f"expected regret after {size.horizon} rounds")
    ax.set(title="the multi-task effect", ylim=(0, None))
    ax.legend(loc="lower left")
    text = f"""
        Five arms, {size.horizon} rounds, {size.seeds} problems for each μ with the same contexts and noise; thin
        lines are single problems. Single arms are equally hard for all μ, so what is gained is gained by sharing."""
    rows = [(name, *(show_number(v) for v in values.mean(axis=0))) for name, values in both.items()]
    records = [{"policy": n, "mu": mu, "regret": v[:, i].tolist()} for n, v in both.items() for i, mu in enumerate(MUS)]
    columns = ("true similarity μ of any two arms", *(f"{mu:g}" for mu in MUS))
    return Section(
        "effect",
        "The multi-task effect",
        one_line(text),
        columns,
        rows,
        (1, 2, 3, 4, 5),
        records=records,
        figure=figure,
    )


def _mistaken(seed: int, true: float, used: float, horizon: int) -> list[float]:
    problem = effect_problem(seed, true, horizon)
    inflation = theory.norm_inflation(problem.similarity_matrix, theory.equicorrelated(used, problem.n_arms))
    policy = proved_for(problem, Mixed(used), inflation)
    games = [simulate(p, problem) for p in (policy, kmtl_for(problem, Mixed(used)))]
    bound = theory.self_normalised_bound(horizon, DELTA, RIDGE, inflation * problem.norm, 1.0, policy.log_det())
    return [inflation, bound, *(game.final_expected_regret for game in games)]


def wrong(size: Size, true: float = 0.8, used: Sequence[float] = (0.0, 0.4, 0.6, 0.8, 0.9, 0.97, 0.99)) -> Section:
    """Arms of similarity ``true`` played as if it were each of ``used``: norm inflation, bound and regret."""
    tasks = [(seed, true, mu, size.horizon) for seed in range(size.seeds) for mu in used]
    found = np.array(size.each(_mistaken, tasks)).reshape(size.seeds, len(used), 4)
    figure, axes = canvas(3, 1, 10.6, 3.3)
    left, middle, right = axes[0]
    left.plot(used, found[0, :, 0], color=BLUE, marker="o")
    left.set(title="norm inflation", ylabel="factor on the norm of f*")
    middle.plot(used, found[0, :, 1], color=GREEN, marker="o", linestyle="--")
    middle.set(title="self-normalised bound, first problem", ylabel=f"bound at T = {size.horizon}")
    for values, colour, name in ((found[..., 2], GREEN, "proved radius"), (found[..., 3], BLUE, "exploration 0.3")):
        right.plot(used, values.T, color=colour, alpha=0.25, linewidth=0.8)
        right.plot(used, values.mean(axis=0), color=colour, marker="o", label=name)
    right.set(title="regret of KMTL-UCB", ylabel=f"expected regret after {size.horizon} rounds")
    right.legend(loc="center left")
    for ax in axes[0]:
        ax.axvline(true, color="0.6", linewidth=0.8, linestyle=":")
        ax.set(xlabel=f"similarity used (true: {true:g})", ylim=(0, None))
    text = f"""
        Five arms of similarity {true:g}, {size.horizon} rounds, {size.seeds} problems, played as if it were another.
        f* has a larger norm under a wrong similarity, without limit as that goes to 1, and the guarantee needs a
        radius for that norm. Norm inflation and bound: first problem; regret: mean at exploration 0.3."""
    table = np.column_stack([used, found[0, :, :2], found[..., 3].mean(axis=0)])
    rows = [(f"{mu:g}", f"{factor:.2f}", f"{bound:,.0f}", f"{lost:.1f}") for mu, factor, bound, lost in table]
    columns = ("similarity used", "norm inflation", "bound", "regret of KMTL-UCB")
    records = [dict(zip(columns, row, strict=True)) for row in table.tolist()]
    title = "What a wrong similarity costs"
    return Section("wrong", title, one_line(text), columns, rows, (0, 1, 2, 3), records=records, figure=figure)


def sections(size: Size) -> list[Section]:
    """All of the page."""
    short = min(size.horizon, 200)
    with plot_style():
        under, along, loose = regret(size)
        effects = effect(Size(short, 2 * size.seeds, size.jobs)), wrong(Size(short, size.seeds, size.jobs))
        numbers = Section(
            "loose", "How loose the bounds are", "", ("what", "value"), loose,
            records=[{"what": what, "value": value} for what, value in loose],
        )  # fmt: skip
        return [curves(), along, under, numbers, *effects]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="The theory, checked: one HTML page.")
    parser.add_argument("--out", default="runs/theory")
    for name, default in (("horizon", 600), ("seeds", 4), ("jobs", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args(arguments)
    lead = (
        'The bounds of "Multi-Task Learning for Contextual Bandits" (Deshmukh, Dogan and Scott, 2017) as '
        "kinbandits.theory computes them, and real runs beside them. Problems are built in the RKHS, where f* and its "
        f"norm are known; regret is expected regret; logarithms are natural; δ = {DELTA}."
    )
    command = f"python -m reproduce.theory --horizon {given.horizon} --seeds {given.seeds}"
    found = sections(Size(given.horizon, given.seeds, given.jobs))
    write_tables(found, Path(given.out))
    print(write_page(Path(given.out), "The theory, checked", lead, found, command=command))


if __name__ == "__main__":
    main()
