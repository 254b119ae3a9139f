"""The budgeted engine: exact while all rows are points, bounded afterwards, consistent when points change."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import BudgetWarning, InvalidInputError
from kinbandits.history import History
from kinbandits.regression import Query
from kinbandits.regression.base import Ridge
from kinbandits.regression.budget_report import needed_points
from kinbandits.regression.budgeted import BudgetedRegression
from kinbandits.regression.embeddings import FeatureMap
from kinbandits.regression.inverse import Inverse
from kinbandits.regression.linalg import low_rank_root, posterior_inverse
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
    return Ridge(as_terms(term), 0.1, weighting, "explore", memory, budget)


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
@pytest.mark.parametrize("pooled", [False, True])
def test_sums_follow_the_dictionary_exactly_while_rows_are_kept(similarity, pooled, monkeypatch):
    """After many swaps the sums are those that a rebuild from the rows kept, at the same points, gives."""
    if pooled and not similarity.fixed:
        pytest.skip("sums of a similarity that changes are never pooled")
    if pooled:
        monkeypatch.setattr("kinbandits.regression.budget_model.MOST_SUMS", 1)
    settings = settings_of(similarity, budget=12, length_scale=1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        engine = BudgetedRegression(settings, History.of(N, *rows(2, 200)))
    model = engine.model
    assert model.swaps >= 10
    assert model.sums.pooled == pooled
    assert engine.keeps_all_rows
    model.refresh()
    S, v = model.sums.system(model.dictionary.lending(model.K_arms), model.arm_weights())
    h = engine.history
    k = settings.terms.gram(model.K_arms, model.dictionary.arms, model.dictionary.contexts, h.arms, h.contexts)
    np.testing.assert_allclose(S, k @ k.T, atol=1e-9 * np.abs(S).max())
    np.testing.assert_allclose(v, k @ h.rewards, atol=1e-9 * np.abs(v).max())
    P, A = posterior_inverse(model.dictionary.gram(model.K_arms), k @ k.T, settings.ridge)
    np.testing.assert_allclose(model.P.matrix, P, atol=1e-6 * np.abs(P).max())
    np.testing.assert_allclose(model.w, A @ (k @ h.rewards), atol=1e-6)


def test_older_rows_live_on_as_projections():
    """With 1,500 rows and 256 kept the sums of a smooth kernel stay within 1e-4 of a rebuild from all rows.

    On any processor: projections that amplify rounding would be off by a tenth with some BLAS kernels.
    """
    settings = settings_of(kb.Independent(), budget=60, length_scale=2.5)
    arms, contexts, rewards = rows(4, 1500, d=2)
    engine = BudgetedRegression(settings, History.of(N, arms, contexts, rewards))
    model = engine.model
    assert len(model.kept) == 256
    S, v = model.sums.system(model.dictionary.lending(model.K_arms), model.arm_weights())
    k = settings.terms.gram(model.K_arms, model.dictionary.arms, model.dictionary.contexts, arms, contexts)
    assert np.abs(S - k @ k.T).max() < 1e-4 * np.abs(S).max()
    assert np.abs(v - k @ rewards).max() < 1e-4 * np.abs(v).max()
    naive = NaiveRegression(settings, History.of(N, arms, contexts, rewards))
    q = query(5, rounds=20, d=2)
    assert np.abs(engine.predict(q).mean - naive.predict(q).mean).max() < 0.05


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
    k = rng.standard_normal(9)
    assert inverse.add(k, 0.5)
    inverse.remove(3)
    rest = [0, 1, 2, 8, 4, 5, 6, 7]  # the last takes the place of the one that left
    wanted = np.linalg.inv((M + 0.5 * np.outer(k, k))[np.ix_(rest, rest)])
    np.testing.assert_allclose(inverse.matrix, wanted, atol=1e-10)
    assert not inverse.add(100.0 * k[rest], -1.0)


def test_low_rank_similarity_gives_the_same_numbers(monkeypatch):
    rng = np.random.default_rng(11)
    z = rng.random((90, 1))
    similarity = kb.Known(kb.RBF(length_scale=0.3), z)
    U = low_rank_root(similarity.matrix(History(90)))
    assert U is not None
    assert U.shape[1] < 30
    np.testing.assert_allclose(U @ U.T, similarity.matrix(History(90)), atol=1e-9)
    assert low_rank_root(np.eye(90)) is None
    policy = kb.KMTLUCB(90, context_kernel=kb.RBF(), similarity=similarity, engine=kb.Budgeted(points=40))
    policy.observe(rng.integers(0, 90, 150), rng.standard_normal((150, 2)), rng.random(150))
    X = rng.standard_normal((5, 1, 2))
    fast = policy.predict(X)
    monkeypatch.setattr("kinbandits.regression.budgeted.low_rank_root", lambda K: None)
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
    assert policy.regression.model.sums.pooled
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
        policy.observe(rng.integers(0, N, 300), rng.standard_normal((300, 3)), rng.random(300))
    assert policy.regression.model.swaps
    policy.save(tmp_path / "p.zip")
    other = kb.load(tmp_path / "p.zip")
    assert other.n_observations == 300
    assert (other.engine, other.memory) == (kb.Budgeted(points=16), memory)
    for x in rng.standard_normal((40, 3)):
        a, b = policy.choose(x, scores=True), other.choose(x, scores=True)
        assert a.arm == b.arm
        np.testing.assert_allclose(a.scores, b.scores, rtol=1e-12)
        reward = float(rng.random())
        policy.update(a, reward)
        other.update(b, reward)


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


def test_pooled_sums_cannot_give_back_an_arm_that_is_no_longer_kept(monkeypatch):
    monkeypatch.setattr("kinbandits.regression.budget_model.MOST_SUMS", 1)
    rng = np.random.default_rng(17)
    policy = kb.KMTLUCB(
        2, context_kernel=kb.RBF(length_scale=3.0), similarity=kb.Mixed(mu=0.5), engine=kb.Budgeted(points=8)
    )
    policy.observe([0] * 10 + [1] * 400, rng.standard_normal((410, 2)), rng.random(410))
    with pytest.raises(InvalidInputError, match="retire_arm"):
        policy.remove_arm(0)
    assert policy.arms == [0, 1]


def test_memory_and_points_do_not_grow():
    rng = np.random.default_rng(18)
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(length_scale=4.0), engine=kb.Budgeted(points=16))
    sizes = []
    for _ in range(3):
        policy.observe(rng.integers(0, 3, 600), rng.standard_normal((600, 2)), rng.random(600))
        sizes.append(sum(a.nbytes for a in policy.regression.model.to_arrays().values()))
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
