"""The bound for KMTL-UCB itself: coverage, regret under it, what it refuses; and what a wrong similarity costs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import kinbandits as kb
from kinbandits import theory
from kinbandits.environments import RKHSProblem
from kinbandits.rules import Confidence
from kinbandits.theory import equicorrelated

DELTA, RIDGE = 0.1, 0.25


def played(seed, form="tight", factor=1.0, horizon=30):
    """One game: the largest error of a mean over its radius, in all arms and rounds; the regret; the bound."""
    problem = RKHSProblem(seed=seed, mu=0.7, n_arms=3, horizon=horizon, context_kernel=kb.RBF(0.5), two_point=True)
    schedule = Confidence(noise=0.5, norm_bound=problem.norm, delta=DELTA, form=form)
    policy = kb.KMTLUCB(
        problem.arms,
        similarity=problem.similarity,
        context_kernel=problem.context_kernel,
        ridge=RIDGE,
        exploration=schedule,
        rewards=None,
        cold_start="borrow",
    )
    theory.check_self_normalised(policy)
    worst, regret = 0.0, 0.0
    for round_ in problem.rounds():
        mean, width = policy.predict(round_.context)
        beta = factor * schedule.radius(policy.log_det(), RIDGE)
        worst = max(worst, float((np.abs(mean - round_.means) / (beta * width)).max()))
        decision = policy.choose(round_.context)
        policy.update(decision, float(round_.rewards[decision.index]))
        regret += float(round_.means.max() - round_.means[decision.index])
    kind = {"tight": "tight", "self-normalised": "sum"}[form]
    bound = theory.self_normalised_bound(
        horizon, DELTA, RIDGE, problem.norm, 1.0, policy.log_det(), noise=0.5, form=kind
    )
    return worst, regret, bound


@pytest.mark.slow
@pytest.mark.parametrize("form", ["tight", "self-normalised"])
def test_intervals_cover_in_all_rounds_and_the_bound_is_never_exceeded(form):
    """At least 1 - delta of 200 games: the binomial test does not reject it."""
    games = [played(seed, form) for seed in range(200)]
    missed = sum(worst > 1.0 for worst, _, _ in games)
    assert stats.binomtest(missed, 200, DELTA, alternative="greater").pvalue > 0.01
    assert all(regret <= bound for _, regret, bound in games)


def test_the_coverage_test_can_fail():
    missed = sum(played(seed, factor=0.3)[0] > 1.0 for seed in range(12))
    assert stats.binomtest(missed, 12, DELTA, alternative="greater").pvalue < 0.01


@given(
    log_g=st.floats(0.0, 200.0), delta=st.floats(1e-6, 1.0), ridge=st.floats(1e-3, 10.0), B=st.floats(0.0, 5.0),
    noise=st.floats(0.0, 2.0),
)  # fmt: skip
def test_the_factor_is_that_of_the_schedule_and_tight_is_never_larger(log_g, delta, ridge, B, noise):
    by_hand = noise * math.sqrt(log_g + 2 * math.log(1 / delta)) + math.sqrt(ridge) * B
    loose = theory.self_normalised_factor(log_g, delta, ridge, B, noise, form="sum")
    tight = theory.self_normalised_factor(log_g, delta, ridge, B, noise)
    assert loose == pytest.approx(by_hand)
    assert tight <= loose * (1 + 1e-12)
    assert tight >= loose / math.sqrt(2) * (1 - 1e-12)
    if delta < 1.0:
        for form, value in (("self-normalised", loose), ("tight", tight)):
            assert Confidence(noise, B, delta, form).radius(log_g, ridge) == pytest.approx(value)


def test_the_radius_in_a_finite_space():
    """With a linear kernel: the ellipsoid of Abbasi-Yadkori et al. (2011), written with V and theta."""
    rng = np.random.default_rng(3)
    X, theta = rng.normal(size=(40, 3)), np.array([0.5, -0.2, 0.1])
    y = X @ theta + rng.uniform(-0.5, 0.5, 40)
    V = RIDGE * np.eye(3) + X.T @ X
    gap = np.linalg.solve(V, X.T @ y) - theta
    log_g = math.log(np.linalg.det(V) / RIDGE**3)
    beta = theory.self_normalised_factor(log_g, 0.01, RIDGE, float(np.linalg.norm(theta)))
    assert math.sqrt(gap @ V @ gap) <= beta
    assert log_g == pytest.approx(theory.log_g(X @ X.T, RIDGE))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"weighting": "per_arm"}, "weighting"),
        ({"similarity": kb.Estimated()}, "follows the data"),
        ({"context_kernel": None}, "the context kernel is learned"),
        ({"cold_start": "explore"}, "cold_start"),
        ({"ridge": None, "rewards": (0.0, 1.0)}, "the ridge is learned"),
        ({"rewards": "learn"}, "level and unit of rewards are learned"),
    ],
)
def test_policies_that_the_bound_does_not_cover_are_refused(change, text):
    fine = {
        "similarity": kb.Mixed(0.5),
        "context_kernel": kb.RBF(),
        "ridge": 0.5,
        "cold_start": "borrow",
        "rewards": None,
    }
    theory.check_self_normalised(kb.KMTLUCB(3, **fine))
    with pytest.raises(ValueError, match=text):
        theory.check_self_normalised(kb.KMTLUCB(3, **(fine | change)))


# -- a wrong similarity -------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(2, 5))
def test_norm_inflation_bounds_every_function_and_is_attained(seed, n):
    rng = np.random.default_rng(seed)
    true, used = (A @ A.T + 0.1 * np.eye(n) for A in rng.normal(size=(2, n, n)))
    factor = theory.norm_inflation(true, used)
    K_X = kb.RBF()(X := rng.normal(size=(4, 2)), X)
    for _ in range(5):
        B = rng.normal(size=(n, 4))
        norms = [math.sqrt(np.trace(B.T @ np.linalg.solve(K, B) @ K_X)) for K in (used, true)]
        assert norms[0] <= factor * norms[1] * (1 + 1e-9)
    values, vectors = np.linalg.eig(np.linalg.solve(used, true))
    worst = true @ np.linalg.solve(true, np.real(vectors[:, np.argmax(np.real(values))]))
    ratio = (worst @ np.linalg.solve(used, worst)) / (worst @ np.linalg.solve(true, worst))
    direct = max(np.real(np.linalg.eigvals(np.linalg.solve(used, true))))
    assert factor**2 == pytest.approx(direct, rel=1e-6)
    assert ratio <= factor**2 * (1 + 1e-6)


def test_norm_inflation_of_equicorrelated_arms():
    for mu, nu in ((0.0, 0.5), (0.3, 0.9), (0.8, 0.2)):
        N = 4
        by_hand = max((1 - mu) / (1 - nu), (1 + (N - 1) * mu) / (1 + (N - 1) * nu))
        assert theory.norm_inflation(equicorrelated(mu, N), equicorrelated(nu, N)) == pytest.approx(math.sqrt(by_hand))
    assert theory.norm_inflation(equicorrelated(0.5, 3), equicorrelated(1.0, 3)) == math.inf  # pooled
    assert theory.norm_inflation(equicorrelated(1.0, 3), equicorrelated(1.0, 3)) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="one shape"):
        theory.norm_inflation(np.eye(2), np.eye(3))


def test_a_problem_with_any_similarity():
    K = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.1], [0.0, 0.1, 1.0]])
    problem = RKHSProblem(seed=1, arm_kernel=K, horizon=20)
    assert problem.arms == [0, 1, 2]
    np.testing.assert_array_equal(problem.similarity_matrix, K)
    assert problem.similarity == kb.Known(K)
    C, B = problem._function()
    vector = np.kron(np.linalg.inv(K), problem.context_kernel(C, C))
    assert problem.norm == pytest.approx(math.sqrt(B.ravel() @ vector @ B.ravel()))
    same = RKHSProblem(seed=1, arm_kernel=equicorrelated(0.5, 3), horizon=20)
    plain = RKHSProblem(seed=1, mu=0.5, n_arms=3, horizon=20)
    for one, two in zip(same.rounds(), plain.rounds(), strict=True):
        np.testing.assert_allclose(one.means, two.means)
    assert same.norm == pytest.approx(plain.norm)


def test_delta_of_the_stages_and_of_the_guarantee():
    T = 200
    policy = kb.SupKMTLUCB(3, horizon=T, context_kernel=kb.RBF(), delta=theory.stage_delta(T, 0.1))
    assert policy.guarantee == pytest.approx(0.9)
    assert kb.SupKMTLUCB(3, horizon=T, context_kernel=kb.RBF(), delta=0.5).guarantee == 0.0
