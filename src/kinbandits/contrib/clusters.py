"""CLUB: clusters of arms (users, tasks) that are found while playing, and one linear model for each cluster.

Notation
    A_a       (d, d)    ridge I + sum of phi phi' over the rows of arm a;  b_a = sum of reward * phi
    w_a       (d,)      A_a^-1 b_a, arm a's own estimate
    radius    (N,)      c sqrt((1 + log(1 + n_a)) / (1 + n_a)), how far w_a may be from the truth
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._types import Indices, Mask, Matrix
from kinbandits._value import NotNegative
from kinbandits.baselines.special_cases import Arms, LinUCB, filled
from kinbandits.errors import InvalidInputError
from kinbandits.exploration import LogExploration
from kinbandits.history import History
from kinbandits.regression.linalg.cholesky import components
from kinbandits.similarity import ArmInfo, Graph, Judging, Tracker


class OnlineClusters(Judging):
    """Clusters found while playing (CLUB, Gentile, Li and Zappella, 2014): arms of one cluster are one arm.

    It starts from a graph, complete if none is given. After each row of arm a, an edge (a, b) is deleted when
    ||w_a - w_b|| > radius_a + radius_b, each arm's estimate being its own ridge regression. Clusters are the
    connected components. Edges never come back, so that the clusters depend on the order of the rows.

    The context kernel needs a finite feature map (`Linear()`).

    Args:
        confidence: c of the radius; less divides sooner.
        adjacency: edges to begin with, (N, N); entries above 0 are edges.

    >>> import kinbandits as kb
    >>> rows = np.array([0, 1, 2] * 20), np.ones((60, 1)), np.array([1.0, 1.0, -1.0] * 20)
    >>> policy = kb.baselines.LinUCB(3, similarity=OnlineClusters(confidence=0.5))
    >>> policy.observe(*rows)
    >>> policy.similarity_matrix()
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """

    confidence: NotNegative = 1.0
    adjacency: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adjacency is not None:
            self._set(adjacency=Graph(self.adjacency).adjacency)

    @property
    def arm_argument(self) -> str | None:
        """Edges, if a graph was given; otherwise a new arm is joined to all."""
        return None if self.adjacency is None else "neighbours"

    def check_arms(self, n_arms: int) -> None:
        if self.adjacency is not None and len(self.adjacency) != n_arms:
            raise InvalidInputError(f"adjacency has {len(self.adjacency)} rows, but there are {n_arms} arms")

    def matrix(self, history: History) -> Matrix:
        return _ClusterTracker(self, history).matrix

    def tracker(self, history: History) -> Tracker:
        """A new row costs d^3 and a distance to each neighbour."""
        return _ClusterTracker(self, history)

    def _with_arm(self, n_arms: int, info: ArmInfo) -> OnlineClusters:
        """One more node, joined to its neighbours if a graph was given, or to all; then all rows are gone over."""
        if self.adjacency is None:
            return self
        grown = Graph(self.adjacency)._with_arm(n_arms, info)
        return self.replace(adjacency=grown.adjacency)

    def without_arm(self, arm: int) -> OnlineClusters:
        if self.adjacency is None:
            return self
        return self.replace(adjacency=Graph(self.adjacency).without_arm(arm).adjacency)

    def features(self, contexts: Matrix) -> Matrix:
        kernel = self.regressor.context_kernel
        phi = kernel.features(contexts)
        if phi is None:
            raise InvalidInputError(
                f"OnlineClusters needs a kernel with a finite feature map, such as kb.Linear(), got {kernel!r}"
            )
        return np.asarray(phi)

    def edges(self, n_arms: int) -> Mask:
        complete = np.ones((n_arms, n_arms), dtype=bool) if self.adjacency is None else self.adjacency > 0.0
        return np.asarray(complete & ~np.eye(n_arms, dtype=bool))

    def radius(self, counts: Indices) -> Matrix:
        return np.asarray(self.confidence * np.sqrt((1.0 + np.log1p(counts)) / (1.0 + counts)))


class _ClusterTracker(Tracker):
    """Keeps each arm's sums and the edges that are left. What changes is replaced, never edited."""

    def __init__(self, similarity: OnlineClusters, history: History) -> None:
        super().__init__(similarity, history)
        self._clusters = similarity
        n = history.n_arms
        self._sums: list[tuple[Matrix, Matrix] | None] = [None] * n  # A_a, b_a
        self._w: list[Matrix | None] = [None] * n
        self._counts = np.zeros(n, dtype=np.intp)
        self._edges = similarity.edges(n)
        self._same = same_component(self._edges)
        self.observe(0)

    @property
    def matrix(self) -> Matrix:
        return self._same

    def observe(self, start: int, squares: Matrix | None = None) -> None:
        h = self._history
        if start >= len(h):
            return
        phi = self._clusters.features(h.contexts[start:])
        ridge = self._clusters.regressor.ridge
        sums, w, counts, edges = list(self._sums), list(self._w), self._counts.copy(), self._edges
        for a, x, reward in zip(h.arms[start:].tolist(), phi, h.rewards[start:].tolist(), strict=True):
            A, b = sums[a] or (ridge * np.eye(len(x)), np.zeros(len(x)))
            sums[a] = A, b = A + np.outer(x, x), b + reward * x
            w[a] = own = np.linalg.solve(A, b)
            counts[a] += 1
            linked = np.flatnonzero(edges[a])
            radius = self._clusters.radius(counts)
            zero = np.zeros(len(x))
            distance = np.array([np.linalg.norm(own - (zero if w[c] is None else w[c])) for c in linked.tolist()])
            gone = linked[distance > radius[a] + radius[linked]]
            if len(gone):
                edges = edges.copy()
                edges[a, gone] = edges[gone, a] = False
        if edges is not self._edges:
            same = same_component(edges)
            self._same = self._same if np.array_equal(same, self._same) else same
        self._sums, self._w, self._counts, self._edges = sums, w, counts, edges


class CLUB(LinUCB):
    """CLUB (Gentile, Li and Zappella, 2014): users of one cluster have one linear model; clusters are found.

    `LinUCB` with `OnlineClusters(confidence, graph)`, ridge 1.

    Args:
        confidence: alpha_2; less divides sooner.
        graph: edges to begin with; complete if left out.
        settings: as for `LinUCB`. ``exploration`` is `LogExploration()`, alpha sqrt(log(t + 1)) with alpha = 1.

    >>> policy = CLUB(arms=3, confidence=0.5)
    >>> policy.observe([0, 1, 2] * 20, [[1.0]] * 60, [1.0, 1.0, -1.0] * 20)
    >>> policy.similarity_matrix()[0]
    array([1., 1., 0.])
    """

    def __init__(
        self, arms: Arms, *, confidence: float = 1.0, graph: ArrayLike | None = None, **settings: Any
    ) -> None:
        clusters = OnlineClusters(confidence, graph)
        values = {"similarity": clusters, "exploration": LogExploration(), "cold_start": "borrow"}
        super().__init__(arms, **filled(settings, **values))


def same_component(edges: Mask) -> Matrix:
    """1 where two nodes are connected, else 0.

    >>> same_component(np.array([[False, True, False], [True, False, False], [False, False, False]]))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    labels = components(edges)
    return np.asarray((labels[:, None] == labels[None, :]).astype(np.float64))
