"""Baselines against textbook programs written for these tests alone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import kinbandits as kb
from kinbandits.baselines.beta_thompson import best_of_betas
from kinbandits.errors import InvalidInputError
from kinbandits.experiments.config import experiment_of, policies
from kinbandits.testing import check_policy

BASELINES = {
    "Uniform": lambda n: kb.baselines.Uniform(n),
    "EpsilonGreedy": lambda n: kb.baselines.EpsilonGreedy(n),
    "UCB1": lambda n: kb.baselines.UCB1(n),
    "GaussianThompson": lambda n: kb.baselines.GaussianThompson(n),
    "BetaThompson": lambda n: kb.baselines.BetaThompson(n),
}
baselines = pytest.mark.parametrize("name", BASELINES)


@baselines
def test_contract(name: str) -> None:
    check_policy(BASELINES[name](3))


@baselines
def test_they_lose_and_gain_arms(name: str, tmp_path: Path) -> None:
    policy = BASELINES[name](3)
    policy.observe([0, 1, 1, 2], np.zeros((4, 2)), [0.0, 0.5, 1.0, 1.0])
    policy.remove_arm(1)
    assert policy.n_observations == 2
    policy.add_arm("new")
    assert policy.arms == [0, 2, "new"]
    policy.save(tmp_path / "p.kb")
    loaded = kb.load(tmp_path / "p.kb")
    for _ in range(5):
        one, two = policy.choose([0.1, 0.2], scores=True), loaded.choose([0.1, 0.2], scores=True)
        assert (one.arm, one.propensity) == (two.arm, two.propensity)
        np.testing.assert_array_equal(one.scores, two.scores)
        policy.update(one, 1.0)
        loaded.update(two, 1.0)


def test_ucb1_plays_the_same_game() -> None:
    """Auer, Cesa-Bianchi and Fischer (2002), Figure 1."""
    n_arms, rng = 5, np.random.default_rng(1)
    policy = kb.baselines.UCB1(n_arms, tie_break="first")
    sums, counts = np.zeros(n_arms), np.zeros(n_arms)
    for t in range(400):
        decision = policy.choose(rng.standard_normal(3))
        if t < n_arms:
            assert decision.arm == t
        else:
            index = sums / counts + np.sqrt(2.0 * math.log(t) / counts)
            np.testing.assert_allclose(decision.scores, index, rtol=1e-8)
            assert decision.arm == index.argmax()
        reward = float(rng.random() < 0.1 + 0.15 * decision.arm)
        policy.update(decision, reward)
        sums[decision.arm] += reward
        counts[decision.arm] += 1


def test_epsilon_greedy_is_the_regression_without_width() -> None:
    rng = np.random.default_rng(3)
    X, arms = rng.standard_normal((40, 2)), rng.integers(3, size=40)
    policy = kb.baselines.EpsilonGreedy(
        3, epsilon=0.3, context_kernel=kb.Linear(), similarity=kb.Independent(), ridge=0.5
    )
    policy.observe(arms, X, X @ [1.0, -1.0] * arms)
    x = np.array([0.4, 0.9])
    own = [X[arms == a] for a in range(3)]
    means = [x @ np.linalg.solve(0.5 * np.eye(2) + A.T @ A, A.T @ (A @ [a, -a])) for a, A in enumerate(own)]
    wanted = np.full(3, 0.1)
    wanted[int(np.argmax(means))] = 0.8
    np.testing.assert_allclose(policy.probabilities(x[None, None]), wanted[None])
    chosen = policy.choose_many(np.tile(x, (4000, 1, 1))).index
    assert stats.chisquare(np.bincount(chosen, minlength=3), 4000 * wanted).pvalue > 1e-3


def test_uniform_is_uniform() -> None:
    policy = kb.baselines.Uniform(4)
    policy.observe([0] * 50, np.zeros((50, 1)), np.ones(50))
    counts = np.bincount(policy.choose_many(np.zeros((4000, 1, 1))).index, minlength=4)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_gaussian_thompson_is_the_conjugate_posterior() -> None:
    policy = kb.baselines.GaussianThompson(2, prior_variance=2.0, noise_variance=0.5)
    policy.observe([0, 0, 1], np.zeros((3, 1)), [1.0, 0.6, 0.7])
    precision = 1.0 / 2.0 + np.array([2.0, 1.0]) / 0.5
    mean = np.array([1.6, 0.7]) / 0.5 / precision
    np.testing.assert_allclose(policy.predict([0.0]).mean, mean)
    np.testing.assert_allclose(policy.covariance([0.0]), np.diag(1.0 / precision), atol=1e-12)
    wanted = stats.norm.cdf((mean[0] - mean[1]) / math.sqrt((1.0 / precision).sum()))
    assert policy.probabilities([[[0.0]]])[0, 0] == pytest.approx(wanted, abs=0.03)


def test_beta_shares_are_the_probabilities_of_being_best() -> None:
    """An integral by another hand for two arms; many draws for more."""
    a, b = np.array([3.0, 2.0]), np.array([2.0, 5.0])
    wanted = quad(lambda x: stats.beta.pdf(x, 3, 2) * stats.beta.cdf(x, 2, 5), 0.0, 1.0)[0]
    np.testing.assert_allclose(best_of_betas(a, b), [wanted, 1.0 - wanted], atol=1e-6)
    a, b = np.array([1.0, 8.0, 40.0, 300.0]), np.array([1.0, 4.0, 22.0, 200.0])
    draws = np.random.default_rng(0).beta(a, b, (200_000, 4)).argmax(axis=1)
    np.testing.assert_allclose(best_of_betas(a, b), np.bincount(draws) / 200_000, atol=0.005)
    far = best_of_betas(np.array([1.0, 1000.0]), np.array([1000.0, 1.0]))
    assert 0.0 < far[0] < 1e-12


def test_beta_thompson_finds_the_best_arm_and_refuses_other_rewards() -> None:
    rng, policy = np.random.default_rng(5), kb.baselines.BetaThompson(["bad", "good"], seed=2)
    for _ in range(300):
        decision = policy.choose([0.0])
        policy.update(decision, float(rng.random() < {"bad": 0.2, "good": 0.8}[str(decision.arm)]))
    assert policy.probabilities([[[0.0]]])[0, 1] > 0.99
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        policy.observe(["bad"], [[0.0]], [1.5])
    shares = policy.probabilities(np.zeros((1, 3, 1)), ["bad", "good", "good"])[0]
    assert shares[1] == shares[2] == pytest.approx(0.5, abs=0.01)


def test_an_experiment_can_name_them_all() -> None:
    assert {*kb.baselines.__all__, "CLUB", "COFIBA", "KMTLUCB"} <= set(policies())
    data = {
        "name": "baselines",
        "seeds": 1,
        "environments": [{"kind": "synthetic-news", "horizon": 20}],
        "methods": [
            *({"name": n, "policy": n} for n in BASELINES),
            {"name": "thompson", "exploration": {"type": "Thompson", "samples": 200}},
        ],
    }
    experiment = experiment_of(data)
    experiment.check()
    for cell in experiment.cells():
        environment, policy = cell.make()
        assert len(kb.simulate(policy, environment)) == 20
