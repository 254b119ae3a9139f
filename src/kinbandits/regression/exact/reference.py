"""What a reference is: a matrix B that is close to M and easy to invert. The ladder climbs on it.

`BlocksReference` is block-diagonal, one block per arm: cheap, and good while arms are not too alike.
`LaggedReference` is all of M at an earlier moment, inverted, with new rows appended: for similarities near singular
(Pooled, Mixed, wide Known) and for kernels of several terms that are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from kinbandits._types import Matrix, Vector
from kinbandits.regression.exact.dual import Dual
from kinbandits.regression.exact.probe import Probe


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
