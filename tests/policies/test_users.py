"""Users as tasks: Gang of Bandits and CLUB against programs written from their papers for these tests alone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.contrib.clusters import components
from kinbandits.errors import InvalidInputError
from kinbandits.similarity import ArmInfo, block_graph, macro_graph
from kinbandits.testing import check_policy, check_similarity
from strategies import EXACT_ENGINES

N, D, K = 6, 3, 4  # users, features of an item, items a round
LABELS = np.array([0, 0, 1, 1, 2, 2])
GRAPH = np.zeros((N, N))
for i, j, weight in [(0, 1, 1.0), (1, 2, 0.5), (2, 3, 1.0), (3, 4, 1.0), (4, 5, 2.0), (0, 5, 1.0)]:
    GRAPH[i, j] = GRAPH[j, i] = weight


class ExplicitGOB:
    """GOB.Lin (Cesa-Bianchi et al., 2013, Figure 1) in N d dimensions: no kernel anywhere."""

    def __init__(self, graph: np.ndarray, d: int) -> None:
        n = len(graph)
        laplacian = np.diag(graph.sum(axis=1)) - graph
        values, vectors = np.linalg.eigh(np.kron(np.eye(n) + laplacian, np.eye(d)))
        self.half = vectors @ np.diag(values**-0.5) @ vectors.T  # A_x^{-1/2}
        self.n, self.d = n, d
        self.M, self.b = np.eye(n * d), np.zeros(n * d)

    def phi(self, user: int, items: np.ndarray) -> np.ndarray:
        long = np.zeros((len(items), self.n, self.d))
        long[:, user] = items
        return long.reshape(len(items), -1) @ self.half

    def scores(self, user: int, items: np.ndarray, multiplier: float) -> np.ndarray:
        phi = self.phi(user, items)
        inverse = np.linalg.inv(self.M)
        return phi @ inverse @ self.b + multiplier * np.sqrt(np.einsum("ij,jk,ik->i", phi, inverse, phi))

    def learn(self, user: int, item: np.ndarray, reward: float) -> None:
        phi = self.phi(user, item[None])[0]
        self.M += np.outer(phi, phi)
        self.b += reward * phi


def same_game(policy: kb.KMTLUCB, other: ExplicitGOB, node, multiplier, rounds: int = 80) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(3)
    truth = rng.standard_normal((3, D))[LABELS]
    for t in range(1, rounds + 1):
        user = int(rng.integers(N))
        items = rng.standard_normal((K, D))
        wanted = other.scores(node(user), items, multiplier(t, other))
        decision = policy.choose(items, arms=[user] * K)
        np.testing.assert_allclose(decision.scores, wanted, rtol=1e-8, atol=1e-8)
        assert decision.index == wanted.argmax()
        reward = float(items[decision.index] @ truth[user] + 0.1 * rng.standard_normal())
        policy.update(decision, reward)
        other.learn(node(user), items[decision.index], reward)


@pytest.mark.parametrize("engine", ["auto", "naive", *EXACT_ENGINES])
@pytest.mark.parametrize("schedule", ["practice", "theorem"])
def test_gob_lin_is_its_explicit_form(engine: str, schedule: str) -> None:
    sigma, norm, delta = 0.2, 1.3, 0.1
    exploration = {
        "practice": kb.exploration.LogExploration(0.4),
        "theorem": kb.exploration.ConfidenceExploration(sigma, norm, delta, ridge=1.0, form="gob"),
    }[schedule]

    def multiplier(t: int, other: ExplicitGOB) -> float:
        if schedule == "practice":
            return 0.4 * math.sqrt(math.log(t + 1))
        return sigma * math.sqrt(np.linalg.slogdet(other.M)[1] + math.log(1.0 / delta)) + norm

    policy = kb.baselines.GOBLin(N, graph=GRAPH, exploration=exploration, engine=engine, tie_break="first")
    same_game(policy, ExplicitGOB(GRAPH, D), lambda user: user, multiplier, 40 if engine == "naive" else 80)


@pytest.mark.parametrize("variant", ["macro", "block"])
def test_gob_lin_variants_are_their_explicit_forms(variant: str) -> None:
    """MACRO: one node per cluster, edges counted. BLOCK: each cluster a graph of its own."""
    policy = kb.baselines.GOBLin(N, graph=GRAPH, variant=variant, clusters=LABELS, tie_break="first")
    if variant == "macro":
        graph = np.zeros((3, 3))
        for a in range(N):
            for b in range(N):
                if LABELS[a] != LABELS[b]:
                    graph[LABELS[a], LABELS[b]] += GRAPH[a, b]
        node = LABELS.__getitem__
    else:
        graph = np.array([[GRAPH[a, b] if LABELS[a] == LABELS[b] else 0.0 for b in range(N)] for a in range(N)])
        node = int
    same_game(policy, ExplicitGOB(graph, D), node, lambda t, _: math.sqrt(math.log(t + 1)))


def test_graph_helpers_and_clustered() -> None:
    assert block_graph(GRAPH, [0] * N) == kb.Graph(GRAPH)
    np.testing.assert_allclose(macro_graph(GRAPH, range(N)).matrix(None), kb.Graph(GRAPH).matrix(None))  # type: ignore[arg-type]
    for value in (
        kb.contrib.Clustered(LABELS),
        macro_graph(GRAPH, LABELS),
        kb.contrib.Clustered([1, 0, 3, 1, 1, 0]),
    ):
        check_similarity(value, n_arms=N)
    assert kb.contrib.Clustered(LABELS).with_arm(N, ArmInfo(neighbours=[4])).labels.tolist() == [
        0,
        0,
        1,
        1,
        2,
        2,
        2,
    ]
    assert kb.contrib.Clustered(LABELS).with_arm(N).labels[-1] == 3
    assert macro_graph(GRAPH, LABELS).without_arm(5).without_arm(4).labels.tolist() == [0, 0, 1, 1]
    for attempt, text in [
        (lambda: kb.contrib.Clustered([0.5]), "whole numbers"),
        (lambda: kb.contrib.Clustered([-1, 0]), "count clusters from 0"),
        (lambda: kb.contrib.Clustered([0, 2], kb.Graph(np.zeros((2, 2)))), "between knows 2 clusters"),
        (lambda: kb.contrib.Clustered([0], kb.Estimated()), "known beforehand"),
        (lambda: kb.contrib.Clustered(LABELS).with_arm(N, ArmInfo(neighbours=[0, 5])), "different clusters"),
        (lambda: macro_graph(GRAPH, LABELS).with_arm(N), "name neighbours="),
        (lambda: kb.baselines.GOBLin(N, graph=GRAPH, variant="macro"), "clusters= goes with"),
        (lambda: kb.baselines.GOBLin(N, graph=GRAPH, variant="odd", clusters=LABELS), "variant must be"),  # type: ignore[arg-type]
        (lambda: kb.baselines.GOBLin(N, graph=GRAPH, variant="block", clusters=[0]), "1 labels"),
    ]:
        with pytest.raises(InvalidInputError, match=text):
            attempt()


# -- CLUB -------------------------------------------------------------------------------------------


class ExplicitCLUB:
    """CLUB (Gentile et al., 2014, Figure 1), with the sums of users and of clusters written out."""

    def __init__(self, n: int, d: int, alpha: float, alpha2: float) -> None:
        self.alpha, self.alpha2, self.d = alpha, alpha2, d
        self.M, self.b = [np.eye(d) for _ in range(n)], [np.zeros(d) for _ in range(n)]
        self.T = [0] * n
        self.edges = {frozenset((i, j)) for i in range(n) for j in range(i)}

    def cluster(self, user: int) -> set[int]:
        found, todo = {user}, [user]
        while todo:
            i = todo.pop()
            for edge in self.edges:
                if i in edge:
                    (j,) = edge - {i}
                    if j not in found:
                        found.add(j)
                        todo.append(j)
        return found

    def scores(self, t: int, user: int, items: np.ndarray) -> np.ndarray:
        V = self.cluster(user)
        M = np.eye(self.d) + sum(self.M[i] - np.eye(self.d) for i in V)
        w = np.linalg.solve(M, sum(self.b[i] for i in V))
        spread = np.sqrt(np.einsum("ij,ij->i", items, np.linalg.solve(M, items.T).T))
        return items @ w + self.alpha * spread * math.sqrt(math.log(t + 1))

    def learn(self, i: int, x: np.ndarray, reward: float) -> None:
        self.M[i] = self.M[i] + np.outer(x, x)
        self.b[i] = self.b[i] + reward * x
        self.T[i] += 1
        w = [np.linalg.solve(M, b) for M, b in zip(self.M, self.b, strict=True)]
        cb = [self.alpha2 * math.sqrt((1.0 + math.log(1.0 + T)) / (1.0 + T)) for T in self.T]
        self.edges -= {
            e for e in self.edges if i in e for (j,) in [e - {i}] if np.linalg.norm(w[i] - w[j]) > cb[i] + cb[j]
        }


@pytest.mark.parametrize("engine", ["auto", "naive", *EXACT_ENGINES])
def test_club_is_its_explicit_form_and_finds_the_planted_clusters(engine: str) -> None:
    n, d, rounds = 9, 3, 80 if engine == "naive" else 900
    planted = np.array([0, 1, 2, 0, 1, 2, 0, 1, 0])
    truth = np.eye(3)[planted]
    policy = kb.contrib.CLUB(
        n, confidence=0.8, exploration=kb.exploration.LogExploration(0.3), engine=engine, tie_break="first"
    )
    other = ExplicitCLUB(n, d, 0.3, 0.8)
    rng = np.random.default_rng(1)
    sizes = []
    for t in range(1, rounds + 1):
        user = int(rng.integers(n))
        items = rng.standard_normal((5, d))
        items /= np.linalg.norm(items, axis=1, keepdims=True)
        wanted = other.scores(t, user, items)
        decision = policy.choose(items, arms=[user] * 5)
        np.testing.assert_allclose(decision.scores, wanted, rtol=1e-8, atol=1e-8)
        assert decision.index == wanted.argmax()
        reward = float(items[decision.index] @ truth[user] + 0.1 * rng.standard_normal())
        policy.update(decision, reward)
        other.learn(user, items[decision.index], reward)
        sizes.append(int(np.unique(policy.similarity_matrix(), axis=0).shape[0]))
    assert sizes[0] == 1
    if rounds == 900:  # exactly the planted partition
        np.testing.assert_array_equal(
            components(policy.similarity_matrix() > 0.5), components(truth @ truth.T > 0.5)
        )


def test_club_similarity_contract(tmp_path: Path) -> None:
    value = kb.contrib.OnlineClusters(0.2).bound(kb.Linear(), 1.0, "uniform")
    check_similarity(value)
    ring = np.roll(np.eye(4), 1, axis=0) + np.roll(np.eye(4), -1, axis=0)
    check_similarity(
        kb.contrib.OnlineClusters(0.2, ring).bound(kb.Linear() + kb.kernels.Constant(), 1.0, "uniform")
    )
    check_policy(kb.contrib.CLUB(3))
    policy = kb.contrib.CLUB(["a", "b", "c"], confidence=0.3)
    policy.observe(["a", "b", "c"] * 10, np.ones((30, 1)), [1.0, 1.0, -1.0] * 10)
    policy.save(tmp_path / "p.kb")
    loaded = kb.load(tmp_path / "p.kb")
    np.testing.assert_array_equal(loaded.similarity_matrix(), policy.similarity_matrix())
    policy.remove_arm("a")
    np.testing.assert_array_equal(policy.similarity_matrix(), np.eye(2))
    policy.add_arm("d")
    assert policy.similarity_matrix().shape == (3, 3)
    policy.update(policy.choose(np.ones((2, 1)), arms=["d", "d"]), 1.0)


def test_a_row_that_fails_leaves_the_clusters() -> None:
    with pytest.raises(InvalidInputError, match="finite feature map"):
        kb.KMTLUCB(2, similarity=kb.contrib.OnlineClusters(), context_kernel=kb.RBF()).observe([0], [[1.0]], [1.0])
    with pytest.raises(InvalidInputError, match="give it to a policy"):
        kb.contrib.OnlineClusters().features(np.ones((1, 1)))
    with pytest.raises(InvalidInputError, match="adjacency has 3 rows"):
        kb.contrib.CLUB(2, graph=np.zeros((3, 3)))
