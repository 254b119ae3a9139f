"""Laws of kernels: every kernel, any rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as sk

import kinbandits as kb
import strategies as own
from kinbandits import kernels as kernel_names
from kinbandits.kernels import Foreign, Kernel, as_kernel
from kinbandits.testing import check_kernel

pytestmark = pytest.mark.numerical

NAMESPACE = {name: getattr(kernel_names, name) for name in kernel_names.__all__}


@st.composite
def kernel_and_rows(draw: st.DrawFn) -> tuple[Kernel, np.ndarray]:
    d = draw(st.integers(1, 3))
    return draw(own.kernels(d)), draw(own.contexts(d=d))


@given(kernel_and_rows(), st.data())
def test_laws(case: tuple[Kernel, np.ndarray], data: st.DataObject) -> None:
    """Those of `check_kernel`, closer; a matrix grown by rows is the one made at once; squares will do."""
    kernel, X = case
    check_kernel(kernel, np.resize(X, (max(len(X), 3), X.shape[1])))
    K = kernel(X, X)
    scale = max(1.0, np.abs(K).max())
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-12 * scale)
    assert np.linalg.eigvalsh((K + K.T) / 2)[0] >= -1e-10 * scale
    np.testing.assert_allclose(kernel.diag(X), np.diag(K), rtol=1e-12, atol=1e-12)
    i = data.draw(st.integers(0, len(X) - 1))
    row = kernel(X[i : i + 1], X)
    if "Linear" in repr(kernel):
        np.testing.assert_allclose(row, K[i : i + 1], rtol=1e-12, atol=1e-12)
    else:
        np.testing.assert_array_equal(row, K[i : i + 1])
    of_squares = kernel.from_squares(kb.kernels.cdist(X, X, "sqeuclidean"))
    if of_squares is not None:
        np.testing.assert_array_equal(of_squares, K)
    phi = kernel.features(X)
    assert (phi is None) == any(name in repr(kernel) for name in ("RBF", "Matern", "RationalQuadratic"))
    if phi is not None:
        np.testing.assert_allclose(phi @ phi.T, K, rtol=1e-9, atol=1e-9 * scale)


@given(st.integers(1, 3).flatmap(lambda d: st.tuples(own.kernels(d), own.kernels(d), own.contexts(d=d))))
def test_sum_product_and_multiple_are_those_of_the_values(case: tuple[Kernel, Kernel, np.ndarray]) -> None:
    first, second, X = case
    np.testing.assert_array_equal((first + second)(X, X), first(X, X) + second(X, X))
    np.testing.assert_array_equal((first * second)(X, X), first(X, X) * second(X, X))
    np.testing.assert_array_equal((2.0 * first)(X, X), 2.0 * first(X, X))
    np.testing.assert_array_equal((first * np.int64(2))(X, X), (np.float64(2.0) * first)(X, X))
    np.testing.assert_allclose((first**3)(X, X), first(X, X) ** 3, rtol=1e-13)


@given(kernel_and_rows())
def test_equal_after_pickling_and_repr(case: tuple[Kernel, np.ndarray]) -> None:
    kernel, X = case
    for twin in (pickle.loads(pickle.dumps(kernel)), eval(repr(kernel), dict(NAMESPACE))):
        assert twin == kernel
        assert hash(twin) == hash(kernel)
        np.testing.assert_array_equal(twin(X, X), kernel(X, X))


SKLEARN_TWINS = [
    (kb.RBF(length_scale=0.7), sk.RBF(length_scale=0.7)),
    (kb.RBF(length_scale=(0.7, 2.0)), sk.RBF(length_scale=[0.7, 2.0])),
    (kb.Matern(nu=0.5, length_scale=0.4), sk.Matern(nu=0.5, length_scale=0.4)),
    (kb.Matern(nu=1.5, length_scale=0.4), sk.Matern(nu=1.5, length_scale=0.4)),
    (kb.Matern(nu=2.5, length_scale=0.4), sk.Matern(nu=2.5, length_scale=0.4)),
    (kb.RationalQuadratic(length_scale=0.4), sk.RationalQuadratic(length_scale=0.4, alpha=1.0)),
    (kb.RationalQuadratic(length_scale=0.4, alpha=2.5), sk.RationalQuadratic(length_scale=0.4, alpha=2.5)),
    (kb.Linear() + kb.Constant(4.0), sk.DotProduct(sigma_0=2.0)),
    (kb.Constant(3.0), sk.ConstantKernel(3.0)),
    (kb.RBF.from_precision(0.0129155), lambda A, B: np.exp(-0.0129155 * ((A[:, None] - B[None]) ** 2).sum(axis=2))),
    (kb.Linear((1.0, 2.0), 2.0), lambda A, B: (A - [1.0, 2.0]) @ (B - [1.0, 2.0]).T / 4.0),
]


@pytest.mark.parametrize(("ours", "theirs"), SKLEARN_TWINS, ids=[repr(k) for k, _ in SKLEARN_TWINS])
def test_same_values_as_others(ours: Kernel, theirs: object) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((5, 2)), rng.standard_normal((4, 2))
    other = as_kernel(theirs)
    np.testing.assert_allclose(ours(A, B), other(A, B), rtol=1e-12)
    np.testing.assert_allclose(ours.diag(A), other.diag(A), rtol=1e-12)


def test_no_kernel_of_ours_builds_a_matrix_for_its_diagonal() -> None:
    """A million rows: a matrix would need 8 TB."""
    X = np.broadcast_to(np.array([1.0, 2.0]), (1_000_000, 2))
    for kernel in (kb.RBF(), kb.Matern(), kb.Linear(), kb.Constant(2.0), kb.RBF() * kb.Linear() + 2.0 * kb.Matern()):
        assert kernel.diag(X).shape == (1_000_000,)


@pytest.mark.parametrize("name", own.KERNELS)
def test_every_kernel_of_the_table_is_one(name: str) -> None:
    check_kernel(own.KERNELS[name])


def test_kernels_of_others_join_ours() -> None:
    X = np.random.default_rng(0).standard_normal((4, 2))
    plain = own.laplacian_of_differences
    check_kernel(sk.RBF(0.7) + sk.DotProduct())
    assert as_kernel(sk.RBF(0.7)) == as_kernel(sk.RBF(0.7))
    assert hash(as_kernel(sk.RBF(0.7))) == hash(as_kernel(sk.RBF(0.7)))
    for both in (kb.RBF() + plain, plain + kb.RBF()):
        np.testing.assert_allclose(both(X, X), kb.RBF()(X, X) + plain(X, X))
    np.testing.assert_allclose((plain * kb.RBF())(X, X), kb.RBF()(X, X) * plain(X, X))


def test_a_callable_that_returns_the_wrong_thing_is_named() -> None:
    X = np.zeros((3, 1))

    def wrong_shape(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.zeros(len(A))

    def not_finite(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.full((len(A), len(B)), np.nan)

    def writes(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        A *= 2.0
        return A @ B.T

    for kernel, words in (
        (wrong_shape, r"wrong_shape.* returned shape \(3,\) for 3 and 3 rows"),
        (not_finite, r"not_finite.* returned NaN or infinity"),
        (writes, "read-only"),
    ):
        with pytest.raises(ValueError, match=words):
            Foreign(kernel)(X, X)


def test_the_median_distance_is_of_rows_that_differ() -> None:
    assert kb.RBF.median([[0.0], [0.0], [1.0], [3.0]]) == kb.RBF(2.0)  # 1, 1, 2, 3, 3
    assert kb.RBF.median(np.ones((3, 2))) == kb.RBF(1.0)
