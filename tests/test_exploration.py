"""Exploration schedules are values: their numbers, and that they are saved."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.exploration import Schedule

SCHEDULES = [
    kb.exploration.Decaying(0.5, rounds=3),
    kb.exploration.GPUCBExploration(3),
]


def test_numbers() -> None:
    assert kb.exploration.Decaying(0.2, rounds=100, floor=0.15)(10**6) == 0.15
    beta = 2.0 * math.log(5 * 9 * math.pi**2 / (6 * 0.2))
    assert kb.exploration.GPUCBExploration(5, ridge=0.04, delta=0.2)(3) == pytest.approx(0.2 * math.sqrt(beta))
    values = [kb.exploration.Decaying()(t) for t in range(1, 50)]
    assert values == sorted(values, reverse=True)


def test_fewer_deviations_among_many_candidates() -> None:
    policy = kb.KMTLUCB(1, context_kernel=kb.RBF(), similarity=kb.Independent(), seed=0)
    policy.observe([0, 0], [[0.0], [1.0]], [0.0, 1.0])
    ridge = policy.noise.ridge
    for k in (2, 20, 21, 400):
        found = policy.choose(np.linspace(0.0, 1.0, k)[:, None], task=0).exploration
        assert found == pytest.approx(math.sqrt(ridge * min(1.0, math.log(20) / math.log(k))))
        shares = policy.probabilities(np.linspace(0.0, 1.0, k)[None, :, None], arms=[0] * k)
        assert shares.shape == (1, k)


@pytest.mark.parametrize(
    "schedule",
    [kb.exploration.Decaying(0.5, rounds=3), kb.exploration.GPUCBExploration(3)],
)
def test_a_policy_follows_it_and_saves_it(schedule: Schedule, tmp_path: Path) -> None:
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(), exploration=schedule)
    for t in range(1, 5):
        decision = policy.choose([0.1 * t], scores=True)
        wanted = decision.mean + schedule(t) * decision.width
        assert decision.score == pytest.approx(wanted)
        policy.update(decision, 0.5)
    policy.save(tmp_path / "policy.kb")
    loaded = kb.load(tmp_path / "policy.kb")
    assert loaded.exploration == schedule
    np.testing.assert_allclose(
        loaded.choose([0.9], scores=True).scores, policy.choose([0.9], scores=True).scores, rtol=1e-12
    )


def test_bad_numbers() -> None:
    for wrong in (
        lambda: kb.exploration.Decaying(-1.0),
        lambda: kb.exploration.GPUCBExploration(0),
        lambda: kb.exploration.GPUCBExploration(2, delta=1.0),
    ):
        with pytest.raises(ValueError, match="must be"):
            wrong()


def test_a_schedule_is_called_once_a_decision() -> None:
    asked: list[int] = []

    def counter(t: int) -> float:
        asked.append(t)
        return float(len(asked))

    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(), exploration=counter, tie_break="first")
    decision = policy.choose([0.0])
    assert asked == [1]
    assert decision.exploration == 1.0
    assert decision.score == pytest.approx(decision.mean + decision.width)
    policy.choose_many([[[0.0]], [[1.0]]])
    assert asked == [1, 2, 3]


def test_a_schedule_derived_from_one_without_time_may_have_it() -> None:
    class Shrinking(kb.exploration.Deviations):
        def __call__(self, t: int, ridge: float = 1.0, candidates: int = 1) -> float:
            return super().__call__(t, ridge, candidates) / t

    many = kb.UCB(Shrinking()).exploration_at(0, (3, 2), lambda: 0.0, 1.0)
    assert many.tolist() == pytest.approx([1.0, 1 / 2, 1 / 3])
