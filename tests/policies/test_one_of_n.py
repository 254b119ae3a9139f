"""Rewards declared to be one of N: a hit tells about all arms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.environments import Streams
from kinbandits.errors import InvalidInputError, InvalidTypeError

STREAMS = str(Path(__file__).parents[1] / "golden" / "digits-streams.npz")


def clusters(seed: int, rounds: int = 150, n_arms: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_arms, size=rounds)
    return rng.normal(size=(n_arms, 3))[labels] * 3.0 + rng.normal(size=(rounds, 3)), labels


def test_defaults_that_go_with_it() -> None:
    policy = kb.KMTLUCB(3, rewards=kb.OneOfN())
    assert (policy.similarity, policy.exploration) == (kb.Independent(), 0.7)
    assert "rewards=OneOfN()" in repr(policy)
    assert "exploration" not in repr(policy)
    own = kb.KMTLUCB(3, rewards=kb.OneOfN(), similarity=kb.Pooled(), exploration=0.2)
    assert (own.similarity, own.exploration) == (kb.Pooled(), 0.2)


def test_is_the_policy_that_is_told_the_rows(tmp_path: Path) -> None:
    declared = kb.KMTLUCB(4, rewards=kb.OneOfN())
    told = kb.KMTLUCB(4, similarity=kb.Independent(), exploration=0.7)
    for x, label in zip(*clusters(0, 70, 4), strict=True):
        decision = declared.choose(x)
        declared.update(decision, float(decision.arm == label))
        others = [b for b in range(4) if b != decision.arm] if decision.arm == label else []
        rewards = [float(decision.arm == label)] + [0.0] * len(others)
        told.observe([decision.arm, *others], [x] * len(rewards), rewards)
        np.testing.assert_allclose(declared.predict(x), told.predict(x), atol=1e-10)
    assert declared.counts == told.counts
    assert declared.n_observations > 70
    declared.save(tmp_path / "policy.kb")
    again = kb.load(tmp_path / "policy.kb")
    assert again.rewards == kb.OneOfN()
    x = np.ones(3)
    np.testing.assert_allclose(again.predict(x), declared.predict(x), atol=1e-10)


def test_logged_rows_tell_too() -> None:
    policy = kb.KMTLUCB(["a", "b", "c"], rewards=kb.OneOfN())
    policy.observe(["b", "a"], [[0.0], [1.0]], [1.0, 0.0])
    assert policy.counts == {"a": 2, "b": 1, "c": 1}


def test_helps_on_digits() -> None:
    game = Streams("digits", STREAMS, seed=0, horizon=500)
    plain = kb.simulate(kb.KMTLUCB(game.arms, similarity=kb.Independent()), game).final_regret
    declared = kb.simulate(kb.KMTLUCB(game.arms, rewards=kb.OneOfN()), game).final_regret
    assert declared < 0.9 * plain


def test_what_cannot_be_is_refused() -> None:
    policy = kb.KMTLUCB(3, rewards=kb.OneOfN())
    with pytest.raises(InvalidInputError, match="one context for all arms"):
        policy.choose(np.zeros((3, 2)))
    decision = policy.choose(np.zeros(2))
    with pytest.raises(InvalidInputError, match=r"0 and 1 only, got 0\.5"):
        policy.update(decision, 0.5)
    assert policy.n_observations == 0
    assert policy.pending() == [decision.id]
    with pytest.raises(InvalidTypeError, match="rewards must be None"):
        kb.KMTLUCB(3, rewards="binary")  # type: ignore[arg-type]
