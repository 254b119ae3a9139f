"""Factors of matrices that rounding made difficult."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from kinbandits.errors import NumericalWarning, SingularMatrixError
from kinbandits.regression.linalg.cholesky import backward, factor, forward


def test_a_good_matrix_is_factored_in_silence() -> None:
    B = np.random.default_rng(0).standard_normal((5, 9))
    M = B @ B.T
    kept = M.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        L = factor(M)
    np.testing.assert_array_equal(M, kept)
    np.testing.assert_allclose(L @ L.T, M, rtol=1e-12)
    np.testing.assert_array_equal(L, np.tril(L))
    b = np.arange(5.0)
    np.testing.assert_allclose(M @ backward(L, forward(L, b)), b, atol=1e-10)


def test_a_singular_matrix_gets_jitter_and_a_warning_that_names_it() -> None:
    M = np.full((4, 4), 8.0)
    with pytest.warns(NumericalWarning, match=r"kernel matrix of 4 rows is singular .* was added to its diagonal"):
        L = factor(M)
    np.testing.assert_allclose(L @ L.T, M, atol=8e-6)


def test_a_nearly_singular_one_is_told_of() -> None:
    with pytest.warns(NumericalWarning, match=r"its smallest pivot is .*Raise ridge"):
        factor(np.ones((3, 3)) + 1e-12 * np.eye(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        factor(np.ones((3, 3)) + 1e-9 * np.eye(3))


def test_jitter_beyond_a_millionth_is_refused() -> None:
    with pytest.raises(SingularMatrixError, match="2 rows is not positive definite, even with 1e-06"):
        factor(np.diag([1.0, -1e-5]))
    with pytest.warns(NumericalWarning, match="was added"):
        factor(np.diag([1.0, -1e-8]))
    with pytest.raises(SingularMatrixError, match="NaN or infinity"):
        factor(np.array([[np.nan]]))
