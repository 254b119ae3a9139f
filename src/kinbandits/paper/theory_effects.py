"""What similarity does end to end: regret as arms become kin, and what it costs to be wrong about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinbandits import theory
from kinbandits._types import Matrix, Vector
from kinbandits.environments import RKHSProblem
from kinbandits.kernels import RBF
from kinbandits.paper.theory_runs import DELTA, Size, each, kmtl_for, proved_for
from kinbandits.policies import Policy
from kinbandits.similarity import Independent, Mixed
from kinbandits.simulate import simulate

MUS = (0.0, 0.25, 0.5, 0.75, 1.0)

# -- the multi-task effect --------------------------------------------------------------------------


@dataclass(frozen=True)
class MultiTaskEffect:
    """Final expected regret, (seeds, mus) each."""

    mus: Vector
    horizon: int
    kin: Matrix
    alone: Matrix


def effect_problem(seed: int, mu: float, horizon: int) -> RKHSProblem:
    """Short length scale: what one arm is shown says little about what another is, unless they are kin."""
    return RKHSProblem(
        seed=seed,
        mu=mu,
        n_arms=5,
        horizon=horizon,
        context_kernel=RBF(0.15),
        centres=60,
        amplitude=0.5,
        noise=0.25,
    )


def multi_task_effect(size: Size, mus: Sequence[float] = MUS) -> MultiTaskEffect:
    """KMTL-UCB that knows mu, and the same with `Independent`, on a family of problems from mu = 0 to 1."""
    tasks = [(seed, mu, size.horizon) for seed in range(size.seeds) for mu in mus]
    pairs = np.array(each(size.jobs, _kin_and_alone, tasks)).reshape(size.seeds, len(mus), 2)
    return MultiTaskEffect(np.array(mus), size.horizon, pairs[..., 0], pairs[..., 1])


def _kin_and_alone(seed: int, mu: float, horizon: int) -> tuple[float, float]:
    problem = effect_problem(seed, mu, horizon)
    policies: list[Policy] = [kmtl_for(problem, 0.1), kmtl_for(problem, 0.1, Independent())]
    first, second = (simulate(p, problem).final_expected_regret for p in policies)
    return first, second


# -- a wrong similarity -----------------------------------------------------------------------------


@dataclass(frozen=True)
class WrongSimilarity:
    """Arms of similarity ``true`` played as if it were each of ``used``: what the guarantee and the regret become.

    Attributes:
        inflation: factor on the norm of f* (`theory.norm_inflation`).
        bound: of KMTL-UCB with the radius that this norm needs, first seed.
        proved, kmtl: final expected regret, (seeds, used), with that radius and with a constant exploration.
    """

    true: float
    used: Vector
    horizon: int
    inflation: Vector
    bound: Vector
    proved: Matrix
    kmtl: Matrix


def wrong_similarity(
    size: Size, true: float = 0.8, used: Sequence[float] = (0.0, 0.4, 0.6, 0.8, 0.9, 0.97, 0.99)
) -> WrongSimilarity:
    """The same problems, with policies that take the arms for more or less alike than they are."""
    tasks = [(seed, true, mu, size.horizon) for seed in range(size.seeds) for mu in used]
    found = np.array(each(size.jobs, _mistaken, tasks)).reshape(size.seeds, len(used), 3)
    K = theory.equicorrelated(true, 5)
    inflation = np.array([theory.norm_inflation(K, theory.equicorrelated(mu, 5)) for mu in used])
    return WrongSimilarity(
        true, np.array(used), size.horizon, inflation, found[0, :, 2], found[..., 0], found[..., 1]
    )


def _mistaken(seed: int, true: float, used: float, horizon: int) -> tuple[float, float, float]:
    problem, ridge = effect_problem(seed, true, horizon), 0.1
    inflation = theory.norm_inflation(problem.similarity_matrix, theory.equicorrelated(used, problem.n_arms))
    policy = proved_for(problem, ridge, Mixed(used), inflation)
    proved = simulate(policy, problem).final_expected_regret
    bound = theory.self_normalised_bound(horizon, DELTA, ridge, inflation * problem.norm, 1.0, policy.log_det())
    return proved, simulate(kmtl_for(problem, ridge, Mixed(used)), problem).final_expected_regret, bound
