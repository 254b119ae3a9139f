"""COFIBA: clusters of users that differ from item to item, and clusters of items, both found while playing.

Notation (N users, m items in d dimensions; t rows learned)
    P_i        (d, d)  (ridge I + sum of x x' over the rows of user i)^-1
    w_i        (d,)    P_i b_i, user i's own estimate
    reach      c sqrt(x' P_i x log(t + 1)), how far w_i' x may be from the truth
    near(x)    the users j with |w_i' x - w_j' x| <= reach_i(x) + reach_j(x), for the user i of the last row

Every cluster of items has a graph of users, and its components a `Clustered` similarity: items of that cluster are
predicted by the regression under it, on the rows of all items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import rows_of_contexts
from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits._value import positive
from kinbandits.errors import InvalidInputError
from kinbandits.exploration import LogExploration
from kinbandits.history import History
from kinbandits.kernels import Linear
from kinbandits.policies.base import Policy
from kinbandits.policies.decision import ArmName
from kinbandits.regression import Prediction, Query, Regression, RegressionSettings, make_regression
from kinbandits.regression.base import best
from kinbandits.regression.linalg.cholesky import components
from kinbandits.similarity import Clustered
from kinbandits.terms import Term, as_terms


@dataclass(frozen=True)
class Neighbours:
    """Users' own estimates, the graph of items, and the graph of users of each cluster of items."""

    items: Matrix
    confidence: float
    P: Matrix  # P, b: per user, (N, d, d) and (N, d)
    b: Matrix
    t: int  # rows learned
    item_edges: Mask  # (m, m)
    item_labels: Indices  # (m,) cluster of each item; numbers are never used again
    user_edges: dict[int, Mask]  # per cluster of items, (N, N)

    @classmethod
    def start(cls, n_users: int, items: Matrix, ridge: float, confidence: float) -> Self:
        m, d = items.shape
        P = np.tile(np.eye(d) / ridge, (n_users, 1, 1))
        labels = np.zeros(m, dtype=np.intp)
        return cls(items, confidence, P, np.zeros((n_users, d)), 0, _complete(m), labels, {0: _complete(n_users)})

    def learn(self, user: int, item: int, reward: float) -> Neighbours:
        x = self.items[item]
        P, b, t = self.P.copy(), self.b.copy(), self.t + 1
        u = P[user] @ x
        P[user] -= np.outer(u, u / (1.0 + x @ u))
        b[user] += reward * x
        grown = replace(self, P=P, b=b, t=t)
        here = int(self.item_labels[item])
        linked = np.append(np.flatnonzero(self.item_edges[item]), item)  # the item itself last
        near = grown._near(user, linked)
        # their Figure 2: users who differ from this one on this item are no longer linked in its graph
        users = self.user_edges[here].copy()
        apart = ~near[:, -1]
        users[user, apart] = users[apart, user] = False
        graphs = {**self.user_edges, here: users}
        # their Figure 3: items with other neighbours than this one are no longer linked to it
        other = linked[:-1][(near[:, :-1] != near[:, -1:]).any(axis=0)]
        if not len(other):
            return replace(grown, user_edges=graphs)
        edges = self.item_edges.copy()
        edges[item, other] = edges[other, item] = False
        labels = self.item_labels.copy()
        members = np.flatnonzero(labels == here)
        parts = components(edges[np.ix_(members, members)])
        kept = parts[members == item][0]
        for part in range(int(parts.max()) + 1):
            if part != kept:  # a new cluster of items starts with all users alike
                new = max(graphs) + 1
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

    A round of user u with items X (k, d), rows of the catalogue, is ``policy.choose(X, arms=[u] * k)``. An item is
    predicted by one linear model for all users who are in u's cluster as far as this item's cluster is concerned,
    and the largest mean + exploration * width is played. Our reading: when a cluster of items falls apart, the part
    of the item last played keeps the users' graph, the others start with a complete one.

    Args:
        items: (m, d), the catalogue.
        confidence: alpha_2; less divides sooner.
        exploration: a schedule or a number; `LogExploration()` is theirs with alpha = 1.
        ridge: lambda; 1 there.
        settings: epsilon, tie_break, seed, pending, as for `KMTLUCB`.

    >>> items = np.eye(2)
    >>> policy = COFIBA(["ann", "bob"], items=items, confidence=0.5)
    >>> policy.observe(["ann", "bob"] * 4, items[[0, 0, 0, 0, 1, 1, 1, 1]], [1, -1, 1, -1, 1, 1, 1, 1])
    >>> policy.item_clusters.tolist()
    [0, 1]
    >>> policy.user_clusters(items[0]), policy.user_clusters(items[1])
    ({'ann': 0, 'bob': 1}, {'ann': 0, 'bob': 0})
    """

    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        items: ArrayLike,
        confidence: float = 1.0,
        exploration: float | Callable[[int], float] = LogExploration(),  # noqa: B008 (a frozen value)
        ridge: float = 1.0,
        **settings: Any,
    ) -> None:
        super().__init__(arms, **settings)
        self.items = rows_of_contexts(items, None)
        self._places = {row.tobytes(): i for i, row in enumerate(self.items + 0.0)}
        if len(self._places) < len(self.items):
            raise InvalidInputError("items holds the same row twice; an item is known by its row")
        self.confidence = positive("confidence", confidence, zero=True)
        self.exploration = exploration if callable(exploration) else positive("exploration", exploration, zero=True)
        self.ridge = positive("ridge", ridge)
        self._start(History(self.n_arms))

    # -- what one reads -------------------------------------------------------------------------

    @property
    def n_observations(self) -> int:
        return len(self._history)

    @property
    def item_clusters(self) -> Indices:
        """The cluster of each item of the catalogue, counted from 0 in order of their first items."""
        labels = self._state.item_labels
        return components(labels[:, None] == labels[None, :])

    def user_clusters(self, item: ArrayLike) -> dict[ArmName, int]:
        """The cluster of each user, as far as this item is concerned."""
        row = rows_of_contexts(np.atleast_2d(item), self.items.shape[1])
        cluster = int(self._state.item_labels[self._find(row)[0]])
        return dict(zip(self.arms, components(self._state.user_edges[cluster]).tolist(), strict=True))

    # -- choosing -------------------------------------------------------------------------------

    def _leaders(self, query: Query, first_round: int, exploration: Vector, tolerance: float) -> tuple[Mask, None]:
        if not query.shape[0]:
            return np.zeros(query.shape, dtype=bool), None
        mean, width = self._predict(query)
        return best(mean + exploration[:, None] * width, tolerance), None

    def _predict(self, query: Query) -> Prediction:
        arms, contexts = query.points()
        clusters = self._state.item_labels[self._find(contexts)]
        mean, width = np.empty(len(arms)), np.empty(len(arms))
        for cluster in np.unique(clusters).tolist():
            mine = clusters == cluster
            found = self._regressions[cluster].predict(Query(arms[mine], contexts[None, mine]))
            mean[mine], width[mine] = found.mean[0], found.width[0]
        return Prediction(mean.reshape(query.shape), width.reshape(query.shape))

    def _exploration(self, first_round: int, shape: tuple[int, int]) -> Vector:
        if not callable(self.exploration):
            return np.full(shape[0], self.exploration)
        return np.array([float(self.exploration(first_round + i + 1)) for i in range(shape[0])])

    @property
    def _features_seen(self) -> int | None:
        return int(self.items.shape[1])

    def _find(self, contexts: Matrix) -> Indices:
        """The place in the catalogue of each row."""
        places = [self._places.get(row.tobytes(), -1) for row in np.ascontiguousarray(contexts) + 0.0]
        if -1 in places:
            row = contexts[places.index(-1)]
            raise InvalidInputError(f"{row!r} is no row of items=; COFIBA knows the items of its catalogue alone")
        return np.array(places, dtype=np.intp)

    # -- learning -------------------------------------------------------------------------------

    def _start(self, history: History) -> None:
        self._state = Neighbours.start(self.n_arms, self.items, self.ridge, self.confidence)
        self._history = History(self.n_arms)
        self._regressions: dict[int, Regression] = {0: self._regression(self._state.user_edges[0])}
        if len(history):
            self._learn(history.arms, history.contexts, history.rewards, [None] * len(history))

    def _regression(self, users: Mask) -> Regression:
        term = Term(Clustered(components(users)), Linear())
        return make_regression(
            "exact", RegressionSettings(as_terms(term), self.ridge, "uniform", "borrow"), self._history.copy()
        )

    def _learn(self, arms: Indices, contexts: Matrix, rewards: Vector, notes: list[Any]) -> None:
        items = self._find(contexts)
        for i, item in enumerate(items.tolist()):
            rows = slice(i, i + 1)
            state = self._state.learn(int(arms[i]), item, float(rewards[i]))
            self._history.append(arms[rows], contexts[rows], rewards[rows])
            for cluster, users in state.user_edges.items():
                before = self._state.user_edges.get(cluster)
                regression = self._regressions.get(cluster)
                if regression is None or before is None or _moved(before, users):
                    self._regressions[cluster] = self._regression(users)
                else:
                    regression.observe(arms[rows], contexts[rows], rewards[rows])
            self._state = state

    # -- arms, saving, copies -------------------------------------------------------------------

    def add_arm(self, arm: ArmName) -> None:
        """Add a user, linked to all at first; then all rows are gone over."""
        self._check_new_arm(arm)
        self._append_arm(arm)
        history = self._history.copy()
        history.n_arms += 1
        self._start(history)

    def remove_arm(self, arm: ArmName) -> None:
        """Remove a user and the rows; open decisions are void."""
        index = self._check_leaving(arm)
        history = self._history.without_arm(index)
        self._drop_arm(arm)
        self._start(history)

    parameters = ("arms", "items", "confidence", "exploration", "ridge", "epsilon", "tie_break", "seed", "pending")

    def _learned(self, spec: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        h = self._history
        return {}, {"arms": h.arms.astype(np.int64), "contexts": h.contexts, "rewards": h.rewards}

    def _relearn(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]], value: Callable[[Any], Any]) -> None:
        rows = arrays["arms"].astype(np.intp), arrays["contexts"], arrays["rewards"]
        self._start(History.of(self.n_arms, *rows))

    def copy(self) -> Self:
        other = super().copy()
        other._history = self._history.copy()
        other._regressions = {cluster: r.copy() for cluster, r in self._regressions.items()}
        return other

    def __repr__(self) -> str:
        clusters = len(self._state.user_edges)
        return (
            f"COFIBA(arms={self.n_arms}, items={len(self.items)})"
            f"  # {self.n_observations} observations, {clusters} clusters of items"
        )


def _complete(n: int) -> Mask:
    return ~np.eye(n, dtype=bool)


def _moved(before: Mask, after: Mask) -> bool:
    """Whether the components of a graph have changed."""
    return not np.array_equal(before, after) and not np.array_equal(components(before), components(after))
