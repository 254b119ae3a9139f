"""M, held as context-kernel values in strips, one per arm. The product kernel is never formed.

Notation (besides `base`)
    K_context  (t, t)  context-kernel values of one term
    K_arm      (N, N)  similarity of one term; K = sum over terms of K_arm[a_i, a_j] K_context[i, j]
    S[a]       (n_a, t)  K_context[rows of arm a, all rows]; rows and columns in order of arrival
    Y          (N, t)  Y[b, i] = sum over rows j of arm b of K_context[i, j] v_j, for a vector v

(K v)_i = sum_b K_arm[a_i, b] Y[b, i]: whatever K_arm has become, a product costs N t once Y is known.

A new row is also a new column of every strip: the latest rows are kept together and written as columns some at a
time. Buffers double when they are full; the compiled core works on the same arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.base import RegressionSettings

RECENT = 32  # rows kept together before they become columns of the strips
ROOM = 1544  # rows at least that there is room for; no power of two, which memory dislikes as a distance


class Rows:
    """Which rows belong to which arm: ``arms`` and ``index`` (row numbers of each) have room to grow."""

    def __init__(self, n_arms: int, arms: Indices) -> None:
        self.size = len(arms)
        self.arms: Indices = np.zeros(max(ROOM, 2 * len(arms), n_arms), dtype=np.intp)
        self.arms[: len(arms)] = arms
        self.counts: Indices = np.bincount(arms, minlength=n_arms).astype(np.intp)
        self.index = [np.zeros(max(8, 2 * n), dtype=np.intp) for n in self.counts.tolist()]
        for a, n in enumerate(self.counts.tolist()):
            self.index[a][:n] = np.flatnonzero(arms == a)

    def __getitem__(self, arm: int) -> Indices:
        return self.index[arm][: self.counts[arm]]

    @property
    def labels(self) -> Indices:
        return self.arms[: self.size]

    def reserve(self, arm: int) -> bool:
        full = bool(self.counts[arm] == len(self.index[arm]))
        if full:
            self.index[arm] = np.concatenate([self.index[arm], np.zeros_like(self.index[arm])])
        if self.size == len(self.arms):
            self.arms = np.concatenate([self.arms, np.zeros_like(self.arms)])
            return True
        return full

    def append(self, arm: int) -> None:
        """The next row is one of ``arm``; there is room for it."""
        self.arms[self.size] = arm
        self.index[arm][self.counts[arm]] = self.size
        self.counts[arm] += 1
        self.size += 1


class Strips:
    """The context-kernel values of one term: ``buffers`` S[a], written up to ``first``; ``recent`` rows after."""

    def __init__(self, rows: Rows, K: Matrix) -> None:
        self._rows = rows
        self.first = rows.size
        self.recent: Matrix = np.empty((RECENT, len(rows.arms)))
        self.buffers: list[Matrix] = []
        for a, n in enumerate(rows.counts.tolist()):
            height = max(
                8, 2 * n, 2 * len(rows.arms) // len(rows.counts)
            )  # memory that is not touched costs nothing
            self.buffers.append(np.empty((height, len(rows.arms))))
            self.buffers[a][:n, : rows.size] = K[rows[a]]

    @property
    def nbytes(self) -> int:
        """Memory in use; rows of a buffer that are not yet filled are not."""
        held = zip(self._rows.counts.tolist(), self.buffers, strict=True)
        return int(sum(n * b.shape[1] * b.itemsize for n, b in held) + self.recent.nbytes)

    def strip(self, arm: int) -> Matrix:
        """S[arm] (a view)."""
        self.flush()
        return self.buffers[arm][: self._rows.counts[arm], : self._rows.size]

    def times(self, arm: int, v: Vector) -> Vector:
        """v S[arm]."""
        rows, first, t = self._rows[arm], self.first, self._rows.size
        z = np.empty(t)
        np.matmul(v, self.buffers[arm][: len(rows), :first], out=z[:first])
        if first < t:
            spread = np.zeros(t)
            spread[rows] = v
            np.matmul(self.recent[: t - first, :t], spread, out=z[first:])
        return z

    def reserve(self, arm: int) -> bool:
        if self._rows.size - self.first == RECENT:
            self.flush()
        room, n = len(self._rows.arms), int(self._rows.counts[arm])
        if room != self.recent.shape[1]:
            self.flush()
            self.recent = np.empty((RECENT, room))
            for a, buffer in enumerate(self.buffers):
                self._replace(a, 2 * n if a == arm and n == len(buffer) else len(buffer), room)
            return True
        if n == len(self.buffers[arm]):
            self._replace(arm, 2 * n, room)
            return True
        return False

    def _replace(self, arm: int, height: int, width: int) -> None:
        n, old = int(self._rows.counts[arm]), self.buffers[arm]
        self.buffers[arm] = np.empty((height, width))
        self.buffers[arm][:n, : self._rows.size] = old[:n, : self._rows.size]

    def append(self, arm: int, values: Vector) -> None:
        """A row of ``arm`` that `Rows` does not have yet: its kernel values to all rows, itself last."""
        t = self._rows.size
        line = t - self.first
        self.recent[line, : t + 1] = values
        self.recent[:line, t] = values[self.first : t]
        self.buffers[arm][self._rows.counts[arm], : t + 1] = values

    def flush(self) -> None:
        first, t = self.first, self._rows.size
        if first < t:
            for a, buffer in enumerate(self.buffers):
                rows = self._rows[a]
                buffer[: len(rows), first:t] = self.recent[: t - first].take(rows, axis=1).T
            self.first = t

    def dense(self) -> Matrix:
        K = np.empty((self._rows.size, self._rows.size))
        for a in range(len(self.buffers)):
            K[self._rows[a]] = self.strip(a)
        return K


class Noise(NamedTuple):
    """Added to the diagonal of K: ``per_arm`` (N,); M^-1 <= diag(``lift``), one over it (edited in place)."""

    per_arm: Vector
    lift: Vector
    lift_root: float  # of the sum of lift over rows
    largest: float


class ArmMatrix:
    """M as an operator, for a similarity that may change and rows that come."""

    def __init__(
        self,
        settings: RegressionSettings,
        n_arms: int,
        arms: Indices,
        K_arms: list[Matrix],
        grams: Sequence[Matrix],
    ) -> None:
        """From the context-kernel matrices ``grams`` (t, t), one per term."""
        self._settings = settings
        self.per_arm = settings.weighting == "per_arm"  # whether the noise of an arm grows with its rows
        self._every_arm = np.arange(n_arms)
        self.rows = Rows(n_arms, arms)
        self.strips = [Strips(self.rows, K) for K in grams]
        self.K_arms = K_arms
        self.kernel_bound = 0.0  # on k(x, x), and on entries of K_context alone
        for K, K_arm in zip(grams, K_arms, strict=True):
            self.kernel_bound += float(K.diagonal().max(initial=0.0)) * max(1.0, float(K_arm.diagonal().max()))
        self.row_sum = n_arms * float(max(K.diagonal().max() for K in K_arms))
        self.noise = self._noise()
        self._row_noise: Vector | None = None

    @property
    def size(self) -> int:
        return self.rows.size

    def noise_after(self, arm: int) -> float:
        """The noise of ``arm`` when it has one row more."""
        return self._settings.ridge * (int(self.rows.counts[arm]) + 1 if self.per_arm else 1)

    def reserve(self, arm: int) -> bool:
        replaced = self.rows.reserve(arm)
        for strips in self.strips:
            replaced |= strips.reserve(arm)
        return replaced

    def append(self, arm: int, values: list[Vector]) -> None:
        """A row of ``arm``, by its context-kernel values to all rows, itself last, per term; there is room."""
        for strips, K in zip(self.strips, values, strict=True):
            strips.append(arm, K)
        self.rows.append(arm)
        self.appended(arm, [float(K[-1]) for K in values])

    def appended(self, arm: int, own: Sequence[float]) -> None:
        """The arrays have a new row, whose context-kernel values with itself are ``own``: follow with the rest."""
        bound = 0.0
        for K, k in zip(self.K_arms, own, strict=True):
            d = float(K[arm, arm])
            bound += d * k if d > 1.0 else k
            self.row_sum = max(self.row_sum, len(self._every_arm) * d)
        self.kernel_bound = max(self.kernel_bound, bound)
        self._row_noise = None
        n = int(self.rows.counts[arm])
        if self.per_arm:
            noise, (per_arm, lift, root, largest) = self._settings.ridge * n, self.noise
            per_arm[arm], lift[arm] = noise, 1.0 / noise
            if noise <= largest and n > 1:
                return
            largest = max(largest, noise)
        else:
            per_arm, lift, root, largest = self.noise
        self.noise = Noise(per_arm, lift, root if self.per_arm and n > 1 else self._lift_root(), largest)

    def _lift_root(self) -> float:
        """n_a over the noise of arm a, ridge n_a or ridge, summed."""
        rows = np.count_nonzero(self.rows.counts) if self.per_arm else self.rows.size
        return math.sqrt(rows / self._settings.ridge)

    def _noise(self) -> Noise:
        counts, ridge = self.rows.counts, self._settings.ridge
        per_arm = ridge * np.maximum(counts, 1.0) if self.per_arm else np.full(len(counts), ridge)
        lift = 1.0 / per_arm
        return Noise(per_arm, lift, self._lift_root(), float(per_arm.max()))

    @property
    def row_noise(self) -> Vector:
        """What is added to the diagonal of K, row by row."""
        if self._row_noise is None:
            self._row_noise = np.take(self.noise.per_arm, self.rows.labels)
        return self._row_noise

    def block(self, a: int) -> Matrix:
        """K among the rows of arm a, its lower triangle, (n_a, n_a); a new array."""
        rows = self.rows[a]
        block = np.zeros((len(rows), len(rows)))
        for strips, K_arm in zip(self.strips, self.K_arms, strict=True):
            block += K_arm[a, a] * np.tril(strips.buffers[a][: len(rows)].take(rows, axis=1))  # flushed or not
        return block

    def dense(self) -> Matrix:
        arms = self.rows.labels
        total = np.zeros((len(arms), len(arms)))
        for strips, K_arm in zip(self.strips, self.K_arms, strict=True):
            K = strips.dense()
            K *= K_arm[np.ix_(arms, arms)]
            total += K
        total[np.diag_indices_from(total)] += self.row_noise
        return total

    def by_arm(self, K_arms: list[Matrix]) -> tuple[Matrix, Indices]:
        """K with these similarities and rows arm by arm, (t, t), and which rows these are."""
        arms, n_arms = self.rows.labels, len(self._every_arm)
        order = np.concatenate([self.rows[a] for a in range(n_arms)])
        arranged, total = arms[order], np.zeros((len(arms), len(arms)))
        start = 0
        for a, n in enumerate(self.rows.counts.tolist()):
            for strips, K_arm in zip(self.strips, K_arms, strict=True):
                total[start : start + n] += np.take(strips.strip(a), order, axis=1) * K_arm[a, arranged]
            start += n
        return total, order

    def times(self, V: Matrix) -> Matrix:
        """M V for V (t, m), strip by strip; arms that V does not touch are left out."""
        arms, n_arms = self.rows.labels, len(self._every_arm)
        out = self.row_noise[:, None] * V
        touched = np.bincount(arms, weights=np.abs(V).sum(axis=1), minlength=n_arms) > 0
        columns = None if touched[arms].all() else np.flatnonzero(touched[arms])
        for strips, K_arm in zip(self.strips, self.K_arms, strict=True):
            for a in range(n_arms):
                rows = self.rows[a]
                if not len(rows) or not K_arm[a, touched].any():
                    continue
                strip = strips.strip(a)
                if columns is None:
                    out[rows] += strip @ (K_arm[a, arms][:, None] * V)
                else:
                    out[rows] += strip[:, columns] @ (K_arm[a, arms[columns]][:, None] * V[columns])
        return out
