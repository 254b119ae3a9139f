"""The problem that the theorems cover: its norm, its noise, its independence of mu."""

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.environments import RKHSProblem, check_environment, make_environment


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.0])
def test_it_keeps_the_contract(mu):
    check_environment(RKHSProblem(seed=3, mu=mu, horizon=30, n_features=2))
    assert make_environment("rkhs", mu=mu) == RKHSProblem(mu=mu)


@pytest.mark.parametrize("mu", [0.0, 0.3, 0.9, 1.0])
def test_the_norm_is_that_of_the_least_interpolant(mu):
    """Interpolating f* at more and more points gives functions whose norm rises to ||f*||, and never above it."""
    problem = RKHSProblem(seed=1, mu=mu, n_arms=3, horizon=40, context_kernel=kb.RBF(0.5), centres=6)
    C, B = problem._function()
    rounds = list(problem.rounds())
    norms = []
    for n in (5, 40):
        X = np.concatenate([r.context for r in rounds[:n]] + [C] * 3)
        arms = np.concatenate([np.tile(np.arange(3), n), np.repeat(np.arange(3), len(C))])
        f = np.concatenate(
            [np.concatenate([r.means for r in rounds[:n]]), (problem.context_kernel(C, C) @ B.T).T.ravel()]
        )
        K = problem.similarity_matrix[np.ix_(arms, arms)] * problem.context_kernel(X, X)
        norms.append(np.sqrt(f @ np.linalg.pinv(K, rcond=1e-12, hermitian=True) @ f))
    np.testing.assert_allclose(norms, problem.norm, rtol=1e-3)


def test_noise_is_within_an_interval_of_length_one():
    for two_point in (False, True):
        noise = np.array([r.rewards - r.means for r in RKHSProblem(horizon=200, two_point=two_point).rounds()])
        assert np.abs(noise).max() <= 0.5 + 1e-12
        assert abs(noise.mean()) < 0.06
        if two_point:
            np.testing.assert_allclose(np.abs(noise), 0.5)
    with pytest.raises(ValueError, match=r"noise must be at most 0\.5"):
        RKHSProblem(noise=0.6)


def test_mu_changes_how_arms_are_related_and_nothing_else():
    def draws(mu):
        many = [next(RKHSProblem(seed=s, mu=mu, n_arms=2, horizon=1).rounds()) for s in range(300)]
        return np.array([r.means for r in many]), [r.context for r in many]

    values = {mu: draws(mu) for mu in (0.0, 1.0)}
    np.testing.assert_array_equal(values[0.0][1], values[1.0][1])  # the same contexts
    for means, _ in values.values():
        np.testing.assert_allclose(means.std(axis=0), 0.3, rtol=0.15)  # every arm alone is as before
    correlation = {mu: np.corrcoef(means.T)[0, 1] for mu, (means, _) in values.items()}
    assert abs(correlation[0.0]) < 0.15
    assert correlation[1.0] > 0.5


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match="mu must be at least 0"):
        RKHSProblem(mu=-0.1)
    with pytest.raises(ValueError, match="mu must be between"):
        RKHSProblem(mu=1.5)
    with pytest.raises(ValueError, match="horizon"):
        RKHSProblem(horizon=0)
