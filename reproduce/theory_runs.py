"""Parts of the page of the theory: regret under the bounds, and what the theory says along a run.

Each part of the page is one class: its numbers are its fields, and it draws and explains them itself. All is
computed from `RKHSProblem`, where f* is known: regret is expected regret. Notation as in `kinbandits.theory`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kinbandits import theory
from kinbandits._types import Indices, Matrix, Vector
from kinbandits.baselines import SupKMTLUCB
from kinbandits.environments import Environment, RKHSProblem
from kinbandits.errors import InvalidInputError
from kinbandits.kernels import RBF, Kernel
from kinbandits.plotting import OKABE_ITO, canvas, plot_style
from kinbandits.policy import KMTLUCB
from kinbandits.report import Section, one_line
from kinbandits.rules import Confidence
from kinbandits.similarity import Similarity
from kinbandits.simulate import simulate
from kinbandits.trace import Trace

DELTA = 0.1
BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK, _ = OKABE_ITO


@dataclass(frozen=True)
class Size:
    """How much is run: rounds of the long runs, runs of each, processes."""

    horizon: int = 600
    seeds: int = 4
    jobs: int = 1


def each(jobs: int, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The function on every task, in ``jobs`` processes."""
    if jobs == 1:
        return [function(*task) for task in tasks]
    from joblib import Parallel, delayed

    return list(Parallel(n_jobs=jobs)(delayed(function)(*task) for task in tasks))


class Part(ABC):
    """A part of the page: a picture, a paragraph on it, and its numbers by name."""

    title: tuple[str, str]

    @abstractmethod
    def figure(self) -> Any: ...
    @abstractmethod
    def text(self) -> str: ...
    @abstractmethod
    def numbers(self) -> dict[str, float]: ...
    def section(self) -> Section:
        with plot_style():
            return Section(*self.title, one_line(self.text()), figure=self.figure())


@dataclass(frozen=True)
class Growth(Part):
    """What the theory says of the first t rows of a run, for some t."""

    t: Indices
    log_g: Vector
    effective_rank: Indices
    rank: Indices
    corollary_1: Vector
    theorem_2: Vector
    self_normalised: Vector
    sum_squared_width: Vector
    determinant_lemma: Vector
    title = "growth", "Along a real run"

    def figure(self) -> Any:
        figure, axes = canvas(3, 1, 11.0, 3.5)
        left, middle, right = axes[0]
        left.plot(self.t, self.theorem_2, color=GREEN, linestyle="-.", label="Theorem 2")
        left.plot(self.t, self.corollary_1, color=RED, linestyle="--", label="Corollary 1")
        left.plot(self.t, self.log_g, color=BLUE, label="log g")
        left.set(title="log g and its bounds", ylabel="nats", yscale="log")
        middle.plot(self.t, self.rank, color=GREEN, linestyle="-.", label="rank (in floating point)")
        middle.plot(self.t, self.effective_rank, color=BLUE, label="effective rank (Definition 1)")
        middle.set(title="rank of the kernel matrix", ylabel="rank", ylim=(0, None))
        right.plot(self.t, self.determinant_lemma, color=RED, linestyle="--", label="2 m log g (Lemma 8)")
        right.plot(self.t, self.sum_squared_width, color=BLUE, label="sum of squared widths")
        right.set(title="the determinant lemma", ylabel="sum of s²", yscale="log")
        for ax, place in zip(axes[0], ("lower right", "center right", "center right"), strict=True):
            ax.set(xscale="log", xlabel="rounds t")
            ax.legend(loc=place)
        return figure

    def text(self) -> str:
        corollary, theorem, lemma = self.numbers().values()
        return f"""
            A run of KMTL-UCB (proved radius) with {self.t[-1]} rounds, its kernel matrix examined after t rounds.
            Left: log g grows like a logarithm of t, to {self.log_g[-1]:.1f}; Corollary 1 stands {corollary:.1f}
            times above it, Theorem 2 {theorem:.1f} times, because a smooth kernel has many eigenvalues that are
            positive but tiny, which the rank counts in full. Middle: the effective rank, {self.effective_rank[-1]}
            at the end, does not. Right: the sum of squared widths stays below 2 m log g (the determinant lemma), at
            the end by a factor of {lemma:.0f}; m = max(1, 1/λ) is most of it.
            """

    def numbers(self) -> dict[str, float]:
        return {
            "Corollary 1 / log g at the end of the run": self.corollary_1[-1] / self.log_g[-1],
            "Theorem 2 / log g at the end of the run": self.theorem_2[-1] / self.log_g[-1],
            "determinant lemma / sum of squared widths": self.determinant_lemma[-1] / self.sum_squared_width[-1],
        }


def rows_of(trace: Trace, environment: Environment) -> tuple[Indices, Matrix]:
    """Arm and context of every row of a trace; contexts come from the environment that was played."""
    arms = np.asarray(trace["arm_index"], dtype=np.intp)
    rounds = dict(zip(np.asarray(trace["t"]).tolist(), arms.tolist(), strict=True))
    played = ((r.context, rounds[t]) for t, r in enumerate(environment.rounds()) if t in rounds)
    contexts = [context if context.ndim == 1 else context[arm] for context, arm in played]
    if len(contexts) != len(arms):
        raise InvalidInputError(f"the trace has {len(arms)} rows, the environment only {len(contexts)} of their rounds")
    return arms, np.array(contexts)


def growth(
    trace: Trace,
    environment: Environment,
    similarity: Matrix,
    context_kernel: Kernel,
    ridge: float,
    norm_bound: float,
    points: int = 25,
) -> Growth:
    """log g, ranks and bounds after t rows of a trace, for ``points`` values of t.

    ``trace`` is of a policy with this kernel and uniform weights, with its widths (``numbers=True``).
    """
    arms, X = rows_of(trace, environment)
    K_X = context_kernel(X, X)
    K = similarity[np.ix_(arms, arms)] * K_X
    c, r_z = float(K.diagonal().max()), int(np.linalg.matrix_rank(similarity))
    squared = np.cumsum(np.asarray(trace["width"]) ** 2)
    times = np.unique(np.geomspace(4, len(arms), points).astype(np.intp))
    found = []
    for t in times:
        values = np.linalg.eigvalsh(K[:t, :t])
        T = int(t) - 1  # the theorems' K~ has T + 1 rows
        log_g = float(np.log1p(np.maximum(values, 0.0) / ridge).sum())
        r = theory.effective_rank(np.maximum(values, 0.0), ridge, T)
        r_x = int(np.linalg.matrix_rank(K_X[:t, :t], hermitian=True))
        found.append((
            log_g, r, int(np.sum(values > t * np.finfo(float).eps * values[-1])),
            theory.effective_rank_bound(r, T, c, ridge), theory.rank_bound(r_z, r_x, T, c, ridge),
            theory.self_normalised_bound(int(t), DELTA, ridge, norm_bound, c, log_g), squared[t - 1],
            theory.squared_width_sum_bound(log_g, c, ridge),
        ))  # fmt: skip
    return Growth(times, *(np.array(column) for column in zip(*found, strict=True)))


def hard_problem(seed: int, horizon: int) -> RKHSProblem:
    """Few arms that are close kin, a smooth function: SupKMTL-UCB reaches its later stages soonest here."""
    return RKHSProblem(seed=seed, mu=0.9, n_arms=3, horizon=horizon, context_kernel=RBF(2.0), amplitude=1.0)


def sup_for(problem: RKHSProblem, ridge: float) -> SupKMTLUCB:
    """SupKMTL-UCB that knows exactly what Theorem 1 lets it know."""
    return SupKMTLUCB(
        problem.arms,
        horizon=problem.horizon,
        similarity=problem.similarity,
        context_kernel=problem.context_kernel,
        norm_bound=problem.norm,
        ridge=ridge,
        delta=theory.stage_delta(problem.horizon, DELTA),
    )


def kmtl_for(
    problem: RKHSProblem, ridge: float, similarity: Similarity | None = None, exploration: Any = 0.3
) -> KMTLUCB:
    """KMTL-UCB with the problem's kernel, uniform weights and ordinary posteriors, as the analysis has it."""
    return KMTLUCB(
        problem.arms,
        similarity=problem.similarity if similarity is None else similarity,
        context_kernel=problem.context_kernel,
        ridge=ridge,
        exploration=exploration,
        rewards=None,
        cold_start="borrow",
    )


def proved_for(
    problem: RKHSProblem, ridge: float, similarity: Similarity | None = None, inflation: float = 1.0
) -> KMTLUCB:
    """KMTL-UCB with the radius of `theory.self_normalised_bound`; ``inflation`` multiplies the norm of f*."""
    schedule = Confidence(0.5, inflation * problem.norm, DELTA, form="tight")
    policy = kmtl_for(problem, ridge, similarity, schedule)
    theory.check_self_normalised(policy)
    return policy


class RegretRuns(Part):
    """Cumulative expected regret of three algorithms on the same problems, (runs, T) each; bounds on the first run.

    ``sup`` is SupKMTL-UCB (Theorem 1), ``proved`` KMTL-UCB with the self-normalised radius, ``kmtl`` with a
    constant one; ``growth`` is along the rows of ``proved``. Bounds at T are of an algorithm that knows T, with
    ``sup_log_g``. ``missed`` are rounds of ``proved`` whose interval misses f*; ``stages`` and ``settled`` count
    rounds of each run.
    """

    title = "regret", "Regret under the bound"

    def __init__(self, size: Size, ridge: float = 0.1) -> None:
        runs = each(size.jobs, _three, [(seed, size.horizon, ridge) for seed in range(size.seeds)])
        problem = hard_problem(0, size.horizon)
        T, N, norm, k_X = problem.horizon, problem.n_arms, problem.norm, problem.context_kernel
        self.horizon, self.ridge = T, ridge
        self.sup, self.proved, self.kmtl = (
            np.array([run[i].cumulative_expected_regret for run in runs]) for i in range(3)
        )
        self.growth = growth(runs[0].proved, problem, problem.similarity_matrix, k_X, ridge, norm)
        self.sup_log_g = log_g = theory.log_g(_kernel_matrix(problem, *rows_of(runs[0].sup, problem)), ridge)
        self.theorem_1 = theory.regret_bound(T, N, DELTA, ridge, norm, 1.0, log_g)
        self.cgp_agnostic = theory.cgp_ucb_bound(T, DELTA, ridge, norm, log_g)
        self.cgp_prior = theory.cgp_ucb_prior_bound(T, N, DELTA, ridge, log_g)
        self.missed = sum(run.missed for run in runs)
        self.stages, self.settled = [run.stages for run in runs], [run.settled for run in runs]

    @property
    def regrets(self) -> dict[str, Matrix]:
        return {"SupKMTL-UCB": self.sup, "KMTL-UCB, proved radius": self.proved, "KMTL-UCB": self.kmtl}

    def figure(self) -> Any:
        """Log-log. The self-normalised bound holds for every t: a curve; Theorem 1's is of a T: a mark."""
        figure, axes = canvas(2, 1, 10.0, 4.6)
        left, right = axes[0]
        t, T = np.arange(1, self.horizon + 1), self.horizon
        left.plot([T], [self.cgp_agnostic], color=PINK, marker="v", linestyle="", label="CGP-UCB at T, no prior")
        left.plot([T], [self.theorem_1], color=RED, marker="*", markersize=10, linestyle="", label="Theorem 1 at T")
        left.plot([T], [self.cgp_prior], color=PINK, marker="^", linestyle="", label="CGP-UCB at T, GP prior")
        bound = self.growth.self_normalised
        left.plot(self.growth.t, bound, color=GREEN, linestyle="--", label="self-normalised bound")
        left.plot(t, t, color=BLACK, linewidth=0.8, linestyle=(0, (1, 3)), label="t (reward 1 lost each round)")
        looks = ((ORANGE, "-."), (GREEN, "-"), (BLUE, "-"))
        for (colour, style), (name, values) in zip(looks, self.regrets.items(), strict=True):
            mean, low, high = (np.maximum(f(axis=0), 1e-3) for f in (values.mean, values.min, values.max))
            label = f"{name} (slope {log_log_slope(values.mean(axis=0)):.2f})"
            left.plot(t, mean, color=colour, linestyle=style, label=label)
            left.fill_between(t, low, high, color=colour, alpha=0.2, linewidth=0)
        left.set(xscale="log", yscale="log", xlabel="rounds t", ylabel="expected regret (units of reward)")
        left.set_title("regret under the bounds")
        left.legend(loc="upper left", bbox_to_anchor=(-0.12, -0.16), ncols=2)
        shares = np.column_stack([self.stages, self.settled])
        names = [f"{q}" for q in range(1, shares.shape[1])] + ["settled"]
        right.bar(names, shares.mean(axis=0), color=ORANGE, width=0.7)
        for x, column in enumerate(shares.T):
            right.plot(np.full(len(column), x), column, ".", color=BLACK, markersize=4)
        right.set(xlabel="stage q that the round joined", ylabel="rounds")
        right.set_title("SupKMTL-UCB's stages (bars: mean; dots: runs)")
        return figure

    def text(self) -> str:
        T, along = self.horizon, self.growth
        sup, proved, kmtl = (float(values[:, -1].mean()) for values in self.regrets.values())
        deepest = max(q for stages in self.stages for q, n in enumerate(stages, 1) if n)
        return f"""
            Three algorithms on the same problems (δ = {DELTA}; lines: mean, bands: all runs). SupKMTL-UCB, whose
            stages have δ / (Q + 1) so that Theorem 1 holds with probability 1 − δ, loses {sup:.1f}; the theorem
            bounds it by {self.theorem_1:,.0f} (log g = {self.sup_log_g:.1f}, of its own rows),
            {self.theorem_1 / T:.0f} times T. It is a mark and no curve, since the algorithm is built for its T; so
            are the bounds of CGP-UCB, with the same log g: {self.cgp_agnostic:,.0f} without a prior,
            {self.cgp_prior:,.0f} if f* were drawn from the Gaussian process. KMTL-UCB with the self-normalised
            radius loses {proved:.1f}, and its bound, which holds for all t at once, is
            {along.self_normalised[-1]:,.0f} (log g = {along.log_g[-1]:.1f}); its intervals miss f* in {self.missed}
            of {T * len(self.proved)} rounds. With exploration 0.3, for which nothing is proved, it loses
            {kmtl:.1f}. Right: in {T} rounds SupKMTL-UCB has reached stage {deepest} of {len(self.stages[0])}: at a
            stage it plays the arm it is least sure of, not the best one.
            """

    def numbers(self) -> dict[str, float]:
        regrets = {name: values.mean(axis=0) for name, values in self.regrets.items()}
        return {
            "horizon T": self.horizon,
            "log g of SupKMTL-UCB's rows": self.sup_log_g,
            "Theorem 1 bound at T": self.theorem_1,
            "Theorem 1 bound / T": self.theorem_1 / self.horizon,
            "CGP-UCB agnostic bound at T": self.cgp_agnostic,
            "CGP-UCB bound with a prior at T": self.cgp_prior,
            "log g of KMTL-UCB's rows (proved radius)": self.growth.log_g[-1],
            "self-normalised bound at T": self.growth.self_normalised[-1],
            "intervals of the proved radius that miss f*": self.missed,
            **{f"{name}: mean regret": values[-1] for name, values in regrets.items()},
            **{f"{name}: log-log slope": log_log_slope(values) for name, values in regrets.items()},
        }


class _Three(NamedTuple):
    sup: Trace
    proved: Trace
    kmtl: Trace
    stages: list[int]
    settled: int
    missed: int


def _three(seed: int, horizon: int, ridge: float) -> _Three:
    problem = hard_problem(seed, horizon)
    sup = sup_for(problem, ridge)
    trace = simulate(sup, problem)
    proved = simulate(proved_for(problem, ridge), problem, numbers=True)
    # The interval of a round has the beta of the rows before it.
    arms, X = rows_of(proved, problem)
    factor = np.linalg.cholesky(np.eye(horizon) + _kernel_matrix(problem, arms, X) / ridge)
    gains = np.concatenate([[0.0], 2.0 * np.cumsum(np.log(np.diagonal(factor)))[:-1]])
    radius = Confidence(0.5, problem.norm, DELTA, form="tight")
    means = np.array([r.means[a] for r, a in zip(problem.rounds(), arms, strict=True)])  # type: ignore[index]
    beta = np.array([radius.radius(gain, ridge) for gain in gains])
    missed = int(np.sum(np.abs(proved["mean"] - means) > beta * proved["width"] * (1 + 1e-9)))
    kmtl = simulate(kmtl_for(problem, ridge), problem)
    return _Three(trace, proved, kmtl, [len(s) for s in sup.stages], len(sup.settled), missed)


def _kernel_matrix(problem: RKHSProblem, arms: Indices, X: Matrix) -> Matrix:
    return np.asarray(problem.similarity_matrix[np.ix_(arms, arms)] * problem.context_kernel(X, X))


def log_log_slope(regret: Vector) -> float:
    """The slope of log regret against log t over the last nine tenths of a run: 1/2 is the rate of Theorem 1.

    >>> t = np.arange(1, 1001)
    >>> round(log_log_slope(3.0 * np.sqrt(t)), 3)
    0.5
    """
    t = np.arange(1, len(regret) + 1)
    late = (t >= len(regret) / 10) & (regret > 0)
    if late.sum() < 2:
        return float("nan")
    return float(np.polyfit(np.log(t[late]), np.log(regret[late]), 1)[0])
