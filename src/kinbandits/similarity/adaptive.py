"""Sharing that must earn its place: (1 - mu) I + mu K_est, chosen from the data, Independent unless it wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._value import positive, real
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.kernels import Kernel
from kinbandits.similarity.base import Matrix, Similarity, Weighting
from kinbandits.similarity.criteria import Evidence
from kinbandits.similarity.estimated import Estimated
from kinbandits.similarity.stepwise import Choice, Stepwise


@dataclass(frozen=True, eq=False, repr=False)
class Adaptive(Stepwise):
    """k_Z = (1 - mu) I + mu K_base, with mu (and the scale of K_base) chosen as the history grows.

    Candidates are mu = 0 (Independent) and every pair of ``mus`` and ``scales``. Sharing is chosen only if its
    profiled likelihood beats that of mu = 0 by ``margin`` nats and its leave-one-out decision score is not below
    that of mu = 0 (see `criteria`); of those that pass, the likeliest. Otherwise arms are independent, exactly and
    at no cost but that of the choice. It is made anew each time the history has grown by 15 %.

    Args:
        base: where the similarity comes from. For `Estimated`, ``scales`` take the place of its length scale:
            K = exp(-c D2 / median of D2) for a scale c, D2 the squared distances of the arms' embeddings. Any other
            similarity is mixed in as it is.
        mus: how much of the base is tried.
        scales: c.
        margin: nats by which sharing must win.
        tolerance: standard errors by which the decision score may fall short.
        guard: whether decisions are judged at all. They take a row's context as that of all arms; as soon as the
            rows come from rounds in which every candidate had a context of its own, only likelihood judges.
        first, growth, until: when it is chosen: first after so many rows, and last.

    Example:
        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=3, similarity=Adaptive())
        >>> policy.similarity_matrix()
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """

    base: Similarity = Estimated(embedding_kernel=None)  # noqa: RUF009 (a frozen value)
    mus: tuple[float, ...] = (0.3, 0.6, 0.9)
    scales: tuple[float, ...] = (0.5, 2.0)
    margin: float = 5.0
    tolerance: float = 0.0
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
        object.__setattr__(self, "margin", positive("margin", self.margin, zero=True))
        object.__setattr__(self, "tolerance", positive("tolerance", self.tolerance, zero=True))

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
        problem = self._problem(history)
        guard = self.guard and history.apart is None
        alone = np.eye(history.n_arms)
        matrices: dict[tuple[float, float | None], Matrix] = {(0.0, None): alone}
        known = problem.K_contexts if self._shares_kernel else None
        for scale, K in self.base.scaled(history, self.scales, known):
            for mu in self.mus:
                matrices[mu, scale] = (1.0 - mu) * alone + mu * K
        evidence = {key: problem.evidence(*key, K) for key, K in matrices.items()}
        own = evidence[0.0, None]
        needed = own.log_likelihood + self.margin
        winners = sorted(
            (key for key, e in evidence.items() if key[0] and e.log_likelihood >= needed),
            key=lambda key: -evidence[key].log_likelihood,
        )
        chosen = winners[0] if winners and not guard else (0.0, None)
        if history.apart is None and (complete or (winners and guard)):
            base_line = problem.decisions(alone)
            evidence[0.0, None] = replace(own, decision_score=float(base_line.sum()), decision_error=0.0)
            others = [key for key in matrices if key[0]] if complete else winners
            for key in sorted(others, key=lambda key: -evidence[key].log_likelihood):
                evidence[key] = _judged(evidence[key], problem.decisions(matrices[key]) - base_line, base_line)
                if guard and not chosen[0] and key in winners and self._holds(evidence[key], base_line):
                    chosen = key
                    if not complete:
                        break
        return Choice(
            rows=len(history),
            mu=chosen[0],
            scale=chosen[1],
            candidates=tuple(evidence.values()),
            reason=self._reason(chosen, evidence, bool(winners), guard),
            matrix=matrices[chosen],
        )

    @property
    def _shares_kernel(self) -> bool:
        """Whether the base's own kernel values are those of the contexts, which are known."""
        return isinstance(self.base, Estimated) and self.base.embedding_kernel == self.context_kernel

    def _holds(self, evidence: Evidence, base_line: Matrix) -> bool:
        """Whether the decision score is not below that of Independent, but for the tolerance."""
        assert evidence.decision_score is not None
        assert evidence.decision_error is not None
        least = float(base_line.sum()) - self.tolerance * evidence.decision_error
        return evidence.decision_score >= least - 1e-9 * len(base_line)

    def _reason(
        self,
        chosen: tuple[float, float | None],
        evidence: dict[tuple[float, float | None], Evidence],
        won: bool,
        guard: bool,
    ) -> str:
        ahead = {k: e.log_likelihood - evidence[0.0, None].log_likelihood for k, e in evidence.items() if k[0]}
        if not ahead:
            return "Independent: fewer than two arms can be told apart yet"
        best = max(ahead, key=lambda key: ahead[key])
        if chosen[0]:
            judged = " and decides no worse" if guard else "; its decisions are not judged"
            return f"{_name(chosen)} fits better than Independent by {ahead[chosen]:.1f} nats{judged}"
        if won:
            return f"Independent: {_name(best)} fits better by {ahead[best]:.1f} nats, but would have decided worse"
        return f"Independent: {_name(best)} comes nearest, with {ahead[best]:+.1f} nats; {self.margin:g} are needed"


def _judged(evidence: Evidence, difference: Matrix, base_line: Matrix) -> Evidence:
    """With the decision score, and the standard error of its difference to Independent."""
    n = len(difference)
    error = float(np.sqrt(n) * difference.std(ddof=1)) if n > 1 else 0.0
    return replace(evidence, decision_score=float((base_line + difference).sum()), decision_error=error)


def _name(key: tuple[float, float | None]) -> str:
    return f"mu={key[0]:g}" if key[1] is None else f"mu={key[0]:g} at scale {key[1]:g}"


def _numbers(name: str, values: object) -> tuple[float, ...]:
    try:
        numbers = tuple(real(name, v) for v in values)  # type: ignore[attr-defined]
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be a sequence of numbers, got {values!r}") from error
    if not numbers:
        raise InvalidInputError(f"{name} must not be empty")
    return numbers
