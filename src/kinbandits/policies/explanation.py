"""Why a decision came out as it did: which arms lent how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinbandits.history import History
from kinbandits.memory import Forgetting
from kinbandits.policies.decision import ArmName
from kinbandits.regression import Query, Regression
from kinbandits.similarity import Known


@dataclass(frozen=True)
class Explanation:
    """The mean and width of one (arm, context), taken apart.

    Attributes:
        arm: the arm explained.
        mean: its estimated reward; the sum of ``lent`` (plus the lowest reward, if a reward range is set).
        lent: how much of the mean came from each arm's data, largest magnitude first.
        width: with all data.
        width_alone: with the arm's own data only.
        width_prior: with no data at all.
        n_own, n_all: how many rows the arm has, and how many there are.
    """

    arm: ArmName
    mean: float
    lent: dict[ArmName, float]
    width: float
    width_alone: float
    width_prior: float
    n_own: int
    n_all: int

    @property
    def borrowed(self) -> float:
        """The part of the mean that came from other arms."""
        return sum(value for arm, value in self.lent.items() if arm != self.arm)

    def __str__(self) -> str:
        lines = [
            f"arm {self.arm!r}: mean {self.mean:.4g}, of which {self.borrowed:.4g} from other arms' data",
            f"  width {self.width:.4g} (own {self.n_own} rows alone: {self.width_alone:.4g}; "
            f"no data: {self.width_prior:.4g})",
        ]
        for arm, value in list(self.lent.items())[:10]:
            own = "  (its own)" if arm == self.arm else ""
            lines.append(f"  {value:+10.4f}  from {arm!r}{own}")
        return "\n".join(lines)


def explain(
    regression: Regression,
    names: Sequence[ArmName],
    arm: int,
    context: NDArray[np.float64],
    reward_scale: float,
    reward_offset: float,
) -> Explanation:
    """Take apart the estimate at (arm, context)."""
    history = regression.history
    query = Query(np.array([arm]), context[None, None, :])
    mean, width = regression.predict(query)
    alone = _alone(regression, arm)
    nothing = regression.rebuilt(regression.settings, History(history.n_arms))
    contributions = reward_scale * regression.contributions(arm, context)
    order = np.argsort(-np.abs(contributions), kind="stable")
    return Explanation(
        arm=names[arm],
        mean=reward_offset + reward_scale * float(mean[0, 0]),
        lent={names[i]: float(contributions[i]) for i in order},
        width=reward_scale * float(width[0, 0]),
        width_alone=reward_scale * float(alone.predict(query).width[0, 0]),
        width_prior=reward_scale * float(nothing.predict(query).width[0, 0]),
        n_own=int(regression.counts[arm]),
        n_all=regression.n_observations,
    )


def _alone(regression: Regression, arm: int) -> Regression:
    """The same engine with the rows of one arm only, each of the weight it has now."""
    settings, history = regression.settings, regression.history
    if isinstance(settings.memory, Forgetting):  # a weight depends on the rows after: they stay, as strangers
        matrices = regression.similarity_matrices
        strangers = settings.terms.with_similarities([Known(np.diag(np.diag(K))) for K in matrices])
        return regression.rebuilt(replace(settings, terms=strangers), history)
    own = history.arms == arm
    rows = History.of(history.n_arms, history.arms[own], history.contexts[own], history.rewards[own])
    return regression.rebuilt(settings, rows)
