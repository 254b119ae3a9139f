"""Sharing by (1 - mu) I + mu K_base: chosen where arms see one context, averaged where each has its own.

Why two rules. With one context for all arms, what they have in common helps no decision, so that sharing must earn
its place: Independent unless it wins. With contexts of their own, arms that share need far fewer rows, and play
that does not share never finds out that they could: it tries other candidates for each arm. There the prior
decides, and an average over how alike arms may be loses little wherever the truth lies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from kinbandits._types import Matrix
from kinbandits._value import positive, real
from kinbandits._work import Work, finished
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.kernels import Kernel
from kinbandits.similarity.base import ArmInfo, Similarity, Weighting
from kinbandits.similarity.estimated import Estimated
from kinbandits.similarity.evidence import Evidence, FitData, race
from kinbandits.similarity.stepwise import SimilarityChoice, Stepwise

Key = tuple[float, float | None]  # mu, scale
ALONE: Key = (0.0, None)
COMMON = 0.0  # the scale at which all arms are alike
NEARLY_ONE = 0.97  # the largest mu, where a task is given
LEVEL = 1.0  # prior variance of a common level, in units of the signal's
UNLIKELY = 8.0  # nats behind Independent at which a candidate no longer counts in an average
BEHIND = 1.0  # nats behind Independent on part of the rows at which a candidate is given up; leads grow with rows


class Adaptive(Stepwise):
    """k_Z = (1 - mu) I + mu K_base, with mu (and the scale of K_base) chosen as the history grows.

    Candidates are mu = 0 (Independent) and every pair of ``mus`` and ``scales``. Sharing is chosen only if

    1. its profiled likelihood beats that of mu = 0 by ``margin`` nats,
    2. it is not below that of arms which merely share one function of the context, (1 - mu) I + mu 1 1': some
       contexts are harder than others for all arms, which fits the rewards and helps no decision, and
    3. its leave-one-out decision score is not below that of mu = 0 (see `evidence`), but for ``tolerance``;

    of those that pass, the likeliest. Otherwise arms are independent, exactly, at no cost but that of the choice.
    It is made anew each time the history has grown by 30 %, from at most 800 rows (see `stepwise`).

    That is the rule where all arms see one context and nothing describes them. Otherwise the choice is an average,
    each candidate weighted by its posterior probability:

    * Contexts are the candidates' own: of mu = 0, of one function in common, (1 - mu) I + mu 1 1', and of the base.
      A common level of all rewards speaks for none. Where a task is given (``choose(candidates, task=)``) the
      average is in force from the first row on, and much in common is likelier before than little; where arms are
      rivals the first choice is made at ``first`` rows, and every mu is as likely as any other.
    * The base describes the arms (`Known` with descriptors): of mu = 0 and the base, from the first row on.

    Args:
        base: where the similarity comes from. For `Estimated`, ``scales`` take the place of its length scale:
            K = exp(-c D2 / median of D2) for a scale c, D2 the squared distances of the arms' embeddings. Any other
            similarity is mixed in as it is.
        mus: how much of the base is tried.
        scales: c.
        margin: nats by which sharing must win.
        tolerance: standard errors by which the decision score may fall short: where nothing is lost by sharing, its
            score is as often below that of Independent as above it.
        guard: whether 2 and 3 are asked.
        first, growth, until: when it is chosen: first after so many rows, and last.

    >>> import kinbandits as kb
    >>> policy = kb.KMTLUCB(arms=3, similarity=Adaptive())
    >>> policy.similarity_matrix()
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    former_fields: ClassVar[frozenset[str]] = Stepwise.former_fields | {"lead", "over"}

    base: Similarity = Estimated(embedding_kernel=None)
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
        return self.base.describes_arms

    @property
    def arm_argument(self) -> str | None:
        return self.base.arm_argument

    def bound(self, context_kernel: Kernel, ridge: float, weighting: Weighting) -> Self:
        """Told what the regression is; and so is the base."""
        told = self.replace(base=self.base.bound(context_kernel, ridge, weighting))
        return super(Adaptive, told).bound(context_kernel, ridge, weighting)

    def check_arms(self, n_arms: int) -> None:
        self.base.check_arms(n_arms)

    def for_arms(self, names: Sequence[Any]) -> Similarity:
        return self.replace(base=self.base.for_arms(names))

    def _with_arm(self, n_arms: int, info: ArmInfo) -> Similarity:
        return self.replace(base=self.base.with_arm(n_arms, info))

    def without_arm(self, arm: int) -> Similarity:
        return self.replace(base=self.base.without_arm(arm))

    def averages(self, history: History) -> bool:
        """Whether the similarity is an average: contexts are the candidates' own, or arms are described."""
        return history.own_contexts_from is not None or self.base.describes_arms

    def at_first(self, history: History) -> Matrix:
        """Independent; what is likely before any row has spoken where a task is given or arms are described.

        Where arms with contexts of their own are rivals, one that seems to be like the others is not tried for
        long: there the first rows are played apart.
        """
        alone = np.eye(history.n_arms)
        shared = [np.ones_like(alone)] if history.tasks_given else []
        if self.base.describes_arms:
            shared += [K for _, K in self.base.scaled(history, self.scales, None)]
        if not shared:
            return alone
        prior = self._prior(history)
        mu = sum(mu * weight for mu, weight in prior.items()) / sum(prior.values())
        return np.asarray((1.0 - mu) * alone + mu * np.mean(shared, axis=0))

    def _prior(self, history: History) -> dict[float, float]:
        """How likely each mu is before, but for a factor.

        Where a task is given 1 / sqrt(1 - mu), with one more that is nearly 1: real tasks have more in common than
        not, and those that have nothing show it soon. Else all are equally likely.
        """
        if not history.tasks_given:
            return dict.fromkeys((0.0, *self.mus), 1.0)
        mus = sorted({0.0, *self.mus, NEARLY_ONE})
        return {mu: (1.0 - min(mu, NEARLY_ONE)) ** -0.5 for mu in mus}

    def choosing(self, history: History, complete: bool = False) -> Work[SimilarityChoice]:
        """The choice from all of these rows. ``complete`` fits all candidates to all rows, with all scores."""
        regressor, guard = self.regressor, self.guard
        problem = yield from FitData.building(history, regressor.context_kernel, regressor.weighting)
        matrices = yield from self._matrices(problem)
        if self.averages(history):
            return (yield from self._averaged(problem, matrices, np.inf if complete else UNLIKELY))
        candidates = {key: (K, regressor.ridge) for key, K in matrices.items()}
        judged = yield from race(problem, candidates, ALONE, np.inf if complete else BEHIND)
        leads = {key: found.lead for key, found in judged.items() if key != ALONE}
        ranked = sorted(leads, key=lambda key: -leads[key])
        fitting = [key for key in ranked if leads[key] >= self.margin and judged[key].fit.rows == len(problem)]
        own = judged[ALONE].fit.log_likelihood
        winners = fitting
        if fitting and guard:
            common = yield from self._common(problem, history.n_arms)
            winners = [key for key in fitting if own + leads[key] >= common]
        chosen = winners[0] if winners and not guard else ALONE
        scores: dict[Key, tuple[float, float]] = {}
        if complete or (winners and guard):
            alone = yield from problem.decisions(matrices[ALONE], regressor.ridge)
            scores[ALONE] = float(alone.sum()), 0.0
            for key in ranked if complete else winners:
                found = yield from problem.decisions(matrices[key], regressor.ridge)
                error = float(np.sqrt(len(found)) * (found - alone).std(ddof=1)) if len(found) > 1 else 0.0
                scores[key] = score, _ = float(found.sum()), error
                no_worse = scores[ALONE][0] - score <= (self.tolerance + 1e-9) * error
                if guard and not chosen[0] and key in winners and no_worse:
                    chosen = key
                    if not complete:
                        break
        return SimilarityChoice(
            rows=len(history) + history.forgotten,
            mu=chosen[0],
            scale=chosen[1],
            candidates=tuple(
                Evidence(*key, own + found.lead, score, error, found.fit.rows)
                for key, found in judged.items()
                for score, error in [scores.get(key, (None, None))]
            ),
            reason=self._reason(chosen, leads, bool(fitting), bool(winners), guard),
            matrix=matrices[chosen],
        )

    def _averaged(self, problem: FitData, matrices: dict[Key, Matrix], behind: float) -> Work[SimilarityChoice]:
        """The posterior mean of the matrix over the candidates and arms with one function in common."""
        n, prior, everyone = problem.history.n_arms, self._prior(problem.history), dict(matrices)
        own_contexts = problem.history.own_contexts_from is not None
        if own_contexts:
            everyone |= {(mu, COMMON): (1.0 - mu) * np.eye(n) + mu for mu in prior if mu}
        kinds = Counter((mu, scale == COMMON) for mu, scale in everyone)  # one function for all, or the base
        for mu, alike in list(kinds):
            kinds[mu, alike] *= 1 + ((mu, not alike) in kinds)  # are equally likely, and so are its scales
        candidates = {key: (K, self.regressor.ridge) for key, K in everyone.items()}
        judged = yield from race(problem, candidates, ALONE, behind, constant=LEVEL)
        leads = np.array([found.lead for found in judged.values()])
        before = np.array([prior[mu] / kinds[mu, scale == COMMON] for mu, scale in judged])
        weights = before * np.exp(leads - leads.max())
        weights /= weights.sum()
        pairs = list(zip(judged, weights.tolist(), strict=True))
        mu = sum(key[0] * weight for key, weight in pairs)
        common = sum(key[0] * weight for key, weight in pairs if key[1] == COMMON)
        of_which = f", of which {common:.2f} is one function for all arms"
        own = judged[ALONE].fit.log_likelihood
        return SimilarityChoice(
            rows=len(problem) + problem.history.forgotten,
            mu=mu,
            scale=None,
            candidates=tuple(
                Evidence(*key, own + judged[key].lead, None, None, judged[key].fit.rows, weight)
                for key, weight in pairs
            ),
            reason=f"averaged: mu is {mu:.2f}{of_which if own_contexts else ''}",
            matrix=np.einsum("c,cab->ab", weights, np.array([everyone[key] for key in judged])),
        )

    def choice(self, history: History, complete: bool = False) -> SimilarityChoice:
        return finished(self.choosing(history, complete))

    def _matrices(self, problem: FitData) -> Work[dict[Key, Matrix]]:
        """The candidates, Independent first."""
        alone = np.eye(problem.history.n_arms)
        matrices: dict[Key, Matrix] = {ALONE: alone}
        known = problem.K_contexts if self._shares_kernel else None
        for scale, K in self.base.scaled(problem.history, self.scales, known):
            for mu in self.mus:
                matrices[mu, scale] = (1.0 - mu) * alone + mu * K
        yield 5 * len(problem) ** 2
        return matrices

    def _common(self, problem: FitData, n_arms: int) -> Work[float]:
        """The likelihood of arms that share one function of the context, (1 - mu) I + mu 1 1', at the best mu."""
        best = -np.inf
        for mu in self.mus:
            fit = problem.fit((1.0 - mu) * np.eye(n_arms) + mu, self.regressor.ridge)
            best = max(best, fit.log_likelihood)
            yield len(problem) ** 3 / 3
        return best

    @property
    def _shares_kernel(self) -> bool:
        """Whether the base's own kernel values are those of the contexts, which are known."""
        return isinstance(self.base, Estimated) and self.base.embedding_kernel == self.regressor.context_kernel

    def _reason(self, chosen: Key, leads: dict[Key, float], fits: bool, won: bool, guard: bool) -> str:
        if not leads:
            return "Independent: fewer than two arms can be told apart yet"
        best = max(leads, key=lambda key: leads[key])
        if chosen[0]:
            judged = " and decides no worse" if guard else "; its decisions are not judged"
            return f"{_name(chosen)} fits better than Independent by {leads[chosen]:.1f} nats{judged}"
        if fits:
            but = "decides worse" if won else "no better than one function for all arms"
            return f"Independent: {_name(best)} fits better by {leads[best]:.1f} nats, but {but}"
        return f"Independent: {_name(best)} comes nearest, with {leads[best]:+.1f} nats; {self.margin:g} are needed"


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
