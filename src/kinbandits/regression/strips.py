"""M in strips of context-kernel values, one per arm. The product kernel is never formed.

Notation (besides `contract`; one term)
    K_X      (t, t)    context-kernel values of the rows
    S[a]     (n_a, t)  K_X[rows of arm a, all rows]; rows and columns in order of arrival
    index[a] (n_a,)    which rows are arm a's
    recent   (32, t)   the last rows; a new row is also a new column of every strip, and columns are written some at
                       a time

M v = sum_b K_Z[., b] * (K_X[., rows of b] v_b) + noise v: a product costs t^2 whatever K_Z is, and nothing has to
follow when K_Z changes. Buffers double when they are full.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Indices, Matrix, Vector

_RECENT = 32
_ROOM = 1544  # rows at least that there is room for; a power of two as a line's length causes cache conflicts


class Strips:
    """The rows of a history, arm by arm."""

    def __init__(self, n_arms: int, arms: Indices, K_X: Matrix) -> None:
        t = len(arms)
        self.size = self._flushed = t
        self.counts: Indices = np.bincount(arms, minlength=n_arms)
        self._arms: Indices = np.zeros(max(_ROOM, 2 * t), dtype=np.intp)
        self._arms[:t] = arms
        self._index = [np.flatnonzero(arms == a) for a in range(n_arms)]
        self._recent: Matrix = np.empty((_RECENT, len(self._arms)))
        self._buffers: list[Matrix] = []
        for rows in self._index:
            height = max(8, 2 * len(rows), 2 * len(self._arms) // n_arms)  # memory that is not touched costs nothing
            self._buffers.append(np.empty((height, len(self._arms))))
            self._buffers[-1][: len(rows), :t] = K_X[rows]
        self._index = [np.append(rows, np.zeros(len(rows) + 8, dtype=np.intp)) for rows in self._index]

    @property
    def arms(self) -> Indices:
        return self._arms[: self.size]

    @property
    def room(self) -> int:
        return len(self._arms)

    @property
    def nbytes(self) -> int:
        """Memory in use; rows of a buffer that are not yet filled are not."""
        return int(8 * self.room * (self.counts.sum() + _RECENT))

    def rows(self, arm: int) -> Indices:
        """index[arm]."""
        return self._index[arm][: self.counts[arm]]

    def append(self, arm: int, k_x: Vector) -> None:
        """A row more, by its context-kernel values to all rows, itself last."""
        t, n = self.size, int(self.counts[arm])
        if t - self._flushed == _RECENT or t == self.room:
            self._flush()
        if t == self.room:
            self._arms = np.append(self._arms, np.zeros_like(self._arms))
            self._recent = np.empty((_RECENT, self.room))
            for a in range(len(self._buffers)):
                self._enlarge(a, len(self._buffers[a]))
        if n == len(self._buffers[arm]):
            self._enlarge(arm, 2 * n)
        if n == len(self._index[arm]):
            self._index[arm] = np.append(self._index[arm], np.zeros(n, dtype=np.intp))
        line = t - self._flushed
        self._recent[line, : t + 1] = k_x
        self._recent[:line, t] = k_x[self._flushed : t]
        self._buffers[arm][n, : t + 1] = k_x
        self._arms[t], self._index[arm][n] = arm, t
        self.counts[arm] += 1
        self.size = t + 1

    def _enlarge(self, arm: int, height: int) -> None:
        n, old = int(self.counts[arm]), self._buffers[arm]
        self._buffers[arm] = np.empty((height, self.room))
        self._buffers[arm][:n, : self.size] = old[:n, : self.size]

    def _flush(self) -> None:
        first, t = self._flushed, self.size
        if first < t:
            for a, buffer in enumerate(self._buffers):
                rows = self.rows(a)
                buffer[: len(rows), first:t] = self._recent[: t - first].take(rows, axis=1).T
            self._flushed = t

    def within(self, arm: int) -> Matrix:
        """K_X among the rows of an arm: its lower triangle (above it, anything)."""
        rows = self.rows(arm)
        return self._buffers[arm][: len(rows)].take(rows, axis=1)  # flushed or not

    def times(self, arm: int, v: Vector) -> Vector:
        """v S[arm]: n_a t."""
        rows, first, t = self.rows(arm), self._flushed, self.size
        z = np.empty(t)
        np.matmul(v, self._buffers[arm][: len(rows), :first], out=z[:first])
        if first < t:
            spread = np.zeros(t)
            spread[rows] = v
            np.matmul(self._recent[: t - first, :t], spread, out=z[first:])
        return z

    def dense(self, K_Z: Matrix, noise: Vector) -> Matrix:
        """M; ``noise`` is of each row."""
        self._flush()
        M = np.empty((self.size, self.size))
        for a, buffer in enumerate(self._buffers):
            rows = self.rows(a)
            M[rows] = buffer[: len(rows), : self.size] * K_Z[a].take(self.arms)
        M.flat[:: len(M) + 1] += noise
        return M

    def products(self, K_Z: Matrix, noise: Vector, V: Matrix) -> Matrix:
        """M V for V (t, m); ``noise`` is of each row. Arms that V does not touch are left out."""
        self._flush()
        arms, out = self.arms, noise[:, None] * V
        touched = np.bincount(arms, weights=np.abs(V).sum(axis=1), minlength=len(K_Z)) > 0
        columns = None if touched[arms].all() else np.flatnonzero(touched[arms])
        for a in np.flatnonzero(self.counts).tolist():
            if not K_Z[a, touched].any():
                continue
            strip = self._buffers[a][: self.counts[a], : self.size]
            if columns is None:
                out[self.rows(a)] += strip @ (K_Z[a, arms][:, None] * V)
            else:
                out[self.rows(a)] += strip[:, columns] @ (K_Z[a, arms[columns]][:, None] * V[columns])
        return out
