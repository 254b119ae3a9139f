"""Context-kernel values in strips, one per arm, and products with them. The product kernel is never formed.

Notation
    S[a]     (n_a, t)  K_context[rows of arm a, all rows]; rows and columns in order of arrival
    rows[a]  (n_a,)    row numbers of arm a
    Y        (t, N)    Y[i, b] = sum over rows j of arm b of K_context[i, j] v_j, for a vector v

For the kernel K[i, j] = K_arm[a_i, a_j] K_context[i, j], (K v)_i = sum_b K_arm[a_i, b] Y[i, b]: whatever K_arm
has become, a product costs N t once Y is known. Strips grow by a quarter when full, in both directions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Indices = NDArray[np.intp]


class Rows:
    """Which rows belong to which arm, and a place for each row when they are arranged arm by arm."""

    def __init__(self, n_arms: int) -> None:
        self._buffers = [np.empty(8, dtype=np.intp) for _ in range(n_arms)]
        self.counts: Indices = np.zeros(n_arms, dtype=np.intp)
        self._held = [0] * n_arms  # the same numbers: reading an array's entries is slow
        self._starts = list(range(0, 8 * n_arms, 8))
        self._width = 8 * n_arms  # of an arrangement: each arm has room to grow
        self._places = np.empty(64, dtype=np.intp)

    def append(self, arm: int, row: int) -> None:
        """Row number ``row`` belongs to ``arm``."""
        n = self._held[arm]
        if n == len(self._buffers[arm]):
            self._buffers[arm] = np.concatenate([self._buffers[arm], np.empty(n, dtype=np.intp)])
            self._rearrange()
        if row >= len(self._places):
            self._places = np.concatenate([self._places, np.empty(row, dtype=np.intp)])
        self._buffers[arm][n] = row
        self._places[row] = self._starts[arm] + n
        self._held[arm] = n + 1
        self.counts[arm] = n + 1

    def _rearrange(self) -> None:
        start = 0
        for arm, buffer in enumerate(self._buffers):
            self._starts[arm] = start
            self._places[self[arm]] = np.arange(start, start + self._held[arm])
            start += len(buffer)
        self._width = start

    def __getitem__(self, arm: int) -> Indices:
        return self._buffers[arm][: self._held[arm]]

    def arranged(self, values: Vector) -> Vector:
        """The values of all rows (or of the first ones) arm by arm; `part` takes one arm's."""
        out = np.empty(self._width)
        out[self._places[: len(values)]] = values
        return out

    def part(self, arranged: Vector, arm: int, n: int) -> Vector:
        """The first n values of one arm's rows (a view)."""
        start = self._starts[arm]
        return arranged[start : start + n]


class Strips:
    """The context-kernel values of one term."""

    def __init__(self, n_arms: int) -> None:
        self._buffers: list[Matrix] = [np.empty((0, 0)) for _ in range(n_arms)]
        self._size = 0

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(b.nbytes for b in self._buffers)

    def strip(self, arm: int, n: int) -> Matrix:
        """S[arm] (a view)."""
        return self._buffers[arm][:n, : self._size]

    def append(self, rows: Rows, arm: int, values: Vector) -> Vector:
        """A row of ``arm`` (already in ``rows``), with its kernel values to all rows, itself last.

        Gives the values of the others back, arranged arm by arm.
        """
        t = self._size
        arranged = rows.arranged(values[:t])
        counts = rows.counts.tolist()
        n = counts[arm]
        counts[arm] -= 1
        for b, (buffer, held) in enumerate(zip(self._buffers, counts, strict=True)):
            if b == arm or (held and t >= buffer.shape[1]):
                buffer = self._room(b, held, held + (b == arm), t + 1)
            if held:
                buffer[:held, t] = rows.part(arranged, b, held)
        self._buffers[arm][n - 1, : t + 1] = values
        self._size = t + 1
        return arranged

    def fill(self, rows: Rows, K: Matrix) -> None:
        """All rows at once, from the (t, t) matrix."""
        self._size = len(K)
        for b in range(len(self._buffers)):
            n = int(rows.counts[b])
            self._buffers[b] = np.empty((0, 0))
            if n:
                self._room(b, 0, n, len(K))[:n, : len(K)] = K[rows[b]]

    def _room(self, arm: int, held: int, n: int, t: int) -> Matrix:
        """The buffer of ``arm`` with room for n rows and t columns."""
        buffer = self._buffers[arm]
        if n > buffer.shape[0] or t > buffer.shape[1]:
            height = max(n, int(1.25 * buffer.shape[0]) + 8 if n > buffer.shape[0] else buffer.shape[0], 8)
            width = max(t, 2 * buffer.shape[1] if t > buffer.shape[1] else buffer.shape[1], 256)
            grown = np.empty((height, width))
            if held:
                grown[:held, : self._size] = buffer[:held, : self._size]
            self._buffers[arm] = buffer = grown
        return buffer

    def dense(self, rows: Rows) -> Matrix:
        """The (t, t) matrix, in order of arrival."""
        K = np.empty((self._size, self._size))
        for b in range(len(self._buffers)):
            n = int(rows.counts[b])
            if n:
                K[rows[b]] = self.strip(b, n)
        return K
