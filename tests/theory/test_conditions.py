"""Every function of the theory refuses what its statement does not cover, by name."""

import inspect

import numpy as np
import pytest

import kinbandits as kb
from kinbandits import theory

NO_KERNELS = [[[1.0, 2.0]], [[1.0, 0.5], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[np.nan]]]
VALUES = {  # of each argument: one that is fine, and those that are refused
    "horizon": (100, [0, -1, 2.5, "100", True]),
    "n_arms": (3, [0, 1.5]),
    "delta": (0.1, [0.0, -0.1, 1.5, np.nan]),
    "ridge": (1.0, [0.0, -1.0, np.inf, None]),
    "norm_bound": (1.0, [np.nan, "1", -1.0]),
    "kernel_bound": (1.0, [0.0, -1.0]),
    "log_g": (5.0, [-1.0, np.nan]),
    "width": (0.5, [-0.1, [0.1, -0.1], [np.nan]]),
    "factor": (2.0, [-1.0]),
    "K": (np.eye(2), NO_KERNELS),
    "K_X": (np.eye(2), [[[1.0, 2.0], [2.0, 1.0]], np.eye(3)]),
    "mu": (0.5, [1.5, -0.6, np.nan]),
    "arms": ([0, 1], [[0], [0, 1, 2]]),
    "eigenvalues": ([2.0, 1.0], [[1.0, -1.0], [[1.0]], np.ones(102)]),
    "r": (2, [-1, 102, 1.5]),
    "rank_z": (2, [-1]),
    "rank_x": (2, [-1, 102]),
    "lmax_z": (2.0, [0.5, -1.0]),
    "prior": (1.0, [-0.5, 1.5]),
    "n": (2, [0]),
    "noise": (0.5, [-0.1, np.nan]),
    "true": (np.eye(2), [*NO_KERNELS, np.eye(3)]),
    "used": (np.eye(2), [*NO_KERNELS, np.eye(3)]),
    "form": (None, ["proved", 1]),
}
FUNCTIONS = {n: f for n, f in vars(theory).items() if inspect.isfunction(f) and f.__module__ == theory.__name__}
NAMES = sorted(n for n in FUNCTIONS if not n.startswith("_") and n != "check_self_normalised")


def arguments(name):
    parameters = inspect.signature(getattr(theory, name)).parameters.values()
    return {p.name: p.default if p.name == "form" else VALUES[p.name][0] for p in parameters}


def test_there_are_the_statements():
    assert len(NAMES) == 16
    assert kb.theory is theory


@pytest.mark.parametrize("name", NAMES)
def test_positional_and_keyword_agree(name):
    function, given = getattr(theory, name), arguments(name)
    np.testing.assert_array_equal(function(**given), function(*given.values()))
    with pytest.raises(TypeError, match="positional argument"):
        function(*given.values(), 1)


@pytest.mark.parametrize("name", NAMES)
def test_refuses_by_name(name):
    for argument in arguments(name):
        for bad in VALUES[argument][1]:
            with pytest.raises((ValueError, TypeError), match=rf"\b{argument}\b") as caught:
                getattr(theory, name)(**arguments(name) | {argument: bad})
            assert isinstance(caught.value, kb.errors.KinbanditsError), (argument, bad)
