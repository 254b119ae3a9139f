"""Rewards of any scale: the running range, its state, and its equality with a stated one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb


def rows(t: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    arms = rng.integers(3, size=t)
    X = rng.normal(size=(t, 2))
    return arms, X, 1000.0 + 50.0 * np.sin(X[:, 0] + arms)


@pytest.mark.parametrize("engine", ["auto", "naive", kb.Budgeted()])
def test_running_equals_the_range_of_the_first_rewards(engine: str) -> None:
    arms, X, r = rows(80)
    low, high = r[:60].min(), r[:60].max()
    running = kb.KMTLUCB(3, context_kernel=kb.RBF(), rewards=kb.Running(), ridge=0.01, engine=engine)
    for i in range(80):
        running.observe(arms[i : i + 1], X[i : i + 1], r[i : i + 1])
        mean, _ = running.predict([0.3, 0.1])
        if i == 20:
            stated = kb.KMTLUCB(
                3, context_kernel=kb.RBF(), rewards=kb.Range(r[:21].min(), r[:21].max()), ridge=0.01, engine=engine
            )
            stated.observe(arms[:21], X[:21], r[:21])
            np.testing.assert_allclose(mean, stated.predict([0.3, 0.1]).mean, rtol=1e-9)
    # After 60 rows the range stays; rewards outside are learned as they are.
    wide = kb.KMTLUCB(3, context_kernel=kb.RBF(), ridge=0.01, engine=engine)
    wide.observe(arms, X, (r - low) / (high - low))
    mean, width = running.predict([0.3, 0.1])
    plain = wide.predict([0.3, 0.1])
    np.testing.assert_allclose(mean, low + (high - low) * plain.mean, rtol=1e-9)
    np.testing.assert_allclose(width, (high - low) * plain.width, rtol=1e-7)


def test_in_bulk_is_the_same() -> None:
    arms, X, r = rows(80)
    r[70] = 2000.0  # after the range has settled
    bulk = kb.KMTLUCB(3, rewards=kb.Running())
    bulk.observe(arms, X, r)
    slow = kb.KMTLUCB(3, rewards=kb.Running())
    for i in range(80):
        slow.observe(arms[i : i + 1], X[i : i + 1], r[i : i + 1])
    found, wanted = bulk.predict([0.1, 0.2]), slow.predict([0.1, 0.2])
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-9)
    np.testing.assert_allclose(found.width, wanted.width, rtol=1e-7)  # the mean is linear, and would not tell


@pytest.mark.parametrize("t", [1, 30, 70])
def test_state_is_saved(t: int, tmp_path: Path) -> None:
    arms, X, r = rows(t + 20)
    policy = kb.KMTLUCB(3, rewards=kb.Running())
    policy.observe(arms[:t], X[:t], r[:t])
    policy.save(tmp_path / "policy.kb")
    loaded = kb.load(tmp_path / "policy.kb")
    for p in (policy, loaded):
        p.observe(arms[t:], X[t:], r[t:])
    np.testing.assert_array_equal(loaded.predict([0.1, 0.2]).mean, policy.predict([0.1, 0.2]).mean)
    assert loaded.get_params()["rewards"] == kb.Running()


def test_equal_rewards_are_followed_until_two_differ() -> None:
    arms, X, _ = rows(100)
    r = np.zeros(100)
    r[90] = 7.0
    policy = kb.KMTLUCB(3, rewards=kb.Running())
    policy.observe(arms[:80], X[:80], r[:80])
    assert policy._scale.scale == 1.0
    policy.observe(arms[80:], X[80:], r[80:])
    assert (policy._scale.offset, policy._scale.scale, policy._scale.seen) == (0.0, 7.0, None)


def test_an_arm_leaves_with_its_rewards() -> None:
    arms, X, r = rows(30)
    r[arms == 0] += 5000.0
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(), rewards=kb.Running(), ridge=0.01)
    policy.observe(arms, X, r)
    policy.remove_arm(0)
    extra = X[:1] + 0.5
    policy.observe([1], extra, [1000.0])
    keep = arms != 0
    other = kb.KMTLUCB([1, 2], context_kernel=kb.RBF(), rewards=kb.Running(), ridge=0.01)
    other.observe(arms[keep], X[keep], r[keep])
    other.observe([1], extra, [1000.0])
    np.testing.assert_allclose(policy.predict([0.1, 0.2]).mean, other.predict([0.1, 0.2]).mean, rtol=1e-9)


def test_bad_settings() -> None:
    with pytest.raises(TypeError, match=r"kb\.Running\(\)"):
        kb.KMTLUCB(2, rewards="whitening")  # type: ignore[arg-type]
