"""Sums over all rows, in constant memory: what the budgeted engine knows of the rows it no longer has.

Notation (m slots of the dictionary; g a group of rows: one arm, or all rows at once)
    kappa    (Q, m)           of a row, as in `points`
    S        (G, Q, Q, m, m)  S[g, p, q] = sum over rows of g of weight * kappa_p kappa_q'
    v        (N, Q, m)        v[a, p] = sum over rows of arm a of weight * reward * kappa_p
    scale    all sums are scale times what is stored: forgetting multiplies this one number

Where kappa are plain context-kernel values, the groups are arms, and the sums depend on neither the similarity nor
the row weights. Where kappa is the full kernel (it never changes and neither do the weights), there is one group,
"joint": S is S~ already, and a thousand arms need no more than ten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.errors import InvalidInputError
from kinbandits.regression.base import RegressionSettings
from kinbandits.regression.linalg.inverse import move_last

_SMALLEST_SCALE = 1e-60
MOST_SUMS = 2**25  # numbers kept per arm in all (256 MB)


class Rows(NamedTuple):
    """The rows kept: arms, rewards and stored weights (rows,), kappa (Q, rows, m)."""

    arms: Indices
    rewards: Vector
    weights: Vector
    kappa: Matrix


class Sums:
    """S and v, in buffers of fixed capacity."""

    def __init__(self, n_arms: int, kinds: int, capacity: int, *, joint: bool) -> None:
        self.joint = joint
        self.S: Matrix = np.zeros((1 if joint else n_arms, kinds, kinds, capacity, capacity))
        self.v: Matrix = np.zeros((n_arms, kinds, capacity))
        self.scale = 1.0
        self.size = 0

    def add_block(self, rows: Rows) -> None:
        """Rows more, at once; or fewer, with negative weights."""
        self.add_rewards(self.v, rows)
        for group, mine in self._groups(rows.arms):
            self._add_group(group, rows.kappa[:, mine], rows.weights[mine])

    def add_rewards(self, v: Matrix, rows: Rows) -> None:
        """Their part of v, into this array."""
        for arm in np.unique(rows.arms):
            mine = rows.arms == arm
            v[arm, :, : self.size] += (rows.weights[mine] * rows.rewards[mine]) @ rows.kappa[:, mine]

    def _add_group(self, group: int, kappa: Matrix, weights: Vector) -> None:
        n = self.size
        for p, left in enumerate(kappa):
            for q, right in enumerate(kappa):
                self.S[group, p, q, :n, :n] += (left * weights[:, None]).T @ right

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

    def put(self, slots: Indices, z: Matrix, at_new: Matrix, errors: Matrix, rows: Rows) -> None:
        """New points in these slots: the next one, or those of points that leave. G m^2 b + (rows kept) m b.

        A row's kappa at a new point is z'kappa + error; the error is known for the rows kept and taken as zero for
        the older ones, which is their projection on the span of the dictionary. So the new line of S is z'S + sum
        over kept rows of weight * error * kappa': exact for the rows kept.

        ``z`` (Q, b, m) is 0 at ``slots``; ``at_new`` (Q, b, rows) is kappa of the rows kept at the new points,
        ``errors`` what of it is not z'kappa.
        """
        n, kinds = self.size, len(z)
        S, v = self.S[..., :n, :n], self.v
        lines = np.array([[z[p] @ S[:, p, q] for q in range(kinds)] for p in range(kinds)])  # (Q, Q, G, b, n)
        corners = np.stack([lines[:, q] @ z[q].T for q in range(kinds)], axis=1)  # (Q, Q, G, b, b)
        projected = at_new - errors
        new_v = np.stack([v[:, p, :n] @ z[p].T for p in range(kinds)])  # (Q, N, b)
        for arm in np.unique(rows.arms):
            mine = rows.arms == arm
            new_v[:, arm] += (errors[:, :, mine] * rows.weights[mine]) @ rows.rewards[mine]
        for group, mine in self._groups(rows.arms):
            kappa = rows.kappa[:, mine, :n]
            weighted = errors[:, :, mine] * rows.weights[mine]
            for p in range(kinds):
                for q in range(kinds):
                    lines[p, q, group] += weighted[p] @ kappa[q]
                    corners[p, q, group] += weighted[p] @ at_new[q][:, mine].T
                    corners[p, q, group] += (projected[p][:, mine] * rows.weights[mine]) @ errors[q][:, mine].T
        self.size = max(n, int(slots[0]) + 1)
        for p in range(kinds):
            for q in range(kinds):
                self.S[:, p, q, slots, :n] = lines[p, q]
                self.S[:, q, p, :n, slots] = np.moveaxis(lines[p, q], 1, 0)
        for p in range(kinds):
            for q in range(kinds):
                self.S[:, p, q, slots[:, None], slots] = corners[p, q]
            v[:, p, slots] = new_v[p]

    def _groups(self, arms: Indices) -> list[tuple[int, Mask | slice]]:
        """Which of the rows count in which group."""
        if self.joint:
            return [(0, slice(None))]
        return [(int(arm), arms == arm) for arm in np.unique(arms)]

    def system(self, q: Matrix, weights: Vector) -> tuple[Matrix, Vector]:
        """S~ = sum over arms of weights_a sum_pr (q_ap q_ar') * S[a, p, r], and the like of v. q is (N, Q, m)."""
        n = self.size
        if self.joint:
            return self.scale * self.S[0, 0, 0, :n, :n], self.scale * self.v[:, 0, :n].sum(axis=0)
        S, v = np.zeros((n, n)), np.zeros(n)
        for a in np.flatnonzero(weights):
            part = self.system_of(int(a), q, float(weights[a]))
            S += part[0]
            v += part[1]
        return S, v

    def system_of(self, arm: int, q: Matrix, weight: float) -> tuple[Matrix, Vector]:
        """The part of S~ and v~ that comes from the rows of an arm. Not of the full kernel."""
        n = self.size
        S, v = np.zeros((n, n)), np.zeros(n)
        for p, left in enumerate(weight * self.scale * q[arm]):
            v += left * self.v[arm, p, :n]
            for r, right in enumerate(q[arm]):
                S += left[:, None] * self.S[arm, p, r, :n, :n] * right
        return S, v

    def lines(self, slots: Indices, q: Matrix, weights: Vector) -> tuple[Matrix, Vector]:
        """Lines of what `system` gives, (b, m), and the entries of v~. Costs N m b."""
        n = self.size
        if self.joint:
            return self.scale * self.S[0, 0, 0, slots, :n], self.scale * self.v[:, 0, slots].sum(axis=0)
        left = weights[:, None, None] * q[:, :, slots]
        S = np.einsum("gpb,gprbn,grn->bn", left, self.S[:, :, :, slots, :n], q)
        return self.scale * S, self.scale * np.einsum("gpb,gpb->b", left, self.v[:, :, slots])

    def times(self, u: Matrix, q: Matrix, weights: Vector) -> Matrix:
        """u S~ for rows u (b, m), S~ as of `system`. Costs N m^2 b, or m^2 b."""
        n = self.size
        if self.joint:
            return np.asarray(self.scale * (u @ self.S[0, 0, 0, :n, :n]))
        total = np.zeros(u.shape)
        for a in np.flatnonzero(weights):
            for p, left in enumerate(q[a]):
                for r, right in enumerate(q[a]):
                    total += weights[a] * (((u * left) @ self.S[a, p, r, :n, :n]) * right)
        return np.asarray(self.scale * total)

    def with_arm(self) -> None:
        self.v = np.concatenate([self.v, np.zeros((1, *self.v.shape[1:]))])
        if not self.joint:
            self.S = np.concatenate([self.S, np.zeros((1, *self.S.shape[1:]))])

    def without_arm(self, arm: int) -> None:
        """An arm and its rows leave (pooled sums must have been rid of them before)."""
        self.v = np.delete(self.v, arm, axis=0)
        if not self.joint:
            self.S = np.delete(self.S, arm, axis=0)

    def to_arrays(self) -> dict[str, Matrix]:
        n = self.size
        return {"S": self.S[..., :n, :n], "v": self.v[..., :n], "scale": np.array(self.scale)}

    def restore(self, arrays: dict[str, Matrix]) -> None:
        self.size = n = arrays["v"].shape[-1]
        self.S[..., :n, :n], self.v[..., :n] = arrays["S"], arrays["v"]
        self.scale = float(arrays["scale"])


def changing(settings: RegressionSettings) -> bool:
    """Whether similarity or weights change with the data, so that sums must be kept per arm."""
    return settings.weighting == "per_arm" or not all(t.similarity.fixed for t in settings.terms)


def is_joint(settings: RegressionSettings, n_arms: int) -> bool:
    """Whether sums are of the full kernel, of all arms together; else of context kernels, per arm (graphs, too)."""
    per_arm = n_arms * (len(settings.terms) * settings.budget) ** 2
    if changing(settings):
        if per_arm > MOST_SUMS:
            raise InvalidInputError(
                f"points={settings.budget} with {n_arms} arms needs {per_arm * 8 / 2**30:.1f} GB of sums per arm, "
                "because the similarity or the weights change with the data; use "
                f"points={largest_budget(settings, n_arms)} or less, or a similarity that is known with "
                'weighting="uniform"'
            )
        return False
    graph = any(t.similarity.arm_argument == "neighbours" for t in settings.terms)
    return not (graph and per_arm <= MOST_SUMS)


def largest_budget(settings: RegressionSettings, n_arms: int, sums: int = MOST_SUMS) -> int:
    """The most points there can be with that many numbers per arm: no limit, unless sums are kept per arm."""
    if not changing(settings):
        return 2**31
    return max(1, int((sums / n_arms) ** 0.5 / len(settings.terms)))
