"""The exact ladder: its intervals hold at every rung, its decisions are the formula's, its numbers too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinbandits as kb
from kinbandits.history import History
from kinbandits.regression.base import Query, RegressionSettings
from kinbandits.regression.exact.ladder import LadderRegression
from kinbandits.regression.exact.lagged import LaggedReference
from kinbandits.regression.exact.reference import BlocksReference
from kinbandits.regression.naive import NaiveRegression
from kinbandits.terms import Term, Terms

CASES = {"held": 0}


def similarity(kind: str, n_arms: int, rng: np.random.Generator) -> kb.similarity.Similarity:
    root = rng.normal(size=(n_arms, n_arms))
    return {
        "independent": kb.Independent(),
        "pooled": kb.Pooled(),
        "mixed": kb.Mixed(float(rng.uniform(0.0, 1.0))),
        "known": kb.Known(root @ root.T),
        "described": kb.Known(kb.RBF(0.5), rng.uniform(size=n_arms)),
        "estimated": kb.Estimated(float(10 ** rng.uniform(-1.5, 1.0)), kb.RBF(float(10 ** rng.uniform(-1, 1)))),
    }[kind]


KINDS = ["independent", "pooled", "mixed", "known", "described", "estimated"]


def kernel(kind: int, length_scale: float) -> object:
    scaled = 2.0 * kb.RBF(length_scale)
    return [kb.RBF(length_scale), kb.Matern(length_scale), kb.Linear() + kb.kernels.Constant(1.0), scaled][kind]


@st.composite
def games(draw: st.DrawFn) -> tuple[RegressionSettings, int, int, float, np.random.Generator]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_arms, d = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    length_scale = 10.0 ** draw(st.floats(-1.0, 1.5))
    first = similarity(draw(st.sampled_from(KINDS)), n_arms, rng)
    terms = Terms((Term(first, kernel(draw(st.integers(0, 3)), length_scale)),))
    if draw(st.booleans()) and draw(st.booleans()):
        other = similarity(draw(st.sampled_from(KINDS)), n_arms, rng)
        terms = terms + Term(other, kb.RBF(1.0), columns=[0])
    ridge = 10.0 ** draw(st.floats(-4.0, 1.0))
    weighting = draw(st.sampled_from(["per_arm", "uniform"]))
    cold_start = draw(st.sampled_from(["explore", "borrow"]))
    exploration = 10.0 ** draw(st.floats(-2.0, 0.5)) * np.sqrt(ridge)
    return RegressionSettings(terms, ridge, weighting, cold_start), n_arms, d, exploration, rng


def play(game: tuple[RegressionSettings, int, int, float, np.random.Generator], rounds: int) -> None:
    ridge, n_arms, d, exploration, rng = game
    ladder, naive = LadderRegression(ridge, History(n_arms)), NaiveRegression(ridge, History(n_arms))
    for _ in range(rounds):
        shared = rng.random() < 0.6
        X = rng.normal(size=(1, 1 if shared else n_arms, d))
        X = np.round(X) if rng.random() < 0.2 else X  # contexts that coincide
        query = Query(np.arange(n_arms), X)
        mean, width = naive.predict(query)
        scores = (mean + exploration * width)[0]
        slack = 1e-10 * (1.0 + np.abs(scores).max())  # the formula rounds too
        if len(ladder.history):
            asked, core = ladder.asked(query, exploration), ladder.core if rng.random() < 0.5 else None
            for rung in ladder.ladder.climb(asked) if core is None else core.climb(asked):
                CASES["held"] += n_arms
                assert (asked.low <= scores + slack).all(), rung
                assert (asked.high >= scores - slack).all(), rung
        leaders = ladder.leaders(query, np.array([exploration]))[0]
        assert leaders.any()
        assert (scores[leaders] >= scores.max() - slack).all()
        found = ladder.predict(query)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-8, atol=1e-8 * (1.0 + np.abs(mean).max()))
        np.testing.assert_allclose(found.width, width, rtol=1e-7, atol=1e-7 * width.max())
        n = 1 if rng.random() < 0.9 else int(rng.integers(2, 50))
        arms = rng.integers(n_arms, size=n)
        rows = rng.normal(size=(n, d)) if n > 1 else X[:, 0 if shared else arms[0]]
        rewards = rng.normal(size=n)
        ladder.observe(arms, rows, rewards)
        naive.observe(arms, rows, rewards)


@settings(max_examples=25, deadline=None)
@given(games())
def test_every_rung_holds_the_score(game: tuple[RegressionSettings, int, int, float, np.random.Generator]) -> None:
    play(game, rounds=25)


@pytest.mark.slow
def test_a_hundred_thousand_intervals_hold() -> None:
    CASES["held"] = 0
    seed = 0
    kinds = ["per_arm", "uniform"]
    while CASES["held"] < 100_000:
        rng = np.random.default_rng(seed)
        n_arms = int(rng.integers(2, 7))
        length_scale = 10 ** rng.uniform(-1, 1.5)
        term = Term(similarity(KINDS[seed % 6], n_arms, rng), kernel(int(rng.integers(4)), length_scale))
        ridge = 10 ** rng.uniform(-4, 1)
        game = RegressionSettings(Terms((term,)), ridge, kinds[seed // 6 % 2], "borrow")  # type: ignore[arg-type]
        play((game, n_arms, int(rng.integers(1, 4)), 10 ** rng.uniform(-2, 0.5) * np.sqrt(ridge), rng), rounds=40)
        seed += 1
    print(f"{CASES['held']} intervals, none missed")


def grown(
    sim: kb.similarity.Similarity, weighting: str, n_rows: int = 300, n_arms: int = 5
) -> tuple[LadderRegression, RegressionSettings]:
    rng = np.random.default_rng(3)
    ridge = RegressionSettings(Terms((Term(sim, kb.RBF(0.7)),)), 0.01, weighting, "explore")  # type: ignore[arg-type]
    history = History.of(
        n_arms, rng.integers(n_arms, size=n_rows), rng.normal(size=(n_rows, 2)), rng.normal(size=n_rows)
    )
    return LadderRegression(ridge, history), ridge


def test_the_reference_follows_the_similarity() -> None:
    apart, _ = grown(kb.Estimated(0.05, kb.RBF(0.1)), "per_arm")
    alike, _ = grown(kb.Mixed(0.95), "per_arm")
    assert isinstance(apart.reference, BlocksReference)
    assert isinstance(alike.reference, LaggedReference)
    assert apart.report()["condition bound"] < 10.0 < alike.report()["condition bound"]


@pytest.mark.parametrize("weighting", ["per_arm", "uniform"])
@pytest.mark.parametrize("sim", [kb.Estimated(0.3, kb.RBF(0.5)), kb.Mixed(0.95), kb.Independent()], ids=str)
def test_reference_bounds_hold(sim: kb.similarity.Similarity, weighting: str) -> None:
    """lo B <= M <= hi B, where both are known."""
    ladder, _ = grown(sim, weighting)
    rng = np.random.default_rng(0)
    for _ in range(30):  # let the reference age
        ladder.observe(rng.integers(5, size=1), rng.normal(size=(1, 2)), rng.normal(size=1))
    t = len(ladder.history)
    inverse = ladder.reference.apply(np.eye(t))
    low, high = ladder.reference.bounds()
    M = ladder.matrix.times(np.eye(t))
    root = np.linalg.cholesky((inverse + inverse.T) / 2.0)
    eigenvalues = np.linalg.eigvalsh(root.T @ ((M + M.T) / 2.0) @ root)
    assert eigenvalues[0] >= low * (1.0 - 1e-9)
    assert eigenvalues[-1] <= high * (1.0 + 1e-9)


@pytest.mark.parametrize("weighting", ["per_arm", "uniform"])
def test_a_new_row_starts_where_its_own_residual_is_small(weighting: str) -> None:
    """Its dual value makes the residual smaller than zero does, and Y follows within its drift."""
    ladder, _ = grown(kb.Estimated(0.05, kb.RBF(0.1)), weighting)
    rng = np.random.default_rng(2)
    for _ in range(20):
        ladder.dual_state.values[:] = ladder.dual()
        ladder.dual_state.recompute()
        ladder.observe(rng.integers(5, size=1), rng.normal(size=(1, 2)), rng.normal(size=1))
        dual, matrix = ladder.dual_state, ladder.matrix
        eta = dual.residual()[1].eta
        for b in range(5):
            true = dual.values[matrix.rows[b]] @ matrix.strips[0].strip(b)
            assert np.abs(dual.Y[0][b, : matrix.size] - true).max() <= dual.drift < 1e-9
        started = float(dual.values[-1])
        dual.values[-1] = 0.0
        dual.recompute()
        assert started != 0.0
        assert eta < dual.residual()[1].eta


def test_rounds_settle_on_low_rungs() -> None:
    """Far from ties, a round needs no width at all; the report says who settled how many."""
    ladder, _ = grown(kb.Estimated(0.05, kb.RBF(0.1)), "per_arm")
    rng = np.random.default_rng(1)
    for _ in range(50):
        ladder.leaders(Query(np.arange(5), rng.normal(size=(1, 1, 2))), np.array([0.003]))
    report = ladder.report()
    settled = {k.removeprefix("settled: "): v for k, v in report.items() if k.startswith("settled")}
    assert sum(settled.values()) == 50
    assert settled.get("residual", 0) + settled.get("steps", 0) > 25
    assert report["bytes"] > 0


@pytest.mark.parametrize("engine", ["exact"])
@pytest.mark.parametrize("weighting", ["per_arm", "uniform"])
@pytest.mark.parametrize("sim", [kb.Estimated(0.5, kb.RBF(1.0)), kb.Pooled(), kb.Independent()], ids=str)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kinbandits.errors.NumericalWarning")
def test_many_hard_updates_stay_sound(engine: str, weighting: str, sim: kb.similarity.Similarity) -> None:
    """Duplicates, ridge 1e-8, a huge length scale: small backward error and no NaN to the end."""
    rng = np.random.default_rng(5)
    policy = kb.KMTLUCB(
        arms=3, context_kernel=kb.RBF(1e3), similarity=sim, ridge=1e-8, weighting=weighting, engine=engine
    )
    pool = rng.normal(size=(40, 2))
    n = 600
    for i in range(n):
        policy.observe([int(rng.integers(3))], pool[rng.integers(40, size=1)], rng.normal(size=1))
        if i % 20 == 0:
            decision = policy.choose(pool[0])
            assert np.isfinite(decision.scores).all()
    regression = policy.regression
    h = regression.history
    K = regression.settings.terms.gram(regression.similarity_matrices, h.arms, h.contexts, h.arms, h.contexts)
    M = K + np.diag(regression.settings.noise(h.arms, h.counts))
    alpha = regression.dual()
    assert np.isfinite(alpha).all()
    error = np.abs(h.rewards - M @ alpha).max() / (np.abs(M).sum(axis=1).max() * np.abs(alpha).max())
    assert error < 1e-12
