"""Each method of the exact engine against the paper's formula, at sizes where it is at work, compiled and not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import kinbandits as kb
from kinbandits import _compiled as compiled
from kinbandits.regression import Regression, RegressionSettings
from kinbandits.regression.exact.append import AppendRegression
from kinbandits.regression.exact.dense import DenseRegression
from kinbandits.regression.exact.features import FeatureRegression
from kinbandits.regression.exact.ladder import LadderRegression
from kinbandits.regression.exact.lagged import LaggedReference
from kinbandits.regression.naive import NaiveRegression
from kinbandits.terms import as_terms
from regression.test_engines import compare, compare_leaders, compare_state
from strategies import SIMILARITIES, queries, random_rows, two_terms

N_ARMS = 4
NARROW = kb.Estimated(0.05, kb.RBF(0.1))


def lagged(settings: RegressionSettings, history: object) -> LadderRegression:
    """The ladder on the whole matrix, whatever the similarity."""
    ladder = LadderRegression(settings, history)  # type: ignore[arg-type]
    ladder._suitable = lambda: LaggedReference(ladder.matrix)  # type: ignore[method-assign]
    ladder._use(ladder._suitable())
    return ladder


ANY = list(SIMILARITIES)
FIXED = [name for name in ANY if SIMILARITIES[name](N_ARMS).fixed]
APART = ["independent", "mixed", "mixed-negative", "graph", "known", "narrow"]  # away from singular: blocks fit
METHODS: dict[str, tuple[Callable[..., Regression], list[str], list[str], object]] = {
    "dense": (DenseRegression, ANY, ["uniform", "per_arm"], kb.RBF(length_scale=0.5)),
    "append": (AppendRegression, FIXED, ["uniform"], kb.RBF(length_scale=0.5)),
    "features": (FeatureRegression, FIXED, ["uniform", "per_arm"], kb.Linear() + kb.kernels.Constant(1.0)),
    "ladder-blocks": (LadderRegression, APART, ["uniform", "per_arm"], kb.RBF(length_scale=0.5)),
    "ladder-lagged": (lagged, ANY, ["uniform", "per_arm"], kb.RBF(length_scale=0.5)),
}
GRID = [
    pytest.param(method, similarity, weighting, id=f"{method}-{similarity}-{weighting}")
    for method, (_, similarities, weightings, _) in METHODS.items()
    for similarity in similarities
    for weighting in weightings
]


@pytest.fixture(params=["core", "numpy"])
def text(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of the two texts is at work."""
    if request.param == "numpy":
        monkeypatch.setattr(compiled, "CORE", None)
    elif compiled.CORE is None:
        pytest.skip(f"the compiled core is {compiled.STATE}")
    return str(request.param)


@pytest.mark.parametrize(("method", "similarity", "weighting"), GRID)
def test_equals_naive(method: str, similarity: str, weighting: str, text: str) -> None:
    """170 rows at once, then one by one: every number, shared and per-arm contexts, the state."""
    make, _, _, kernel = METHODS[method]
    rows = random_rows(seed=3, n_arms=N_ARMS, t=176)
    value = NARROW if similarity == "narrow" else SIMILARITIES[similarity](N_ARMS)
    product = as_terms(kb.Term(value, kernel))
    settings = RegressionSettings(product, 0.1, weighting, "explore")  # type: ignore[arg-type]
    engine, naive = make(settings, rows[:170].history()), NaiveRegression(settings, rows[:170].history())
    rng = np.random.default_rng(0)
    for i in range(170, 177):
        asked = queries(rng, N_ARMS)
        if i % 3 == 2:
            compare(engine, naive, asked)
            compare_state(engine, naive, rng)
        for query in asked:
            compare_leaders(engine, naive, query)
        if i < len(rows):
            row = rows[i : i + 1]
            engine.observe(row.arms, row.contexts, row.rewards)
            naive.observe(row.arms, row.contexts, row.rewards)
    if method == "ladder-blocks":
        assert engine.report()["reference"] == "arms"


@pytest.mark.parametrize("method", ["dense", "append", "ladder-lagged"])
@pytest.mark.parametrize("cold_start", ["explore", "borrow"])
def test_two_terms(method: str, cold_start: str) -> None:
    make, _, _, kernel = METHODS[method]
    rows = random_rows(seed=4, n_arms=N_ARMS, t=150)
    settings = RegressionSettings(two_terms(kb.Mixed(0.5), kernel), 0.1, "uniform", cold_start)  # type: ignore[arg-type]
    engine, naive = make(settings, rows.history()), NaiveRegression(settings, rows.history())
    rng = np.random.default_rng(0)
    compare(engine, naive, queries(rng, N_ARMS))
    compare_state(engine, naive, rng)


def test_the_methods_are_those_that_the_engine_picks() -> None:
    """Sizes and settings at which each is at work."""

    def method(t: int, similarity: kb.similarity.Similarity, weighting: str, kernel: object) -> str:
        policy = kb.KMTLUCB(4, similarity=similarity, weighting=weighting, context_kernel=kernel, engine="exact")
        rows = random_rows(seed=1, n_arms=4, t=t)
        policy.observe(rows.arms, rows.contexts, rows.rewards)
        report = policy.engine_report()
        return " ".join(filter(None, [report["method"], report.get("reference")]))

    assert method(60, kb.Estimated(), "per_arm", kb.RBF()) == "dense"
    assert method(150, kb.Estimated(0.1), "per_arm", kb.RBF()) == "ladder arms"
    assert method(150, kb.Mixed(0.99), "per_arm", kb.RBF()) == "ladder whole"
    assert method(150, kb.Independent(), "per_arm", kb.RBF()) == "ladder arms"
    assert method(60, kb.Independent(), "uniform", kb.RBF()) == "append"
    assert method(60, kb.Independent(), "uniform", kb.Linear()) == "feature"
