"""Row append: for a similarity that does not change, M only ever grows by rows; arms apart are solved apart.

Arms fall into families: components of the graph in which two arms are linked when their similarity is not zero.
Families never meet in a product kernel, so M is block-diagonal over them, and each has a Cholesky factor of its own
that grows by a row: t^2 a round for one family (Pooled, Known), the sum of n_a^2 for Independent, where every arm
is a family. No kernel matrix is kept, only the factor: t^2 / 2 numbers.

Notation as in `base`; besides, for one family with n rows
    L        (n, n)  factor of M,     z = L^-1 y,     alpha = L^-T z = M^-1 y,     c = L^-1 k
    ceiling  an upper bound on a score, from q >= max_i k_i^2 / (k_ii + ridge): one row alone explains that much
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.base import Query, RegressionSettings, best
from kinbandits.regression.exact.probe import KeptColumns, Probe, different_arms
from kinbandits.regression.linalg.cholesky import (
    SMALL_PIVOT,
    GrowingCholesky,
    check_digits,
    components,
    jittered,
    warn_singular,
)
from kinbandits.regression.rows import RowRegression

_CHUNK = 8  # contenders whose widths are computed together
_WORTH = 300  # rows below which a fresh factor costs nothing worth spreading
_POINTS = 2**22  # kernel values held at once when many points are predicted


class Family:
    """The rows of arms that learn from each other."""

    def __init__(self) -> None:
        self.rows: Indices = np.empty(0, dtype=np.intp)
        self.z: Vector = np.empty(0)
        self.factor = GrowingCholesky()
        self.jitter = 0.0
        self.warned = False
        self.solved = True  # whether its part of alpha is up to date


class AppendRegression(RowRegression):
    """Exact for fixed similarities and uniform weights; a new row costs n^2 of its family."""

    def _build(self) -> None:
        history = self.history
        self._matrices = self.settings.terms.matrices(history)
        self._family_of = components(np.sum([np.abs(K) for K in self._matrices], axis=0))
        self._families = [Family() for _ in range(int(self._family_of.max()) + 1)]
        everything = np.hstack(self._matrices)
        self._all_differ = len({row.tobytes() for row in everything + 0.0}) == len(everything)  # -0.0 is 0.0
        self._most: Vector = np.empty(0)  # 1 / (k_ii + ridge) of each row, with room to grow
        self._alpha: Vector = np.empty(0)  # likewise
        self._ones = 0.0  # the sum of its magnitudes
        self._counts = history.counts * 0
        self._asked: tuple[Matrix, list[Matrix]] | None = None  # contexts last asked for, and their kernel rows
        self.kept = KeptColumns()
        self._refreshes = 0
        if len(history):
            self._absorb(0)

    @staticmethod
    def fits(settings: RegressionSettings) -> bool:
        """Whether this method is exact for these settings."""
        return settings.weighting == "uniform" and all(t.similarity.fixed for t in settings.terms)

    @property
    def similarity_matrices(self) -> list[Matrix]:
        return self._matrices

    # -- learning -------------------------------------------------------------------------------

    @property
    def counts(self) -> Indices:
        return self._counts

    def _absorb(self, start: int) -> None:
        h, end = self.history, len(self.history)
        arms = h.arms[start:]
        own = self.settings.terms.prior(self._matrices, arms, h.contexts[start:])
        if len(arms) == 1:
            family = self._families[self._family_of[arms[0]]]
            new = [(family, np.array([start]), self._kept_row(family, start, float(own[0])))]
        else:
            of = self._family_of[arms]
            parts = [(self._families[f], start + np.flatnonzero(of == f)) for f in np.unique(of).tolist()]
            new = [(family, rows, self._kernel_rows(family, rows)) for family, rows in parts]
        for family, rows, K in new:  # nothing above changed anything
            self._extend(family, rows, K)
        if end > len(self._alpha):
            more = np.zeros(max(end, 2 * start, 64) - start)
            self._alpha, self._most = (np.concatenate([a[:start], more]) for a in (self._alpha, self._most))
        self._alpha[start:end], self._most[start:end] = 0.0, 1.0 / (own + self.settings.ridge)
        self._counts = self._counts + np.bincount(arms, minlength=h.n_arms)
        self._asked = None

    def _kept_row(self, family: Family, row: int, own: float) -> Matrix:
        """`_kernel_rows` of one row, from the last question if it was a candidate there."""
        h = self.history
        contexts, kx = self._asked or (h.contexts[:0], [])
        for c in np.flatnonzero((contexts == h.contexts[row]).all(axis=1))[:1]:
            K = np.full((1, len(family.rows) + 1), own)
            lent = [K_arm[h.arms[row]].take(h.arms.take(family.rows)) for K_arm in self._matrices]
            K[0, :-1] = sum(a * k[c].take(family.rows) for a, k in zip(lent, kx, strict=True))
            return K
        return self._kernel_rows(family, np.array([row]))

    def _kernel_rows(self, family: Family, rows: Indices) -> Matrix:
        """Kernel values of new rows with the family's rows and with each other."""
        h = self.history
        everyone = np.append(family.rows, rows)
        return self.settings.terms.gram(
            self._matrices, h.arms[rows], h.contexts[rows], h.arms[everyone], h.contexts[everyone]
        )

    def _extend(self, family: Family, rows: Indices, K: Matrix) -> None:
        n = len(family.rows)
        K.flat[n :: K.shape[1] + 1] += self.settings.ridge + family.jitter
        largest = float(K.diagonal(n).max())
        try:
            family.factor.append(K)
        except np.linalg.LinAlgError:
            self._refresh(family, np.concatenate([family.rows, rows]))
            family.z = np.empty(0)
        smallest = family.factor.smallest_pivot
        if smallest < SMALL_PIVOT * largest and not family.warned:
            family.warned = True
            warn_singular(n + len(rows), f"its smallest pivot is {smallest:.3g}, so that few digits are certain")
        family.rows = np.concatenate([family.rows, rows])
        family.z = family.factor.extend(family.z, self.history.rewards[family.rows])
        family.solved = False

    def _refresh(self, family: Family, rows: Indices) -> None:
        """The factor of these rows anew, with jitter: the matrix is singular in floating point."""
        h = self.history
        K = self.settings.terms.gram(self._matrices, h.arms[rows], h.contexts[rows], h.arms[rows], h.contexts[rows])
        K[np.diag_indices_from(K)] += self.settings.ridge
        scale = float(K.diagonal().max())

        def attempt(jitter: float) -> GrowingCholesky:
            factor = GrowingCholesky()
            factor.append(K + np.diag(np.full(len(K), jitter)))
            check_digits(factor.smallest_pivot, scale)
            return factor

        first = max(1e-12, 10.0 * family.jitter / scale)
        family.factor, family.jitter = jittered(attempt, scale, len(rows), first)
        self._refreshes += 1
        family.warned = True
        warn_singular(len(rows), f"{family.jitter:.3g} was added to its diagonal")

    # -- numbers --------------------------------------------------------------------------------

    def dual(self) -> Vector:
        alpha, moved = self._alpha[: len(self.history)], False
        for family in self._families:
            if not family.solved:
                alpha[family.rows] = family.factor.backward(family.z)
                family.solved = moved = True
        if moved:
            self._ones = float(np.abs(alpha).sum())
        return alpha

    def _explained(self, arms: Indices, k: Matrix) -> Vector:
        """k' M^-1 k for columns k (t, m) that belong to these arms."""
        q = np.zeros(len(arms))
        for f in np.unique(self._family_of[arms]).tolist():
            family = self._families[f]
            mine = np.flatnonzero(self._family_of[arms] == f)
            if len(family.rows):
                c = family.factor.forward(k[np.ix_(family.rows, mine)])
                q[mine] = np.einsum("ij,ij->j", c, c)
        return q

    def _explained_alone(self, probe: Probe, candidate: int) -> Vector:
        family = self._families[self._family_of[probe.query.arms[candidate]]]
        c = family.factor.forward(probe.part(candidate, family.rows))
        return np.array([c @ c])

    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        prior = self._prior(query)
        rounds = query.shape[0]
        t = len(self.history)
        if not t:
            return np.zeros(query.shape), self.settings.width(prior, np.zeros(1))
        different, place = self._different_arms(query)
        mean, explained = np.empty(query.shape), np.empty(query.shape)
        step = max(1, _POINTS // (t * len(different)))
        for low in range(0, rounds, step):
            part = Query(
                query.arms[different], query.contexts[low : low + step, different if not query.shared else [0]]
            )
            columns = self._columns(part)
            arms = np.tile(part.arms, part.shape[0])
            mean[low : low + step] = (self.dual() @ columns).reshape(part.shape)[:, place]
            explained[low : low + step] = self._explained(arms, columns).reshape(part.shape)[:, place]
        return mean, self.settings.width(prior, explained)

    def _different_arms(self, query: Query) -> tuple[Indices, Indices]:
        """With one context for all, arms of equal similarity (and both cold or not) have equal numbers."""
        k = len(query.arms)
        if not query.shared or self._all_differ:
            return np.arange(k), np.arange(k)
        return different_arms(query, self._matrices, self._cold(query.arms))

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        covariance = self.settings.terms.gram(self._matrices, arms, contexts, arms, contexts)
        k = self._cross(arms, contexts) if len(self.history) else np.empty((0, len(arms)))
        for family in self._families:
            if len(family.rows):
                c = family.factor.forward(k[family.rows])
                covariance -= c.T @ c
        return covariance

    def log_det(self) -> float:
        return float(sum(f.factor.log_det() for f in self._families) - np.log(self._noise()).sum())

    # -- deciding -------------------------------------------------------------------------------

    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        """As the base class; widths are computed only for candidates whose ceiling reaches the best score."""
        if query.shape[0] > 1 or not len(self.history):
            return super().leaders(query, exploration, tolerance)
        h, beta = self.history, float(exploration[0])
        different, place = self._different_arms(query)
        asked = query
        if len(different) < len(query.arms):
            asked = Query(query.arms[different], query.contexts)
        flat = asked.contexts[0]
        kx = self.kept.of(self.settings.terms, flat, h)
        self._asked = flat, kx  # what a new row needs, if it is one of these
        probe = Probe(asked, kx, self._matrices, h.arms, self._prior(asked)[0])
        prior, bonus, alone = probe.prior, self.settings.bonus, len(self._families) > 1
        mean, cold = probe.dot(self.dual()), self._cold(asked.arms)
        margin = 16.0 * len(h) * 2.0**-53 * self._ones * float(prior.max(initial=0.0))
        crude = probe.largest(self._most[: len(h)])
        ceiling = mean + bonus(prior, np.minimum(crude, prior), beta) + margin
        scores = np.full(len(mean), -np.inf)
        if cold.any():
            scores[cold], ceiling[cold] = bonus(prior[cold], np.zeros(1), beta), -np.inf
        top = float(scores.max())
        while (most := float(ceiling.max())) > -np.inf and most >= top * (1.0 - np.sign(top) * tolerance):
            if alone:
                now = np.array([ceiling.argmax()])
                explained = self._explained_alone(probe, int(now[0]))
            else:  # one family is solved for several at a time
                now = np.argsort(-ceiling, kind="stable")[:_CHUNK]
                now = now[np.isfinite(ceiling[now])]
                explained = self._explained(asked.arms[now], probe.columns(now))
            scores[now], ceiling[now] = mean[now] + bonus(prior[now], explained, beta), -np.inf
            top = max(top, float(scores[now].max()))
        leaders = scores[None, :] == top
        if tolerance:
            known = np.isfinite(scores)
            leaders[:, known] = best(scores[None, known], tolerance)
        return np.asarray(leaders[:, place] if len(different) < len(query.arms) else leaders)

    def report(self) -> dict[str, Any]:
        return {
            "families": len(self._families),
            "refreshes": self._refreshes,
            "jitter": max((f.jitter for f in self._families), default=0.0),
            "bytes": sum(f.factor.nbytes for f in self._families),
        }


class Coming:
    """A regression for these matrices, to be in force from ``force`` rows on; until then it is built in parts.

    A similarity that changes in steps says some rows ahead what it will be (`StepTracker.coming`). A factor for the
    new matrix costs t^3 / 3; spread over those t / 16 rows it costs each about five times an ordinary update.
    """

    def __init__(self, settings: RegressionSettings, matrices: list[Matrix], n_arms: int, force: int) -> None:
        self.matrices, self._force = matrices, force
        self._settings = dataclasses.replace(settings, terms=settings.terms.settled(matrices))
        self._regression = AppendRegression(self._settings, History(n_arms))

    @staticmethod
    def pays(settings: RegressionSettings, matrices: list[Matrix], rows: int) -> bool:
        """Whether it is worth the trouble, and this method the one to use."""
        settled = dataclasses.replace(settings, terms=settings.terms.settled(matrices))
        return rows >= _WORTH and AppendRegression.fits(settled)

    def advance(self, history: History, share: float) -> None:
        """Learn as many rows as make equal work of each call, when this share of the time is gone."""
        self._learn(history, min(len(history), int(self._force * share ** (1.0 / 3.0))))

    def arrived(self, history: History) -> AppendRegression:
        """The regression, with all rows of ``history`` learned, which it follows from now on."""
        self._learn(history, len(history))
        self._regression.history = history
        return self._regression

    def is_for(self, matrices: list[Matrix]) -> bool:
        """Whether it is made for these matrices."""
        return all(np.array_equal(mine, K) for mine, K in zip(self.matrices, matrices, strict=True))

    def _learn(self, history: History, size: int) -> None:
        known = self._regression.history
        start = len(known)
        if size > start:
            rows = slice(start, size)
            known.append(history.arms[rows], history.contexts[rows], history.rewards[rows])
            self._regression._absorb(start)
