"""The exact engine against the paper's formula, after every observation, on every path it can take."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from worlds import (
    KERNELS,
    SIMILARITIES,
    pair,
    queries,
    random_rows,
    row,
    same_answers,
    same_leaders,
    same_state,
    settings,
)

from kinbandits.history import History
from kinbandits.regression import Query, Settings, make, restore

WEIGHTINGS, COLD = ["uniform", "per_arm"], ["explore", "borrow"]


def play(s: Settings, rounds: int, compare: bool = True) -> dict[str, Any]:
    """A game played by the engine's leaders: a context for all, for one task's candidates, or for each arm in turn.

    Leaders, and at times all answers, are compared with the formula, which costs t^3.
    """
    fast, naive = pair(s, History(s.n_arms))
    rng = np.random.default_rng(11)
    for t in range(rounds):
        shared, task = t % 3 == 0, t % 3 == 1
        arms = np.full(4, rng.integers(max(s.n_arms - 1, 1))) if task else np.arange(s.n_arms)
        query = Query(arms, rng.uniform(-1.0, 1.0, (1, 1 if shared else len(arms), 3)))
        if task:
            query.contexts[0, 3] = query.contexts[0, 2]  # a tie, if these lead
        place = int(fast.leaders(query, np.array([0.01])).argmax())
        if compare and (t < 12 or t % 9 == 0):
            same_leaders(fast, naive, query)
        if compare and (t < 12 or t % 80 == 79):
            for other in queries(rng, s.n_arms):
                same_answers(fast, naive, other)
            same_state(fast, naive, rng)
        x = query.contexts[0, 0 if shared else place]
        reward = np.array([np.cos(2.0 * x[0] + arms[place]) + 0.05 * rng.standard_normal()])
        for engine in (fast, naive):
            engine.observe(arms[place : place + 1], x[None, :], reward)
    return fast.report()


GRID = [(k, "estimated", w, "explore", 1) for k in KERNELS for w in WEIGHTINGS]
GRID += [(k, "mixed", "uniform", "borrow", 1) for k in KERNELS]
GRID += [("rbf", s, w, c, terms) for s in SIMILARITIES for w in WEIGHTINGS for c in COLD for terms in (1, 2)]


@pytest.mark.parametrize("case", GRID, ids=lambda case: "-".join(map(str, case)))
def test_equals_the_formula_from_the_first_row(case: tuple[Any, ...]) -> None:
    kernel, similarity, weighting, cold, terms = case
    for n_arms, units in ((4, {"level": 0.3, "unit": 2.0}), (1, {})):
        s = settings(n_arms, similarity, KERNELS[kernel], terms=terms, weighting=weighting, cold_start=cold, **units)
        play(s, 10)


@pytest.mark.slow
@pytest.mark.parametrize("cold_start", COLD)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_equals_the_formula_for_400_rounds(similarity: str, weighting: str, cold_start: str) -> None:
    """Beyond the sizes at which the method changes."""
    play(settings(5, similarity, ridge=0.01, weighting=weighting, cold_start=cold_start), 400)


def test_every_method_and_every_rung_is_at_work_in_these_games() -> None:
    """The same games, looked at from inside: nothing above is compared with itself alone."""
    reached: Counter[str] = Counter()
    for similarity, weighting, kernel, terms in (
        ("estimated", "per_arm", None, 1),
        ("known", "uniform", None, 1),
        ("known", "uniform", KERNELS["linear"], 1),
        ("estimated", "uniform", None, 2),
    ):
        report = play(settings(5, similarity, kernel, terms=terms, ridge=0.01, weighting=weighting), 400, False)
        reached[report["method"]] += 1
        reached.update({name: times for name, times in report.items() if name.startswith("settled: ")})
    rungs = [f"settled: {rung}" for rung in ("residual", "steps", "widths", "cg", "dense")]
    assert not [name for name in ("linear", "grown", "dense", "ladder", *rungs) if not reached[name]], reached


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_many_at_once_is_one_by_one(similarity: str, weighting: str) -> None:
    rows = random_rows(5, 3, 120)
    s = settings(3, similarity, KERNELS["matern52"], weighting=weighting)
    bulk, single = make("exact", s, rows.copy()), make("exact", s)
    for i in range(100):
        single.observe(*row(rows, i))
    single.observe(*row(rows, 100, 120))
    rng = np.random.default_rng(0)
    for query in queries(rng, 3):
        same_answers(single, bulk, query)
    same_state(single, bulk, rng)
    for a, b in zip(single.k_z, bulk.k_z, strict=True):
        np.testing.assert_array_equal(a, b)  # to the last bit: a saved policy must resume exactly


CHANGES: dict[str, Any] = {
    "ridge": {"ridge": 0.4},
    "units": {"level": 0.7, "unit": 0.2},
    "kernel": {"kernel": KERNELS["matern32"]},
    "linear": {"kernel": KERNELS["linear"]},
    "similarity": {"similarity": "known"},
    "weights": {"weighting": "per_arm"},
    "arms": {"n_arms": 7},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("similarity", ["independent", "mixed", "graph", "estimated"])
def test_changed_is_as_if_made_anew(similarity: str, change: str) -> None:
    rows = random_rows(2, 4, 330)
    engine = make("exact", settings(4, similarity), rows.head(300))
    before = engine.predict(queries(np.random.default_rng(1), 4)[0])
    arguments: dict[str, Any] = {"n_arms": 4, "similarity": similarity, **CHANGES[change]}
    s = settings(**arguments)
    other = engine.changed(s)
    for i in range(300, 330):  # both learn on, other rows
        engine.observe(*row(rows, i))
        other.observe(*row(rows, 629 - i))
    fresh = rows.head(300)
    fresh.append(*(part[::-1] for part in row(rows, 300, 330)))
    naive = make("naive", s, fresh.copy(s.n_arms))
    rng = np.random.default_rng(0)
    for query in queries(rng, s.n_arms):
        same_answers(other, naive, query)
    old = make("naive", settings(4, similarity), rows.copy())
    for query in queries(rng, 4):
        same_answers(engine, old, query)
    assert before.mean.shape == (2, 4)


@pytest.mark.parametrize("similarity", ["independent", "mixed", "estimated"])
def test_changed_rows_and_an_arm_that_leaves(similarity: str) -> None:
    rows = random_rows(2, 4, 150)
    engine = make("exact", settings(4, similarity), rows.copy())
    for s, other, wanted in (
        (settings(3, similarity), {"removed": 1}, rows.without_arm(1)),
        (settings(4, similarity), {"rows": rows.head(40)}, rows.head(40)),
    ):
        changed, naive = engine.changed(s, **other), make("naive", s, wanted)  # type: ignore[arg-type]
        same_state(changed, naive, np.random.default_rng(0))
        for query in queries(np.random.default_rng(0), s.n_arms):
            same_answers(changed, naive, query)
    assert engine.n_rows == 150


@pytest.mark.parametrize("similarity", ["independent", "mixed", "estimated"])
def test_saved_and_restored_goes_on_alike(similarity: str) -> None:
    rows = random_rows(4, 3, 160)
    s = settings(3, similarity, level=0.1, unit=3.0)
    engine = make("exact", s, rows.head(150))
    data, arrays = engine.state()
    again = restore("exact", s, data, arrays)
    for i in range(150, 160):
        engine.observe(*row(rows, i))
        again.observe(*row(rows, i))
    for query in queries(np.random.default_rng(0), 3):
        same_answers(again, engine, query)


class Failing:
    """A kernel that fails when it is told to."""

    def __init__(self) -> None:
        self.left = 10**9

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("no kernel today")
        return np.asarray(np.exp(-np.abs(A[:, None] - B[None]).sum(axis=2)))


@pytest.mark.parametrize("t", [0, 20, 99, 130])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("similarity", ["independent", "mixed", "estimated"])
def test_an_update_that_fails_changes_nothing(similarity: str, weighting: str, t: int) -> None:
    from kinbandits.kernels import as_kernel

    function, rows = Failing(), random_rows(1, 3, 150)
    s = settings(3, similarity, as_kernel(function), weighting=weighting)
    engine = make("exact", s, rows.head(t))
    query = queries(np.random.default_rng(0), 3)[0]
    before = engine.predict(query)
    failed = 0
    for part in (row(rows, 130), row(rows, 130, 133)):
        for calls in range(5):
            function.left = calls
            try:
                engine.observe(*part)
            except RuntimeError:
                failed += 1
                function.left = 10**9
                np.testing.assert_allclose(engine.predict(query).mean, before.mean, atol=1e-12)
                np.testing.assert_allclose(engine.predict(query).width, before.width, rtol=1e-9)
                assert engine.n_rows == t
            else:
                break
        function.left = 10**9
        engine = make("exact", s, rows.head(t))
    assert failed >= 2
