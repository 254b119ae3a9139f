"""T = L^-1 of a matrix that grows by rows: laid out for learning and for reading, and shared with snapshots.

Notation (n rows in order of arrival; each belongs to an arm)
    T        (n, n)  L^-1, lower triangular
    chunk    `HEIGHT` rows of T at most: W (rows, columns). The columns that were there when the chunk began stand
             arm by arm, so that an arm's are a slice; its own come after them in order of arrival
    k_x      (R, n)  context-kernel values of R contexts with the rows
    V_a      (R, n)  T[:, rows of a] k_x[rows of a], for each context

A new row with kernel values k to the others and g with itself (noise included) has c = T k, pivot d^2 = g - c'c and
the row of T  (-c'T, 1) / d: two products with T, 2 n^2. Rows of W are written once. A chunk that is full is written
once more, with its own columns sorted in too, and then never again: snapshots share all of it, and read as many
rows as there were when they were taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.contract import Common
from kinbandits.regression.linalg import inverse_factor, room_for
from kinbandits.regression.pairs import InForce

HEIGHT = 256


class Chunk(NamedTuple):
    """Rows of T from ``low`` on. Columns ``order`` come first, arm by arm; then those from number ``first`` on."""

    low: int
    order: Indices
    arms: Indices  # those that have columns in ``order``
    slices: tuple[slice, ...]  # where each has them
    W: Matrix  # with room for more rows and columns

    @property
    def first(self) -> int:
        return len(self.order)

    @classmethod
    def begun(cls, low: int, arms: Indices, W: Matrix) -> Chunk:
        """With the first columns, of which ``arms`` are the arms, sorted."""
        order = np.argsort(arms, kind="stable")
        present, starts = np.unique(arms[order], return_index=True)
        slices = tuple(slice(a, b) for a, b in pairwise([*starts.tolist(), len(order)]))
        return cls(low, order, present, slices, W)

    def times(self, k: Matrix, m: int) -> Matrix:
        """Its first m rows times k (n, c)."""
        c = self.W[:m, : self.first] @ k[self.order]
        if (end := self.low + m) > self.first:
            c += self.W[:m, self.first : end] @ k[self.first : end]
        return c

    def add_transposed(self, c: Matrix, out: Matrix) -> None:
        """out (n, c) += its first rows, transposed, times c (rows, c)."""
        m, first = len(c), self.first
        out[self.order] += self.W[:m, :first].T @ c
        if (end := self.low + m) > first:
            out[first:end] += self.W[:m, first:end].T @ c

    def by_arm(self, k_x: Matrix, arms: Indices, m: int) -> tuple[Indices, Matrix]:
        """V (R, A, m) of these rows, and the arms they are of; ``arms`` (n,) are those of all columns."""
        R, end = len(k_x), self.low + m
        own = arms[self.first : end]
        new = np.setdiff1d(own, self.arms) if len(own) else own
        present = np.concatenate([self.arms, new])
        V = np.empty((R, len(present), m))
        k = k_x.take(self.order, axis=1)
        for p, part in enumerate(self.slices):
            np.matmul(k[:, part], self.W[:m, part].T, out=V[:, p])
        V[:, len(self.arms) :] = 0.0
        if len(own):
            apart = np.where(present[:, None] == own, k_x[:, None, self.first : end], 0.0)  # (R, A, own)
            V += apart @ self.W[:m, self.first : end].T
        return present, V


class Chunked:
    """T in chunks, with z = T y and what belongs to the rows. `fork` it before another may grow it."""

    def __init__(self) -> None:
        self.n = 0
        self.log_det = 0.0  # of M
        self._arms: Indices = np.empty(0, dtype=np.intp)
        self._z: Vector = np.empty(0)
        self._chunks: list[Chunk] = []

    @property
    def arms(self) -> Indices:
        return self._arms[: self.n]

    @property
    def z(self) -> Vector:
        return self._z[: self.n]

    @property
    def nbytes(self) -> int:
        return sum(chunk.W.nbytes for chunk in self._chunks)

    def _parts(self) -> Iterator[tuple[Chunk, int]]:
        """The chunks with the number of rows in use of each."""
        for chunk in self._chunks:
            yield chunk, min(HEIGHT, self.n - chunk.low)

    # -- learning -------------------------------------------------------------------------------

    @classmethod
    def of(cls, arms: Indices, M: Matrix, y: Vector, least: float) -> Chunked:
        """From M: n^3. LinAlgError if a pivot is below ``least`` of its diagonal entry."""
        found = cls()
        found._write(arms, inverse_factor(M, least), y)
        return found

    def grow(self, arms: Indices, K: Matrix, G: Matrix, y: Vector, least: float) -> Vector:
        """With m rows more, by their values K (m, n) to the others and G (m, m): 2 m n^2.

        ``y`` are their rewards. Gives what M^-1 y gains, (n + m,). LinAlgError, and nothing changed, if a pivot is
        below ``least`` of its diagonal entry.
        """
        n, m = self.n, len(arms)
        c, Tc = np.empty((n, m)), np.zeros((n, m))
        k = np.ascontiguousarray(K.T)
        for chunk, rows in self._parts():
            part = c[chunk.low : chunk.low + rows] = chunk.times(k, rows)
            chunk.add_transposed(part, Tc)
        S = G - c.T @ c
        if not (S.diagonal() >= least * G.diagonal()).all():
            raise np.linalg.LinAlgError("few digits are certain")
        D = inverse_factor(S, least)
        new = np.empty((m, n + m))
        np.matmul(-D, Tc.T, out=new[:, :n])
        new[:, n:] = D
        z = D @ (y - self.z @ c)
        self._write(arms, new, y, z)
        return np.asarray(z @ new)

    def _write(self, arms: Indices, T: Matrix, y: Vector, z: Vector | None = None) -> None:
        """The next rows of T (m, n + m), of these arms."""
        n, m = self.n, len(arms)
        self._arms, self._z = room_for(self._arms, n + m), room_for(self._z, n + m)
        self._arms[n : n + m] = arms
        self._z[n : n + m] = T @ y if z is None else z
        self.log_det -= 2.0 * float(np.log(T[:, n:].diagonal()).sum())
        done = 0
        while done < m:
            at = n + done
            if at % HEIGHT == 0:
                room = (HEIGHT, at + HEIGHT) if at else (8, 8)  # memory that is not touched costs nothing
                self._chunks.append(Chunk.begun(at, self._arms[:at], np.zeros(room)))
            low = self._chunks[-1].low
            end = min(n + m, low + HEIGHT)
            chunk = self._chunks[-1]
            if end - low > len(chunk.W):  # the first chunk only
                W = np.zeros((min(HEIGHT, max(end, 2 * len(chunk.W))),) * 2)
                W[:at, :at] = chunk.W[:at, :at]
                chunk = self._chunks[-1] = chunk._replace(W=W)
            rows, new = slice(at - low, end - low), T[done : done + end - at, :end]
            chunk.W[rows, : chunk.first] = new[:, chunk.order]
            chunk.W[rows, chunk.first : end] = new[:, chunk.first :]
            if end == low + HEIGHT:  # full: its own columns are sorted in
                sorted_ = Chunk.begun(low, self._arms[:end], chunk.W)
                before = np.concatenate([chunk.order, np.arange(chunk.first, end)])
                place = np.empty(end, dtype=np.intp)
                place[before] = np.arange(end)
                self._chunks[-1] = sorted_._replace(W=chunk.W.take(place[sorted_.order], axis=1))
            done += end - at
        self.n = n + m

    def view(self) -> Chunked:
        """As it is now, sharing all memory: to be read only."""
        other = Chunked()
        other.n, other.log_det, other._arms, other._z = self.n, self.log_det, self._arms, self._z
        other._chunks = self._chunks.copy()
        return other

    def fork(self, y: Vector) -> Chunked:
        """With other rewards: n^2. What may still be written is copied."""
        other = self.view()
        other._arms = self._arms.copy()
        if other._chunks and self.n % HEIGHT:
            other._chunks[-1] = other._chunks[-1]._replace(W=other._chunks[-1].W.copy())
        other._z = np.array(self.times(y[:, None])[:, 0])
        return other

    # -- reading --------------------------------------------------------------------------------

    def times(self, k: Matrix) -> Matrix:
        """T k for k (n, c)."""
        return np.concatenate([chunk.times(k, m) for chunk, m in self._parts()]) if self.n else k

    def transposed(self, c: Matrix) -> Matrix:
        """T' c for c (n, c)."""
        out = np.zeros(c.shape)
        for chunk, m in self._parts():
            chunk.add_transposed(c[chunk.low : chunk.low + m], out)
        return out

    def explained(self, k: Matrix) -> Vector:
        """k' M^-1 k of each column of k (n, c)."""
        c = self.times(k)
        return np.asarray(np.einsum("ij,ij->j", c, c))

    def explained_by_arm(self, k_x: Matrix, K_Z: InForce, arms: Indices) -> Matrix:
        """The same of candidates of these arms that share the contexts of k_x (R, n), (R, k): one pass over T.

        k of candidate b is K_Z[b, a] k_x on arm a's rows, so T k = sum_a K_Z[b, a] V_a. It is summed before it is
        squared, since alike arms cancel; where K_Z is (1 - mu) I + mu 11' and u = sum_a V_a, it is
        mu u + (1 - mu) V_b, whose square is mu^2 u'u + 2 mu (1 - mu) u'V_b + (1 - mu)^2 V_b'V_b.
        """
        found = np.zeros((len(k_x), len(arms)))
        step = max(1, 2**19 // (HEIGHT * (len(np.unique(self.arms)) + len(arms))))
        for low in range(0, len(k_x), step):
            some = slice(low, low + step)
            for chunk, m in self._parts():
                present, V = chunk.by_arm(k_x[some], self.arms, m)
                if isinstance(K_Z, Common):
                    found[some] += _common(present, V, K_Z, arms)
                else:
                    c = K_Z[np.ix_(arms, present)] @ V
                    found[some] += np.einsum("rkt,rkt->rk", c, c)
        return found


def _common(present: Indices, V: Matrix, K_Z: Common, arms: Indices) -> Matrix:
    """|mu u + (1 - mu) V_b|^2 for each of ``arms``, (R, k)."""
    mu, u = K_Z.shared, V.sum(axis=1)
    by_arm = np.zeros((len(V), K_Z.n_arms))
    by_arm[:, present] = 2.0 * mu * (1.0 - mu) * np.einsum("rat,rt->ra", V, u)
    by_arm[:, present] += (1.0 - mu) ** 2 * np.einsum("rat,rat->ra", V, V)
    return np.asarray(by_arm[:, arms] + mu * mu * np.einsum("rt,rt->r", u, u)[:, None])
