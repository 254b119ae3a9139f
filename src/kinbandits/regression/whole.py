"""The whole M of an earlier moment, inverted, with new rows appended: the reference for similarities near singular.

Notation (besides `base`, `state`, `growing`)
    B        K with the similarity and the noise of the last refresh; ``_shift`` more on its diagonal if need be
    order    rows arm by arm as they were at the refresh, then those appended, as they came: the order of P and G
    W        (t, N)  column a: B^-1 of the context-kernel row, kept on arm a's rows only
    u        B^-1 k of a candidate: with one context for all and one term, W K_arm[a_b]

So all candidates' u cost one pass over P, t^2. For any u, with r = k - M u, k' M^-1 k = k'u + u'r + r' M^-1 r and
the mean is k'alpha + res'u + r' M^-1 res: `widths` bounds r without a product with M. Where the noise alone has
changed since the refresh, r is known, and the bound is as good as second order in that change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.blocks import UNIT
from kinbandits.regression.growing import GrowingInverse
from kinbandits.regression.linalg import shifts
from kinbandits.regression.probe import Probe
from kinbandits.regression.reference import Guess, Reference, Widths

if TYPE_CHECKING:
    from kinbandits.regression.state import DualState


_MANY = 64  # rows appended without a question in between, after which the inverse is made anew when there is one


class WholeReference(Reference):
    """All of M as it was at the last refresh, with rows appended since."""

    name = "whole"
    first_steps = 0
    apply_is_a_pass = True

    def __init__(self, owner: DualState, growth: float = 1.05) -> None:
        super().__init__(owner)
        self._growth = growth
        self._inverse: GrowingInverse | None = None
        self._K_arms: list[Matrix] = []
        self._counts = owner.history.counts
        self._order: Indices = np.empty(0, dtype=np.intp)
        self._starts: list[int] = []
        self._asked: tuple[Vector, Matrix] | None = None  # a context-kernel row (in order of arrival) and its W
        self._arm_of: Matrix = np.empty((0, 0))  # (t, N), 1 where a row (in this order) belongs to an arm
        self._roots: list[Matrix | None] = []
        self._found: tuple[Probe, Matrix] | None = None  # the last candidates and their u
        self.size_at_refresh = 0
        self._behind: list[tuple[int, list[Vector]]] = []
        self._tired = False
        self._shift = 0.0
        self._limits: tuple[float, float] | None = None  # lo and hi, until the next row comes
        self.refreshes = self.steps_taken = 0

    def _ready(self) -> GrowingInverse:
        """The inverse for all rows: refreshed when a step was slow or much was appended, else extended."""
        t = len(self._owner.history)
        if self._inverse is None or self._tired or t > self._growth * self.size_at_refresh + 8:
            self._refresh()
        elif self._behind:
            try:
                self._extend()
            except np.linalg.LinAlgError:
                self._refresh()
        assert self._inverse is not None
        return self._inverse

    def _refresh(self) -> None:
        owner = self._owner
        self._K_arms = [K.copy() for K in owner.similarity_matrices]
        self._counts = owner.history.counts
        self._roots = [_root(K) for K in self._K_arms]
        self._invert()
        self.size_at_refresh = len(owner.history)

    def _noise_then(self, arms: Indices) -> Vector:
        return self._owner.settings.noise(arms, np.maximum(self._counts, 1)) + self._shift

    def _invert(self) -> None:
        """The inverse for all rows, with the similarity and the counts that are written down."""
        owner = self._owner
        M, self._order = owner.arranged_kernel_matrix(self._K_arms)
        self._starts = [0, *np.cumsum(owner.history.counts).tolist()]
        arms = owner.history.arms[self._order]
        self._arm_of = np.zeros((len(arms) + 64, owner.history.n_arms))
        self._arm_of[np.arange(len(arms)), arms] = 1.0
        self._inverse = None  # its memory first
        for self._shift in shifts(M):  # the whole of what was added, as `bounds` and `_extend` rely on it
            M[np.diag_indices_from(M)] += self._noise_then(arms)
            try:
                self._inverse = GrowingInverse(M)
                break
            except np.linalg.LinAlgError:
                M, _ = owner.arranged_kernel_matrix(self._K_arms)
        self._behind, self._tired, self._limits, self._asked = [], False, None, None
        self.refreshes += 1

    def _extend(self) -> None:
        """Append the rows that have come since; the first of them costs little if it was a candidate just now."""
        owner, inverse = self._owner, self._inverse
        assert inverse is not None
        arms = owner.history.arms
        for i, values in self._behind:
            a, order = arms[i], self._order
            noise = float(self._noise_then(arms[i : i + 1])[0])
            k, corner = np.zeros(i), noise
            for K_arm, v in zip(self._K_arms, values, strict=True):
                k += K_arm[a, arms[order]] * v[order]
                corner += float(K_arm[a, a] * v[i])
            known = self._asked is not None and np.array_equal(self._asked[0], values[0][:i])
            u = self._asked[1] @ self._K_arms[0][a] if known and self._asked is not None else None
            inverse.append(k, corner, 0.5 * noise, u)
            self._order = np.append(order, i)
            if i == len(self._arm_of):
                self._arm_of = np.vstack([self._arm_of, np.zeros_like(self._arm_of)])
            self._arm_of[i, a] = 1.0
        self._behind = []

    def append(self, i: int, arm: int, values: list[Vector], kin: list[Vector]) -> None:
        self._limits = None
        self._behind.append((i, values))
        if len(self._behind) > _MANY:
            self._behind, self._tired = [], True

    def apply(self, R: Matrix) -> Matrix:
        inverse = self._ready()
        Z = np.empty_like(R)
        Z[self._order] = inverse.times(R[self._order])
        return Z

    def _similarity_bounds(self) -> tuple[float, float]:
        """lo and hi of K against what it was at the refresh, by the Schur product theorem."""
        self._ready()
        if self._limits is None:
            trios = zip(self._owner.similarity_matrices, self._K_arms, self._roots, strict=True)
            ratios = [_ratios(*trio) for trio in trios]
            self._limits = min(r[0] for r in ratios), max(r[1] for r in ratios)
        return self._limits

    def bounds(self) -> tuple[float, float]:
        """Those of K, and of the noise."""
        low, high = self._similarity_bounds()
        played = np.flatnonzero(self._owner._rows.counts)
        ratio = self._owner._arm_noise[played] / self._noise_then(played)
        return min(low, float(ratio.min())), max(high, float(ratio.max()))

    def candidates(self, probe: Probe) -> Matrix:
        """u of every candidate as columns, (t, k), in order of arrival: one pass over the inverse."""
        if self._found is None or self._found[0] is not probe:
            u = np.empty((len(self._owner.history), len(probe.prior)))
            u[self._order] = self._solve(probe)
            self._found = probe, u
        return self._found[1]

    def _solve(self, probe: Probe) -> Matrix:
        """The same in the order of the inverse."""
        inverse = self._ready()
        row = probe.row
        if row is None:
            return inverse.times(probe.columns(np.arange(len(probe.prior)))[self._order])
        parts = row[self._order]
        W = inverse.times_parts(parts, self._starts, self._arm_of[: len(parts)] * parts[:, None])
        self._asked = row, W
        return np.asarray(W @ probe.lent.T)

    def widths(self, probe: Probe) -> Widths | None:
        """What u = B^-1 k says of q and of the mean, without a product with M.

        M - B = E + diag(now - then), and lo K_B <= K <= hi K_B by the Schur product theorem. So u'M u lies between
        lo A + u'now u and hi A + u'now u, A = u'K_B u = k'u - u'then u, and with r = k - M u
        sqrt(r' M^-1 r) <= |(now - then) u / sqrt(now)| + eps sqrt(A / lo), eps = max(hi - 1, 1 - lo).
        """
        owner = self._owner
        low, high = self._similarity_bounds()
        if low <= 0.0 or high > 4.0:
            return None
        u = self.candidates(probe)
        t = len(u)
        now, then = owner._arm_noise, self._noise_then(owner._every_arm)
        share = self._by_arm(u)
        size = np.sqrt(share.sum(axis=0))
        q = np.einsum("bi,ib->b", probe.k, u)
        rounding = self._rounding(np.sqrt(np.einsum("bi,bi->b", probe.k, probe.k)))
        A = np.maximum(q - then @ share, 0.0)
        slack = 4.0 * rounding * size + 8.0 * t * UNIT * (q + now @ share)
        remainder = np.sqrt(((now - then) ** 2 / now) @ share) + max(high - 1.0, 1.0 - low) * np.sqrt(
            (A + slack) / low
        )
        remainder += rounding / np.sqrt(now.min())
        base = 2.0 * q - now @ share
        guess = Guess(u, np.sqrt(t) * size, remainder)
        return Widths(base - high * A - slack, base - low * A + slack + remainder**2, guess)

    def _by_arm(self, u: Matrix) -> Matrix:
        """|u|^2 on each arm's rows, (N, k)."""
        return np.asarray(self._arm_of[: len(u)].T @ np.square(u[self._order]))

    def _rounding(self, size: Vector) -> Vector:
        """A bound on |k - B u| for u = B^-1 k as it is computed, given |k|.

        An inverse from a Cholesky factor has |B P - I| <= 8 t^(3/2) unit cond (Higham, Accuracy and Stability,
        section 14.3). Rows appended are allowed as much again; one whose Schur complement shows more is not kept.
        """
        owner, t = self._owner, len(self._owner.history)
        least = float(self._noise_then(np.flatnonzero(owner._rows.counts)).min())
        cond = 1.0 + (t * owner._kernel_bound + owner._largest_noise) / least
        return np.asarray(16.0 * t**1.5 * UNIT * cond * size)

    def steps(self, probe: Probe, f: Vector) -> Iterator[Vector]:
        """alpha += B^-1 res, one pass over the inverse and one over the kernel values each."""
        owner = self._owner
        for _ in range(12):
            res = owner._residual()
            before = float(owner._shares.sum())
            low, high = self.bounds()
            z = self.apply(res[:, None])[:, 0]
            if low > 0.0 and high < 4.0 * low:
                z *= 2.0 / (low + high)
            owner._move_alpha(z)
            self.steps_taken += 1
            after = float(owner._shares.sum())
            if after > 4.0 * before:  # B is too far from M: no step of this kind leads anywhere
                owner._move_alpha(-z)
                self._tired = True
                return
            yield probe.dot(owner.alpha)
            if after > 0.25 * before and self.size_at_refresh + 8 < len(owner.history):
                self._tired = True  # for the next round
                return

    @property
    def nbytes(self) -> int:
        return self._inverse.nbytes if self._inverse else 0

    def report(self) -> dict[str, Any]:
        return {"steps": self.steps_taken, "refreshes": self.refreshes}


def _root(reference: Matrix) -> Matrix | None:
    """R with R' reference R = I; None if it is nearly singular."""
    values, vectors = np.linalg.eigh(reference)
    return None if values[0] <= 1e-9 * values[-1] else vectors / np.sqrt(values)


def _ratios(K: Matrix, reference: Matrix, root: Matrix | None) -> tuple[float, float]:
    """lo and hi with lo reference <= K <= hi reference; 0 and infinity where they cannot be told."""
    if np.array_equal(K, reference):
        return 1.0, 1.0
    if root is None:
        return 0.0, np.inf
    found = np.linalg.eigvalsh(root.T @ K @ root)
    slack = 1e-14 * len(K) * float(np.square(root).sum(axis=0).max()) * float(np.trace(reference))
    return max(float(found[0]) - slack, 0.0), float(found[-1]) + slack
