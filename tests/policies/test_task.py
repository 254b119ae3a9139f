"""A task is given and one of many candidates is chosen."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb


def test_a_task_is_one_arm_for_all_candidates() -> None:
    rng = np.random.default_rng(0)
    by_task, by_arms = kb.KMTLUCB(["a", "b"]), kb.KMTLUCB(["a", "b"])
    for t in range(60):
        candidates, name = rng.uniform(-1.0, 1.0, (7, 2)), "ab"[t % 2]
        one = by_task.choose(candidates, task=name)
        two = by_arms.choose(candidates, arms=[name] * 7)
        assert (one.index, one.arm, one.propensity) == (two.index, name, two.propensity)
        reward = float(np.sin(3.0 * candidates[one.index, 0]))
        by_task.update(one, reward)
        by_arms.update(two, reward)
    assert by_task.similarity_matrix()[0, 1] > 0.3  # the tasks are alike, and that is found


def test_what_does_not_fit_is_refused() -> None:
    policy = kb.KMTLUCB(["a", "b"])
    with pytest.raises(ValueError, match="not both"):
        policy.choose([[0.1], [0.2]], ["a", "a"], task="a")
    with pytest.raises(ValueError, match="one row per candidate"):
        policy.choose([0.1, 0.2], task="a")
    with pytest.raises(kb.errors.UnknownArmError, match="'c'"):
        policy.choose([[0.1]], task="c")
    assert policy.n_decisions == 0
