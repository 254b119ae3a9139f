"""What every engine is: multi-task kernel ridge regression on pairs (arm, context).

Notation (t rows of history, a query of m points; the paper's symbols in brackets)
    K        (t, t)  kernel matrix of the history [K~_{t-1}]
    k        (t, m)  kernel values between the history and the query [k~_{a,t}]
    prior    (m,)    k(x~, x~) of each query point
    noise    (t,)    ridge * n_a of the row's arm ("per_arm"), or ridge ("uniform") [lambda eta^-1]
    M        (t, t)  K + diag(noise), symmetric; M^-1 = (eta K + lambda I)^-1 eta
    mean     k' M^-1 y                                          [f^_t]
    width    sqrt((prior - k' M^-1 k) / ridge)                  [s_{a,t}]
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.history import History, Marks
from kinbandits.memory import Memory
from kinbandits.regression.linalg.cholesky import factor
from kinbandits.similarity import SimilarityChoice, Weighting
from kinbandits.terms import Terms

ColdStart = Literal["explore", "borrow"]


class Prediction(NamedTuple):
    """Mean and width of each candidate; ``width`` is the paper's s, which contains lambda^-1/2."""

    mean: Vector
    width: Vector


@dataclass(frozen=True)
class Query:
    """Candidates of R rounds, the same k arms in each: contexts are (R, 1, d), one a round, or (R, k, d)."""

    arms: Indices
    contexts: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.contexts), len(self.arms)

    @property
    def shared(self) -> bool:
        """Whether all candidates of a round have the same context."""
        return bool(self.contexts.shape[1] == 1)

    def points(self) -> tuple[Indices, Matrix]:
        """The R * k pairs (arm, context), round by round."""
        rounds, k = self.shape
        contexts = np.broadcast_to(self.contexts, (rounds, k, self.contexts.shape[2]))
        return np.tile(self.arms, rounds), contexts.reshape(rounds * k, -1)


@dataclass(frozen=True)
class RegressionSettings:
    """The settings of the regression."""

    terms: Terms  # the kernel on pairs (arm, context)
    ridge: float  # lambda
    weighting: Weighting  # "per_arm", eta = 1/n_a, or "uniform"
    cold_start: ColdStart  # arms without rows have mean 0 and prior width ("explore"), or the ordinary posterior
    memory: Memory | None = None  # what becomes of old rows; None remembers them all
    budget: int = 256  # dictionary points, for the engines that have a dictionary
    changeover: int | None = None  # rows after which "auto" goes over to the budgeted engine; None: its own number

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", self.terms.bound(self.ridge, self.weighting))

    def noise(self, arms: Indices, counts: Indices) -> Vector:
        """lambda eta^-1: what is added to the diagonal of K, row by row."""
        noise: Vector
        if self.weighting == "per_arm":
            noise = np.multiply(self.ridge, counts[arms], dtype=np.float64)
        else:
            noise = np.full(len(arms), self.ridge)
        return noise if self.memory is None else noise / self.memory.weights(len(arms))

    def width(self, prior: Vector, explained: Vector) -> Vector:
        """s = sqrt((prior - explained) / lambda); rounding may not make it imaginary."""
        width: Vector = np.sqrt(np.maximum(prior - explained, 0.0) / self.ridge)
        return width

    def bonus(self, prior: Vector, explained: Vector, exploration: Vector | float) -> Vector:
        """exploration * width, rounded once less: (exploration / sqrt(lambda)) sqrt(prior - explained).

        Contexts far from all data differ in the last bits of prior - explained only; this keeps their order.
        """
        factor = exploration / math.sqrt(self.ridge)
        return np.asarray(factor * np.sqrt(np.maximum(prior - explained, 0.0)))


class Regression(ABC):
    """One estimator, several engines. Subclasses fill in the posterior; the rules common to all stand here."""

    reads_only: ClassVar[bool] = False
    """Whether it only answers, from what was worked out before."""

    def __init__(self, settings: RegressionSettings, history: History) -> None:
        self.settings = settings
        self.history = history

    # -- what an engine must give ---------------------------------------------------------------

    @abstractmethod
    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        """Mean and width of every candidate, (R, k) each, without the cold-start rule."""

    @abstractmethod
    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        """k(x~, x~') - k' M^-1 k of the points, without the cold-start rule."""

    @property
    @abstractmethod
    def similarity_matrices(self) -> list[Matrix]:
        """The similarity matrix in force, one per term."""

    @abstractmethod
    def dual(self) -> Vector:
        """M^-1 y, one weight per row: the mean at a point is the sum of weight times kernel value."""

    @abstractmethod
    def log_det(self) -> float:
        """log det(I + diag(noise)^-1 K); with uniform weights the paper's log g."""

    # -- the rows it has learned from -----------------------------------------------------------

    @property
    def n_observations(self) -> int:
        """How many rows were learned, whether they are still kept or not."""
        return len(self.history) + self.history.forgotten

    @property
    def counts(self) -> Indices:
        return self.history.counts

    @property
    def n_features(self) -> int | None:
        return self.history.n_features

    @property
    def keeps_all_rows(self) -> bool:
        """Whether ``history`` holds every row learned."""
        return not self.history.forgotten

    def with_arm(self, settings: RegressionSettings) -> Self:
        """The same knowledge with one arm more, which ``settings`` know."""
        history = self.history.copy()
        history.n_arms += 1
        return self.rebuilt(settings, history)

    def without_arm(self, settings: RegressionSettings, arm: int) -> Self:
        return self.rebuilt(settings, self.history.without_arm(arm))

    def to_data(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        h = self.history
        arrays = {"arms": h.arms.astype(np.int64), "contexts": h.contexts, "rewards": h.rewards}
        return {
            "n_arms": h.n_arms,
            "forgotten": h.forgotten,
            "apart": h.marks.own,
            "rivals": h.marks.rivals,
        }, arrays

    def restored(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """This engine with these settings, and what `to_data` gave learned."""
        rows = arrays["arms"].astype(np.intp), arrays["contexts"], arrays["rewards"]
        history = History.of(data["n_arms"], *rows)
        apart = data.get("apart")
        history.forgotten, history.marks = data.get("forgotten", 0), Marks(apart, data.get("rivals", apart))
        return self._restored(history, data, arrays)

    def _restored(self, history: History, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        return self.rebuilt(self.settings, history)

    # -- common to all --------------------------------------------------------------------------

    @abstractmethod
    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: int = False) -> None:
        """Learn from rows, or change nothing. ``own_contexts``: their candidates had contexts of their own."""

    def rebuilt(self, settings: RegressionSettings, history: History) -> Self:
        """The same engine with other settings or rows, from scratch."""
        return type(self)(settings, history)

    def predict(self, query: Query) -> Prediction:
        """Mean and width of every candidate, (R, k) each."""
        if not query.shape[0]:
            return Prediction(np.zeros(query.shape), np.zeros(query.shape))
        mean, width = self._posterior(query)
        cold = self._cold(query.arms)
        if cold.any():
            prior = self._prior(query)
            mean[:, cold] = 0.0
            width[:, cold] = self.settings.width(prior[:, cold], np.zeros(1))
        return Prediction(mean, width)

    def means(self, query: Query) -> Matrix:
        """The means alone, (R, k): a sum over the rows, where widths would need the inverse."""
        if not query.shape[0] or not len(self.history):
            return self.predict(query).mean
        rounds, dual = [], self.dual()
        step = max(1, 2**22 // (len(dual) * query.shape[1]))
        for start in range(0, len(query.contexts), step):
            part = Query(query.arms, query.contexts[start : start + step])
            rounds.append((dual @ self._columns(part)).reshape(part.shape))
        mean = np.concatenate(rounds)
        mean[:, self._cold(query.arms)] = 0.0
        return mean

    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        """Which candidates have the largest mean + exploration * width of their round, (R, k).

        With a ``tolerance``, all whose score is that fraction of the largest magnitude below it.
        """
        return best(self._scores(query, exploration), tolerance)

    def _scores(self, query: Query, exploration: Vector) -> Matrix:
        """mean + exploration * width of every candidate, (R, k)."""
        mean, width = self.predict(query)
        return mean + exploration[:, None] * width

    def _scores_of(
        self, query: Query, mean: Matrix, prior: Matrix, explained: Matrix, exploration: Vector
    ) -> Matrix:
        """The same from what the data explain of the prior, with the cold-start rule."""
        cold = self._cold(query.arms)
        mean[:, cold] = explained[:, cold] = 0.0
        return mean + self.settings.bonus(prior, explained, exploration[:, None])

    def covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        """Posterior covariance of the points; under "explore", arms without rows keep their prior, apart."""
        covariance = self._covariance(arms, contexts)
        cold = self._cold(arms)
        if cold.any():
            covariance[cold] = 0.0
            covariance[:, cold] = 0.0
            X, a = contexts[cold], arms[cold]
            gram = self.settings.terms.gram(self.similarity_matrices, a, X, a, X)
            covariance[np.ix_(cold, cold)] = gram
        return covariance

    def contributions(self, arm: int, context: Vector) -> Vector:
        """How much of the mean of (arm, context) is from each arm's rows, (N,): k' M^-1 y, split by rows."""
        h = self.history
        if not len(h) or self._cold(np.array([arm])).any():
            return np.zeros(h.n_arms)
        weights = self._solve(self._cross(np.array([arm]), context[None, :])[:, 0])
        return np.bincount(h.arms, weights=weights * h.rewards, minlength=h.n_arms).astype(np.float64)

    def _solve(self, k: Vector) -> Vector:
        """M^-1 k, from scratch; an engine that has the factor at hand overrides this."""
        M = self._cross(self.history.arms, self.history.contexts)
        M[np.diag_indices_from(M)] += self._noise()
        return np.asarray(cho_solve((factor(M), True), k))

    def choices(self) -> tuple[SimilarityChoice, ...]:
        """What a similarity that changes in steps has chosen, as far as this engine remembers."""
        return ()

    def report(self) -> dict[str, Any]:
        """What the engine did until now, for a person to read."""
        return {}

    def copy(self) -> Self:
        return copy.deepcopy(self)

    def frozen(self) -> Regression:
        """What is known now, to be read by other threads while this one learns on."""
        return self.copy()

    def one_by_one(self, more: int) -> bool:
        """Whether so many rows are better learned one by one: together they would come to something else."""
        return False

    def _cold(self, arms: Indices) -> Mask:
        """Which of these arms are to be explored without looking at others."""
        if self.settings.cold_start == "borrow":
            return np.zeros(len(arms), dtype=bool)
        return np.asarray(self.counts[arms] == 0)

    def _prior(self, query: Query) -> Matrix:
        rounds, given, d = query.contexts.shape
        flat = query.contexts.reshape(rounds * given, d)
        prior: Matrix | None = None
        for term, K_arm in zip(self.settings.terms.terms, self.similarity_matrices, strict=True):
            own = term.context_kernel.diag(term.select(flat)).reshape(rounds, given)
            part = K_arm.diagonal()[query.arms] * own
            prior = part if prior is None else prior + part
        assert prior is not None
        return prior

    def _cross(self, arms: Indices, contexts: Matrix) -> Matrix:
        h = self.history
        return self.settings.terms.gram(self.similarity_matrices, h.arms, h.contexts, arms, contexts)

    def _columns(self, query: Query) -> Matrix:
        """k of all points of the query, (t, R * k); a shared context is compared with the history once."""
        h = self.history
        rounds, n = query.shape
        k = np.zeros((len(h), rounds, n))
        flat = query.contexts.reshape(-1, query.contexts.shape[2])
        for term, K_arm in zip(self.settings.terms, self.similarity_matrices, strict=True):
            values = term.context_kernel(term.select(h.contexts), term.select(flat)).reshape(len(h), rounds, -1)
            k += K_arm[np.ix_(h.arms, query.arms)][:, None, :] * values
        return k.reshape(len(h), rounds * n)

    def _noise(self) -> Vector:
        return self.settings.noise(self.history.arms, self.history.counts)


def capped(mean: Matrix, scores: Matrix, ceiling: float, tolerance: float) -> Mask:
    """Which candidates have the largest score, where those above the ceiling count as equal but for their mean.

    >>> capped(np.array([[0.5, 0.2, 0.9]]), np.array([[1.1, 1.4, 0.95]]), 1.0, 0.0)
    array([[ True, False, False]])
    """
    above = scores >= ceiling
    tied = best(np.where(above, mean, mean.min(axis=1, keepdims=True)), tolerance) & above
    return np.where(above.any(axis=1, keepdims=True), tied, best(scores, tolerance))


def best(scores: Matrix, tolerance: float) -> Mask:
    """Which scores of each row are the largest, to ``tolerance`` of the row's largest magnitude."""
    floor = scores.max(axis=1, keepdims=True)
    if tolerance:
        floor = floor - tolerance * np.abs(scores).max(axis=1, keepdims=True)
    return np.asarray(scores >= floor)
