"""Does sharing help here? What an adaptive similarity chose and why, and an alarm for any similarity."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbandits._work import finished
from kinbandits.errors import InvalidInputError, TransferWarning
from kinbandits.regression import Regression
from kinbandits.similarity import (
    SAMPLE,
    Adaptive,
    Evidence,
    FitData,
    Settled,
    SimilarityChoice,
    Stepwise,
    takes_force,
)


@dataclass(frozen=True)
class SimilarityReport:
    """What was chosen, and why; or an average over mu, whose ``posterior`` says how likely each is."""

    rows: int  # how many rows the present choice was made from; 0 before the first
    mu: float  # of the present choice; 0 is Independent
    scale: float | None
    reason: str  # in a sentence
    candidates: tuple[Evidence, ...]  # at the present choice, Independent first
    over_time: tuple[SimilarityChoice, ...]  # at every milestone, oldest first, without scores that did not matter
    next_rows: int | None  # at how many rows the next choice is in force
    margin: float | None = None  # nats by which sharing must win, where it is chosen by likelihood

    @property
    def posterior(self) -> dict[float, float]:
        """How likely each mu is at the present choice; empty where one mu was chosen."""
        return self.over_time[-1].posterior if self.over_time else {}

    def to_data(self) -> dict[str, Any]:
        return {
            **_choice_data(self),
            "over_time": [
                _choice_data(c) | {"posterior": {str(mu): round(p, 6) for mu, p in c.posterior.items()}}
                for c in self.over_time
            ],
            "next_rows": self.next_rows,
            "margin": self.margin,
        }

    def __str__(self) -> str:
        lines = [f"chosen from {self.rows} rows: {self.reason}", "   mu  scale  log-likelihood  decision score"]
        own = self.candidates[0].log_likelihood if self.candidates else 0.0
        for c in self.candidates:
            scale = "    -" if c.scale is None else f"{c.scale:5g}"
            score = "" if c.decision_score is None else f"{c.decision_score:14.3f}"
            score = score if c.weight is None else f"weight {c.weight:.3f}"
            mark = " <" if (c.mu, c.scale) == (self.mu, self.scale) else ""
            lines.append(f"{c.mu:5g}  {scale}  {c.log_likelihood - own:+14.2f}  {score}{mark}")
        if self.posterior:
            lines.append("posterior: " + ", ".join(f"mu={mu:g} {w:.2f}" for mu, w in self.posterior.items()))
        if self.over_time:
            lines.append("over time: " + ", ".join(f"{c.rows}: mu={c.mu:.2g}" for c in self.over_time))
        return "\n".join(lines)


@dataclass(frozen=True)
class TransferCheck:
    """The similarity less Independent, on the rows learned: nats, and the reward of leave-one-out decisions."""

    rows: int
    log_likelihood: float
    decision_score: float | None
    decision_error: float | None
    harmful: bool


def similarity_report(regression: Regression, complete: bool = True) -> SimilarityReport:
    """Why the similarity is what it is. If ``complete``, milestones not kept are worked out again."""
    similarity = regression.settings.terms.terms[0].similarity
    history = regression.settings.terms.terms[0].select_history(regression.history)
    if isinstance(similarity, Settled):
        alone = not np.count_nonzero(similarity.chosen - np.eye(len(similarity.chosen)))
        reason = f"settled when rows ceased to be kept: {'Independent' if alone else 'shared'}"
        return SimilarityReport(regression.n_observations, 0.0 if alone else np.nan, None, reason, (), (), None)
    if not isinstance(similarity, Stepwise):
        raise InvalidInputError(
            f"{similarity!r} is not chosen from the data, so there is nothing to report; check_transfer() compares "
            "it with Independent"
        )
    if not regression.keeps_all_rows:
        raise InvalidInputError("the rows the similarity was chosen from are no longer kept")
    stones = [n for n in similarity.milestones(len(history)) if takes_force(n) <= len(history)]
    known = {choice.rows: choice for choice in regression.choices()}
    if not complete or regression.reads_only:
        stones = [n for n in stones if n in known]
        if stones:
            return _reported(similarity, tuple(known[n] for n in stones))
        if similarity.in_force(len(history)):
            return SimilarityReport(0, np.nan, None, "what was chosen has not been kept", (), (), None)
    if not stones:
        reason = f"Independent: the first choice is made at {similarity.first} rows"
        return SimilarityReport(0, 0.0, None, reason, (), (), takes_force(similarity.first))
    past = [known[n] if n in known else similarity.choice(history.sample(n, SAMPLE)) for n in stones[:-1]]
    head = history.sample(stones[-1], SAMPLE)
    now = similarity.choice(head, complete=True) if isinstance(similarity, Adaptive) else similarity.choice(head)
    return _reported(similarity, (*past, now))


def _reported(similarity: Stepwise, choices: tuple[SimilarityChoice, ...]) -> SimilarityReport:
    now = choices[-1]
    later = next((takes_force(n) for n in similarity.milestones(similarity.until) if n > now.rows), None)
    margin = similarity.margin if isinstance(similarity, Adaptive) else None
    return SimilarityReport(now.rows, now.mu, now.scale, now.reason, now.candidates, choices, later, margin)


def _choice_data(choice: SimilarityReport | SimilarityChoice) -> dict[str, Any]:
    candidates = [_rounded(c) for c in choice.candidates]
    return {n: getattr(choice, n) for n in ("rows", "mu", "scale", "reason")} | {"candidates": candidates}


def _rounded(evidence: Evidence) -> dict[str, float | None]:
    """As JSON has it: no infinities, and no digits that rounding could change."""
    values = vars(evidence).items()
    return {name: None if v is None or not np.isfinite(v) else round(v, 6) for name, v in values}


def check_transfer(regression: Regression, margin: float, tolerance: float, guard: bool) -> TransferCheck:
    """Whether the current similarity does harm, by the criteria of `Adaptive`; warns if so. n^3."""
    terms = regression.settings.terms
    if len(terms) > 1:
        raise InvalidInputError("check_transfer judges one similarity times one kernel, not a sum of terms")
    term = terms.terms[0]
    history = term.select_history(regression.history)
    if len(history) < 2:
        raise InvalidInputError(f"check_transfer needs at least 2 rows that are still kept, got {len(history)}")
    ridge = regression.settings.ridge
    problem = FitData.of(history, term.context_kernel, regression.settings.weighting)
    K, alone = regression.similarity_matrices[0], np.eye(history.n_arms)
    fit = problem.fit(K, ridge).log_likelihood - problem.fit(alone, ridge).log_likelihood
    score = error = None
    if guard and history.own_contexts_from is None:  # else the contexts of the other arms are not known
        difference = finished(problem.decisions(K, ridge)) - finished(problem.decisions(alone, ridge))
        score = float(difference.sum())
        error = float(np.sqrt(len(history)) * difference.std(ddof=1))
    worse = score is not None and error is not None and score < -tolerance * error - 1e-9 * len(history)
    found = TransferCheck(len(history), fit, score, error, bool(fit < -margin or worse))
    if found.harmful:
        told = "" if score is None else f"; leave-one-out decisions earn {score:+.3g} (standard error {error:.2g})"
        warnings.warn(
            f"sharing between arms seems to do harm: on {len(history)} rows it fits by {fit:+.3g} nats compared "
            f"with independent arms{told}. kb.Adaptive(base=...) shares only where that helps",
            TransferWarning,
            stacklevel=3,
        )
    return found
