"""References: matrices B that are close to M and easy to invert. The ladder climbs on them.

`ArmsReference` is block-diagonal, one block per arm (see `blocks`): cheap, and good while arms are not too alike.
`FactorReference` is the whole M of an earlier moment, factorised, with new rows appended: for similarities near
singular (Pooled, Mixed, wide Known) and for kernels of several terms that are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbandits.regression.blocks import UNIT, BlockInverse
from kinbandits.regression.linalg import shifts
from kinbandits.regression.panels import GrowingCholesky
from kinbandits.regression.probe import Probe

if TYPE_CHECKING:
    from kinbandits.regression.dual import DualRegression

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


_APART = 1.2  # hi / lo above which a factor is made anew


class Widths(NamedTuple):
    """Bounds on q = k' M^-1 k; perhaps also what to add to k' alpha to come closer to the mean, and how close."""

    low: Vector
    high: Vector
    shift: Vector | None = None
    error: Vector | None = None


class Reference(ABC):
    """A matrix B with lo B <= M <= hi B (lo = 0 where no bound is known), and B^-1."""

    name: str
    first_steps = 0  # before widths are computed

    def __init__(self, owner: DualRegression) -> None:
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

    def __init__(self, owner: DualRegression) -> None:
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
        diagonal = self._diagonal(arm)
        if block.size != len(kin[0]) or self._diagonals[arm] != diagonal or block.stale(self._noise(arm)):
            return  # rebuilt when it is needed
        k, corner = np.zeros(block.size), block.noise
        for d, own, v in zip(diagonal, kin, values, strict=True):
            k += d * own
            corner += d * float(v[i])
        block.border(k, corner)

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


class FactorReference(Reference):
    """The whole M as it was at the last refresh, with rows appended since."""

    name = "factor"

    def __init__(self, owner: DualRegression, growth: float = 1.05) -> None:
        super().__init__(owner)
        self._growth = growth
        self._factor: GrowingCholesky | None = None
        self._K_arms: list[Matrix] = []
        self._counts = owner.history.counts
        self.size_at_refresh = 0
        self._behind: list[tuple[int, list[Vector]]] = []
        self._tired = False
        self._shift = 0.0
        self._limits: tuple[float, float] | None = None  # lo and hi, until the next row comes
        self.refreshes = 0

    def _ready(self) -> GrowingCholesky:
        """The factor for all rows: refreshed when a solve was slow or much was appended, else extended."""
        owner = self._owner
        t = len(owner.history)
        if self._factor is None or self._tired or t > self._growth * self.size_at_refresh + 8:
            self._refresh()
        elif self._behind:
            try:
                self._extend()
            except np.linalg.LinAlgError:
                self._refresh()
        assert self._factor is not None
        return self._factor

    def _refresh(self) -> None:
        owner = self._owner
        self._K_arms = [K.copy() for K in owner.similarity_matrices]
        self._counts = owner.history.counts
        self._factorise()
        self.size_at_refresh = len(owner.history)

    def _factorise(self) -> None:
        """The factor of all rows, with the similarity and the counts that are written down."""
        owner = self._owner
        arms = owner.history.arms
        M = owner.kernel_matrix(self._K_arms)
        M[np.diag_indices_from(M)] += owner.settings.noise(arms, np.maximum(self._counts, 1))
        diagonal = M.diagonal().copy()
        for self._shift in shifts(M):  # the whole of what was added, as `bounds` and `_extend` rely on it
            try:
                self._factor = GrowingCholesky()
                M[np.diag_indices_from(M)] = diagonal + self._shift
                self._factor.append(M)
                break
            except np.linalg.LinAlgError:
                continue
        self._behind, self._tired, self._limits = [], False, None
        self.refreshes += 1

    def _extend(self) -> None:
        owner = self._owner
        assert self._factor is not None
        arms = owner.history.arms
        start, end = self._factor.size, len(arms)
        rows = np.zeros((end - start, end))
        for i, values in self._behind:
            a = arms[i]
            for K_arm, v in zip(self._K_arms, values, strict=True):
                rows[i - start, : i + 1] += K_arm[a, arms[: i + 1]] * v
            counts = np.maximum(self._counts, 1)
            rows[i - start, i] += float(owner.settings.noise(np.array([a]), counts)[0]) + self._shift
            rows[: i - start, i] = rows[i - start, start:i]
        self._factor.append(rows)
        self._behind = []

    def append(self, i: int, arm: int, values: list[Vector], kin: list[Vector]) -> None:
        self._behind.append((i, [v.copy() for v in values]))
        self._limits = None

    def apply(self, R: Matrix) -> Matrix:
        L = self._ready()
        return L.backward(L.forward(R))

    def bounds(self) -> tuple[float, float]:
        """By the Schur product theorem, from K_arm against what it was at the refresh, and from the noise."""
        self._ready()
        if self._limits is None:
            owner = self._owner
            counts = owner.history.counts
            played = np.flatnonzero(counts)
            now = owner.settings.noise(played, counts)
            then = owner.settings.noise(played, np.maximum(self._counts, 1)) + self._shift
            ratios = [_ratios(a, b) for a, b in zip(owner.similarity_matrices, self._K_arms, strict=True)]
            low = min(float((now / then).min()), *(r[0] for r in ratios))
            high = max(float((now / then).max()), *(r[1] for r in ratios))
            self._limits = low, high
            if high > _APART * low and len(owner.history) > self.size_at_refresh + 8:
                self._tired = True  # for the next round
        return self._limits

    def widths(self, probe: Probe) -> Widths | None:
        """With c = L^-1 k and e = L^-1 res: q between |c|^2 / hi and |c|^2 / lo.

        The eigenvalues of L' M^-1 L lie in [1 / hi, 1 / lo], so that k' M^-1 res is c'e times the middle of these,
        up to |c| |e| times half their distance.
        """
        owner = self._owner
        L = self._ready()
        low, high = self.bounds()
        t = L.size
        least = float(owner.settings.noise(np.flatnonzero(self._counts), np.maximum(self._counts, 1)).min())
        eps = 8.0 * t**1.5 * UNIT * (t * owner._kernel_bound + owner._largest_noise) / least  # of L, relative to B
        if low <= 0.0 or not np.isfinite(high) or eps > 0.01:
            return None
        C = L.forward(np.column_stack([probe.columns(np.arange(len(probe.prior))), owner._residual()]))
        c, e = C[:, :-1], C[:, -1]
        Q = np.einsum("ij,ij->j", c, c)
        half, middle = 0.5 * (1.0 / low - 1.0 / high), 0.5 * (1.0 / low + 1.0 / high)
        reach = np.sqrt(np.minimum(probe.prior, Q * (1.0 + 4.0 * eps) / low))
        error = np.sqrt(Q * float(e @ e)) * (half + 8.0 * eps / low) + reach * owner._rounding * owner._lift_root
        return Widths(Q * (1.0 - 4.0 * eps) / high, Q * (1.0 + 4.0 * eps) / low, middle * (c.T @ e), error)

    def steps(self, probe: Probe, f: Vector) -> Iterator[Vector]:
        """Conjugate gradient steps on the dual vector, applied when they have shrunk the residual tenfold."""
        owner = self._owner
        for _ in range(3):
            res = owner._residual()
            start = float(owner._shares.sum())
            taken = 0
            V = np.zeros((len(res), 1))
            for V, R, _ in owner.conjugate_gradients(res[:, None].copy()):  # noqa: B007
                taken += 1
                if float((R[:, 0] ** 2 / owner.noise).sum()) <= 1e-4 * start or taken >= 12:
                    break
            self._tired = taken > 5
            for arm in np.flatnonzero(owner.history.counts).tolist():
                owner._change_alpha(arm, V[owner._rows[arm], 0])
            owner._measure()
            f = probe.dot(owner.alpha)
            yield f

    @property
    def nbytes(self) -> int:
        return self._factor.nbytes if self._factor else 0

    def report(self) -> dict[str, Any]:
        return {"refreshes": self.refreshes}


def _ratios(K: Matrix, reference: Matrix) -> tuple[float, float]:
    """lo and hi with lo reference <= K <= hi reference; 0 and infinity where they cannot be told."""
    if np.array_equal(K, reference):
        return 1.0, 1.0
    values, vectors = np.linalg.eigh(reference)
    if values[0] <= 1e-9 * values[-1]:
        return 0.0, np.inf
    root = vectors / np.sqrt(values)
    found = np.linalg.eigvalsh(root.T @ K @ root)
    slack = 1e-14 * len(K) * float(values[-1] / values[0])
    return max(float(found[0]) - slack, 0.0), float(found[-1]) + slack
