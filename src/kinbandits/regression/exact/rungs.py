"""The exact ladder: intervals for every score, narrowed until the leader is certain.

Play needs only the argmax. The engine keeps a dual vector that is nearly right (`dual`), measures how wrong it can
be, and climbs only as far as a round needs (how many rounds settle where is in the engine's report):

    residual   the residual of the dual vector bounds every mean; widths lie between crude bounds
    steps      solves with the reference B, on one arm or on all, shrink it
    widths     B^-1 k bounds every width, and with the lagged reference the means too
    cg         conjugate gradients for the contenders, with bounds from their residuals

What is open then is a tie but for rounding, and a fresh Cholesky factor decides: the definition of the answer.

Notation (besides `base`, `dual`)
    f        k'alpha of each candidate
    q        k' M^-1 k of a candidate, between q_low and q_high
    R        k - M v, the residual of an approximate solution v of M v = k

For any v: k' M^-1 k = k'v + v'R + R' M^-1 R, and the mean is k'alpha + v'res + R' M^-1 res. So
|mean - k'alpha - v'res| <= sqrt(R' M^-1 R) eta; v = 0 is the first rung. With lo B <= M <= hi B, R' M^-1 R lies
between R'B^-1 R / hi and R'B^-1 R / lo.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.regression.base import RegressionSettings, best
from kinbandits.regression.exact.dual import Dual
from kinbandits.regression.exact.matrix import ArmMatrix
from kinbandits.regression.exact.probe import Probe
from kinbandits.regression.exact.reference import Guess, Reference
from kinbandits.regression.linalg.cholesky import UNIT

_MAX_CG = 40


class Round:
    """One round's candidates on the way up: intervals low..high (k,) hold every score, and only ever shrink."""

    def __init__(self, probe: Probe, exploration: float, cold: Callable[[Indices], Mask]) -> None:
        self.probe, self.exploration, self._cold = probe, exploration, cold
        self.known: Matrix = np.empty((6, len(probe.query.arms)))  # the compiled core fills it; last, the prior
        self.guess: Guess | None = None
        self.exact: tuple[Vector, Vector, float]  # bounds if the means were exact, and how far they may be off
        self.leader = -1  # if the core has found it

    @cached_property
    def cold(self) -> Mask:
        """Which candidates are explored without looking at others."""
        return self._cold(self.probe.query.arms)

    @cached_property
    def some_cold(self) -> bool:
        return bool(self.cold.any())

    f = property(lambda self: self.known[0])
    q_low = property(lambda self: self.known[1])
    q_high = property(lambda self: self.known[2])
    low = property(lambda self: self.known[3])
    high = property(lambda self: self.known[4])

    def begin(self) -> None:
        self.known[:3] = 0.0
        self.low[:], self.high[:] = -np.inf, np.inf

    def narrow(self, low: Vector, high: Vector) -> None:
        np.maximum(self.low, low, out=self.low)
        np.minimum(self.high, high, out=self.high)

    def leaders(self, tolerance: float) -> Mask | None:
        """Who leads, (1, k); None while that is open."""
        if self.leader >= 0:
            alone = np.zeros((1, self.known.shape[1]), dtype=bool)
            alone[0, self.leader] = True
            return alone
        contenders = self.high >= self.low.max()
        if np.count_nonzero(contenders) == 1:
            return np.asarray(contenders[None, :])
        if not (self.low == self.high)[contenders].all():
            return None
        leaders = np.zeros((1, len(contenders)), dtype=bool)
        leaders[:, contenders] = best(self.low[None, contenders], tolerance)
        return leaders


@dataclass(eq=False)
class Ladder:
    """Rung after rung, on one state."""

    _settings: RegressionSettings
    _matrix: ArmMatrix
    _dual: Dual
    _reference: Reference
    cg_steps: int = 0

    def climb(self, asked: Round) -> Iterator[str]:
        """Ever narrower intervals, and the name of the rung each came from; the last may still overlap."""
        asked.begin()
        self._residual(asked)
        yield "residual"
        steps = self._reference.steps(self._dual, asked.probe, asked.f)
        yield from self._steps(asked, islice(steps, self._reference.first_steps))
        if self._widths(asked):
            yield "widths"
        yield from self._steps(asked, steps, tighten=True)
        yield from self.conjugate(asked)

    def _residual(self, asked: Round) -> None:
        self._dual.residual()
        asked.f[:] = asked.probe.dot(self._dual.values)
        asked.q_high[:] = np.minimum(asked.probe.prior, asked.probe.squares_by_arm(self._matrix.noise.lift))
        self._bound(asked)

    def _steps(self, asked: Round, steps: Iterator[Vector], tighten: bool = False) -> Iterator[str]:
        taken = 0
        while not self._open_without_error(asked):
            f = next(steps, None)
            if f is None:
                return
            asked.f[:] = f
            taken += 1
            if tighten and taken % 3 == 0:
                self._reference.tighten(self._dual)
            self._bound(asked)
            yield "steps"

    def _widths(self, asked: Round) -> bool:
        found = self._reference.widths(asked.probe)
        if found is None:
            return False
        np.maximum(asked.q_low, found.low, out=asked.q_low)
        np.minimum(asked.q_high, found.high, out=asked.q_high)
        asked.guess = found.guess
        self._reference.tighten(self._dual)
        self._bound(asked)
        return True

    # -- from numbers to intervals --------------------------------------------------------------

    def _means(self, asked: Round) -> tuple[Vector, Vector]:
        """The means as far as they are known, and how far they may be off."""
        res, error = self._dual.residual()
        floor = self.beyond(asked.probe) * error.floor
        guess = asked.guess
        if guess is None:
            return asked.f, np.sqrt(asked.q_high) * error.eta + floor
        summed = error.rounding + len(guess.u) * UNIT * error.eta * math.sqrt(self._matrix.noise.largest)
        return asked.f + res @ guess.u, guess.remainder * error.eta + guess.size * summed + floor

    def beyond(self, probe: Probe) -> float:
        """A candidate beyond all rows has larger kernel values than they have among each other: how much larger."""
        return max(1.0, math.sqrt(probe.largest_prior / max(self._matrix.kernel_bound, 1e-300)))

    def _bonuses(self, asked: Round, q_low: Vector, q_high: Vector) -> tuple[Vector, Vector]:
        """exploration * width at least and at most."""
        bonus, slack, prior = self._settings.bonus, 8.0 * UNIT, asked.probe.prior
        least = bonus(prior, q_high, asked.exploration * (1.0 - slack))
        return least, bonus(prior, np.maximum(q_low, 0.0), asked.exploration * (1.0 + slack))

    def _bound(self, asked: Round) -> None:
        mean, error = self._means(asked)
        least, most = self._bonuses(asked, asked.q_low, asked.q_high)
        asked.exact = mean + least, mean + most, float(error.max())
        self._narrow(asked, mean + least - error, mean + most + error)

    def _narrow(self, asked: Round, low: Vector, high: Vector) -> None:
        """Arms to be explored without looking at others have a known score."""
        if asked.some_cold:
            known = self._settings.bonus(asked.probe.prior, np.zeros(1), asked.exploration)
            low, high = np.where(asked.cold, known, low), np.where(asked.cold, known, high)
        asked.narrow(low, high)

    def _open_without_error(self, asked: Round) -> bool:
        """Whether the round would stay open if the means were exact: then no step will settle it."""
        low, high, error = asked.exact
        if error >= 0.3 * float((asked.high - asked.low).max()):
            return False
        return bool(np.count_nonzero(high >= low.max()) > 1)

    # -- conjugate gradients --------------------------------------------------------------------

    def conjugate(self, asked: Round) -> Iterator[str]:
        low, high = self._reference.bounds()
        (res, error), noise = self._dual.residual(), self._matrix.row_noise
        ids = np.flatnonzero((asked.high >= asked.low.max()) & ~asked.cold)
        if not len(ids):
            return
        probe, first = asked.probe, self._reference.candidates(asked.probe)
        k = probe.columns(ids)
        kernel = max(self._matrix.kernel_bound, probe.largest_prior)
        floor = self.beyond(probe) * error.floor
        for V, R, rho in self.conjugate_gradients(k, None if first is None else first[:, ids]):
            self.cg_steps += 1
            size = np.abs(V).sum(axis=0)
            rounding = (len(noise) + 4) * UNIT * kernel * (1.0 + size)
            remainder = ((np.abs(R) + rounding) ** 2 / noise[:, None]).sum(axis=0)
            if rho is not None and low > 0.0:
                slack = (1.0 + 1e-6) + len(noise) * UNIT
                remainder = np.minimum(remainder, (rho / low) * slack + rounding * size)
            q = np.einsum("ij,ij->j", V, k + R)
            off = 2.0 * len(noise) * UNIT * kernel * size + size * rounding
            lower = q - off
            if rho is not None:
                lower += np.maximum(rho / high * (1.0 - 1e-6) - rounding * size, 0.0)
            f, q_low, q_high = asked.f.copy(), asked.q_low.copy(), asked.q_high.copy()
            f[ids] += V.T @ res
            q_low[ids] = np.maximum(q_low[ids], lower)
            q_high[ids] = np.minimum(q_high[ids], q + off + remainder)
            mean_error = np.sqrt(asked.q_high) * error.eta + floor
            mean_error[ids] = np.sqrt(remainder) * error.eta + floor + size * error.rounding
            least, most = self._bonuses(asked, q_low, q_high)
            self._narrow(asked, f - mean_error + least, f + mean_error + most)
            yield "cg"
            spread = (asked.high - asked.low)[ids].max()
            if spread < 4.0 * (floor + float(rounding.max()) * (1.0 + np.sqrt(1.0 / self._settings.ridge))):
                return  # only rounding is left

    def conjugate_gradients(
        self, k: Matrix, first: Matrix | None = None
    ) -> Iterator[tuple[Matrix, Matrix, Vector | None]]:
        """(V, k - M V, R' B^-1 R) for M V = k, column by column, preconditioned by the reference.

        ``first`` is B^-1 k if it is known. Where B^-1 costs as much as a product with M, R' B^-1 R is left out.
        """
        V, R, reference = np.zeros_like(k), k.copy(), self._reference
        Z = reference.apply(R) if first is None else first
        rho = np.einsum("ij,ij->j", R, Z)
        D = Z.copy()
        for step in range(_MAX_CG):
            MD = self._matrix.times(D)
            curvature = np.einsum("ij,ij->j", D, MD)
            a = np.divide(rho, curvature, out=np.zeros_like(rho), where=curvature > 0)
            V += a * D
            R = k - self._matrix.times(V) if step % 8 == 7 else R - a * MD
            if reference.apply_is_a_pass:
                yield V, R, None
            Z = reference.apply(R)
            fresh = np.maximum(np.einsum("ij,ij->j", R, Z), 0.0)
            if not reference.apply_is_a_pass:
                yield V, R, fresh
            ratio = np.divide(fresh, rho, out=np.zeros_like(rho), where=rho > 0)
            D = Z + ratio * D
            rho = fresh
