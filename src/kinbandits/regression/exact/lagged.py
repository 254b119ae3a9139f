"""The whole M of an earlier moment, inverted, with new rows appended: the reference for similarities near singular.

Notation (besides `matrix`, `dual`, `linalg.inverse`)
    B        K with the similarity and the noise of the last refresh; ``shift`` more on its diagonal if need be
    order    rows arm by arm as they were at the refresh, then those appended, as they came
    W        (t, N)  column a: B^-1 of the context-kernel row, kept on arm a's rows only
    u        B^-1 k of a candidate: with one context for all and one term, W K_arm[a_b]

The inverse is kept in that order. All candidates' u cost one pass over it, t^2. For any u, with r = k - M u,
k' M^-1 k = k'u + u'r + r' M^-1 r and the mean is k'alpha + res'u + r' M^-1 res: `widths` bounds r without a product
with M. Where the noise alone has changed since the refresh, r is known, and the bound is as good as second order in
that change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.exact.dual import Dual
from kinbandits.regression.exact.matrix import ArmMatrix
from kinbandits.regression.exact.probe import Probe
from kinbandits.regression.exact.reference import Guess, Reference, Widths
from kinbandits.regression.linalg.cholesky import UNIT, jittered
from kinbandits.regression.linalg.inverse import GrowingInverse

_MANY = 64  # rows appended without a question in between, after which the inverse is made anew when there is one


class Snapshot:
    """B: the similarity and noise of a moment, the inverse then, and rows appended since."""

    def __init__(self, matrix: ArmMatrix) -> None:
        self.K_arms = [K.copy() for K in matrix.K_arms]
        self.roots = [_root(K) for K in self.K_arms]
        self.size = matrix.size
        self.starts = [0, *np.cumsum(matrix.rows.counts).tolist()]
        self._noise = matrix.noise.per_arm.copy()
        M, self.order = matrix.by_arm(self.K_arms)
        labels = matrix.rows.labels[self.order]
        self.arm_of: Matrix = np.zeros((len(labels) + 64, len(matrix.rows.counts)))  # 1 where a row is an arm's
        self.arm_of[np.arange(len(labels)), labels] = 1.0

        def invert(shift: float) -> GrowingInverse:
            B = M.copy() if shift else M
            B[np.diag_indices_from(B)] += self._noise[labels] + shift
            return GrowingInverse(B)

        scale = float(M.diagonal().max()) + matrix.noise.largest
        self.shift = 0.0
        try:
            self.inverse = invert(0.0)
        except np.linalg.LinAlgError:
            M, _ = matrix.by_arm(self.K_arms)
            self.inverse, self.shift = jittered(invert, scale, len(M), 1e-14, most=1.0)

    @property
    def noise(self) -> Vector:
        """Of each arm, (N,)."""
        return self._noise + self.shift

    def append(self, arm: int, values: list[Vector], labels: Indices, u: Vector | None) -> None:
        """A row of ``arm``; ``u`` is B^-1 k if it is known. LinAlgError if rounding has taken over."""
        order, i = self.order, len(self.order)
        noise = float(self.noise[arm])
        k, corner = np.zeros(i), noise
        for K_arm, v in zip(self.K_arms, values, strict=True):
            k += K_arm[arm, labels[order]] * v[order]
            corner += float(K_arm[arm, arm] * v[i])
        self.inverse.append(k, corner, 0.5 * noise, u)
        self.order = np.append(order, i)
        if i == len(self.arm_of):
            self.arm_of = np.vstack([self.arm_of, np.zeros_like(self.arm_of)])
        self.arm_of[i, arm] = 1.0


class LaggedReference(Reference):
    """All of M as it was at the last refresh, with rows appended since."""

    name = "whole"
    first_steps = 0
    apply_is_a_pass = True

    def __init__(self, matrix: ArmMatrix, growth: float = 1.05) -> None:
        self._matrix = matrix
        self._growth = growth
        self._snapshot: Snapshot | None = None
        self._behind: list[list[Vector]] = []  # rows that came since, by their context-kernel values
        self._slow = False  # whether steps no longer lead anywhere: make the inverse anew when it is needed
        self._limits: tuple[float, float] | None = None  # lo and hi, until the next row comes
        self._asked: tuple[Vector, Matrix] | None = None  # a context-kernel row (in order of arrival) and its W
        self._found: tuple[Probe, Matrix] | None = None  # the last candidates and their u
        self.refreshes = self.steps_taken = 0

    def ready(self) -> Snapshot:
        """B for all rows: made anew when a step was slow or much was appended, else extended."""
        kept, t = self._snapshot, self._matrix.size
        if kept is not None and not self._slow and t <= self._growth * kept.size + 8:
            try:
                self._extend(kept)
                return kept
            except np.linalg.LinAlgError:
                pass
        self._snapshot = kept = None  # its memory first
        self._snapshot = Snapshot(self._matrix)
        self._behind, self._slow, self._limits, self._asked = [], False, None, None
        self.refreshes += 1
        return self._snapshot

    def _extend(self, snapshot: Snapshot) -> None:
        """Append the rows that have come since; the first of them costs little if it was a candidate just now."""
        labels = self._matrix.rows.labels
        while self._behind:
            values, i = self._behind[0], len(snapshot.order)
            known = self._asked is not None and np.array_equal(self._asked[0], values[0][:i])
            u = self._asked[1] @ snapshot.K_arms[0][labels[i]] if known and self._asked is not None else None
            snapshot.append(int(labels[i]), values, labels, u)
            del self._behind[0]

    def append(self, arm: int, values: list[Vector]) -> None:
        self._limits = None
        self._behind.append(values)
        if len(self._behind) > _MANY:
            self._behind, self._slow = [], True

    def apply(self, R: Matrix) -> Matrix:
        snapshot = self.ready()
        Z = np.empty_like(R)
        Z[snapshot.order] = snapshot.inverse.times(R[snapshot.order])
        return Z

    def _similarity_bounds(self) -> tuple[float, float]:
        """lo and hi of K against what it was at the refresh, by the Schur product theorem."""
        snapshot = self.ready()
        if self._limits is None:
            trios = zip(self._matrix.K_arms, snapshot.K_arms, snapshot.roots, strict=True)
            ratios = [_ratios(*trio) for trio in trios]
            self._limits = min(r[0] for r in ratios), max(r[1] for r in ratios)
        return self._limits

    def bounds(self) -> tuple[float, float]:
        low, high = self._similarity_bounds()
        played = self._matrix.rows.counts > 0
        ratio = self._matrix.noise.per_arm[played] / self.ready().noise[played]
        return min(low, float(ratio.min())), max(high, float(ratio.max()))

    def candidates(self, probe: Probe) -> Matrix:
        """u of every candidate as columns, (t, k), in order of arrival: one pass over the inverse."""
        if self._found is None or self._found[0] is not probe:
            u = np.empty((self._matrix.size, len(probe.prior)))
            solved = self._solve(probe)
            u[self.ready().order] = solved
            self._found = probe, u
        return self._found[1]

    def _solve(self, probe: Probe) -> Matrix:
        """The same in the order of the inverse."""
        snapshot, row = self.ready(), probe.row
        if row is None:
            return snapshot.inverse.times(probe.columns(np.arange(len(probe.prior)))[snapshot.order])
        parts = row[snapshot.order]
        masked = snapshot.arm_of[: len(parts)] * parts[:, None]
        W = snapshot.inverse.times_parts(parts, snapshot.starts, masked)
        self._asked = row, W
        return np.asarray(W @ probe.lent.T)

    def widths(self, probe: Probe) -> Widths | None:
        """What u = B^-1 k says of q and of the mean, without a product with M.

        M - B = E + diag(now - then), and lo K_B <= K <= hi K_B by the Schur product theorem. So u'M u lies between
        lo A + u'now u and hi A + u'now u, A = u'K_B u = k'u - u'then u, and with r = k - M u
        sqrt(r' M^-1 r) <= |(now - then) u / sqrt(now)| + eps sqrt(A / lo), eps = max(hi - 1, 1 - lo).
        """
        low, high = self._similarity_bounds()
        if low <= 0.0 or high > 4.0:
            return None
        u, snapshot = self.candidates(probe), self.ready()
        t = len(u)
        now, then = self._matrix.noise.per_arm, snapshot.noise
        share = snapshot.arm_of[:t].T @ np.square(u[snapshot.order])  # |u|^2 on each arm's rows, (N, k)
        size = np.sqrt(share.sum(axis=0))
        q = np.einsum("bi,ib->b", probe.k, u)
        rounding = self.rounding(np.sqrt(np.einsum("bi,bi->b", probe.k, probe.k)))
        A = np.maximum(q - then @ share, 0.0)
        slack = 4.0 * rounding * size + 8.0 * t * UNIT * (q + now @ share)
        remainder = np.sqrt(((now - then) ** 2 / now) @ share)
        remainder += max(high - 1.0, 1.0 - low) * np.sqrt((A + slack) / low) + rounding / np.sqrt(now.min())
        base = 2.0 * q - now @ share
        guess = Guess(u, np.sqrt(t) * size, remainder)
        return Widths(base - high * A - slack, base - low * A + slack + remainder**2, guess)

    def rounding(self, size: Vector) -> Vector:
        """A bound on |k - B u| for u = B^-1 k as it is computed, given |k|.

        An inverse from a Cholesky factor has |B P - I| <= 8 t^(3/2) unit cond (Higham, Accuracy and Stability,
        section 14.3). Rows appended are allowed as much again; one whose Schur complement shows more is not kept.
        """
        matrix, t = self._matrix, self._matrix.size
        least = float(self.ready().noise[matrix.rows.counts > 0].min())
        cond = 1.0 + (t * matrix.kernel_bound + matrix.noise.largest) / least
        return np.asarray(16.0 * t**1.5 * UNIT * cond * size)

    def steps(self, dual: Dual, probe: Probe, f: Vector) -> Iterator[Vector]:
        """alpha += B^-1 res, one pass over the inverse and one over the kernel values each."""
        for _ in range(12):
            res, error = dual.residual()
            before = float(error.shares.sum())
            low, high = self.bounds()
            z = self.apply(res[:, None])[:, 0]
            if low > 0.0 and high < 4.0 * low:
                z *= 2.0 / (low + high)
            dual.move(z)
            self.steps_taken += 1
            after = float(dual.residual()[1].shares.sum())
            if after > 4.0 * before:  # B is too far from M: no step of this kind leads anywhere
                dual.move(-z)
                self._slow = True
                return
            yield probe.dot(dual.values)
            if after > 0.25 * before and self.ready().size + 8 < self._matrix.size:
                self._slow = True  # for the next round
                return

    @property
    def nbytes(self) -> int:
        return self._snapshot.inverse.nbytes if self._snapshot else 0

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
