"""CLUB: users in clusters that are found while playing, and one linear model for each cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from kinbandits.baselines.filling import filled
from kinbandits.baselines.linear import LinUCB
from kinbandits.contrib.clusters import OnlineClusters
from kinbandits.exploration import LogExploration
from kinbandits.policies.decision import ArmName


class CLUB(LinUCB):
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

    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        confidence: float = 1.0,
        graph: ArrayLike | None = None,
        **settings: Any,
    ) -> None:
        similarity = OnlineClusters(confidence, graph)
        values = {"similarity": similarity, "exploration": LogExploration(), "cold_start": "borrow"}
        super().__init__(arms, **filled(settings, **values))
