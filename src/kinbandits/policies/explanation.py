"""Why a decision came out as it did: which arms lent how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinbandits import plotting
from kinbandits._html import html_table
from kinbandits._types import Matrix
from kinbandits.history import History
from kinbandits.memory import Forgetting
from kinbandits.noise import Noise
from kinbandits.policies.decision import ArmName
from kinbandits.regression import Query, Regression
from kinbandits.rewards import RewardScale
from kinbandits.similarity import Known


@dataclass(frozen=True)
class Explanation:
    """The mean and width of one (arm, context), taken apart.

    Attributes:
        arm: the arm explained.
        mean: its estimated reward: ``level`` plus the sum of ``lent``.
        lent: how much of the mean came from each arm's data, largest magnitude first.
        width: with all data.
        width_alone: with the arm's own data only.
        width_prior: with no data at all.
        n_own, n_all: how many rows the arm has, and how many there are.
        level: where the estimate of every arm starts (0, or what ``rewards=`` says).
        noise: what was learned about the noise of rewards, in words; empty if nothing is.
    """

    arm: ArmName
    mean: float
    lent: dict[ArmName, float]
    width: float
    width_alone: float
    width_prior: float
    n_own: int
    n_all: int
    level: float = 0.0
    noise: str = ""

    @property
    def borrowed(self) -> float:
        """The part of the mean that came from other arms."""
        return sum(value for arm, value in self.lent.items() if arm != self.arm)

    @property
    def sentence(self) -> str:
        others = [(arm, value) for arm, value in self.lent.items() if arm != self.arm and value != 0.0]
        parts = [f"{self.level:.3g} is where every arm starts"] if self.level else []
        rows = f"its own {self.n_own} row{'' if self.n_own == 1 else 's'}"
        parts.append(f"{self.lent[self.arm]:+.3g} comes from {rows}" if self.n_own else "it has no rows of its own")
        if others:
            most, value = others[0]
            several = f"{len(others)} other arms, most from {most!r} ({value:+.3g})"
            parts.append(f"{self.borrowed:+.3g} comes from {several if len(others) > 1 else f'arm {most!r}'}")
        else:
            parts.append("nothing comes from other arms")
        told = f"Arm {self.arm!r} is estimated at {self.mean:.3g}: {', '.join(parts)}."
        if self.width < 0.995 * self.width_alone:
            told += f" The others' rows narrow its width from {self.width_alone:.3g} to {self.width:.3g}."
        return told

    def parts(self, most: int = 8) -> list[tuple[str, float]]:
        """What adds up to the mean, largest first: at most so many arms, and the others together."""
        own = {self.arm: ", its own rows"}
        shown = [(f"arm {arm!r}{own.get(arm, '')}", v) for arm, v in self.lent.items() if v]
        rest = shown[most:]
        level = [("every arm starts at", self.level)] if self.level else []
        more = [(f"and {len(rest)} more", sum(v for _, v in rest))] if rest else []
        return [*level, *shown[:most], *more]

    def plot(self) -> Any:
        """A matplotlib figure: what each arm's rows add to the mean."""
        return plotting.lent_figure(self.parts(), f"What makes the estimate {self.mean:.3g} of {self.arm!r}"[:70])

    def __str__(self) -> str:
        lines = [f"  {value:+9.4f}  {name}" for name, value in self.parts()]
        noise = [f"Rewards: {self.noise}."] if self.noise else []
        return "\n".join([self.sentence, *lines, f"  {self.mean:+9.4f}  together", *noise])

    def _repr_html_(self) -> str:
        rows = [[name, f"{value:+.4f}"] for name, value in [*self.parts(), ("together", self.mean)]]
        return html_table(self.sentence, ["from the rows of", "part of the estimate"], rows)


def explain(
    regression: Regression,
    names: Sequence[ArmName],
    arm: int,
    context: Matrix,
    scale: RewardScale,
    noise: Noise | None = None,
) -> Explanation:
    """Take apart the estimate at (arm, context)."""
    history = regression.history
    query = Query(np.array([arm]), context[None, None, :])
    mean, width = regression.predict(query)
    alone = _alone(regression, arm)
    nothing = regression.rebuilt(regression.settings, History(history.n_arms))
    contributions = scale.scale * regression.contributions(arm, context)
    order = np.argsort(-np.abs(contributions), kind="stable")
    return Explanation(
        arm=names[arm],
        mean=scale.offset + scale.scale * float(mean[0, 0]),
        lent={names[i]: float(contributions[i]) for i in order},
        width=scale.scale * float(width[0, 0]),
        width_alone=scale.scale * float(alone.predict(query).width[0, 0]),
        width_prior=scale.scale * float(nothing.predict(query).width[0, 0]),
        n_own=int(regression.counts[arm]),
        n_all=regression.n_observations,
        level=scale.offset,
        noise="" if noise is None else str(noise),
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
