"""What the budgeted engine learns: a dictionary, sums at its points, and the inverses of both.

A dictionary of at most ``budget`` (arm, context) points stands for all rows (Nystrom); sums over rows are kept at
these points alone. Notation as in `base`, `dictionary`, `statistics`; besides,
    k        (n,)     values of a point (arm, context) at the dictionary
    S~, v~            sum over rows of weight * k k', and of weight * reward * k
    D        (n, n)   ridge * K + S~;  A = D^-1;  P = K^-1
    w        (n,)     A v~
    delta             prior - k' P k, the Nystrom residual of a point
    mean              k' w
    width^2           delta / ridge + k' A k: the residual stays in, or exploration would starve

With all rows in the dictionary this is the exact posterior. Rows enter one by one: k k' is a rank-one change of D.
A similarity that is estimated, weights 1/n_a and forgetting change all of D; they are followed at every row for the
first `FOLLOWED` rows and then lag by at most 5 % of the rows and 1,000 rows (`_due`).

A row becomes a point while there is room and its residual exceeds a twentieth of the ridge. When the dictionary is
full it takes the place of the point that is missed least, if it is missed more itself. How much point j is missed
is what the posterior loses without it: the rise of the regularised squared error, w_j^2 / A_jj, plus a tenth of the
mean squared reward times the prior variance that rows lose, (P S~ P)_jj / P_jj. For a row outside, the same two are
(reward - mean)^2 delta / (delta + ridge) and sum e_i^2 / delta, e_i its residual covariance with the rows kept,
scaled up to all rows.

When a point enters, the sums it needs are exact for the rows kept and projections on the span of the dictionary for
older ones; when a point leaves, the others' sums are untouched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.regression.base import Ridge
from kinbandits.regression.dictionary import Dictionary
from kinbandits.regression.embeddings import EmbeddingFollower, FixedFollower, make_follower
from kinbandits.regression.inverse import Inverse
from kinbandits.regression.kept import Kept
from kinbandits.regression.linalg import posterior_inverse
from kinbandits.regression.statistics import Statistics

FOLLOWED = 256  # rows for which similarity and weights are followed at every row
LAG, LONGEST_LAG = 0.05, 1000
NOVEL = 0.05  # of the ridge: a residual below this is no reason for a point
VARIANCE_SHARE = 0.1
SAMPLE = 128  # rows kept that are asked how much a newcomer would be missed
MARGIN = 2.0  # a newcomer must be missed this much more
MOST_SUMS = 2**25  # numbers kept per arm in all (256 MB); beyond that the sums are pooled


@dataclass(frozen=True)
class Newcomer:
    """A row that is to become a point: its values at the dictionary, at itself, and at the rows kept."""

    arm: int
    context: Vector
    values: Matrix
    own: Vector
    columns: Matrix

    def without(self, j: int) -> Newcomer:
        """After slot j was given up."""
        values = self.values.copy()
        values[:, j] = values[:, -1]
        return replace(self, values=values[:, :-1])


class BudgetModel:
    """The state of the budgeted engine, taught row by row.

    Attributes:
        n: rows learned. counts: (N,) rows per arm (in the window, if there is one).
        K_arms: the similarity matrices as of the last refresh.
        dictionary, sums, kept, followers: see their modules.
        P, A, v, w: see above. swaps: points that gave way to others. refreshes: how often all was rebuilt.
    """

    def __init__(self, settings: Ridge, n_arms: int, n_features: int) -> None:
        self.settings, self.n_arms, self.n_features = settings, n_arms, n_features
        terms, m, memory = settings.terms, settings.budget, settings.memory
        changing = _changing(settings)
        self._lags = changing or (memory is not None and memory.decay < 1.0)
        sums = n_arms * (len(terms) * m) ** 2
        pooled = sums > MOST_SUMS and not changing
        if m > largest_budget(settings, n_arms):
            raise InvalidInputError(
                f"points={m} with {n_arms} arms needs {sums * 8 / 2**30:.1f} GB of sums per arm, because the "
                f"similarity or the weights change with the data; use points={largest_budget(settings, n_arms)} or "
                'less, or a similarity that is known with weighting="uniform"'
            )
        kinds = 1 if pooled else len(terms)
        self.window = None if memory is None else memory.rows
        self.n = 0
        self.counts: Indices = np.zeros(n_arms, dtype=np.intp)
        self.kept = Kept(max(2 * m, 256) if self.window is None else self.window, kinds, m)
        self.dictionary = Dictionary(terms, m, n_features, by_context=not pooled)
        self.sums = Statistics(n_arms, kinds, m, pooled=pooled)
        self.P, self.A = Inverse(m), Inverse(m)
        self.v: Vector = np.zeros(m)
        self.w: Vector = np.zeros(0)
        self._usage: Vector = np.zeros(m)  # diagonal of P S~ P
        self.followers: list[FixedFollower] = [make_follower(t, n_arms, n_features) for t in terms]
        self._squares = 0.0  # sum of squared rewards
        self._since = 0  # rows since the last refresh
        self.swaps = self.refreshes = 0
        self.K_arms = [f.matrix(self.counts, self.kept_history) for f in self.followers]

    @property
    def size(self) -> int:
        """Points in the dictionary."""
        return self.dictionary.size

    def kept_history(self) -> History:
        """The rows kept, as a history."""
        return self.kept.history(self.n_arms)

    def learn(self, arm: int, context: Vector, reward: float) -> None:
        """One row more. If a kernel fails, nothing has changed."""
        terms, ridge, kept, n = self.settings.terms, self.settings.ridge, self.kept, self.size
        X, one = context[None, :], np.array([arm])
        # All that asks a kernel comes before anything changes.
        values = self.dictionary.values(X)[:, :, 0]  # (P, n)
        own = np.array([t.context_kernel.diag(t.select(X))[0] for t in terms])
        k = self.dictionary.pairs(self.K_arms, one, values[:, :, None])[:, 0]
        prior = sum(float(K[arm, arm] * o) for K, o in zip(self.K_arms, own, strict=True))
        u = self.P.matrix @ k
        delta = prior - float(k @ u)
        leaves = int(len(kept) == kept.limit)
        farewell = self._notes(kept.contexts[0], 1) if leaves and self.window is not None else None
        prepared = self._notes(context, leaves)
        weight = 1.0 if self.settings.weighting == "uniform" else 1.0 / float(self.counts[arm] + 1)
        point, gives_way = None, None
        if delta > NOVEL * ridge:
            if n == self.settings.budget:
                rise = weight * (reward - float(k @ self.w)) ** 2 * delta / (delta + ridge / weight)
                gives_way = self._least_missed(arm, X, u, delta, rise)
            if n < self.settings.budget or gives_way is not None:
                point = Newcomer(arm, context, values, own, self._columns(X, leaves, own))
        # From here on nothing can fail.
        if leaves:
            self._let_go(farewell)
        self.counts[arm] += 1
        self.n += 1
        self._since += 1
        self._squares += reward * reward
        memory = self.settings.memory
        if memory is not None and memory.decay < 1.0:
            kept.rescale(self.sums.forget(memory.decay))
            self.v[:n] *= memory.decay
        stored = 1.0 / self.sums.scale
        kappa = k[None, :] if self.sums.pooled else values
        self.sums.add(arm, kappa, reward, stored)
        kept.append(arm, context, reward, stored, kappa)
        Ak = self.A.matrix @ k
        surprise = reward - float(k @ self.w)
        sound = self.A.add(k, weight, Ak)
        self.v[:n] += weight * reward * k
        self.w = self.w + (weight * surprise / (1.0 + weight * float(k @ Ak))) * Ak  # that is A v~ of now
        self._usage[:n] += weight * u * u
        for follower, note in zip(self.followers, prepared, strict=True):
            follower.observe(arm, note)
        if point is not None:
            if gives_way is not None:
                self._evict(gives_way)
                self.swaps += 1
                point = point.without(gives_way)
            sound &= self._enter(point)
            self.w = self._solution()
        elif farewell is not None or self._lags:
            self.w = self._solution()
        if not sound or self._due():
            self.refresh()

    def _notes(self, context: Vector, start: int) -> list[Matrix | None]:
        """What the followers need of a row, against the rows kept from ``start`` on."""
        kept, X = self.kept, context[None, :]
        others = kept.contexts[start:] if len(kept) else X[:0]
        pairs = zip(self.settings.terms, self.followers, strict=True)
        return [f.prepare(t.select(X)[0], kept.arms[start:], t.select(others)) for t, f in pairs]

    def _let_go(self, notes: list[Matrix | None] | None) -> None:
        """The oldest row kept leaves: altogether, if there is a window; else it lives on in the sums."""
        kept = self.kept
        if notes is None:
            for follower in self.followers:
                follower.let_go()
            kept.drop_oldest()
            return
        arm, reward = int(kept.arms[0]), float(kept.rewards[0])
        kappa = kept.kappa(self.size)[:, 0].copy()
        kept.drop_oldest()
        for follower, note in zip(self.followers, notes, strict=True):
            follower.observe(arm, note, -1.0)
        self.sums.add(arm, kappa, reward, -1.0)
        n = self.size
        k = kappa[0]
        if not self.sums.pooled:
            k = self.dictionary.pairs(self.K_arms, np.array([arm]), kappa[:, :, None])[:, 0]
        weight = self.arm_weights()[arm]
        self.counts[arm] -= 1
        self.v[:n] -= weight * reward * k
        self._usage[:n] = np.maximum(self._usage[:n] - weight * (self.P.matrix @ k) ** 2, 0.0)
        if not self.A.add(k, -weight):
            self.refresh()

    def _columns(self, X: Matrix, start: int, own: Vector) -> Matrix:
        """k_X of a new row with the rows kept from ``start`` on and with itself, (P, rows + 1)."""
        past = self.kept.contexts[start:]
        columns = np.empty((len(own), len(past) + 1))
        columns[:, -1] = own
        if len(past):
            for p, t in enumerate(self.settings.terms):
                columns[p, :-1] = t.context_kernel(t.select(past), t.select(X))[:, 0]
        return columns

    def _least_missed(self, arm: int, X: Matrix, u: Vector, delta: float, rise: float) -> int | None:
        """The point to give way to this row, if the row would be missed more."""
        share = VARIANCE_SHARE * self._squares / self.n
        P, A = np.diag(self.P.matrix), np.diag(self.A.matrix)
        missed = self.w**2 / A + share * self._usage[: self.size] / P
        j = int(np.argmin(missed))
        kept, rows = self.kept, slice(max(0, len(self.kept) - SAMPLE), len(self.kept))
        e = np.zeros(rows.stop - rows.start)
        for K_arm, t in zip(self.K_arms, self.settings.terms, strict=True):
            e += K_arm[arm, kept.arms[rows]] * t.context_kernel(t.select(kept.contexts[rows]), t.select(X))[:, 0]
        e -= self.kept_rows(rows) @ u
        weights = self.sums.scale * kept.weights[rows] * self.arm_weights()[kept.arms[rows]]
        scale_up = (self.n if self.window is None else len(kept)) / len(e)
        gain = rise + share * (delta + scale_up * float(weights @ (e * e)) / delta)
        return j if gain > MARGIN * missed[j] else None

    def _evict(self, j: int) -> None:
        last = self.size - 1
        for array in (self.v, self._usage):
            array[j] = array[last]
        self.kept.remove_slot(j, self.size)
        self.sums.remove(j)
        self.P.remove(j)
        self.A.remove(j)
        self.dictionary.remove(j)

    def _enter(self, new: Newcomer) -> bool:
        """The row just learned becomes a point. False: A could not follow and must be refreshed."""
        d, kept, n, ridge = self.dictionary, self.kept, self.size, self.settings.ridge
        k = d.pairs(self.K_arms, np.array([new.arm]), new.values[:, :, None])[:, 0]
        lent = np.stack([K_arm[new.arm, kept.arms] for K_arm in self.K_arms])
        pair = (lent * new.columns).sum(axis=0)  # the kernel between the new point and the rows kept
        prior = float(pair[-1])
        u = self.P.matrix @ k
        if not self.P.border(k, prior, 0.5 * NOVEL * ridge):
            return True  # no gain: another point already says the same
        kappa = kept.kappa(n)
        at_new = pair[None, :] if self.sums.pooled else new.columns
        projections = u[None, :] if self.sums.pooled else d.project(new.values)
        errors = at_new - np.matmul(kappa, projections[:, :, None])[:, :, 0]
        self.sums.border(projections, errors, kappa, kept.arms, kept.rewards, kept.weights)
        rows = slice(max(0, len(kept) - SAMPLE), len(kept))
        e = pair[rows] - self.kept_rows(rows) @ u
        kept.set_slot(n, at_new)
        d.add(new.arm, new.context, new.values, new.own, self._nugget(projections, errors))
        weights = self.arm_weights()
        line, self.v[n] = self.sums.line(n, d.lending(self.K_arms), weights)
        line[:n] += ridge * k
        line[n] += ridge * prior
        energy = float((kept.weights[rows] * weights[kept.arms[rows]]) @ (e * e)) * len(kept) / len(e)
        self._usage[n] = self.sums.scale * energy / max(prior - float(k @ u), NOVEL * ridge) ** 2
        return self.A.border(line[:n], float(line[n]), 1e-3 * NOVEL * ridge**2)

    def _nugget(self, projections: Matrix, errors: Matrix) -> Vector:
        """Mean squared error of the older rows' values at a point that enters, per term.

        That of the projection itself, which the rows kept tell, and that of the values it is made of.
        """
        if self.sums.pooled or len(self.kept) == self.n:
            return np.zeros(len(self.settings.terms))
        inherited = np.einsum("pj,pj->p", projections**2, self.dictionary.nugget)
        return np.asarray(np.mean(errors**2, axis=1) + inherited)

    def kept_rows(self, rows: slice) -> Matrix:
        """k of some of the rows kept, (rows, n)."""
        kappa = self.kept.kappa(self.size)[:, rows]
        if self.sums.pooled:
            return np.asarray(kappa[0])
        arms, points = self.kept.arms[rows], self.dictionary.arms
        total = self.K_arms[0][:, points][arms] * kappa[0]
        for K_arm, values in zip(self.K_arms[1:], kappa[1:], strict=True):
            total += K_arm[:, points][arms] * values
        return np.asarray(total)

    # -- following what changes all of D --------------------------------------------------------

    def arm_weights(self) -> Vector:
        """eta of a row of each arm: 1, or 1/n_a; 0 for an arm without rows."""
        if self.settings.weighting == "uniform":
            return (self.counts > 0).astype(np.float64)
        return np.divide(1.0, self.counts, out=np.zeros(len(self.counts)), where=self.counts > 0)

    def _due(self) -> bool:
        if not self._lags:
            return self._since >= max(100, self.settings.budget // 2)  # rids the inverses of rounding
        lag = min(LAG * (self.n - FOLLOWED), LONGEST_LAG)
        memory = self.settings.memory
        if memory is not None and memory.decay < 1.0:
            lag = min(lag, LAG / (1.0 - memory.decay))
        return self._since >= lag

    def refresh(self) -> None:
        """Similarity, weights and both inverses from the sums: m^3, and N m^2 for the sums per arm."""
        d = self.dictionary
        self.K_arms = [f.matrix(self.counts, self.kept_history) for f in self.followers]
        self.dictionary.refresh()
        S, v = self.sums.system(d.lending(self.K_arms), self.arm_weights())
        P, A = posterior_inverse(d.gram(self.K_arms), S, self.settings.ridge)
        self.P.set(P)
        self.A.set(A)
        n = d.size
        self.v[:n] = v
        self._usage[:n] = np.einsum("ij,ij->i", P @ S, P)
        self.w = self._solution()
        self._since = 0
        self.refreshes += 1

    def _solution(self) -> Vector:
        return np.asarray(self.A.matrix @ self.v[: self.A.size])

    # -- arms that come and go ------------------------------------------------------------------

    def with_arm(self, settings: Ridge) -> None:
        """One arm more, without rows; ``settings`` have its similarity."""
        self._resettle(settings, self.n_arms + 1)
        self.counts = np.append(self.counts, 0)
        self.sums.with_arm()
        for follower in self.followers:
            if isinstance(follower, EmbeddingFollower):
                follower.with_arm()
        self.refresh()

    def without_arm(self, settings: Ridge, arm: int) -> None:
        """An arm leaves with its rows and its points."""
        if self.sums.pooled:
            self._unpool(arm)
        for j in reversed(range(self.size)):
            if self.dictionary.arms[j] == arm:
                self._evict(j)
        self._resettle(settings, self.n_arms - 1)
        self.n -= int(self.counts[arm])
        self.counts = np.delete(self.counts, arm)
        self.sums.without_arm(arm)
        self.kept.drop_arm(arm)
        self.dictionary.renumber(arm)
        for follower in self.followers:
            if isinstance(follower, EmbeddingFollower):
                follower.without_arm(arm)
        self.refresh()

    def _unpool(self, arm: int) -> None:
        """Take the rows of an arm out of pooled sums, which is possible while they are all kept."""
        mine = np.flatnonzero(self.kept.arms == arm)
        if len(mine) < self.counts[arm]:
            raise InvalidInputError(
                f"the arm has {self.counts[arm]} rows, of which {len(mine)} are still kept: with {self.n_arms} "
                "arms the sums are pooled, and the data of one arm cannot be taken out. retire_arm() retires it"
            )
        kappa = self.kept.kappa(self.size)
        for i in mine:
            self.sums.add(arm, kappa[:, i].copy(), float(self.kept.rewards[i]), -float(self.kept.weights[i]))

    def _resettle(self, settings: Ridge, n_arms: int) -> None:
        """The same kernels over other arms; similarities that are not followed by sums start again."""
        followers = [make_follower(t, n_arms, self.n_features) for t in settings.terms]
        self.followers = [
            old if isinstance(old, EmbeddingFollower) else new
            for old, new in zip(self.followers, followers, strict=True)
        ]
        self.settings, self.n_arms = settings, n_arms
        self.dictionary.retune(settings.terms)

    # -- saved form -----------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that was learned; kernel values are computed again when it is read."""
        kept, d, n = self.kept, self.dictionary, self.size
        arrays: dict[str, NDArray[Any]] = {
            "dictionary_arms": d.arms.astype(np.int64),
            "dictionary_contexts": d.contexts,
            "kept_arms": kept.arms.astype(np.int64),
            "kept_contexts": kept.contexts,
            "kept_rewards": kept.rewards,
            "kept_weights": kept.weights,
            "counts": self.counts.astype(np.int64),
            "inverse_P": self.P.matrix,
            "inverse_A": self.A.matrix,
            "v": self.v[:n],
            "w": self.w,
            "usage": self._usage[:n],
            "nugget": d.nugget,
            "rows": np.array([self.n, self._since, self.swaps, self.refreshes]),
            "squares": np.array(self._squares),
        }
        arrays |= {f"sums_{name}": array for name, array in self.sums.to_arrays().items()}
        for p, (K_arm, follower) in enumerate(zip(self.K_arms, self.followers, strict=True)):
            arrays[f"similarity_{p}"] = K_arm
            arrays |= {f"follower_{p}_{name}": array for name, array in follower.to_arrays().items()}
        arrays |= {f"inverse_G_{p}": G.matrix for p, G in enumerate(d.G)}
        return arrays

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """From what `to_arrays` gave."""
        rows = (int(i) for i in arrays["rows"])
        self.n, self._since, self.swaps, self.refreshes = rows
        self._squares = float(arrays["squares"])
        self.counts = arrays["counts"].astype(np.intp)
        self.K_arms = [arrays[f"similarity_{p}"].copy() for p in range(len(self.followers))]
        d = self.dictionary
        points = zip(arrays["dictionary_arms"].tolist(), arrays["dictionary_contexts"], strict=True)
        none = np.zeros((len(self.settings.terms), len(arrays["dictionary_arms"])))  # files before there were any
        for (arm, context), nugget in zip(points, arrays.get("nugget", none).T, strict=True):
            X = context[None, :]
            own = np.array([t.context_kernel.diag(t.select(X))[0] for t in self.settings.terms])
            d.add(arm, context, d.values(X)[:, :, 0], own, nugget)
        n = d.size
        for p, G in enumerate(d.G):
            G.set(arrays[f"inverse_G_{p}"])
        self.sums.restore({k.removeprefix("sums_"): a for k, a in arrays.items() if k.startswith("sums_")})
        self.P.set(arrays["inverse_P"])
        self.A.set(arrays["inverse_A"])
        self.v[:n], self._usage[:n] = arrays["v"], arrays["usage"]
        self.w = arrays["w"].copy()
        for p, follower in enumerate(self.followers):
            prefix = f"follower_{p}_"
            follower.restore({k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)})
        names = ("kept_arms", "kept_contexts", "kept_rewards", "kept_weights")
        arms, contexts, rewards, weights = (arrays[name] for name in names)
        if len(arms):
            values = d.values(contexts)
            pooled = d.pairs(self.K_arms, arms.astype(np.intp), values)[None] if self.sums.pooled else values
            for i, arm in enumerate(arms.tolist()):
                self.kept.append(arm, contexts[i], float(rewards[i]), float(weights[i]), pooled[:, :, i])


def largest_budget(settings: Ridge, n_arms: int) -> int:
    """The most points there can be: no limit, unless sums are kept per arm."""
    if not _changing(settings):
        return 2**31
    return max(1, int((MOST_SUMS / n_arms) ** 0.5 / len(settings.terms)))


def _changing(settings: Ridge) -> bool:
    """Whether similarity or weights change with the data, so that sums must be kept per arm."""
    return settings.weighting == "per_arm" or not all(t.similarity.fixed for t in settings.terms)
