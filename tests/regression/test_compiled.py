"""The compiled core: optional, never an old build, the arms and rungs of NumPy, and no wild pointers."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits import _compiled as compiled
from kinbandits.environments import Classification, SyntheticNews
from kinbandits.presets import paper
from kinbandits.regression.exact.ladder import LadderRegression

needs_core = pytest.mark.skipif(compiled.CORE is None, reason=f"the compiled core is {compiled.STATE}")


def state(**environment: str) -> str:
    code = "from kinbandits import _compiled as compiled; print(compiled.STATE)"
    kept = {name: value for name, value in os.environ.items() if name != "KINBANDITS_COMPILED"}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=kept | environment
    ).stdout.strip()


def test_the_environment_switches_it_off() -> None:
    assert state(KINBANDITS_COMPILED="0") == "switched off by KINBANDITS_COMPILED=0"
    assert state() in ("in use", "not built", "built from another version")


@needs_core
def test_an_old_build_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "TEXT", compiled.TEXT + 1)
    assert compiled._load() == (None, "built from another version")


# -- the same play --------------------------------------------------------------------------------


def play(settings: dict[str, Any], environment: Any, rounds: int) -> tuple[list[Any], dict[str, Any], np.ndarray]:
    """Arms, report, and the last scores."""
    policy = kb.KMTLUCB(**{**settings, "arms": environment.arms, "tie_break": "first", "engine": "exact"})
    start = environment.start_rows()
    if len(start[0]):
        policy.observe(*start)
    names, arms = list(policy.arms), []
    for _, round_ in zip(range(rounds), environment.rounds(), strict=False):
        decision = policy.choose(round_.context)
        policy.update(decision, float(round_.rewards[names.index(decision.arm)]))
        arms.append(decision.arm)
    return arms, policy.engine_report(), policy.predict(np.atleast_2d(round_.context)[None]).mean


def both(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], environment: Any, rounds: int
) -> dict[str, Any]:
    """Play with the core and without; compare everything but who did it."""
    arms, report, means = play(settings, environment, rounds)
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "CORE", None)
        others, other_report, other_means = play(settings, environment, rounds)
    assert arms == others
    np.testing.assert_allclose(means, other_means, rtol=1e-8, atol=1e-10)
    told = {name for name in report if name not in ("bytes", "condition bound")}
    assert {n: report[n] for n in told} == {n: other_report[n] for n in told}
    return report


SIMILARITIES: dict[str, kb.similarity.Similarity | None] = {
    "published": None,
    "mixed": kb.Mixed(0.3),
    "independent": kb.Independent(),
}


@needs_core
@pytest.mark.parametrize("weighting", ["per_arm", "uniform"])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_same_arms_rung_for_rung(monkeypatch: pytest.MonkeyPatch, similarity: str, weighting: str) -> None:
    settings = {**paper("digits"), "weighting": weighting}
    if (given := SIMILARITIES[similarity]) is not None:
        settings["similarity"] = given
    report = both(monkeypatch, settings, Classification(data="digits", protocol="paper", seed=1), 420)
    if weighting == "per_arm":
        assert report["method"] == "ladder"
        assert report["reference"] == "arms"
        assert sum(v for k, v in report.items() if k.startswith("settled")) > 300
        assert report["settled: widths"] > 0


@needs_core
def test_the_same_arms_with_a_context_per_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = paper("synthetic")
    report = both(monkeypatch, settings, SyntheticNews(seed=2, horizon=400), 400)
    assert report["method"] == "ladder"


@needs_core
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_same_arms_in_whole_games(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    settings = paper("digits")
    both(monkeypatch, settings, Classification(data="digits", protocol="paper", seed=seed), 1230)


@needs_core
def test_the_estimated_similarity_is_that_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums to the last bit, the matrix to rounding; arms without rows too."""
    rng = np.random.default_rng(0)
    similarity = kb.Estimated(0.3, kb.RBF(0.7))
    rows = kb.history.History.of(5, rng.integers(4, size=200), rng.normal(size=(200, 2)), np.zeros(200))
    ours = similarity.tracker(rows)
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "CORE", None)
        theirs = similarity.tracker(rows)
        wanted = theirs.matrix
    np.testing.assert_array_equal(vars(ours)["_G"], vars(theirs)["_G"])
    np.testing.assert_allclose(ours.matrix, wanted, rtol=1e-13)
    np.testing.assert_allclose(ours.matrix, similarity.matrix(rows), rtol=1e-10)


@needs_core
@pytest.mark.parametrize("similarity", [kb.Independent(), kb.Mixed(0.4)], ids=str)
def test_a_dictionary_is_read_as_in_numpy(monkeypatch: pytest.MonkeyPatch, similarity: kb.Mixed) -> None:
    """Rows that are not yet written into the inverses among them; arms without points too."""
    rng = np.random.default_rng(0)
    policy = kb.KMTLUCB(
        5, similarity=similarity, context_kernel=kb.RBF(2.0), ridge=0.1, cold_start="borrow", engine=kb.Budgeted(40)
    )
    for arm, x, y in zip(rng.integers(4, size=90), rng.normal(size=(90, 2)), rng.normal(size=90), strict=True):
        policy.observe([arm], x[None, :], [y])
    x = rng.normal(size=2)
    ours = policy.predict(x)
    monkeypatch.setattr(compiled, "CORE", None)
    theirs = policy.copy().predict(x)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours.width, theirs.width, rtol=1e-10)


# -- what comes in at the door --------------------------------------------------------------------


def ladder(n_rows: int = 150) -> LadderRegression:
    rng = np.random.default_rng(0)
    policy = kb.KMTLUCB(
        4, similarity=kb.Estimated(0.2), context_kernel=kb.RBF(), weighting="per_arm", engine="exact"
    )
    policy.observe(rng.integers(4, size=n_rows), rng.normal(size=(n_rows, 2)), rng.normal(size=n_rows))
    policy.choose([0.0, 0.0])
    core = policy.regression._core  # type: ignore[attr-defined]
    assert isinstance(core, LadderRegression)
    return core


@needs_core
def test_wrong_arrays_are_refused() -> None:
    engine = ladder()
    assert engine.core is not None
    assert compiled.CORE is not None
    handle, values = engine.core._bound(), np.zeros(151)
    K_arm, lists = engine.matrix.K_arms[0], [np.zeros(8)] * 4

    def settling(arms: np.ndarray, rows: int = 1, known: np.ndarray | None = None) -> tuple[Any, ...]:
        assert compiled.CORE is not None
        room = np.zeros((6, len(arms))) if known is None else known
        of_arms = [np.ones(4)] * 4
        return (
            compiled.CORE.settle, handle, 150, 150, K_arm, *of_arms, np.zeros(4 * 151), rows, arms, room, True,
            2, 0, (1.0,) * 12,
        )  # fmt: skip

    def reading(**other: Any) -> tuple[Any, ...]:
        assert compiled.CORE is not None
        given = {"gap": np.eye(2), "kx": np.ones(2), "arms": np.array([0, 1]), "K_arm": np.eye(2), "w": np.ones(2)}
        given |= {"late": np.ones((2, 2)), "scales": np.ones(2), "rows": 2, "candidates": np.arange(2)}
        return (compiled.CORE.read, *(given | other).values(), np.zeros((2, 2)))

    calls: list[tuple[Any, ...]] = [
        (compiled.CORE.bind, *[np.zeros(4)] * 11),
        (
            compiled.CORE.bind,
            np.zeros(256, int),
            np.zeros(4, int),
            lists,
            *[np.zeros(256)] * 5,
            lists,
            lists,
            lists,
        ),
        (compiled.CORE.observe, handle, 149, 0, 0, K_arm, values, 0.0, 1.0, 1.0, False),  # not its size
        (compiled.CORE.observe, handle, 150, 150, 4, K_arm, values, 0.0, 1.0, 1.0, False),  # no such arm
        (compiled.CORE.observe, handle, 150, 150, 0, K_arm, values[:-1], 0.0, 1.0, 1.0, False),
        (compiled.CORE.observe, handle, 150, 150, 0, K_arm[:3], values, 0.0, 1.0, 1.0, False),
        (compiled.CORE.observe, handle, 150, 150, 0, K_arm.astype(np.float32), values, 0.0, 1.0, 1.0, False),
        (compiled.CORE.squares, np.zeros((2, 3)), np.zeros((4, 3)), 5, np.zeros((2, 6))),
        (compiled.CORE.squares, np.zeros((2, 3)), np.zeros((4, 3)), 4, np.zeros((2, 3))),
        (compiled.CORE.squares, np.zeros(3), np.zeros((4, 3)), 4, np.zeros((1, 5))),
        (compiled.CORE.embed, np.eye(2), np.ones(2), np.ones(2, int), np.array([0, 2]), np.ones(2), 1),
        (compiled.CORE.embed, np.eye(2), np.ones(2), np.ones(2, int), np.array([0, 1]), np.ones(2), 2),
        (compiled.CORE.embed, np.eye(2), np.ones(2), np.ones(2, int), np.array([0, 1]), np.ones(2), -1),
        (compiled.CORE.alike, np.eye(2), np.ones(3, int), -0.5, np.eye(3)),
        (compiled.CORE.alike, np.eye(3), np.ones(3), -0.5, np.eye(3)),
        reading(arms=np.array([0, 2])),  # no such arm
        reading(rows=3),
        reading(gap=np.eye(1)),
        reading(K_arm=np.ones((2, 3))),
        settling(np.array([0, 4])),  # no such arm
        settling(np.arange(2), rows=3),
        settling(np.arange(4), known=np.zeros((5, 4))),
    ]
    for function, *arguments in calls:
        with pytest.raises((ValueError, BufferError)):
            function(*arguments)
    with pytest.raises(TypeError):
        compiled.CORE.settle(handle)
    with pytest.raises(ValueError):
        compiled.CORE.settle("no handle", 150, 150, *[values] * 6, 1, *[values] * 2, True, 2, 0, (0.0,) * 12)


@needs_core
def test_copies_have_memory_of_their_own() -> None:
    engine = ladder()
    query = kb.regression.Query(np.arange(4), np.zeros((1, 1, 2)))
    wanted = engine.leaders(query, np.array([0.1]))
    for other in (copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))):
        other.observe(np.array([1]), np.ones((1, 2)), np.ones(1))
        other.leaders(query, np.array([0.1]))
        assert engine.matrix.size == 150
        assert other.matrix.size == 151
    np.testing.assert_array_equal(engine.leaders(query, np.array([0.1])), wanted)
