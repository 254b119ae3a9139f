"""Laws of the regression, each with its condition; and the exceptions, tested as exceptions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import kinbandits as kb
import strategies as own
from kinbandits.regression import Query
from strategies import Rows, random_rows, regression

ENGINE_NAMES = ["naive", *own.EXACT_ENGINES]
engines = st.sampled_from(ENGINE_NAMES)


def close(a: np.ndarray, b: np.ndarray, scale: float = 1.0) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9 * scale)


class World:
    """A drawn case: rows, kernel, settings, and a query of all arms."""

    def __init__(self, draw: st.DrawFn, kernel: kb.kernels.Kernel | None = None) -> None:
        self.rows: Rows = draw(own.rows(d=2))
        n = self.rows.n_arms
        self.kernel = draw(own.simple_kernels(2)) if kernel is None else kernel
        self.similarity = draw(own.similarities(n))
        self.engine = draw(engines)
        self.ridge = draw(own.ridges)
        self.weighting = draw(own.weightings)
        self.cold_start = draw(own.cold_starts)
        shared = draw(st.booleans())
        X = draw(own.contexts(n=1 if shared else n, d=2))
        self.query = Query(np.arange(n), X[None, :, :])
        self.prior = np.diag(self.term.similarity.matrix(self.rows.history())) * self.kernel.diag(X)
        self.scale = float(max(1.0, self.prior.max() / self.ridge))

    @property
    def term(self) -> kb.Term:
        return kb.Term(self.similarity, self.kernel)

    def learned(self, rows: Rows | None = None, **changes: object):  # type: ignore[no-untyped-def]
        settings = {"ridge": self.ridge, "weighting": self.weighting, "cold_start": self.cold_start} | changes
        term = settings.pop("term", self.term)
        return regression(self.engine, self.rows if rows is None else rows, term, **settings)  # type: ignore[arg-type]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    return World(draw)


@given(worlds(), st.randoms(use_true_random=False))
def test_order_of_observations_is_irrelevant(world: World, random) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(world.rows)))
    random.shuffle(order)
    mean, width = world.learned().predict(world.query)
    shuffled = world.learned(world.rows[np.array(order)]).predict(world.query)
    close(shuffled.mean, mean, world.scale)
    close(world.ridge * shuffled.width**2, world.ridge * width**2, world.scale)


@given(worlds(), st.randoms(use_true_random=False))
def test_relabelling_arms_together_with_k_z_is_irrelevant(world: World, random) -> None:  # type: ignore[no-untyped-def]
    """Arm a becomes arm new[a], in the rows, in the query and in the similarity."""
    n = world.rows.n_arms
    old = list(range(n))
    random.shuffle(old)  # old[b]: what arm b was called
    new = np.argsort(old)
    K = world.similarity.matrix(world.rows.history())
    term = kb.Term(kb.Known(K), world.kernel)
    renamed = kb.Term(kb.Known(K[np.ix_(old, old)]), world.kernel)
    rows = Rows(n, new[world.rows.arms], world.rows.contexts, world.rows.rewards)
    query = Query(new[world.query.arms], world.query.contexts)
    before, after = world.learned(term=term).predict(world.query), world.learned(rows, term=renamed).predict(query)
    close(after.mean, before.mean, world.scale)
    close(world.ridge * after.width**2, world.ridge * before.width**2, world.scale)


@given(worlds(), st.floats(-3.0, 3.0), st.floats(-3.0, 3.0), st.integers(0, 2**16))
def test_mean_is_linear_in_rewards_and_width_ignores_them(world: World, a: float, b: float, seed: int) -> None:
    """With a similarity that does not look at rewards."""
    assume(getattr(world.similarity, "embed", "context") == "context")
    rows = world.rows
    others = np.random.default_rng(seed).standard_normal(len(rows))
    first = world.learned().predict(world.query)
    second = world.learned(Rows(rows.n_arms, rows.arms, rows.contexts, others)).predict(world.query)
    both = Rows(rows.n_arms, rows.arms, rows.contexts, a * rows.rewards + b * others)
    mixed = world.learned(both).predict(world.query)
    close(mixed.mean, a * first.mean + b * second.mean, 10.0 * world.scale)
    close(mixed.width, first.width)


@given(worlds())
def test_width_is_between_zero_and_the_prior(world: World) -> None:
    mean, width = world.learned().predict(world.query)
    assert np.isfinite(mean).all()
    assert (width >= 0.0).all()
    assert (width**2 <= world.prior / world.ridge * (1.0 + 1e-9) + 1e-12).all()


@given(worlds())
def test_without_data_mean_is_zero_and_width_the_prior(world: World) -> None:
    learned = world.learned(world.rows[:0])
    mean, width = learned.predict(world.query)
    np.testing.assert_array_equal(mean, np.zeros(mean.shape))
    close(width[0], np.sqrt(world.prior / world.ridge))
    assert learned.log_det() == 0.0
    assert learned.dual().shape == (0,)


@given(worlds())
def test_log_det_grows_with_every_row(world: World) -> None:
    """With uniform weights and a fixed k_Z: log det(I + K/lambda) is the sum of log(1 + width^2) of each row."""
    total = 0.0
    term = kb.Term(kb.Known(world.similarity.matrix(world.rows.history())), world.kernel)
    settings = {"weighting": "uniform", "cold_start": "borrow", "term": term}
    for i in range(len(world.rows)):
        row = world.rows[i : i + 1]
        width = world.learned(world.rows[:i], **settings).predict(Query(row.arms, row.contexts[None])).width
        total += float(np.log1p(width[0, 0] ** 2))
    assert world.learned(**settings).log_det() == pytest.approx(total, rel=1e-6, abs=1e-6)


@given(worlds(), st.integers(0, 3))
def test_independent_arms_learn_nothing_from_others(world: World, arm: int) -> None:
    arm %= world.rows.n_arms
    term = kb.Term(kb.Independent(), world.kernel)
    mine = world.rows[np.flatnonzero(world.rows.arms == arm)]
    everything, alone = (
        world.learned(term=term).predict(world.query),
        world.learned(mine, term=term).predict(world.query),
    )
    close(everything.mean[:, arm], alone.mean[:, arm], world.scale)
    close(world.ridge * everything.width[:, arm] ** 2, world.ridge * alone.width[:, arm] ** 2, world.scale)


@given(worlds(), st.integers(0, 2**16))
def test_pooled_with_uniform_weights_does_not_feel_labels(world: World, seed: int) -> None:
    """Condition: uniform weights, and borrow (an arm without rows is otherwise set apart by its label)."""
    rows, n = world.rows, world.rows.n_arms
    labels = np.random.default_rng(seed).integers(n, size=len(rows))
    settings = {"term": kb.Term(kb.Pooled(), world.kernel), "weighting": "uniform", "cold_start": "borrow"}
    before = world.learned(**settings).predict(world.query)
    after = world.learned(Rows(n, labels, rows.contexts, rows.rewards), **settings).predict(world.query)
    close(after.mean, before.mean, world.scale)
    close(world.ridge * after.width**2, world.ridge * before.width**2, world.scale)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_pooled_with_per_arm_weights_does_feel_labels(engine: str) -> None:
    """The exception: the weight of a row is one over its arm's count."""
    rows = random_rows(seed=1, n_arms=2, t=6)
    settings = {"kernel": kb.Term(kb.Pooled(), kb.RBF()), "weighting": "per_arm", "cold_start": "borrow"}
    query = Query(np.arange(2), np.zeros((1, 1, 3)))
    one_label = Rows(2, np.zeros(6, dtype=int), rows.contexts, rows.rewards)
    two_labels = Rows(2, np.arange(6) % 2, rows.contexts, rows.rewards)
    difference = regression(engine, one_label, **settings).predict(query).mean  # type: ignore[arg-type]
    difference = difference - regression(engine, two_labels, **settings).predict(query).mean  # type: ignore[arg-type]
    assert np.abs(difference).min() > 1e-3


@given(worlds())
def test_width_never_grows_with_uniform_weights(world: World) -> None:
    """Condition: uniform weights and a fixed k_Z; borrow, or the arm's first row would end its prior width."""
    term = kb.Term(kb.Known(world.similarity.matrix(world.rows.history())), world.kernel)
    settings = {"term": term, "weighting": "uniform", "cold_start": "borrow"}
    before = world.learned(world.rows[:-1], **settings).predict(world.query).width
    after = world.learned(**settings).predict(world.query).width
    assert (after**2 <= before**2 + 1e-9 * world.scale).all()


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_width_does_grow_with_per_arm_weights(engine: str) -> None:
    """The exception: another row of an arm lowers the weight of its other rows."""
    rng = np.random.default_rng(0)
    n, term = 4, kb.Term(kb.Mixed(0.5), kb.RBF())
    query = Query(np.arange(n), np.zeros((1, 1, 2)))
    grew, before = 0, None
    arms, X = rng.integers(n, size=40), rng.uniform(-1.0, 1.0, (40, 2))
    for t in range(4, 40):
        rows = Rows(n, arms[:t], X[:t], np.zeros(t))
        width = regression(engine, rows, term, ridge=0.3, weighting="per_arm").predict(query).width
        grew += 0 if before is None else int((width > before + 1e-9).sum())
        before = width
    assert grew > 20


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_repeating_one_context_shrinks_the_width_only_with_uniform_weights(engine: str) -> None:
    """sqrt(k / (k + lambda)) for ever with per_arm: 0.877 at lambda = 0.3; uniform: sqrt(1 / (n + lambda))."""
    for n in (1, 100):
        rows = Rows(1, np.zeros(n, dtype=int), np.zeros((n, 2)), np.ones(n))
        query = Query(np.array([0]), np.zeros((1, 1, 2)))
        term = kb.Term(kb.Independent(), kb.RBF())
        per_arm = regression(engine, rows, term, ridge=0.3, weighting="per_arm").predict(query)
        uniform = regression(engine, rows, term, ridge=0.3, weighting="uniform").predict(query)
        assert per_arm.width[0, 0] == pytest.approx(np.sqrt(1.0 / 1.3), rel=1e-6)
        assert uniform.width[0, 0] == pytest.approx(np.sqrt(1.0 / (n + 0.3)), rel=1e-6)
        assert per_arm.mean[0, 0] == pytest.approx(1.0 / 1.3, rel=1e-9)


@given(worlds())
def test_explore_sets_arms_without_rows_apart(world: World) -> None:
    """Mean 0, prior width, no covariance with others; all other arms as with borrow."""
    explore, borrow = world.learned(cold_start="explore"), world.learned(cold_start="borrow")
    cold = world.rows.history().counts == 0
    e, b = explore.predict(world.query), borrow.predict(world.query)
    np.testing.assert_array_equal(e.mean[:, cold], 0.0)
    close(e.width[0, cold], np.sqrt(np.broadcast_to(world.prior, cold.shape)[cold] / world.ridge))
    close(e.mean[:, ~cold], b.mean[:, ~cold], world.scale)
    close(world.ridge * e.width[:, ~cold] ** 2, world.ridge * b.width[:, ~cold] ** 2, world.scale)
    covariance = explore.covariance(*world.query.points())
    assert not covariance[np.ix_(cold, ~cold)].any()


@given(worlds())
def test_covariance_is_positive_semidefinite_with_the_widths_on_its_diagonal(world: World) -> None:
    learned = world.learned()
    C = learned.covariance(*world.query.points())
    scale = max(1.0, float(world.prior.max()))
    close(C, C.T, scale)
    assert np.linalg.eigvalsh((C + C.T) / 2)[0] >= -1e-8 * scale
    close(np.maximum(np.diag(C), 0.0), world.ridge * learned.predict(world.query).width[0] ** 2, scale)


@given(worlds())
def test_contributions_add_up_to_the_mean(world: World) -> None:
    learned = world.learned()
    mean = learned.predict(world.query).mean[0]
    arms, X = world.query.points()
    for a, x, m in zip(arms, X, mean, strict=True):
        assert learned.contributions(int(a), x).sum() == pytest.approx(m, rel=1e-7, abs=1e-8 * world.scale)


@given(worlds())
def test_two_terms_add(world: World) -> None:
    """A term twice is one term of twice the kernel."""
    once = world.learned(term=kb.Term(world.similarity, 2.0 * world.kernel)).predict(world.query)
    twice = world.learned(term=world.term + world.term).predict(world.query)
    close(twice.mean, once.mean, world.scale)
    close(world.ridge * twice.width**2, world.ridge * once.width**2, world.scale)
