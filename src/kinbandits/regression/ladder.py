"""The exact ladder: intervals for every score, narrowed until the leader is certain.

For an estimated k_Z, or weights 1/n_a: one pull changes all of M. Play needs only the argmax. The engine keeps a
dual vector that is nearly right, measures how wrong it can be, and climbs only as far as a round needs (how many
rounds settle where is in `report`):

    residual   the residual of the dual vector bounds every mean; widths lie between crude bounds; N t
    steps      a solve with one arm's block shrinks the residual; n_a t each
    widths     k'B^-1 k bounds every width (`blocks`); sum of n_a^2
    cg         conjugate gradients, preconditioned by B, for the two best candidates, then for others; t^2 a step
    dense      a fresh Cholesky factor defines the answer: a tie but for rounding, or a nearly singular k_Z, where the
               rungs between are left out; its dual vector is the next round's

Notation (besides `contract`, `strips`, `blocks`)
    alpha    (t,)    dual vector, near M^-1 y
    Y        (N, t)  Y[b, i] = sum over rows j of arm b of K_X[i, j] alpha_j
    res      (t,)    y - M alpha = y - noise alpha - sum_b K_Z[a_i, b] Y[b, i]: N t, whatever K_Z has become
    eta              bound on sqrt(res' M^-1 res): M >= diag(noise), so eta^2 = sum res_i^2 / noise_i
    f                k'alpha of each candidate
    q                k' M^-1 k of each candidate, between q_low and q_high
    R                k - M v, the residual of an approximate solution v of M v = k

For any v: q = k'v + v'R + R' M^-1 R, and the mean is k'alpha + v'res + R' M^-1 res. So
|mean - f - v'res| <= sqrt(R' M^-1 R) eta; v = 0 is the first rung. R' M^-1 R is between R'B^-1 R / hi and
R'B^-1 R / lo, and at most sum R_i^2 / noise_i.

Rounding, u = 2^-53: a sum of n products has error at most n u sum |x_i y_i|. `drift` bounds the error of Y,
`rounding` that of res (drift, and (N + 4) u times the terms it is summed from), `floor` that of f, (t + N) u times
the largest kernel value times sum |alpha|. They enter eta and the intervals, which so hold for exact arithmetic on
the same data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.kernels import cdist
from kinbandits.regression.blocks import Blocks
from kinbandits.regression.candidates import Candidates
from kinbandits.regression.contract import Query, best
from kinbandits.regression.dense import Dense, Factored
from kinbandits.regression.linalg import UNIT, room_for
from kinbandits.regression.pairs import Followed, dense
from kinbandits.regression.strips import Strips

_BULK = 32  # more rows than this at once are a fresh start, not single updates
_TRY = 8  # after so many rounds that only a fresh factor settled, other rungs are tried in every so many
_STEPS = 2  # before widths, which cost as much as a step
_CG_ROWS = 150  # a fresh factor costs as much as t / 150 steps of conjugate gradients, about


class Error(NamedTuple):
    """How wrong the means can be: see above. ``shares`` (N,) is eta^2 arm by arm over scale^2, without rounding."""

    eta: float
    rounding: float
    floor: float
    shares: Vector
    scale: float  # 1, or the largest |res_i|, where squares of tiny residuals would vanish


class Round:
    """low..high (k,) hold the scores of all candidates, and only ever shrink. Cold candidates have a known score."""

    def __init__(self, prior: Vector, q_high: Vector, cold: Mask, ridge: float, beta: float) -> None:
        self.prior, self.cold, self._beta, self._factor = prior, cold, beta, beta / math.sqrt(ridge)
        self.f, self.q_low, self.q_high = np.zeros(len(prior)), np.zeros(len(prior)), np.minimum(prior, q_high)
        self.low: Vector = np.full(len(cold), -np.inf)
        self.high: Vector = np.full(len(cold), np.inf)

    def narrow(self, error: Vector) -> None:
        """From f, q_low and q_high, and the ``error`` of the means."""
        slack = 8.0 * UNIT
        least, most = np.sqrt(np.maximum(self.prior - np.stack([self.q_high, self.q_low]), 0.0)) * self._factor
        least, most = least * (1.0 - slack), most * (1.0 + slack)
        low, high = (self.f + least, self.f + most) if self._beta >= 0.0 else (self.f + most, self.f + least)
        if self.cold.any():
            known = self._factor * np.sqrt(self.prior)
            low, high = np.where(self.cold, known, low), np.where(self.cold, known, high)
            error = np.where(self.cold, 0.0, error)
        self._exact = low, high, float(error.max())
        np.maximum(self.low, low - error, out=self.low)
        np.minimum(self.high, high + error, out=self.high)

    @property
    def contenders(self) -> Mask:
        return np.asarray(self.high >= self.low.max())

    def leaders(self, tolerance: float) -> Mask | None:
        """Who leads, (1, k); None while that is open."""
        contenders = self.contenders
        if np.count_nonzero(contenders) == 1:
            return contenders[None, :]
        if not contenders.any() or not (self.low == self.high)[contenders].all():
            return None
        leaders = np.zeros((1, len(contenders)), dtype=bool)
        leaders[:, contenders] = best(self.low[None, contenders], tolerance)
        return leaders

    def open_with_exact_means(self) -> bool:
        """Whether the round would stay open if the means were exact: then no step will settle it."""
        low, high, error = self._exact
        if error >= 0.3 * float((self.high - self.low).max()):
            return False
        return bool(np.count_nonzero(high >= low.max()) > 1)


class Ladder(Factored):
    """Exact decisions at the cost of a few products; exact numbers, when read, from a fresh factor. One term."""

    def _build(self) -> None:
        self._followed = Followed(self.settings, self._rows)
        self._counters: Counter[str] = Counter()
        self._futile = 0  # rounds in a row that only a fresh factor settled
        (self._term,) = self.settings.terms
        self._squares = self._term.columns is None and self._term.kernel.from_squares(np.zeros((1, 1))) is not None
        self._fill()

    def _fill(self) -> None:
        """The state from all rows at once; the dual vector starts at zero."""
        h, s = self._rows, self.settings
        X = self._term.select(h.contexts)
        K_X = self._term.kernel(X, X)
        self._strips = Strips(s.n_arms, h.arms, K_X)
        per_arm = s.weighting == "per_arm"
        self._noises = s.ridge * np.maximum(h.counts, 1.0) if per_arm else np.full(s.n_arms, s.ridge)
        self._alpha, self._res = np.zeros(len(h)), np.zeros(len(h))
        self._Y = np.zeros((s.n_arms, self._strips.room))
        self._learned_y = np.array(self.y)
        self._largest_y = float(np.abs(self._learned_y).max(initial=0.0))
        self._own = float(K_X.diagonal().max(initial=0.0))  # the largest k_X(x, x)
        self._sum_alpha = self._drift = 0.0
        self._follow()
        self._blocks = Blocks(self._strips, self._K_Z.diagonal(), self._noises, per_arm)

    def _follow(self) -> None:
        """The similarity in force, and bounds on M; what was computed for the rows before is no longer valid."""
        self.pairs = self._followed.pairs
        self._K_Z = dense(self.pairs.K_Zs[0])
        largest = float(self._K_Z.diagonal().max())
        self._kernel = self._own * max(1.0, largest)  # the largest k(x~, x~) of a row, or entry of K_X
        self._row_sum = len(self._K_Z) * largest  # of |K_Z| at most
        self._lift = math.sqrt(float((self._strips.counts / self._noises).sum()))  # root of the sum of 1 / noise
        self._solved = None
        self._error: Error | None = None
        self._asked: tuple[Matrix, Matrix, Matrix | None] | None = None  # contexts, k_X, squared distances

    def _matrix(self) -> Matrix:
        return self._strips.dense(self._K_Z, self._noise())

    def snapshot(self) -> Dense:  # type: ignore[override]
        """A factor is made when it is first read: t^3 / 3."""
        return Dense.frozen(self.settings, self._rows, self.pairs)

    # -- learning -------------------------------------------------------------------------------

    def _compared(self, start: int) -> tuple[list[Vector], Vector | None]:
        """Context-kernel values of each new row with those before and itself; squared distances, if known."""
        X, end = self._rows.contexts, len(self._rows)
        if end - start > _BULK:
            return [], None
        if end - start == 1 and self._asked is not None:
            contexts, k_x, squares = self._asked
            for c in np.flatnonzero((contexts == X[start]).all(axis=1))[:1]:
                return [k_x[c]], None if squares is None else squares[c]
        K = self._term.kernel(self._term.select(X[start:]), self._term.select(X))
        return [K[i, : start + i + 1] for i in range(end - start)], None

    def _absorb(self, start: int, news: Any) -> None:
        values, squares = news
        h = self._rows
        self._followed.observe(start, squares)
        if len(h) - start > _BULK:
            self._fill()
            return
        self._K_Z = dense(self._followed.pairs.K_Zs[0])
        y = self.settings.learned(h.rewards[start:])
        for arm, reward, k_x in zip(h.arms[start:].tolist(), y.tolist(), values, strict=True):
            self._append(arm, reward, k_x)
        self._follow()

    def _append(self, arm: int, reward: float, k_x: Vector) -> None:
        """alpha gets the value that makes the new row's own residual small; Y follows for t."""
        strips, K_Z, t = self._strips, self._K_Z, self._strips.size
        rows, own = strips.rows(arm), float(K_Z[arm, arm])
        self._alpha, self._res = room_for(self._alpha, t + 1), room_for(self._res, t + 1)
        self._learned_y = room_for(self._learned_y, t + 1)
        if t == self._Y.shape[1]:
            self._Y = np.hstack([self._Y, np.zeros_like(self._Y)])
        self._Y[:, t] = np.bincount(strips.arms, k_x[:t] * self._alpha[:t], len(K_Z))
        k, corner = own * k_x.take(rows), own * float(k_x[t])
        noise = self.settings.ridge * (len(rows) + 1 if self.settings.weighting == "per_arm" else 1)
        error = reward - float(K_Z[arm] @ self._Y[:, t])
        g = error / (corner + noise + float(k @ k) / (corner + noise))
        self._Y[arm, : t + 1] += g * k_x
        self._alpha[t], self._learned_y[t], self._res[t] = g, reward, 0.0
        strips.append(arm, k_x)
        self._noises[arm] = noise
        self._blocks.row(arm, K_Z, k, corner)
        self._own, self._largest_y = max(self._own, float(k_x[t])), max(self._largest_y, abs(reward))
        self._drift = max(self._drift, t * UNIT * self._own * self._sum_alpha)
        self._sum_alpha += abs(g)
        self._drift += UNIT * self._own * (3.0 * abs(g) + self._sum_alpha)

    # -- the dual vector ------------------------------------------------------------------------

    def _residual(self) -> Error:
        """How wrong the means can be; res is worked out once for each state."""
        if self._error is None:
            t, strips = self._strips.size, self._strips
            if self._drift * self._lift > 1e-8 and self._drift > 32.0 * t * UNIT * self._own * self._sum_alpha:
                self._set_dual(self._alpha[:t])
            alpha, arms = self._alpha[:t], strips.arms
            res = self._learned_y[:t] - self._noises.take(arms) * alpha
            res -= np.einsum("bi,bi->i", self._Y[:, :t], self._K_Z.take(arms, axis=1))
            self._res[:t] = res
            self._sum_alpha = float(np.abs(alpha).sum())
            self._error = self._measured()
        return self._error

    def _set_dual(self, alpha: Vector) -> None:
        """Another dual vector, and Y from it: t^2."""
        t, strips = self._strips.size, self._strips
        self._alpha[:t] = alpha
        for b in np.flatnonzero(strips.counts).tolist():
            self._Y[b, :t] = strips.times(b, alpha[strips.rows(b)])
        self._sum_alpha, self._error = float(np.abs(alpha).sum()), None
        self._drift = t * UNIT * self._own * self._sum_alpha

    def _measured(self) -> Error:
        t, n_arms = self._strips.size, len(self._K_Z)
        res = self._res[:t]
        scale = max(float(res.max()), -float(res.min())) or 1.0
        if 1e-100 < scale < 1e100:
            scale = 1.0
        unit = res if scale == 1.0 else res / scale
        shares = np.bincount(self._strips.arms, unit * unit, n_arms) / self._noises
        terms = self._largest_y + (2.0 * self._kernel + float(self._noises.max())) * self._sum_alpha
        rounding = self._row_sum * self._drift + (n_arms + 4) * UNIT * terms
        eta = scale * math.sqrt(shares.sum()) + rounding * self._lift
        floor = (t + n_arms) * UNIT * self._kernel * self._sum_alpha
        return Error(eta, rounding, floor, shares, scale)

    def _step(self) -> tuple[int, Indices, Vector]:
        """A solve with one block, of the largest share of eta^2: the arm, its rows, what alpha gains."""
        strips, t = self._strips, self._strips.size
        arm = int(self._residual().shares.argmax())
        rows = strips.rows(arm)
        d = self._blocks.P(arm) @ self._res[rows]
        self._alpha[rows] += d
        z = strips.times(arm, d)
        self._Y[arm, :t] += z
        self._res[:t] -= z * self._K_Z[arm].take(strips.arms)
        self._res[rows] -= self._noises[arm] * d
        size = float(np.abs(d).sum())
        self._sum_alpha += size
        self._drift += UNIT * self._own * ((len(rows) + 2) * size + self._sum_alpha)
        self._error = self._measured()
        self._counters["block steps"] += 1
        return arm, rows, d

    def _tighten(self) -> None:
        """M >= lo B, so res' M^-1 res <= res' B^-1 res / lo."""
        lo, _ = self._blocks.bounds(self._K_Z)
        if lo > 0.0:
            error = self._residual()
            res = self._res[: self._strips.size] / error.scale
            total = float(self._blocks.forms(res).sum()) + self._blocks.error(self._kernel) * float(res @ res)
            eta = error.scale * math.sqrt(max(total, 0.0) / lo) * (1.0 + 1e-6) + error.rounding * self._lift
            self._error = error._replace(eta=min(error.eta, eta))

    # -- deciding -------------------------------------------------------------------------------

    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        """As every engine, but numbers are computed only as far as the argmax needs them."""
        if query.shape[0] > 1 or not len(query.arms):
            return super().leaders(query, exploration, tolerance)
        merged, place = self._merged(query)
        for rung, scores in self.climb(merged, float(exploration[0])):
            leaders = scores.leaders(tolerance)
            if leaders is not None:
                self._counters[f"settled: {rung}"] += 1
                self._futile = 0 if rung != "residual" else self._futile
                return leaders if place is None else leaders[:, place]
        self._counters["settled: dense"] += 1
        self._futile += 1
        leaders = super().leaders(query, exploration, tolerance)
        self._set_dual(self._weights())  # or rows that come would be measured against a wrong one
        return leaders

    def climb(self, query: Query, exploration: float) -> Iterator[tuple[str, Round]]:
        """Ever narrower intervals that hold the scores of one round, and the rung each came from."""
        seen, prior = self._candidates(query)
        scores = Round(
            prior, seen.squares(1.0 / self._noises), self._cold(query.arms), self.settings.ridge, exploration
        )
        # A candidate beyond all rows has larger kernel values than they have among each other: how much larger.
        beyond = max(1.0, math.sqrt(float(prior.max()) / max(self._kernel, 1e-300)))

        def bound() -> None:
            error = self._residual()
            scores.narrow(np.sqrt(scores.q_high) * error.eta + beyond * error.floor)

        def step() -> None:
            scores.f = scores.f + seen.dot_arm(*self._step())

        self._residual()
        scores.f = seen.dot(self._alpha[: len(self._rows)])
        bound()
        yield "residual", scores
        if self._futile > _TRY and self._futile % _TRY:  # lately all that follows was in vain
            return
        self._blocks.refresh()
        for _ in range(_STEPS):
            if scores.open_with_exact_means():
                break
            step()
            bound()
            yield "steps", scores
        lo, hi = self._blocks.bounds(self._K_Z)
        slack = self._blocks.error(self._kernel) * seen.squares(np.ones(len(self._noises)))
        Q = seen.forms(self._blocks.forms)
        scores.q_low = np.maximum(scores.q_low, (Q - slack) / hi)
        if lo > 0.0:
            scores.q_high = np.minimum(scores.q_high, (Q + slack) / lo)
        self._tighten()
        bound()
        yield "widths", scores
        for i in range(3 * len(self._noises) + 8):
            if scores.open_with_exact_means():
                break
            step()
            if i % 3 == 2:
                self._tighten()
            bound()
            yield "steps", scores
        for _ in self._conjugate(seen, scores, beyond):
            yield "cg", scores

    def _conjugate(self, seen: Candidates, scores: Round, beyond: float) -> Iterator[None]:
        """Conjugate gradients for the two best contenders, then for the next two, until none is left."""
        (lo, hi), error, t = self._blocks.bounds(self._K_Z), self._residual(), len(self._rows)
        noise, res = self._noises.take(self._strips.arms), self._res[:t]
        kernel, floor = max(self._kernel, float(scores.prior.max())), beyond * error.floor
        start, done = scores.f.copy(), scores.cold.copy()
        mean_error = np.sqrt(scores.q_high) * error.eta + floor
        last, budget = False, max(2, t // _CG_ROWS)
        while not last and budget > 0 and len(left := np.flatnonzero(scores.contenders & ~scores.cold)):
            ids = left[~done[left]]
            ids = ids[np.argsort(-scores.high[ids], kind="stable")[:2]]
            if last := not len(ids):  # all were apart in pairs, not among each other
                ids = left
            done[ids] = True
            k = seen.columns(ids)
            for V, R, rho in self._solves(k, noise):
                budget -= 1
                self._counters["cg steps"] += 1
                size = np.abs(V).sum(axis=0)
                rounding = (t + 4) * UNIT * kernel * (1.0 + size)
                remainder = (np.square(np.abs(R) + rounding) / noise[:, None]).sum(axis=0)
                if lo > 0.0:  # R'P R is known to a relative t u, and R to its rounding
                    remainder = np.minimum(remainder, (rho / lo) * (1.0 + 1e-6 + t * UNIT) + rounding * size)
                q = np.einsum("ij,ij->j", V, k + R)
                off = 2.0 * t * UNIT * kernel * size + size * rounding
                lower = q - off + np.maximum(rho / hi * (1.0 - 1e-6) - rounding * size, 0.0)
                scores.f[ids] = start[ids] + V.T @ res
                scores.q_low[ids] = np.maximum(scores.q_low[ids], lower)
                scores.q_high[ids] = np.minimum(scores.q_high[ids], q + off + remainder)
                mean_error[ids] = np.sqrt(remainder) * error.eta + floor + size * error.rounding
                scores.narrow(mean_error)
                yield
                spread = float((scores.high - scores.low)[ids].max())
                if budget <= 0:
                    return
                if spread < 4.0 * (floor + float(rounding.max()) * (1.0 + math.sqrt(1.0 / self.settings.ridge))):
                    break  # only rounding is left
                if not last and np.count_nonzero(scores.high[ids] >= scores.low[ids].max()) < 2 <= len(ids):
                    break  # these are apart; it is others that keep the round open

    def _solves(self, k: Matrix, noise: Vector) -> Iterator[tuple[Matrix, Matrix, Vector]]:
        """(V, R = k - M V, R' B^-1 R) for M V = k, column by column."""
        V, R = np.zeros_like(k), k.copy()
        Z = self._blocks.apply(R)
        rho, D = np.einsum("ij,ij->j", R, Z), Z.copy()
        for step in count():
            MD = self._strips.products(self._K_Z, noise, D)
            curvature = np.einsum("ij,ij->j", D, MD)
            a = np.divide(rho, curvature, out=np.zeros_like(rho), where=curvature > 0)
            V += a * D
            R = k - self._strips.products(self._K_Z, noise, V) if step % 8 == 7 else R - a * MD
            Z = self._blocks.apply(R)
            fresh = np.maximum(np.einsum("ij,ij->j", R, Z), 0.0)
            yield V, R, fresh
            D = Z + np.divide(fresh, rho, out=np.zeros_like(rho), where=rho > 0) * D
            rho = fresh

    def _candidates(self, query: Query) -> tuple[Candidates, Vector]:
        """The candidates of a single round, and their priors."""
        X, flat, term, squares = self._rows.contexts, query.contexts[0], self._term, None
        own = term.kernel.diag(term.select(flat))[:, None]
        if self._squares:
            squares = np.hstack([cdist(flat, X, "sqeuclidean"), np.zeros((len(flat), 1))])  # last, to itself
            k_x = term.kernel.from_squares(squares[:, :-1])
            assert k_x is not None
        else:
            k_x = term.kernel(term.select(flat), term.select(X))
        self._asked = flat, np.hstack([k_x, own]), squares
        prior = self._K_Z.diagonal()[query.arms] * own[:, 0]
        return Candidates(query, self.pairs, self._strips.arms, [k_x]), prior

    def report(self) -> dict[str, Any]:
        return {"method": "ladder", **dict(sorted(self._counters.items()))}
