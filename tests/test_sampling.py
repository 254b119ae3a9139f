"""Posterior sampling: joint draws, the shares counted from them, and the choices made from these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import kinbandits as kb
from kinbandits.errors import KinbanditsError
from kinbandits.rules import Thompson, symmetric_root
from kinbandits.testing import check_policy
from strategies import engine_of, negative_similarity, random_rows

ENGINES = ["naive", "exact", "budgeted", "auto"]
N = 4


def taught(engine: str, fresh: bool = False, **settings: object) -> kb.KMTLUCB:
    policy = kb.KMTLUCB(
        N,
        similarity=kb.Known(negative_similarity(N)),
        context_kernel=kb.RBF(0.8),
        ridge=0.3,
        exploration=Thompson(),
        cold_start="borrow",
        engine=engine_of(engine, 64),
        **settings,  # type: ignore[arg-type]
    )
    if not fresh:
        rows = random_rows(seed=3, n_arms=N, t=25)
        policy.observe(rows.arms, rows.contexts, rows.rewards)
    return policy


def dense_posterior(policy: kb.KMTLUCB, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and joint covariance of all arms at x, from the definition."""
    rows = random_rows(seed=3, n_arms=N, t=25)
    K_arm = negative_similarity(N)

    def rbf(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2) / (2 * 0.8**2))

    K = K_arm[np.ix_(rows.arms, rows.arms)] * rbf(rows.contexts, rows.contexts)
    k = K_arm[np.ix_(rows.arms, np.arange(N))] * rbf(rows.contexts, x[None])
    M = np.linalg.inv(K + 0.3 * np.eye(len(K)))
    return k.T @ M @ rows.rewards, K_arm - k.T @ M @ k


@pytest.mark.parametrize(("rewards", "deviations"), [(None, 1.0), (kb.rewards.Standardized(), 2.0)])
def test_draws_are_one_posterior_deviation_wide(rewards: kb.rewards.Rewards | None, deviations: float) -> None:
    """A unit that is learned is two deviations of the arms' functions."""
    policy, x = taught("exact", rewards=rewards), np.array([0.2, -0.3, 0.5])
    posterior = policy.predict(x).mean, policy.covariance(x)
    wanted = Thompson(scale=1.0 / deviations).shares(*posterior)
    assert policy.probabilities(x[None, None])[0] == pytest.approx(wanted)
    assert Thompson(scale=2.0 / deviations).shares(*posterior) != pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("engine", ENGINES)
def test_draws_have_the_posteriors_covariance_across_arms(engine: str) -> None:
    """Each entry of the sample covariance within 5 standard errors, and the arms are far from independent."""
    policy, x = taught(engine), np.array([0.2, -0.3, 0.5])
    mean, C = dense_posterior(policy, x)
    np.testing.assert_allclose(policy.covariance(x), C, atol=1e-6 if engine == "budgeted" else 1e-9)
    S = 40_000
    given = policy.predict(x).mean, policy.covariance(x)
    for draws in (policy.sample(x, S), Thompson(samples=S).draws(*given)):
        found = np.cov(draws.T)
        error = np.sqrt((np.outer(C.diagonal(), C.diagonal()) + C**2) / S)
        assert (np.abs(found - C) < 5.0 * error).all()
        assert (np.abs(draws.mean(axis=0) - mean) < 5.0 * np.sqrt(C.diagonal() / S) + 1e-6).all()
    off = ~np.eye(N, dtype=bool)
    assert (np.abs(C) / error)[off].max() > 20.0


@pytest.mark.parametrize("engine", ENGINES)
def test_choices_follow_the_probability_of_being_best(engine: str) -> None:
    policy, x = taught(engine, seed=8), np.array([0.2, -0.3, 0.5])
    mean, C = dense_posterior(policy, x)
    draws = np.random.default_rng(0).multivariate_normal(mean, C, 200_000)
    wanted = np.bincount(draws.argmax(axis=1), minlength=N) / 200_000
    shares = policy.probabilities(x[None, None])[0]
    np.testing.assert_allclose(shares, wanted, atol=0.05)
    chosen = policy.choose_many(np.tile(x, (1000, 1, 1)))
    counts = np.bincount(chosen.index, minlength=N)
    assert stats.chisquare(counts, 1000 * shares).pvalue > 1e-3
    np.testing.assert_array_equal(chosen.propensity, shares[chosen.index])
    alone = np.random.default_rng(0).multivariate_normal(mean, np.diag(C.diagonal()), 200_000)
    independent = np.bincount(alone.argmax(axis=1), minlength=N) / 200_000
    assert np.abs(shares - wanted).max() < np.abs(shares - independent).max()  # jointly, not one by one


def test_shares_converge_with_the_number_of_draws() -> None:
    rng = np.random.default_rng(2)
    R = rng.standard_normal((5, 5))
    mean, C = rng.standard_normal(5), R @ R.T
    wanted = np.bincount((mean + rng.standard_normal((400_000, 5)) @ R.T).argmax(axis=1), minlength=5) / 400_000
    errors = [np.abs(Thompson(samples=s).shares(mean, C) - wanted).max() for s in (100, 100_000)]
    assert errors[1] < 0.006 < errors[0]


def test_an_unlikely_arm_keeps_its_chance_and_twins_share() -> None:
    shares = Thompson().shares(np.array([0.0, 6.0]), np.eye(2))
    assert 0.0 < shares[0] < 1e-6
    assert Thompson().shares(np.zeros(3), np.ones((3, 3))) == pytest.approx([1 / 3] * 3)
    certain = Thompson(scale=0.0).shares(np.array([0.0, 1.0, 1.0]), np.eye(3))
    assert certain == pytest.approx([0.0, 0.5, 0.5])
    sampled = {"exploration": Thompson(), "cold_start": "borrow"}
    pooled = kb.KMTLUCB(3, similarity=kb.Pooled(), context_kernel=kb.RBF(), **sampled)
    pooled.observe([0, 1], [[0.0], [0.3]], [1.0, 0.0])
    assert pooled.probabilities([[[0.1]]])[0] == pytest.approx([1 / 3] * 3)


def test_root_of_a_singular_covariance() -> None:
    C = np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])
    root = symmetric_root(C)
    np.testing.assert_allclose(root @ root.T, C, atol=1e-12)
    assert (np.linalg.eigvalsh(root) > 1e-12).sum() == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_contract(engine: str) -> None:
    check_policy(taught(engine, fresh=True))
    linear = kb.baselines.LinUCB(3, exploration=Thompson(samples=200), engine=engine_of(engine), epsilon=0.2)
    check_policy(linear)


@pytest.mark.parametrize("engine", ENGINES)
def test_it_goes_on_after_saving_and_after_arms_leave_and_come(engine: str, tmp_path: Path) -> None:
    policy = kb.KMTLUCB(
        ["a", "b", "c"],
        similarity=kb.Known(kb.RBF(1.0), [[0.0], [0.5], [2.0]]),
        context_kernel=kb.RBF(0.8),
        exploration=Thompson(samples=200),
        engine=engine_of(engine, 64),
    )
    rng = np.random.default_rng(4)
    for _ in range(12):
        policy.update(policy.choose(rng.standard_normal(2)), float(rng.random()))
    policy.remove_arm("b")
    policy.add_arm("d", descriptor=[1.0])
    policy.save(tmp_path / "p.kb")
    loaded = kb.load(tmp_path / "p.kb")
    assert loaded.exploration == policy.exploration
    for _ in range(10):
        x, reward = rng.standard_normal(2), float(rng.random())
        one, two = policy.choose(x), loaded.choose(x)
        assert (one.arm, one.propensity) == (two.arm, two.propensity)
        policy.update(one, reward)
        loaded.update(two, reward)
    shares = policy.frozen().probabilities(rng.standard_normal((1, 1, 2)))
    assert shares.shape == (1, 3)


def test_linear_thompson_is_agrawal_and_goyal() -> None:
    """Draws theta ~ N(theta_hat, v^2 B^-1), one theta for all candidates: scores x' theta."""
    rng, v, d = np.random.default_rng(6), 0.4, 3
    policy = kb.baselines.LinUCB(1, sharing="pooled", exploration=Thompson(samples=20_000, scale=v))
    X, y = rng.standard_normal((15, d)), rng.standard_normal(15)
    policy.observe([0] * 15, X, y)
    items = rng.standard_normal((4, d))
    B = np.eye(d) + X.T @ X
    theta = rng.multivariate_normal(np.linalg.solve(B, X.T @ y), v**2 * np.linalg.inv(B), 200_000)
    wanted = np.bincount((theta @ items.T).argmax(axis=1), minlength=4) / 200_000
    np.testing.assert_allclose(policy.probabilities(items[None], [0] * 4)[0], wanted, atol=0.015)


@pytest.mark.parametrize("wrong", [{"samples": 3}, {"samples": 0}, {"samples": 2.5}, {"scale": -1.0}])
def test_bad_settings(wrong: dict[str, float]) -> None:
    with pytest.raises(KinbanditsError, match="must be"):
        Thompson(**wrong)  # type: ignore[arg-type]


def test_a_caller_who_keeps_the_random_numbers() -> None:
    """``propose`` on a frozen policy, as the service does: the number given picks the candidate by its share."""
    policy, x = taught("exact"), np.array([0.2, -0.3, 0.5])
    shares = policy.probabilities(x[None, None])[0]
    given = np.linspace(0.0, 0.999, 50)
    made = policy.frozen().propose(np.tile(x, (50, 1, 1)), uniform=np.column_stack([given, given]))
    np.testing.assert_array_equal(made.index, np.searchsorted(shares.cumsum(), given, side="right"))
    np.testing.assert_allclose(made.propensity, shares[made.index], rtol=1e-9)
