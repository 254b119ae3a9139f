"""The numbers behind the theory's pictures: curves of the bounds, and real runs beside them.

Everything is computed from `RKHSProblem`, where the conditions of the theorems hold and f* is known, so that
regret is expected regret. Notation as in `kinbandits.theory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbandits import theory
from kinbandits._types import Matrix, Vector
from kinbandits.baselines import SupKMTLUCB
from kinbandits.environments import Environment, RKHSProblem
from kinbandits.errors import InvalidInputError
from kinbandits.exploration import ConfidenceExploration
from kinbandits.kernels import RBF, Kernel
from kinbandits.policies import KMTLUCB
from kinbandits.similarity import Similarity
from kinbandits.simulate import simulate
from kinbandits.trace import Trace

DELTA = 0.1


@dataclass(frozen=True)
class Size:
    """How much is run.

    Attributes:
        horizon: rounds of the long runs.
        seeds: runs of each.
        jobs: processes.
    """

    horizon: int = 600
    seeds: int = 4
    jobs: int = 1


# -- curves of the bounds ---------------------------------------------------------------------------


@dataclass(frozen=True)
class SimilarityCurves:
    """log g and Theorem 1's bound against mu, one row per number of arms."""

    mus: Vector
    n_arms: tuple[int, ...]
    rows: int
    log_g: Matrix
    bound: Matrix


def similarity_curves(
    n_arms: Sequence[int] = (2, 5, 10, 20), rows: int = 200, ridge: float = 1.0, seed: int = 0
) -> SimilarityCurves:
    """The same contexts dealt to N arms in turn, for every mu on a grid."""
    X = np.random.default_rng(seed).uniform(-1.0, 1.0, (rows, 2))
    K_X, mus = RBF(0.5)(X, X), np.linspace(0.0, 1.0, 21)
    log_g = np.array(
        [[theory.log_g_of_similarity(mu, K_X, np.arange(rows) % N, ridge) for mu in mus] for N in n_arms]
    )
    bound = np.array(
        [
            [theory.regret_bound(rows, N, DELTA, ridge, 1.0, 1.0, value) for value in row]
            for N, row in zip(n_arms, log_g, strict=True)
        ]
    )
    return SimilarityCurves(mus, tuple(n_arms), rows, log_g, bound)


# -- along a run ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """What the theory says of the first t rows of a run, for some t."""

    t: NDArray[np.intp]
    log_g: Vector
    effective_rank: NDArray[np.intp]
    rank: NDArray[np.intp]
    corollary_1: Vector
    theorem_2: Vector
    self_normalised: Vector
    sum_squared_width: Vector
    determinant_lemma: Vector


def rows_of(trace: Trace, environment: Environment) -> tuple[NDArray[np.intp], Matrix]:
    """Arm and context of every row of a trace; contexts come from the environment that was played."""
    arms = np.asarray(trace["arm_index"], dtype=np.intp)
    contexts = []
    rounds = dict(zip(np.asarray(trace["t"]).tolist(), arms.tolist(), strict=True))
    for t, round_ in enumerate(environment.rounds()):
        if t in rounds:
            contexts.append(round_.context if round_.context.ndim == 1 else round_.context[rounds[t]])
    if len(contexts) != len(arms):
        raise InvalidInputError(
            f"the trace has {len(arms)} rows, the environment only {len(contexts)} of their rounds"
        )
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
    K = similarity[np.ix_(arms, arms)] * context_kernel(X, X)
    c, r_z = float(K.diagonal().max()), int(np.linalg.matrix_rank(similarity))
    squared = np.cumsum(np.asarray(trace["width"]) ** 2)
    times = np.unique(np.geomspace(4, len(arms), points).astype(np.intp))
    found: list[tuple[Any, ...]] = []
    for t in times:
        values = np.linalg.eigvalsh(K[:t, :t])
        T = int(t) - 1  # the theorems' K~ has T + 1 rows
        log_g = float(np.log1p(np.maximum(values, 0.0) / ridge).sum())
        r = theory.effective_rank(np.maximum(values, 0.0), ridge, T)
        r_x = int(np.linalg.matrix_rank(context_kernel(X[:t], X[:t]), hermitian=True))
        found.append(
            (
                log_g,
                r,
                int(np.sum(values > t * np.finfo(float).eps * values[-1])),
                theory.effective_rank_bound(r, T, c, ridge),
                theory.rank_bound(r_z, r_x, T, c, ridge),
                theory.self_normalised_bound(int(t), DELTA, ridge, norm_bound, c, log_g),
                squared[t - 1],
                theory.squared_width_sum_bound(log_g, c, ridge),
            )
        )
    return Growth(times, *(np.array(column) for column in zip(*found, strict=True)))


# -- regret under the bound -------------------------------------------------------------------------


@dataclass(frozen=True)
class RegretRuns:
    """Cumulative expected regret of three algorithms, (runs, T) each, and bounds on the first run.

    Attributes:
        sup: SupKMTL-UCB, whose Theorem 1 holds with probability 1 - `DELTA`.
        proved: KMTL-UCB with the self-normalised radius.
        kmtl: KMTL-UCB with a constant exploration, as one would run it.
        growth: along the rows of ``proved``, whose bound holds for every t at once.
        sup_log_g: log g of SupKMTL-UCB's own rows.
        theorem_1, cgp_agnostic, cgp_prior: bounds at T, of an algorithm that knows T, with that log g.
        missed: rounds of ``proved``, in all runs, in which the interval of the chosen arm misses f*.
    """

    horizon: int
    ridge: float
    sup: Matrix
    proved: Matrix
    kmtl: Matrix
    growth: Growth
    sup_log_g: float
    theorem_1: float
    cgp_agnostic: float
    cgp_prior: float
    missed: int
    stages: list[list[int]]
    settled: list[int]
    slopes: dict[str, float] = field(default_factory=dict)


def hard_problem(seed: int, horizon: int, mu: float = 0.9) -> RKHSProblem:
    """Few arms that are close kin, a smooth function: SupKMTL-UCB reaches its later stages soonest here."""
    return RKHSProblem(seed=seed, mu=mu, n_arms=3, horizon=horizon, context_kernel=RBF(2.0), amplitude=1.0)


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
        cold_start="borrow",
    )


def proved_for(
    problem: RKHSProblem, ridge: float, similarity: Similarity | None = None, inflation: float = 1.0
) -> KMTLUCB:
    """KMTL-UCB with the radius of `theory.self_normalised_bound`; ``inflation`` multiplies the norm of f*."""
    schedule = ConfidenceExploration(0.5, inflation * problem.norm, DELTA, ridge, form="tight")
    policy = kmtl_for(problem, ridge, similarity, schedule)
    theory.check_self_normalised(policy)
    return policy


def regret_runs(size: Size, ridge: float = 0.1) -> RegretRuns:
    """All three algorithms on the same problems."""
    runs = each(size.jobs, _three, [(seed, size.horizon, ridge) for seed in range(size.seeds)])
    problem = hard_problem(0, size.horizon)
    T, N, norm, k_X = problem.horizon, problem.n_arms, problem.norm, problem.context_kernel
    along = growth(runs[0].proved, problem, problem.similarity_matrix, k_X, ridge, norm)
    arms, X = rows_of(runs[0].sup, problem)
    log_g = theory.log_g(problem.similarity_matrix[np.ix_(arms, arms)] * k_X(X, X), ridge)
    regrets = {
        name: np.array([getattr(run, field).cumulative_expected_regret for run in runs])
        for name, field in (("SupKMTL-UCB", "sup"), ("KMTL-UCB, proved radius", "proved"), ("KMTL-UCB", "kmtl"))
    }
    return RegretRuns(
        horizon=T,
        ridge=ridge,
        sup=regrets["SupKMTL-UCB"],
        proved=regrets["KMTL-UCB, proved radius"],
        kmtl=regrets["KMTL-UCB"],
        growth=along,
        sup_log_g=log_g,
        theorem_1=theory.regret_bound(T, N, DELTA, ridge, norm, 1.0, log_g),
        cgp_agnostic=theory.cgp_ucb_bound(T, DELTA, ridge, norm, log_g),
        cgp_prior=theory.cgp_ucb_prior_bound(T, N, DELTA, ridge, log_g),
        missed=sum(run.missed for run in runs),
        stages=[run.stages for run in runs],
        settled=[run.settled for run in runs],
        slopes={name: log_log_slope(values.mean(axis=0)) for name, values in regrets.items()},
    )


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
    policy = proved_for(problem, ridge)
    proved = simulate(policy, problem, numbers=True)
    # The interval of a round has the beta of the rows before it.
    arms, X = rows_of(proved, problem)
    K = problem.similarity_matrix[np.ix_(arms, arms)] * problem.context_kernel(X, X)
    gains = np.concatenate(
        [[0.0], 2.0 * np.cumsum(np.log(np.diagonal(np.linalg.cholesky(np.eye(len(K)) + K / ridge))))]
    )
    radius = ConfidenceExploration(0.5, problem.norm, DELTA, ridge, form="tight")
    means = np.array([r.means[a] for r, a in zip(problem.rounds(), arms, strict=True)])  # type: ignore[index]
    beta = np.array([radius(t + 1, log_det=gain) for t, gain in enumerate(gains[:-1])])
    missed = int(np.sum(np.abs(proved["mean"] - means) > beta * proved["width"] * (1 + 1e-9)))
    kmtl = simulate(kmtl_for(problem, ridge), problem)
    return _Three(trace, proved, kmtl, [len(s) for s in sup.stages], len(sup.settled), missed)


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


# -- widths -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Widths:
    """Squared widths of the choices of one run, and Lemma 6's bounds on them, round by round."""

    mu: float
    ridge: float
    squared: Vector
    lower: Vector
    printed: Vector
    upper: float


def width_runs(horizon: int = 200, ridge: float = 5.0, mus: Sequence[float] = (0.0, 0.75, 1.0)) -> list[Widths]:
    """KMTL-UCB's widths for several mu. A large ridge, or the lower bound says nothing from the start."""
    found = []
    for mu in mus:
        problem = RKHSProblem(seed=0, mu=mu, n_arms=5, horizon=horizon, context_kernel=RBF(0.5))
        trace = simulate(kmtl_for(problem, ridge), problem, numbers=True)
        arms = np.asarray(trace["arm_index"])
        counts = np.cumsum(arms[:, None] == np.arange(5), axis=0)  # the candidate included
        lmax = float(np.linalg.eigvalsh(problem.similarity_matrix)[-1])
        lower, printed = (
            np.array(
                [theory.width_lower_bound(int(n), 1.0, lmax, 1.0, ridge, form=form) for n in counts.max(axis=1)]
            )
            for form in ("derived", "printed")
        )
        squared = np.asarray(trace["width"]) ** 2
        found.append(Widths(mu, ridge, squared, lower, printed, theory.width_upper_bound(1.0, ridge)))
    return found


def each(jobs: int, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The function on every task, in ``jobs`` processes."""
    if jobs == 1:
        return [function(*task) for task in tasks]
    from joblib import Parallel, delayed

    return list(Parallel(n_jobs=jobs)(delayed(function)(*task) for task in tasks))
