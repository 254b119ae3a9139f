"""Window and Forgetting: what they mean, and that every engine means it."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import InvalidInputError, InvalidTypeError
from strategies import engine_of


def rows(t=60):
    rng = np.random.default_rng(0)
    return rng.integers(0, 3, t), rng.standard_normal((t, 2)), rng.random(t)


def policy(engine, memory, **settings):
    defaults = {"context_kernel": kb.RBF(length_scale=0.7), "similarity": kb.Mixed(mu=0.4), "ridge": 0.2}
    return kb.KMTLUCB(3, engine=engine_of(engine), memory=memory, **(defaults | settings))


@pytest.mark.parametrize("engine", ["naive", "exact", "budgeted"])
def test_a_window_knows_its_last_rows_only(engine):
    arms, contexts, rewards = rows()
    windowed, fresh = policy(engine, kb.Window(size=25)), policy("naive", None)
    for a, x, r in zip(arms, contexts, rewards, strict=True):
        windowed.observe([a], x[None, :], [r])
    fresh.observe(arms[-25:], contexts[-25:], rewards[-25:])
    assert windowed.n_observations == 60
    assert windowed.counts == fresh.counts
    found, wanted = windowed.predict([0.1, 0.2]), fresh.predict([0.1, 0.2])
    np.testing.assert_allclose(found.mean, wanted.mean, atol=5e-3 if engine == "budgeted" else 1e-8)
    np.testing.assert_allclose(found.width, wanted.width, atol=2e-2 if engine == "budgeted" else 1e-8)


@pytest.mark.parametrize("engine", ["naive", "exact", "budgeted"])
def test_forgetting_divides_the_noise_by_the_weight(engine):
    arms, contexts, rewards = rows(30)
    memory = kb.Forgetting(half_life=8)
    found = policy(engine, memory, similarity=kb.Pooled(), context_kernel=kb.RBF(length_scale=0.4))
    found.observe(arms, contexts, rewards)
    K = kb.RBF(length_scale=0.4)(contexts, contexts)
    weights = 0.5 ** (np.arange(29, -1, -1) / 8)
    k = kb.RBF(length_scale=0.4)(contexts, np.array([[0.1, 0.2]]))[:, 0]
    wanted = k @ np.linalg.solve(K + 0.2 * np.diag(1.0 / weights), rewards)
    np.testing.assert_allclose(found.predict([0.1, 0.2]).mean, wanted, atol=1e-3 if engine == "budgeted" else 1e-10)


@pytest.mark.parametrize("memory", [kb.Window(size=60), kb.Forgetting(half_life=30)], ids=repr)
@pytest.mark.parametrize("engine", ["exact", "budgeted"])
def test_a_world_that_turns_over_is_followed(engine, memory):
    """The better of two arms changes after 200 of 260 rows; who remembers all believes in the old one."""
    rng = np.random.default_rng(1)
    arms, contexts = rng.integers(0, 2, 260), rng.uniform(-1, 1, (260, 2))
    rewards = (arms == (np.arange(260) >= 200)).astype(float)
    leads = []
    for remembered in (None, memory):
        learner = kb.KMTLUCB(
            2, context_kernel=kb.RBF(length_scale=2.0), engine=engine_of(engine, 64), memory=remembered
        )
        for i in range(0, 260, 20):
            learner.observe(arms[i : i + 20], contexts[i : i + 20], rewards[i : i + 20])
        mean = learner.predict(np.zeros(2)).mean
        leads.append(mean[1] - mean[0])
    assert leads[0] < 0.0 < leads[1]


@pytest.mark.parametrize("memory", [kb.Window(size=20), kb.Forgetting(half_life=9)], ids=repr)
def test_saved_with_its_memory(memory, tmp_path):
    arms, contexts, rewards = rows()
    first = policy("exact", memory)
    first.observe(arms, contexts, rewards)
    first.save(tmp_path / "p.zip")
    second = kb.load(tmp_path / "p.zip")
    assert second.memory == memory
    assert second.n_observations == 60
    np.testing.assert_allclose(first.predict([0.0, 0.0]).mean, second.predict([0.0, 0.0]).mean, rtol=1e-12)
    frozen = first.frozen()
    np.testing.assert_allclose(frozen.predict([0.0, 0.0]).width, first.predict([0.0, 0.0]).width, rtol=1e-12)


def test_bad_memories():
    with pytest.raises(InvalidInputError, match="at least 1"):
        kb.Window(size=0)
    with pytest.raises(InvalidTypeError, match="whole number"):
        kb.Window(size=2.5)
    with pytest.raises(InvalidInputError, match="half_life"):
        kb.Forgetting(half_life=0)
    with pytest.raises(InvalidTypeError, match="memory must be None"):
        kb.KMTLUCB(2, memory=100)
    with pytest.raises(InvalidInputError, match="points must be at least 1"):
        kb.Budgeted(points=0)
