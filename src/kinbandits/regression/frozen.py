"""A posterior that no longer learns: the same numbers, laid out for being read often and from any thread.

Notation as in `base`; besides,
    T       (t, t)  L^-1, lower triangular, rows in order of their arms, so that an arm's rows are a slice
    k_x     (R, t)  context-kernel values of R contexts with the history
    V_a     (R, t)  T[:, rows of a] k_x[rows of a], for each context
    dual    (t,)    M^-1 y

With one context for all candidates, k of candidate b is K_Z[b, a] k_x on arm a's rows, so that
L^-1 k = sum_a K_Z[b, a] V_a: all widths cost one product with T (t^2 / 2 a context) and N k t, where
solving for each candidate would cost k t^2 / 2. Contexts given together share the reading of T.
"""

from __future__ import annotations

import threading
from typing import NoReturn

import numpy as np
from scipy.linalg import lapack

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.errors import InvalidTypeError
from kinbandits.history import History
from kinbandits.regression.base import Prediction, Query, Regression, RegressionSettings
from kinbandits.regression.linalg import factor
from kinbandits.similarity import Choice

_ROOM = 2**21  # numbers, for V and the candidates' sums
_OWN = threading.local()  # each thread's room


class FrozenRegression(Regression):
    """Reads only; costs t^3 / 2 to build. Any number of threads may predict at once."""

    in_order = False

    def __init__(
        self,
        settings: RegressionSettings,
        history: History,
        matrices: list[Matrix],
        choices: tuple[Choice, ...] = (),
    ) -> None:
        order = np.argsort(history.arms, kind="stable")
        ordered = History.of(history.n_arms, history.arms[order], history.contexts[order], history.rewards[order])
        super().__init__(settings, ordered)
        self._matrices = [np.array(m) for m in matrices]
        self._choices = choices
        self._counts = ordered.counts
        ends = np.cumsum(self._counts)
        self._slices = [slice(int(end - n), int(end)) for end, n in zip(ends, self._counts, strict=True)]
        h = ordered
        M = settings.terms.gram(self._matrices, h.arms, h.contexts, h.arms, h.contexts)
        M[np.diag_indices_from(M)] += self._noise()
        L = factor(M) if len(h) else M
        self._log_det = float(2.0 * np.log(np.diag(L)).sum() - np.log(self._noise()).sum()) if len(h) else 0.0
        self._T: Matrix = np.ascontiguousarray(np.tril(lapack.dtrtri(L, lower=1)[0])) if len(h) else M
        self._dual: Vector = self._T.T @ (self._T @ h.rewards)
        self._alone = len(self._matrices) == 1 and _is_diagonal(self._matrices[0])
        self._last: tuple[Query, Prediction] | None = None
        self._panels = [np.ascontiguousarray(self._T[s.start : self._end(s), s].T) for s in self._slices]

    @property
    def inverse_factor(self) -> Matrix:
        """T."""
        return self._T

    def rows_of(self, arm: int) -> slice:
        """The rows of an arm."""
        return self._slices[arm]

    def _end(self, rows: slice) -> int:
        """The last row of T that can be other than zero in these columns, plus one."""
        return int(rows.stop) if self._alone else len(self.history)

    @property
    def similarity_matrices(self) -> list[Matrix]:
        """As they were when it was frozen."""
        return self._matrices

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
        if not len(self.history):
            return np.zeros(query.shape), self.settings.width(prior, np.zeros(1))
        if query.shared and len(self._matrices) == 1:
            mean, explained = self._shared(query)
        else:
            arms, contexts = query.points()
            h = self.history
            k = self.settings.terms.gram(self._matrices, h.arms, h.contexts, arms, contexts)
            c = self._T @ k
            mean = (self._dual @ k).reshape(query.shape)
            explained = np.einsum("ij,ij->j", c, c).reshape(query.shape)
        return mean, self.settings.width(prior, explained)

    def _shared(self, query: Query) -> tuple[Matrix, Matrix]:
        (term,) = self.settings.terms.terms
        X = query.contexts[:, 0, :]
        return self.explained(term.context_kernel(term.select(X), term.select(self.history.contexts)), query)

    def explained(self, k_x: Matrix, query: Query) -> tuple[Matrix, Matrix]:
        """Means, and how much of the prior variance is explained, both (R, k), from kernel values k_x (R, t)."""
        (K_arm,) = self._matrices
        starts = [s.start for s in self._slices if s.stop > s.start]
        played = np.flatnonzero(self._counts)
        sums = np.add.reduceat(self._dual * k_x, starts, axis=1)  # (R, played)
        K = K_arm[np.ix_(query.arms, played)]  # (k, played)
        mean = sums @ K.T
        if self._alone:
            own = np.zeros((len(k_x), len(self._slices)))
            for a in played:
                V = k_x[:, self._slices[a]] @ self._panels[a]
                own[:, a] = np.einsum("ri,ri->r", V, V)
            return mean, own[:, query.arms] * np.diag(K_arm)[query.arms] ** 2
        explained = np.empty((len(k_x), len(K)))
        step = max(1, _ROOM // ((len(played) + len(K)) * k_x.shape[1]))
        for start in range(0, len(k_x), step):
            explained[start : start + step] = self._explained(k_x[start : start + step], K, played)
        return mean, explained

    def _explained(self, k_x: Matrix, K: Matrix, played: Indices) -> Matrix:
        """|sum_a K[b, a] V_a|^2 for every candidate b, (R, k). Summed before it is squared: alike arms cancel."""
        (R, t), P = k_x.shape, len(played)
        room = _memory(R * (P + len(K)) * t)
        V, c = room[: R * P * t].reshape(R, P, t), room[R * P * t :].reshape(R, len(K), t)
        for p, a in enumerate(played):
            rows = self._slices[a]
            V[:, p, : rows.start] = 0.0
            np.matmul(k_x[:, rows], self._panels[a], out=V[:, p, rows.start :])
        np.matmul(K, V, out=c)
        return np.asarray(np.einsum("rkt,rkt->rk", c, c))

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        h = self.history
        gram = self.settings.terms.gram(self._matrices, arms, contexts, arms, contexts)
        if not len(h):
            return gram
        c = self._T @ self.settings.terms.gram(self._matrices, h.arms, h.contexts, arms, contexts)
        return gram - c.T @ c

    def _solve(self, k: Vector) -> Vector:
        return np.asarray(self._T.T @ (self._T @ k))

    def choices(self) -> tuple[Choice, ...]:
        """Those made until it was frozen."""
        return self._choices

    def frozen(self) -> Regression:
        """It is."""
        return self

    def dual(self) -> Vector:
        """M^-1 y, in the order of this history (by arm)."""
        return self._dual

    def log_det(self) -> float:
        """As it was when it was frozen."""
        return self._log_det

    def _absorb(self, start: int) -> NoReturn:
        raise InvalidTypeError("a frozen policy does not learn; teach the one it came from and freeze that again")

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: bool = False) -> NoReturn:
        """Refused."""
        self._absorb(0)

    def rebuilt(self, settings: RegressionSettings, history: History) -> Regression:  # type: ignore[override]
        """An ordinary engine with these rows."""
        from kinbandits.regression import make_regression

        return make_regression("exact", settings, history)


def _is_diagonal(K: Matrix) -> bool:
    return not np.any(K - np.diag(np.diag(K)))


def _memory(size: int) -> Vector:
    """Room to work in, kept by each thread from query to query: fresh memory costs as much as using it."""
    kept: Vector | None = getattr(_OWN, "kept", None)
    if kept is None or len(kept) < size:
        kept = np.empty(size)
        if size <= _ROOM:
            _OWN.kept = kept
    return kept[:size]
