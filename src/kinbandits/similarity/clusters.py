"""Similarities of arms (or tasks) that fall into clusters: given ones, and ones found by CLUB while it plays.

Notation
    labels    (N,)      cluster of each arm
    A_a       (d, d)    ridge I + sum of phi phi' over the rows of arm a;  b_a = sum of reward * phi
    w_a       (d,)      A_a^-1 b_a, arm a's own estimate
    radius    (N,)      c sqrt((1 + log(1 + n_a)) / (1 + n_a)), how far w_a may be from the truth
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._types import Matrix
from kinbandits._value import frozen_array, positive
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import Kernel
from kinbandits.similarity.base import ArmInfo, Similarity, Tracker, Weighting
from kinbandits.similarity.given import Graph, Independent

Labels = NDArray[np.intp]


@dataclass(frozen=True, eq=False, repr=False)
class Clustered(Similarity):
    """Arms of one cluster are one arm; clusters resemble each other as ``between`` says.

    Args:
        labels: the cluster of each arm, counted from 0.
        between: a similarity of the clusters that is known beforehand; default: none resembles another.

    Example:
        >>> Clustered([0, 0, 1]).matrix(History(n_arms=3))
        array([[1., 1., 0.],
               [1., 1., 0.],
               [0., 0., 1.]])
    """

    labels: Any
    between: Similarity = Independent()  # noqa: RUF009 (a frozen value)

    def __post_init__(self) -> None:
        labels = checked_labels(self.labels)
        object.__setattr__(self, "labels", frozen_array(labels))
        if not isinstance(self.between, Similarity) or not self.between.fixed:
            raise InvalidInputError(f"between must be a similarity known beforehand, got {self.between!r}")
        n = int(labels.max()) + 1
        known = len(self.between.matrix(History(n)))
        if known < n:
            raise InvalidInputError(f"labels name cluster {n - 1}, but between knows {known} clusters (from 0)")

    @property
    def arm_argument(self) -> str:
        return "neighbours"

    @property
    def _labels(self) -> Labels:
        return np.asarray(self.labels, dtype=np.intp)

    def check_arms(self, n_arms: int) -> None:
        if len(self.labels) != n_arms:
            raise InvalidInputError(f"Clustered: {len(self.labels)} labels, but there are {n_arms} arms")

    def matrix(self, history: History) -> Matrix:
        """k_Z(a, b) = between(cluster of a, cluster of b)."""
        K = self.between.matrix(History(int(self._labels.max()) + 1))
        return K[np.ix_(self._labels, self._labels)]

    def _with_arm(self, n_arms: int, info: ArmInfo) -> Clustered:
        """One more arm, in the cluster of its neighbours; without any, a cluster of its own."""
        found = np.unique(self._labels[list(info.neighbours or ())])
        if len(found) > 1:
            raise InvalidInputError(f"neighbours are of different clusters ({found.tolist()}); name those of one")
        if not len(found) and not isinstance(self.between, Independent):
            raise InvalidInputError("clusters are related here; name neighbours= of the cluster the arm joins")
        new = int(found[0]) if len(found) else int(self._labels.max()) + 1
        return self.replace(labels=np.append(self._labels, new))

    def without_arm(self, arm: int) -> Clustered:
        """One label fewer; numbers of clusters stay."""
        return self.replace(labels=np.delete(self._labels, arm))


def block_graph(adjacency: ArrayLike, labels: ArrayLike) -> Graph:
    """The graph without its edges between clusters (GOB.Lin.BLOCK).

    >>> block_graph([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0, 0, 1]).adjacency.tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    graph, clusters = _graph_and_labels(adjacency, labels)
    return Graph(graph.adjacency * (clusters[:, None] == clusters[None, :]))


def macro_graph(adjacency: ArrayLike, labels: ArrayLike) -> Clustered:
    """One node per cluster, edges weighted by how many edges join two clusters (GOB.Lin.MACRO).

    >>> macro_graph([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0, 0, 1]).between.adjacency.tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    graph, clusters = _graph_and_labels(adjacency, labels)
    member = np.eye(int(clusters.max()) + 1)[clusters]
    return Clustered(clusters, Graph(member.T @ graph.adjacency @ member))


@dataclass(frozen=True, eq=False, repr=False)
class OnlineClusters(Similarity):
    """Clusters found while playing (CLUB, Gentile, Li and Zappella, 2014): arms of one cluster are one arm.

    It starts from a graph, complete if none is given. After each row of arm a, an edge (a, b) is deleted when
    ||w_a - w_b|| > radius_a + radius_b, each arm's estimate being its own ridge regression. Clusters are the
    connected components. Edges never come back, so that the clusters depend on the order of the rows.

    The context kernel needs a finite feature map (`Linear()`).

    Args:
        confidence: c of the radius; less divides sooner.
        adjacency: edges to begin with, (N, N); entries above 0 are edges.
        context_kernel, ridge: of the regression; filled in by the policy.

    Example:
        >>> import kinbandits as kb
        >>> rows = np.array([0, 1, 2] * 20), np.ones((60, 1)), np.array([1.0, 1.0, -1.0] * 20)
        >>> policy = kb.baselines.LinUCB(3, similarity=OnlineClusters(confidence=0.5))
        >>> policy.observe(*rows)
        >>> policy.similarity_matrix()
        array([[1., 1., 0.],
               [1., 1., 0.],
               [0., 0., 1.]])
    """

    confidence: float = 1.0
    adjacency: Any = None
    context_kernel: Any = None
    ridge: float | None = None

    fixed: ClassVar[bool] = False
    steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", positive("confidence", self.confidence, zero=True))
        if self.adjacency is not None:
            object.__setattr__(self, "adjacency", Graph(self.adjacency).adjacency)

    @property
    def arm_argument(self) -> str | None:
        """Edges, if a graph was given; otherwise a new arm is joined to all."""
        return None if self.adjacency is None else "neighbours"

    def bound(self, context_kernel: Kernel, ridge: float, weighting: Weighting) -> OnlineClusters:
        """Told the kernel and the ridge."""
        return self.replace(context_kernel=context_kernel, ridge=ridge)

    def check_arms(self, n_arms: int) -> None:
        if self.adjacency is not None and len(self.adjacency) != n_arms:
            raise InvalidInputError(f"adjacency has {len(self.adjacency)} rows, but there are {n_arms} arms")

    def matrix(self, history: History) -> Matrix:
        tracker = _ClusterTracker(self, history)
        return tracker.matrix

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
        if self.context_kernel is None or self.ridge is None:
            raise InvalidInputError(
                "OnlineClusters estimates as its policy does; give it to a policy (similarity=), or call "
                "bound(context_kernel, ridge, weighting) first"
            )
        phi = self.context_kernel.features(contexts)
        if phi is None:
            raise InvalidInputError(
                f"OnlineClusters needs a kernel with a finite feature map, such as kb.Linear(), got "
                f"{self.context_kernel!r}"
            )
        return np.asarray(phi)

    def edges(self, n_arms: int) -> NDArray[np.bool_]:
        """The graph to begin with."""
        complete = np.ones((n_arms, n_arms), dtype=bool) if self.adjacency is None else self.adjacency > 0.0
        return np.asarray(complete & ~np.eye(n_arms, dtype=bool))

    def radius(self, counts: Labels) -> Matrix:
        """c sqrt((1 + log(1 + n)) / (1 + n))."""
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
        ridge = float(self._clusters.ridge or 0.0)
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


def same_component(edges: NDArray[np.bool_]) -> Matrix:
    """1 where two nodes are connected, else 0.

    >>> same_component(np.array([[False, True, False], [True, False, False], [False, False, False]]))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    labels = components(edges)
    return np.asarray((labels[:, None] == labels[None, :]).astype(np.float64))


def components(edges: NDArray[np.bool_]) -> Labels:
    """The connected component of each node, numbered in order of their first nodes."""
    from scipy.sparse import csr_array  # slow to import, and not needed by every policy
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(csr_array(edges.astype(np.int8)), directed=False)[1]
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[place], dtype=np.intp)


def checked_labels(values: Any) -> Labels:
    """Cluster numbers from 0 on, or a clear error."""
    labels = np.asarray(values)
    if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iuf" or (labels != np.floor(labels)).any():
        raise InvalidInputError(f"labels must be whole numbers, one cluster per arm, got {values!r}")
    if (labels < 0).any():
        raise InvalidInputError(f"labels count clusters from 0, got {labels.min()}")
    return np.asarray(labels, dtype=np.intp)


def _graph_and_labels(adjacency: ArrayLike, labels: ArrayLike) -> tuple[Graph, Labels]:
    graph, clusters = Graph(adjacency), checked_labels(labels)
    if len(clusters) != len(graph.adjacency):
        raise InvalidInputError(f"{len(clusters)} labels, but adjacency has {len(graph.adjacency)} rows")
    return graph, clusters
