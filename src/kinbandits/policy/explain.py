"""Explanations (what each arm's rows add to an estimate), and the repr and notebook display of a policy."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from kinbandits import plotting
from kinbandits._html import html_table
from kinbandits._types import ArmName, Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.contract import Query
from kinbandits.terms import Terms

if TYPE_CHECKING:
    from kinbandits.policy.kmtl_ucb import KMTLUCB


@dataclass(frozen=True)
class Explanation:
    """The mean and width of one (arm, context), taken apart.

    Attributes:
        arm: the arm explained.
        mean: its estimated reward: ``level`` plus the sum of ``contributions``.
        contributions: how much of the mean came from each arm's rows, largest magnitude first.
        width: with all rows.
        width_alone: with the arm's own rows only.
        width_prior: with no rows at all.
        n_own, n_all: how many rows the arm has, and how many there are.
        level: where the estimate of every arm starts.
        model: what was learned about rewards, in words.
    """

    arm: ArmName
    mean: float
    contributions: dict[ArmName, float]
    width: float
    width_alone: float
    width_prior: float
    n_own: int
    n_all: int
    level: float = 0.0
    model: str = ""

    @property
    def borrowed(self) -> float:
        """The part of the mean that came from other arms."""
        return sum(value for arm, value in self.contributions.items() if arm != self.arm)

    @property
    def sentence(self) -> str:
        others = [(arm, value) for arm, value in self.contributions.items() if arm != self.arm and value != 0.0]
        parts = [f"every arm starts at {self.level:.3g}"] if self.level else []
        rows = f"its own {self.n_own} row{'' if self.n_own == 1 else 's'}"
        own = self.contributions.get(self.arm, 0.0)
        parts.append(f"{own:+.3g} comes from {rows}" if self.n_own else "it has no rows of its own")
        if others:
            most, value = others[0]
            several = f"{len(others)} other arms, most from {most!r} ({value:+.3g})"
            parts.append(f"{self.borrowed:+.3g} comes from {several if len(others) > 1 else f'arm {most!r}'}")
        else:
            parts.append("nothing comes from other arms")
        text = f"Arm {self.arm!r} is estimated at {self.mean:.3g}: {', '.join(parts)}."
        if self.width < 0.995 * self.width_alone:
            text += f" The other arms' rows narrow its width from {self.width_alone:.3g} to {self.width:.3g}."
        return text

    def parts(self, most: int = 8) -> list[tuple[str, float]]:
        """What adds up to the mean, largest first: at most so many arms, and the others together."""
        own = {self.arm: ", its own rows"}
        shown = [(f"arm {arm!r}{own.get(arm, '')}", v) for arm, v in self.contributions.items() if v]
        rest = shown[most:]
        level = [("every arm starts at", self.level)] if self.level else []
        more = [(f"and {len(rest)} more", sum(v for _, v in rest))] if rest else []
        return [*level, *shown[:most], *more]

    def plot(self) -> Any:
        """A matplotlib figure: what each arm's rows add to the mean."""
        return plotting.contributions_figure(
            self.parts(), f"What makes the estimate {self.mean:.3g} of {self.arm!r}"[:70]
        )

    def __str__(self) -> str:
        lines = [f"  {value:+9.4f}  {name}" for name, value in self.parts()]
        model = [f"Model {self.model}"] if self.model else []
        return "\n".join([self.sentence, *lines, f"  {self.mean:+9.4f}  together", *model])

    def _repr_html_(self) -> str:
        rows = [[name, f"{value:+.4f}"] for name, value in [*self.parts(), ("together", self.mean)]]
        return html_table(self.sentence, ["from the rows of", "part of the estimate"], rows)


def explain(policy: KMTLUCB, arm: int, context: Vector) -> Explanation:
    """Take apart the estimate at (arm, context)."""
    engine = policy.regression
    settings = engine.settings
    query = Query(np.array([arm]), context[None, None, :])
    mean, width = engine.predict(query)
    rows, _ = policy._knowledge.rows()
    none = engine.changed(settings, rows=History(settings.n_arms))
    mine = np.flatnonzero(rows.arms == arm)
    own = engine.changed(settings, rows=rows.taken(mine)) if len(mine) else none
    arms, contexts, weights = engine.dual()
    k = settings.unit * weights * _kernel_row(policy, arms, contexts, arm, context)
    if settings.cold_start == "explore" and not engine.counts[arm]:
        k = np.zeros(len(k))  # it starts at the level, whatever others say
    contributions = np.bincount(arms, weights=k, minlength=settings.n_arms) if len(arms) else np.zeros(settings.n_arms)
    order = np.argsort(-np.abs(contributions), kind="stable")
    return Explanation(
        arm=policy.arms[arm],
        mean=float(mean[0, 0]),
        contributions={policy.arms[i]: float(contributions[i]) for i in order},
        width=float(width[0, 0]),
        width_alone=float(own.predict(query).width[0, 0]),
        width_prior=float(none.predict(query).width[0, 0]),
        n_own=int(engine.counts[arm]),
        n_all=policy.n_observations,
        level=settings.level,
        model=str(policy.model).splitlines()[0],
    )


def _kernel_row(policy: KMTLUCB, arms: Indices, contexts: Matrix, arm: int, context: Vector) -> Vector:
    """k((a_i, x_i), (arm, context)) of each row."""
    row = np.zeros(len(arms))
    if not len(arms):
        return row
    for term, k_z in zip(policy.regression.settings.terms, policy.regression.k_z, strict=True):
        row += k_z[arm, arms] * term.kernel(term.select(contexts), term.select(context[None, :]))[:, 0]
    return row


# -- repr and notebook display ----------------------------------------------------------------------


def text_repr(policy: KMTLUCB) -> str:
    """The settings that differ from the defaults, and how much has been learned."""
    shown = [f"arms={policy.n_arms}", *(f"{k}={v}" for k, v in _settings(policy).items())]
    seen = f"{policy.n_observations} observations, {len(policy.pending())} pending"
    return f"{type(policy).__name__}({', '.join(shown)})  # {seen}"


def html_repr(policy: KMTLUCB) -> str:
    """Settings, and a table of arms with their counts."""
    counts = list(policy.counts.items())
    rows = [[f"{name}{' (retired)' if name in policy.retired else ''}", str(n)] for name, n in counts]
    return f"<p><code>{escape(text_repr(policy))}</code></p><pre>{escape(str(policy.model))}</pre>" + html_table(
        "", ["arm", "rows"], rows
    )


def _settings(policy: KMTLUCB) -> dict[str, str]:
    defaults = {name: p.default for name, p in inspect.signature(type(policy).__init__).parameters.items()}
    defaults["exploration"] = type(policy.exploration)() if type(policy.exploration).__name__ == "UCB" else None
    shown: dict[str, str] = {}
    for name, value in policy.get_params().items():
        if isinstance(value, Terms):
            if len(value) == 1 and value.terms[0].columns is None:
                term = value.terms[0]
                if term.context_kernel is not None:
                    shown["context_kernel"] = repr(term.context_kernel)
                if term.similarity != type(term)().similarity:
                    shown["similarity"] = repr(term.similarity)
            else:
                shown["kernel"] = " + ".join(repr(t) for t in value)
        elif name != "arms" and value != defaults.get(name):
            shown[name] = repr(value)
    return shown
