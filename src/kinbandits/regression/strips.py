"""Context-kernel values in strips, one per arm, and products with them. The product kernel is never formed.

Notation
    S[a]     (n_a, t)  K_context[rows of arm a, all rows]; rows and columns in order of arrival
    rows[a]  (n_a,)    row numbers of arm a
    Y        (t, N)    Y[i, b] = sum over rows j of arm b of K_context[i, j] v_j, for a vector v

For the kernel K[i, j] = K_arm[a_i, a_j] K_context[i, j], (K v)_i = sum_b K_arm[a_i, b] Y[i, b]: whatever K_arm
has become, a product costs N t once Y is known. Strips grow to twice their size when full, in either direction.

A new row is also a new column of every strip, t distant places in memory. So the latest rows are kept together,
arranged arm by arm (`Rows`), and their columns are written to the strips some at a time.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Indices, Matrix, Vector

_RECENT = 32  # columns kept apart before they are written to the strips
_GROWTH = 2.0


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
        start, self._starts = 0, list(self._starts)
        for arm, buffer in enumerate(self._buffers):
            self._starts[arm] = start
            self._places[self[arm]] = np.arange(start, start + self._held[arm])
            start += len(buffer)
        self._width = start

    def __getitem__(self, arm: int) -> Indices:
        return self._buffers[arm][: self._held[arm]]

    @property
    def arrangement(self) -> tuple[list[int], int]:
        """Where each arm's rows begin when they are arranged arm by arm, and how many places there are.

        The list is another one as soon as rows have other places.
        """
        return self._starts, self._width

    def arrange(self, values: Vector, out: Vector) -> None:
        """The values of all rows (or of the first ones) arm by arm; `part` takes one arm's."""
        out[self._places[: len(values)]] = values

    def place(self, row: int) -> int:
        """That of one row."""
        return int(self._places[row])

    def part(self, arranged: Vector, arm: int, n: int) -> Vector:
        """The first n values of one arm's rows (a view)."""
        start = self._starts[arm]
        return arranged[start : start + n]


class Strips:
    """The context-kernel values of one term."""

    def __init__(self, n_arms: int) -> None:
        self._buffers: list[Matrix] = [np.empty((0, 0)) for _ in range(n_arms)]
        self._held = [0] * n_arms
        self._written = [0] * n_arms  # columns that are in the arm's buffer; the others are in `_recent` only
        self._size = 0
        self._first = 0  # row number of the first row of `_recent`
        self._starts: list[int] = []
        self._recent: Matrix = np.empty((0, 0))

    @property
    def nbytes(self) -> int:
        """Memory in use; rows of a buffer that are not yet filled are not."""
        filled = sum(n * b.shape[1] * b.itemsize for n, b in zip(self._held, self._buffers, strict=True))
        return int(filled + self._recent.nbytes)

    def strip(self, arm: int, n: int) -> Matrix:
        """S[arm] (a view)."""
        self._write(arm)
        return self._buffers[arm][:n, : self._size]

    def times(self, arm: int, v: Vector) -> Vector:
        """v S[arm]."""
        n, w, t = len(v), self._written[arm], self._size
        z = np.empty(t)
        np.matmul(v, self._buffers[arm][:n, :w], out=z[:w])
        if w < t:
            start = self._starts[arm]
            np.matmul(self._recent[w - self._first : t - self._first, start : start + n], v, out=z[w:])
        return z

    def append(self, rows: Rows, arm: int, values: Vector) -> Vector:
        """A row of ``arm`` (already in ``rows``), with its kernel values to all rows, itself last.

        Gives them back arranged arm by arm (a view, good until the next call).
        """
        t = self._size
        starts, width = rows.arrangement
        if starts is not self._starts or t - self._first == len(self._recent):
            for b in range(len(self._buffers)):
                self._write(b)
            if width != self._recent.shape[1]:
                self._recent = np.empty((_RECENT, width))
            self._starts, self._first = starts, t
        line, place = t - self._first, rows.place(t)
        rows.arrange(values, self._recent[line])
        self._recent[:line, place] = values[self._first : t]
        n = self._held[arm] = self._held[arm] + 1
        self._room(arm, n - 1, n, t + 1)[n - 1, : t + 1] = values
        self._size = t + 1
        return np.asarray(self._recent[line])

    def _write(self, arm: int) -> None:
        """Bring the arm's buffer up to date."""
        n, w, t = self._held[arm], self._written[arm], self._size
        if n and w < t:
            start = self._starts[arm]
            recent = self._recent[w - self._first : t - self._first, start : start + n]
            self._room(arm, n, n, t)[:n, w:t] = recent.T
        self._written[arm] = t

    def fill(self, rows: Rows, K: Matrix) -> None:
        """All rows at once, from the (t, t) matrix."""
        self._size = self._first = len(K)
        self._starts, self._recent = [], np.empty((0, 0))
        for b in range(len(self._buffers)):
            n = self._held[b] = int(rows.counts[b])
            self._buffers[b] = np.empty((0, 0))
            self._written[b] = len(K)
            if n:
                self._room(b, 0, n, len(K))[:n, : len(K)] = K[rows[b]]

    def _room(self, arm: int, held: int, n: int, t: int) -> Matrix:
        """The buffer of ``arm`` with room for n rows and t columns."""
        buffer = self._buffers[arm]
        if n > buffer.shape[0] or t > buffer.shape[1]:
            height = max(n, 2 * buffer.shape[0] if n > buffer.shape[0] else buffer.shape[0], 8)
            width = max(t, 2 * buffer.shape[1] if t > buffer.shape[1] else buffer.shape[1], 256)
            grown = np.empty((height, width))
            if held:
                filled = min(self._size, buffer.shape[1])
                grown[:held, :filled] = buffer[:held, :filled]
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
