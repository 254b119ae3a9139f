"""A frozen posterior with rows that came after it, for the price of those rows.

Notation as in `frozen`; besides,
    n, m    rows of the base (by arm), and rows after it (in their order)
    C       (m, n)  kernel values of the rows after it with those of the base; G (m, m) among themselves, with noise
    A       (m, n)  C T^T
    D       (m, m)  (chol(G - A A^T))^-1
    B       (m, n)  -D A T

L^-1 of all rows is [[T, 0], [B, D]]: one more row costs n^2, where freezing anew costs n^3 / 2. Reading costs
m / n more. When m has grown to `SHARE` of n, everything is laid out anew.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from scipy.linalg import lapack

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.errors import InvalidTypeError
from kinbandits.history import History
from kinbandits.regression.base import Prediction, Query, Regression, RegressionSettings
from kinbandits.regression.frozen import FrozenRegression
from kinbandits.regression.linalg import factor
from kinbandits.similarity import Choice

SHARE = 0.125


def laid_out(
    last: Regression | None,
    settings: RegressionSettings,
    history: History,
    matrices: list[Matrix],
    choices: tuple[Choice, ...],
) -> Regression:
    """A posterior to read: grown from the ``last`` one of the same rows if it can be, else laid out anew."""
    if isinstance(last, FrozenRegression | GrownRegression):
        base = last.base if isinstance(last, GrownRegression) else last
        n, t = len(base.history), len(history)
        if (
            settings.weighting == "uniform"
            and n
            and len(last.history) <= t <= (1.0 + SHARE) * n
            and settings == base.settings
            and all(map(np.array_equal, matrices, base.similarity_matrices))
        ):
            return GrownRegression(base, history, choices, last if isinstance(last, GrownRegression) else None)
    return FrozenRegression(settings, history, matrices, choices)


class GrownRegression(Regression):
    """Reads only. ``base`` holds the first rows of ``history``; ``last`` is an earlier one with the same base."""

    in_order = False

    def __init__(
        self,
        base: FrozenRegression,
        history: History,
        choices: tuple[Choice, ...] = (),
        last: GrownRegression | None = None,
    ) -> None:
        self.base = base
        h, n = base.history, len(base.history)
        ordered = History.of(
            history.n_arms,
            np.concatenate([h.arms, history.arms[n:]]),
            np.concatenate([h.contexts, history.contexts[n:]]),
            np.concatenate([h.rewards, history.rewards[n:]]),
        )
        super().__init__(base.settings, ordered)
        self._choices = choices
        self._counts = ordered.counts
        self._tail = ordered.arms[n:]
        self._last: tuple[Query, Prediction] | None = None
        self._extend(last)
        u = self._B @ h.rewards + self._D @ ordered.rewards[n:]
        self._dual: Vector = np.concatenate([base.dual() + self._B.T @ u, self._D.T @ u])
        roots = np.log(np.diag(self._D))
        self._log_det = base.log_det() - 2.0 * float(roots.sum()) - float(np.log(self._noise()[n:]).sum())

    def _extend(self, last: GrownRegression | None) -> None:
        """B and D; what ``last`` has of them is taken over."""
        base, h = self.base, self.history
        n, m0 = len(base.history), 0 if last is None else len(last._tail)
        m = len(self._tail)
        self._B, self._D = np.zeros((m, n)), np.zeros((m, m))
        if last is not None:
            self._B[:m0], self._D[:m0, :m0] = last._B, last._D
        if m == m0:
            return
        new, old = slice(n + m0, n + m), slice(0, n + m0)
        gram = self.settings.terms.gram
        matrices = base.similarity_matrices
        K = gram(matrices, h.arms[new], h.contexts[new], h.arms[old], h.contexts[old])
        G = gram(matrices, h.arms[new], h.contexts[new], h.arms[new], h.contexts[new])
        G[np.diag_indices_from(G)] += self._noise()[new]
        T, B, D = base.inverse_factor, self._B[:m0], self._D[:m0, :m0]
        A0 = K[:, :n] @ T.T
        A1 = K[:, :n] @ B.T + K[:, n:] @ D.T
        G -= A0 @ A0.T + A1 @ A1.T
        inverse = np.tril(lapack.dtrtri(factor(G), lower=1)[0])
        self._B[m0:] = -inverse @ (A0 @ T + A1 @ B)
        self._D[m0:, :m0] = -inverse @ (A1 @ D)
        self._D[m0:, m0:] = inverse

    @property
    def similarity_matrices(self) -> list[Matrix]:
        return self.base.similarity_matrices

    def predict(self, query: Query) -> Prediction:
        """As every engine; the very same query asked again (for the leaders, then for the numbers) is free."""
        last = self._last
        if last is not None and last[0] is query:
            return last[1]
        prediction = super().predict(query)
        self._last = query, prediction
        return prediction

    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        prior = self._prior(query)
        if query.shared and len(self.similarity_matrices) == 1:
            mean, explained = self._shared(query)
        else:
            k = self._gram(*query.points())
            c = self._solved(k)
            mean = (self._dual @ k).reshape(query.shape)
            explained = np.einsum("ij,ij->j", c, c).reshape(query.shape)
        return mean, self.settings.width(prior, explained)

    def _shared(self, query: Query) -> tuple[Matrix, Matrix]:
        """The base explains what it does; the tail adds |sum_a K_Z[b, a] W_a|^2, W_a = (B, D)[:, rows of a] k_x."""
        (term,), (K_arm,) = self.settings.terms.terms, self.similarity_matrices
        n = len(self.base.history)
        X = query.contexts[:, 0, :]
        k_x = term.context_kernel(term.select(X), term.select(self.history.contexts))  # (R, n + m)
        mean, explained = self.base.explained(k_x[:, :n], query)
        weighted = self._dual[n:] * k_x[:, n:]
        own = self._dual[:n] - self.base.dual()  # what the tail has changed of the base's dual
        played = np.flatnonzero(self._counts)
        W = np.zeros((len(X), len(played), len(self._tail)))  # (R, played, m)
        moved = np.zeros((len(X), len(played)))
        for p, a in enumerate(played):
            rows, late = self.base.rows_of(int(a)), np.flatnonzero(self._tail == a)
            W[:, p] = k_x[:, rows] @ self._B[:, rows].T
            moved[:, p] = k_x[:, rows] @ own[rows]
            if len(late):
                W[:, p] += k_x[:, n + late] @ self._D[:, late].T
                moved[:, p] += weighted[:, late].sum(axis=1)
        K = K_arm[np.ix_(query.arms, played)]  # (k, played)
        c = K @ W  # (R, k, m)
        return mean + moved @ K.T, explained + np.einsum("rkm,rkm->rk", c, c)

    def _solved(self, k: Matrix) -> Matrix:
        """L^-1 k."""
        n = len(self.base.history)
        return np.concatenate([self.base.inverse_factor @ k[:n], self._B @ k[:n] + self._D @ k[n:]])

    def _solve(self, k: Vector) -> Vector:
        n, u = len(self.base.history), self._solved(k)
        return np.concatenate([self.base.inverse_factor.T @ u[:n] + self._B.T @ u[n:], self._D.T @ u[n:]])

    def _gram(self, arms: Indices, contexts: Matrix) -> Matrix:
        h = self.history
        return self.settings.terms.gram(self.similarity_matrices, h.arms, h.contexts, arms, contexts)

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        c = self._solved(self._gram(arms, contexts))
        return self.settings.terms.gram(self.similarity_matrices, arms, contexts, arms, contexts) - c.T @ c

    def choices(self) -> tuple[Choice, ...]:
        return self._choices

    def frozen(self) -> Regression:
        return self

    def dual(self) -> Vector:
        return self._dual

    def log_det(self) -> float:
        return self._log_det

    def _absorb(self, start: int) -> NoReturn:
        raise InvalidTypeError("a frozen policy does not learn; teach the one it came from and freeze that again")

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: bool = False) -> NoReturn:
        """Refused."""
        self._absorb(0)

    def rebuilt(self, settings: RegressionSettings, history: History) -> Regression:  # type: ignore[override]
        """An ordinary engine with these rows."""
        return self.base.rebuilt(settings, history)
