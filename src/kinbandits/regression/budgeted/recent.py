"""The rows that the budgeted engine still has: the last ones, raw, with their kappa at the dictionary.

They make new points exact for the recent past, say how wrong the dictionary is, and leave one by one when there is
a window. Buffers hold twice as many rows, so that dropping the oldest is rarely a copy.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.budgeted.sums import Rows
from kinbandits.regression.linalg.inverse import move_last


class Recent:
    """The last ``limit`` rows, with ``kinds`` (Q of `points`) values at each of the dictionary's ``slots``."""

    def __init__(self, limit: int, kinds: int, slots: int) -> None:
        self.limit = limit
        self._capacity = 2 * limit
        self._shape = kinds, slots
        self._low = self._high = 0
        self._arms: Indices = np.zeros(self._capacity, dtype=np.intp)
        self._rewards: Vector = np.zeros(self._capacity)
        self._weights: Vector = np.zeros(self._capacity)  # in the stored units of `Sums`
        self._contexts: Matrix = np.zeros((0, 0))
        self._kappa: Matrix = np.zeros((kinds, 0, slots))

    def __len__(self) -> int:
        return self._high - self._low

    @property
    def _live(self) -> slice:
        return slice(self._low, self._high)

    @property
    def arms(self) -> Indices:
        """(rows,), oldest first (a view, as all here)."""
        return self._arms[self._live]

    @property
    def contexts(self) -> Matrix:
        return self._contexts[self._live]

    @property
    def rewards(self) -> Vector:
        return self._rewards[self._live]

    @property
    def weights(self) -> Vector:
        return self._weights[self._live]

    def rows(self, size: int, last: int | None = None, first: int | None = None) -> Rows:
        """The ``first`` or the ``last`` rows, or all, with their values at the first ``size`` slots."""
        low = self._low if last is None else max(self._low, self._high - last)
        part = slice(low, self._high if first is None else low + first)
        return Rows(self._arms[part], self._rewards[part], self._weights[part], self._kappa[:, part, :size])

    def kappa(self, size: int) -> Matrix:
        """(Q, rows, size): values at the first ``size`` slots."""
        return self._kappa[:, self._live, :size]

    def fill(self, arms: Indices, contexts: Matrix, rewards: Vector, weights: Vector) -> None:
        """These rows, ``limit`` at most, where there were none; `set_rows` gives their kappa."""
        n = len(arms)
        self._reserve(contexts.shape[1])
        self._arms[:n], self._contexts[:n], self._rewards[:n], self._weights[:n] = arms, contexts, rewards, weights
        self._low, self._high = 0, n

    def set_rows(self, low: int, kappa: Matrix) -> None:
        """kappa (Q, rows, size) of rows from number ``low`` on."""
        low += self._low
        self._kappa[:, low : low + kappa.shape[1], : kappa.shape[2]] = kappa

    def append(self, arm: int, context: Vector, reward: float, weight: float, kappa: Matrix) -> None:
        self._reserve(len(context))
        if self._high == self._capacity:
            self._compact()
        i = self._high
        self._arms[i], self._contexts[i], self._rewards[i], self._weights[i] = arm, context, reward, weight
        self._kappa[:, i, : kappa.shape[1]] = kappa
        self._high = i + 1

    def drop_oldest(self) -> None:
        self._low += 1

    def drop_arm(self, arm: int) -> None:
        """The rows of an arm leave; later arms move down by one."""
        keep = np.flatnonzero(self.arms != arm) + self._low
        n = len(keep)
        arms = self._arms[keep]
        self._arms[:n] = np.where(arms > arm, arms - 1, arms)
        self._rewards[:n], self._weights[:n] = self._rewards[keep], self._weights[keep]
        if self._contexts.size:
            self._contexts[:n] = self._contexts[keep]
            self._kappa[:, :n] = self._kappa[:, keep]
        self._low, self._high = 0, n

    def rescale(self, factor: float) -> None:
        """`Sums` changed its stored units."""
        self._weights *= factor

    def set_slots(self, slots: Indices, values: Matrix) -> None:
        """The values (Q, b, rows) at new dictionary points."""
        self._kappa[:, self._live, slots] = np.swapaxes(values, 1, 2)

    def remove_slot(self, j: int, size: int) -> None:
        move_last(self._kappa, j, size - 1, axes=(2,))

    def history(self, n_arms: int) -> History:
        if not len(self):
            return History(n_arms)
        return History.of(n_arms, self.arms, self.contexts, self.rewards)

    def _reserve(self, n_features: int) -> None:
        if not self._contexts.size:
            self._contexts = np.zeros((self._capacity, n_features))
            self._kappa = np.zeros((self._shape[0], self._capacity, self._shape[1]))

    def _compact(self) -> None:
        n = len(self)
        for array in (self._arms, self._rewards, self._weights, self._contexts):
            array[:n] = array[self._low : self._high].copy()
        self._kappa[:, :n] = self._kappa[:, self._low : self._high].copy()
        self._low, self._high = 0, n
