"""Many users, one model of each: tasks are users, and the candidates of a round are items with contexts.

A round of user u with items X (k, d) is ``policy.choose(X, arms=[u] * k)``: one arm, several contexts. What differs
is how users learn from each other: along a graph (Gang of Bandits) or in clusters found while playing (CLUB).
These only fill in values of `LinUCB`; `COFIBA`, where user clusters differ from item to item, is a policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from numpy.typing import ArrayLike

from kinbandits.errors import InvalidInputError
from kinbandits.exploration import LogExploration
from kinbandits.policies.decision import ArmName
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.policies.named import LinUCB
from kinbandits.similarity import Graph, OnlineClusters, Similarity, block_graph, macro_graph


def GOBLin(  # noqa: N802 (the name of the method)
    arms: int | Iterable[ArmName],
    *,
    graph: ArrayLike,
    variant: Literal["full", "macro", "block"] = "full",
    clusters: ArrayLike | None = None,
    **settings: Any,
) -> KMTLUCB:
    """Gang of Bandits (Cesa-Bianchi, Gentile and Zappella, 2013): linear models of users who are linked are alike.

    `LinUCB` with `Graph(graph)`, that is (I + L)^-1, ridge 1, and users without data borrowing from their friends.

    Args:
        arms: the users: how many, or their names.
        graph: (N, N) symmetric weights of the edges.
        variant: ``"full"``, GOB.Lin; ``"macro"``, one node per cluster, GOB.Lin.MACRO; ``"block"``, no edges
            between clusters, GOB.Lin.BLOCK.
        clusters: for the variants, the cluster of each user, counted from 0.
        settings: as for `LinUCB`. ``exploration`` is `LogExploration()`, alpha sqrt(log(t + 1)) with alpha = 1, as
            they run it; ``ConfidenceExploration(noise, norm_bound, delta, ridge=1.0, form="gob")``: their theorem.

    Example:
        >>> policy = GOBLin(["ann", "bob"], graph=[[0, 1], [1, 0]])
        >>> decision = policy.choose([[1.0, 0.0], [0.0, 1.0]], arms=["ann", "ann"])   # two items for ann
        >>> policy.update(decision, 1.0)
        >>> policy.predict(decision.context, arms=["bob"]).mean.round(3)
        array([0.2])
    """
    if (variant == "full") != (clusters is None):
        raise InvalidInputError('clusters= goes with variant="macro" or "block"')
    similarity: Similarity
    if variant == "full":
        similarity = Graph(graph)
    elif variant in ("macro", "block"):
        assert clusters is not None
        similarity = (macro_graph if variant == "macro" else block_graph)(graph, clusters)
    else:
        raise InvalidInputError(f'variant must be "full", "macro" or "block", got {variant!r}')
    return _users(arms, similarity, settings)


def CLUB(  # noqa: N802
    arms: int | Iterable[ArmName], *, confidence: float = 1.0, graph: ArrayLike | None = None, **settings: Any
) -> KMTLUCB:
    """CLUB (Gentile, Li and Zappella, 2014): users of one cluster have one linear model; clusters are found.

    `LinUCB` with `OnlineClusters(confidence, graph)`, ridge 1.

    Args:
        arms: the users: how many, or their names.
        confidence: alpha_2; less divides sooner.
        graph: edges to begin with; complete if left out.
        settings: as for `LinUCB`. ``exploration`` is `LogExploration()`, alpha sqrt(log(t + 1)) with alpha = 1.

    Example:
        >>> policy = CLUB(arms=3, confidence=0.5)
        >>> policy.observe([0, 1, 2] * 20, [[1.0]] * 60, [1.0, 1.0, -1.0] * 20)
        >>> policy.similarity_matrix()[0]
        array([1., 1., 0.])
    """
    return _users(arms, OnlineClusters(confidence, graph), settings)


def _users(arms: int | Iterable[ArmName], similarity: Similarity, settings: dict[str, Any]) -> KMTLUCB:
    defaults: dict[str, Any] = {"exploration": LogExploration(), "cold_start": "borrow"}
    return LinUCB(arms, similarity=similarity, **(defaults | settings))
