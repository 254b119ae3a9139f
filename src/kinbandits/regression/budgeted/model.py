"""What the budgeted engine learns: a dictionary, sums at its points, and the inverses of both.

A dictionary of at most ``budget`` (arm, context) points stands for all rows (Nystrom); sums over rows are kept at
these points alone. Notation as in `points`, `sums`, `posterior`; besides,
    delta             prior - k' P k, the Nystrom residual of a point
    mean              k' w
    width^2           delta / ridge + k' A k: the residual stays in, or exploration would starve

With all rows in the dictionary this is the exact posterior. Rows enter one by one: k k' is a rank-one change, n^2.
A similarity that is estimated, weights 1/n_a and forgetting change all of S~; they are followed at every row for
the first `FOLLOWED` rows and then lag by at most 5 % of the rows and 1,000 rows (`_due`). All is then computed anew
from the sums, n^3: in pieces of bounded work, one with each row (`Refresh`), during which no point changes.

A row becomes a point at once while there is room and its residual exceeds a twentieth of the ridge. When the
dictionary is full, every `LATE` rows those take the places of points that would be missed more (`newcomers`).

When a point enters, the sums it needs are exact for the rows kept and projections on the span of the dictionary for
older ones; when a point leaves, the others' sums are untouched.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.base import RegressionSettings
from kinbandits.regression.budgeted.followers import Follower, make_follower
from kinbandits.regression.budgeted.newcomers import NOVEL, newcomers
from kinbandits.regression.budgeted.points import Points
from kinbandits.regression.budgeted.posterior import LATE, Posterior
from kinbandits.regression.budgeted.recent import Recent
from kinbandits.regression.budgeted.slices import Sliced, posterior_inverses
from kinbandits.regression.budgeted.sums import Sums, is_joint

FOLLOWED = 256  # rows for which similarity and weights are followed at every row
LAG, LONGEST_LAG = 0.05, 1000
SAMPLE = 128  # rows kept that are asked how much a newcomer would be missed
DRIFT = 1e-7  # of P, relative: beyond it all is computed anew


@dataclass
class Tally:
    """Counts."""

    counts: Indices  # (N,) rows per arm (in the window, if there is one)
    n: int = 0  # rows learned
    squares: float = 0.0  # the sum of their squared rewards
    unsummed: int = 0  # the last rows, which are not yet in the sums
    waiting: list[float] = field(default_factory=list)  # reward less mean of the last rows, that may be newcomers
    since: int = 0  # rows since the last refresh
    swaps: int = 0  # points that gave way to others
    refreshes: int = 0


@dataclass
class Refresh:
    """Inverses under way: from the similarity and the sums as of when ``rows`` rows had been learned."""

    K_arms: list[Matrix]
    S: Matrix
    v: Vector
    rows: int
    work: Sliced[tuple[Matrix, Matrix, Vector]] = field(repr=False)


class Model:
    """The state of the budgeted engine, taught row by row."""

    def __init__(self, settings: RegressionSettings, n_arms: int, n_features: int) -> None:
        self.settings, self.n_features = settings, n_features
        m, window = settings.budget, settings.memory.rows if settings.memory is not None else None
        joint = is_joint(settings, n_arms)
        self.followers: list[Follower] = [make_follower(t, n_arms, n_features) for t in settings.terms]
        self.tally = Tally(np.zeros(n_arms, dtype=np.intp))
        kinds = 1 if joint else len(settings.terms)
        self.recent = Recent(max(min(2 * m, 1024), 256) if window is None else window, kinds, m)
        self.points = Points(settings.terms, self.similarities(), m, n_features, joint=joint)
        self.sums = Sums(n_arms, kinds, m, joint=joint)
        self.posterior = Posterior(m, settings.ridge)
        self.refreshing: Refresh | None = None

    @property
    def n_arms(self) -> int:
        return len(self.tally.counts)

    @property
    def size(self) -> int:
        return self.points.size

    @property
    def decay(self) -> float:
        """What earlier rows are multiplied by with each row."""
        return 1.0 if self.settings.memory is None else self.settings.memory.decay

    @property
    def window(self) -> int | None:
        """Rows after which one leaves."""
        return None if self.settings.memory is None else self.settings.memory.rows

    # -- a row ----------------------------------------------------------------------------------

    def learn(self, arm: int, context: Vector, reward: float) -> None:
        """One row more. If a kernel fails, nothing has changed."""
        recent, posterior, tally = self.recent, self.posterior, self.tally
        if len(tally.waiting) >= self._batch:
            self._let_in()
        leaves = int(len(recent) == recent.limit)
        farewell = self._notes(recent.contexts[0], 1) if leaves and self.window is not None else None
        notes = self._notes(context, leaves)
        k, kappa = self._values(arm, context)
        columns = self._columns_if_novel(arm, context, k, leaves)
        weight = 1.0 if self.settings.weighting == "uniform" else 1.0 / float(tally.counts[arm] + 1)
        # From here on nothing can fail.
        sound = self._let_go(farewell) if leaves else True
        tally.counts[arm] += 1
        tally.n += 1
        tally.since += 1
        tally.unsummed += 1
        tally.squares += reward * reward
        if self.decay < 1.0:
            recent.rescale(self.sums.forget(self.decay))
        recent.append(arm, context, reward, 1.0 / self.sums.scale, kappa)
        if self.size == self.points.capacity:
            tally.waiting.append(reward - float(k @ posterior.w))
        sound &= posterior.add(k, weight, reward, self.decay)
        for follower, note in zip(self.followers, notes, strict=True):
            follower.observe(arm, note)
        if columns is not None:
            sound &= self._enter(np.array([len(recent) - 1]), np.array([self.size]), columns)
        elif tally.unsummed >= self._batch:
            self.sum_up()
        if not sound:
            self.refresh()
        elif self.refreshing is not None:
            self._go_on(self.refreshing)
        elif self._due():
            self.refresh(at_once=False)

    @property
    def _batch(self) -> int:
        """Rows that are summed up together, and looked at together as newcomers when the dictionary is full."""
        return max(LATE, self.points.capacity // 32) if self.settings.memory is None else 1

    def _values(self, arm: int, context: Vector) -> tuple[Vector, Matrix]:
        values = self.points.values(context[None, :])
        k = self.points.pairs(np.array([arm]), values)
        return k[0], k if self.points.joint else values[:, 0]

    def _columns_if_novel(self, arm: int, context: Vector, k: Vector, leaves: int) -> Matrix | None:
        """Context-kernel values (P, rows kept + 1, 1) of a row that is to be a point at once."""
        points, X = self.points, context[None, :]
        if self.size == points.capacity or self.refreshing is not None:
            return None
        prior = float(points.prior(np.array([arm]), X)[0])
        if prior - float(k @ (self.posterior.P @ k)) <= NOVEL * self.settings.ridge:
            return None
        past = self.recent.contexts[leaves:] if len(self.recent) else X[:0]
        return points.context_values(np.concatenate([past, X]), X)

    def sum_up(self) -> None:
        """The rows that came since the last time enter the sums."""
        if self.tally.unsummed:
            rows = self.recent.rows(self.size, self.tally.unsummed)
            self.sums.add_block(rows)
            weights = self.sums.scale * rows.weights * self.arm_weights()[rows.arms]
            self.posterior.use(self.points.full(rows.arms, rows.kappa), weights)
            self.tally.unsummed = 0

    def reward_sums(self) -> Matrix:
        """v of `sums`, with the rows that are not yet in it."""
        v = self.sums.v.copy()
        if self.tally.unsummed:
            self.sums.add_rewards(v, self.recent.rows(self.size, self.tally.unsummed))
        return v

    def _notes(self, context: Vector, start: int) -> list[Matrix | None]:
        """What the followers need of a row, against the rows kept from ``start`` on."""
        if all(f.exact for f in self.followers):
            return [None] * len(self.followers)
        recent, X = self.recent, context[None, :]
        others = recent.contexts[start:] if len(recent) else X[:0]
        pairs = zip(self.settings.terms, self.followers, strict=True)
        return [f.prepare(t.select(X)[0], recent.arms[start:], t.select(others)) for t, f in pairs]

    def _let_go(self, notes: list[Matrix | None] | None) -> bool:
        """The oldest row kept leaves: altogether, if there is a window; else it lives on in the sums."""
        recent = self.recent
        if notes is None:
            for follower in self.followers:
                follower.let_go()
            recent.drop_oldest()
            return True
        (arm,), (reward,), _, kappa = row = recent.rows(self.size, first=1)
        recent.drop_oldest()
        for follower, note in zip(self.followers, notes, strict=True):
            follower.observe(arm, note, -1.0)
        self.sum_up()
        self.sums.add_block(row._replace(weights=-np.ones(1)))
        k = self.points.full(row.arms, kappa)[0]
        weight = self.arm_weights()[arm]
        self.tally.counts[arm] -= 1
        return self.posterior.take_out(k, weight, reward)

    # -- points ---------------------------------------------------------------------------------

    def _let_in(self) -> None:
        """Of the rows that wait, those that are missed more than points take their places."""
        points, recent, waiting = self.points, self.recent, self.tally.waiting
        if self.refreshing is not None:  # later
            del waiting[: -2 * self._batch]
            return
        self.sum_up()
        which, slots = newcomers(self, np.array(waiting))
        columns = points.context_values(recent.contexts, recent.contexts[which])
        waiting.clear()
        if len(which) and not self._enter(which, slots, columns):
            self.refresh()

    def judges(self, before: int) -> tuple[Indices, Matrix, Vector, Matrix]:
        """Arms, contexts, weights and k of the last rows but ``before``."""
        recent, points = self.recent, self.points
        last = slice(max(0, len(recent) - before - SAMPLE), len(recent) - before)
        arms = recent.arms[last]
        weights = self.sums.scale * recent.weights[last] * self.arm_weights()[arms]
        if len(arms):
            weights *= (self.tally.n if self.window is None else len(recent)) / len(arms)  # they stand for all rows
        return arms, recent.contexts[last], weights, points.full(arms, recent.kappa(self.size)[:, last])

    def _enter(self, which: Indices, slots: Indices, columns: Matrix) -> bool:
        """Rows kept become points, with context values (P, rows kept, b). False: all is to be computed anew."""
        points, recent, posterior, ridge = self.points, self.recent, self.posterior, self.settings.ridge
        self.sum_up()
        n, arms, replaced = self.size, recent.arms[which], slots[slots < self.size]
        pair = points.between(arms, recent.arms, np.swapaxes(columns, 1, 2))  # (b, rows kept), the full kernel
        at_new = pair[None] if points.joint else np.swapaxes(columns, 1, 2)
        kept = recent.rows(n)
        kappa, corner = kept.kappa[:, which], pair[:, which]
        k = points.full(arms, kappa)
        u, left = posterior.residuals(slots, k, corner)
        if np.linalg.eigvalsh(left)[0] < 0.5 * NOVEL * ridge:
            return True  # no gain: other points already say the same
        stay = np.delete(np.arange(n), replaced)
        off = (u @ points.gram - k)[:, stay] if points.joint and n else k[:, :0]
        drifted = np.abs(off).max(initial=0.0) > DRIFT * np.abs(k[:, stay]).max(initial=0.0)
        weights = self.arm_weights()
        u_sums = self.sums.times(u, points.lending, weights)
        z = points.projections(kappa, replaced)
        errors = at_new - z @ np.swapaxes(kept.kappa, 1, 2)
        self.sums.put(slots, z, at_new, errors, kept)
        nugget = self._nugget(z, errors)
        recent.set_slots(slots, at_new)
        grown = max(n, int(slots[0]) + 1)
        kappa = np.pad(kappa, [(0, 0), (0, 0), (0, grown - n)])
        kappa[:, :, slots] = at_new[:, :, which]
        points.put(slots, arms, recent.contexts[which], kappa, nugget)
        lines, v = self.sums.lines(slots, points.lending, weights)
        s12 = lines[:, :n] - u_sums
        s22 = lines[:, slots] - lines[:, :n] @ u.T - u @ s12.T
        posterior.put(slots, u, left, (s12, s22), v)
        _, _, judge_weights, judges = self.judges(len(recent) - int(which[0]))
        posterior.use(judges, judge_weights, slots)
        self.tally.swaps += len(replaced)
        return not drifted

    def _nugget(self, z: Matrix, errors: Matrix) -> Matrix:
        """Mean squared error of older rows' kappa at points that enter, (Q, b): of projection and values."""
        if len(self.recent) == self.tally.n:
            return np.zeros(errors.shape[:2])
        inherited = np.einsum("pbj,pj->pb", z**2, self.points.nugget)
        return np.asarray(np.mean(errors**2, axis=2) + inherited)

    def evict(self, j: int) -> None:
        self.recent.remove_slot(j, self.size)
        self.sums.remove(j)
        self.posterior.remove(j)
        self.points.remove(j)

    # -- following what changes all of S~ -------------------------------------------------------

    def arm_weights(self) -> Vector:
        """eta of a row of each arm: 1, or 1/n_a; 0 for an arm without rows."""
        counts = self.tally.counts
        if self.settings.weighting == "uniform":
            return (counts > 0).astype(np.float64)
        return np.divide(1.0, counts, out=np.zeros(len(counts)), where=counts > 0)

    def similarities(self) -> list[Matrix]:
        """Those of the rows learned until now; in force are `Points.K_arms`."""
        return [f.matrix(self.tally.counts, lambda: self.recent.history(self.n_arms)) for f in self.followers]

    def _due(self) -> bool:
        moves = self.settings.weighting == "per_arm" or any(f.moves(self.tally.counts) for f in self.followers)
        if not moves and self.decay == 1.0:
            return self.tally.since >= max(1000, 4 * self.points.capacity)  # rids the inverses of rounding
        lag = min(LAG * (self.tally.n - FOLLOWED), LONGEST_LAG)
        if self.decay < 1.0:
            lag = min(lag, LAG / (1.0 - self.decay))
        return self.tally.since >= lag

    def refresh(self, *, at_once: bool = True) -> None:
        """Similarity, weights and both inverses from the sums: n^3, and N n^2 for the sums per arm."""
        self.sum_up()
        self.refreshing = None
        self.tally.since = 0
        self.tally.refreshes += 1
        K_arms = self.similarities()
        lending = np.stack([K_arm[:, self.points.arms] for K_arm in K_arms], axis=1)
        S, v = self.sums.system(lending, self.arm_weights())
        begun = self._begin(K_arms, S, v, self.tally.n)
        if at_once or self.decay < 1.0 or self.window is not None:
            found = None
            while found is None:
                found = begun.work.advance()
            self._install(begun, *found)
        else:
            self.refreshing = begun
            self._go_on(begun)

    def resume(self, K_arms: list[Matrix], S: Matrix, v: Vector, rows: int, pieces: int) -> None:
        self.refreshing = self._begin(K_arms, S, v, rows, pieces)

    def _begin(self, K_arms: list[Matrix], S: Matrix, v: Vector, rows: int, pieces: int = 0) -> Refresh:
        before = self.points.K_arms
        self.points.follow(K_arms)
        K, ridge = self.points.gram.copy(), self.settings.ridge
        self.points.follow(before)
        return Refresh(K_arms, S, v, rows, Sliced(lambda: posterior_inverses(K, S, ridge), pieces))

    def _go_on(self, refresh: Refresh) -> None:
        found = refresh.work.advance()
        if found is not None:
            self._install(refresh, *found)

    def _install(self, refresh: Refresh, P: Matrix, A: Matrix, usage: Vector) -> None:
        """What was computed is in force, with the rows that came meanwhile."""
        self.refreshing = None
        self.points.follow(refresh.K_arms)
        self.posterior.set(P, A, refresh.v, usage)
        late = self.tally.n - refresh.rows
        if late:
            arms = self.recent.arms[-late:]
            k = self.points.full(arms, self.recent.kappa(self.size)[:, -late:])
            self.posterior.add_block(k, self.arm_weights()[arms], self.recent.rewards[-late:])
