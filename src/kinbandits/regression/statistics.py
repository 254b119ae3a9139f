"""Sums over all rows, in constant memory: what the budgeted engine knows of the rows it no longer has.

Notation (m slots of the dictionary; g a group of rows: one arm, or all rows at once)
    kappa    (Q, m)           values of a row at the dictionary, one line per feature kind
    S        (G, Q, Q, m, m)  S[g, p, q] = sum over rows of g of weight * kappa_p kappa_q'
    v        (N, Q, m)        v[a, p] = sum over rows of arm a of weight * reward * kappa_p
    scale    all sums are scale times what is stored: forgetting multiplies this one number

The sums depend on neither the similarity nor the row weights when the groups are arms and kappa are plain kernel
values (S is then N matrices). With a fixed similarity and uniform weights one group of the full kernel's values is
enough ("pooled"), which is what makes a thousand arms possible.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.inverse import add_outer, move_last

_SMALLEST_SCALE = 1e-60


class Statistics:
    """S and v, in buffers of fixed capacity."""

    def __init__(self, n_arms: int, kinds: int, capacity: int, *, pooled: bool) -> None:
        self.pooled = pooled
        self.S: Matrix = np.zeros((1 if pooled else n_arms, kinds, kinds, capacity, capacity))
        self.v: Matrix = np.zeros((n_arms, kinds, capacity))
        self._scratch: Matrix = np.empty(capacity * capacity)
        self.scale = 1.0
        self.size = 0

    def add(self, arm: int, kappa: Matrix, reward: float, weight: float) -> None:
        """One row more (``weight`` in stored units), or one less with a negative weight. Costs m^2."""
        n = self.size
        group = 0 if self.pooled else arm
        for p, left in enumerate(kappa):
            for q, right in enumerate(kappa):
                add_outer(self.S[group, p, q, :n, :n], weight * left, right, self._scratch)
        self.v[arm, :, :n] += weight * reward * kappa

    def forget(self, decay: float) -> float:
        """Multiply all sums by ``decay``; gives what stored weights are to be multiplied by (nearly always 1)."""
        self.scale *= decay
        if self.scale > _SMALLEST_SCALE:
            return 1.0
        factor, self.scale = self.scale, 1.0
        self.S *= factor
        self.v *= factor
        return factor

    def remove(self, j: int) -> None:
        """The dictionary loses slot j. Exact: the other sums do not depend on it."""
        self.size -= 1
        move_last(self.S, j, self.size, axes=(3, 4))
        move_last(self.v, j, self.size, axes=(2,))

    def border(
        self,
        projections: Matrix,
        errors: Matrix,
        kappa: Matrix,
        arms: Indices,
        rewards: Vector,
        weights: Vector,
    ) -> None:
        """The dictionary gains a slot. Costs G m^2 + (rows kept) m.

        A row's value at the new slot is projection . kappa + error; the error is known for the rows kept and taken
        as zero for the older ones, which is their projection on the span of the dictionary. So the new line is
        projection' S + sum over kept rows of weight * error * kappa': exact for the rows kept.

        Args:
            projections: (Q, m) one line per kind.
            errors: (Q, rows) of the rows kept.
            kappa: (Q, rows, m) of the rows kept.
            arms, rewards, weights: (rows,) of the rows kept.
        """
        n = self.size
        kinds = len(projections)
        by_arm = _Sums(arms, len(self.v))

        def per_group(factors: Vector, values: Matrix) -> Matrix:
            return (factors @ values)[None] if self.pooled else by_arm(factors, values)

        projected = [k @ z for k, z in zip(kappa, projections, strict=True)]  # projection . kappa of the rows kept
        lines = np.empty((len(self.S), kinds, kinds, n))
        corners = np.empty((len(self.S), kinds, kinds))
        ones = np.ones((len(arms), 1))
        for p in range(kinds):
            we = weights * errors[p]
            for q in range(kinds):
                line = projections[p] @ self.S[:, p, q, :n, :n]
                cross = we * (projected[q] + errors[q]) + weights * projected[p] * errors[q]
                lines[:, p, q] = line + per_group(we, kappa[q])
                corners[:, p, q] = line @ projections[q] + per_group(cross, ones)[:, 0]
            self.v[:, p, n] = self.v[:, p, :n] @ projections[p] + by_arm(we * rewards, ones)[:, 0]
        for p in range(kinds):
            for q in range(kinds):
                self.S[:, p, q, n, :n] = lines[:, p, q]
                self.S[:, q, p, :n, n] = lines[:, p, q]
                self.S[:, p, q, n, n] = corners[:, p, q]
        self.size = n + 1

    def system(self, q: Matrix, weights: Vector) -> tuple[Matrix, Vector]:
        """S~ = sum over arms of weights_a sum_pr (q_ap q_ar') * S[a, p, r], and the like of v. q is (N, Q, m).

        Pooled sums need neither: they are S~ and v~ already.
        """
        n = self.size
        if self.pooled:
            return self.scale * self.S[0, 0, 0, :n, :n], self.scale * self.v[:, 0, :n].sum(axis=0)
        S, v = np.zeros((n, n)), np.zeros(n)
        for a in np.flatnonzero(weights):
            for p in range(q.shape[1]):
                left = weights[a] * q[a, p]
                v += left * self.v[a, p, :n]
                for r in range(q.shape[1]):
                    S += self.S[a, p, r, :n, :n] * np.outer(left, q[a, r])
        return self.scale * S, self.scale * v

    def line(self, j: int, q: Matrix, weights: Vector) -> tuple[Vector, float]:
        """Line j of what `system` gives, (m,), and its entry of v~. Costs N m."""
        n = self.size
        if self.pooled:
            return self.scale * self.S[0, 0, 0, j, :n], self.scale * float(self.v[:, 0, j].sum())
        left = weights[:, None] * q[:, :, j]
        S = np.einsum("gp,gprn,grn->n", left, self.S[:, :, :, j, :n], q)
        return self.scale * S, self.scale * float((left * self.v[:, :, j]).sum())

    def with_arm(self) -> None:
        """One arm more, without rows."""
        self.v = np.concatenate([self.v, np.zeros((1, *self.v.shape[1:]))])
        if not self.pooled:
            self.S = np.concatenate([self.S, np.zeros((1, *self.S.shape[1:]))])

    def without_arm(self, arm: int) -> None:
        """An arm and its rows leave (pooled sums must have been rid of them before)."""
        self.v = np.delete(self.v, arm, axis=0)
        if not self.pooled:
            self.S = np.delete(self.S, arm, axis=0)

    def to_arrays(self) -> dict[str, Matrix]:
        """What a saved file holds."""
        n = self.size
        return {"S": self.S[..., :n, :n], "v": self.v[..., :n], "scale": np.array(self.scale)}

    def restore(self, arrays: dict[str, Matrix]) -> None:
        """From what `to_arrays` gave."""
        self.size = n = arrays["v"].shape[-1]
        self.S[..., :n, :n], self.v[..., :n] = arrays["S"], arrays["v"]
        self.scale = float(arrays["scale"])


class _Sums:
    """Weighted sums of rows, arm by arm."""

    def __init__(self, arms: Indices, n_arms: int) -> None:
        self._n_arms = n_arms
        self._few = n_arms <= 64
        if self._few:
            self._indicator = (arms == np.arange(n_arms)[:, None]).astype(np.float64)
        else:
            self._order = np.argsort(arms, kind="stable")
            self._present, self._starts = np.unique(arms[self._order], return_index=True)

    def __call__(self, factors: Vector, values: Matrix) -> Matrix:
        """(N, columns): sum over rows of each arm of factor * values."""
        if self._few:
            return np.asarray((self._indicator * factors) @ values)
        sums = np.zeros((self._n_arms, values.shape[1]))
        if len(self._present):
            products = factors[self._order, None] * values[self._order]
            sums[self._present] = np.add.reduceat(products, self._starts, axis=0)
        return sums
