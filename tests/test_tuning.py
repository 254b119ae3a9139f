"""Replay tuning: the fast runner plays as the policy does, and the grid is judged by what was played."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import TuningWarning
from kinbandits.replayed_games import play_independent
from kinbandits.tuning import tune


def problem(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = 2.0 * rng.normal(size=(4, 3))
    y = rng.integers(4, size=n)
    return centres[y] + rng.normal(size=(n, 3)), y


@pytest.mark.parametrize("log", [False, True])
def test_runner_plays_as_the_policy(log: bool) -> None:
    X, y = problem()
    Y = np.eye(4)[y] + 0.01 * np.random.default_rng(1).normal(size=(120, 4))
    if log:
        Y[np.random.default_rng(2).random(Y.shape) < 0.5] = np.nan
    kernel = kb.RBF(length_scale=2.0)
    played, received = play_independent(kernel(X, X), Y, 0.01, 0.1)
    policy = kb.KMTLUCB(4, context_kernel=kernel, similarity=kb.Independent(), ridge=0.01, tie_break="first")
    rounds, rewards = [], []
    for i in range(120):
        decision = policy.choose(X[i])
        reward = Y[i, decision.index]
        if np.isnan(reward):
            policy.cancel(decision)
            continue
        policy.update(decision, float(reward))
        rounds.append(i)
        rewards.append(reward)
    np.testing.assert_array_equal(played, rounds)
    np.testing.assert_array_equal(received, rewards)


def test_best_point_is_best_on_the_grid_and_repeats() -> None:
    X, y = problem()
    calls: list[tuple[int, int]] = []
    settings = {"length_scales": [0.1, 1.0], "ridges": [0.01], "widths": [0.0, 1.0], "orders": 3}
    found = tune(X, labels=y, progress=lambda i, n: calls.append((i, n)), **settings)
    assert found.best == min([*found.table, found.default], key=lambda t: t.loss)
    assert calls[-1] == (15, 15)
    assert found.table == tune(X, labels=y, **settings).table
    assert found.table != tune(X, labels=y, seed=1, **settings).table
    median = kb.RBF.median(X).length_scale
    assert sorted({t.length_scale for t in found.table}) == pytest.approx([0.1 * median, median])
    assert kb.KMTLUCB(4, **found.settings).ridge == found.best.ridge
    assert "length_scale" in str(found)
    full = tune(X, rewards=np.eye(4)[y], **settings)
    assert full.table == found.table


def test_log_is_judged_by_what_it_knows() -> None:
    rng = np.random.default_rng(0)
    X, arms = rng.uniform(size=(600, 1)), rng.integers(2, size=600)
    y = (30.0 * X[:, 0]).astype(int) % 2  # stripes far narrower than the median distance
    log = {"arms": arms, "rewards": (arms == y) * 0.1, "propensities": np.full(600, 0.5)}
    found = tune(X, **log, length_scales=[0.03], ridges=[0.01], widths=[0.3, 1.0], orders=2)
    assert found.best.loss < -0.08  # minus the mean reward; a random player gets 0.05
    assert not found.fell_back
    assert found.best == found.table[0]
    assert 270 < found.best.rounds < 330


def test_a_log_that_tells_too_little_keeps_the_default_and_says_so() -> None:
    X, y = problem(160)
    arms = np.random.default_rng(0).integers(4, size=160)
    log = {"arms": arms, "rewards": (arms == y) * 1.0, "propensities": np.full(160, 0.25)}
    with pytest.warns(TuningWarning, match=r"only \d\d of 160 rows could be scored .* which are kept"):
        found = tune(X, **log, orders=2)
    assert found.fell_back
    assert found.best == found.default
    assert found.settings == {
        "context_kernel": kb.KMTLUCB(4).context_kernel,
        "ridge": kb.LearnedRidge(),
        "exploration": kb.exploration.Deviations(),
    }
    assert 20 < found.best.rounds < 80
    assert "of 160 rows scored in a game" in str(found)
    assert "kept" in str(found)


def test_the_grid_follows_the_noise_and_the_unit() -> None:
    X, y = problem(150)
    clicks = (np.random.default_rng(3).random((150, 4)) < 0.2 + 0.3 * np.eye(4)[y]).astype(float)
    grid = {"length_scales": [1.0], "widths": [0.3], "orders": 1}
    plain, noisy, large = (tune(X, rewards=r, **grid) for r in (np.eye(4)[y], clicks, 1000.0 * clicks))
    assert noisy.noise.ridge > 3.0 * plain.noise.ridge
    assert [t.ridge for t in large.table] == pytest.approx([t.ridge for t in noisy.table])
    assert [t.loss for t in large.table] == pytest.approx([1000.0 * t.loss for t in noisy.table])
    assert large.default.loss == pytest.approx(1000.0 * noisy.default.loss)
    for found in (plain, noisy, large):  # never worse than the default, on the rows that were played
        assert found.best.loss <= found.default.loss


def test_the_default_is_kept_where_nothing_tried_is_better() -> None:
    X, y = problem()
    found = tune(X, labels=y, length_scales=[0.001], ridges=[10.0], widths=[0.0], orders=2)
    assert found.fell_back
    assert found.best == found.default
    assert found.table[0].loss > found.default.loss
    assert found.best.rounds == len(X)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({}, "give labels="),
        ({"labels": [1, 2]}, "labels must have one entry"),
        ({"labels": [0, 1, 0, 1, 0], "ridges": []}, "ridges is empty"),
        ({"labels": [0, 1, 0, 1, 0], "ridges": [-1.0]}, "ridges must be greater"),
        ({"labels": [0, 1, 0, 1, 0], "orders": 0}, "orders must be"),
        ({"labels": [0, 1, 0, 1, 0], "arms": [0] * 5}, "belong to a log"),
        ({"rewards": [1.0] * 5}, "come with arms="),
        ({"rewards": [1.0] * 5, "arms": [0] * 4}, "one entry per row"),
        ({"rewards": [1.0] * 5, "arms": [0] * 5, "propensities": [0.0] * 5}, "propensities must be"),
    ],
)
def test_bad_input(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        tune(np.arange(10.0).reshape(5, 2), **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 4 rows"):
        tune(np.zeros((2, 2)), labels=[0, 1])


def test_any_similarity_is_played_by_the_policy_itself() -> None:
    X, y = problem(60)
    grid: dict[str, object] = {"length_scales": [0.5, 1.0], "ridges": [0.01], "widths": [0.3, 1.0], "orders": 2}
    plain = tune(X, labels=y, **grid)  # type: ignore[arg-type]
    assert tune(X, labels=y, similarity=kb.Independent(), **grid).table == plain.table  # type: ignore[arg-type]
    alone = tune(X, labels=y, similarity=kb.Mixed(0.0), **grid)  # type: ignore[arg-type]
    assert alone.table == plain.table  # another road to independent arms
    pooled = tune(X, labels=y, similarity=kb.Pooled(), **grid)  # type: ignore[arg-type]
    assert min(t.loss for t in pooled.table) > max(t.loss for t in plain.table)
    per_arm = tune(X, labels=y, weighting="per_arm", **grid)  # type: ignore[arg-type]
    assert per_arm.table != plain.table


def test_any_similarity_on_a_log() -> None:
    X, y = problem(80)
    arms = np.random.default_rng(0).integers(4, size=80)
    settings = {"arms": arms, "rewards": (arms == y).astype(float), "length_scales": [1.0], "orders": 2}
    with pytest.warns(TuningWarning):
        plain = tune(X, **settings)  # type: ignore[arg-type]
    with pytest.warns(TuningWarning):
        assert tune(X, similarity=kb.Mixed(0.0), **settings).table == plain.table  # type: ignore[arg-type]


def test_the_kernel_is_that_of_the_defaults_or_the_one_asked_for() -> None:
    X, y = problem(40)
    grid = {"length_scales": [0.5, 1.0], "ridges": [0.01], "widths": [0.3], "orders": 2}
    usual = kb.KMTLUCB(4).terms.terms[0].context_kernel
    assert isinstance(usual, kb.kernels.WithLinear)
    found = tune(X, labels=y, **grid)
    assert found.table[0].kernel == usual.rule.kernel.replace(length_scale=found.table[0].length_scale)
    assert found.settings["context_kernel"] == found.best.kernel
    median = kb.RBF.median(X).length_scale
    for kernel in (kb.RBF(), kb.Matern(0.5)):
        found = tune(X, labels=y, kernel=kernel, **grid)
        wanted = [kernel.replace(length_scale=c * kernel.length_scale * median) for c in grid["length_scales"]]
        assert sorted(map(repr, (t.kernel for t in found.table))) == sorted(map(repr, wanted))
        for t in found.table:  # the losses are those of this kernel
            rng = np.random.default_rng(0)
            orders = [rng.permutation(40) for _ in range(2)]
            games = [
                play_independent(t.kernel(X[o], X[o]), np.eye(4)[y[o]], t.ridge, t.exploration)[1] for o in orders
            ]
            assert t.loss == pytest.approx(1.0 - np.mean(games))
    for wrong in (kb.Linear(), kb.RBF((1.0, 2.0, 3.0)), "RBF"):
        with pytest.raises(TypeError, match="kernel must be one with a single length scale"):
            tune(X, labels=y, kernel=wrong)


def test_similarity_that_does_not_fit_is_refused_at_once() -> None:
    X, y = problem(40)
    with pytest.raises(ValueError, match="3"):
        tune(X, labels=y, similarity=kb.Known(np.eye(3)))


def test_rows_that_are_given_and_other_rules() -> None:
    X, y = problem(80)
    Y, kernel = np.eye(4)[y], kb.RBF(length_scale=2.0)
    arms = [0, 1, 2, 3]
    played, received = play_independent(kernel(X, X), Y, 0.01, 0.1, given=arms)
    policy = kb.KMTLUCB(4, context_kernel=kernel, similarity=kb.Independent(), ridge=0.01, tie_break="first")
    capped = kb.KMTLUCB(
        4,
        context_kernel=kernel,
        similarity=kb.Independent(),
        tie_break="first",
        exploration=kb.UCB(0.1, ceiling=0.9),
    )
    rule = play_independent(
        kernel(X, X), Y, 0.01, 0.0, given=arms, rule=lambda m, d, t: np.minimum(m + d, 0.9) + 1e-9 * m
    )
    for fast, slow in (((played, received), policy), (rule, capped)):
        slow.observe(arms, X[:4], Y[np.arange(4), arms])
        rewards = []
        for i in range(4, 80):
            decision = slow.choose(X[i])
            rewards.append(Y[i, decision.index])
            slow.update(decision, rewards[-1])
        np.testing.assert_array_equal(fast[0], np.arange(4, 80))
        np.testing.assert_array_equal(fast[1], rewards)
    assert not np.array_equal(received, rule[1])
