"""How well a similarity fits the rows, and how well it would have decided: two judges of sharing.

Notation (m rows; besides `kinbandits.similarity`)
    K_X      (m, m)  context-kernel values
    M        (m, m)  K_arm[a_i, a_j] K_X[i, j] + constant 11' + diag(noise);  P = M^-1
    y, a     (m,)    rewards, and P y
    O        (m, N)  one-hot arms

Log-likelihood of the Gaussian process with covariance s^2 M, at the best s^2 = y' a / m ("profiled"), less what
does not depend on the candidate:  -m/2 log(y' a) - 1/2 log det M.

Decision score: leave each row out; where its own arm would have been chosen, count its reward less the mean.
    f_-i(b) = [K_X (O * a) K_arm]_ib - [((P * K_X) O) K_arm]_ib a_i / P_ii     leave-one-out mean of arm b at x_i
    score   = sum over rows with argmax_b f_-i(b) = a_i of (y_i - mean y)
It takes the row's context as that of all arms. Fit alone is not enough: where one arm of N pays, arms look alike in
the contexts where they were played, and a similarity that says so fits well but makes them tie.

Large work is done in slices (`Work`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.linalg import cholesky, lapack

from kinbandits._types import Matrix, Vector
from kinbandits._work import Work, finished
from kinbandits.history import History, golden
from kinbandits.kernels import Kernel
from kinbandits.similarity.base import Weighting

Key = TypeVar("Key", bound=Hashable)

_BLOCK = 128  # rows of context-kernel values in a slice, where the kernel must be called
_HEATS = (0.25, 0.5)  # shares of the rows on which candidates are judged before all of them are
_LEAST = 100  # rows below which that saves nothing


@dataclass(frozen=True)
class Evidence:
    """What speaks for a candidate; mu = 0 is Independent, scale 0 one function that all arms have in common.

    Of ``log_likelihood`` (profiled) and the decision score only the difference to Independent means something;
    ``decision_error`` is its standard error. ``rows`` are fewer than all where the candidate was far behind;
    ``weight`` is its posterior probability, where the similarity is an average.
    """

    mu: float
    scale: float | None
    log_likelihood: float
    decision_score: float | None = None
    decision_error: float | None = None
    rows: int | None = None
    weight: float | None = None


class Fit(NamedTuple):
    """How well a Gaussian process with covariance s^2 M fits ``rows`` rewards: y' M^-1 y and log det M."""

    rows: int
    squares: float
    log_det: float

    @property
    def log_likelihood(self) -> float:
        """Profiled over s^2. -inf where M could not be factorised."""
        if self.squares <= 0.0:  # all rewards 0: every candidate explains them
            return -0.5 * self.log_det
        return -0.5 * self.rows * float(np.log(self.squares)) - 0.5 * self.log_det

    @property
    def signal(self) -> float:
        return self.squares / self.rows


class Judged(NamedTuple):
    """A candidate after a `race`: its fit, and its lead in nats over the reference on the same rows."""

    fit: Fit
    lead: float


class FitData:
    """The rows of a history as one regression sees them, sorted by arm: K_X is computed once for all candidates."""

    def __init__(self, history: History, weights: Vector, K_contexts: Matrix) -> None:
        self.history, self.K_contexts = history, K_contexts
        self._arms, self._y, self._weights = history.arms, history.rewards, weights

    @classmethod
    def building(cls, history: History, context_kernel: Kernel, weighting: Weighting) -> Work[FitData]:
        """From a history, in any order: m^2 kernel values."""
        rows = history.taken(np.argsort(history.arms, kind="stable"))
        weights = rows.counts[rows.arms].astype(np.float64) if weighting == "per_arm" else np.ones(len(rows))
        K = yield from context_gram(context_kernel, rows.contexts)
        return cls(rows, weights, K)

    @classmethod
    def of(cls, history: History, context_kernel: Kernel, weighting: Weighting) -> FitData:
        return finished(cls.building(history, context_kernel, weighting))

    def __len__(self) -> int:
        return len(self._y)

    def thinned(self, share: float) -> FitData:
        """About this share of the rows of each arm."""
        rows = np.flatnonzero(golden(len(self)) < share)
        return FitData(self.history.taken(rows), self._weights[rows], self.K_contexts[np.ix_(rows, rows)])

    def fit(self, K_arm: Matrix, ridge: float, constant: float = 0.0) -> Fit:
        """m^3 / 3, or the sum of m_a^3 / 3 where arms are independent.

        ``constant`` is the prior variance of a level common to all rewards, a rank-one term of M.
        """
        squares = crossed = ones = log_det = 0.0
        for rows in self._families(K_arm):
            L = self._factor(K_arm, ridge, rows)
            if L is None:
                return Fit(len(self), 1.0, np.inf)
            sides = np.column_stack([self._y[rows], np.ones(len(L))])
            z = lapack.dtrtrs(L, sides, lower=1)[0]
            squares += float(z[:, 0] @ z[:, 0])
            crossed += float(z[:, 0] @ z[:, 1])
            ones += float(z[:, 1] @ z[:, 1])
            log_det += 2.0 * float(np.log(L.diagonal()).sum())
        if constant:  # Sherman and Morrison, and the determinant lemma
            squares -= constant * crossed**2 / (1.0 + constant * ones)
            log_det += float(np.log1p(constant * ones))
        return Fit(len(self), squares, log_det)

    def decisions(self, K_arm: Matrix, ridge: float) -> Work[Vector]:
        """What each row adds to the decision score, (m,), arm by arm; m^3. All 0 where M cannot be factorised."""
        m, n_arms = len(self), len(K_arm)
        dual, diagonal = np.zeros(m), np.ones(m)
        own = np.zeros((m, n_arms))  # (P * K_X) O
        one_hot = np.eye(n_arms)[self._arms]
        for rows in self._families(K_arm):
            L = self._factor(K_arm, ridge, rows)
            if L is None:
                return np.zeros(m)
            yield len(L) ** 3 / 3
            P, _ = lapack.dpotri(L, lower=1, overwrite_c=1)
            P = np.tril(P) + np.tril(P, -1).T
            yield 2 * len(L) ** 3 / 3
            dual[rows] = P @ self._y[rows]
            diagonal[rows] = P.diagonal()
            own[rows] = (P * self.K_contexts[rows, rows]) @ one_hot[rows]
        sums = self.K_contexts @ (one_hot * dual[:, None])
        left_out = (sums - own * (dual / diagonal)[:, None]) @ K_arm
        hit = left_out.argmax(axis=1) == self._arms
        yield 3 * m * m * n_arms
        return np.where(hit, self._y - self._y.mean(), 0.0)

    def _families(self, K_arm: Matrix) -> Iterator[slice]:
        """Rows that meet in M: each arm's own where arms are independent, else all."""
        if np.count_nonzero(K_arm - np.diag(np.diag(K_arm))):
            yield slice(0, len(self))
            return
        bounds = np.flatnonzero(np.diff(self._arms, prepend=-1, append=len(K_arm)))
        yield from (slice(low, high) for low, high in pairwise(bounds.tolist()))

    def _factor(self, K_arm: Matrix, ridge: float, rows: slice) -> Matrix | None:
        arms = self._arms[rows]
        M = K_arm[np.ix_(arms, arms)]
        M *= self.K_contexts[rows, rows]
        M[np.diag_indices_from(M)] += ridge * self._weights[rows]
        try:  # M is symmetric: its transpose is what LAPACK can overwrite
            return np.asarray(cholesky(M.T, lower=True, overwrite_a=True, check_finite=False))
        except np.linalg.LinAlgError:
            return None


def race(
    problem: FitData,
    candidates: Mapping[Key, tuple[Matrix, float]],
    reference: Key,
    behind: float,
    constant: float = 0.0,
) -> Work[dict[Key, Judged]]:
    """Fit candidates (similarity matrix, ridge) to a quarter of the rows, then to half, then to all.

    One that falls behind the reference by more than ``behind`` nats is not fitted to more rows, and is judged by
    those it was fitted to. A quarter of the rows costs a 64th.
    """
    judged: dict[Key, Judged] = {}
    running = dict(candidates)
    for share in (*(s for s in _HEATS if s * len(problem) >= _LEAST and np.isfinite(behind)), 1.0):
        part = problem if share == 1.0 else problem.thinned(share)
        fits: dict[Key, Fit] = {}
        for key, (K_arm, ridge) in running.items():
            fits[key] = part.fit(K_arm, ridge, constant)
            yield len(part) ** 3 / 3
        own = fits[reference].log_likelihood
        judged |= {key: Judged(fit, _difference(fit.log_likelihood, own)) for key, fit in fits.items()}
        running = {key: c for key, c in running.items() if key == reference or judged[key].lead >= -behind}
    return judged


def context_gram(kernel: Kernel, X: Matrix) -> Work[Matrix]:
    """k_X on all pairs of rows: by one product of matrices where k_X is a function of the distance."""
    m, d = X.shape
    if kernel.from_squares(np.zeros((1, 1))) is not None:
        Z = X - X.mean(axis=0) if m else X
        squares = Z @ Z.T
        norms = squares.diagonal().copy()
        squares *= -2.0
        squares += norms[:, None]
        squares += norms
        np.maximum(squares, 0.0, out=squares)
        np.fill_diagonal(squares, 0.0)
        K: Any = kernel.from_squares(squares)
        yield m * m * (d + 10)
        return np.asarray(K)
    K = np.empty((m, m))
    for low in range(0, m, _BLOCK):  # one triangle, and its mirror image
        high = min(low + _BLOCK, m)
        K[low:high, :high] = kernel(X[low:high], X[:high])
        K[:low, low:high] = K[low:high, :low].T
        yield (high - low) * high * (10 * d + 50)
    return np.asarray(K)


def _difference(one: float, other: float) -> float:
    return 0.0 if one == other else one - other  # also where both are infinite
