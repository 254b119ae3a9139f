"""The kernel on pairs (arm, context), with the similarity in force.

Notation as in `contract`; ``K_Z`` is a similarity in force: a matrix, or `Common`, of which entries are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.contract import Common, Product, Query, Settings, Tracker
from kinbandits.regression.linalg import components

InForce = Matrix | Common


def entries(K_Z: InForce, arms: Indices, others: Indices) -> Matrix:
    """K_Z between these arms and those."""
    if isinstance(K_Z, Common):
        return np.where(arms[:, None] == others, 1.0, K_Z.shared)
    return K_Z.take(arms, axis=0).take(others, axis=1)


def diagonal(K_Z: InForce, arms: Indices) -> Vector:
    """K_Z of each of these arms with itself."""
    return np.ones(len(arms)) if isinstance(K_Z, Common) else np.asarray(K_Z.diagonal()[arms])


def times(K_Z: InForce, arms: Indices, by_arm: Vector) -> Vector:
    """sum over arms a of K_Z[b, a] by_arm[a], for each b of ``arms``."""
    if isinstance(K_Z, Common):
        return np.asarray(K_Z.shared * by_arm.sum() + (1.0 - K_Z.shared) * by_arm[arms])
    return np.asarray(K_Z[arms] @ by_arm)


def dense(K_Z: InForce) -> Matrix:
    """The matrix itself."""
    arms = np.arange(len(K_Z) if isinstance(K_Z, np.ndarray) else K_Z.n_arms)
    return K_Z if isinstance(K_Z, np.ndarray) else entries(K_Z, arms, arms)


def same_kernel(old: Settings, new: Settings) -> bool:
    """Whether kernel values between arms that both have are equal, all similarities being fixed."""
    if new.n_arms < old.n_arms or len(new.terms) != len(old.terms):
        return False
    for a, b in zip(old.terms, new.terms, strict=True):
        if isinstance(a.k_z, Common) and isinstance(b.k_z, Common):
            same = a.k_z.shared == b.k_z.shared
        else:
            both = isinstance(a.k_z, np.ndarray) and isinstance(b.k_z, np.ndarray)
            same = both and np.array_equal(a.k_z, b.k_z[: old.n_arms, : old.n_arms])  # type: ignore[arg-type, index]
        if not same or a.kernel != b.kernel or a.columns != b.columns:
            return False
    return True


class Pairs:
    """k((a, x), (b, x')) = sum over terms of K_Z[a, b] k_X(x, x'). Never changed."""

    def __init__(self, n_arms: int, terms: Sequence[Product], K_Zs: Sequence[InForce]) -> None:
        self.n_arms = n_arms
        self.terms = tuple(terms)
        self.K_Zs = list(K_Zs)
        self._common = [K for K in K_Zs if isinstance(K, Common)]
        self._kinds: Indices | None = None
        self._all_differ = False

    @classmethod
    def fixed(cls, settings: Settings) -> Pairs:
        """Of settings whose similarities are fixed."""
        K_Zs = [t.k_z for t in settings.terms if isinstance(t.k_z, np.ndarray | Common)]
        return cls(settings.n_arms, settings.terms, K_Zs)

    def gram(self, arms: Indices, A: Matrix, others: Indices, B: Matrix) -> Matrix:
        """The kernel between two sets of points."""
        return self.columns(arms, A, Query(others, B[None]))

    def columns(self, arms: Indices, contexts: Matrix, query: Query) -> Matrix:
        """k of all candidates, (t, R * k); a shared context is compared with the rows once."""
        (rounds, k), each, d = query.shape, *query.contexts.shape[1:]
        out, flat = np.zeros((len(arms), rounds, k)), query.contexts.reshape(rounds * each, d)
        for term, K_Z in zip(self.terms, self.K_Zs, strict=True) if out.size else ():  # kernels need not know emptiness
            values = term.kernel(term.select(contexts), term.select(flat)).reshape(len(arms), rounds, each)
            out += entries(K_Z, arms, query.arms)[:, None, :] * values
        return out.reshape(len(arms), rounds * k)

    def prior(self, query: Query) -> Matrix:
        """The kernel of each candidate with itself, (R, k)."""
        rounds, each, d = query.contexts.shape
        flat, prior = query.contexts.reshape(rounds * each, d), np.zeros(query.shape)
        for term, K_Z in zip(self.terms, self.K_Zs, strict=True):
            prior += diagonal(K_Z, query.arms) * term.kernel.diag(term.select(flat)).reshape(rounds, each)
        return prior

    def alike(self, arms: Indices, counts: Indices, explore: bool) -> tuple[Indices, Indices] | None:
        """With one context for all, arms of equal similarity to all arms with rows have equal numbers.

        One of each kind, and which stands for whom; None if all differ. ``explore``: the rule for a cold start.
        """
        if self._all_differ and counts.all():
            return None
        kinds, unplayed = self._of_kind()[arms], counts[arms] == 0
        if len(self._common) == len(self.K_Zs):  # an arm without rows is as far from all others
            kinds = np.where(unplayed, -1, kinds)
        kinds = 2 * kinds + unplayed if explore else kinds
        _, first, place = np.unique(kinds, return_index=True, return_inverse=True)
        return None if len(first) == len(arms) else (first, place.reshape(-1))

    def _of_kind(self) -> Indices:
        """A number for each arm (N,), the same where all similarities are."""
        if self._kinds is None:
            if any(K.shared != 1.0 for K in self._common):
                self._kinds = np.arange(self.n_arms)
            elif len(self._common) == len(self.K_Zs):
                self._kinds = np.zeros(self.n_arms, dtype=np.intp)
            else:
                rows = np.hstack([K for K in self.K_Zs if not isinstance(K, Common)])
                known: dict[bytes, int] = {}
                self._kinds = np.array([known.setdefault(row.tobytes(), len(known)) for row in rows])
            self._all_differ = len(set(self._kinds.tolist())) == self.n_arms
        return self._kinds

    def families(self) -> Indices:
        """Which family each arm is of: arms of different families have kernel 0, whoever stands between them."""
        if any(K.shared for K in self._common):
            return np.zeros(self.n_arms, dtype=np.intp)
        if len(self._common) == len(self.K_Zs):
            return np.arange(self.n_arms)
        return components(np.sum([np.abs(K) for K in self.K_Zs if not isinstance(K, Common)], axis=0))


class Followed:
    """The similarities in force, following the rows."""

    def __init__(self, settings: Settings, rows: History) -> None:
        self._settings, self._rows = settings, rows
        self._views: list[History | None] = []
        self._trackers: list[Tracker | None] = []
        for term in settings.terms:
            view = None
            if not term.fixed and term.columns is not None:
                view = History(settings.n_arms)
                view.append(rows.arms, term.select(rows.contexts) if len(rows) else rows.contexts, rows.rewards)
            self._views.append(view)
            fixed = isinstance(term.k_z, np.ndarray | Common)
            self._trackers.append(None if fixed else term.k_z.tracker(rows if view is None else view))  # type: ignore[union-attr]
        self._fixed = Pairs.fixed(settings) if settings.fixed else None

    def observe(self, start: int, squares: Vector | None = None) -> None:
        """Rows from ``start`` on are new. After a failure make another."""
        h = self._rows
        for term, view, tracker in zip(self._settings.terms, self._views, self._trackers, strict=True):
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
        terms = self._settings.terms
        K_Zs = [t.k_z if f is None else f.matrix for t, f in zip(terms, self._trackers, strict=True)]
        return Pairs(self._settings.n_arms, terms, K_Zs)  # type: ignore[arg-type]
