"""The exact ladder: intervals for every score, narrowed until the leader is certain.

Play needs only the argmax. The engine keeps a dual vector that is nearly right (`state`), measures how wrong it can
be, and climbs only as far as a round needs (how many rounds settle where is in `report`):

    residual   the residual of the dual vector bounds every mean; widths lie between crude bounds
    steps      solves with the reference B, on one arm or on all, shrink it
    widths     B^-1 k bounds every width, and with the whole reference the means too
    cg         conjugate gradients for the contenders, with bounds from their residuals
    dense      a fresh Cholesky factor: the definition of the answer, for ties in rounding

Notation (besides `base`, `state`, `blocks`)
    q        k' M^-1 k of a candidate, between q_low and q_high
    R        k - M v, the residual of an approximate solution v of M v = k

For any v: k' M^-1 k = k'v + v'R + R' M^-1 R, and f = k'alpha + v'res + R' M^-1 res. So
|f - k'alpha - v'res| <= sqrt(R' M^-1 R) eta; v = 0 is the first rung. With lo B <= M <= hi B, R' M^-1 R lies
between R'B^-1 R / hi and R'B^-1 R / lo.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.regression.base import Query, best
from kinbandits.regression.blocks import UNIT
from kinbandits.regression.dual import DualRegression
from kinbandits.regression.probe import Probe, different_arms
from kinbandits.regression.reference import Guess


class Bounds(NamedTuple):
    """Intervals that contain every candidate's score, and the rung that gave them."""

    rung: str
    low: Vector
    high: Vector


class LadderRegression(DualRegression):
    """Exact decisions at the cost of a few products; exact numbers when they are read."""

    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        """As the base class, but numbers are computed only as far as the argmax needs them."""
        if query.shape[0] > 1:
            return super().leaders(query, exploration, tolerance)
        if query.shared and self._reference.name == "whole" and len(query.arms) > 1:
            different, place = different_arms(query, self.similarity_matrices, self._cold(query.arms))
            if len(different) < len(query.arms):  # pooled arms, say: ties that nothing can settle
                return self.leaders(Query(query.arms[different], query.contexts), exploration, tolerance)[:, place]
        for bounds in self.rungs(query, float(exploration[0])):
            contenders = bounds.high >= bounds.low.max()
            alone = np.count_nonzero(contenders) == 1
            if alone or (bounds.low == bounds.high)[contenders].all():
                self._counters[f"settled: {bounds.rung}"] += 1
                if alone:
                    return np.asarray(contenders[None, :])
                leaders = np.zeros((1, len(contenders)), dtype=bool)
                leaders[:, contenders] = best(bounds.low[None, contenders], tolerance)
                return leaders
        self._counters["settled: dense"] += 1
        return best(self._scores(query, exploration), tolerance)

    def _scores(self, query: Query, exploration: Vector) -> Matrix:
        mean, explained = self._dense_moments(query)
        return self._scores_of(query, mean, self._prior(query), explained, exploration)

    def rungs(self, query: Query, exploration: float) -> Iterator[Bounds]:
        """Ever narrower intervals that contain every score of a single round; the last may still overlap."""
        if not len(self.history):
            return
        probe = self._probe(query)
        self._residual()
        cold = self._cold(query.arms)
        some_cold = bool(cold.any())
        f = probe.dot(self.alpha)
        q_low = np.zeros(len(f))
        q_high = np.minimum(probe.prior, probe.squares_by_arm(self._arm_lift))
        reach = np.sqrt(q_high)
        narrow, wide = self._bonuses(probe, exploration, q_low, q_high)
        beyond = self._beyond(probe)
        guess: Guess | None = None

        def means() -> tuple[Vector, Vector]:
            """The means as far as they are known, and how far they may be off."""
            if guess is None:
                return f, reach * self._eta + beyond * self._floor
            summed = self._rounding + len(guess.u) * UNIT * self._eta * math.sqrt(self._largest_noise)
            error = guess.remainder * self._eta + guess.size * summed + beyond * self._floor
            return f + self._residual() @ guess.u, error

        def bounds(rung: str) -> Bounds:
            mean, error = means()
            raw = Bounds(rung, mean + narrow - error, mean + wide + error)
            return self._settle_cold(raw, probe, cold, exploration) if some_cold else raw

        self._largest_residual = max(self._largest_residual, self._eta)
        last = bounds("residual")

        def open_without_error() -> bool:
            """Whether the round would stay open if the means were exact: then no step will settle it."""
            mean, error = means()
            if float(error.max()) >= 0.1 * float((last.high - last.low).max()):
                return False
            return bool(np.count_nonzero(mean + wide >= (mean + narrow).max()) > 1)

        steps = self._reference.steps(probe, f)

        def climb(at_most: int | None, tighten: bool = False) -> Iterator[Bounds]:
            nonlocal f, last
            if open_without_error():
                return
            for taken, f in enumerate(islice(steps, at_most)):  # noqa: B007 (what `bounds` is made of)
                if tighten and taken % 3 == 2:
                    self._reference.tighten()
                last = _both(last, bounds("steps"))
                yield last
                if open_without_error():
                    return

        yield last
        yield from climb(self._reference.first_steps)
        found = self._reference.widths(probe)
        if found is not None:
            q_low, q_high = np.maximum(q_low, found.low), np.minimum(q_high, found.high)
            reach = np.sqrt(q_high)
            guess = found.guess
            narrow, wide = self._bonuses(probe, exploration, q_low, q_high)
            self._reference.tighten()
            last = _both(last, bounds("widths"))
            yield last
        yield from climb(None, tighten=True)
        self._counters["cg rounds"] += 1
        contenders = np.flatnonzero(_contenders(last))
        yield from self._cg_rungs(probe, cold, exploration, contenders, last, f, q_low, q_high)

    def _cg_rungs(
        self,
        probe: Probe,
        cold: Mask,
        exploration: float,
        contenders: Indices,
        last: Bounds,
        f: Vector,
        q_low: Vector,
        q_high: Vector,
    ) -> Iterator[Bounds]:
        low, high = self._reference.bounds()
        res, noise = self._residual(), self.noise
        ids = contenders[~cold[contenders]]
        if not len(ids):
            return
        k = probe.columns(ids)
        kernel = max(self._kernel_bound, float(probe.prior.max()))
        floor = self._beyond(probe) * self._floor
        first = self._reference.candidates(probe)
        for V, R, rho in self.conjugate_gradients(k, None if first is None else first[:, ids]):
            self._counters["cg steps"] += 1
            size = np.abs(V).sum(axis=0)
            rounding = (len(noise) + 4) * UNIT * kernel * (1.0 + size)
            R_noise = np.sqrt(((np.abs(R) + rounding) ** 2 / noise[:, None]).sum(axis=0))
            remainder_high = R_noise**2
            if rho is not None and low > 0.0:
                slack = (1.0 + 1e-6) + len(noise) * UNIT
                remainder_high = np.minimum(remainder_high, (rho / low) * slack + rounding * size)
            q = np.einsum("ij,ij->j", V, k + R)
            error = 2.0 * len(noise) * UNIT * kernel * size + size * rounding
            lower = q - error
            if rho is not None:
                lower += np.maximum(rho / high * (1.0 - 1e-6) - rounding * size, 0.0)
            f_new, q_low_new, q_high_new = f.copy(), q_low.copy(), q_high.copy()
            f_new[ids] += V.T @ res
            q_low_new[ids] = np.maximum(q_low[ids], lower)
            q_high_new[ids] = np.minimum(q_high[ids], q + error + remainder_high)
            mean_error = np.sqrt(q_high) * self._eta + floor
            mean_error[ids] = np.sqrt(remainder_high) * self._eta + floor + size * self._rounding
            narrow, wide = self._bonuses(probe, exploration, q_low_new, q_high_new)
            raw = Bounds("cg", f_new - mean_error + narrow, f_new + mean_error + wide)
            bounds = self._settle_cold(raw, probe, cold, exploration)
            last = _both(last, bounds)
            yield last
            spread = (last.high - last.low)[ids].max()
            if spread < 4.0 * (floor + float(rounding.max()) * (1.0 + np.sqrt(1.0 / self.settings.ridge))):
                return  # only rounding is left: a tie, for the dense rung

    def _beyond(self, probe: Probe) -> float:
        """A candidate beyond all rows has larger kernel values than they have among each other: how much larger."""
        return max(1.0, math.sqrt(float(probe.prior.max()) / max(self._kernel_bound, 1e-300)))

    def _bonuses(self, probe: Probe, exploration: float, q_low: Vector, q_high: Vector) -> tuple[Vector, Vector]:
        """exploration * width at least and at most."""
        bonus, slack = self.settings.bonus, 8.0 * UNIT
        narrow = bonus(probe.prior, q_high, exploration * (1.0 - slack))
        return narrow, bonus(probe.prior, np.maximum(q_low, 0.0), exploration * (1.0 + slack))

    def _settle_cold(self, bounds: Bounds, probe: Probe, cold: Mask, exploration: float) -> Bounds:
        """Arms to be explored without looking at others have a known score."""
        known = self.settings.bonus(probe.prior[cold], np.zeros(1), exploration)
        bounds.low[cold] = bounds.high[cold] = known
        return bounds


def _both(a: Bounds, b: Bounds) -> Bounds:
    """What two intervals that hold say together."""
    return Bounds(b.rung, np.maximum(a.low, b.low), np.minimum(a.high, b.high))


def _contenders(bounds: Bounds) -> Mask:
    return np.asarray(bounds.high >= bounds.low.max())
