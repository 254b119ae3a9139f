"""Gang of Bandits: many users with a linear model each, and users who are linked learn from each other.

A round of user u with items X (k, d) is ``policy.choose(X, arms=[u] * k)``: one arm, several contexts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from numpy.typing import ArrayLike

from kinbandits.baselines.filling import filled
from kinbandits.baselines.linear import LinUCB
from kinbandits.errors import InvalidInputError
from kinbandits.exploration import LogExploration
from kinbandits.policies.decision import ArmName
from kinbandits.similarity import Graph, Similarity, block_graph, macro_graph


class GOBLin(LinUCB):
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

    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        graph: ArrayLike | None = None,
        variant: Literal["full", "macro", "block"] = "full",
        clusters: ArrayLike | None = None,
        **settings: Any,
    ) -> None:
        values: dict[str, Any] = {"exploration": LogExploration(), "cold_start": "borrow"}
        if settings.get("kernel") is None:
            values["similarity"] = _similarity(graph, variant, clusters)
        super().__init__(arms, **filled(settings, **values))


def _similarity(graph: ArrayLike | None, variant: object, clusters: ArrayLike | None) -> Similarity:
    if graph is None:
        raise InvalidInputError("graph= is missing: (N, N) symmetric weights of the edges between users")
    if (variant == "full") != (clusters is None):
        raise InvalidInputError('clusters= goes with variant="macro" or "block"')
    if clusters is None:
        return Graph(graph)
    if variant not in ("macro", "block"):
        raise InvalidInputError(f'variant must be "full", "macro" or "block", got {variant!r}')
    return (macro_graph if variant == "macro" else block_graph)(graph, clusters)
