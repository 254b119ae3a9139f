"""Laws of kernels: every kernel, any rows."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as sk

import kinbandits as kb
import strategies as own
from kinbandits import kernels as kernel_names
from kinbandits.kernels import Foreign, Median, Product, Scaled, Sum, as_kernel, with_linear

pytestmark = pytest.mark.numerical

NAMESPACE = {name: getattr(kernel_names, name) for name in kernel_names.__all__}


@st.composite
def kernel_and_rows(draw: st.DrawFn) -> tuple[kb.kernels.Kernel, np.ndarray]:
    d = draw(st.integers(1, 3))
    return draw(own.kernels(d)), draw(own.contexts(d=d))


@given(kernel_and_rows())
def test_gram_is_symmetric_and_positive_semidefinite(case: tuple[kb.kernels.Kernel, np.ndarray]) -> None:
    kernel, X = case
    K = kernel(X, X)
    assert K.shape == (len(X), len(X))
    scale = max(1.0, np.abs(K).max())
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-12 * scale)
    assert np.linalg.eigvalsh((K + K.T) / 2)[0] >= -1e-10 * scale


@given(kernel_and_rows())
def test_diag_is_the_diagonal(case: tuple[kb.kernels.Kernel, np.ndarray]) -> None:
    kernel, X = case
    np.testing.assert_allclose(kernel.diag(X), np.diag(kernel(X, X)), rtol=1e-12, atol=1e-12)


@given(kernel_and_rows(), st.data())
def test_entries_depend_on_their_two_rows_alone(
    case: tuple[kb.kernels.Kernel, np.ndarray], data: st.DataObject
) -> None:
    """A matrix grown row by row is the one computed at once (to the last bit but for inner products)."""
    kernel, X = case
    K = kernel(X, X)
    i = data.draw(st.integers(0, len(X) - 1))
    row = kernel(X[i : i + 1], X)
    if "Linear" in repr(kernel):
        np.testing.assert_allclose(row, K[i : i + 1], rtol=1e-12, atol=1e-12)
    else:
        np.testing.assert_array_equal(row, K[i : i + 1])


@given(st.integers(1, 3).flatmap(lambda d: st.tuples(own.kernels(d), own.kernels(d), own.contexts(d=d))))
def test_sum_product_and_multiple_are_those_of_the_values(
    case: tuple[kb.kernels.Kernel, kb.kernels.Kernel, np.ndarray],
) -> None:
    first, second, X = case
    np.testing.assert_array_equal((first + second)(X, X), first(X, X) + second(X, X))
    np.testing.assert_array_equal((first * second)(X, X), first(X, X) * second(X, X))
    np.testing.assert_array_equal((2.0 * first)(X, X), 2.0 * first(X, X))
    np.testing.assert_array_equal((first * 2)(X, X), (2.0 * first)(X, X))
    np.testing.assert_allclose((first**3)(X, X), first(X, X) ** 3, rtol=1e-13)


@given(kernel_and_rows())
def test_equal_after_pickling_and_repr(case: tuple[kb.kernels.Kernel, np.ndarray]) -> None:
    kernel, X = case
    for twin in (pickle.loads(pickle.dumps(kernel)), eval(repr(kernel), dict(NAMESPACE))):
        assert twin == kernel
        assert hash(twin) == hash(kernel)
        np.testing.assert_array_equal(twin(X, X), kernel(X, X))


@given(kernel_and_rows())
def test_features_where_there_are_any_reproduce_the_kernel(case: tuple[kb.kernels.Kernel, np.ndarray]) -> None:
    kernel, X = case
    phi = kernel.features(X)
    has_no_map = any(name in repr(kernel) for name in ("RBF", "Matern", "RationalQuadratic", "ArcCosine"))
    assert (phi is None) == has_no_map
    if phi is not None:
        K = kernel(X, X)
        np.testing.assert_allclose(phi @ phi.T, K, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(K).max()))


SKLEARN_TWINS = [
    (kb.RBF(length_scale=0.7), sk.RBF(length_scale=0.7)),
    (kb.RBF(length_scale=(0.7, 2.0)), sk.RBF(length_scale=[0.7, 2.0])),
    (kb.Matern(nu=0.5, length_scale=0.4), sk.Matern(nu=0.5, length_scale=0.4)),
    (kb.Matern(nu=1.5, length_scale=0.4), sk.Matern(nu=1.5, length_scale=0.4)),
    (kb.Matern(nu=2.5, length_scale=0.4), sk.Matern(nu=2.5, length_scale=0.4)),
    (kb.RationalQuadratic(length_scale=0.4), sk.RationalQuadratic(length_scale=0.4, alpha=1.0)),
    (kb.RationalQuadratic(length_scale=0.4, alpha=2.5), sk.RationalQuadratic(length_scale=0.4, alpha=2.5)),
    (kb.Linear(), sk.DotProduct(sigma_0=0.0)),
    (kb.Linear() + kb.kernels.Constant(4.0), sk.DotProduct(sigma_0=2.0)),
    (kb.kernels.Constant(3.0), sk.ConstantKernel(3.0)),
]


@pytest.mark.parametrize(("ours", "theirs"), SKLEARN_TWINS, ids=[repr(k) for k, _ in SKLEARN_TWINS])
def test_same_values_as_scikit_learn(ours: kb.kernels.Kernel, theirs: sk.Kernel) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((5, 2)), rng.standard_normal((4, 2))
    np.testing.assert_allclose(ours(A, B), theirs(A, B), rtol=1e-12)
    np.testing.assert_allclose(ours.diag(A), theirs.diag(A), rtol=1e-12)


@pytest.mark.parametrize("depth", [1, 2])
def test_kernels_of_networks_are_those_of_wide_random_ones(depth: int) -> None:
    """Outputs of random ReLU networks have the arc-cosine covariance, and their gradients the tangent kernel."""
    rng, width = np.random.default_rng(0), 3000
    X = rng.standard_normal((4, 2))
    h = np.column_stack([X / 0.7, np.ones(4)])
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    S = T = h @ h.T
    for _ in range(depth):
        W = rng.standard_normal((h.shape[1], width))
        active = (h @ W > 0.0) * math.sqrt(2.0 / width)
        T = T * (active @ active.T)  # what comes back through the units
        h = np.maximum(h @ W, 0.0) * math.sqrt(2.0 / width)
        S = h @ h.T
        T = T + S
    np.testing.assert_allclose(kb.kernels.ArcCosine(0.7, depth)(X, X), S, atol=0.1)
    np.testing.assert_allclose(kb.kernels.ArcCosine(0.7, depth, tangent=True)(X, X), T / (depth + 1), atol=0.1)
    fitted = kb.Median(kernel=kb.kernels.ArcCosine()).fit(np.array([[0.0], [3.0]]))
    assert fitted == kb.kernels.ArcCosine(length_scale=3.0)


def test_precision_is_half_the_inverse_square_of_the_length_scale() -> None:
    x, y = np.array([[0.0, 1.0]]), np.array([[2.0, -0.5]])
    gamma = 0.0129155
    assert kb.RBF.from_precision(gamma)(x, y)[0, 0] == pytest.approx(np.exp(-gamma * 6.25), rel=1e-14)


def test_no_kernel_of_ours_builds_a_matrix_for_its_diagonal() -> None:
    """A million rows: a matrix would need 8 TB."""
    X = np.broadcast_to(np.array([1.0, 2.0]), (1_000_000, 2))
    for kernel in (
        kb.RBF(),
        kb.Matern(),
        kb.Linear(),
        kb.kernels.Constant(2.0),
        kb.RBF() * kb.Linear() + 2.0 * kb.Matern(),
    ):
        assert kernel.diag(X).shape == (1_000_000,)


def test_scikit_learn_kernels_and_callables_are_accepted() -> None:
    X = np.random.default_rng(0).standard_normal((4, 2))
    theirs = as_kernel(sk.RBF(0.7))
    np.testing.assert_allclose(theirs(X, X), kb.RBF(0.7)(X, X), rtol=1e-12)
    assert theirs == as_kernel(sk.RBF(0.7))
    assert hash(theirs) == hash(as_kernel(sk.RBF(0.7)))
    plain = as_kernel(own.laplacian_of_differences)
    np.testing.assert_allclose(plain.diag(X), np.ones(4))
    for both in (kb.RBF() + own.laplacian_of_differences, own.laplacian_of_differences + kb.RBF()):
        np.testing.assert_allclose(both(X, X), kb.RBF()(X, X) + own.laplacian_of_differences(X, X))
    product = own.laplacian_of_differences * kb.RBF()
    np.testing.assert_allclose(product(X, X), kb.RBF()(X, X) * own.laplacian_of_differences(X, X))


def test_numpy_numbers_scale_a_kernel_too() -> None:
    assert np.float64(2.0) * kb.RBF() == 2.0 * kb.RBF()
    assert kb.RBF() * np.int64(2) == 2 * kb.RBF()


def test_a_kernel_is_frozen() -> None:
    with pytest.raises(AttributeError):
        kb.RBF().length_scale = 2.0  # type: ignore[misc]
    assert kb.RBF(2) == kb.RBF(2.0) != kb.Matern(2.0)
    assert kb.RBF([1, 2]) == kb.RBF(np.array([1.0, 2.0]))
    assert isinstance(kb.RBF() + kb.RBF(), Sum)
    assert isinstance(kb.RBF() * kb.RBF(), Product)
    assert isinstance(3 * kb.RBF(), Scaled)


def test_median_reads_the_first_rows_and_then_stands_still() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2))
    kernel = kb.Median(rows=10)

    def after(n: int) -> kb.kernels.Kernel:
        return kernel.fit(X[:n])

    distances = [np.linalg.norm(X[i] - X[j]) for i in range(10) for j in range(i)]
    assert after(10) == after(100) == kb.RBF(length_scale=float(np.median(distances)))
    assert after(9) != after(10)
    assert after(0) == kb.RBF()
    assert kernel.refits(9, 10)
    assert not kernel.refits(10, 11)
    assert kb.Median().fit(np.ones((3, 2))) == kb.RBF()
    mixed = (kb.Median(rows=10) + kb.Linear()).fit(X[:10])
    assert mixed == after(10) + kb.Linear()
    assert (2.0 * kernel).fit(X) == (kernel * 2.0).fit(X) == 2.0 * after(10)
    assert (kb.Linear() * kernel + kernel).fit(X) == kb.Linear() * after(10) + after(10)
    assert (kb.Linear() + kernel).refits(3, 4)
    assert not callable(kernel)
    with pytest.raises(TypeError):
        kernel + 3


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: kb.RBF(length_scale=0.0), ValueError, "length_scale must be greater than 0, got 0.0"),
        (lambda: kb.RBF(length_scale=-1.0), ValueError, "length_scale must be greater than 0, got -1.0"),
        (lambda: kb.RBF(length_scale=(1.0, -2.0)), ValueError, "greater than 0, got -2.0"),
        (lambda: kb.RBF(length_scale=()), ValueError, "length_scale must not be empty"),
        (lambda: kb.Matern(length_scale=np.nan), ValueError, "length_scale must be finite, got nan"),
        (lambda: kb.Matern(length_scale="1"), TypeError, "length_scale must be a number, got '1'"),
        (lambda: kb.Matern(nu=2.0), ValueError, "nu must be 0.5, 1.5 or 2.5, got 2.0"),
        (lambda: kb.kernels.Constant(-1.0), ValueError, "value must be at least 0, got -1.0"),
        (lambda: -1.0 * kb.RBF(), ValueError, "factor of a kernel must be at least 0, got -1.0"),
        (lambda: kb.RBF() ** 0, ValueError, "whole power of at least 1, got 0"),
        (lambda: kb.RBF() ** 1.5, ValueError, "whole power of at least 1, got 1.5"),
        (lambda: kb.RBF.from_precision(0.0), ValueError, "precision must be greater than 0"),
        (lambda: as_kernel(kb.RBF), TypeError, r"RBF is a class; a kernel is a value of it, such as RBF\(\)"),
        (lambda: as_kernel("rbf"), TypeError, "a kernel must be a kinbandits kernel, a scikit-learn kernel or"),
        (lambda: kb.RBF() + "linear", TypeError, "unsupported operand"),
        (lambda: kb.RBF() * True, TypeError, "unsupported operand"),
        (lambda: kb.RBF.median([1.0, 2.0]), ValueError, "contexts must be 2-D"),
        (lambda: Median(kernel=kb.Linear()), TypeError, "must have a length scale"),
        (lambda: kb.RationalQuadratic(alpha=0.0), ValueError, "alpha"),
        (lambda: kb.kernels.ArcCosine(depth=0), ValueError, "depth"),
    ],
)
def test_bad_values_are_refused(make: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()  # type: ignore[operator]


def test_a_callable_that_returns_the_wrong_thing_is_named() -> None:
    X = np.zeros((3, 1))

    def wrong_shape(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.zeros(len(A))

    def not_finite(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.full((len(A), len(B)), np.nan)

    with pytest.raises(ValueError, match=r"wrong_shape.* returned shape \(3,\) for 3 and 3 rows"):
        Foreign(wrong_shape)(X, X)
    with pytest.raises(ValueError, match=r"not_finite.* returned NaN or infinity"):
        Foreign(not_finite)(X, X)


def test_median_is_the_unit_of_its_kernels_length_scale() -> None:
    X = np.array([[0.0, 0.0], [3.0, 4.0]])
    assert Median(kernel=kb.Matern(0.5, nu=1.5)).fit(X) == kb.Matern(2.5, nu=1.5)
    per_feature = Median(kernel=kb.RBF((1.0, 2.0)))
    assert per_feature.fit(X) == kb.RBF((5.0, 10.0))
    with pytest.raises(ValueError, match="one per feature"):
        kb.KMTLUCB(2, context_kernel=per_feature).choose([0.0, 0.0, 0.0])
    K, D = kb.RationalQuadratic(0.7), np.random.default_rng(0).random((3, 4))
    np.testing.assert_array_equal(K.from_squares(D), 1.0 / (1.0 + 0.5 * (D * 0.7**-2.0)))


def test_a_coarse_median_seldom_changes() -> None:
    rows = np.random.default_rng(0).normal(size=(80, 3))
    fitted = [Median(coarse=True).fit(rows[:n]) for n in range(81)]
    assert len(set(fitted[:60])) <= 8
    for n in range(2, 60):  # never further from the median than half a step
        assert abs(np.log2(fitted[n].length_scale / kb.RBF.median(rows[:n]).length_scale)) <= 0.126
    assert fitted[60] == fitted[80] == kb.RBF.median(rows[:60])
    assert Median(coarse=True).fit(rows[19::-1]) == fitted[20]  # in any order


def test_features_of_very_different_widths_are_each_measured_in_their_own() -> None:
    """The unit of a feature then does not matter; where widths are alike nothing changes."""
    X = np.random.default_rng(0).normal(size=(80, 3)) * [1.0, 5000.0, 0.3]
    rule = Median(coarse=True, uneven=30.0)
    other_units = X * [4.0, 1.0, 2.0**-20]
    np.testing.assert_allclose(rule.fit(X)(X, X), rule.fit(other_units)(other_units, other_units), rtol=1e-9)
    usual = rule.fit(X)(X, X)[~np.eye(80, dtype=bool)]
    assert 0.4 < np.median(usual) < 0.8  # as for an RBF at its median distance, exp(-1/2)
    even, plain = X / [1.0, 5000.0, 0.3] * [1.0, 9.0, 1.0], Median(coarse=True)
    for n in (0, 1, 2, 30, 60):
        assert rule.fit(even[:n]) == plain.fit(even[:n])
    constant = np.column_stack([X[:, :2], np.ones(80)])
    assert np.isfinite(rule.fit(constant)(constant, constant)).all()
    with pytest.raises(ValueError, match="uneven must be"):
        Median(uneven=0.0)


@pytest.mark.parametrize("engine", ["naive", "exact", kb.Budgeted(points=64)])
def test_the_default_learns_from_features_in_their_own_units(engine: object) -> None:
    """Years beside cents: what the small feature says is learned, by every engine."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2)) * [1.0, 5000.0]
    policy, hits = kb.KMTLUCB(2, engine=engine, seed=0), 0  # type: ignore[arg-type]
    for x in X:
        decision = policy.choose(x)
        right = decision.arm == int(x[0] > 0.0)
        policy.update(decision, float(right))
        hits += right
    assert hits > 120


def line_and_wave(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Contexts, arms, and rewards that are linear or not, with little noise."""
    rng = np.random.default_rng(2)
    X, arms = rng.normal((0.0, 5.0, -1.0), size=(n, 3)), rng.integers(3, size=n)
    noise, slopes = 0.1 * rng.normal(size=n), rng.normal(size=(3, 3))
    return X, arms, (X * slopes[arms]).sum(axis=1) + noise, np.sin(4.0 * X[:, 0] + arms) + noise


def test_a_linear_part_comes_where_rewards_ask_for_it() -> None:
    X, arms, line, wave = line_and_wave(120)
    rule = kb.kernels.WithLinear()
    fitted = [rule.fit(X[:n], arms[:n], line[:n]) for n in (34, 35, 60, 99, 120)]
    assert [isinstance(kernel, Sum) for kernel in fitted] == [False, True, True, True, True]
    assert fitted[2] == fitted[3] == rule.fit(X[:60], arms[:60], 50.0 - 1000.0 * line[:60])
    assert fitted[4].second == kb.kernels.Constant(0.485)  # mostly linear
    half = rule.fit(X[:60], arms[:60], (line + wave)[:60])
    assert half.first == 0.5 * rule.rule.fit(X)
    for kernel in (half, fitted[4]):  # as large as without a linear part: width is what a policy explores by
        assert 0.8 < kernel.diag(X[:60]).mean() < 1.2
    assert not isinstance(rule.fit(X, arms, wave), Sum)
    assert rule.fit(X) == rule.fit(X, arms, np.ones(120)) == rule.rule.fit(X)  # nothing is known of rewards
    with pytest.raises(TypeError, match=r"rule must be a kb\.Median"):
        kb.kernels.WithLinear(kb.RBF())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="centre has 1 entries, but contexts have 3"):
        kb.KMTLUCB(2, context_kernel=kb.Linear((0.0,))).choose([0.0, 0.0, 0.0])


@pytest.mark.parametrize(("n_arms", "noise", "needed"), [(12, 0.05, 10.0), (2, 0.05, 3.0), (2, 3.0, 1.0)])
def test_how_large_a_lead_the_linear_part_needs(n_arms: int, noise: float, needed: float) -> None:
    """Ten nats while arms have few rows, then three, or one where noise hides the rewards."""
    rule, leads = kb.kernels.WithLinear(), []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, arms = rng.normal(size=(60, 2)), rng.integers(n_arms, size=60)
        y = X @ [5.0 * rng.uniform(), 0.0] + np.cos(X[:, 1]) + noise * rng.normal(size=60)
        kernel = rule.rule.fit(X)
        both = 0.5 * kernel + kb.Linear(tuple(X.mean(axis=0).tolist()), kernel.length_scale)
        plain, more = (with_linear.explained(k, X, arms, y) for k in (kernel, both))
        if (min(plain.ridge, more.ridge) >= 1.0) == (noise > 1.0):
            leads.append(more.evidence - plain.evidence)
            assert isinstance(rule.fit(X, arms, y), Sum) == (leads[-1] > needed)
    assert min(leads) < needed < max(leads)


def test_the_linear_part_comes_at_the_same_row_by_every_way(tmp_path: object) -> None:
    """Row by row, in pieces and at once; naive and exact; saved before it comes."""
    X, arms, line, _ = line_and_wave(110)
    at_once = kb.KMTLUCB(3, engine="naive")
    at_once.observe(arms, X, line)
    one_by_one = kb.KMTLUCB(3, engine="exact")
    for t in range(110):
        if t == 58:
            one_by_one.save(tmp_path / "p.kb")  # type: ignore[operator]
            one_by_one = kb.load(tmp_path / "p.kb")  # type: ignore[operator,assignment]
        one_by_one.observe(arms[t : t + 1], X[t : t + 1], line[t : t + 1])
    kernels = [p.regression.settings.terms.terms[0].context_kernel for p in (at_once, one_by_one)]
    assert isinstance(kernels[0], Sum)
    assert kernels[0] == kernels[1]
    for x in X[:10]:
        np.testing.assert_allclose(at_once.predict(x).mean, one_by_one.predict(x).mean, rtol=1e-6, atol=1e-8)


def test_a_feature_that_does_not_vary_is_not_measured_by_its_rounding() -> None:
    """The deviation of sixty times 0.1 is 4e-17."""
    X = np.column_stack([np.random.default_rng(0).normal(size=60), np.full(60, 0.1)])
    assert Median(uneven=30.0).fit(X) == Median().fit(X)
    scales = Median(uneven=30.0).fit(np.column_stack([X, 5000.0 * X[::-1, 0]])).length_scale
    assert min(scales) > 0.1
    with pytest.raises(TypeError, match="one length scale per feature"):
        Median(kernel=kb.kernels.ArcCosine(), uneven=30.0)
    with pytest.raises(TypeError, match="centre must be one number per feature"):
        kb.Linear(centre=3.0)  # type: ignore[arg-type]


def test_rewards_that_are_nearly_all_equal_ask_for_nothing() -> None:
    """The first reward that differs comes after the rows that are looked at; rewards far from 0 are centred."""
    X, rewards = np.random.default_rng(0).normal(size=(600, 2)), np.zeros(600)
    rewards[400] = 1.0
    policy = kb.KMTLUCB(2)
    policy.observe(np.arange(600) % 2, X, rewards)
    one = kb.KMTLUCB(1, ridge=0.1)
    for t in range(180):
        one.observe([0], X[t : t + 1], [float(t == 165)])
    X, arms, line, _ = line_and_wave(100)
    rule = kb.kernels.WithLinear()
    assert isinstance(rule.fit(X, arms, line + 1e7), Sum)


@pytest.mark.filterwarnings("ignore:overflow encountered in divide")  # NumPy 1.26, below the smallest normal number
@pytest.mark.parametrize("unit", [1e-310, 1e-300, 1e-170, 1e40])
def test_a_linear_part_is_asked_for_whatever_the_unit_of_rewards(unit: float) -> None:
    """Squares of tiny rewards are 0, which has no logarithm."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    arms, rewards = np.zeros(60, dtype=np.intp), np.round(X @ [1.0, -2.0], 2)
    fitted = kb.kernels.WithLinear().fit(X, arms, rewards)
    assert kb.kernels.WithLinear().fit(X, arms, unit * rewards) == fitted
    policy = kb.KMTLUCB(arms=1)
    policy.observe([0] * 60, X, unit * rewards)
    assert np.isfinite(policy.predict(X[:3]).mean).all()
