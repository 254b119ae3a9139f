"""Every function of the theory refuses what its statement does not cover, by name."""

import numpy as np
import pytest

import kinbandits as kb
from kinbandits import theory

ORDINARY = {
    "confidence_factor": {"horizon": 100, "n_arms": 3, "delta": 0.1},
    "radius": {"width": 0.5, "factor": 2.0, "norm_bound": 1.0, "ridge": 1.0},
    "n_stages": {"horizon": 100},
    "regret_bound": {
        "horizon": 100,
        "n_arms": 3,
        "delta": 0.1,
        "ridge": 1.0,
        "norm_bound": 1.0,
        "kernel_bound": 1.0,
        "log_g": 5.0,
    },
    "gap_bound": {"stage": 2},
    "stage_size_bound": {
        "stage": 2,
        "horizon": 100,
        "n_arms": 3,
        "delta": 0.1,
        "ridge": 1.0,
        "norm_bound": 1.0,
        "kernel_bound": 1.0,
        "log_g": 5.0,
    },
    "kmtl_ucb_rate": {"horizon": 100, "log_g": 5.0},
    "lin_ucb_rate": {"horizon": 100, "n_features": 3, "n_arms": 2},
    "cgp_ucb_rate": {"horizon": 100, "log_g": 5.0},
    "cgp_ucb_bound": {"horizon": 100, "delta": 0.1, "ridge": 1.0, "norm_bound": 1.0, "log_g": 5.0},
    "cgp_ucb_prior_bound": {"horizon": 100, "n_arms": 3, "delta": 0.1, "ridge": 1.0, "log_g": 5.0},
    "stage_delta": {"horizon": 100, "delta": 0.1},
    "self_normalised_factor": {"log_g": 5.0, "delta": 0.1, "ridge": 1.0, "norm_bound": 1.0, "noise": 0.5},
    "self_normalised_bound": {
        "horizon": 100,
        "delta": 0.1,
        "ridge": 1.0,
        "norm_bound": 1.0,
        "kernel_bound": 1.0,
        "log_g": 5.0,
        "noise": 0.5,
    },
    "norm_inflation": {"true": np.eye(2), "used": np.eye(2)},
    "task_kernel": {"b": 0.5, "n_arms": 3},
    "task_norm_bound": {"b": 0.5, "n_arms": 3, "norm_bound": 1.0, "deviation": 0.5},
    "task_bias_bound": {"b": 0.5, "n_arms": 3, "norm_bound": 1.0, "deviation": 0.5},
    "task_factors": {
        "K_X": np.eye(2),
        "arms": [0, 1],
        "b": 0.5,
        "n_arms": 3,
        "delta": 0.1,
        "ridge": 1.0,
        "norm_bound": 1.0,
        "deviation": 0.5,
        "noise": 0.5,
    },
    "log_g": {"K": np.eye(2), "ridge": 1.0},
    "information_gain": {"K": np.eye(2), "ridge": 1.0},
    "rank_bound": {"rank_z": 2, "rank_x": 2, "horizon": 100, "kernel_bound": 1.0, "ridge": 1.0},
    "effective_rank": {"eigenvalues": [2.0, 1.0], "ridge": 1.0, "horizon": 100},
    "effective_rank_bound": {"r": 2, "horizon": 100, "kernel_bound": 1.0, "ridge": 1.0},
    "equicorrelated": {"mu": 0.5, "n_arms": 3},
    "log_g_of_similarity": {"mu": 0.5, "K_X": np.eye(2), "arms": [0, 1], "ridge": 1.0},
    "width_upper_bound": {"kernel_bound": 1.0, "ridge": 1.0},
    "width_lower_bound": {"n": 2, "kernel_bound": 1.0, "lmax_z": 2.0, "prior": 1.0, "ridge": 1.0},
    "squared_width_sum_bound": {"log_g": 5.0, "kernel_bound": 1.0, "ridge": 1.0},
    "width_sum_bound": {"count": 3, "log_g": 5.0, "kernel_bound": 1.0, "ridge": 1.0},
}

REFUSED = {
    "horizon": [0, -1, 2.5, "100", True],
    "n_arms": [0, 1.5],
    "n_features": [0],
    "stage": [0],
    "delta": [0.0, -0.1, 1.5, np.nan],
    "ridge": [0.0, -1.0, np.inf, None],
    "norm_bound": [np.nan, "1"],
    "kernel_bound": [0.0, -1.0],
    "log_g": [-1.0, np.nan],
    "width": [-0.1, [0.1, -0.1], [np.nan]],
    "factor": [-1.0],
    "K": [[[1.0, 2.0]], [[1.0, 0.5], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[np.nan]]],
    "K_X": [[[1.0, 2.0], [2.0, 1.0]], np.eye(3)],
    "mu": [1.5, -0.6, np.nan],
    "arms": [[0], [0, 1, 2]],
    "eigenvalues": [[1.0, -1.0], [[1.0]], np.ones(102)],
    "r": [-1, 102, 1.5],
    "rank_z": [-1],
    "rank_x": [-1, 102],
    "lmax_z": [0.5, -1.0],
    "prior": [-0.5, 1.5],
    "n": [0],
    "count": [-1],
    "noise": [-0.1, np.nan],
    "true": [[[1.0, 2.0], [2.0, 1.0]], np.eye(3)],
    "used": [[[1.0, 2.0], [2.0, 1.0]], np.eye(3)],
    "b": [-0.1],
    "deviation": [-0.1, np.inf],
}


def test_every_function_is_listed():
    assert sorted(theory.__all__) == sorted([*ORDINARY, "check_self_normalised"])
    assert kb.theory is theory


@pytest.mark.parametrize("name", sorted(ORDINARY))
def test_positional_and_keyword_agree(name):
    function, arguments = getattr(theory, name), ORDINARY[name]
    np.testing.assert_array_equal(function(**arguments), function(*arguments.values()))


@pytest.mark.parametrize("name", sorted(ORDINARY))
def test_refuses_by_name(name):
    for argument in ORDINARY[name]:
        for bad in REFUSED[argument]:
            with pytest.raises((ValueError, TypeError), match=rf"\b{argument}\b") as caught:
                getattr(theory, name)(**{**ORDINARY[name], argument: bad})
            assert isinstance(caught.value, kb.errors.KinbanditsError), (argument, bad)


@pytest.mark.parametrize("name", ["regret_bound", "rank_bound", "width_lower_bound", "self_normalised_bound"])
def test_form_is_one_of_two(name):
    with pytest.raises(ValueError, match='form must be "'):
        getattr(theory, name)(**ORDINARY[name], form="proved")


def test_statements_say_which_condition_fails():
    with pytest.raises(ValueError, match=r"Theorem 3 needs mu >= 0"):
        theory.log_g_of_similarity(-0.1, np.eye(2), [0, 1], 1.0)
    with pytest.raises(ValueError, match=r"Corollary 1 needs ridge \* log"):
        theory.effective_rank_bound(1, horizon=3, kernel_bound=1.0, ridge=50.0)
    with pytest.raises(ValueError, match="diagonal of ones"):
        theory.width_lower_bound(2, 1.0, 0.5, 1.0, 1.0)
    with pytest.raises(ValueError, match="sharing"):
        theory.lin_ucb_rate(10, 2, sharing="hybrid")


def test_values_by_hand():
    # Theorem 1 at T = 1: ceil(log 1) = 0, so as printed only 2 sqrt(T) is left; derived, Q = 1.
    one = {**ORDINARY["regret_bound"], "horizon": 1}
    assert theory.regret_bound(**one) == 2.0
    assert theory.regret_bound(**one, form="derived") > 2.0
    # log T + 1 <= Q + 1: the printed bound is the smaller of the two
    for T in (2, 10, 100, 1000):
        both = {**ORDINARY["regret_bound"], "horizon": T}
        assert theory.regret_bound(**both) <= theory.regret_bound(**both, form="derived")
    # with next to no data the concentration term stands by itself
    empty = {**ORDINARY["regret_bound"], "log_g": 0.0}
    assert theory.regret_bound(**empty) == 20.0
    np.testing.assert_allclose(
        theory.regret_bound(**empty, form="derived"), 20.0 + np.sqrt(200 * np.log(2 * 6 / 0.1))
    )
    assert theory.effective_rank([0.0, 0.0], 1.0, 10) == 0
    assert theory.effective_rank_bound(0, 10, 1.0, 1.0) == 0.0
    assert theory.log_g(np.zeros((0, 0)), 1.0) == 0.0
    assert theory.lin_ucb_rate(100, 4, n_arms=9, sharing="pooled") == 20.0
    np.testing.assert_allclose(theory.radius([0.0, 1.0], 2.0, 3.0, 0.25), [0.0, 3.5])
