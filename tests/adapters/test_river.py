"""Our policies in the real river's bandit interface."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb

bandit = pytest.importorskip("river.bandit", reason="river is not installed")

from kinbandits.adapters.river import RiverPolicy  # noqa: E402


def make(arms: list) -> kb.Policy:
    return kb.KMTLUCB(arms, similarity=kb.Independent(), seed=3)


def world(n: int = 200):
    rng = np.random.default_rng(5)
    for x in rng.uniform(-1, 1, (n, 2)):
        yield {"u": float(x[0]), "v": float(x[1])}, {"left": float(x[0] < 0), "right": float(x[0] > 0)}


def test_the_loop_of_river_makes_the_choices_of_our_own() -> None:
    policy, mine = RiverPolicy(make), make(["left", "right"])
    total = 0.0
    for context, rewards in world():
        arm = policy.pull(["left", "right"], context=context)
        decision = mine.choose([context["u"], context["v"]])
        assert arm == decision.arm
        policy.update(arm, context, rewards[arm])
        mine.update(decision, rewards[arm])
        total += rewards[arm]
    assert total > 170
    assert policy.live.n_observations == 200
    assert policy._n == 200
    assert set(policy.ranking) == {"left", "right"}
    assert "left" in repr(policy)


def test_offline_evaluation_of_river() -> None:
    rng = np.random.default_rng(1)
    rows = []
    for context, rewards in world(400):
        arm = ["left", "right"][rng.integers(2)]
        rows.append((["left", "right"], context, arm, rewards[arm]))
    stat, n = bandit.evaluate_offline(RiverPolicy(make), rows)
    assert 150 < n < 250
    assert stat.get() / n > 0.8 or stat.get() > 0.8  # a sum or a mean, by release


def test_a_clone_has_learned_nothing() -> None:
    policy = RiverPolicy(kb.KMTLUCB(["left", "right"], seed=3), burn_in=1)
    policy.update("left", {"u": 0.1}, 1.0)
    fresh = policy.clone()
    assert fresh.burn_in == 1
    assert policy.live.n_observations == 1
    with pytest.raises(TypeError, match="no policy yet"):
        fresh.live  # noqa: B018
    assert fresh.pull(["right", "left"], context={"u": 0.5}) == "right"  # burn-in


def test_arms_that_appear_features_that_move() -> None:
    policy = RiverPolicy(make)
    policy.update("left", {"u": 0.1, "v": 0.2}, 1.0)
    policy.update("new", {"v": 0.2, "u": 0.1}, 0.0)  # any order
    np.testing.assert_array_equal(policy.live.regression.history.contexts, [[0.1, 0.2], [0.1, 0.2]])
    assert policy.live.arms == ["left", "new"]
    with pytest.raises(ValueError, match="feature 'w' is new"):
        policy.pull(["left"], context={"u": 0.1, "v": 0.0, "w": 0.2})
    with pytest.raises(ValueError, match="feature 'v' is missing"):
        policy.pull(["left"], context={"u": 0.1})
    with pytest.raises(TypeError, match="must be a mapping"):
        policy.pull(["left"], context=[0.1])
    with pytest.raises(ValueError, match="must be finite"):
        policy.update("left", {"u": float("nan"), "v": 0.0}, 1.0)
    with pytest.raises(TypeError, match="give one reward"):
        policy.update("left", {"u": 0.1, "v": 0.0})
    assert policy.live.n_observations == 2
    assert policy._n == 2
