"""EK-UCB, BKB and batch BKB against the formulas of their papers, dense and literal."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from compare.projected import BKB, EKUCB, BatchBKB
from line_actions import LineActions

N, D = 3, 2
COMMON = {"length_scale": 0.8, "ridge": 0.5, "exploration": 0.7}
RIVALS = {
    "EK-UCB": lambda: EKUCB(range(N), mu=0.5, gamma=0.6, **COMMON),
    "BKB": lambda: BKB(range(N), q=1.0, **COMMON),
    "batch BKB": lambda: BatchBKB(range(N), q=1.0, C=3.0, **COMMON),
}


def rows(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.integers(N, size=n), rng.normal(size=(n, D)), rng.normal(size=n)


def k(arms, X, others, Y):
    distance = ((X[:, None] - Y[None]) ** 2).sum(axis=2)
    return (arms[:, None] == others[None]) * np.exp(-distance / (2.0 * 0.8**2))


@pytest.mark.parametrize("name", RIVALS)
def test_posterior_is_the_papers(name: str) -> None:
    """mean = k' Lambda Gamma, width^2 = k(s, s) / lambda + k' (Lambda - k(Z,Z)^-1 / lambda) k, after every row."""
    peer, (arms, X, y), x = RIVALS[name](), rows(40), np.array([0.3, -0.2])
    sizes = []
    for t in range(1, 41):
        peer.observe(arms[t - 1 : t].tolist(), X[t - 1 : t], y[t - 1 : t])
        Z = np.array(peer.dictionary)
        K_ZZ = k(arms[Z], X[Z], arms[Z], X[Z]) + 1e-8 * np.eye(len(Z))
        K_ZS = k(arms[Z], X[Z], arms[:t], X[:t])
        Lambda = np.linalg.inv(K_ZS @ K_ZS.T + 0.5 * K_ZZ)
        every, same = np.arange(N), np.tile(x, (N, 1))
        k_s = k(arms[Z], X[Z], every, same)
        mean, width = peer.predict(x)
        np.testing.assert_allclose(mean, k_s.T @ Lambda @ K_ZS @ y[:t], atol=1e-6)
        inner = k_s.T @ (Lambda - np.linalg.inv(K_ZZ) / 0.5) @ k_s
        np.testing.assert_allclose(width**2, 1.0 / 0.5 + np.diag(inner), atol=1e-6)
        sizes.append(len(Z))
    assert 3 < sizes[-1] < 40


@pytest.mark.parametrize("make", [lambda: EKUCB(range(N), gamma=1e9, **COMMON), lambda: BKB(range(N), q=1e9, **COMMON)])
def test_with_every_row_in_the_dictionary_it_is_kernel_ucb(make) -> None:
    peer, (arms, X, y) = make(), rows(25)
    settings = {"similarity": kb.Independent(), "context_kernel": kb.RBF(0.8), "engine": "naive"}
    ours = kb.KMTLUCB(range(N), ridge=0.5, exploration=0.7, cold_start="borrow", **settings)
    for policy in (peer, ours):
        policy.observe(arms.tolist(), X, y)
    assert len(peer.dictionary) == 25
    for x in rows(5, seed=1)[1]:
        np.testing.assert_allclose(peer.predict(x), ours.predict(x), atol=1e-6)
        assert peer.choose(x).arm == ours.choose(x).arm


def test_leverages_of_kors() -> None:
    """p = min(1, gamma (1 + eps) / mu (k_tt - k' (S'KS + mu I)^-1 k)), the new row among S with weight 1."""
    peer, (arms, X, y) = EKUCB(range(N), mu=0.5, gamma=0.6, **COMMON), rows(30)
    chances, members = [1.0], [0]
    rng = np.random.default_rng(0)
    for t in range(30):
        peer.observe(arms[t : t + 1].tolist(), X[t : t + 1], y[t : t + 1])
        if not t:
            continue
        Z = np.array([*members, t])
        weight = 1.0 / np.sqrt([*chances, 1.0])
        K = weight[:, None] * k(arms[Z], X[Z], arms[Z], X[Z]) * weight
        new = K[:, -1]
        leverage = 1.5 / 0.5 * (1.0 - new @ np.linalg.solve(K + 0.5 * np.eye(len(Z)), new))
        p = min(1.0, 0.6 * leverage)
        if rng.random() < p:
            chances.append(p)
            members.append(t)
    assert peer.dictionary == members
    np.testing.assert_allclose(peer.chances, chances, rtol=1e-6)


def test_a_batch_ends_when_its_widths_sum_to_its_size() -> None:
    peer, (arms, X, y) = BatchBKB(range(N), q=1e9, C=3.0, **COMMON), rows(30)
    total = 1.0
    for t in range(30):
        before = peer.predict(X[t])[1][arms[t]]
        peer.observe(arms[t : t + 1].tolist(), X[t : t + 1], y[t : t + 1])
        total += before**2
        if total > 3.0:
            assert len(peer.dictionary) == t + 1
            total = 1.0
        else:
            assert len(peer.dictionary) < t + 1 or t == 0


@pytest.mark.parametrize("policy", ["EKUCB", "BKB", "BatchBKB"])
def test_they_learn_actions_on_a_line(policy: str) -> None:
    """Clearly less regret than a random policy, with the paper's kernel over context and action."""
    from compare import projected

    e = LineActions("squares", horizon=100)
    knobs = {"length_scale": 0.1, "arm_length_scale": 0.1, "ridge": 0.1, "exploration": 0.1, "scaling": "raw"}
    peer = getattr(projected, policy).for_environment(e, seed=0, **knobs)
    random = kb.simulate(kb.baselines.Uniform(e.arms), e).final_expected_regret
    assert kb.simulate(peer, e).final_expected_regret < 0.7 * random
