"""What must hold whatever the data: laws with their conditions, and the exceptions; programs next door."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from worlds import known, random_rows

from kinbandits.history import History
from kinbandits.kernels import RBF, Constant, Linear, Matern
from kinbandits.regression import Common, Product, Query, Regression, Settings, make
from kinbandits.similarity import Estimated

ENGINES = ["naive", "exact"]
engines = pytest.mark.parametrize("engine", ENGINES)
scales = st.floats(-3.0, 3.0).map(lambda power: float(10.0**power))


class World:
    """A drawn engine, rows and a query."""

    def __init__(self, engine: str, settings: Settings, rows: History, query: Query) -> None:
        self.engine, self.settings, self.rows, self.query = engine, settings, rows, query
        self.prior = float(make("naive", settings).predict(query).width.max() ** 2) * settings.ridge
        self.scale = max(1.0, self.prior, float(np.abs(rows.rewards).max(initial=0.0)))

    def learned(self, rows: History | None = None, **changes: Any) -> Regression:
        settings = Settings(**{**vars(self.settings), **changes})
        return make(self.engine, settings, (self.rows if rows is None else rows).copy())  # type: ignore[arg-type]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    n, t, d = draw(st.integers(1, 4)), draw(st.integers(1, 10)), draw(st.integers(1, 3))
    entry = st.floats(-3.0, 3.0, width=32)
    pool = np.array(draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=1, max_size=t)))
    X = pool[draw(st.lists(st.integers(0, len(pool) - 1), min_size=t, max_size=t))]  # some coincide
    arms = np.array(draw(st.lists(st.integers(0, n - 1), min_size=t, max_size=t)))
    rewards = np.array(draw(st.lists(st.floats(-2.0, 2.0, width=32), min_size=t, max_size=t)))
    scale = draw(scales)
    kernel = draw(st.sampled_from([RBF(scale), Matern(scale), Linear(), 2.0 * RBF(scale) + Constant(0.5)]))
    k_z = draw(st.sampled_from([Common(n), Common(n, 1.0), Common(n, 0.4), known(n), Estimated(scale, RBF(scale))]))
    s = Settings(
        n, (Product(k_z, kernel),), draw(st.floats(-2.0, 1.0).map(lambda p: 10.0**p)),
        draw(st.sampled_from(["uniform", "per_arm"])), draw(st.sampled_from(["explore", "borrow"])),
    )  # fmt: skip
    contexts = np.array(draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=1, max_size=1)))
    rows = History.of(n, arms, X, rewards)
    return World(draw(st.sampled_from(ENGINES)), s, rows, Query(np.arange(n), contexts[None]))


def close(found: Any, wanted: Any, scale: float = 1.0) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-8 * scale)


def fixed(world: World) -> dict[str, Any]:
    """With the similarity in force as one that stays."""
    term = world.settings.terms[0]
    return {"terms": (Product(world.learned().k_z[0], term.kernel),)}


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_rows_is_irrelevant(world: World, random: Any) -> None:
    order = list(range(len(world.rows)))
    random.shuffle(order)
    shuffled = world.learned(world.rows.taken(np.array(order))).predict(world.query)
    wanted = world.learned().predict(world.query)
    close(shuffled.mean, wanted.mean, world.scale)
    close(world.settings.ridge * shuffled.width**2, world.settings.ridge * wanted.width**2, world.scale)


@given(worlds(), st.floats(-3.0, 3.0))
def test_the_mean_is_linear_in_rewards_and_the_width_ignores_them(world: World, c: float) -> None:
    h = world.rows
    other = world.learned(History.of(h.n_arms, h.arms, h.contexts, c * h.rewards)).predict(world.query)
    wanted = world.learned().predict(world.query)
    close(other.mean, c * wanted.mean, world.scale)
    np.testing.assert_array_equal(other.width, wanted.width)


@given(worlds(), st.floats(-1e3, 1e3), st.floats(1e-6, 1e6))
def test_level_and_unit_only_change_units(world: World, level: float, unit: float) -> None:
    """Rewards level + unit * y under (level, unit) are y under (0, 1)."""
    h = world.rows
    rows = History.of(h.n_arms, h.arms, h.contexts, level + unit * h.rewards)
    other, plain = world.learned(rows, level=level, unit=unit), world.learned()
    found, wanted = other.predict(world.query), plain.predict(world.query)
    exact = 1e-7 * unit * world.scale + 1e-9 * abs(level)
    np.testing.assert_allclose(found.mean, level + unit * wanted.mean, rtol=1e-9, atol=exact)
    np.testing.assert_allclose(found.width, unit * wanted.width, rtol=1e-9)
    points = world.query.points()
    close(other.covariance(*points) / unit**2, plain.covariance(*points), world.scale)
    arms, X, weights = other.dual()
    own = world.settings.terms[0].kernel(X, points[1]) * other.k_z[0][np.ix_(arms, points[0])]
    warm = (other.counts > 0) | (world.settings.cold_start == "borrow")
    np.testing.assert_allclose((level + unit * (weights @ own))[warm], found.mean[0][warm], rtol=1e-7, atol=10 * exact)


@given(worlds())
def test_the_width_is_between_nothing_and_the_prior(world: World) -> None:
    width = world.learned().predict(world.query).width
    assert (width >= 0.0).all()
    assert (world.settings.ridge * width**2 <= world.prior * (1.0 + 1e-9)).all()


@given(worlds())
def test_the_width_never_grows_with_uniform_weights_and_a_fixed_similarity(world: World) -> None:
    """And "borrow": else the arm's first row would end its prior width."""
    settings = {**fixed(world), "weighting": "uniform", "cold_start": "borrow"}
    before = world.learned(world.rows.head(len(world.rows) - 1), **settings).predict(world.query).width
    after = world.learned(**settings).predict(world.query).width
    assert (after**2 <= before**2 + 1e-9 * world.scale).all()


@engines
def test_the_width_does_grow_with_per_arm_weights(engine: str) -> None:
    """The exception: another row of an arm lowers the weight of its other rows."""
    rng = np.random.default_rng(0)
    s = Settings(4, (Product(Common(4, 0.5), RBF()),), 0.3, "per_arm")
    query = Query(np.arange(4), np.zeros((1, 1, 2)))
    regression, widths = make(engine, s), []  # type: ignore[arg-type]
    for _ in range(40):
        regression.observe(rng.integers(4, size=1), rng.uniform(-1.0, 1.0, (1, 2)), np.zeros(1))
        widths.append(regression.predict(query).width[0])
    assert (np.diff(widths[4:], axis=0) > 1e-9).sum() > 20


@engines
@pytest.mark.parametrize("n", [1, 100])
def test_repeating_a_context_shrinks_the_width_only_with_uniform_weights(engine: str, n: int) -> None:
    """sqrt(k / (k + lambda)) for ever with per_arm; uniform: sqrt(1 / (n + lambda))."""
    rows, query = (
        History.of(1, np.zeros(n, int), np.zeros((n, 2)), np.ones(n)),
        Query(np.array([0]), np.zeros((1, 1, 2))),
    )
    for weighting, width in (("per_arm", np.sqrt(1.0 / 1.3)), ("uniform", np.sqrt(1.0 / (n + 0.3)))):
        s = Settings(1, (Product(Common(1), RBF()),), 0.3, weighting)  # type: ignore[arg-type]
        found = make(engine, s, rows.copy()).predict(query)  # type: ignore[arg-type]
        assert found.width[0, 0] == pytest.approx(width, rel=1e-6)
        assert weighting == "uniform" or found.mean[0, 0] == pytest.approx(1.0 / 1.3, rel=1e-9)


@given(worlds())
def test_other_arms_change_nothing_where_arms_are_independent(world: World) -> None:
    h, term = world.rows, world.settings.terms[0]
    own = {"terms": (Product(Common(h.n_arms), term.kernel),)}
    if not h.counts[0]:
        return
    alone = world.learned(h.taken(np.flatnonzero(h.arms == 0)), **own).predict(world.query)
    found = world.learned(**own).predict(world.query)
    close(found.mean[:, 0], alone.mean[:, 0], world.scale)
    close(found.width[:, 0], alone.width[:, 0], world.scale)


@given(worlds())
def test_labels_change_nothing_where_arms_are_pooled_and_weights_uniform(world: World) -> None:
    h, term = world.rows, world.settings.terms[0]
    changes = {
        "terms": (Product(Common(h.n_arms, 1.0), term.kernel),),
        "weighting": "uniform",
        "cold_start": "borrow",
    }
    one = History.of(h.n_arms, h.arms * 0, h.contexts, h.rewards)
    close(world.learned(one, **changes).predict(world.query).mean, world.learned(**changes).predict(world.query).mean)


@given(worlds())
def test_explore_sets_arms_without_rows_apart(world: World) -> None:
    """Mean 0, prior width, no covariance with others; all other arms as with borrow."""
    explore, borrow = world.learned(cold_start="explore"), world.learned(cold_start="borrow")
    cold = world.rows.counts == 0
    e, b, prior = explore.predict(world.query), borrow.predict(world.query), world.learned(History(len(cold)))
    np.testing.assert_array_equal(e.mean[:, cold], 0.0)
    if isinstance(world.settings.terms[0].k_z, np.ndarray | Common):
        close(e.width[:, cold], prior.predict(world.query).width[:, cold])
    close(e.mean[:, ~cold], b.mean[:, ~cold], world.scale)
    covariance = explore.covariance(*world.query.points())
    assert not covariance[np.ix_(cold, ~cold)].any()


@given(worlds())
def test_covariance_is_psd_with_the_widths_on_its_diagonal(world: World) -> None:
    learned = world.learned()
    C = learned.covariance(*world.query.points())
    close(C, C.T, world.scale)
    assert np.linalg.eigvalsh((C + C.T) / 2)[0] >= -1e-8 * world.scale
    width = learned.predict(world.query).width[0]
    close(np.maximum(np.diag(C), 0.0), world.settings.ridge * width**2, world.scale)


@given(worlds())
def test_two_terms_add(world: World) -> None:
    """A term twice is one term of twice the kernel."""
    (term,) = world.settings.terms
    once = world.learned(terms=(Product(term.k_z, 2.0 * term.kernel),)).predict(world.query)
    twice = world.learned(terms=(term, term)).predict(world.query)
    close(twice.mean, once.mean, world.scale)
    close(world.settings.ridge * twice.width**2, world.settings.ridge * once.width**2, world.scale)


# -- oracles next door ----------------------------------------------------------------------------


class ArmTimesRBF(sk.Kernel):
    """scikit-learn kernel on rows (arm, context): k_Z(a, b) times an RBF."""

    def __init__(self, K_arm: np.ndarray, length_scale: float) -> None:
        self.K_arm, self.length_scale = K_arm, length_scale

    def __call__(self, X, Y=None, eval_gradient=False):  # type: ignore[no-untyped-def]
        Y = X if Y is None else Y
        a, b = X[:, 0].astype(int), Y[:, 0].astype(int)
        return self.K_arm[np.ix_(a, b)] * sk.RBF(self.length_scale)(X[:, 1:], Y[:, 1:])

    def diag(self, X):  # type: ignore[no-untyped-def]
        return np.diag(self.K_arm)[X[:, 0].astype(int)].copy()

    def is_stationary(self) -> bool:
        return False


@engines
@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize(
    "k_z", [Common(4), Common(4, 1.0), known(4), Estimated(0.4, RBF(0.6))], ids=lambda k: type(k).__name__
)
def test_gaussian_process_regressor(engine: str, weighting: str, k_z: Any) -> None:
    """alpha = ridge * counts (or ridge): the same mean, sqrt(ridge) * width its deviation, the same covariance."""
    rows, ridge = random_rows(4, 4, 140), 0.2
    s = Settings(4, (Product(k_z, RBF(0.7)),), ridge, weighting, "borrow")  # type: ignore[arg-type]
    ours = make(engine, s, rows.copy())  # type: ignore[arg-type]
    alpha = ridge * (rows.counts[rows.arms] if weighting == "per_arm" else np.ones(len(rows)))
    theirs = GaussianProcessRegressor(ArmTimesRBF(ours.k_z[0], 0.7), alpha=alpha, optimizer=None)
    theirs.fit(np.column_stack([rows.arms, rows.contexts]), rows.rewards)
    rng = np.random.default_rng(0)
    arms, X = rng.integers(4, size=15), rng.uniform(-1.0, 1.0, (15, 3))
    mean, deviation = theirs.predict(np.column_stack([arms, X]), return_std=True)
    found = ours.predict(Query(arms, X[None]))
    np.testing.assert_allclose(found.mean[0], mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.sqrt(ridge) * found.width[0], deviation, rtol=1e-7)
    _, covariance = theirs.predict(np.column_stack([arms, X]), return_cov=True)
    np.testing.assert_allclose(ours.covariance(arms, X), covariance, atol=1e-9)


@engines
def test_textbook_disjoint_linucb(engine: str) -> None:
    """Li et al. (2010), Algorithm 1, with lambda: A_a = lambda I + X_a'X_a, theta_a = A_a^-1 X_a'r_a."""
    rows = random_rows(6, 4, 230)
    regression = make(engine, Settings(4, (Product(Common(4), Linear()),), 0.2))  # type: ignore[arg-type]
    for i in range(len(rows)):
        regression.observe(rows.arms[i : i + 1], rows.contexts[i : i + 1], rows.rewards[i : i + 1])
    X = np.random.default_rng(1).standard_normal((5, 3))
    mean, width = regression.predict(Query(np.arange(4), X[:, None]))
    for a in range(3):
        own = rows.taken(np.flatnonzero(rows.arms == a))
        inverse = np.linalg.inv(0.2 * np.eye(3) + own.contexts.T @ own.contexts)
        np.testing.assert_allclose(mean[:, a], X @ inverse @ own.contexts.T @ own.rewards, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(width[:, a], np.sqrt(np.einsum("ij,jk,ik->i", X, inverse, X)), rtol=1e-9)
