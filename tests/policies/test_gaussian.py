"""GP-UCB and CGP-UCB against a dense Gaussian process written for these tests alone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import InvalidInputError
from kinbandits.testing import check_policy
from strategies import EXACT_ENGINES

pytestmark = pytest.mark.numerical

N, NOISE, DELTA, BOUND = 5, 0.05, 0.2, 1.5
DESCRIPTORS = np.random.default_rng(0).uniform(-1.0, 1.0, (N, 2))


def rbf(A: np.ndarray, B: np.ndarray, scale: float) -> np.ndarray:
    return np.exp(-((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2) / (2.0 * scale**2))


class DenseGP:
    """Mean and deviation from the t x t matrix, inverted anew; the information gain from its determinant."""

    def __init__(self, composition: str) -> None:
        self.composition = composition
        self.arms: list[int] = []
        self.contexts: list[np.ndarray] = []
        self.rewards: list[float] = []

    def kernel(self, a: np.ndarray, A: np.ndarray, b: np.ndarray, B: np.ndarray) -> np.ndarray:
        s, z = rbf(DESCRIPTORS[a], DESCRIPTORS[b], 0.9), rbf(A, B, 0.6)
        return {"product": s * z, "sum": s + z, "arms alone": s}[self.composition]

    def posterior(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        everyone = np.arange(N)
        prior = self.kernel(everyone, X, everyone, X).diagonal()
        if not self.arms:
            return np.zeros(N), np.sqrt(prior), 0.0
        a, A = np.array(self.arms), np.array(self.contexts)
        K = self.kernel(a, A, a, A)
        inverse = np.linalg.inv(K + NOISE * np.eye(len(K)))
        k = self.kernel(a, A, everyone, X)
        gain = 0.5 * np.linalg.slogdet(np.eye(len(K)) + K / NOISE)[1]
        variance = prior - np.einsum("ij,ik,kj->j", k, inverse, k)
        return k.T @ inverse @ np.array(self.rewards), np.sqrt(variance), float(gain)


def beta(form: str, t: int, gain: float) -> float:
    if form == "finite":  # Srinivas et al., Theorem 1
        return 2.0 * math.log(N * t**2 * math.pi**2 / (6.0 * DELTA))
    return 2.0 * BOUND**2 + 300.0 * gain * math.log(t / DELTA) ** 3  # Theorem 3


def make(composition: str, form: str, **settings: object) -> kb.KMTLUCB:
    common = {
        "arm_kernel": kb.RBF(0.9),
        "descriptors": DESCRIPTORS,
        "ridge": NOISE,
        "delta": DELTA,
        "norm_bound": None if form == "finite" else BOUND,
    } | settings
    if composition == "arms alone":
        return kb.baselines.GPUCB(N, **common)  # type: ignore[arg-type]
    return kb.baselines.CGPUCB(N, context_kernel=kb.RBF(0.6), composition=composition, **common)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["auto", "naive", *EXACT_ENGINES])
@pytest.mark.parametrize("form", ["finite", "agnostic"])
@pytest.mark.parametrize("composition", ["product", "sum", "arms alone"])
def test_it_is_the_dense_gaussian_process(composition: str, form: str, engine: str) -> None:
    policy, other = make(composition, form, engine=engine, tie_break="first"), DenseGP(composition)
    rng = np.random.default_rng(4)
    for t in range(1, 41):
        X = rng.uniform(-1.0, 1.0, (N, 3))
        mean, deviation, gain = other.posterior(X)
        wanted = mean + math.sqrt(beta(form, t, gain)) * deviation
        decision = policy.choose(X)
        np.testing.assert_allclose(decision.prediction.mean, mean, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(math.sqrt(NOISE) * decision.prediction.width, deviation, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(decision.scores, wanted, rtol=1e-8, atol=1e-8)
        assert decision.scores[decision.index] >= wanted.max() - 1e-8
        reward = float(
            np.sin(3.0 * X[decision.index, 0]) + DESCRIPTORS[decision.index, 0] + 0.1 * rng.standard_normal()
        )
        policy.update(decision, reward)
        other.arms.append(decision.index)
        other.contexts.append(X[decision.index])
        other.rewards.append(reward)


@pytest.mark.parametrize("form", ["finite", "agnostic"])
@pytest.mark.parametrize("composition", ["product", "sum", "arms alone"])
def test_contract_and_new_arms(composition: str, form: str, tmp_path: Path) -> None:
    check_policy(make(composition, form))
    policy = make(composition, form)
    policy.observe([0, 1], np.zeros((2, 3)), [1.0, 0.0])
    policy.add_arm("new", descriptor=DESCRIPTORS[0])
    mean = policy.predict(np.zeros(3)).mean
    assert mean[-1] == pytest.approx(mean[0])  # it borrows from its twin at once
    policy.save(tmp_path / "p.kb")
    assert kb.load(tmp_path / "p.kb").choose(np.zeros(3)).scores == pytest.approx(policy.choose(np.zeros(3)).scores)


def test_the_budgeted_engine_knows_its_information_gain() -> None:
    """A dictionary that holds every row has the determinant of the rows."""
    policy, other = make("product", "agnostic", engine=kb.Budgeted(points=64)), DenseGP("product")
    X = np.random.default_rng(2).uniform(-1.0, 1.0, (12, 3))
    other.arms, other.contexts, other.rewards = [i % N for i in range(12)], list(X), [1.0] * 12
    policy.observe(other.arms, X, other.rewards)
    gain = other.posterior(np.zeros((N, 3)))[2]
    wanted = math.sqrt(NOISE * beta("agnostic", 1, gain))
    assert policy.choose(np.zeros(3)).exploration == pytest.approx(wanted, rel=1e-5)


def test_confidence_covers_the_truth() -> None:
    """The self-normalised radius holds in all rounds at once: 40 runs with delta = 0.1, and none may fail often."""
    misses = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        theta = rng.standard_normal(3)
        theta /= np.linalg.norm(theta)
        schedule = kb.exploration.ConfidenceExploration(noise=0.3, norm_bound=1.0, delta=0.1, ridge=1.0)
        policy = kb.baselines.LinUCB(4, sharing="pooled", exploration=schedule, cold_start="borrow", seed=seed)
        missed = False
        for _ in range(30):
            X = rng.standard_normal((4, 3))
            decision = policy.choose(X)
            mean, width = decision.prediction
            missed |= bool((np.abs(X @ theta - mean) > decision.exploration * width).any())
            policy.update(decision, float(X[decision.index] @ theta + 0.3 * rng.standard_normal()))
        misses += missed
    assert misses <= 8  # 4 are expected at most


def test_schedule_numbers() -> None:
    assert kb.exploration.AgnosticExploration(0.25, 2.0, 0.5, gain=0.1, scale=2.0)(4) == pytest.approx(
        2.0 * math.sqrt(0.25 * (8.0 + 30.0 * math.log(8.0) ** 3))
    )
    gob = kb.exploration.ConfidenceExploration(0.5, 2.0, 0.1, ridge=1.0, form="gob")
    assert gob(1, log_det=3.0) == pytest.approx(0.5 * math.sqrt(3.0 + math.log(10.0)) + 2.0)
    assert kb.exploration.LogExploration(2.0)(1) == pytest.approx(2.0 * math.sqrt(math.log(2.0)))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"composition": "tensor"}, "composition must be"),
        ({"descriptors": None}, "give arm_kernel="),
        ({"similarity": kb.Pooled()}, "and not both"),
        ({"delta": 1.5}, "delta must be between"),
        ({"norm_bound": -1.0}, "norm_bound must be at least 0"),
    ],
)
def test_bad_settings(settings: dict[str, object], text: str) -> None:
    given = {"context_kernel": kb.RBF(), "arm_kernel": kb.RBF(), "descriptors": DESCRIPTORS} | settings
    with pytest.raises(InvalidInputError, match=text):
        kb.baselines.CGPUCB(N, **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="form must be"):
        kb.exploration.ConfidenceExploration(form="other")  # type: ignore[arg-type]
