"""The paper's statements about kernel matrices and widths, as laws on random instances."""

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import kinbandits as kb
from kinbandits import theory

seeds = st.integers(0, 2**32 - 1)
ridges = st.sampled_from([1e-3, 0.1, 1.0, 10.0])


@st.composite
def kernel_rows(draw, most=24):
    """A random kernel matrix of contexts, sometimes of low rank or with equal rows, and an arm for each row."""
    rng = np.random.default_rng(draw(seeds))
    n, n_arms = draw(st.integers(2, most)), draw(st.integers(1, 6))
    kind = draw(st.sampled_from(["rbf", "linear", "wishart", "constant"]))
    X = rng.standard_normal((n, draw(st.integers(1, 3))))
    if draw(st.booleans()):
        X = X[rng.integers(0, max(1, n // 3), n)]  # contexts that repeat
    K_X = {
        "rbf": lambda: kb.RBF(draw(st.sampled_from([0.1, 1.0, 10.0])))(X, X),
        "linear": lambda: X @ X.T,
        "wishart": lambda: np.cov(rng.standard_normal((n, 2 * n))),
        "constant": lambda: np.ones((n, n)),
    }[kind]()
    return (K_X + K_X.T) / 2, rng.integers(0, n_arms, n), n_arms, rng


def joint(K_X, K_Z, arms):
    """K~, the Hadamard product of context and arm kernels."""
    return K_X * K_Z[np.ix_(arms, arms)]


def random_similarity(rng, n_arms, rank=None):
    """A random correlation matrix, of full or given rank."""
    A = rng.standard_normal((n_arms, rank or n_arms))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    return A @ A.T


# -- log g ----------------------------------------------------------------------------------------


def test_log_g_is_what_a_uniform_policy_reports():
    rng = np.random.default_rng(0)
    arms, X = rng.integers(0, 3, 40), rng.standard_normal((40, 2))
    policy = kb.KMTLUCB(3, similarity=kb.Mixed(0.4), context_kernel=kb.RBF(), ridge=0.3, cold_start="borrow")
    policy.observe(arms, X, rng.random(40))
    K = joint(kb.RBF()(X, X), theory.equicorrelated(0.4, 3), arms)
    np.testing.assert_allclose(policy.log_det(), theory.log_g(K, 0.3), rtol=1e-10)


# -- Theorem 3 ------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(kernel_rows(), ridges, st.floats(0, 1), st.floats(0, 1))
def test_theorem_3_log_g_falls_as_mu_grows(rows, ridge, mu1, mu2):
    K_X, arms, *_ = rows
    mu1, mu2 = sorted((mu1, mu2))
    less, more = (theory.log_g_of_similarity(mu, K_X, arms, ridge) for mu in (mu1, mu2))
    assert less >= more - 1e-9 * max(1.0, less)


@given(kernel_rows(), ridges, st.floats(0, 1))
def test_log_g_of_similarity_is_log_g_of_the_hadamard_product(rows, ridge, mu):
    K_X, arms, n_arms, _ = rows
    K = joint(K_X, theory.equicorrelated(mu, n_arms), arms)
    np.testing.assert_allclose(theory.log_g_of_similarity(mu, K_X, arms, ridge), theory.log_g(K, ridge), rtol=1e-9)
    names = np.array(list("abcdef"))[arms]
    assert theory.log_g_of_similarity(mu, K_X, names, ridge) == theory.log_g_of_similarity(mu, K_X, arms, ridge)


@given(kernel_rows(), st.floats(0, 1), st.floats(0.01, 1))
def test_the_proof_that_works_for_unequal_counts(rows, share, mu2):
    """K(mu1) = K(mu2) o C with C a correlation matrix, hence det(K(mu1) + lambda I) >= det(K(mu2) + lambda I)."""
    K_X, arms, n_arms, _ = rows
    mu1 = share * mu2
    C = joint(np.ones_like(K_X), theory.equicorrelated(mu1 / mu2, n_arms), arms)
    first, second = (joint(K_X, theory.equicorrelated(mu, n_arms), arms) for mu in (mu1, mu2))
    np.testing.assert_allclose(first, second * C, atol=1e-12 * max(1.0, np.abs(K_X).max()))
    assert np.linalg.eigvalsh(C)[0] > -1e-10
    np.testing.assert_array_equal(np.diag(C), 1.0)


def test_theorem_3_is_false_below_zero():
    """With two arms log g is even in mu, so from -1 to 0 it rises: mu >= 0 is a condition of the theorem."""
    K_X, arms = np.ones((4, 4)), np.array([0, 0, 1, 1])

    def value(mu):
        return theory.log_g(joint(K_X, theory.equicorrelated(mu, 2), arms), 1.0)

    np.testing.assert_allclose(value(-0.5), value(0.5))
    assert value(-0.5) < value(0.0)


def test_theorem_3_is_strict_where_kin_share_contexts():
    rng = np.random.default_rng(3)
    X, arms = rng.random((60, 2)), np.repeat([0, 1, 2], [40, 15, 5])
    K_X = kb.RBF()(X, X)
    values = [theory.log_g_of_similarity(mu, K_X, arms, 0.1) for mu in np.linspace(0, 1, 11)]
    assert (np.diff(values) < -0.05).all()


# -- Theorem 2 ------------------------------------------------------------------------------------


@st.composite
def ranked_rows(draw):
    """Rows with known ranks of contexts and of similarity."""
    rng = np.random.default_rng(draw(seeds))
    n, n_arms = draw(st.integers(2, 24)), draw(st.integers(1, 6))
    r_x, r_z = draw(st.integers(1, n)), draw(st.integers(1, n_arms))
    X = rng.standard_normal((n, r_x))
    K_Z = random_similarity(rng, n_arms, r_z)
    arms = rng.integers(0, n_arms, n)
    return X @ X.T, K_Z, arms, np.linalg.matrix_rank(K_Z), np.linalg.matrix_rank(X @ X.T)


@given(ranked_rows(), ridges)
def test_theorem_2_log_g_is_bounded_by_the_ranks(rows, ridge):
    K_X, K_Z, arms, r_z, r_x = rows
    K = joint(K_X, K_Z, arms)
    value, horizon, bound = theory.log_g(K, ridge), len(K) - 1, float(np.diag(K).max())
    derived = theory.rank_bound(r_z, r_x, horizon, bound, ridge, form="derived")
    printed = theory.rank_bound(r_z, r_x, horizon, bound, ridge)
    assert value <= derived * (1 + 1e-9)
    assert derived <= printed * (1 + 1e-9)


def test_theorem_2_derived_is_attained():
    """Equal eigenvalues: r orthogonal contexts, each seen equally often."""
    X = np.repeat(np.eye(3), 4, axis=0)
    value = theory.log_g(X @ X.T, 0.5)
    np.testing.assert_allclose(value, theory.rank_bound(1, 3, 11, 1.0, 0.5, form="derived"))
    assert value < theory.rank_bound(1, 3, 11, 1.0, 0.5)


# -- Corollary 1 ----------------------------------------------------------------------------------


@settings(max_examples=200)
@given(kernel_rows(), ridges)
def test_corollary_1_log_g_is_bounded_by_the_effective_rank(rows, ridge):
    K_X, arms, n_arms, rng = rows
    K = joint(K_X, random_similarity(rng, n_arms), arms)
    horizon, bound = len(K) - 1, float(np.diag(K).max())
    assume(horizon >= 1 and bound > 0 and ridge * math.log(horizon) <= (horizon + 1) * bound)
    r = theory.effective_rank(np.linalg.eigvalsh(K), ridge, horizon)
    assert theory.log_g(K, ridge) <= theory.effective_rank_bound(r, horizon, bound, ridge) * (1 + 1e-9) + 1e-9


def test_corollary_1_needs_its_condition():
    """With ridge * log T > (T + 1) c the printed right side falls below log g: here it is negative."""
    horizon, ridge = 3, 50.0
    assert theory.effective_rank(np.ones(4), ridge, horizon) == 1
    inside = 2 * horizon * (2 * 4 + ridge - ridge * math.log(horizon)) / ridge
    assert math.log(inside) < 0 < theory.log_g(np.eye(4), ridge)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=20), ridges)
def test_effective_rank_is_the_smallest_that_satisfies_its_definition(values, ridge):
    horizon = len(values) - 1
    r = theory.effective_rank(values, ridge, horizon)
    ordered = sorted(values, reverse=True)
    enough = [j * ridge * math.log(horizon) >= sum(ordered[j:]) - 1e-9 for j in range(len(values) + 1)]
    assert enough[r]
    assert not any(j * ridge * math.log(horizon) >= sum(ordered[j:]) + 1e-9 for j in range(r))
    assert theory.effective_rank(values[::-1], ridge, horizon) == r


# -- Lemma 6 and Theorem 4 ------------------------------------------------------------------------


def squared_width(K, ridge):
    """s^2 of the last row given the others, by definition."""
    A, k = K[:-1, :-1] + ridge * np.eye(len(K) - 1), K[:-1, -1]
    return (K[-1, -1] - k @ np.linalg.solve(A, k)) / ridge


@given(kernel_rows(), ridges)
def test_lemma_6_the_width_lies_between_its_bounds(rows, ridge):
    K_X, arms, n_arms, rng = rows
    K_Z = random_similarity(rng, n_arms)
    K = joint(K_X, K_Z, arms)
    c = float(np.diag(K).max())
    assume(c > 1e-6)
    s2, n = squared_width(K, ridge), int(np.bincount(arms).max())  # the candidate is a row of its arm
    lmax = float(np.linalg.eigvalsh(K_Z)[-1])
    slack = 1e-7 * max(1.0, c / ridge)
    lower = {f: theory.width_lower_bound(n, c, lmax, K[-1, -1], ridge, form=f) for f in ("derived", "printed")}
    assert lower["printed"] <= lower["derived"] + slack
    assert lower["derived"] <= s2 + slack
    assert s2 <= c / ridge + slack


def test_lemma_6_needs_n_with_the_candidate_included():
    """Repeats of one context: without counting the candidate the derived form exceeds the true width."""
    ridge, K = 1.0, np.ones((2, 2))
    s2 = squared_width(K, ridge)
    assert theory.width_lower_bound(2, 1.0, 1.0, 1.0, ridge) <= s2
    assert theory.width_lower_bound(1, 1.0, 1.0, 1.0, ridge) > s2


@given(
    st.integers(1, 50),
    st.floats(0.01, 10),
    st.floats(0, 1),
    st.integers(1, 20),
    ridges,
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_theorem_4_the_lower_bound_falls_as_mu_grows(n, c, share, n_arms, ridge, mu1, mu2):
    mu1, mu2 = sorted((mu1, mu2))
    less, more = (theory.width_lower_bound(n, c, 1 + mu * (n_arms - 1), share * c, ridge) for mu in (mu1, mu2))
    assert less >= more - 1e-12 * max(1.0, abs(less))


def test_the_printed_form_is_not_monotone():
    low, high = (theory.width_lower_bound(1, 0.1, 1 + mu * 4, 0.1, 1.0, form="printed") for mu in (0.0, 1.0))
    assert low < high
