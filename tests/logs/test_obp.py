"""The arrays of the Open Bandit Pipeline, held against its estimators' formulas."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.logs.obp import action_dist, from_obp, to_obp
from kinbandits.ope import LoggedRounds, estimate


def a_log(n: int = 60) -> LoggedRounds:
    rng = np.random.default_rng(2)
    contexts = rng.normal(size=(n, 2))
    chosen = rng.integers(3, size=n)
    rewards = (contexts[:, 0] > 0) * (chosen == 1) + rng.normal(size=n) * 0.1
    return LoggedRounds(list(contexts), [["a", "b", 3]] * n, chosen.tolist(), rewards.tolist(), [1 / 3] * n)


def test_there_and_back() -> None:
    log = a_log()
    feedback = to_obp(log)
    assert feedback["n_rounds"] == 60
    assert feedback["n_actions"] == 3
    assert feedback["context"].shape == (60, 2)
    assert feedback["action"].dtype.kind == "i"
    again = from_obp(feedback)
    assert again.arms() == log.arms()
    np.testing.assert_array_equal(np.array(again.contexts), np.array(log.contexts))
    assert list(again.rewards) == list(log.rewards)
    assert list(again.propensities) == list(log.propensities)


def test_their_estimators_on_our_arrays_give_our_estimates() -> None:
    """IPS and SNIPS as obp/ope/estimators.py writes them, on action_dist and bandit_feedback."""
    log = a_log()
    policy = kb.KMTLUCB(["a", "b", 3], epsilon=0.3)
    log[:30].teach(policy)
    feedback = to_obp(log[30:])
    dist = action_dist(policy, feedback["context"])
    assert dist.shape == (30, 3, 1)
    np.testing.assert_allclose(dist.sum(axis=1), 1.0)
    position = np.zeros(30, dtype=int)
    iw = dist[np.arange(30), feedback["action"], position] / feedback["pscore"]
    found = estimate(feedback["reward"], feedback["pscore"], feedback["action"], dist[:, :, 0])
    assert found.estimates["ips"].value == pytest.approx((feedback["reward"] * iw).mean())
    assert found.estimates["snips"].value == pytest.approx((feedback["reward"] * iw).mean() / iw.mean())


def test_retired_arms_have_probability_zero() -> None:
    policy = kb.KMTLUCB(["a", "b", "c"], epsilon=0.2, tie_break="first")
    policy.retire_arm("b")
    dist = action_dist(policy, [[0.1], [0.2]])
    np.testing.assert_allclose(dist[:, :, 0], [[0.9, 0.0, 0.1]] * 2)
    assert (dist[:, 1, 0] == 0.0).all()
    np.testing.assert_allclose(dist.sum(axis=1), 1.0)


def test_pi_b_in_place_of_pscore_and_numbers_in_place_of_names() -> None:
    feedback = {
        "context": np.zeros((2, 1)), "action": np.array([0, 1]), "reward": np.ones(2), "n_actions": 2,
        "pi_b": np.array([[[0.25], [0.75]]] * 2),
    }  # fmt: skip
    log = from_obp(feedback)
    assert log.arms() == [0, 1]
    assert list(log.propensities) == [0.25, 0.75]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reward": None}, "no 'reward'"),
        ({"pscore": None}, "neither pscore nor pi_b"),
        ({"action": np.array([0, 7])}, "whole numbers from 0 to 1"),
        ({"action": np.array([0.0, 1.0])}, "whole numbers"),
        ({"position": np.array([0, 1])}, "slates"),
        ({"reward": np.ones(3)}, "need as many"),
    ],
)
def test_what_is_wrong_is_named(change: dict, words: str) -> None:
    feedback = {
        "context": np.zeros((2, 1)), "action": np.array([0, 1]), "reward": np.ones(2), "n_actions": 2,
        "pscore": np.full(2, 0.5),
    }  # fmt: skip
    feedback = {k: v for k, v in (feedback | change).items() if v is not None}
    with pytest.raises(ValueError, match=words):
        from_obp(feedback)


def test_logs_that_do_not_fit() -> None:
    log = LoggedRounds([[[0.1], [0.2]]], [["a", "b"]], [0], [1.0], [0.5])
    with pytest.raises(ValueError, match="context per candidate"):
        to_obp(log)
    with pytest.raises(ValueError, match="not among arms"):
        to_obp(a_log(), arms=["a", "b"])
    with pytest.raises(ValueError, match="2 names, but there are 3"):
        from_obp(to_obp(a_log()), arms=["a", "b"])
