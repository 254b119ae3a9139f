"""The budgeted engine: exact while all rows are points, bounded afterwards, consistent when points change."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits._work import finished
from kinbandits.errors import BudgetWarning, InvalidInputError
from kinbandits.history import History
from kinbandits.regression import Query
from kinbandits.regression.base import RegressionSettings
from kinbandits.regression.budgeted import BudgetedRegression
from kinbandits.regression.budgeted.followers import FeatureMap
from kinbandits.regression.budgeted.report import needed_points
from kinbandits.regression.budgeted.saved import to_arrays
from kinbandits.regression.budgeted.slices import posterior_inverses
from kinbandits.regression.linalg.cholesky import low_rank_root
from kinbandits.regression.linalg.inverse import Inverse
from kinbandits.regression.naive import NaiveRegression
from kinbandits.terms import Term, as_terms

N = 4
SIMILARITIES = [
    kb.Independent(),
    kb.Mixed(mu=0.3),
    kb.Known(kb.RBF(length_scale=0.5), [0.0, 0.3, 0.6, 1.0]),
    kb.Estimated(length_scale=0.5, embedding_kernel=kb.RBF(length_scale=1.0)),
]
MEMORIES = [None, kb.Window(size=20), kb.Forgetting(half_life=15)]


def settings_of(similarity, *, weighting="uniform", memory=None, budget=100, length_scale=0.6, kernel=None):
    term = kernel or Term(similarity, kb.RBF(length_scale=length_scale))
    return RegressionSettings(as_terms(term), 0.1, weighting, "explore", memory, budget)


def rows(seed, t, d=4):
    rng = np.random.default_rng(seed)
    return rng.integers(0, N, t), rng.standard_normal((t, d)), rng.random(t)


def query(seed, rounds=3, d=4, shared=True):
    X = np.random.default_rng(seed).standard_normal((rounds, 1 if shared else N, d))
    return Query(np.arange(N), X)


def close(found, wanted, tolerance=1e-8):
    for q in (query(9), query(9, shared=False)):
        a, b = found.predict(q), wanted.predict(q)
        np.testing.assert_allclose(a.mean, b.mean, atol=tolerance)
        np.testing.assert_allclose(a.width**2, b.width**2, atol=tolerance)


@pytest.mark.parametrize("memory", MEMORIES, ids=repr)
@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("similarity", SIMILARITIES, ids=lambda s: type(s).__name__)
def test_equals_naive_while_every_row_is_a_point(similarity, weighting, memory):
    settings = settings_of(similarity, weighting=weighting, memory=memory)
    engine = BudgetedRegression(settings, History(N))
    naive = NaiveRegression(settings, History(N))
    for a, x, r in zip(*rows(0, 45), strict=True):
        for regression in (engine, naive):
            regression.observe(np.array([a]), x[None, :], np.array([r]))
        close(engine, naive)
    assert engine.model.size == 45
    np.testing.assert_allclose(engine.similarity_matrices[0], naive.similarity_matrices[0], atol=1e-12)
    if memory is None:
        assert engine.log_det() == pytest.approx(naive.log_det(), rel=1e-8)
        np.testing.assert_allclose(
            engine.contributions(1, np.ones(4)), naive.contributions(1, np.ones(4)), atol=1e-8
        )
        arms, contexts, _ = rows(3, 5)
        np.testing.assert_allclose(engine.covariance(arms, contexts), naive.covariance(arms, contexts), atol=1e-8)


def test_sum_of_terms_equals_naive():
    kernel = Term(kb.Pooled(), kb.RBF(length_scale=1.0), columns=[0, 1]) + Term(
        SIMILARITIES[3], kb.Matern(length_scale=0.7), columns=[1, 2, 3]
    )
    settings = settings_of(None, kernel=kernel)
    history = History.of(N, *rows(1, 40))
    close(BudgetedRegression(settings, history), NaiveRegression(settings, history))


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=lambda s: type(s).__name__)
def test_sums_follow_the_dictionary_exactly_while_rows_are_kept(similarity):
    """After many swaps the sums are those that a rebuild from the rows kept, at the same points, gives."""
    settings = settings_of(similarity, budget=12, length_scale=1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        engine = BudgetedRegression(settings, History.of(N, *rows(2, 200)))
    model = engine.model
    assert model.tally.swaps >= 5
    assert model.sums.joint == similarity.fixed
    assert engine.keeps_all_rows
    model.refresh()
    S, v = model.sums.system(model.points.lending, model.arm_weights())
    h = engine.history
    k = settings.terms.gram(model.points.K_arms, model.points.arms, model.points.contexts, h.arms, h.contexts)
    np.testing.assert_allclose(S, k @ k.T, atol=1e-9 * np.abs(S).max())
    np.testing.assert_allclose(v, k @ h.rewards, atol=1e-9 * np.abs(v).max())
    P, A, _ = finished(posterior_inverses(model.points.gram, k @ k.T, settings.ridge))
    np.testing.assert_allclose(model.posterior.P, P, atol=1e-6 * np.abs(P).max())
    np.testing.assert_allclose(model.posterior.w, A @ (k @ h.rewards), atol=1e-6)


def one_by_one(settings, arms, contexts, rewards):
    engine = BudgetedRegression(settings, History(N))
    for a, x, r in zip(arms, contexts, rewards, strict=True):
        engine.observe(np.array([a]), x[None, :], np.array([r]))
    return engine


@pytest.mark.parametrize(("weighting", "bound"), [("per_arm", 1e-4), ("uniform", 1e-3)])
def test_older_rows_live_on_as_projections(weighting, bound):
    """With 1,500 rows and 256 kept the sums of a smooth kernel stay near a rebuild from all rows.

    On any processor: projections that amplify rounding would be off by a tenth with some BLAS kernels. Sums of the
    context kernel (per_arm) know more of other arms' points than sums of the full kernel (uniform).
    """
    settings = settings_of(kb.Independent(), budget=60, length_scale=2.5, weighting=weighting)
    arms, contexts, rewards = rows(4, 1500, d=2)
    engine = one_by_one(settings, arms, contexts, rewards)
    model = engine.model
    assert len(model.recent) == 256
    assert model.sums.joint == (weighting == "uniform")
    model.sum_up()
    S, v = model.sums.system(model.points.lending, model.arm_weights())
    k = settings.terms.gram(model.points.K_arms, model.points.arms, model.points.contexts, arms, contexts)
    weighted = k * model.arm_weights()[arms]
    assert np.abs(S - weighted @ k.T).max() < bound * np.abs(S).max()
    assert np.abs(v - weighted @ rewards).max() < bound * np.abs(v).max()
    naive = NaiveRegression(settings, History.of(N, arms, contexts, rewards))
    q = query(5, rounds=20, d=2)
    assert np.abs(engine.predict(q).mean - naive.predict(q).mean).max() < 0.05


@pytest.mark.parametrize("memory", MEMORIES, ids=repr)
@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("similarity", SIMILARITIES, ids=lambda s: type(s).__name__)
def test_many_rows_at_once_are_learned_exactly_at_the_points_drawn(similarity, weighting, memory):
    settings = settings_of(similarity, budget=100, length_scale=2.0, weighting=weighting, memory=memory)
    h = History.of(N, *rows(21, 700, d=2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        engine = BudgetedRegression(settings, h)
        slow = one_by_one(settings, h.arms, h.contexts, h.rewards)
    model = engine.model
    np.testing.assert_array_equal(engine.counts, slow.counts)
    assert model.tally.n == 700
    assert model.tally.squares == pytest.approx(slow.model.tally.squares)
    if memory is None:
        np.testing.assert_allclose(model.points.K_arms[0], similarity.matrix(h), atol=1e-9)
    live = h if memory is None or memory.rows is None else h.recent(20)
    weights = np.ones(len(live)) if memory is None else memory.weights(len(live))
    k = settings.terms.gram(model.points.K_arms, model.points.arms, model.points.contexts, live.arms, live.contexts)
    S, v = model.sums.system(model.points.lending, model.arm_weights())
    weighted = k * weights * model.arm_weights()[live.arms]
    np.testing.assert_allclose(S, weighted @ k.T, atol=1e-10 * np.abs(S).max())
    np.testing.assert_allclose(v, weighted @ live.rewards, atol=1e-10 * np.abs(v).max())
    for x, r in zip(*rows(22, 300, d=2)[1:], strict=True):  # and it goes on
        engine.observe(np.array([1]), x[None, :], np.array([r]))
        slow.observe(np.array([1]), x[None, :], np.array([r]))
    a, b = engine.predict(query(9, rounds=30, d=2)), slow.predict(query(9, rounds=30, d=2))
    assert np.abs(a.mean - b.mean).mean() < 0.02
    assert np.abs(a.width - b.width).mean() < 0.1 * b.width.mean()


def test_width_keeps_the_residual():
    """Far from all points the width is the prior's, however many rows there are."""
    settings = settings_of(kb.Independent(), budget=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        engine = BudgetedRegression(settings, History.of(N, *rows(6, 300)))
    far = Query(np.arange(N), np.full((1, 1, 4), 50.0))
    np.testing.assert_allclose(engine.predict(far).width, 0.1**-0.5, rtol=1e-6)


def test_estimated_similarity_stays_near_its_definition_when_rows_are_let_go():
    similarity = kb.Estimated(length_scale=0.5, embedding_kernel=kb.RBF(length_scale=1.0))
    settings = settings_of(similarity, budget=10, length_scale=2.0)
    rng = np.random.default_rng(7)
    arms = rng.integers(0, N, 900)
    contexts = rng.standard_normal((900, 2)) + arms[:, None] * 0.7  # arms are played in different places
    history = History.of(N, arms, contexts, rng.random(900))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        engine = BudgetedRegression(settings, history)
    assert not engine.keeps_all_rows
    engine.model.refresh()
    wanted = similarity.matrix(history)
    assert np.abs(engine.similarity_matrices[0] - wanted).max() < 0.03
    error = engine.report()["embedding_error"]
    assert 0.0 < error < 0.1


@pytest.mark.parametrize(
    "kernel",
    [
        kb.RBF(length_scale=1.3),
        kb.Matern(length_scale=1.3, nu=1.5),
        kb.RationalQuadratic(length_scale=1.3, alpha=0.7),
        2.0 * kb.RBF() + kb.Matern(nu=0.5),
        kb.RBF() * kb.RBF(length_scale=(1.0, 2.0, 3.0)),
        kb.Linear() + kb.kernels.Constant(1.0),
    ],
    ids=repr,
)
def test_random_features_are_the_kernel(kernel):
    X = np.random.default_rng(8).standard_normal((30, 3))
    phi = FeatureMap(kernel, 3)(X)
    K = kernel(X, X)
    assert np.abs(phi @ phi.T - K).mean() < 0.1 * K.max()
    np.testing.assert_allclose((phi**2).sum(axis=1), kernel.diag(X), rtol=1e-10)


def test_inverse_follows_its_matrix():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((9, 9))
    M = X @ X.T + np.eye(9)
    inverse = Inverse(9)
    for n in range(9):
        assert inverse.border(M[:n, n], M[n, n], 1e-9)
    np.testing.assert_allclose(inverse.matrix, np.linalg.inv(M), atol=1e-10)


def test_low_rank_similarity_gives_the_same_numbers(monkeypatch):
    rng = np.random.default_rng(11)
    z = rng.random((90, 1))
    similarity = kb.Known(kb.RBF(length_scale=0.3), z)
    U = low_rank_root(similarity.matrix(History(90)))
    assert U is not None
    assert U.shape[1] < 30
    np.testing.assert_allclose(U @ U.T, similarity.matrix(History(90)), atol=1e-9)
    assert low_rank_root(np.eye(90)) is None
    policy = kb.KMTLUCB(90, context_kernel=kb.RBF(), similarity=similarity, engine=kb.Budgeted(points=60))
    policy.observe(rng.integers(0, 90, 150), rng.standard_normal((150, 2)), rng.random(150))
    X = rng.standard_normal((5, 1, 2))
    fast = policy.predict(X)
    monkeypatch.setattr("kinbandits.regression.budgeted.engine.low_rank_root", lambda K: None)
    plain = policy.copy()
    plain.regression._root_at = -1
    slow = plain.predict(X)
    np.testing.assert_allclose(fast.mean, slow.mean, atol=1e-8)
    np.testing.assert_allclose(fast.width, slow.width, atol=1e-6)


def test_a_thousand_arms():
    rng = np.random.default_rng(12)
    z = rng.random((1000, 1))
    policy = kb.KMTLUCB(
        1000,
        context_kernel=kb.RBF(),
        similarity=kb.Known(kb.RBF(length_scale=0.2), z),
        engine=kb.Budgeted(points=200),
    )
    for x in rng.uniform(-1, 1, (30, 3)):
        decision = policy.choose(x)
        policy.update(decision, float(z[decision.arm, 0]))
    assert policy.regression.model.sums.joint
    mean, _ = policy.predict(np.zeros(3))
    assert np.corrcoef(mean, z[:, 0])[0, 1] > 0.5  # 30 rows say something of all 1,000 arms


def test_too_many_arms_for_a_changing_similarity_is_refused():
    policy = kb.KMTLUCB(1000, context_kernel=kb.RBF(), similarity=kb.Estimated(), engine=kb.Budgeted(points=512))
    with pytest.raises(InvalidInputError, match=r"use points=183 or less"):
        policy.observe([0], [[0.0]], [1.0])
    assert policy.n_observations == 0


def test_a_kernel_that_fails_changes_nothing():
    def moody(A, B):
        if np.any(B > 100) or np.any(A > 100):
            raise RuntimeError("no")
        return kb.RBF()(A, B)

    policy = kb.KMTLUCB(N, context_kernel=moody, engine=kb.Budgeted(points=10))
    with pytest.raises(RuntimeError):
        policy.observe([0], [[200.0]], [1.0])
    policy.observe([0, 1, 2], [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
    before = policy.predict([0.5])
    for bad in ([[200.0]], [[0.3], [200.0]]):
        with pytest.raises(RuntimeError):
            policy.observe([1] * len(bad), bad, [1.0] * len(bad))
        assert policy.n_observations == 3
        np.testing.assert_array_equal(policy.predict([0.5]).mean, before.mean)
        np.testing.assert_array_equal(policy.predict([0.5]).width, before.width)


def test_the_defaults_take_a_thousand_arms():
    policy = kb.KMTLUCB(1000, engine=kb.Budgeted())
    assert isinstance(policy.similarity, kb.Independent)
    policy.observe([0, 999], [[0.0], [1.0]], [1.0, 0.0])
    assert np.isfinite(policy.predict([0.5]).width).all()
    assert isinstance(kb.KMTLUCB(10, engine=kb.Budgeted()).similarity, kb.Adaptive)


def test_the_papers_bandwidth_is_too_narrow_for_the_budget():
    data = kb.datasets.load("digits")
    X, y = data.features(), data.y
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))[:520]
    arms = np.where(rng.random(520) < 0.5, y[rows], rng.integers(0, 10, 520))
    policy = kb.KMTLUCB(10, engine=kb.Budgeted(points=256), **kb.presets.paper("digits"))
    with pytest.warns(BudgetWarning, match=r"points=256 is too small .* points=\d+ would do"):
        policy.observe(arms, X[rows], (arms == y[rows]).astype(float))
    default = kb.KMTLUCB(10, engine=kb.Budgeted(points=256))
    default.observe(arms, X[rows], (arms == y[rows]).astype(float))  # warnings are errors: none comes


def test_advice_is_above_what_is_said_to_be_too_little():
    rng = np.random.default_rng(14)
    wide = kb.KMTLUCB(N, context_kernel=kb.RBF(length_scale=9.0), engine=kb.Budgeted(points=32))
    wide.observe(rng.integers(0, N, 400), rng.uniform(-1, 1, (400, 6)), rng.random(400))
    assert needed_points(wide.regression.model, enough=True)[0] < 32
    assert needed_points(wide.regression.model, enough=False)[0] == 40


def test_report_and_warning_at_a_narrow_bandwidth():
    rng = np.random.default_rng(13)
    X = rng.uniform(-1, 1, (400, 6))
    narrow = kb.KMTLUCB(N, context_kernel=kb.RBF(length_scale=0.4), engine=kb.Budgeted(points=32))
    with pytest.warns(BudgetWarning, match=r"points=\d+ would do"):
        narrow.observe(rng.integers(0, N, 400), X, rng.random(400))
    report = narrow.engine_report()
    assert report["points"] == 32
    assert not report["budget_is_enough"]
    assert report["budget_needed"] > 100
    assert report["mean_residual"] > 0.3
    own = {"similarity": kb.Independent(), "engine": kb.Budgeted(points=64)}
    wide = kb.KMTLUCB(N, context_kernel=kb.RBF(length_scale=6.0), **own)
    for x in X:  # warnings are errors: none comes
        wide.observe([int(rng.integers(N))], x[None, :], [rng.random()])
    report = wide.engine_report()
    assert report["budget_is_enough"]
    assert report["mean_residual"] <= report["largest_residual"] < 0.05
    assert report["effective_dimension_seen"] <= report["points"] + 1e-6
    assert report["mean_error"] < 0.02


def test_report_of_an_error_is_the_error():
    """The held-out mean error is that against the exact engine on the same rows."""
    settings = settings_of(kb.Independent(), budget=100, length_scale=0.6)
    engine = BudgetedRegression(settings, History.of(N, *rows(14, 60)))
    report = engine.report()
    assert report["mean_error"] == pytest.approx(0.0, abs=1e-9)  # every row is a point
    assert report["largest_residual"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("after", [0, 60])
def test_right_after_the_change_the_model_is_what_it_says_and_its_error_is_told(after: int) -> None:
    """A few rows more than points, all far apart: rows left out of a fit would not show that some have no place."""
    rng = np.random.default_rng(102)
    arms, X, y = rng.integers(3, size=70), 3.0 * rng.permutation(70)[:, None], rng.normal(size=70)
    given = {"context_kernel": kb.RBF(), "similarity": kb.Independent(), "ridge": 0.0125, "exploration": 0.1}
    policy = kb.KMTLUCB(3, **given, engine=kb.Budgeted(64, after))
    for i in range(70):
        policy.observe(arms[i : i + 1], X[i : i + 1], y[i : i + 1])
    model = policy.regression.model
    k, K, own = (
        np.equal.outer(a, b) * kb.RBF()(A, B)
        for a, A, b, B in (
            (model.points.arms, model.points.contexts, arms, X),
            (model.points.arms, model.points.contexts, model.points.arms, model.points.contexts),
            (arms, X, arms, X),
        )
    )
    means = k.T @ np.linalg.solve(0.0125 * K + k @ k.T, k @ y)  # the best combination of the points' kernels
    found = policy.means(X)[np.arange(70), arms]
    np.testing.assert_allclose(found, means, atol=1e-5)
    wanted = own @ np.linalg.solve(own + 0.0125 * np.eye(70), y)
    error = float(np.sqrt(np.mean((found - wanted) ** 2)))
    assert error > 0.05
    assert policy.engine_report()["mean_error"] == pytest.approx(error, rel=1e-3)


@pytest.mark.parametrize("memory", MEMORIES, ids=repr)
@pytest.mark.parametrize("similarity", [SIMILARITIES[0], SIMILARITIES[3]], ids=lambda s: type(s).__name__)
def test_saved_and_loaded_it_goes_on_the_same(similarity, memory, tmp_path):
    rng = np.random.default_rng(15)
    policy = kb.KMTLUCB(
        N,
        context_kernel=kb.RBF(length_scale=2.0),
        similarity=similarity,
        engine=kb.Budgeted(points=16),
        memory=memory,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        for a, x, r in zip(rng.integers(0, N, 300), rng.standard_normal((300, 3)), rng.random(300), strict=True):
            policy.observe([int(a)], x[None, :], [r])
    assert policy.regression.model.tally.swaps
    policy.save(tmp_path / "p.zip")
    other = kb.load(tmp_path / "p.zip")
    assert other.n_observations == 300
    assert (other.engine, other.memory) == (kb.Budgeted(points=16), memory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        for x in rng.standard_normal((40, 3)):
            a, b = policy.choose(x, scores=True), other.choose(x, scores=True)
            assert a.arm == b.arm
            np.testing.assert_allclose(a.scores, b.scores, rtol=1e-12)
            reward = float(rng.random())
            policy.update(a, reward)
            other.update(b, reward)


def test_a_file_with_sums_of_each_arm_is_read():
    """tests/formats/budgeted-v1.kb: Mixed(mu=0.4), 32 points, 400 rows, as it was saved first."""
    policy = kb.load(Path(__file__).parent.parent / "formats" / "budgeted-v1.kb")
    mean, width = policy.predict(np.ones(2))
    np.testing.assert_allclose(mean, [0.41003966, 0.68934792, 0.44518158, 0.58829606], atol=1e-8)
    np.testing.assert_allclose(width, [0.29812248, 0.55109859, 1.32161444, 0.62888498], atol=1e-8)
    policy.regression.model.refresh()  # the sums, too
    np.testing.assert_allclose(policy.predict(np.ones(2)).mean, mean, atol=1e-6)


def test_arms_come_and_go():
    similarity = kb.Known(kb.RBF(length_scale=0.5), [0.0, 0.3, 0.6, 1.0])
    engines = [
        kb.KMTLUCB(N, context_kernel=kb.RBF(length_scale=0.6), similarity=similarity, engine=e, ridge=0.1)
        for e in ("naive", kb.Budgeted(points=100))
    ]
    arms, contexts, rewards = rows(16, 40)
    for policy in engines:
        policy.observe(arms, contexts, rewards)
        policy.add_arm("new", 0.5)
        policy.observe(["new", 1], contexts[:2] + 0.3, [0.5, 0.2])
        policy.remove_arm(2)
    naive, budgeted = engines
    assert budgeted.counts == naive.counts
    for x in contexts[:5] + 0.1:
        a, b = naive.predict(x), budgeted.predict(x)
        np.testing.assert_allclose(b.mean, a.mean, atol=1e-8)
        np.testing.assert_allclose(b.width, a.width, atol=1e-7)


def test_an_arm_that_shares_and_is_no_longer_kept_cannot_be_taken_out():
    rng = np.random.default_rng(17)
    policy = kb.KMTLUCB(
        2, context_kernel=kb.RBF(length_scale=3.0), similarity=kb.Mixed(mu=0.5), engine=kb.Budgeted(points=8)
    )
    policy.observe([0] * 10 + [1] * 400, rng.standard_normal((410, 2)), rng.random(410))
    with pytest.raises(InvalidInputError, match="retire_arm"):
        policy.remove_arm(0)
    assert policy.arms == [0, 1]


def test_an_arm_that_shares_nothing_leaves_with_all_its_rows():
    arms, contexts, rewards = rows(19, 500, d=2)
    settings = {"context_kernel": kb.RBF(length_scale=3.0), "similarity": kb.Independent()}
    kept, gone = (kb.KMTLUCB(N, engine=kb.Budgeted(points=64), **settings) for _ in range(2))
    for a, x, r in zip(arms, contexts, rewards, strict=True):
        for policy in (kept, gone):
            policy.observe([int(a)], x[None, :], [r])
    gone.remove_arm(2)
    assert gone.counts == {a: n for a, n in kept.counts.items() if a != 2}
    X = contexts[:20, None, :] + 0.1
    np.testing.assert_allclose(gone.predict(X).mean, kept.predict(X, arms=[0, 1, 3]).mean, atol=1e-5)


def test_a_graph_gains_and_loses_arms_after_rows_are_gone():
    adjacency = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    rng = np.random.default_rng(20)
    arms, contexts, rewards = rng.integers(0, 3, 600), rng.uniform(-1, 1, (600, 2)), rng.random(600)
    engines = {"context_kernel": kb.RBF(length_scale=2.0), "similarity": kb.Graph(adjacency), "ridge": 0.1}
    exact = kb.KMTLUCB(3, engine="exact", **engines)
    budgeted = kb.KMTLUCB(3, engine=kb.Budgeted(points=64), **engines)
    for policy in (exact, budgeted):
        for a, x, r in zip(arms, contexts, rewards, strict=True):
            policy.observe([int(a)], x[None, :], [r])
        policy.add_arm("new", neighbours=[0])
        policy.observe(["new"], [[0.1, 0.2]], [1.0])
        policy.remove_arm(2)
    X = contexts[:20, None, :]
    np.testing.assert_allclose(budgeted.predict(X).mean, exact.predict(X).mean, atol=4e-2)


def test_memory_and_points_do_not_grow():
    rng = np.random.default_rng(18)
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(length_scale=4.0), ridge=0.01, engine=kb.Budgeted(points=16))
    sizes = []
    for _ in range(3):
        policy.observe(rng.integers(0, 3, 600), rng.standard_normal((600, 2)), rng.random(600))
        arrays = to_arrays(policy.regression.model)
        sizes.append(sum(a.nbytes for name, a in arrays.items() if name != "waiting"))
    assert sizes[0] == sizes[1] == sizes[2]
    assert policy.regression.model.size == 16
    assert policy.n_observations == 1800


@pytest.mark.slow
def test_regret_is_no_worse_than_kors_at_equal_size():
    sklearn = pytest.importorskip("sklearn.datasets")
    from kors import KorsUCB

    X, y = sklearn.load_digits(return_X_y=True)
    kernel = kb.RBF.median(X[:300])
    totals = {"budgeted": 0.0, "kors": 0.0}
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(X))[:600]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            for name, policy in (
                (
                    "budgeted",
                    kb.KMTLUCB(10, context_kernel=kernel, engine=kb.Budgeted(points=100), tie_break="first"),
                ),
                ("kors", KorsUCB(10, kernel, 100, seed)),
            ):
                for row in order:
                    decision = policy.choose(X[row])
                    reward = float(decision.arm == y[row])
                    policy.update(decision, reward)
                    totals[name] += 1.0 - reward
    assert totals["budgeted"] <= totals["kors"]


@pytest.mark.parametrize("similarity", [kb.Independent(), kb.Mixed(0.5), kb.Pooled(), kb.Estimated()])
def test_a_frozen_dictionary_reads_the_same_by_arm(similarity):
    """One product for all candidates gives the numbers that one for each gives; an arm may have no point."""
    rng = np.random.default_rng(0)
    policy = kb.KMTLUCB(6, context_kernel=kb.RBF(2.0), similarity=similarity, engine=kb.Budgeted(points=80))
    policy.observe(rng.integers(5, size=300), rng.normal(size=(300, 2)), rng.random(300))
    policy.observe([4, 0], rng.normal(size=(2, 2)), [1.0, 0.0])
    frozen = policy.frozen()
    for shape in ((7, 1, 2), (1, 1, 2), (3, 4, 2)):
        X = rng.normal(size=shape)
        arms = [5, 0, 3, 1] if shape[1] == 4 else [5, 2, 0]
        for found, wanted in zip(frozen.predict(X, arms), policy.predict(X, arms), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


def test_a_frozen_dictionary_leaves_a_refresh_under_way_alone():
    """Copying it would do all its pieces again, at every copy that is published meanwhile."""

    class UnderWay:
        def __deepcopy__(self, memo):
            raise AssertionError("copied")

    policy = kb.KMTLUCB(2, context_kernel=kb.RBF(), engine=kb.Budgeted(points=8), ridge=0.1)
    policy.observe([0, 1], [[0.0], [1.0]], [0.0, 1.0])
    policy.regression.model.refreshing = under_way = UnderWay()
    assert policy.frozen().predict([0.5]).mean.shape == (2,)
    assert policy.regression.model.refreshing is under_way


@pytest.mark.parametrize("similarity", [kb.Mixed(0.5), kb.Estimated()])
def test_a_frozen_dictionary_leaves_behind_what_learning_needs_and_explains_the_same(similarity, tmp_path):
    """Sums per arm are most of the memory, and were copied with each publish."""
    rng = np.random.default_rng(0)
    engine = kb.Budgeted(points=60)
    policy = kb.KMTLUCB(5, context_kernel=kb.RBF(2.0), similarity=similarity, ridge=0.1, engine=engine)
    policy.observe(rng.integers(5, size=300), rng.normal(size=(300, 2)), rng.random(300))
    while not policy.regression.model.tally.unsummed:  # rows that are not yet in the sums
        policy.observe([3], rng.normal(size=(1, 2)), [1.0])
    frozen = policy.frozen()
    assert frozen.regression.model.sums.S is None
    assert frozen.regression.report() == policy.regression.report()
    for arm in range(5):
        found, wanted = (p.regression.contributions(arm, np.array([0.3, 0.1])) for p in (frozen, policy))
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
        np.testing.assert_allclose(wanted.sum(), policy.predict([0.3, 0.1]).mean[arm], rtol=1e-6)
    before = frozen.predict([0.5, 0.5])
    policy.observe([0], [[0.5, 0.5]], [9.0])
    np.testing.assert_array_equal(frozen.predict([0.5, 0.5]).mean, before.mean)
    with pytest.raises(TypeError, match="only read"):
        frozen.save(tmp_path / "p.kb")
    with pytest.raises(TypeError, match="only read"):
        frozen.add_arm(9)
