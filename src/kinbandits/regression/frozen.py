"""A posterior that no longer learns: laid out for being read often, from any thread, and each grown from the last.

Notation as in `base`; besides, for one family of arms (those that lend to each other, whoever through whom; other
families never meet them in M) with n rows, in order of arrival,
    T       (n, n)  L^-1, lower triangular
    chunk   rows of T, `_HEIGHT` at most, transposed: W (columns, rows), columns arm by arm: an arm's are a slice
    k_x     (R, n)  context-kernel values of R contexts with the rows
    V_a     (R, n)  T[:, rows of a] k_x[rows of a], for each context
    z, dual (n,)    T y, and M^-1 y = T'z

With one context for all candidates, k of candidate b is K_Z[b, a] k_x on arm a's rows, so that
T k = sum_a K_Z[b, a] V_a: all widths cost one product with T (n^2 / 2 a context) and N k n, where solving for each
candidate would cost k n^2 / 2. Contexts given together share the reading of T.

A new row of M is a new row of T: with uniform weights and the same similarity nothing else changes, and m new rows
cost 2 m n^2. Chunks are never written to again, so the next posterior shares all but the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, NoReturn, Self

import numpy as np
from scipy.linalg import lapack

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.errors import InvalidTypeError
from kinbandits.history import History
from kinbandits.regression.base import Prediction, Query, Regression, RegressionSettings
from kinbandits.regression.linalg.cholesky import components, factor
from kinbandits.similarity import SimilarityChoice

_HEIGHT = 256
_BLOCK = 256  # rows that are computed at once
_LEAST = 1e-8  # pivot, of the largest diagonal entry: below it blocks and growth lose digits that a factor keeps
_ROOM = 2**19  # numbers, for V and the candidates' sums


class Chunk(NamedTuple):
    """Some rows of T, from ``low`` on; never written to."""

    low: int
    order: Indices  # columns: rows of the family, arm by arm
    arms: Indices  # those that have columns
    starts: Indices  # where each begins, and the end
    W: Matrix

    @property
    def high(self) -> int:
        return self.low + int(self.W.shape[1])

    @classmethod
    def cut(cls, T: Matrix, low: int, arms: Indices) -> Iterator[Chunk]:
        """The chunks of the rows T (m, low + m) that begin at ``low``, for columns of these arms."""
        for first in range(low, low + len(T), _HEIGHT):
            end = min(first + _HEIGHT, low + len(T))
            order = np.argsort(arms[:end], kind="stable")
            there, starts = np.unique(arms[order], return_index=True)
            W = np.ascontiguousarray(T[first - low : end - low].T[order])
            yield cls(first, order, there, np.append(starts, end), W)


class Family(NamedTuple):
    """The rows of arms that lend to each other; never changed."""

    arms: Indices  # of the rows
    chunks: tuple[Chunk, ...]
    z: Vector
    dual: Vector
    log_det: float

    @classmethod
    def of(cls, arms: Indices, M: Matrix, y: Vector) -> Family:
        """From M (n, n): 2 n^3 / 3."""
        try:
            T = _inverse_factor(M, _LEAST * M.diagonal().max())
        except np.linalg.LinAlgError:  # at once, which keeps more digits, and with jitter if it takes that
            T = np.tril(lapack.dtrtri(factor(M), lower=1)[0])
        z = T @ y
        return cls(arms, tuple(Chunk.cut(T, 0, arms)), z, T.T @ z, _log_det(T))

    def grown(self, arms: Indices, K: Matrix, G: Matrix, y: Vector) -> Family:
        """With rows of these arms, by their values K (m, n) to the others and G (m, m) with noise; y of all.

        Raises LinAlgError where rounding would take over.
        """
        n, m = len(self.arms), len(arms)
        A = self.times(K.T)  # T k, (n, m)
        D = _inverse_factor(G - A.T @ A, _LEAST * G.diagonal().max())
        new = np.concatenate([-D @ self.transposed(A).T, D], axis=1)
        z = new @ y
        dual = np.append(self.dual, np.zeros(m)) + new.T @ z
        last = self.chunks[-1]
        kept, low = self.chunks, n
        if last.high - last.low < _HEIGHT:  # not full: its rows are laid out again, with the new ones
            low, before = last.low, np.zeros((n - last.low, n + m))
            before[:, last.order] = last.W.T
            kept, new = kept[:-1], np.concatenate([before, new])
        everyone = np.append(self.arms, arms)
        chunks = (*kept, *Chunk.cut(new, low, everyone))
        return Family(everyone, chunks, np.append(self.z, z), dual, self.log_det + _log_det(D))

    def times(self, k: Matrix) -> Matrix:
        """T k for k (n, m)."""
        return np.concatenate([chunk.W.T @ k[chunk.order] for chunk in self.chunks])

    def transposed(self, c: Matrix) -> Matrix:
        """T' c for c (n, m)."""
        k = np.zeros_like(c)
        for chunk in self.chunks:
            k[chunk.order] += chunk.W @ c[chunk.low : chunk.high]
        return k

    def read(self, k_x: Matrix, lent: Matrix) -> tuple[Matrix, Matrix]:
        """Means, and how much of the prior is explained, (R, k), of candidates to which arms lend (k, N)."""
        last = self.chunks[-1]
        sums = np.add.reduceat((self.dual * k_x).take(last.order, axis=1), last.starts[:-1], axis=1)
        explained = np.zeros((len(k_x), len(lent)))
        step = max(1, _ROOM // ((len(last.arms) + len(lent)) * _HEIGHT))
        for low in range(0, len(k_x), step):
            some = slice(low, low + step)
            for chunk in self.chunks:
                explained[some] += self._explained(k_x[some], lent, chunk)
        return sums @ lent[:, last.arms].T, explained

    @staticmethod
    def _explained(k_x: Matrix, lent: Matrix, chunk: Chunk) -> Matrix:
        """|sum_a K[b, a] V_a|^2 for every candidate b, (R, k). Summed before it is squared: alike arms cancel."""
        k = k_x.take(chunk.order, axis=1)
        V = np.empty((len(k), len(chunk.arms), chunk.W.shape[1]))
        for p in range(len(chunk.arms)):
            rows = slice(chunk.starts[p], chunk.starts[p + 1])
            np.matmul(k[:, rows], chunk.W[rows], out=V[:, p])
        c = lent[:, chunk.arms] @ V
        return np.asarray(np.einsum("rkt,rkt->rk", c, c))


class FrozenRegression(Regression):
    """Reads only. Any number of threads may predict at once."""

    reads_only = True

    def __init__(
        self,
        settings: RegressionSettings,
        history: History,
        matrices: list[Matrix],
        choices: tuple[SimilarityChoice, ...] = (),
        last: Self | None = None,
    ) -> None:
        """``last`` is an earlier one of the same rows: what it has laid out is used, if it can be."""
        super().__init__(settings, history.copy())
        self._choices = choices
        self._matrices = [np.array(m) for m in matrices]
        self._counts = history.counts
        self._family_of = components(np.sum([np.abs(K) for K in matrices], axis=0))
        self._last: tuple[Query, Prediction] | None = None
        families = self._family_of[history.arms]
        self._rows = {int(f): np.flatnonzero(families == f) for f in np.unique(families)}
        known: dict[int, Family] = {} if last is None or not self._continues(last) else last._families
        self._families: dict[int, Family] = {
            f: self._laid_out(rows, known.get(f)) for f, rows in self._rows.items()
        }
        self._dual: Vector = np.zeros(len(history))
        for f, rows in self._rows.items():
            self._dual[rows] = self._families[f].dual
        self._log_det = float(sum(f.log_det for f in self._families.values()) - np.log(self._noise()).sum())

    def _continues(self, last: Self) -> bool:
        """Whether M has only grown since."""
        return (
            self.settings.weighting == "uniform"
            and len(last.history) <= len(self.history)
            and self.settings == last.settings
            and all(map(np.array_equal, self._matrices, last._matrices))
        )

    def _laid_out(self, rows: Indices, known: Family | None) -> Family:
        h, n = self.history, 0 if known is None else len(known.arms)
        if known is not None and n == len(rows):
            return known
        new, old = rows[n:], rows[:n]
        arms, G = h.arms[new], self._grams(new, new)
        G[np.diag_indices_from(G)] += self._noise()[new]
        if known is None:
            return Family.of(arms, G, h.rewards[rows])
        try:
            return known.grown(arms, self._grams(new, old), G, h.rewards[rows])
        except np.linalg.LinAlgError:
            return self._laid_out(rows, None)

    def _grams(self, rows: Indices, others: Indices) -> Matrix:
        """k of rows with others, some at once: in between other threads may run."""
        a, X, found = self.history.arms, self.history.contexts, np.empty((len(rows), len(others)))
        for low in range(0, len(rows), _BLOCK):
            some = rows[low : low + _BLOCK]
            found[low : low + _BLOCK] = self.settings.terms.gram(
                self._matrices, a[some], X[some], a[others], X[others]
            )
        return found

    @property
    def similarity_matrices(self) -> list[Matrix]:
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
        mean, explained = np.zeros(query.shape), np.zeros(query.shape)
        if query.shared and len(self._matrices) == 1:
            (term,), (K_arm,), X = self.settings.terms.terms, self._matrices, query.contexts[:, 0, :]
            k_x = term.context_kernel(term.select(X), term.select(self.history.contexts)) if self._rows else X
            of = self._family_of[query.arms]
            for f, family in self._families.items():
                if (mine := np.flatnonzero(of == f)).size:
                    rows = self._rows[f]
                    k = k_x if len(rows) == len(self.history) else k_x.take(rows, axis=1)
                    mean[:, mine], explained[:, mine] = family.read(k, K_arm[query.arms[mine]])
        elif self._rows:
            k = self._columns(query)
            mean[:] = (self._dual @ k).reshape(query.shape)
            explained[:] = sum(np.square(c).sum(axis=0) for c in self._whitened(k)).reshape(query.shape)
        return mean, self.settings.width(prior, explained)

    def _whitened(self, k: Matrix) -> Iterator[Matrix]:
        """T k of each family, for k (t, m)."""
        for f, family in self._families.items():
            yield family.times(k[self._rows[f]])

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        gram = self.settings.terms.gram(self._matrices, arms, contexts, arms, contexts)
        k = self._cross(arms, contexts) if self._rows else np.zeros((0, len(arms)))
        return np.asarray(gram - sum(c.T @ c for c in self._whitened(k)))

    @property
    def counts(self) -> Indices:
        return self._counts

    def _solve(self, k: Vector) -> Vector:
        weights = np.zeros_like(k)
        for f, family in self._families.items():
            rows = self._rows[f]
            weights[rows] = family.transposed(family.times(k[rows, None]))[:, 0]
        return weights

    def choices(self) -> tuple[SimilarityChoice, ...]:
        return self._choices

    def frozen(self) -> Regression:
        return self

    def dual(self) -> Vector:
        return self._dual

    def log_det(self) -> float:
        return self._log_det

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: int = False) -> NoReturn:
        raise InvalidTypeError("a frozen policy does not learn; teach the one it came from and freeze that again")

    def rebuilt(self, settings: RegressionSettings, history: History) -> Regression:  # type: ignore[override]
        from kinbandits.regression import make_regression

        return make_regression("exact", settings, history)


def _inverse_factor(M: Matrix, least: float) -> Matrix:
    """T = L^-1 of M, in halves: LAPACK keeps other threads from running, so it is only given small blocks.

    Raises LinAlgError if a pivot is below ``least``.
    """
    n, h = len(M), len(M) // 2
    if n <= _BLOCK:
        L, info = lapack.dpotrf(M.T, lower=1)
        if info or not L.diagonal().min() ** 2 >= least:
            raise np.linalg.LinAlgError("nearly singular")
        return np.tril(lapack.dtrtri(L, lower=1)[0])
    T = np.zeros((n, n))
    T[:h, :h] = A = _inverse_factor(M[:h, :h], least)
    C = M[h:, :h] @ A.T
    T[h:, h:] = D = _inverse_factor(M[h:, h:] - C @ C.T, least)
    np.negative(D @ (C @ A), out=T[h:, :h])
    return T


def _log_det(T: Matrix) -> float:
    """log det M = -2 log det T."""
    return -2.0 * float(np.log(np.diag(T)).sum())
