"""What the ladder climbs on: a reference B, close to M and easy to invert; and the block-diagonal one.

`BlocksReference` is block-diagonal, one inverse per arm, rebuilt when its noise has aged: good while arms are not
too alike. `lagged.LaggedReference` is all of M at an earlier moment: for similarities near singular.

Notation (besides `matrix`, `dual`), of the block-diagonal one
    B        blockdiag over arms of  B_a = K_a + b_a I,  K_a = the kernel among the rows of arm a
    P[a]     (n_a, n_a)  B_a^-1
    b_a      the noise of arm a as it will be half-way to the next rebuilding ("per_arm"), or as it is ("uniform")
    lo, hi   lo B <= M <= hi B

By the Schur product theorem, lo = min(smallest eigenvalue of D^-1/2 K_arm D^-1/2, smallest noise_a / b_a) with D
the diagonal of K_arm, and hi likewise with the largest: the similarity never lags, only the noise does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dsyev

from kinbandits._types import Matrix, Vector
from kinbandits.regression.exact.dual import Dual
from kinbandits.regression.exact.matrix import ArmMatrix
from kinbandits.regression.exact.probe import Probe
from kinbandits.regression.linalg.cholesky import UNIT, jittered
from kinbandits.regression.linalg.inverse import Inverse, inverted

_AHEAD = 1.15  # b_a over the noise at a rebuilding, and the noise over b_a at the next


class Guess(NamedTuple):
    """Approximate solutions u of M u = k, and what is known of k - M u."""

    u: Matrix  # (t, k)
    size: Vector  # a bound on sum |u_i|
    remainder: Vector  # a bound on sqrt(r' M^-1 r), r = k - M u


class Widths(NamedTuple):
    """Bounds on q = k' M^-1 k, and the guess they come from, if it helps the means too."""

    low: Vector
    high: Vector
    guess: Guess | None = None


class Reference(ABC):
    """A matrix B with lo B <= M <= hi B (lo = 0 where no bound is known), and B^-1."""

    name: str
    first_steps: int  # before widths are computed
    apply_is_a_pass: bool  # whether B^-1 costs as much as a product with M

    @abstractmethod
    def apply(self, R: Matrix) -> Matrix:
        """B^-1 R."""

    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """lo and hi."""

    def start(self, arm: int, values: list[Vector]) -> float:
        """What a row about to be appended starts with: its dual value over its residual."""
        return 0.0

    def reserve(self, arm: int) -> bool:
        """Room for one more row of ``arm``; whether arrays were replaced."""
        return False

    @abstractmethod
    def append(self, arm: int, values: list[Vector]) -> None:
        """The matrix has a new last row, of ``arm``, with these context-kernel values, itself last, per term."""

    @abstractmethod
    def steps(self, dual: Dual, probe: Probe, f: Vector) -> Iterator[Vector]:
        """Improve the dual vector step by step, giving the means after each."""

    @abstractmethod
    def widths(self, probe: Probe) -> Widths | None:
        """Bounds on widths from k' B^-1 k; None where B says nothing about M."""

    def candidates(self, probe: Probe) -> Matrix | None:
        """B^-1 k of every candidate, (t, k), where that is cheaper for all of them than for a few."""
        return None

    def tighten(self, dual: Dual) -> None:  # noqa: B027 (where there is no better bound)
        """Bound the error of the means better than by the norm of the residual, at the cost of a few steps."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory held."""

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """Counts for the engine report."""


class BlocksReference(Reference):
    """One block per arm.

    Attributes:
        inverses: P[a] of each arm. noise: (N,) b_a. borders: (N,) rows added to each since it was rebuilt.
    """

    name = "arms"
    first_steps = 2  # a step costs as much as the widths, and most rounds need one or none
    apply_is_a_pass = False

    def __init__(self, matrix: ArmMatrix) -> None:
        self._matrix = matrix
        counts = matrix.rows.counts.tolist()
        self.inverses = [Inverse(max(n, 8)) for n in counts]
        self.noise: Vector = np.ones(len(counts))
        self.borders: Vector = np.zeros(len(counts))
        self._diagonals = [K.diagonal().copy() for K in matrix.K_arms]
        self._stale = {a for a, n in enumerate(counts) if n}
        self._limits: tuple[float, float] | None = None  # of the similarity, until the next row comes
        self.rebuilds = self.steps_taken = 0

    # -- following the matrix -------------------------------------------------------------------

    def reserve(self, arm: int) -> bool:
        return self.inverses[arm].reserve(int(self._matrix.rows.counts[arm]) + 1)

    def start(self, arm: int, values: list[Vector]) -> float:
        k, corner = self._column(arm, values, self._matrix.rows[arm])
        corner += self._matrix.noise_after(arm)
        return 1.0 / (corner + float(k @ k) / corner)

    def _column(self, arm: int, values: list[Vector], rows: Any) -> tuple[Vector, float]:
        """K of a new row with these rows of its arm, and with itself."""
        k, corner = np.zeros(len(rows)), 0.0
        for K_arm, v in zip(self._matrix.K_arms, values, strict=True):
            k += K_arm[arm, arm] * v[rows]
            corner += float(K_arm[arm, arm] * v[-1])
        return k, corner

    def append(self, arm: int, values: list[Vector]) -> None:
        earlier = self._matrix.rows[arm][:-1]
        if self.follows(arm, len(earlier)):
            k, corner = self._column(arm, values, earlier)
            corner += float(self.noise[arm])
            self.bordered(arm, self.inverses[arm].border(k, corner, 1e-8 * corner))

    def follows(self, arm: int, earlier: int) -> bool:
        """Whether the block of ``arm`` can grow by a row beside ``earlier`` ones; else it waits to be rebuilt."""
        self._limits = None
        for K, before in zip(self._matrix.K_arms, self._diagonals, strict=True):
            if K.diagonal().tobytes() != before.tobytes():
                self._stale.update(np.flatnonzero(K.diagonal() != before).tolist())
                before[:] = K.diagonal()
        if arm in self._stale or self.inverses[arm].size != earlier or not earlier:
            self._stale.add(arm)
            return False
        return True

    def bordered(self, arm: int, well: bool) -> None:
        """The block of ``arm`` was to grow by a row, and did so if all went ``well``."""
        self.borders[arm] += 1
        aged = self._matrix.noise.per_arm[arm] > _AHEAD * self.noise[arm]
        if not well or aged or self.borders[arm] > 64 + self.inverses[arm].size // 2:
            self._stale.add(arm)

    @property
    def stale(self) -> bool:
        return bool(self._stale)

    def refresh(self) -> bool:
        """Rebuild the blocks that need it, n^3 each; whether arrays were replaced."""
        replaced = False
        while self._stale:
            arm = self._stale.pop()
            inverse, before = self.inverses[arm], self.inverses[arm].buffer
            noise = float(self._matrix.noise.per_arm[arm]) * (_AHEAD if self._matrix.per_arm else 1.0)
            try:
                P, shift = self._inverse(arm, noise), 0.0
            except np.linalg.LinAlgError:  # a little more noise where rounding makes the block indefinite
                scale, rows = self._matrix.kernel_bound + noise, int(self._matrix.rows.counts[arm])
                P, shift = jittered(partial(self._inverse, arm, noise), scale, rows, 1e-14, most=1.0)
            inverse.set(P)
            self.noise[arm], self.borders[arm] = noise + shift, 0
            self.rebuilds += 1
            replaced |= inverse.buffer is not before
        return replaced

    def _inverse(self, arm: int, noise: float, more: float = 0.0) -> Matrix:
        """(K_a + noise I)^-1, with more noise."""
        B = self._matrix.block(arm)
        B.flat[:: len(B) + 1] += noise + more
        return inverted(B)

    # -- what it says ---------------------------------------------------------------------------

    def spread(self) -> float:
        """hi / lo of the similarity alone (infinite if it is singular)."""
        low, high = self.similarity_bounds()
        return high / low if low > 1e-12 else np.inf

    def similarity_bounds(self) -> tuple[float, float]:
        if self._limits is None:
            lows, highs = [], []
            for K_arm in self._matrix.K_arms:
                scale = K_arm.diagonal()
                if (scale != 1.0).any():
                    root = np.sqrt(np.maximum(scale, 1e-300))
                    K_arm = K_arm / np.outer(root, root)
                eigenvalues = dsyev(K_arm, compute_v=0)[0]  # without the checks of NumPy's, which cost as much
                lows.append(float(eigenvalues[0]))
                highs.append(float(eigenvalues[-1]))
            slack = 1e-13 * len(self.noise)
            self._limits = max(min(lows) - slack, 0.0), max(highs) + slack
        return self._limits

    def bounds(self) -> tuple[float, float]:
        self.refresh()
        low, high = self.similarity_bounds()
        ratio = self._matrix.noise.per_arm / self.noise
        if not self._matrix.rows.counts.all():
            ratio = ratio[self._matrix.rows.counts > 0]
        return min(low, float(ratio.min())), max(high, float(ratio.max()))

    def worst(self) -> float:
        """A bound on ||P_a - B_a^-1||_2 for all arms, to first order in the unit roundoff.

        An inverse from a Cholesky factor has ||P - B^-1|| <= 8 n^(3/2) u cond ||B^-1|| (Higham, Accuracy and
        Stability, sections 10.1 and 14.3); each bordering adds as much as one row of it. ||B^-1|| <= 1 / b and
        cond <= 1 + n k / b, with k the largest k(x, x).
        """
        n = self._matrix.rows.counts
        cond = 1.0 + n * self._matrix.kernel_bound / self.noise
        return float((8.0 * n**1.5 * UNIT * cond * (1.0 + self.borders) / self.noise).max())

    def widths(self, probe: Probe) -> Widths:
        low, high = self.bounds()
        rows = self._matrix.rows
        Q = probe.quadratic([rows[a] for a in range(len(self.inverses))], [P.matrix for P in self.inverses])
        slack = self.worst() * probe.squares_by_arm(np.ones(len(self.inverses)))  # sum ||k_a||^2 ||P_a - B_a^-1||
        return Widths((Q - slack) / high, (Q + slack) / low if low > 0.0 else np.full(len(Q), np.inf))

    def apply(self, R: Matrix) -> Matrix:
        """Block by block: sum of n_a^2 a column; arms that R does not touch are left out."""
        self.refresh()
        Z = np.zeros_like(R)
        for a, inverse in enumerate(self.inverses):
            rows = self._matrix.rows[a]
            if len(rows) and (part := R[rows]).any():
                Z[rows] = inverse.matrix @ part
        return Z

    def tighten(self, dual: Dual) -> None:
        """M >= lo B, so res' M^-1 res <= res' B^-1 res / lo."""
        low, _ = self.bounds()
        if low > 0.0:
            res, _ = dual.residual()
            total = self.worst() * float(res @ res)
            for a in np.flatnonzero(self._matrix.rows.counts).tolist():
                part = res[self._matrix.rows[a]]
                total += float(part @ (self.inverses[a].matrix @ part))
            dual.tighten(math.sqrt(max(total, 0.0) / low) * (1.0 + 1e-6))

    def steps(self, dual: Dual, probe: Probe, f: Vector) -> Iterator[Vector]:
        self.refresh()
        for _ in range(self.most_steps):
            res, error = dual.residual()
            arm = int(error.shares.argmax())
            rows = self._matrix.rows[arm]
            d = self.inverses[arm].matrix @ res[rows]
            dual.change(arm, d)
            f = f + probe.dot_arm(arm, rows, d)
            self.steps_taken += 1
            yield f

    @property
    def most_steps(self) -> int:
        """After so many steps a round is left to other means."""
        return 3 * len(self.inverses) + 8

    @property
    def nbytes(self) -> int:
        return sum(P.buffer.nbytes for P in self.inverses)

    def report(self) -> dict[str, Any]:
        return {"block steps": self.steps_taken, "refreshes": self.rebuilds}
