"""M that only grows: fixed similarities and uniform weights. What the default policy runs on.

Arms fall into families: components of the graph in which two arms are linked when their similarity is not zero.
Families never meet in a product kernel, so M is block-diagonal over them, and each has T = L^-1 of its own
(`chunks`): a row costs 2 n^2 of its family, t^2 for one family (Pooled, Mixed, Known), the sum of n_a^2 for
independent arms, where every arm is a family. A decision with one context for all arms costs one pass over T for
all of them; n^2 of its family for each contender otherwise. No kernel matrix is kept, only T: t^2 / 2 numbers.

Notation as in `contract` and `chunks`; besides
    alpha    (t,)  M^-1 y
    largest  (t,)  1 / (k_ii + ridge)
    ceiling        an upper bound on a score, since one row alone explains k_i^2 / (k_ii + ridge) of the prior

Means come first, widths only for candidates whose ceiling reaches the best score.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.candidates import Candidates, SeenBefore
from kinbandits.regression.chunks import Chunked
from kinbandits.regression.contract import Query, Settings, best
from kinbandits.regression.linalg import SMALL_PIVOT, UNIT, jittered, room_for
from kinbandits.regression.pairs import Pairs, same_kernel
from kinbandits.regression.posterior import RowPosterior

_CONTENDERS = 8  # whose widths are computed together
_ARMS = 64  # with rows, in a family: beyond that candidates are taken one by one


class Family:
    """The rows of arms that learn from each other."""

    def __init__(self) -> None:
        self.T = Chunked()
        self._rows: Indices = np.empty(0, dtype=np.intp)
        self.jitter = 0.0

    @property
    def rows(self) -> Indices:
        """Which rows of the history these are."""
        return self._rows[: self.T.n]

    def fork(self, y: Vector | None = None) -> Family:
        """To be read only; with rewards, of all rows, also to learn on."""
        other = Family()
        other._rows, other.jitter = self._rows, self.jitter
        if y is None:
            other.T = self.T.view()
        else:
            other._rows, other.T = self._rows.copy(), self.T.fork(y[self.rows])
        return other

    def enter(self, rows: Indices) -> None:
        """Rows that T is about to have."""
        n = self.T.n
        self._rows = room_for(self._rows, n + len(rows))
        self._rows[n : n + len(rows)] = rows


class News(NamedTuple):
    """New rows of a family: kernel values with the family's rows (m, n) and with each other (m, m), with noise."""

    family: int
    rows: Indices
    K: Matrix
    G: Matrix


class Grown(RowPosterior):
    """Exact for fixed similarities and uniform weights."""

    def _build(self) -> None:
        self._pairs = Pairs.fixed(self.settings)
        self._family_of = self._pairs.families(self.settings.n_arms)
        self._families: dict[int, Family] = {}
        self._alpha: Vector = np.empty(0)
        self._largest: Vector = np.empty(0)
        self._sum_alpha = 0.0  # of magnitudes
        self._asked: Candidates | None = None  # those last asked about
        self._seen = SeenBefore()
        self._built = 0
        if len(self._rows):
            self._absorb(0, self._compared(0))

    @property
    def pairs(self) -> Pairs:
        return self._pairs

    # -- learning -------------------------------------------------------------------------------

    def _compared(self, start: int) -> tuple[Vector, list[News]]:
        """The prior of the new rows, and their kernel values, family by family."""
        h = self._rows
        arms, X = h.arms[start:], h.contexts[start:]
        own = self._pairs.prior(arms, X)
        of = self._family_of[arms]
        return own, [self._news(f, start + np.flatnonzero(of == f)) for f in np.unique(of).tolist()]

    def _news(self, f: int, rows: Indices) -> News:
        h, old = self._rows, self._families[f].rows if f in self._families else np.empty(0, dtype=np.intp)
        arms, X = h.arms[rows], h.contexts[rows]
        K = None
        if len(rows) == 1 and self._asked is not None:  # perhaps it was a candidate of the last query
            K = self._asked.row(int(arms[0]), X[0], h.arms, old)
        if K is None:
            K = self._pairs.gram(arms, X, h.arms[old], h.contexts[old])
        G = self._pairs.gram(arms, X, arms, X)
        G.flat[:: len(G) + 1] += self.settings.ridge
        return News(f, rows, K, G)

    def _absorb(self, start: int, news: Any) -> None:
        own, parts = news
        end, y = len(self._rows), self.y
        self._alpha, self._largest = room_for(self._alpha, end), room_for(self._largest, end)
        self._alpha[start:end], self._largest[start:end] = 0.0, 1.0 / (own + self.settings.ridge)
        for part in parts:
            self._grow(part, y)
        self._sum_alpha = float(np.abs(self._alpha[:end]).sum())
        self._asked = None

    def _grow(self, news: News, y: Vector) -> None:
        family = self._families.setdefault(news.family, Family())
        T, arms = family.T, self._rows.arms[news.rows]
        rows = np.concatenate([family.rows, news.rows])
        if len(rows) > 3 * T.n + 1:  # cheaper anew
            self._anew(family, rows, y, News(news.family, rows, news.K[:, :0], news.G) if not T.n else None)
            return
        G = news.G
        G.flat[:: len(G) + 1] += family.jitter
        family.enter(news.rows)
        try:
            gain = T.grow(arms, news.K, G, y[news.rows], SMALL_PIVOT)
        except np.linalg.LinAlgError:
            self._anew(family, rows, y)
            return
        self._alpha[rows] += gain

    def _anew(self, family: Family, rows: Indices, y: Vector, news: News | None = None) -> None:
        """T of these rows from their kernel matrix, with jitter if it takes that: n^3."""
        h = self._rows
        arms, X = h.arms[rows], h.contexts[rows]
        if news is None:
            M = self._pairs.gram(arms, X, arms, X)
            M.flat[:: len(M) + 1] += self.settings.ridge
        else:
            M = news.G

        def attempt(jitter: float) -> Chunked:
            return Chunked.of(arms, M + np.diag(np.full(len(M), jitter)) if jitter else M, y[rows], SMALL_PIVOT)

        scale = float(M.diagonal().max())
        try:
            T = attempt(family.jitter)
        except np.linalg.LinAlgError:
            T, family.jitter = jittered(attempt, scale, len(rows), max(1e-12, 10.0 * family.jitter / scale))
        self._built += 1
        family.T, family._rows = T, rows
        self._alpha[rows] = T.transposed(T.z[:, None])[:, 0]

    def changed(self, settings: Settings, *, rows: History | None = None, removed: int | None = None) -> Self:
        """T is shared where kernel, ridge and similarities of the arms there were stay: n^2 instead of n^3."""
        found = self._changed_rows(settings, rows, removed)
        if rows is not None or removed is not None or not self._goes_on(settings):
            return type(self)(settings, found)
        other = type(self)(settings, History(settings.n_arms))
        other._rows, y = found, settings.learned(found.rewards)
        other._families = {f: family.fork(y) for f, family in self._families.items()}
        other._largest, other._alpha = self._largest.copy(), np.zeros(len(self._alpha))
        for family in other._families.values():
            other._alpha[family.rows] = family.T.transposed(family.T.z[:, None])[:, 0]
        other._sum_alpha = float(np.abs(other._alpha).sum())
        return other

    def _goes_on(self, settings: Settings) -> bool:
        """Whether M is the same under these settings, and new rows would fall into the same families."""
        if settings.ridge != self.settings.ridge or not same_kernel(self.settings, settings):
            return False
        of = Pairs.fixed(settings).families(settings.n_arms)
        return bool(np.array_equal(of[: self.settings.n_arms], self._family_of))

    def _shallow(self) -> Self:
        other = super()._shallow()
        other._families = {f: family.fork() for f, family in self._families.items()}
        other._alpha = self._alpha.copy()
        other._seen = SeenBefore()
        return other

    # -- numbers --------------------------------------------------------------------------------

    def _weights(self) -> Vector:
        return self._alpha[: len(self._rows)].copy()

    def _moments(self, query: Query, prior: Matrix) -> tuple[Matrix, Matrix]:
        h = self._rows
        if not query.shared or len(self._pairs.terms) > 1:
            k = self._columns(query)
            mean = (self._alpha[: len(h)] @ k).reshape(query.shape)
            points = np.tile(np.arange(len(query.arms)), query.shape[0])
            return mean, prior - self._explained(query.arms[points], k).reshape(query.shape)
        term, K_Z = self._pairs.terms[0], self._pairs.K_Zs[0]
        k_x = term.kernel(term.select(query.contexts[:, 0]), term.select(h.contexts))
        candidates = Candidates(query, self._pairs, h.arms, [k_x])
        mean, explained = candidates.dot(self._alpha[: len(h)]), np.zeros(query.shape)
        for _, family, of_it in self._of(query.arms):
            k = k_x if family.T.n == len(h) else k_x.take(family.rows, axis=1)
            explained[:, of_it] = family.T.explained_by_arm(k, K_Z, query.arms[of_it])
        return mean, prior - explained

    def _of(self, arms: Indices) -> list[tuple[int, Family, Indices]]:
        """The families with rows that some of ``arms`` belong to, and which."""
        of = self._family_of[arms]
        if len(self._families) == 1 and not of.any() and 0 in self._families:
            return [(0, self._families[0], np.arange(len(arms)))]
        found = np.unique(of).tolist()
        return [(f, self._families[f], np.flatnonzero(of == f)) for f in found if f in self._families]

    def _explained(self, arms: Indices, k: Matrix) -> Vector:
        """k' M^-1 k for columns k (t, m) that belong to these arms."""
        q = np.zeros(len(arms))
        for _, family, of_it in self._of(arms):
            q[of_it] = family.T.explained(k[np.ix_(family.rows, of_it)])
        return q

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        h = self._rows
        covariance = self._pairs.gram(arms, contexts, arms, contexts)
        k = self._pairs.gram(h.arms, h.contexts, arms, contexts)
        for family in self._families.values():
            c = family.T.times(k[family.rows])
            covariance -= c.T @ c
        return covariance

    def log_det(self) -> float:
        return float(sum(f.T.log_det for f in self._families.values()) - np.log(self._noise()).sum())

    # -- deciding -------------------------------------------------------------------------------

    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        """As every engine; widths are computed only for candidates whose ceiling reaches the best score."""
        if query.shape[0] > 1 or not len(self._rows) or not len(query.arms):
            return super().leaders(query, exploration, tolerance)
        merged, place = self._merged(query)
        seen = SeenBefore() if self.reads_only else self._seen  # other threads may read, too
        asked = Candidates(merged, self._pairs, self._rows.arms, seen.values(merged, self._pairs, self._rows))
        if not self.reads_only:
            self._asked = asked
        scores = self._scores(asked, float(exploration[0]), tolerance)
        known = np.isfinite(scores)
        leaders = np.zeros((1, len(scores)), dtype=bool)
        leaders[:, known] = best(scores[None, known], tolerance)
        return leaders if place is None else leaders[:, place]

    def _scores(self, asked: Candidates, beta: float, tolerance: float) -> Vector:
        """The scores (k,) of all candidates that may lead; -inf for others."""
        t, arms = len(self._rows), asked.query.arms
        prior = self._pairs.query_prior(asked.query)[0]
        mean, cold = asked.dot(self._alpha[:t])[0], self._cold(arms)
        margin = 16.0 * t * UNIT * self._sum_alpha * float(prior.max())
        ceiling = mean + self._bonus(prior - np.minimum(asked.largest(self._largest[:t]), prior), beta) + margin
        scores = np.full(len(mean), -np.inf)
        if cold.any():
            scores[cold], ceiling[cold] = self._bonus(prior[cold], beta), -np.inf
        floor = float((mean - margin).max(where=~cold, initial=-np.inf)) if beta >= 0.0 else -np.inf
        while True:  # the best score is at least the floor, and at least the best that is known
            top, slack = (
                float(scores.max()),
                tolerance * float(np.abs(np.append(mean, scores[scores > -np.inf])).max()),
            )
            may = np.flatnonzero((ceiling >= max(top, floor) - slack) & (ceiling > -np.inf))
            if not len(may):
                return scores
            if len(may) == 1 and top < floor - slack:  # it leads, whatever its width
                scores[may] = mean[may]
                return scores
            first = int(may[ceiling[may].argmax()])
            now, explained = self._explained_with(asked, first, may)
            scores[now], ceiling[now] = mean[now] + self._bonus(prior[now] - explained, beta), -np.inf

    def _explained_with(self, asked: Candidates, first: int, may: Indices) -> tuple[Indices, Vector]:
        """k' M^-1 k of candidate ``first``, and of others that may lead and come cheap with it; and whose."""
        of = self._family_of[asked.query.arms]
        if of[first] not in self._families:
            return np.array([first]), np.zeros(1)
        family = self._families[int(of[first])]
        now = may[of[may] == of[first]]
        if len(now) > 1 and asked.k_x is not None and len(np.unique(family.T.arms)) <= _ARMS:
            k_x = asked.k_x if family.T.n == len(self._rows) else asked.k_x.take(family.rows)
            return now, family.T.explained_by_arm(k_x[None], self._pairs.K_Zs[0], asked.query.arms[now])[0]
        now = np.append(first, now[now != first][: _CONTENDERS - 1])
        return now, family.T.explained(asked.columns(now, family.rows))

    def report(self) -> dict[str, Any]:
        return {
            "method": "grown",
            "families": len(self._families),
            "built": self._built,
            "jitter": max((f.jitter for f in self._families.values()), default=0.0),
            "bytes": sum(f.T.nbytes for f in self._families.values()),
        }
