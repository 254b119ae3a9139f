"""References: matrices B that are close to M and easy to invert. The ladder climbs on them.

`ArmsReference` is block-diagonal, one block per arm (see `blocks`): cheap, and good while arms are not too alike.
`WholeReference` (see `whole`) is all of M at an earlier moment, inverted, with new rows appended: for similarities
near singular (Pooled, Mixed, wide Known) and for kernels of several terms that are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits.regression.blocks import BlockInverse
from kinbandits.regression.linalg import shifts
from kinbandits.regression.probe import Probe

if TYPE_CHECKING:
    from kinbandits.regression.state import DualState


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
    first_steps = 0  # before widths are computed
    apply_is_a_pass = False  # whether B^-1 costs as much as a product with M

    def __init__(self, owner: DualState) -> None:
        self._owner = owner

    @abstractmethod
    def apply(self, R: Matrix) -> Matrix:
        """B^-1 R."""

    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """lo and hi."""

    @abstractmethod
    def append(self, i: int, arm: int, values: list[Vector], kin: list[Vector]) -> None:
        """Row i, of ``arm``, is new; its context-kernel values to all rows up to itself, per term.

        ``kin`` holds those to the earlier rows of the same arm.
        """

    @abstractmethod
    def steps(self, probe: Probe, f: Vector) -> Iterator[Vector]:
        """Improve the dual vector step by step, giving the means after each."""

    @abstractmethod
    def widths(self, probe: Probe) -> Widths | None:
        """Bounds on widths from k' B^-1 k; None where B says nothing about M."""

    def candidates(self, probe: Probe) -> Matrix | None:
        """B^-1 k of every candidate, (t, k), where that is cheaper for all of them than for a few."""
        return None

    def tighten(self) -> None:  # noqa: B027 (where there is no better bound)
        """Bound the error of the means better than by the norm of the residual, at the cost of a few steps."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory held."""

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """Counts for the engine report."""


class ArmsReference(Reference):
    """One block per arm."""

    name = "arms"
    first_steps = 2  # a step costs as much as the widths, and most rounds need one or none

    def __init__(self, owner: DualState) -> None:
        super().__init__(owner)
        self._blocks = [BlockInverse() for _ in range(owner.history.n_arms)]
        self._diagonals: list[list[float] | None] = [None] * owner.history.n_arms
        self._fresh = [False] * owner.history.n_arms  # checked since the last row came
        self._limits: tuple[float, float] | None = None  # of the similarity, until the next row comes
        self.block_steps = 0

    def spread(self) -> float:
        """hi / lo of the similarity alone (infinite if it is singular)."""
        low, high = self._similarity_bounds()
        return high / low if low > 1e-12 else np.inf

    def _similarity_bounds(self) -> tuple[float, float]:
        if self._limits is not None:
            return self._limits
        lows, highs = [], []
        for K_arm in self._owner.similarity_matrices:
            root = np.sqrt(np.maximum(np.diag(K_arm), 1e-300))
            eigenvalues = np.linalg.eigvalsh(K_arm / np.outer(root, root))
            lows.append(eigenvalues[0])
            highs.append(eigenvalues[-1])
        slack = 1e-13 * len(root)
        self._limits = max(float(min(lows)) - slack, 0.0), float(max(highs)) + slack
        return self._limits

    def bounds(self) -> tuple[float, float]:
        low, high = self._similarity_bounds()
        for a, block in enumerate(self._blocks):
            if self._owner._rows.counts[a]:
                self.inverse(a)
                ratio = self._noise(a) / block.noise
                low, high = min(low, ratio), max(high, ratio)
        return low, high

    def _noise(self, arm: int) -> float:
        ridge = self._owner.settings.ridge
        return ridge if self._owner.settings.weighting == "uniform" else ridge * int(self._owner._rows.counts[arm])

    def _diagonal(self, arm: int) -> list[float]:
        return [float(K[arm, arm]) for K in self._owner.similarity_matrices]

    def inverse(self, arm: int) -> Matrix:
        """P of the arm, brought up to date if its rows, its noise or its own similarity have moved on."""
        block = self._blocks[arm]
        if self._fresh[arm]:
            return block.inverse
        self._fresh[arm] = True
        noise, diagonal = self._noise(arm), self._diagonal(arm)
        n = int(self._owner._rows.counts[arm])
        if block.size != n or block.stale(noise) or self._diagonals[arm] != diagonal:
            K = self._owner.kernel_block(arm)
            for shift in shifts(K):  # a little more noise where rounding makes the block indefinite
                try:
                    block.rebuild(K.copy(), noise + shift)
                    break
                except np.linalg.LinAlgError:
                    continue
            self._diagonals[arm] = diagonal
        return block.inverse

    def widths(self, probe: Probe) -> Widths:
        low, high = self.bounds()
        Q, slack = probe.quadratic(self._owner._rows, self.inverse), self._quadratic_error(probe)
        return Widths((Q - slack) / high, (Q + slack) / low if low > 0.0 else np.full(len(Q), np.inf))

    def _quadratic_error(self, probe: Probe) -> Vector:
        """sum over arms of ||k_a||^2 ||P_a - B_a^-1||, with ||k_a||^2 <= n_a times bounds on k^2."""
        largest = self._owner._kernel_bound
        worst = max(
            (b.error_bound(largest) for a, b in enumerate(self._blocks) if self._owner._rows.counts[a]), default=0.0
        )
        return probe.squares(np.full(len(self._owner.history), worst))

    def append(self, i: int, arm: int, values: list[Vector], kin: list[Vector]) -> None:
        self._fresh, self._limits = [False] * len(self._fresh), None
        block = self._blocks[arm]
        diagonal, noise = self._diagonal(arm), self._noise(arm)
        k, prior = np.zeros(len(kin[0])), 0.0
        for d, own, v in zip(diagonal, kin, values, strict=True):
            k += d * own
            prior += d * float(v[i])
        # the multiple of the new unit vector that leaves least of its residual on the arm's rows
        self._owner._begin(i, arm, values, 1.0 / (prior + noise + float(k @ k) / (prior + noise)))
        if block.size != len(k) or self._diagonals[arm] != diagonal or block.stale(noise):
            return  # rebuilt when it is needed
        block.border(k, prior + block.noise)

    def apply(self, R: Matrix) -> Matrix:
        """Block by block: sum of n_a^2 a column; arms that R does not touch are left out."""
        Z = np.zeros_like(R)
        for a in range(len(self._blocks)):
            rows = self._owner._rows[a]
            if len(rows):
                part = R[rows]
                if part.any():
                    Z[rows] = self.inverse(a) @ part
        return Z

    def tighten(self) -> None:
        """A better eta than the residual's norm gives: M >= lo B, so res' M^-1 res <= res' B^-1 res / lo."""
        owner = self._owner
        low, _ = self.bounds()
        if low <= 0.0:
            return
        res, total = owner._residual(), 0.0
        for a, block in enumerate(self._blocks):
            if block.size:
                part = res[owner._rows[a]]
                total += float(part @ (block.inverse @ part))
                total += float(part @ part) * block.error_bound(owner._kernel_bound)
        eta = math.sqrt(max(total, 0.0) / low) * (1.0 + 1e-6) + owner._rounding * owner._lift_root
        owner._eta = min(owner._eta, eta)

    def steps(self, probe: Probe, f: Vector) -> Iterator[Vector]:
        """Exact solves on the arm with the largest share of the residual."""
        owner = self._owner
        for _ in range(3 * owner.history.n_arms + 8):
            res = owner._residual()
            arm = int(owner._shares.argmax())
            rows = owner._rows[arm]
            d = self.inverse(arm) @ res[rows]
            owner._change_alpha(arm, d)
            owner._measure()
            f = f + probe.dot_arm(arm, rows, d)
            self.block_steps += 1
            yield f

    @property
    def nbytes(self) -> int:
        return sum(b.nbytes for b in self._blocks)

    def report(self) -> dict[str, Any]:
        return {"block steps": self.block_steps, "refreshes": sum(b.rebuilds for b in self._blocks)}
