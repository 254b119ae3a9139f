"""How well a similarity fits the rows, and how well it would have decided: two judges of sharing.

Notation (n rows; besides `kinbandits.similarity`)
    K_X      (n, n)  context-kernel values
    M        (n, n)  K_arm[a_i, a_j] K_X[i, j] + diag(noise);  P = M^-1
    y, a     (n,)    rewards, and P y
    O        (n, N)  one-hot arms

Log-likelihood of the Gaussian process with covariance s^2 M, at the best s^2 = y' a / n ("profiled"), less what
does not depend on the similarity:  -n/2 log(y' a) - 1/2 log det M.

Decision score: would the row's own arm have been chosen without the row, and was it good?
    f_-i(b) = [K_X (O * a) K_arm]_ib - [((P * K_X) O) K_arm]_ib a_i / P_ii     leave-one-out mean of arm b at x_i
    score   = sum over rows with argmax_b f_-i(b) = a_i of (y_i - mean y)
It takes the row's context as that of all arms. Fit alone is not enough: where one arm of N pays, arms look alike in
the contexts where they were played, and a similarity that says so fits well but makes them tie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, lapack

from kinbandits._types import Matrix, Vector
from kinbandits.history import History
from kinbandits.kernels import Kernel
from kinbandits.similarity.base import Weighting

_BLOCK = 512  # rows of context-kernel values computed at a time


@dataclass(frozen=True)
class Evidence:
    """What speaks for a candidate.

    Attributes:
        mu: how much of it is the estimate; 0 is Independent.
        scale: of the estimate, relative to the median distance of arms; None where it has none.
        log_likelihood: profiled; only differences mean something. -inf where M cannot be factorised.
        decision_score: None if it was not needed.
        decision_error: standard error of the difference of decision scores to mu = 0.
    """

    mu: float
    scale: float | None
    log_likelihood: float
    decision_score: float | None = None
    decision_error: float | None = None


class Problem:
    """The rows of a history as one regression sees them. Asks the kernel once: n^2 values."""

    def __init__(self, history: History, context_kernel: Kernel, ridge: float, weighting: Weighting) -> None:
        self.history = history
        self._arms, self._y = history.arms, history.rewards
        self._noise = np.full(len(history), ridge)
        if weighting == "per_arm":
            self._noise *= history.counts[self._arms]
        X, n = history.contexts, len(history)
        self.K_contexts: Matrix = np.empty((n, n))
        for low in range(0, n, _BLOCK):  # one triangle, and its mirror image
            high = min(low + _BLOCK, n)
            self.K_contexts[low:high, :high] = context_kernel(X[low:high], X[:high])
            self.K_contexts[:low, low:high] = self.K_contexts[low:high, :low].T

    def log_likelihood(self, K_arm: Matrix) -> float:
        """Profiled; n^3 / 3, or the sum of n_a^3 / 3 where arms are independent."""
        fit, log_det = 0.0, 0.0
        for rows in self._families(K_arm):
            L = self._factor(K_arm, rows)
            if L is None:
                return -np.inf
            z, _ = lapack.dtrtrs(L, self._y[rows], lower=1)
            fit += float(z @ z)
            log_det += 2.0 * float(np.log(L.diagonal()).sum())
        if fit <= 0.0:  # all rewards 0: every similarity explains them
            return -0.5 * log_det
        return -0.5 * len(self._y) * float(np.log(fit)) - 0.5 * log_det

    def decisions(self, K_arm: Matrix) -> Vector:
        """What each row adds to the decision score, (n,); n^3 more. All 0 where M cannot be factorised."""
        n, n_arms = len(self._y), len(K_arm)
        dual = np.zeros(n)
        own = np.zeros((n, n_arms))  # (P * K_X) O
        diagonal = np.ones(n)
        one_hot = np.eye(n_arms)[self._arms]
        for rows in self._families(K_arm):
            L = self._factor(K_arm, rows)
            if L is None:
                return np.zeros(n)
            P, _ = lapack.dpotri(L, lower=1, overwrite_c=1)
            P = np.tril(P) + np.tril(P, -1).T
            dual[rows] = P @ self._y[rows]
            diagonal[rows] = P.diagonal()
            own[rows] = (P * self.K_contexts[np.ix_(rows, rows)]) @ one_hot[rows]
        sums = self.K_contexts @ (one_hot * dual[:, None])
        left_out = (sums - own * (dual / diagonal)[:, None]) @ K_arm
        hit = left_out.argmax(axis=1) == self._arms
        return np.where(hit, self._y - self._y.mean(), 0.0)

    def gradient(self, K_arm: Matrix) -> Matrix | None:
        """O' ((a a' / s2 - P) * K_X) O, with s2 = y' a / n: twice the slope of the likelihood in K_arm. n^3."""
        n, everyone = len(self._y), np.arange(len(self._y))
        L = self._factor(K_arm, everyone)
        if L is None:
            return None
        P, _ = lapack.dpotri(L, lower=1, overwrite_c=1)
        P = np.tril(P) + np.tril(P, -1).T
        dual = P @ self._y
        s2 = max(float(self._y @ dual) / n, 1e-300)
        one_hot = np.eye(len(K_arm))[self._arms]
        return np.asarray(one_hot.T @ ((np.outer(dual, dual) / s2 - P) * self.K_contexts) @ one_hot)

    def evidence(self, mu: float, scale: float | None, K_arm: Matrix) -> Evidence:
        """The likelihood of a candidate."""
        return Evidence(mu, scale, self.log_likelihood(K_arm))

    def _families(self, K_arm: Matrix) -> list[NDArray[np.intp]]:
        """Rows that meet in M: each arm's own where arms are independent, else all."""
        if np.count_nonzero(K_arm - np.diag(np.diag(K_arm))):
            return [np.arange(len(self._y))]
        return [np.flatnonzero(self._arms == a) for a in np.unique(self._arms)]

    def _factor(self, K_arm: Matrix, rows: NDArray[np.intp]) -> Matrix | None:
        arms = self._arms[rows]
        everyone = len(rows) == len(self._y)
        M = K_arm[np.ix_(arms, arms)]
        M *= self.K_contexts if everyone else self.K_contexts[np.ix_(rows, rows)]
        M[np.diag_indices_from(M)] += self._noise[rows]
        try:  # M is symmetric: its transpose is what LAPACK can overwrite
            return np.asarray(cholesky(M.T, lower=True, overwrite_a=True, check_finite=False))
        except np.linalg.LinAlgError:
            return None
