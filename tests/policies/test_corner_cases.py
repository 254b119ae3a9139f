"""Corners where an answer could be wrong without a word."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import NumericalWarning
from kinbandits.history import History
from kinbandits.regression.exact.features import FeatureRegression


def rows(n: int, n_arms: int = 3, d: int = 2) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    return rng.integers(0, n_arms, n), rng.normal(size=(n, d)), rng.normal(size=n)


def test_feature_space_survives_a_ridge_lost_in_rounding() -> None:
    policy = kb.baselines.LinUCB(2, ridge=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        for _ in range(70):
            policy.observe([0], [[1000.0, 2000.0, 3000.0]], [1.0])
    assert policy.predict([1000.0, 2000.0, 3000.0]).mean[0] == pytest.approx(1.0, abs=0.1)


def test_feature_space_counts_the_memory_of_weighted_sums() -> None:
    policy = kb.KMTLUCB(100, context_kernel=kb.Linear(), similarity=kb.Mixed(0.5), weighting="per_arm")
    history = History.of(100, np.array([0]), np.ones((1, 50)), np.ones(1))
    assert FeatureRegression.pays_from(policy.regression.settings, history) == np.inf  # 100 sums of 5000 x 5000


def test_a_frozen_linear_policy_keeps_no_matrix_of_the_history() -> None:
    policy = kb.baselines.LinUCB(3)
    policy.observe(*rows(300))
    frozen = policy.frozen()
    assert not any(isinstance(v, np.ndarray) and v.size >= 300 * 300 for v in vars(frozen.regression).values()), (
        "t x t numbers"
    )
    np.testing.assert_allclose(frozen.predict([0.3, 0.1]).width, policy.predict([0.3, 0.1]).width)
    with pytest.raises(TypeError, match="does not learn"):
        frozen.observe([0], [[0.0, 0.0]], [1.0])


def test_a_frozen_policy_with_a_window_does_not_learn() -> None:
    policy = kb.KMTLUCB(2, memory=kb.Window(5))
    policy.observe([0], [[1.0]], [1.0])
    frozen = policy.frozen()
    with pytest.raises(TypeError, match="does not learn"):
        frozen.update(frozen.choose([1.0]), 1.0)
    policy.observe([0], [[1.0]], [1.0])
    assert (frozen.n_observations, policy.n_observations) == (1, 2)


@pytest.mark.parametrize("name", [True, 1.0])
def test_a_name_that_only_equals_an_arm_is_unknown(name: Any) -> None:
    policy = kb.KMTLUCB(3)
    for call in (
        lambda: policy.choose([0.0], arms=[name, 2]),
        lambda: policy.observe([name], [[0.0]], [1.0]),
        lambda: policy.remove_arm(name),
    ):
        with pytest.raises(LookupError, match="unknown arm"):
            call()
    assert policy.arms == [0, 1, 2]


def test_a_new_arm_may_be_named_by_a_numpy_scalar() -> None:
    policy = kb.KMTLUCB(2)
    policy.add_arm(np.int64(7))  # type: ignore[arg-type]
    policy.add_arm(np.str_("x"))
    assert [type(a) for a in policy.arms] == [int, int, int, str]


@pytest.mark.parametrize("engine", ["naive", "exact"])
@pytest.mark.parametrize("kernel", [kb.Linear(), kb.Linear() * kb.RBF()])
def test_numbers_that_would_overflow_are_refused(engine: str, kernel: kb.kernels.Kernel) -> None:
    policy = kb.KMTLUCB(2, context_kernel=kernel, engine=engine)
    policy.observe([0], [[1.0]], [1.0])
    with pytest.raises(ValueError, match="overflow"):
        policy.observe([0], [[1e200]], [1.0])
    with pytest.raises(ValueError, match="overflow"):
        policy.choose([1e200])
    decision = policy.choose([1.0])
    with pytest.raises(ValueError, match="overflow"):
        policy.update(decision, -1e308)
    assert policy.n_observations == 1
    assert policy.pending() == [decision.id]


def test_no_rounds_at_all_can_be_proposed() -> None:
    assert kb.KMTLUCB(2).propose(np.empty((0, 1, 2)), uniform=np.empty((0, 2))).arm == []


def test_a_numpy_seed_is_remembered() -> None:
    assert kb.KMTLUCB(2, seed=np.int64(3)).get_params()["seed"] == 3  # type: ignore[arg-type]


def test_equal_values_have_equal_hashes() -> None:
    one, other = kb.Known([[1.0, 0.0], [0.0, 1.0]]), kb.Known([[1.0, -0.0], [-0.0, 1.0]])
    assert one == other
    assert hash(one) == hash(other)


def test_open_decisions_cannot_be_edited() -> None:
    decisions = kb.KMTLUCB(3).choose_many([[[0.0]], [[1.0]]])
    with pytest.raises(ValueError, match="read-only"):
        decisions.index[0] = 2


def test_a_foreign_kernel_cannot_change_the_history() -> None:
    def scaling(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        A /= 2.0
        return np.asarray(A @ B.T)

    policy = kb.KMTLUCB(2, context_kernel=scaling)
    with pytest.raises(ValueError, match="read-only"):
        policy.observe([0, 1], [[1.0], [2.0]], [1.0, 0.0])
    assert policy.n_observations == 0


def test_text_is_no_number() -> None:
    policy = kb.KMTLUCB(arms=2)
    with pytest.raises(TypeError, match="contexts must be numbers in an array"):
        policy.choose(["1", "2"])
    with pytest.raises(TypeError, match="rewards must be numbers in an array"):
        policy.observe([0], [[1.0]], ["1"])


def test_decisions_are_taken_one_by_one() -> None:
    decisions = kb.KMTLUCB(arms=2).choose_many([[[0.0]], [[1.0]]])
    with pytest.raises(TypeError, match="one by one"):
        decisions[0:1]  # type: ignore[index]
