"""M that only grows: fixed similarities and uniform weights. What the default policy runs on.

Arms fall into families: components of the graph in which two arms are linked when their similarity is not zero.
Families never meet in a product kernel, so M is block-diagonal over them, and each has its own T = L^-1.

Notation as in `contract`; besides, for a family of n rows
    L        (n, n)  Cholesky factor of the family's part of M
    T        (n, n)  L^-1, lower triangular, in chunks of rows
    z        (n,)    T y
    alpha    (t,)    M^-1 y, for the rows of all families
    largest  (t,)    1 / (k_ii + ridge)
    ceiling          an upper bound on a score, since one row alone explains k_i^2 / (k_ii + ridge) of the prior

A row with kernel values k to the others and g with itself (noise included) has c = T k, the pivot d^2 = g - c'c and
the row (-c'T, 1) / d of T: two products with T, n^2 each for the family, so t^2 for one family (Pooled, Mixed,
Known) and the sum of n_a^2 for independent arms. A row of T is written once, so snapshots share T and read as many
rows as there were when they were taken. No kernel matrix is kept: memory is t^2 / 2 numbers.

A decision computes all means (t), then widths (one product with T for two) only for candidates whose ceiling
reaches the best score.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.candidates import Candidates, SeenBefore
from kinbandits.regression.contract import Query, Settings
from kinbandits.regression.linalg import UNIT, certain, inverse_factor, jittered, room_for
from kinbandits.regression.pairs import Pairs, same_kernel
from kinbandits.regression.posterior import RowPosterior

_HEIGHT = 256  # rows of a chunk at most
_TOGETHER = 2  # contenders whose widths come first, and together: two cost as much as one


class Family:
    """T and z of the rows of arms that learn from each other. `fork` it before another may grow it."""

    def __init__(self) -> None:
        self.n = 0
        self.jitter = 0.0
        self.log_det = 0.0  # of M
        self._rows: Indices = np.empty(0, dtype=np.intp)
        self._z: Vector = np.empty(0)
        self._chunks: list[Matrix] = []  # rows of T from ``low`` on, with room for low + height columns

    @classmethod
    def of(cls, rows: Indices, M: Matrix, y: Vector, jitter: float) -> Family:
        """From M: n^3. LinAlgError where M + jitter I has a pivot that has lost its digits."""
        family = cls()
        family.jitter = jitter
        T = inverse_factor(M + np.diag(np.full(len(M), jitter)) if jitter else M)
        family._write(rows, T, T @ y)
        return family

    @property
    def rows(self) -> Indices:
        """Which rows of the history these are."""
        return self._rows[: self.n]

    def _parts(self) -> list[tuple[int, Matrix]]:
        """The rows of T that each chunk has, and the number of the first."""
        parts, low = [], 0
        for W in self._chunks:
            end = min(low + len(W), self.n)
            parts.append((low, W[: end - low, :end]))
            low = end
        return parts

    def times(self, k: Matrix) -> Matrix:
        """T k for k (n, c)."""
        c = np.empty(k.shape)
        for low, W in self._parts():
            np.matmul(W, k[: W.shape[1]], out=c[low : low + len(W)])
        return c

    def transposed(self, c: Matrix) -> Matrix:
        """T' c for c (n, c)."""
        out = np.zeros(c.shape)
        for low, W in self._parts():
            out[: W.shape[1]] += W.T @ c[low : low + len(W)]
        return out

    def dual(self) -> Vector:
        """M^-1 y."""
        return self.transposed(self._z[: self.n, None])[:, 0]

    def grow(self, rows: Indices, K: Matrix, G: Matrix, y: Vector) -> Vector:
        """With m rows more, by their values K (m, n) to the others and G (m, m): 2 m n^2.

        ``y`` are their rewards. Gives what M^-1 y gains, (n + m,). LinAlgError, and nothing changed, if a pivot has
        lost its digits.
        """
        n, m = self.n, len(rows)
        c = self.times(np.ascontiguousarray(K.T))
        S = G - c.T @ c
        S.flat[:: m + 1] += self.jitter
        certain(S.diagonal(), G)
        D = inverse_factor(S) if m > 1 else 1.0 / np.sqrt(S)
        new = np.empty((m, n + m))
        np.matmul(-D, self.transposed(c).T, out=new[:, :n])
        new[:, n:] = D
        z = D @ (y - self._z[:n] @ c)
        self._write(rows, new, z)
        return np.asarray(z @ new)

    def _write(self, rows: Indices, T: Matrix, z: Vector) -> None:
        """The next rows of T (m, n + m) and of z."""
        n, end = self.n, self.n + len(rows)
        self._rows, self._z = room_for(self._rows, end), room_for(self._z, end)
        self._rows[n:end], self._z[n:end] = rows, z
        self.log_det -= 2.0 * float(np.log(T[:, n:].diagonal()).sum())
        while self.n < end:
            room = sum(map(len, self._chunks))
            if self.n == room:  # memory that is not touched costs nothing
                height = min(max(8, room), _HEIGHT)
                self._chunks.append(np.zeros((height, room + height)))
                room += height
            W, done = self._chunks[-1], min(end, room)
            W[len(W) - room + self.n : len(W) - room + done, :done] = T[self.n - n : done - n, :done]
            self.n = done

    def view(self) -> Family:
        """As it is now, to be read only."""
        other = copy.copy(self)
        other._chunks = self._chunks.copy()
        return other

    def fork(self, y: Vector) -> Family:
        """With other rewards, to learn on: n^2. What may still be written is copied."""
        other = self.view()
        other._rows, other._z = self._rows.copy(), self._z.copy()
        other._chunks[-1] = other._chunks[-1].copy()
        other._z[: self.n] = self.times(y[self.rows, None])[:, 0]
        return other


# Rows of a family: which, their kernel values with the n rows before (m, n) and with each other (m, m), with noise.
News = tuple[int, Indices, Matrix, Matrix]


class Grown(RowPosterior):
    """Exact for fixed similarities and uniform weights."""

    def _build(self) -> None:
        self.pairs = Pairs.fixed(self.settings)
        self._family_of = self.pairs.families()
        self._families: dict[int, Family] = {}
        self._alpha: Vector = np.empty(0)
        self._largest: Vector = np.empty(0)
        self._sum_alpha = 0.0  # of magnitudes
        self._asked: Candidates | None = None  # those last asked about
        self._seen = SeenBefore()
        if len(self._rows):
            self._absorb(0, self._compared(0))

    # -- learning -------------------------------------------------------------------------------

    def _compared(self, start: int) -> tuple[Vector, list[News]]:
        """The prior of the new rows, and their kernel values, family by family."""
        h = self._rows
        arms, X = h.arms[start:], h.contexts[start:]
        of = self._family_of[arms]
        found = [self._news(f, start + np.flatnonzero(of == f)) for f in np.unique(of).tolist()]
        return self.pairs.prior(Query(arms, X[None]))[0], found

    def _news(self, f: int, rows: Indices) -> News:
        h, K = self._rows, None
        old = self._families[f].rows if f in self._families else np.empty(0, dtype=np.intp)
        if len(rows) > 2 * len(old) + 1:  # cheaper anew
            rows, old = np.concatenate([old, rows]), old[:0]
        arms, X = h.arms[rows], h.contexts[rows]
        if len(rows) == 1 and self._asked is not None:  # perhaps it was a candidate of the last query
            K = self._asked.row(int(arms[0]), X[0], h.arms, old)
        if K is None:
            K = self.pairs.gram(arms, X, h.arms[old], h.contexts[old])
        return f, rows, K, self._noisy(rows)

    def _noisy(self, rows: Indices) -> Matrix:
        """M of these rows."""
        arms, X = self._rows.arms[rows], self._rows.contexts[rows]
        M = self.pairs.gram(arms, X, arms, X)
        M.flat[:: len(M) + 1] += self.settings.ridge
        return M

    def _absorb(self, start: int, news: Any) -> None:
        prior, parts = news
        end, y = len(self._rows), self.y
        self._alpha, self._largest = room_for(self._alpha, end), room_for(self._largest, end)
        self._alpha[start:end], self._largest[start:end] = 0.0, 1.0 / (prior + self.settings.ridge)
        for f, rows, K, G in parts:
            family = self._families.get(f)
            if family is None or not K.shape[1]:
                self._anew(f, rows, G, y)
                continue
            everything = np.concatenate([family.rows, rows])
            try:
                self._alpha[everything] += family.grow(rows, K, G, y[rows])
            except np.linalg.LinAlgError:
                self._anew(f, everything, self._noisy(everything), y)
        self._sum_alpha = float(np.abs(self._alpha[:end]).sum())
        self._asked = None

    def _anew(self, f: int, rows: Indices, M: Matrix, y: Vector) -> None:
        """The family from M of its rows, with jitter if it takes that: n^3."""
        before = self._families[f].jitter if f in self._families else 0.0

        def attempt(jitter: float) -> Family:
            return Family.of(rows, M, y[rows], jitter)

        family, _ = jittered(attempt, float(M.diagonal().max()), len(rows), before)
        self._families[f] = family
        self._alpha[rows] = family.dual()

    def changed(self, settings: Settings, *, rows: History | None = None, removed: int | None = None) -> Self:
        """T is shared where kernel, ridge and similarities of the arms there were stay: n^2 instead of n^3."""
        learned = self.changed_rows(settings, rows, removed)
        if rows is not None or removed is not None or not self._goes_on(settings):
            return type(self)(settings, learned)
        other = type(self)(settings, History(settings.n_arms))
        other._rows, y = learned, settings.learned(learned.rewards)
        other._families = {f: family.fork(y) for f, family in self._families.items()}
        other._largest, other._alpha = self._largest.copy(), np.zeros(len(self._alpha))
        for family in other._families.values():
            other._alpha[family.rows] = family.dual()
        other._sum_alpha = float(np.abs(other._alpha).sum())
        return other

    def _goes_on(self, settings: Settings) -> bool:
        """Whether M is the same under these settings, and new rows would fall into the same families."""
        if settings.ridge != self.settings.ridge or not same_kernel(self.settings, settings):
            return False
        of = Pairs.fixed(settings).families()
        return bool(np.array_equal(of[: self.settings.n_arms], self._family_of))

    def snapshot(self) -> Self:
        other = super().snapshot()
        other._families = {f: family.view() for f, family in self._families.items()}
        other._alpha = self._alpha.copy()
        return other

    # -- numbers --------------------------------------------------------------------------------

    def _weights(self) -> Vector:
        return self._alpha[: len(self._rows)].copy()

    def _through(self, k: Matrix) -> tuple[Vector, Matrix]:
        parts = []
        for family in self._families.values():
            own = k[family.rows]
            c, seen = np.zeros(own.shape), np.flatnonzero(own.any(axis=0))  # points of other families are not
            c[:, seen] = family.times(own[:, seen])
            parts.append(c)
        return self._alpha[: len(k)] @ k, np.concatenate(parts)

    def log_det(self) -> float:
        return float(sum(f.log_det for f in self._families.values()) - np.log(self._noise()).sum())

    # -- deciding -------------------------------------------------------------------------------

    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        """As every engine; widths are computed only for candidates whose ceiling reaches the best score."""
        h = self._rows
        if len(query.contexts) > 1 or not len(h) or not len(query.arms):
            return super().leaders(query, exploration, tolerance)
        query, place = self._merged(query)
        if self.reads_only:  # other threads may read, too
            asked = Candidates(query, self.pairs, h.arms, SeenBefore().values(query, self.pairs, h))
        else:
            asked = self._asked = Candidates(query, self.pairs, h.arms, self._seen.values(query, self.pairs, h))
        leaders = self._leaders(asked, float(exploration[0]), tolerance)[None, :]
        return leaders if place is None else leaders[:, place]

    def _leaders(self, asked: Candidates, beta: float, tolerance: float) -> Mask:
        """Which of the candidates (k,) of a round lead."""
        t, arms = len(self._rows), asked.query.arms
        prior, mean, cold = self.pairs.prior(asked.query)[0], asked.dot(self._alpha[:t]), self._cold(arms)
        margin = 16.0 * t * UNIT * self._sum_alpha * float(prior.max())
        ceiling = mean + self._bonus(prior - np.minimum(asked.largest(self._largest[:t]), prior), beta) + margin
        scores = np.full(len(mean), -np.inf)
        if cold.any():
            mean[cold] = 0.0
            scores[cold] = self._bonus(prior[cold], beta)
        floor = -np.inf  # the best score is at least this
        if beta >= 0.0 and not cold.all():
            floor = float(mean.max(where=~cold, initial=-np.inf)) - margin
        left, several, magnitude = ~cold, _TOGETHER, float(np.abs(mean).max())
        while True:
            top = float(scores.max())
            if top > -np.inf:
                magnitude = max(magnitude, float(np.abs(scores, where=scores > -np.inf, out=np.zeros(len(mean))).max()))
            least = max(top, floor) - tolerance * magnitude
            may = np.flatnonzero(left & (ceiling >= least))
            if len(may) == 1 and top < least:  # it leads, whatever its width
                scores[may] = np.inf
                return np.asarray(scores == np.inf)
            if not len(may):
                return np.asarray(scores >= least)
            if len(may) > several:
                may = may[np.argsort(-ceiling[may], kind="stable")[:several]]
            scores[may] = mean[may] + self._bonus(prior[may] - self._explained(asked, may), beta)
            left[may] = False
            several *= 2

    def _explained(self, asked: Candidates, which: Indices) -> Vector:
        """k' M^-1 k of these candidates."""
        of, q = self._family_of[asked.query.arms[which]], np.zeros(len(which))
        for f in set(of.tolist()) & self._families.keys():
            own, family = of == f, self._families[f]
            c = family.times(asked.columns(which[own], family.rows))
            q[own] = np.einsum("ij,ij->j", c, c)
        return q

    def report(self) -> dict[str, Any]:
        jitter = max((f.jitter for f in self._families.values()), default=0.0)
        return {"method": "grown", "families": len(self._families), "jitter": jitter}
