"""Peers of the paper's related work: CLUB and COFIBA, which find clusters of users while playing (`users.py`).

Notation (N users, m items in d dimensions)
    A_a, b_a    ridge I + sum of phi phi' over the rows of arm a; sum of reward * phi
    w_a         A_a^-1 b_a, arm a's own estimate
    radius      (N,)  c sqrt((1 + log(1 + n_a)) / (1 + n_a)), how far w_a may be from the truth (CLUB)
    reach       c sqrt(x' A_a^-1 x log(t + 1)), how far w_a' x may be from the truth (COFIBA)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from kinbandits._checks import as_float64, rows_of_contexts
from kinbandits._types import ArmName, Indices, Mask, Matrix, Vector
from kinbandits._value import NotNegative, Positive, positive
from kinbandits.baselines import Arms, lin_ucb
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import Linear
from kinbandits.policy.base import Policy
from kinbandits.policy.kmtl_ucb import KMTLUCB
from kinbandits.regression import make
from kinbandits.regression.contract import Prediction, Product, Query, Regression, Settings, best
from kinbandits.rules import UCB, Exploration, Logarithmic, State
from kinbandits.similarity import Similarity, Tracker

__all__ = ["COFIBA", "OnlineClusters", "club"]


def clusters(edges: Mask) -> Indices:
    """The connected component of each node, counted from 0 in order of their first nodes."""
    labels = connected_components(edges, directed=False)[1]
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[place], dtype=np.intp)


def same_cluster(edges: Mask) -> Matrix:
    """1 where two nodes are connected, else 0.

    >>> same_cluster(np.array([[False, True, False], [True, False, False], [False, False, False]]))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    labels = clusters(edges)
    return np.asarray((labels[:, None] == labels[None, :]).astype(np.float64))


# -- CLUB ------------------------------------------------------------------------------------------


class OnlineClusters(Similarity):
    """Clusters of arms with linear rewards, found while playing: arms of one cluster are one arm.

    It starts from a complete graph. After each row of arm a, an edge (a, b) is deleted when
    ||w_a - w_b|| > radius_a + radius_b. Clusters are the connected components. Edges never come back, so that the
    clusters depend on the order of the rows.
    """

    confidence: NotNegative = 1.0
    ridge: Positive = 1.0

    fixed: ClassVar[bool] = False

    def matrix(self, history: History) -> Matrix:
        return _ClusterTracker(self, history).matrix

    def tracker(self, history: History) -> Tracker:
        return _ClusterTracker(self, history)


class _ClusterTracker(Tracker):
    """Keeps each arm's sums and the edges that are left. What changes is replaced, never edited."""

    def __init__(self, similarity: OnlineClusters, history: History) -> None:
        super().__init__(similarity, history)
        self._value = similarity
        n = history.n_arms
        self._sums: dict[int, tuple[Matrix, Vector, Vector]] = {}  # A_a, b_a, w_a
        self._counts = np.zeros(n)
        self._edges = _complete(n)
        self._same = same_cluster(self._edges)
        self.observe(0)

    @property
    def matrix(self) -> Matrix:
        return self._same

    def observe(self, start: int, squares: Matrix | None = None) -> None:
        h, ridge, c = self._history, self._value.ridge, self._value.confidence
        sums, counts, edges = dict(self._sums), self._counts.copy(), self._edges
        for a, x, reward in zip(h.arms[start:].tolist(), h.contexts[start:], h.rewards[start:].tolist(), strict=True):
            A, b, _ = sums.get(a, (ridge * np.eye(len(x)), np.zeros(len(x)), x))
            A, b = A + np.outer(x, x), b + reward * x
            sums[a] = A, b, np.linalg.solve(A, b)
            counts[a] += 1.0
            radius = c * np.sqrt((1.0 + np.log1p(counts)) / (1.0 + counts))
            linked = np.flatnonzero(edges[a])
            others = np.array([sums[i][2] if i in sums else np.zeros(len(x)) for i in linked.tolist()])
            apart = np.linalg.norm(others.reshape(-1, len(x)) - sums[a][2], axis=1) > radius[a] + radius[linked]
            if apart.any():
                edges = edges.copy()
                edges[a, linked[apart]] = edges[linked[apart], a] = False
        same = self._same if edges is self._edges else same_cluster(edges)
        self._sums, self._counts, self._edges, self._same = sums, counts, edges, same


def club(arms: Arms, *, confidence: float = 1.0, **settings: Any) -> KMTLUCB:
    """CLUB (Gentile, Li and Zappella, 2014): users of one cluster have one linear model; clusters are found.

    Args:
        confidence: alpha_2; less divides sooner.
        settings: as for `kinbandits.baselines.lin_ucb`. ``exploration`` is sqrt(log(t + 1)).

    >>> policy = club(3, confidence=0.5)
    >>> policy.observe([0, 1, 2] * 20, [[1.0]] * 60, [1.0, 1.0, -1.0] * 20)
    >>> policy.similarity_matrix()[0]
    array([1., 1., 0.])
    """
    similarity = OnlineClusters(confidence, settings.get("ridge", 1.0))
    return lin_ucb(arms, **{"similarity": similarity, "exploration": Logarithmic(), "cold_start": "borrow", **settings})


# -- COFIBA ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Neighbours:
    """Users' own estimates, the graph of items, and the graph of users of each cluster of items."""

    items: Matrix
    confidence: float
    P: Matrix  # (N, d, d), A^-1 of each user
    b: Matrix  # (N, d)
    t: int  # rows learned
    item_edges: Mask  # (m, m)
    item_labels: Indices  # (m,) cluster of each item; numbers are never used again
    user_edges: dict[int, Mask]  # per cluster of items, (N, N)

    @classmethod
    def start(cls, n_users: int, items: Matrix, ridge: float, confidence: float) -> Self:
        m, d = items.shape
        P = np.tile(np.eye(d) / ridge, (n_users, 1, 1))
        labels = np.zeros(m, dtype=np.intp)
        graph = {0: _complete(n_users)}
        return cls(items, confidence, P, np.zeros((n_users, d)), 0, _complete(m), labels, graph)

    def learn(self, user: int, item: int, reward: float) -> Neighbours:
        x, P, b = self.items[item], self.P.copy(), self.b.copy()
        u = P[user] @ x
        P[user] -= np.outer(u, u / (1.0 + x @ u))
        b[user] += reward * x
        grown = replace(self, P=P, b=b, t=self.t + 1)
        here = int(self.item_labels[item])
        linked = np.append(np.flatnonzero(self.item_edges[item]), item)  # the item itself last
        near = grown._near(user, linked)
        # their Figure 2: users who differ from this one on this item are no longer linked in its graph
        users, apart = self.user_edges[here].copy(), ~near[:, -1]
        users[user, apart] = users[apart, user] = False
        graphs = {**self.user_edges, here: users}
        # their Figure 3: items with other neighbours than this one are no longer linked to it
        other = linked[:-1][(near[:, :-1] != near[:, -1:]).any(axis=0)]
        if not len(other):
            return replace(grown, user_edges=graphs)
        edges, labels = self.item_edges.copy(), self.item_labels.copy()
        edges[item, other] = edges[other, item] = False
        members = np.flatnonzero(labels == here)
        parts = clusters(edges[np.ix_(members, members)])
        for part in set(parts.tolist()) - {int(parts[members == item][0])}:
            new = max(graphs) + 1  # a new cluster of items starts with all users alike
            labels[members[parts == part]] = new
            graphs[new] = _complete(len(b))
        return replace(grown, item_edges=edges, item_labels=labels, user_edges=graphs)

    def _near(self, user: int, items: Indices) -> Mask:
        """Which users are near this one on these items, (N, items)."""
        X = self.items[items]
        w = np.einsum("nij,nj->ni", self.P, self.b)
        reach = self.confidence * np.sqrt(np.einsum("li,nij,lj->nl", X, self.P, X) * np.log(self.t + 1.0))
        value = w @ X.T
        return np.asarray(np.abs(value - value[user]) <= reach + reach[user])


class COFIBA(Policy):
    """Collaborative filtering bandits (Li, Karatzoglou and Gentile, 2016), over a fixed catalogue of items.

    A round of user u with items X (k, d), rows of the catalogue, is ``policy.choose(X, task=u)``. An item is predicted
    by one linear model for all users who are in u's cluster as far as this item's cluster is concerned. Our reading:
    when a cluster of items falls apart, the part of the item last played keeps the users' graph, the others start with
    a complete one.

    Args:
        items: (m, d), the catalogue.
        confidence: alpha_2; less divides sooner.
        exploration: a schedule or a number; sqrt(log(t + 1)) is theirs.
        ridge: lambda; 1 there.
        settings: epsilon, tie_break, seed, most_pending, as for `KMTLUCB`.

    >>> items = np.eye(2)
    >>> policy = COFIBA(["ann", "bob"], items=items, confidence=0.5)
    >>> policy.observe(["ann", "bob"] * 4, items[[0, 0, 0, 0, 1, 1, 1, 1]], [1, -1, 1, -1, 1, 1, 1, 1])
    >>> policy.item_clusters.tolist()
    [0, 1]
    """

    parameters = ("arms", "items", "confidence", "exploration", "ridge", "epsilon", "tie_break", "seed", "most_pending")

    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        items: ArrayLike,
        confidence: float = 1.0,
        exploration: Exploration | None = None,
        ridge: float = 1.0,
        **settings: Any,
    ) -> None:
        super().__init__(arms, **settings)
        self.items = rows_of_contexts(as_float64("items", items), None)
        self._places = {row.tobytes(): i for i, row in enumerate(self.items + 0.0)}
        if len(self._places) < len(self.items):
            raise InvalidInputError("items holds the same row twice; an item is known by its row")
        self.confidence = positive("confidence", confidence, zero=True)
        self.exploration = UCB(Logarithmic()) if exploration is None else UCB(exploration)
        self.ridge = positive("ridge", ridge)
        self._state_of = Neighbours.start(self.n_arms, self.items, self.ridge, self.confidence)
        self._history, self._columns = History(self.n_arms), self.items.shape[1]
        self._regressions: dict[int, Regression] = {0: self._regression(self._state_of.user_edges[0])}

    @property
    def n_observations(self) -> int:
        return len(self._history)

    @property
    def item_clusters(self) -> Indices:
        """The cluster of each item of the catalogue, counted from 0 in order of their first items."""
        labels = self._state_of.item_labels
        return clusters(labels[:, None] == labels[None, :])

    def _leaders(self, query: Query, first_round: int, beta: Vector) -> tuple[Mask, None]:
        mean, width = self._estimate(query)
        return best(mean + beta[:, None] * width, self._tolerance), None

    def _estimate(self, query: Query) -> Prediction:
        arms, contexts = query.points()
        found = self._state_of.item_labels[self._find(contexts)]
        mean, width = np.empty(len(arms)), np.empty(len(arms))
        for cluster in np.unique(found).tolist():
            mine = found == cluster
            part = self._regressions[cluster].predict(Query(arms[mine], contexts[None, mine]))
            mean[mine], width[mine] = part.mean[0], part.width[0]
        return Prediction(mean.reshape(query.shape), width.reshape(query.shape))

    def _beta(self, query: Query, first_round: int) -> Vector:
        return self.exploration.beta(State(self._regressions[0], query), first_round)

    def _find(self, contexts: Matrix) -> Indices:
        """The place in the catalogue of each row."""
        places = [self._places.get(row.tobytes(), -1) for row in np.ascontiguousarray(contexts) + 0.0]
        if -1 in places:
            raise InvalidInputError(f"{contexts[places.index(-1)]!r} is not in items=, the catalogue")
        return np.array(places, dtype=np.intp)

    def _regression(self, users: Mask) -> Regression:
        settings = Settings(self.n_arms, (Product(same_cluster(users), Linear()),), self.ridge, "uniform", "borrow")
        return make("exact", settings, self._history.copy())

    def _learn(self, arms: Indices, contexts: Matrix, rewards: Vector, notes: list[Any]) -> None:
        for i, item in enumerate(self._find(contexts).tolist()):
            row = arms[i : i + 1], contexts[i : i + 1], rewards[i : i + 1]
            state = self._state_of.learn(int(arms[i]), item, float(rewards[i]))
            self._history.append(*row)
            for cluster, users in state.user_edges.items():
                before, regression = self._state_of.user_edges.get(cluster), self._regressions.get(cluster)
                if regression is not None and before is not None and np.array_equal(clusters(before), clusters(users)):
                    regression.observe(*row)
                else:
                    self._regressions[cluster] = self._regression(users)
            self._state_of = state

    def __repr__(self) -> str:
        n = len(self._state_of.user_edges)
        return (
            f"COFIBA(arms={self.n_arms}, items={len(self.items)})  # {self.n_observations} observations, {n} clusters"
        )


def _complete(n: int) -> Mask:
    return ~np.eye(n, dtype=bool)
