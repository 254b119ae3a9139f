"""The kernel on pairs (arm, context), with the similarity in force.

Notation as in `contract`; ``K_Z`` is a similarity in force: a matrix, or `Common`, of which entries are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.contract import Common, Product, Query, Settings, Tracker
from kinbandits.regression.linalg import components

InForce = Matrix | Common


def entries(K_Z: InForce, arms: Indices, others: Indices) -> Matrix:
    """K_Z between these arms and those."""
    if isinstance(K_Z, Common):
        return np.where(arms[:, None] == others, 1.0, K_Z.shared)
    return np.asarray(K_Z[np.ix_(arms, others)])


def diagonal(K_Z: InForce, arms: Indices) -> Vector:
    """K_Z of each of these arms with itself."""
    return np.ones(len(arms)) if isinstance(K_Z, Common) else np.asarray(K_Z.diagonal()[arms])


def times(K_Z: InForce, arms: Indices, by_arm: Matrix) -> Matrix:
    """sum over arms a of K_Z[b, a] by_arm[..., a], for each b of ``arms``."""
    if isinstance(K_Z, Common):
        total = K_Z.shared * by_arm.sum(axis=-1, keepdims=True)
        return np.asarray(total + (1.0 - K_Z.shared) * by_arm[..., arms])
    return np.asarray(by_arm @ K_Z[arms].T)


def dense(K_Z: InForce) -> Matrix:
    """The matrix itself."""
    if not isinstance(K_Z, Common):
        return K_Z
    matrix = np.full((K_Z.n_arms, K_Z.n_arms), K_Z.shared)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def same_kernel(old: Settings, new: Settings) -> bool:
    """Whether kernel values between arms that both have are equal, all similarities being fixed."""
    n = old.n_arms
    if new.n_arms < n or len(new.terms) != len(old.terms):
        return False
    for a, b in zip(old.terms, new.terms, strict=True):
        if a.kernel != b.kernel or a.columns != b.columns or isinstance(a.k_z, Common) != isinstance(b.k_z, Common):
            return False
        if isinstance(a.k_z, Common) and isinstance(b.k_z, Common):
            if a.k_z.shared != b.k_z.shared:
                return False
        elif not (isinstance(a.k_z, np.ndarray) and isinstance(b.k_z, np.ndarray)) or not np.array_equal(
            a.k_z, b.k_z[:n, :n]
        ):
            return False
    return True


class Pairs:
    """k((a, x), (b, x')) = sum over terms of K_Z[a, b] k_X(x, x'). Never changed."""

    def __init__(self, terms: Sequence[Product], K_Zs: Sequence[InForce]) -> None:
        self.terms = tuple(terms)
        self.K_Zs = list(K_Zs)
        self._all_differ: bool | None = None

    @classmethod
    def fixed(cls, settings: Settings) -> Pairs:
        """Of settings whose similarities are fixed."""
        return cls(settings.terms, [t.k_z for t in settings.terms if isinstance(t.k_z, np.ndarray | Common)])

    def gram(self, arms: Indices, A: Matrix, others: Indices, B: Matrix) -> Matrix:
        """The kernel between two sets of points."""
        K = np.zeros((len(A), len(B)))
        for term, K_Z in zip(self.terms, self.K_Zs, strict=True):
            K += entries(K_Z, arms, others) * term.kernel(term.select(A), term.select(B))
        return K

    def prior(self, arms: Indices, X: Matrix) -> Vector:
        """The kernel of each point with itself."""
        prior = np.zeros(len(X))
        for term, K_Z in zip(self.terms, self.K_Zs, strict=True):
            prior += diagonal(K_Z, arms) * term.kernel.diag(term.select(X))
        return prior

    def query_prior(self, query: Query) -> Matrix:
        """The same of every candidate, (R, k)."""
        rounds, each, d = query.contexts.shape
        flat, prior = query.contexts.reshape(rounds * each, d), np.zeros(query.shape)
        for term, K_Z in zip(self.terms, self.K_Zs, strict=True):
            own = term.kernel.diag(term.select(flat)).reshape(rounds, each)
            prior += diagonal(K_Z, query.arms) * own
        return prior

    def columns(self, arms: Indices, contexts: Matrix, query: Query) -> Matrix:
        """k of all candidates, (t, R * k); a shared context is compared with the rows once."""
        rounds, k = query.shape
        out = np.zeros((len(arms), rounds, k))
        flat = query.contexts.reshape(-1, query.contexts.shape[2])
        for term, K_Z in zip(self.terms, self.K_Zs, strict=True):
            values = term.kernel(term.select(contexts), term.select(flat)).reshape(len(arms), rounds, -1)
            out += entries(K_Z, arms, query.arms)[:, None, :] * values
        return out.reshape(len(arms), rounds * k)

    def alike(self, arms: Indices, counts: Indices, cold: Mask) -> tuple[Indices, Indices] | None:
        """With one context for all, arms of equal similarity to all arms with rows have equal numbers.

        One of each kind, and which stands for whom; None if all differ. Costs k where every K_Z is `Common`.
        """
        if all(isinstance(K, Common) for K in self.K_Zs):
            if all(isinstance(K, Common) and K.shared == 1.0 for K in self.K_Zs):
                _, first, place = np.unique(cold, return_index=True, return_inverse=True)
                return first, place.reshape(-1)
            unplayed = counts[arms] == 0
            one = int(unplayed.argmax())  # stands for all arms without rows
            keep = ~unplayed
            keep[one] = True
            place = np.cumsum(keep) - 1
            place[unplayed] = place[one]
            return None if keep.all() else (np.flatnonzero(keep), place)
        if self._all_differ is None:
            rows = np.hstack([dense(K) for K in self.K_Zs])
            self._all_differ = len({row.tobytes() for row in rows}) == len(rows)
        if self._all_differ:
            return None
        rows = np.hstack([*(dense(K)[arms] for K in self.K_Zs), cold[:, None]])
        _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return first, place.reshape(-1)

    def families(self, n_arms: int) -> Indices:
        """Which family each arm is of: arms of different families have kernel 0, whoever stands between them."""
        common = [K for K in self.K_Zs if isinstance(K, Common)]
        if any(K.shared for K in common):
            return np.zeros(n_arms, dtype=np.intp)
        if len(common) == len(self.K_Zs):
            return np.arange(n_arms)
        return components(np.sum([np.abs(K) for K in self.K_Zs if not isinstance(K, Common)], axis=0))


class Followed:
    """The similarities in force, following the rows."""

    def __init__(self, settings: Settings, rows: History) -> None:
        self._terms, self._rows = settings.terms, rows
        self._views: list[History | None] = [None] * len(self._terms)
        self._trackers: list[Tracker | None] = [None] * len(self._terms)
        for i, term in enumerate(self._terms):
            if isinstance(term.k_z, np.ndarray | Common):
                continue
            view = rows
            if term.columns is not None:
                view = self._views[i] = History(settings.n_arms)
                view.append(rows.arms, term.select(rows.contexts) if len(rows) else rows.contexts, rows.rewards)
            self._trackers[i] = term.k_z.tracker(view)
        self._fixed = Pairs.fixed(settings) if settings.fixed else None

    def observe(self, start: int, squares: Vector | None = None) -> None:
        """Rows from ``start`` on are new. After a failure make another."""
        h = self._rows
        for term, view, tracker in zip(self._terms, self._views, self._trackers, strict=True):
            if tracker is None:
                continue
            if view is not None:
                view.append(h.arms[start:], term.select(h.contexts[start:]), h.rewards[start:])
            tracker.observe(start, squares if view is None else None)

    @property
    def pairs(self) -> Pairs:
        """With the similarities as they are now."""
        if self._fixed is not None:
            return self._fixed
        found: list[InForce] = []
        for term, tracker in zip(self._terms, self._trackers, strict=True):
            if tracker is not None:
                found.append(tracker.matrix)
            else:
                assert isinstance(term.k_z, np.ndarray | Common)
                found.append(term.k_z)
        return Pairs(self._terms, found)
