"""COFIBA against a program written from its paper (Li, Karatzoglou and Gentile, 2016) for this test alone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import InvalidInputError
from kinbandits.testing import check_policy


def component(node: int, edges: set[frozenset[int]]) -> frozenset[int]:
    found, todo = {node}, [node]
    while todo:
        i = todo.pop()
        for edge in edges:
            if i in edge and not edge <= found:
                (j,) = edge - {i}
                found.add(j)
                todo.append(j)
    return frozenset(found)


def complete(n: int) -> set[frozenset[int]]:
    return {frozenset((i, j)) for i in range(n) for j in range(i)}


class ExplicitCOFIBA:
    """Figures 1 to 3, with sums per user and sets of edges; clusters of items are sets, each with users' edges."""

    def __init__(self, n: int, items: np.ndarray, alpha: float, alpha2: float) -> None:
        self.n, self.items, self.alpha, self.alpha2 = n, items, alpha, alpha2
        d = items.shape[1]
        self.M, self.b = [np.eye(d) for _ in range(n)], [np.zeros(d) for _ in range(n)]
        self.item_edges = complete(len(items))
        self.users: dict[frozenset[int], set[frozenset[int]]] = {frozenset(range(len(items))): complete(n)}

    def cluster_of(self, item: int) -> frozenset[int]:
        (found,) = [c for c in self.users if item in c]
        return found

    def scores(self, t: int, user: int, candidates: np.ndarray) -> np.ndarray:
        out = []
        for k in candidates.tolist():
            x = self.items[k]
            N = component(user, self.users[self.cluster_of(k)])
            M = np.eye(len(x)) + sum(self.M[i] - np.eye(len(x)) for i in N)
            w = np.linalg.solve(M, sum(self.b[i] for i in N))
            out.append(w @ x + self.alpha * math.sqrt(x @ np.linalg.solve(M, x) * math.log(t + 1)))
        return np.array(out)

    def near(self, t: int, user: int, item: int) -> set[int]:
        x = self.items[item]
        value = [np.linalg.solve(M, b) @ x for M, b in zip(self.M, self.b, strict=True)]
        cb = [self.alpha2 * math.sqrt(x @ np.linalg.solve(M, x) * math.log(t + 1)) for M in self.M]
        return {j for j in range(self.n) if abs(value[j] - value[user]) <= cb[j] + cb[user]}

    def learn(self, t: int, user: int, item: int, reward: float) -> None:
        x = self.items[item]
        self.M[user] = self.M[user] + np.outer(x, x)
        self.b[user] = self.b[user] + reward * x
        here = self.cluster_of(item)
        mine = self.near(t, user, item)
        self.users[here] = {e for e in self.users[here] if user not in e or e <= mine | {user}}
        for e in [e for e in self.item_edges if item in e]:
            (other,) = e - {item}
            if self.near(t, user, other) != mine:
                self.item_edges.remove(e)
        graph = self.users.pop(here)
        parts = {component(k, self.item_edges) for k in here}
        for part in parts:
            self.users[part] = graph if item in part else complete(self.n)


def catalogue() -> np.ndarray:
    """Two kinds of items, in different directions."""
    rng = np.random.default_rng(0)
    items = np.zeros((10, 4))
    items[:5, :2], items[5:, 2:] = rng.standard_normal((5, 2)), rng.standard_normal((5, 2))
    return items / np.linalg.norm(items, axis=1, keepdims=True) * rng.uniform(0.8, 1.2, (10, 1))


def truth(n: int) -> np.ndarray:
    """Users alike on one kind of item need not be so on the other."""
    one, two = np.arange(n) % 2, np.arange(n) < n // 2
    return np.column_stack([2.0 * one - 1.0, one, np.where(two, 1.0, -1.0), np.where(two, -0.5, 1.0)])


@pytest.mark.parametrize(("confidence", "rounds", "seed"), [(0.25, 400, 2), *((0.3, 30, s) for s in range(10, 18))])
def test_it_plays_the_same_game(confidence: float, rounds: int, seed: int) -> None:
    n, items, rng = 8, catalogue(), np.random.default_rng(seed)
    policy = kb.contrib.COFIBA(
        n, items=items, confidence=confidence, exploration=kb.exploration.LogExploration(0.3), tie_break="first"
    )
    other = ExplicitCOFIBA(n, items, 0.3, confidence)
    for t in range(1, rounds + 1):
        user, candidates = int(rng.integers(n)), rng.permutation(10)[:4]
        wanted = other.scores(t, user, candidates)
        decision = policy.choose(items[candidates], arms=[user] * 4)
        np.testing.assert_allclose(decision.scores, wanted, rtol=1e-8, atol=1e-8)
        assert decision.index == wanted.argmax()
        item = int(candidates[decision.index])
        reward = float(items[item] @ truth(n)[user] + 0.05 * rng.standard_normal())
        policy.update(decision, reward)
        other.learn(t, user, item, reward)
        ours = policy.item_clusters
        assert {frozenset(np.flatnonzero(ours == c).tolist()) for c in range(ours.max() + 1)} == set(other.users)
    assert policy.item_clusters.max() > 0 or rounds < 400  # items fell apart
    for item in range(10):
        labels = np.array(list(policy.user_clusters(items[item]).values()))
        graph = other.users[other.cluster_of(item)]
        parts = {component(i, graph) for i in range(n)}
        assert {frozenset(np.flatnonzero(labels == c).tolist()) for c in range(labels.max() + 1)} == parts
        liking = truth(n)[labels == 0] @ items[item]
        assert (
            rounds < 400 or np.ptp(liking) < 1e-9 or labels.max() == 0
        )  # nobody of another mind is in the cluster


def test_contract(tmp_path: Path) -> None:
    items = catalogue()
    check_policy(kb.contrib.COFIBA(3, items=items), items)
    policy = kb.contrib.COFIBA(["a", "b"], items=items, confidence=0.1)
    policy.observe(["a", "b", "a", "b"], items[[0, 0, 7, 7]], [1.0, -1.0, 1.0, 1.0])
    policy.add_arm("c")
    assert list(policy.user_clusters(items[0])) == ["a", "b", "c"]
    policy.remove_arm("a")
    assert policy.n_observations == 2
    policy.save(tmp_path / "p.kb")
    loaded = kb.load(tmp_path / "p.kb")
    one, two = policy.choose(items[3], arms=["b"]), loaded.choose(items[3], arms=["b"])
    assert one.score == two.score


def test_bad_input() -> None:
    items = catalogue()
    policy = kb.contrib.COFIBA(2, items=items)
    with pytest.raises(InvalidInputError, match="no row of items="):
        policy.choose(items[0] + 0.1)
    with pytest.raises(InvalidInputError, match="no row of items="):
        policy.observe([0, 1], [items[0], items[0] + 0.1], [1.0, 1.0])
    assert policy.n_observations == 0
    with pytest.raises(InvalidInputError, match="same row twice"):
        kb.contrib.COFIBA(2, items=items[[0, 0]])
    with pytest.raises(InvalidInputError, match="confidence must be at least 0"):
        kb.contrib.COFIBA(2, items=items, confidence=-1.0)
