"""A dictionary of (arm, context) points that stands for all rows (Nystrom): constant cost, constant memory.

For similarities that do not change and uniform weights. Sums over rows are kept at the points alone. Notation as in
`contract`, `inverses`; besides, for n points, m at most
    arms, contexts, K  of the points
    k        (n,)          kernel values of a row, or candidate, at the points
    S, v     (n, n), (n,)  sums over rows of k k' and of y k
    ones     (n,)          sum over rows of k: with it v follows another level and unit
    delta    prior - k' P k, the Nystrom residual of a row: the variance that the dictionary cannot see
    mean     k'w
    variance delta + ridge k' A k: the residual stays in, or exploration would starve

With all rows in the dictionary this is the exact posterior. Rows enter one by one: k k' is a rank-one change, n^2;
S follows some rows later, together. While there is room, a row whose residual exceeds a twentieth of the ridge
becomes a point at once, some n^2. When the dictionary is full, every m / 4 rows up to m / 8 of these take the places
of points that would be missed less (`exchange`). The inverses are computed anew from the sums as often, n^3: some
m^2 a row, and rounding does not add up. When a point leaves, the others' sums are untouched.

Who owns what: this file the points and their sums, `Inverses` what is read, `Recent` the last rows, `Sample` rows
spread over all time, from which the dictionary is built anew where sums cannot follow a change.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.errors import BudgetWarning, InvalidInputError
from kinbandits.history import History
from kinbandits.regression.contract import Common, Query, Settings, State
from kinbandits.regression.dictionary.build import PointSet, Sums, choose_points, novel, sums
from kinbandits.regression.dictionary.exchange import newcomers, sums_at
from kinbandits.regression.dictionary.inverses import LATE, Inverses
from kinbandits.regression.dictionary.rows import Recent, Sample
from kinbandits.regression.pairs import Followed, Pairs, entries, same_kernel
from kinbandits.regression.posterior import Posterior

_BATCH = 256  # rows at most that are looked at together as newcomers
TOO_BLIND = 0.1  # of the prior variance: a mean residual above this and the budget is too small
_ARRAYS = ("arms", "contexts", "S", "v", "ones")  # of the points
_NUMBERS = ("capacity", "swaps", "rebuilt_from", "_n", "squares", "_next_check")


class Dictionary(Posterior):
    """At most ``capacity`` points, whatever the number of rows."""

    def __init__(
        self,
        settings: Settings,
        capacity: int,
        rows: History,
        points: PointSet | None = None,
        known: Sums | None = None,
    ) -> None:
        """Learned from one row or more, at once: exact sums at points chosen among them.

        Or ``known`` sums at given points; ``rows`` are some of their rows then.
        """
        check(settings)
        self.settings, self.capacity = settings, capacity
        self.pairs = Pairs.fixed(settings)
        points = choose_points(settings, rows, capacity) if points is None else points
        total = sums(settings, points, rows) if known is None else known
        self.size = len(points.arms)
        self.arms, self.contexts = points
        self.K = self.pairs.gram(*points, *points)
        self.S, self.v, self.ones = total.S.copy(), total.v.copy(), total.ones.copy()
        self._counts, self._n = total.counts.astype(np.intp), total.n + (rows.forgotten if known is None else 0)
        self.squares = total.squares  # sum of squares of what was learned
        self._waiting: list[float] = []  # y - mean of the last rows, which may take the places of points
        self._unsummed = self.swaps = 0
        self._next_check = 2 * capacity
        self._asked: tuple[bytes, list[Matrix]] | None = None  # the context last asked for, and its k_X
        self.rebuilt_from: int | None = None
        limit = max(min(2 * capacity, 1024), 256)
        last = rows.taken(np.arange(max(0, len(rows) - limit), len(rows)))
        k = self.pairs.gram(last.arms, last.contexts, *points) if len(last) else self.K[:0]
        self.recent = Recent(last, k, limit, capacity)
        self._sample = Sample.of(rows)
        self.refresh()

    @property
    def n_rows(self) -> int:
        return self._n

    @property
    def counts(self) -> Indices:
        return self._counts

    @property
    def rows(self) -> History:
        """All rows, or a sample of them that says how many are left out."""
        return self._sample.rows

    @property
    def n_terms(self) -> int:
        return self.size

    # -- learning -------------------------------------------------------------------------------

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector) -> None:
        self._check_learns()
        if self._n + len(arms) >= self._next_check and self.size == self.capacity:
            self._warn_if_blind()  # before, so that a warning which is made an error leaves nothing behind
            self._next_check = 2 * (self._n + len(arms))
        pupil = self if len(arms) < 2 else copy.deepcopy(self)  # kernels fail before a single row changes anything
        for i in range(len(arms)):
            pupil._learn(arms[i : i + 1], contexts[i : i + 1], rewards[i : i + 1])
        pupil._sample.append(arms, contexts, rewards)
        self.__dict__.update(pupil.__dict__)

    def _learn(self, arms: Indices, X: Matrix, rewards: Vector) -> None:
        """A row."""
        if len(self._waiting) >= max(LATE, min(self.capacity // 4, _BATCH)):
            self._exchange()
        y, recent, full = float(self.settings.learned(rewards)[0]), self.recent, self.size == self.capacity
        recent.make_room()
        k, column = self._at(arms, X)[0], None
        if not full:
            prior = self.pairs.prior(Query(arms, X[None]))[0]
            if prior[0] - float(k @ self.inverses.P @ k) > novel(self.settings, prior)[0]:
                column = np.zeros((1, len(recent.rows) + 1))
                column[0, -1] = prior[0]
                if len(recent.rows):
                    column[:, :-1] = self.pairs.gram(arms, X, recent.rows.arms, recent.rows.contexts)
        # From here on no kernel is asked.
        self._counts[arms] += 1
        self._n += 1
        self.squares += y * y
        self._unsummed += 1
        recent.append(arms, X, rewards, k)
        if full:
            self._waiting.append(y - float(k @ self.inverses.w))
        sound = self.inverses.add(k, y)
        if column is not None:
            self._enter(column)
        elif not sound or self._unsummed >= self.recent.limit // 4:
            self.refresh()

    def _sum_up(self) -> None:
        """The rows that came since the last time enter the sums."""
        if self._unsummed:
            last = slice(len(self.recent.rows) - self._unsummed, None)
            k = self.recent.k(self.size)[last]
            self.S += k.T @ k
            self.v += self.settings.learned(self.recent.rows.rewards[last]) @ k
            self.ones += k.sum(axis=0)
            self._unsummed = 0

    def refresh(self) -> None:
        """The inverses anew from the sums: n^3."""
        self._sum_up()
        self.inverses = Inverses(self.settings.ridge, self.K, self.S, self.v)

    def _enter(self, column: Matrix) -> None:
        """The last row becomes one point more; ``column`` (1, rows kept) are its kernel values."""
        self._sum_up()
        recent, inverses, n = self.recent, self.inverses, self.size
        k, own = recent.k(n)[-1:], column[0, -1]
        u = inverses.P @ k[0]
        left = float(own - k[0] @ u)
        if not left > 0.5 * novel(self.settings, np.array([own]))[0]:
            return  # no gain: other points already say the same
        off = np.abs(u @ self.K - k[0]).max(initial=0.0)
        line, corner, v, ones = sums_at(self, k, column, np.empty(0, dtype=np.intp))
        s12 = line[0] - u @ self.S
        s22 = float(corner[0, 0] - line[0] @ u - u @ s12)
        self.arms = np.append(self.arms, recent.rows.arms[-1])
        self.contexts = np.concatenate([self.contexts, recent.rows.contexts[-1:]])
        self.K = np.block([[self.K, k.T], [k, np.array([[own]])]])
        self.S = np.block([[self.S, line.T], [line, corner]])
        self.v, self.ones = np.append(self.v, v), np.append(self.ones, ones)
        self.size, self._asked = n + 1, None
        recent.set_points(np.array([n]), column)
        inverses.border(u, left, s12, s22, float(v[0]))
        if off > 1e-7 * np.abs(k).max(initial=0.0) or self.size == self.capacity:
            self.refresh()

    def _exchange(self) -> None:
        """Of the rows that wait, those that are missed more than points take their places."""
        which, places = newcomers(self, np.array(self._waiting), max(8, len(self._waiting) // 2))
        recent, rows = self.recent, self.recent.rows
        new = PointSet(rows.arms[which], rows.contexts[which])
        columns = self.pairs.gram(*new, rows.arms, rows.contexts)
        # From here on no kernel is asked.
        self._sum_up()
        self._waiting = []
        if len(which):
            k = recent.k(self.size)[which]
            lines, corner, self.v[places], self.ones[places] = sums_at(self, k, columns, places)
            for M, line, block in ((self.K, k, columns[:, which]), (self.S, lines, corner)):
                M[places], M[:, places] = line, line.T
                M[places[:, None], places] = block
            self.arms, self.contexts, self._asked = self.arms.copy(), self.contexts.copy(), None
            self.arms[places], self.contexts[places] = new
            recent.set_points(places, columns)
            self.swaps += len(which)
        self.refresh()

    def _at(self, arms: Indices, X: Matrix) -> Matrix:
        """k (rows, n) of these arms in one context; its context-kernel values are kept for the row that may follow."""
        key = X.tobytes()
        if self._asked is None or self._asked[0] != key:
            self._asked = key, [t.kernel(t.select(X), t.select(self.contexts)) for t in self.pairs.terms]
        k = np.zeros((len(arms), self.size))
        for K_Z, values in zip(self.pairs.K_Zs, self._asked[1], strict=True):
            k += entries(K_Z, arms, self.arms) * values
        return k

    def _moments(self, query: Query, prior: Matrix) -> tuple[Matrix, Matrix]:
        if query.contexts.shape[:2] == (1, 1) and not self.reads_only:
            k = self._at(query.arms, query.contexts[0])
        else:
            k = self.pairs.columns(self.arms, self.contexts, query).T
        variance = prior - self.settings.ridge * self.inverses.forms(k).reshape(query.shape)
        return (k @ self.inverses.w).reshape(query.shape), variance

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        k = self.pairs.gram(arms, contexts, self.arms, self.contexts)
        gram = self.pairs.gram(arms, contexts, arms, contexts)
        return np.asarray(gram - self.settings.ridge * self.inverses.between(k))

    def dual(self) -> tuple[Indices, Matrix, Vector]:
        return self.arms, self.contexts, self.inverses.w

    def log_det(self) -> float:
        """That of the rows as the dictionary sees them."""
        return self.inverses.log_det() if self.size else 0.0

    def snapshot(self) -> Self:
        other = super().snapshot()
        other._counts = self._counts.copy()
        self.inverses.write()
        other.inverses, other._sample = copy.copy(self.inverses), self._sample.copy()
        return other

    def _blindness(self) -> tuple[float, float]:
        """Which share of the prior variance of rows (the last ones, 500 at most) it cannot see; the largest delta."""
        rows = self.recent.rows
        last = slice(max(0, len(rows) - 500), None)
        k = self.recent.k(self.size)[last]
        prior = self.pairs.prior(Query(rows.arms[last], rows.contexts[None, last]))[0]
        delta = prior - np.einsum("ij,ij->i", k @ self.inverses.P, k)
        return max(0.0, float(delta.sum() / max(float(prior.sum()), 1e-300))), float(delta.max())

    def _warn_if_blind(self) -> None:
        if (share := self._blindness()[0]) > TOO_BLIND:
            warnings.warn(
                f"the dictionary of {self.capacity} points cannot see {100.0 * share:.0f} % of the prior variance of "
                f"the rows: means are poor and widths stay large. Try {2 * self.capacity} points, or a wider kernel",
                BudgetWarning,
                stacklevel=3,
            )

    def report(self) -> dict[str, Any]:
        about = {"method": "dictionary", "budget": self.capacity, "points": self.size, "rows": self._n}
        about |= {"rebuilt_from": self.rebuilt_from, "swaps": self.swaps}
        if not self.size:
            return about
        share, largest = self._blindness()
        advice = f"try {2 * self.capacity} points" if share > TOO_BLIND else ""
        return about | {"largest_residual": largest, "blindness": share, "advice": advice}

    def changed(self, settings: Settings, *, rows: History | None = None, removed: int | None = None) -> Dictionary:
        """Ridge, level, unit and new arms follow from the sums; else all is built anew from a sample."""
        settings = self._settled(settings, removed)
        check(settings)
        if rows is not None and len(rows):
            return Dictionary(settings, self.capacity, rows)
        counts = self._counts if removed is None else np.delete(self._counts, removed)
        counts = np.append(counts, np.zeros(settings.n_arms - len(counts), dtype=np.intp))
        if removed is not None or not same_kernel(self.settings, settings):
            sample = self._sample.rows
            sample = sample.copy(settings.n_arms) if removed is None else sample.without_arm(removed)
            none = PointSet(sample.arms[:0], self.contexts[:0])
            other = Dictionary(settings, self.capacity, sample, None if len(sample) else none)
            other.rebuilt_from = len(sample)
            other._n = int(counts.sum())
            other._sample.seen, other._sample.rate = max(other._n, len(sample)), self._sample.rate
        else:
            other = copy.deepcopy(self)
            other.reads_only, old = False, self.settings
            other._sum_up()
            other.settings, other.pairs, other._waiting = settings, Pairs.fixed(settings), []
            other._sample.rows.n_arms = settings.n_arms
            other.v = (other.v * old.unit + (old.level - settings.level) * other.ones) / settings.unit
            kept = settings.learned(other.recent.rows.rewards)
            other.squares = float(kept @ kept) / len(kept) * self._n
            other.refresh()
        other._counts = counts
        return other

    def _settled(self, settings: Settings, removed: int | None) -> Settings:
        """With the similarities in force in the places of estimated ones; of other arms, as the sample has them."""
        known = len(settings.terms) == len(self.settings.terms) and removed is None
        if not settings.fixed and known and settings.n_arms == self.settings.n_arms:
            pairs = zip(settings.terms, self.settings.terms, strict=True)
            return replace(settings, terms=tuple(a if a.fixed else replace(a, k_z=b.k_z) for a, b in pairs))
        return settled(settings, self.rows.copy(settings.n_arms) if removed is None else self.rows.without_arm(removed))

    def state(self) -> State:
        """The inverses are not saved but computed anew on both sides, so that both go on alike."""
        self.refresh()
        self.recent.trim()
        data = {"kind": "dictionary"} | {name.strip("_"): getattr(self, name) for name in _NUMBERS}
        data |= {"seen": self._sample.seen, "rate": self._sample.rate}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {
            "counts": self._counts,
            "waiting": np.array(self._waiting),
            "numbers": np.array(self._sample.numbers),
        }
        for name, rows in (("recent", self.recent.rows), ("sample", self._sample.rows)):
            arrays |= {f"{name}_arms": rows.arms, f"{name}_contexts": rows.contexts, f"{name}_rewards": rows.rewards}
        arrays |= {f"k_z_{i}": K for i, K in enumerate(self.pairs.K_Zs) if not isinstance(K, Common)}
        return data, {k: a.astype(np.int64) if a.dtype.kind == "i" else a for k, a in arrays.items()}

    @classmethod
    def restored(cls, settings: Settings, data: dict[str, Any], arrays: dict[str, Any]) -> Dictionary:
        """What `state` gave; estimated similarities are as they were settled."""
        terms = [t if t.fixed else replace(t, k_z=arrays[f"k_z_{i}"]) for i, t in enumerate(settings.terms)]
        arrays = {k: a.astype(np.intp) if a.dtype.kind == "i" else a for k, a in arrays.items()}
        kept, sample = (
            History.of(settings.n_arms, *(arrays[f"{name}_{part}"] for part in ("arms", "contexts", "rewards")))
            for name in ("recent", "sample")
        )
        known = Sums(arrays["S"], arrays["v"], arrays["ones"], data["squares"], data["n"], arrays["counts"])
        points = PointSet(arrays["arms"], arrays["contexts"])
        other = cls(replace(settings, terms=tuple(terms)), data["capacity"], kept, points, known)
        other._sample = Sample(sample, arrays["numbers"].tolist(), data["seen"], data["rate"])
        other._waiting = arrays["waiting"].tolist()
        for name in _NUMBERS:
            setattr(other, name, data[name.strip("_")])
        return other


def engine_of(settings: Settings, points: PointSet, total: Sums, *, capacity: int, kept: History) -> Dictionary:
    """The engine that knows these sums; ``kept`` are some of their rows, the last ones at the end."""
    rows = kept.copy()
    rows.forgotten = total.n - len(kept)
    return Dictionary(settings, capacity, rows, points, total)


def check(settings: Settings) -> None:
    """Raise unless a dictionary can be kept under these settings."""
    if settings.weighting == "per_arm":
        raise InvalidInputError(
            'weighting="per_arm" cannot be combined with a budget: with each row all weights of its arm change, '
            'and sums over rows that are gone cannot follow. Use weighting="uniform", or engine="exact"'
        )


def settled(settings: Settings, rows: History) -> Settings:
    """With every estimated similarity as it is after these rows."""
    if settings.fixed:
        return settings
    K_Zs = Followed(settings, rows).pairs.K_Zs
    pairs = zip(settings.terms, K_Zs, strict=True)
    return replace(settings, terms=tuple(replace(term, k_z=K) for term, K in pairs))
