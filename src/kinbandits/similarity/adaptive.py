"""Sharing that must earn its place: (1 - mu) I + mu K_est, chosen from the data, Independent unless it wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._types import Matrix, Vector
from kinbandits._value import positive, real
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.kernels import Kernel
from kinbandits.similarity.base import Similarity, Weighting
from kinbandits.similarity.criteria import Evidence
from kinbandits.similarity.estimated import Estimated
from kinbandits.similarity.stepwise import Choice, Stepwise

Key = tuple[float, float | None]  # mu, scale
ALONE: Key = (0.0, None)


@dataclass(frozen=True, eq=False, repr=False)
class Adaptive(Stepwise):
    """k_Z = (1 - mu) I + mu K_base, with mu (and the scale of K_base) chosen as the history grows.

    Candidates are mu = 0 (Independent) and every pair of ``mus`` and ``scales``. Sharing is chosen only if

    1. its profiled likelihood beats that of mu = 0 by ``margin`` nats,
    2. it is not below that of arms which merely share one function of the context, (1 - mu) I + mu 1 1': some
       contexts are harder than others for all arms, which fits the rewards and helps no decision, and
    3. its leave-one-out decision score is not below that of mu = 0 (see `criteria`), but for ``tolerance``;

    of those that pass, the likeliest. Otherwise arms are independent, exactly, at no cost but that of the choice.
    It is made anew each time the history has grown by 15 %.

    Args:
        base: where the similarity comes from. For `Estimated`, ``scales`` take the place of its length scale:
            K = exp(-c D2 / median of D2) for a scale c, D2 the squared distances of the arms' embeddings. Any other
            similarity is mixed in as it is.
        mus: how much of the base is tried.
        scales: c.
        margin: nats by which sharing must win.
        tolerance: standard errors by which the decision score may fall short: where nothing is lost by sharing, its
            score is as often below that of Independent as above it.
        guard: whether 2 and 3 are asked. They take a row's context as that of all arms; as soon as the rows come
            from rounds in which every candidate had a context of its own, only 1 is asked.
        first, growth, until: when it is chosen: first after so many rows, and last.

    Example:
        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=3, similarity=Adaptive())
        >>> policy.similarity_matrix()
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """

    former_fields: ClassVar[frozenset[str]] = frozenset({"lead", "over"})

    base: Similarity = Estimated(embedding_kernel=None)  # noqa: RUF009 (a frozen value)
    mus: tuple[float, ...] = (0.3, 0.6, 0.9)
    scales: tuple[float, ...] = (0.5, 2.0)
    margin: float = 5.0
    tolerance: float = 1.0
    guard: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.base, Similarity) or isinstance(self.base, Stepwise):
            raise InvalidTypeError(
                f"base must be a similarity such as kb.Estimated(), itself not chosen in steps; got {self.base!r}"
            )
        object.__setattr__(self, "mus", _numbers("mus", self.mus))
        if not all(0.0 < mu <= 1.0 for mu in self.mus):
            raise InvalidInputError(f"mus must be above 0 (which is always tried) and at most 1, got {self.mus!r}")
        object.__setattr__(self, "scales", tuple(positive("scales", c) for c in _numbers("scales", self.scales)))
        for name in ("margin", "tolerance"):
            object.__setattr__(self, name, positive(name, getattr(self, name), zero=True))

    @property
    def describes_arms(self) -> bool:
        """As the base."""
        return self.base.describes_arms

    @property
    def arm_argument(self) -> str | None:
        """As the base."""
        return self.base.arm_argument

    def bound(self, context_kernel: Kernel, ridge: float, weighting: Weighting) -> Similarity:
        """Told what the regression is; and so is the base."""
        told = self.replace(base=self.base.bound(context_kernel, ridge, weighting))
        return super(Adaptive, told).bound(context_kernel, ridge, weighting)

    def check_arms(self, n_arms: int) -> None:
        """As the base."""
        self.base.check_arms(n_arms)

    def with_arm(
        self,
        n_arms: int,
        *,
        descriptor: ArrayLike | None = None,
        similarity: ArrayLike | None = None,
        neighbours: Sequence[int] | None = None,
    ) -> Similarity:
        """As the base."""
        given: dict[str, Any] = {"descriptor": descriptor, "similarity": similarity, "neighbours": neighbours}
        return self.replace(base=self.base.with_arm(n_arms, **given))

    def without_arm(self, arm: int) -> Similarity:
        """As the base."""
        return self.replace(base=self.base.without_arm(arm))

    def choice(self, history: History, complete: bool = False) -> Choice:
        """The choice from all of these rows, with the evidence.

        ``complete`` computes every decision score, also those that could not have mattered.
        """
        guard = self.guard and history.apart is None
        trial = _Trial(self, history)
        evidence = {key: trial.problem.evidence(*key, K) for key, K in trial.matrices.items()}
        needed = evidence[ALONE].log_likelihood + self.margin
        ranked = sorted((key for key in evidence if key[0]), key=lambda key: -evidence[key].log_likelihood)
        fitting = [key for key in ranked if evidence[key].log_likelihood >= needed]
        winners = fitting
        if fitting and guard:
            winners = [key for key in fitting if evidence[key].log_likelihood >= trial.common_likelihood]
        chosen = winners[0] if winners and not guard else ALONE
        if history.apart is None and (complete or (winners and guard)):
            evidence[ALONE] = replace(
                evidence[ALONE], decision_score=float(trial.own_decisions.sum()), decision_error=0.0
            )
            for key in ranked if complete else winners:
                evidence[key] = trial.judged(evidence[key])
                if guard and not chosen[0] and key in winners and trial.no_worse(evidence[key], self.tolerance):
                    chosen = key
                    if not complete:
                        break
        return Choice(
            rows=len(history),
            mu=chosen[0],
            scale=chosen[1],
            candidates=tuple(evidence.values()),
            reason=self._reason(chosen, evidence, bool(fitting), bool(winners), guard),
            matrix=trial.matrices[chosen],
        )

    @property
    def _shares_kernel(self) -> bool:
        """Whether the base's own kernel values are those of the contexts, which are known."""
        return isinstance(self.base, Estimated) and self.base.embedding_kernel == self.context_kernel

    def _reason(
        self,
        chosen: Key,
        evidence: dict[Key, Evidence],
        fits: bool,
        won: bool,
        guard: bool,
    ) -> str:
        ahead = {k: e.log_likelihood - evidence[ALONE].log_likelihood for k, e in evidence.items() if k[0]}
        if not ahead:
            return "Independent: fewer than two arms can be told apart yet"
        best = max(ahead, key=lambda key: ahead[key])
        if chosen[0]:
            judged = " and decides no worse" if guard else "; its decisions are not judged"
            return f"{_name(chosen)} fits better than Independent by {ahead[chosen]:.1f} nats{judged}"
        if fits:
            but = "decides worse" if won else "no better than one function for all arms"
            return f"Independent: {_name(best)} fits better by {ahead[best]:.1f} nats, but {but}"
        return f"Independent: {_name(best)} comes nearest, with {ahead[best]:+.1f} nats; {self.margin:g} are needed"


class _Trial:
    """The candidates before the rows of one history. What is dear is computed when asked for, and once."""

    def __init__(self, adaptive: Adaptive, history: History) -> None:
        self.problem = adaptive._problem(history)
        self._mus = adaptive.mus
        alone = np.eye(history.n_arms)
        self.matrices: dict[Key, Matrix] = {ALONE: alone}
        known = self.problem.K_contexts if adaptive._shares_kernel else None
        for scale, K in adaptive.base.scaled(history, adaptive.scales, known):
            for mu in adaptive.mus:
                self.matrices[mu, scale] = (1.0 - mu) * alone + mu * K

    @cached_property
    def common_likelihood(self) -> float:
        """Of arms that share one function of the context, (1 - mu) I + mu 1 1', at the best mu."""
        n = self.problem.history.n_arms
        matrices = ((1.0 - mu) * np.eye(n) + mu for mu in self._mus)
        return max(self.problem.log_likelihood(K) for K in matrices)

    @cached_property
    def own_decisions(self) -> Vector:
        """Of Independent."""
        return self.problem.decisions(self.matrices[ALONE])

    def judged(self, evidence: Evidence) -> Evidence:
        """With the decision score, and the standard error of its difference to Independent."""
        found = self.problem.decisions(self.matrices[evidence.mu, evidence.scale])
        n = len(found)
        error = float(np.sqrt(n) * (found - self.own_decisions).std(ddof=1)) if n > 1 else 0.0
        return replace(evidence, decision_score=float(found.sum()), decision_error=error)

    def no_worse(self, evidence: Evidence, tolerance: float) -> bool:
        """Whether its decision score is not below that of Independent, but for so many standard errors."""
        assert evidence.decision_score is not None
        assert evidence.decision_error is not None
        behind = float(self.own_decisions.sum()) - evidence.decision_score
        return behind <= (tolerance + 1e-9) * evidence.decision_error


def _name(key: Key) -> str:
    return f"mu={key[0]:g}" if key[1] is None else f"mu={key[0]:g} at scale {key[1]:g}"


def _numbers(name: str, values: object) -> tuple[float, ...]:
    try:
        numbers = tuple(real(name, v) for v in values)  # type: ignore[attr-defined]
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be a sequence of numbers, got {values!r}") from error
    if not numbers:
        raise InvalidInputError(f"{name} must not be empty")
    return numbers
