"""How long a policy remembers, as frozen values: for worlds that change.

``None`` (the default) remembers everything, `Window` the last rows; `Forgetting` trusts old rows less. Age is
counted in rows learned, of whatever arm.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Vector
from kinbandits._value import Count, Positive, Value
from kinbandits.errors import InvalidTypeError

__all__ = ["Forgetting", "Memory", "Window"]

LEAST_WEIGHT = 1e-12  # a row's weight never falls below this: its noise stays finite


class Memory(Value):
    """What becomes of old rows."""

    @property
    def rows(self) -> int | None:
        """How many rows are remembered; None for no limit."""
        return None

    @property
    def decay(self) -> float:
        """What a row's weight is multiplied by with each later row."""
        return 1.0

    def weights(self, n: int) -> Vector:
        """The weight of each of the last ``n`` rows, oldest first."""
        if self.decay == 1.0:
            return np.ones(n)
        return np.asarray(np.maximum(self.decay ** np.arange(n - 1, -1, -1.0), LEAST_WEIGHT))


class Window(Memory):
    """Learn from the last ``size`` rows only. Counts, weights and estimated similarities are theirs alone.

    >>> Window(size=500).rows
    500
    """

    size: Count

    @property
    def rows(self) -> int:
        return self.size


class Forgetting(Memory):
    """Halve the weight of a row each time ``half_life`` more rows have been learned.

    The weight divides the row's noise: a row of weight w has noise ridge / w. Counts n_a and estimated
    similarities are those of all rows.

    >>> Forgetting(half_life=2).weights(5).round(3)
    array([0.25 , 0.354, 0.5  , 0.707, 1.   ])
    """

    half_life: Positive

    @property
    def decay(self) -> float:
        return float(0.5 ** (1.0 / self.half_life))


def as_memory(memory: object) -> Memory | None:
    """``memory`` if it is one."""
    if memory is None or isinstance(memory, Memory):
        return memory
    raise InvalidTypeError(
        f"memory must be None (remember everything), kb.Window(size=...) or kb.Forgetting(half_life=...), "
        f"got {memory!r}"
    )
