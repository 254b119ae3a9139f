"""A dictionary of (arm, context) points that stands for all rows (Nystrom): constant cost, constant memory.

For similarities that do not change and uniform weights. Sums over rows are kept at the points alone. Notation as in
`points`, `inverses`; besides
    S, v      (n, n), (n,)  sums over rows of k k' and of y k
    ones      (n,)          sum over rows of k: with it v follows another level and unit
    delta     prior - k' P k, the Nystrom residual of a point
    mean      k'w
    variance  delta + ridge k' A k: the residual stays in, or exploration would starve

With all rows in the dictionary this is the exact posterior. Rows enter one by one: k k' is a rank-one change, n^2;
S follows some rows later, together. A row becomes a point at once while there is room and its residual exceeds a
twentieth of the ridge. When the dictionary is full, every `batch` rows those take the places of points that would
be missed more (`exchange`). When a point enters, the sums it needs are exact for the rows kept and projections on
the span of the dictionary for older ones; when a point leaves, the others' sums are untouched. Rounding is got rid
of by computing the inverses anew from the sums every 4 m rows, n^3.

Who owns what: `Points` the dictionary, `Inverses` what is read, this file the sums, `Recent` the last rows,
`Sample` rows spread over all time, from which the dictionary is built anew where sums cannot follow a change.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.regression.contract import Common, Query, Settings, State
from kinbandits.regression.dictionary.build import Sums, choose_points, novel, sums
from kinbandits.regression.dictionary.exchange import newcomers
from kinbandits.regression.dictionary.inverses import LATE, Inverses
from kinbandits.regression.dictionary.points import Points, PointSet, Recent, Sample
from kinbandits.regression.dictionary.report import blindness, report, warn_if_blind
from kinbandits.regression.pairs import Followed, Pairs, same_kernel
from kinbandits.regression.posterior import Posterior

DRIFT = 1e-7  # of P, relative: beyond it all is computed anew


class Dictionary(Posterior):
    """At most ``capacity`` points, whatever the number of rows."""

    def __init__(self, settings: Settings, capacity: int, rows: History) -> None:
        """Learned from these rows at once: exact sums at points chosen among them."""
        check(settings)
        self._begin(settings, capacity)
        if len(rows):
            self._fill(rows, choose_points(settings, rows, capacity))
        self._counts, self._n = rows.counts.astype(np.intp), len(rows) + rows.forgotten

    def _begin(self, settings: Settings, capacity: int) -> None:
        self.settings, self.capacity = settings, capacity
        self._pairs = Pairs.fixed(settings)
        self._counts, self._n = np.zeros(settings.n_arms, dtype=np.intp), 0
        self._squares = 0.0  # sum of squares of what was learned
        self._ready = False  # whether the number of columns is known
        self._waiting: list[float] = []  # y - mean of the last rows, which may take the places of points
        self._unsummed = self._since = self.swaps = self.refreshes = 0
        self._next_check = 2 * capacity
        self.rebuilt_from: int | None = None

    def _open(self, d: int) -> None:
        m = self.capacity
        self.points = Points(self._pairs, m, d)
        self.recent = Recent(max(min(2 * m, 1024), 256), m, d)
        self.inverses = Inverses(m, self.settings.ridge)
        self._S: Matrix = np.zeros((m, m))
        self._v: Vector = np.zeros(m)
        self._ones: Vector = np.zeros(m)
        self._sample = Sample(History(self.settings.n_arms), np.empty(0, dtype=np.intp), 0)
        self._ready = True

    def _fill(self, rows: History, points: PointSet, known: Sums | None = None) -> None:
        """These points, with sums over the rows, or ``known`` ones of which these rows are a sample."""
        self._open(points.contexts.shape[1])
        self.points.fill(points)
        total = sums(self.settings, points, rows) if known is None else known
        n = self.points.size
        self._S[:n, :n], self._v[:n], self._ones[:n] = total.S, total.v, total.ones
        self._squares = total.squares
        last = rows.taken(np.arange(max(0, len(rows) - self.recent.limit), len(rows)))
        self.recent.fill(last, self._pairs.gram(last.arms, last.contexts, points.arms, points.contexts))
        self._sample = Sample.of(rows)
        self.refresh()

    # -- what is known --------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        return self._n

    @property
    def counts(self) -> Indices:
        return self._counts

    @property
    def rows(self) -> History | None:
        """All rows, or a sample of them that says how many are left out."""
        return self._sample.rows if self._ready else History(self.settings.n_arms)

    @property
    def pairs(self) -> Pairs:
        return self._pairs

    @property
    def size(self) -> int:
        return self.points.size if self._ready else 0

    @property
    def n_terms(self) -> int:
        return self.size

    # -- learning -------------------------------------------------------------------------------

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector) -> None:
        self._check_learns()
        if not self._ready and len(arms) > max(2 * self.capacity, 256):
            made = Dictionary(self.settings, self.capacity, History.of(len(self._counts), arms, contexts, rewards))
            self.__dict__.update(made.__dict__)
            return
        if self._n + len(arms) >= self._next_check and self.size == self.capacity:
            warn_if_blind(self)  # before, so that a warning which is made an error leaves nothing behind
            self._next_check = 2 * (self._n + len(arms))
        if len(arms) == 1 and self._ready:
            self._learn(int(arms[0]), contexts[0], float(rewards[0]))  # kernels fail before anything changed
        elif len(arms):
            before = copy.deepcopy(self.__dict__)
            try:
                if not self._ready:
                    self._open(contexts.shape[1])
                for arm, context, reward in zip(arms.tolist(), contexts, rewards.tolist(), strict=True):
                    self._learn(arm, context, reward)
            except BaseException:
                self.__dict__.clear()
                self.__dict__.update(before)
                raise
        if len(arms):
            self._sample.append(arms, contexts, rewards)

    @property
    def _batch(self) -> int:
        """Rows that are summed up together, and looked at together as newcomers when the dictionary is full."""
        return max(LATE, self.capacity // 32)

    def _learn(self, arm: int, context: Vector, reward: float) -> None:
        if len(self._waiting) >= self._batch:
            self._exchange()
        points, arms, X = self.points, np.array([arm]), context[None, :]
        y = float(self.settings.learned(np.array([reward]))[0])
        k = points.at(arms, X)[0]
        columns = None
        if points.size < self.capacity and self._is_novel(self._pairs.prior(arms, X), k):
            past = slice(int(len(self.recent) == self.recent.limit), None)
            all_arms = np.append(self.recent.arms[past], arm)
            columns = self._pairs.gram(arms, X, all_arms, np.concatenate([self.recent.contexts[past], X]))
        # From here on no kernel is asked.
        self._counts = self._counts + np.bincount(arms, minlength=len(self._counts))
        self._n += 1
        self._since += 1
        self._unsummed += 1
        self._squares += y * y
        self.recent.append(arm, context, reward, k)
        if points.size == self.capacity:
            self._waiting.append(y - float(k @ self.inverses.w))
        sound = self.inverses.add(k, y)
        if columns is not None:
            sound &= self._enter(np.array([len(self.recent) - 1]), np.array([points.size]), columns)
        elif self._unsummed >= self._batch:
            self.sum_up()
        if not sound or self._since >= max(1000, 4 * self.capacity):
            self.refresh()

    def _is_novel(self, prior: Vector, k: Vector) -> bool:
        return bool(prior[0] - float(k @ (self.inverses.P @ k)) > novel(self.settings, prior)[0])

    def sum_up(self) -> None:
        """The rows that came since the last time enter the sums."""
        if self._unsummed:
            n, last = self.size, slice(len(self.recent) - self._unsummed, None)
            k = self.recent.k(n)[last]
            self._S[:n, :n] += k.T @ k
            self._v[:n] += self.settings.learned(self.recent.rewards[last]) @ k
            self._ones[:n] += k.sum(axis=0)
            self.inverses.use(k)
            self._unsummed = 0

    def refresh(self) -> None:
        """The inverses anew from the sums: n^3."""
        self.sum_up()
        n = self.size
        self._since = 0
        self.refreshes += 1
        self.inverses.set(self.points.K, self._S[:n, :n], self._v[:n])

    @property
    def mean_square(self) -> float:
        """Of what was learned."""
        return self._squares / max(self._n, 1)

    # -- points ---------------------------------------------------------------------------------

    def _exchange(self) -> None:
        """Of the rows that wait, those that are missed more than points take their places."""
        self.sum_up()
        which, slots = newcomers(self, np.array(self._waiting))
        recent = self.recent
        columns = self._pairs.gram(recent.arms[which], recent.contexts[which], recent.arms, recent.contexts)
        self._waiting = []
        if len(which) and not self._enter(which, slots, columns):
            self.refresh()

    def _enter(self, which: Indices, slots: Indices, at_new: Matrix) -> bool:
        """Rows kept become points; ``at_new`` (b, rows kept) are their kernel values. False: `refresh` is due.

        A row's k at a new point is z'k + error; the error is known for the rows kept and taken as zero for older
        ones. So the new line of S is z'S + sum over rows kept of error k': exact for the rows kept.
        """
        self.sum_up()
        points, recent, n = self.points, self.recent, self.size
        replaced, k_kept, rewards = slots[slots < n], recent.k(n), self.settings.learned(recent.rewards)
        k, corner = k_kept[which], at_new[:, which]  # of the new points: at the old ones, among themselves
        try:
            u, left = self.inverses.residuals(slots, k, corner)
            if np.linalg.eigvalsh(left)[0] < 0.5 * novel(self.settings, corner.diagonal()).max():
                return True  # no gain: other points already say the same
        except np.linalg.LinAlgError:
            return False
        stay = np.delete(np.arange(n), replaced)
        off = (u @ points.K - k)[:, stay] if n else k
        drifted = np.abs(off).max(initial=0.0) > DRIFT * np.abs(k[:, stay]).max(initial=0.0)
        u_S = u @ self._S[:n, :n]
        z = points.projections(k, replaced)
        errors = at_new - z @ k_kept.T
        lines = z @ self._S[:n, :n]
        corners = lines @ z.T + errors @ at_new.T + (at_new - errors) @ errors.T
        lines += errors @ k_kept
        v, ones = z @ self._v[:n] + errors @ rewards, z @ self._ones[:n] + errors.sum(axis=1)
        self._S[slots, :n], self._S[:n, slots] = lines, lines.T
        self._S[np.ix_(slots, slots)] = corners
        self._v[slots], self._ones[slots] = v, ones
        older = len(recent) < self._n
        nugget = np.mean(errors**2, axis=1) + z**2 @ points.nugget if older else np.zeros(len(which))
        recent.set_slots(slots, at_new)
        grown = max(n, int(slots[0]) + 1)
        k_all = np.zeros((len(which), grown))
        k_all[:, :n] = k
        k_all[:, slots] = corner
        points.put(slots, PointSet(recent.arms[which], recent.contexts[which]), k_all, nugget)
        s12 = self._S[slots, :n] - u_S
        s22 = self._S[np.ix_(slots, slots)] - self._S[slots, :n] @ u.T - u @ s12.T
        try:
            self.inverses.put(slots, u, left, s12, s22, v)
        except np.linalg.LinAlgError:
            return False
        judge, weight = self.judges(len(recent) - int(which[0]))
        self.inverses.use(recent.k(grown)[judge], weight, slots)
        self.swaps += len(replaced)
        return not drifted

    def judges(self, before: int, most: int = 128) -> tuple[slice, float]:
        """The last rows kept but ``before``, which stand for all rows, and how many each stands for."""
        end = len(self.recent) - before
        start = max(0, end - most)
        return slice(start, end), self._n / max(end - start, 1)

    # -- answers --------------------------------------------------------------------------------

    def _moments(self, query: Query, prior: Matrix) -> tuple[Matrix, Matrix]:
        k = self.points.of_query(query)
        variance = prior - self.settings.ridge * self.inverses.forms(k).reshape(query.shape)
        return (k @ self.inverses.w).reshape(query.shape), variance

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        k = self._pairs.gram(arms, contexts, self.points.arms, self.points.contexts)
        gram = self._pairs.gram(arms, contexts, arms, contexts)
        return np.asarray(gram - self.settings.ridge * self.inverses.between(k))

    def dual(self) -> tuple[Indices, Matrix, Vector]:
        if not self._ready:
            return np.empty(0, dtype=np.intp), np.empty((0, 0)), np.empty(0)
        return self.points.arms, self.points.contexts, self.inverses.w

    def log_det(self) -> float:
        """That of the rows as the dictionary sees them."""
        return self.inverses.log_det() if self.size else 0.0

    def blindness(self) -> float:
        """The share of the prior variance of rows that the dictionary cannot see."""
        return blindness(self)

    def report(self) -> dict[str, Any]:
        return report(self)

    def _shallow(self) -> Self:
        other = super()._shallow()
        if self._ready:
            other.points, other.inverses = self.points.copy(), self.inverses.copy()
            other._sample = self._sample.copy()
        return other

    # -- other settings -------------------------------------------------------------------------

    def changed(self, settings: Settings, *, rows: History | None = None, removed: int | None = None) -> Dictionary:
        """Ridge, level, unit and new arms follow from the sums; else all is built anew from a sample."""
        settings = self._settled(settings, removed)
        check(settings)
        if rows is not None or not self._ready:
            return Dictionary(settings, self.capacity, History(settings.n_arms) if rows is None else rows)
        if removed is not None or not same_kernel(self.settings, settings):
            sample = self._sample.rows
            sample = sample.copy(settings.n_arms) if removed is None else sample.without_arm(removed)
            other = Dictionary(settings, self.capacity, sample)
            other.rebuilt_from = len(sample)
            counts = self._counts if removed is None else np.delete(self._counts, removed)
            other._counts = np.append(counts, np.zeros(settings.n_arms - len(counts), dtype=np.intp))
            other._n = int(other._counts.sum())
            other._sample.seen = max(other._n, len(sample))
            other._sample.rate = self._sample.rate
            return other
        other = copy.deepcopy(self)
        other.reads_only = False
        other.sum_up()
        old, other.settings = self.settings, settings
        other._pairs = other.points.pairs = Pairs.fixed(settings)
        other._counts = np.append(self._counts, np.zeros(settings.n_arms - len(self._counts), dtype=np.intp))
        other._sample.rows.n_arms = settings.n_arms
        other._v = (other._v * old.unit + (old.level - settings.level) * other._ones) / settings.unit
        kept = settings.learned(other.recent.rewards)
        other._squares = float(kept @ kept) / len(kept) * self._n
        other._waiting = []
        other.inverses.ridge = settings.ridge
        other.refresh()
        return other

    def _settled(self, settings: Settings, removed: int | None) -> Settings:
        """With the similarities in force in the places of estimated ones; of other arms, as the sample has them."""
        known = len(settings.terms) == len(self.settings.terms) and removed is None
        if not settings.fixed and known and settings.n_arms == self.settings.n_arms:
            pairs = zip(settings.terms, self.settings.terms, strict=True)
            return replace(settings, terms=tuple(a if a.fixed else replace(a, k_z=b.k_z) for a, b in pairs))
        rows = self._sample.rows if self._ready else History(self.settings.n_arms)
        return settled(settings, rows.copy(settings.n_arms) if removed is None else rows.without_arm(removed))

    def state(self) -> State:
        """The inverses are not saved but computed anew on both sides, so that both go on alike."""
        if not self._ready:
            return {"kind": "dictionary", "capacity": self.capacity, "ready": False}, {}
        self.refresh()
        n, recent, sample = self.size, self.recent, self._sample
        arrays = {
            "points_arms": self.points.arms.astype(np.int64),
            "points_contexts": self.points.contexts,
            "nugget": self.points.nugget,
            "S": self._S[:n, :n],
            "v": self._v[:n],
            "ones": self._ones[:n],
            "counts": self._counts.astype(np.int64),
            "recent_arms": recent.arms.astype(np.int64),
            "recent_contexts": recent.contexts,
            "recent_rewards": recent.rewards,
            "sample_arms": sample.rows.arms.astype(np.int64),
            "sample_contexts": sample.rows.contexts,
            "sample_rewards": sample.rows.rewards,
            "sample_numbers": sample.numbers.astype(np.int64),
            "waiting": np.array(self._waiting),
            **{f"k_z_{i}": K for i, K in enumerate(self.k_z) if not isinstance(self._pairs.K_Zs[i], Common)},
        }
        return {
            "kind": "dictionary",
            "capacity": self.capacity,
            "ready": True,
            "n": self._n,
            "squares": self._squares,
            "swaps": self.swaps,
            "refreshes": self.refreshes,
            "next_check": self._next_check,
            "rebuilt_from": self.rebuilt_from,
            "seen": sample.seen,
            "rate": sample.rate,
        }, arrays

    @classmethod
    def restored(cls, settings: Settings, data: dict[str, Any], arrays: dict[str, Any]) -> Dictionary:
        """What `state` gave; estimated similarities are as they were settled."""
        terms = [t if t.fixed else replace(t, k_z=arrays[f"k_z_{i}"]) for i, t in enumerate(settings.terms)]
        other = cls.__new__(cls)
        other._begin(replace(settings, terms=tuple(terms)), data["capacity"])
        if not data["ready"]:
            return other
        points = PointSet(arrays["points_arms"].astype(np.intp), arrays["points_contexts"])
        last = [arrays[f"recent_{name}"] for name in ("arms", "contexts", "rewards")]
        rows = [arrays[f"sample_{name}"] for name in ("arms", "contexts", "rewards")]
        other._counts, other._n = arrays["counts"].astype(np.intp), data["n"]
        known = Sums(arrays["S"], arrays["v"], arrays["ones"], data["squares"], other._n, other._counts)
        other._fill(History.of(settings.n_arms, last[0].astype(np.intp), *last[1:]), points, known)
        other.points.fill(points, arrays["nugget"])
        history = History.of(settings.n_arms, rows[0].astype(np.intp), *rows[1:])
        numbers = arrays["sample_numbers"].astype(np.intp)
        other._sample = Sample(history, numbers, data["seen"], data["rate"])
        other._waiting = arrays["waiting"].tolist()
        other.swaps, other.refreshes = data["swaps"], data["refreshes"]
        other._next_check, other.rebuilt_from = data["next_check"], data["rebuilt_from"]
        return other


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
