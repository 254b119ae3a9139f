"""What is learned beside the rows: when, from which rows, what it says, and that it can be pinned."""

from __future__ import annotations

import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import ChangeWarning
from kinbandits.model import following
from strategies import PROBE, play, same_numbers

STONES = [n for n in range(1, 400) if following(n - 1) == n]


def world(n: int, n_arms: int = 3, seed: int = 0, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    arms, X = rng.integers(0, n_arms, n), rng.normal(size=(n, 3))
    return arms, X, np.sin(2.0 * X[:, 0] + arms) + noise * rng.normal(size=n)


def taught(rows: Any, pieces: list[int], **settings: Any) -> kb.KMTLUCB:
    """Rows in pieces that end at these numbers."""
    policy = kb.KMTLUCB(3, **settings)
    for low, high in itertools.pairwise([0, *pieces]):
        policy.observe(*(v[low:high] for v in rows))
    return policy


SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "window": {"memory": kb.Window(40)},
    "descriptors": {"similarity": kb.Learned(kb.Known(descriptors=[0.0, 0.5, 2.0]))},
    "per_arm": {"weighting": "per_arm"},
    "ridge given": {"ridge": 0.3},
    "range": {"rewards": (-3.0, 3.0)},
    "naive": {"engine": "naive"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_model_depends_on_the_first_rows_alone_whatever_pieces_they_came_in(name: str, tmp_path: Path) -> None:
    n = 90
    rows, settings = world(n), SETTINGS[name]
    policies = [taught(rows, pieces, **settings) for pieces in ([*range(1, n + 1)], [n], [7, 33, 34, 61, n])]
    decided = kb.KMTLUCB(3, **settings)
    for arm, x, reward in zip(*rows, strict=True):
        decided.update(decided.choose(x, arms=[int(arm)]), reward)
    half = taught([v[:50] for v in rows], [50], **settings)
    half.save(tmp_path / "half.kb")
    resumed = kb.load(tmp_path / "half.kb")
    resumed.observe(*(v[50:] for v in rows))
    for other in (*policies[1:], decided, resumed):
        assert other.model.same_view(policies[0].model)
        assert str(other.model) == str(policies[0].model)
        same_numbers(other, policies[0], 1e-7)
    for other in (*policies[1:], resumed):
        assert other.choose_many(PROBE).arm == policies[0].choose_many(PROBE).arm


def test_it_is_fitted_at_milestones_and_stands_still_between() -> None:
    arms, X, y = world(120)
    policy, before, fitted = kb.KMTLUCB(3), None, []
    for n in range(120):
        policy.observe(arms[n : n + 1], X[n : n + 1], y[n : n + 1])
        if policy.model is not before:
            fitted.append(n + 1)
            assert policy.model.rows == n + 1
        before = policy.model
    assert set(fitted) <= {s for s in STONES if s <= 120} | {2}  # the second reward is the first that differs
    assert {s for s in STONES if 20 <= s <= 120} <= set(fitted)
    assert f"next fit at {following(policy.model.rows)} rows" in str(policy.model)


@pytest.mark.parametrize("value", [0.0, 1.0, -7.5, 1e9])
def test_the_first_reward_that_differs_is_learned_at_once(value: float) -> None:
    policy = kb.KMTLUCB(2)
    X = np.random.default_rng(0).normal(size=(200, 2))
    policy.observe([0, 1] * 77, X[:154], np.full(154, value))
    assert policy.predict(X[0]).mean == pytest.approx(value)
    assert not policy.model.varied
    policy.update(policy.choose(X[160]), value + 5.0)
    assert policy.model.rows == 155
    assert 155 not in STONES
    assert policy.model.varied
    assert np.isfinite(policy.predict(X[0])).all()


def off_diagonal(policy: kb.KMTLUCB) -> np.ndarray:
    K = policy.similarity_matrix()
    return K[~np.eye(len(K), dtype=bool)]


def test_whose_contexts_a_round_has_decides_where_sharing_starts(tmp_path: Path) -> None:
    """One context for all arms: independent until shown. A context each, or a given task: half in common at once."""
    X = np.array([[0.0], [0.5], [1.0]])
    shared, rivals, given = (kb.KMTLUCB(3) for _ in range(3))
    for _ in range(3):
        shared.update(shared.choose([0.3]), 1.0)
        rivals.update(rivals.choose(X), 1.0)
        given.update(given.choose(X, task=1), 1.0)
    assert not off_diagonal(shared).any()
    assert (off_diagonal(rivals) == 0.5).all()
    assert (off_diagonal(given) == 0.5).all()
    for policy, own in ((rivals, True), (given, "task"), (shared, False)):
        policy.save(tmp_path / "p.kb")
        logged, rows = kb.KMTLUCB(3), policy.regression.rows
        logged.observe(rows.arms, rows.contexts, rows.rewards, own_contexts=own)
        for other in (kb.load(tmp_path / "p.kb"), logged):
            assert np.array_equal(other.similarity_matrix(), policy.similarity_matrix())
    shared.update(shared.choose(X), 1.0)  # the first round with a context each: learned at once
    assert (off_diagonal(shared) == 0.5).all()
    described = kb.KMTLUCB(3, similarity=kb.Learned(kb.Known(descriptors=[0.0, 0.1, 5.0])))
    described.update(described.choose([0.3]), 1.0)
    K = described.similarity_matrix()
    assert K[0, 1] > 0.4 > 0.31 > K[0, 2]


def test_with_contexts_of_their_own_arms_share_as_much_as_the_rows_say() -> None:
    """The average over what may be in common, by how well each explains the rows."""
    rng = np.random.default_rng(3)
    arms, X = rng.integers(0, 3, 172), rng.normal(size=(172, 2))
    for apart, low, high in ((0.0, 0.7, 1.0), (2.1, -1.0, 0.3)):
        policy = kb.KMTLUCB(3)
        policy.observe(arms, X, np.sin(2.0 * X[:, 0] + apart * arms) + 0.1 * rng.normal(size=172), own_contexts=True)
        assert low < off_diagonal(policy).mean() <= high


def test_print_and_table() -> None:
    policy = taught(world(200), [200])
    text = str(policy.model)
    assert text.startswith("from 172 rows: distances")
    for words in ("ridge ", "level ", "unit ", "similarity: ", "nats", "mu = 0.5", "next fit at 224 rows"):
        assert words in text
    assert len(policy.model.table) >= 4
    assert all(math.isfinite(c.lead) for c in policy.model.table)
    assert "<pre>" in policy.model._repr_html_()
    assert str(kb.KMTLUCB(2).model).startswith("before any row")
    with pytest.raises(AttributeError):
        policy.model.ridge = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["shared", "own contexts", "kin", "independent"])
def test_as_settings_pins_what_is_in_force(kind: str) -> None:
    rng = np.random.default_rng(1)
    n = 172  # a milestone: all rows are in the model
    arms, X = rng.integers(0, 3, n), rng.normal(size=(n, 3))
    y = np.sin(2.0 * X[:, 0] + (0.0 if kind == "kin" else 2.0) * arms) + 0.2 * rng.normal(size=n)
    policy = kb.KMTLUCB(3, similarity=kb.Independent() if kind == "independent" else None)
    policy.observe(arms, X, y, own_contexts=kind == "own contexts")
    pinned = kb.KMTLUCB(3, **policy.model.as_settings())
    pinned.observe(arms, X, y)
    same_numbers(pinned, policy, 1e-8)
    np.testing.assert_allclose(pinned.similarity_matrix(), policy.similarity_matrix())
    before = pinned.model
    pinned.observe(arms, X, y + 1.0)
    assert pinned.model.same_view(before)  # nothing is learned any more


def test_what_is_given_is_not_learned() -> None:
    rows = world(150)
    for given, part in (
        ({"ridge": 0.37}, lambda m: m.ridge == 0.37 and m.unit != 1.0),
        ({"rewards": None}, lambda m: (m.level, m.unit) == (0.0, 1.0) and m.ridge != 0.01),
        ({"rewards": (-4.0, 4.0)}, lambda m: (m.level, m.unit) == (-4.0, 8.0)),
        ({"rewards": kb.Scale(0.5, 2.0)}, lambda m: (m.level, m.unit) == (0.5, 2.0)),
        ({"context_kernel": kb.RBF(1.3)}, lambda m: m.kernel == kb.RBF(1.3) and m.ridge != 0.01),
        ({"similarity": kb.Mixed(0.2)}, lambda m: "any two arms 0.2" in str(m)),
        ({"exploration": 0.3}, lambda m: m.ridge != 0.01 and m.unit != 1.0),  # switches nothing else off
    ):
        assert part(taught(rows, [150], **given).model), given


def test_any_unit_of_rewards_and_of_contexts_gives_the_same_play() -> None:
    arms, X, y = world(150)
    plain = taught((arms, X, y), [150], tie_break="first")
    for unit, level, width in ((1e-6, 0.0, 1.0), (1e6, -3e6, 1.0), (1.0, 0.0, 1e4), (20.0, 7.0, 1e-3)):
        other = taught((arms, X * width, level + unit * y), [150], tie_break="first")
        assert other.choose_many(PROBE * width).arm == plain.choose_many(PROBE).arm
        mean = other.predict_many(PROBE * width).mean
        np.testing.assert_allclose((mean - level) / unit, plain.predict_many(PROBE).mean, rtol=1e-4, atol=1e-4)


def test_noise_and_linearity_are_found() -> None:
    rng = np.random.default_rng(2)
    arms, X = rng.integers(0, 3, 172), rng.normal((0.0, 5.0, -1.0), size=(172, 3))
    slopes = rng.normal(size=(3, 3))
    line, wave = (X * slopes[arms]).sum(axis=1), np.sin(4.0 * X[:, 0] + arms)
    clean = taught((arms, X, line + 0.1 * rng.normal(size=172)), [172]).model
    loud = taught((arms, X, line + 5.0 * rng.normal(size=172)), [172]).model
    assert "linear" in str(clean).splitlines()[0]
    assert "linear" not in str(taught((arms, X, wave + 0.1 * rng.normal(size=172)), [172]).model).splitlines()[0]
    assert loud.ridge > 10.0 * clean.ridge
    assert abs(loud.level - line.mean()) < 5.0 * loud.unit


@pytest.mark.parametrize("diagonal", [0.095, 1.0, 30.0])
def test_the_prior_variance_of_each_arm_counts_in_the_evidence(diagonal: float) -> None:
    """Noise is judged under k_Z(a, a) k_X: intervals of two deviations cover the truth at any scale of k_Z."""
    n_arms, kernel, covered = 6, kb.RBF(1.0), []
    K_Z = diagonal * (0.6 + 0.4 * np.eye(n_arms))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        grid = rng.normal(size=(260, 2))
        root = np.linalg.cholesky(kernel(grid, grid) + 1e-9 * np.eye(260))
        f = np.linalg.cholesky(K_Z / diagonal) @ rng.normal(size=(n_arms, 260)) @ root.T
        arms = rng.integers(0, n_arms, 200)
        y = f[arms, np.arange(200)] + 0.7 * rng.normal(size=200)
        policy = kb.KMTLUCB(n_arms, similarity=kb.Known(K_Z), context_kernel=kernel)
        policy.observe(arms, grid[:200], y)
        mean, width = policy.predict_many(grid[200:])
        deviation = math.sqrt(policy.model.ridge) * width / 2.0  # the unit is two deviations
        covered.append((np.abs(f[:, 200:].T - mean) <= 2.0 * deviation).mean())
    assert np.mean(covered) > 0.88, covered


# -- a world that changes ---------------------------------------------------------------------------


def regret(policy: Any, rewards: Any, rounds: int, rng: Any, shown: Any = lambda t, r: r) -> float:
    """Of so many rounds; ``shown`` is what the policy is given as the reward."""
    total = 0.0
    for t in range(rounds):
        x = rng.normal(size=2)
        means = rewards(t, x)
        decision = policy.choose(x)
        total += means.max() - means[decision.index]
        policy.update(decision, float(shown(t, means[decision.index] + 0.2 * rng.normal())))
    return total


def waves(t: int, x: np.ndarray) -> np.ndarray:
    return np.sin(1.5 * x[0] + np.arange(4) * 1.6)


@pytest.mark.parametrize("broken", ["outage", "unit"])
def test_a_broken_stream_is_found_said_and_learned_anew(broken: str) -> None:
    """Zeros instead of rewards for a while; another unit from one day on: with a warning, and learning goes on."""
    factor = 1000.0 if broken == "unit" else 1.0

    def shown(t: int, reward: float) -> float:
        if t < 600:
            return reward
        return 0.0 if broken == "outage" and t < 1000 else factor * reward

    policy, fresh = kb.KMTLUCB(4, seed=1), kb.KMTLUCB(4, seed=1)
    rng = np.random.default_rng(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        regret(policy, waves, 1400, rng, shown)
    said = [w for w in caught if issubclass(w.category, ChangeWarning)]
    if broken == "unit":
        assert said
        assert policy.model.notes
        assert "the rewards changed at about row" in str(policy.model)
        assert policy.model.unit > 50.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChangeWarning)
        later = regret(policy, waves, 300, np.random.default_rng(5), lambda t, r: factor * r)
        anew = regret(fresh, waves, 300, np.random.default_rng(5), lambda t, r: factor * r)
    assert later < 1.6 * anew + 20.0, (later, anew)


def test_no_change_is_seen_where_there_is_none() -> None:
    for seed in range(3):
        policy = kb.KMTLUCB(4, seed=seed)
        regret(policy, waves, 900, np.random.default_rng(seed))  # a warning would be an error
        assert not policy.model.notes


def test_a_window_follows_the_world_and_its_noise() -> None:
    """Rows are cut in blocks, and the model is fitted again: ridge and unit are of the world of now."""
    policy, rng = kb.KMTLUCB(4, memory=kb.Window(120)), np.random.default_rng(0)
    regret(policy, waves, 300, rng)
    quiet = policy.model
    turned = lambda t, x: 40.0 * waves(t, x)[::-1]  # noqa: E731
    regret(policy, turned, 400, rng)
    assert 120 <= len(policy.regression.rows) <= 150
    assert sum(policy.counts.values()) == len(policy.regression.rows)
    assert policy.n_observations == 700
    assert policy.model.unit > 10.0 * quiet.unit
    assert policy.model.rows <= 150
    forgetful = regret(policy, turned, 150, np.random.default_rng(1))
    uniform = regret(kb.baselines.uniform(4), turned, 150, np.random.default_rng(1))
    assert forgetful < 0.5 * uniform


def test_play_goes_on_while_the_model_is_refitted_and_the_engine_changes() -> None:
    """A dictionary takes over, rows are thinned, and milestones go on."""
    policy = kb.KMTLUCB(3, engine=kb.Budgeted(points=40, after=100))
    play(policy, 150)
    rows = policy.model.rows
    assert rows > 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kb.errors.BudgetWarning)
        policy.observe(*world(400))
    assert policy.model.rows > rows
    assert policy.n_observations > 500
    assert np.isfinite(policy.predict_many(PROBE)).all()
