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
    "log_g": {"K": np.eye(2), "ridge": 1.0},
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
