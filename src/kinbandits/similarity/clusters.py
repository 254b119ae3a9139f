"""Arms (or tasks) in clusters that are known beforehand; `kinbandits.contrib` finds them while playing."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._types import Indices, Matrix
from kinbandits._value import frozen_array
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.similarity.base import ArmInfo, Similarity
from kinbandits.similarity.given import Graph, Independent


class Clustered(Similarity):
    """Arms of one cluster are one arm; clusters resemble each other as ``between`` says.

    Args:
        labels: the cluster of each arm, counted from 0.
        between: a similarity of the clusters that is known beforehand; default: none resembles another.

    >>> Clustered([0, 0, 1]).matrix(History(n_arms=3))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """

    labels: Any
    between: Similarity = Independent()

    arm_argument: ClassVar[str] = "neighbours"

    def __post_init__(self) -> None:
        labels = checked_labels(self.labels)
        self._set(labels=frozen_array(labels))
        if not isinstance(self.between, Similarity) or not self.between.fixed:
            raise InvalidInputError(f"between must be a similarity known beforehand, got {self.between!r}")
        n = int(labels.max()) + 1
        known = len(self.between.matrix(History(n)))
        if known < n:
            raise InvalidInputError(f"labels name cluster {n - 1}, but between knows {known} clusters (from 0)")

    @property
    def _labels(self) -> Indices:
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


def checked_labels(values: Any) -> Indices:
    """Cluster numbers from 0 on, or a clear error."""
    labels = np.asarray(values)
    if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iuf" or (labels != np.floor(labels)).any():
        raise InvalidInputError(f"labels must be whole numbers, one cluster per arm, got {values!r}")
    if (labels < 0).any():
        raise InvalidInputError(f"labels count clusters from 0, got {labels.min()}")
    return np.asarray(labels, dtype=np.intp)


def _graph_and_labels(adjacency: ArrayLike, labels: ArrayLike) -> tuple[Graph, Indices]:
    graph, clusters = Graph(adjacency), checked_labels(labels)
    if len(clusters) != len(graph.adjacency):
        raise InvalidInputError(f"{len(clusters)} labels, but adjacency has {len(graph.adjacency)} rows")
    return graph, clusters
