"""M in strips of context-kernel values, one per arm. The product kernel is never formed.

Notation (besides `contract`; one term)
    K_X      (t, t)    context-kernel values of the rows
    S[a]     (n_a, t)  K_X[rows of arm a, all rows]; rows and columns in order of arrival
    index[a] (n_a,)    which rows are arm a's
    recent   (32, t)   the last rows; a new row is also a new column of every strip, and columns are written some at
                       a time

M v = sum_b K_Z[., b] * (K_X[., rows of b] v_b) + noise v: a product costs t^2 whatever K_Z is, and nothing has to
follow when K_Z changes. Buffers double when they are full; memory that is not touched costs nothing.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.linalg import room_for

_RECENT = 32
_ROOM = 1544  # rows at least that there is room for; a power of two as a line's length causes cache conflicts


class Strips:
    """The rows of a history, arm by arm."""

    def __init__(self, n_arms: int, arms: Indices, K_X: Matrix) -> None:
        self.size = self._flushed = t = len(arms)
        self.counts: Indices = np.bincount(arms, minlength=n_arms)
        self._arms: Indices = room_for(arms, max(_ROOM, 2 * t))
        self._recent: Matrix = np.empty((_RECENT, self.room))
        self._index = [np.flatnonzero(arms == a) for a in range(n_arms)]
        self._strips: list[Matrix] = []  # buffers
        for rows in self._index:
            self._strips.append(np.empty((max(8, 2 * len(rows), 2 * self.room // n_arms), self.room)))
            self._strips[-1][: len(rows), :t] = K_X[rows]

    @property
    def arms(self) -> Indices:
        return self._arms[: self.size]

    @property
    def room(self) -> int:
        return len(self._arms)

    def rows(self, arm: int) -> Indices:
        """index[arm]."""
        return self._index[arm][: self.counts[arm]]

    def append(self, arm: int, k_x: Vector) -> None:
        """A row more, by its context-kernel values to all rows, itself last."""
        t, n = self.size, int(self.counts[arm])
        if t - self._flushed == _RECENT or t == self.room:
            self._flush()
        if t == self.room:
            self._arms = room_for(self._arms, t + 1)
            self._recent = np.empty((_RECENT, self.room))
            for a, strip in enumerate(self._strips):
                self._enlarge(a, len(strip))
        if n == len(self._strips[arm]):
            self._enlarge(arm, 2 * n)
        self._index[arm] = room_for(self._index[arm], n + 1)
        line = t - self._flushed
        self._recent[line, : t + 1] = k_x
        self._recent[:line, t] = k_x[self._flushed : t]
        self._strips[arm][n, : t + 1] = k_x
        self._arms[t], self._index[arm][n] = arm, t
        self.counts[arm] += 1
        self.size = t + 1

    def _enlarge(self, arm: int, height: int) -> None:
        n, old = int(self.counts[arm]), self._strips[arm]
        self._strips[arm] = np.empty((height, self.room))
        self._strips[arm][:n, : self.size] = old[:n, : self.size]

    def _flush(self) -> None:
        first, t = self._flushed, self.size
        for a, strip in enumerate(self._strips if first < t else ()):
            rows = self.rows(a)
            strip[: len(rows), first:t] = self._recent[: t - first].take(rows, axis=1).T
        self._flushed = t

    def within(self, arm: int) -> Matrix:
        """K_X among the rows of an arm: its lower triangle (above it, anything)."""
        return self._strips[arm][: self.counts[arm]].take(self.rows(arm), axis=1)  # flushed or not

    def times(self, arm: int, v: Vector) -> Vector:
        """v S[arm]: n_a t."""
        rows, first, t = self.rows(arm), self._flushed, self.size
        z = np.empty(t)
        np.matmul(v, self._strips[arm][: len(rows), :first], out=z[:first])
        if first < t:
            spread = np.zeros(t)
            spread[rows] = v
            np.matmul(self._recent[: t - first, :t], spread, out=z[first:])
        return z

    def dense(self, K_Z: Matrix, noise: Vector) -> Matrix:
        """M; ``noise`` is of each row."""
        self._flush()
        M = np.empty((self.size, self.size))
        for a, strip in enumerate(self._strips):
            rows = self.rows(a)
            M[rows] = strip[: len(rows), : self.size] * K_Z[a].take(self.arms)
        M.flat[:: len(M) + 1] += noise
        return M

    def products(self, K_Z: Matrix, noise: Vector, V: Matrix) -> Matrix:
        """M V for V (t, m); ``noise`` is of each row. Arms that V does not touch are left out."""
        self._flush()
        arms, out = self.arms, noise[:, None] * V
        touched = np.bincount(arms, np.abs(V).sum(axis=1), len(K_Z)) > 0
        some: Indices | slice = slice(None) if touched[arms].all() else np.flatnonzero(touched[arms])
        for a in np.flatnonzero(K_Z[:, touched].any(axis=1) & (self.counts > 0)).tolist():
            strip = self._strips[a][: self.counts[a], : self.size]
            out[self.rows(a)] += strip[:, some] @ (K_Z[a, arms[some]][:, None] * V[some])
        return out
