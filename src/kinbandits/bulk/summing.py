"""What is additive over rows: sums at fixed points, rows per arm, embeddings of arms.

Sums are kept in two numbers each, high and low (about 32 digits): the regression multiplies their rounding by its
condition number, 1e9 and more for millions of rows, and partitions could be read off its answers.

Products of blocks are as exact (Ozaki's splitting): with A = H + L, H the leading 20 bits, no sum in H'H is rounded
for up to 4,096 rows, and L is a millionth of A, so the rounding of what it adds is too small to matter.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._work import finished
from kinbandits.bulk.fold import State
from kinbandits.regression import RegressionSettings
from kinbandits.regression.budgeted import Model
from kinbandits.regression.budgeted.followers import EmbeddingFollower
from kinbandits.regression.budgeted.slices import posterior_inverses
from kinbandits.rewards import Rewards, RewardScale

BLOCK = 4096  # rows at once; see above
_BITS = 20
_LOW = "_low"


@dataclass(frozen=True)
class Plan:
    """What every worker must know to sum up rows."""

    settings: RegressionSettings  # of the regression
    n_arms: int  # N
    arms: Indices  # of the points
    contexts: Matrix
    rewards: Rewards | None  # how rewards are learned
    scale: RewardScale

    def model(self) -> Model:
        model = Model(self.settings, self.n_arms, self.contexts.shape[1])
        for follower in model.followers:
            follower.let_go()
        finished(model.points.fill(self.arms, self.contexts))
        model.sums.size = len(self.arms)
        return model

    def learned(self, arms: Indices, contexts: Matrix, rewards: Vector) -> tuple[Indices, Matrix, Vector]:
        if self.rewards is not None:
            arms, contexts, rewards = self.rewards.rows(arms, contexts, rewards, self.n_arms)
        return arms, contexts, self.scale.learned(rewards)


def summed(plan: Plan, arms: Indices, contexts: Matrix, rewards: Vector) -> State:
    """The sums of these rows."""
    model = plan.model()
    arms, contexts, rewards = plan.learned(arms, contexts, rewards)
    by_arm = np.argsort(arms, kind="stable")
    edges = np.searchsorted(arms[by_arm], np.arange(plan.n_arms + 1))
    total = {"counts": np.bincount(arms, minlength=plan.n_arms), "squares": np.array(rewards @ rewards)}
    parts = _additive(model)
    total |= {name + end: np.zeros(array.shape) for name, array in parts.items() for end in ("", _LOW)}
    if model.points.joint and model.points.lending.any(axis=1).all():  # all arms lend to all points: one sum
        for low in range(0, len(arms), BLOCK):
            mine = by_arm[low : low + BLOCK]
            _add_joint(total, model, arms[mine], contexts[mine], rewards[mine])
        return total
    for arm in range(plan.n_arms):
        for low in range(edges[arm], edges[arm + 1], BLOCK):
            mine = by_arm[low : min(low + BLOCK, edges[arm + 1])]
            _add_rows(total, model, arm, contexts[mine], rewards[mine])
    return total


def _add_joint(total: State, model: Model, arms: Indices, contexts: Matrix, rewards: Vector) -> None:
    """Rows in order of their arms enter the one sum that all arms share."""
    points = model.points
    values = points.context_values(contexts, points.contexts)
    edges = [0, *(np.flatnonzero(np.diff(arms)) + 1).tolist(), len(arms)]
    slices = [slice(*pair) for pair in itertools.pairwise(edges)]
    for mine in slices:
        values[:, mine] *= points.lending[arms[mine.start]][:, None, :]
    high, low = both = _split(values.sum(axis=0) if len(values) > 1 else values[0])
    _grow(total, "S", (0, 0, 0), *_product(both, both))
    for mine in slices:
        paid = _split(rewards[mine, None])
        _grow(total, "v", (int(arms[mine.start]), 0), *_product(paid, (high[mine], low[mine])))


def _add_rows(total: State, model: Model, arm: int, contexts: Matrix, rewards: Vector) -> None:
    """Rows of one arm enter the sums; points that it lends nothing are left out."""
    points = model.points
    at: Any = slice(0, points.size)
    if points.joint:
        lent = points.lending[arm].any(axis=0)
        at = at if lent.all() else np.flatnonzero(lent)
    kappa = points.context_values(contexts, points.contexts[at])
    if points.joint:
        kappa = np.einsum("pj,prj->rj", points.lending[arm][:, at], kappa)[None]
    square = (at, at) if isinstance(at, slice) else np.ix_(at, at)
    group = 0 if points.joint else arm
    parts, paid = [_split(k) for k in kappa], _split(rewards[:, None])
    for p, left in enumerate(parts):
        _grow(total, "v", (arm, p, at), *_product(paid, left))
        for q, right in enumerate(parts):
            _grow(total, "S", (group, p, q, *square), *_product(left, right))
    ones = _split(np.ones((len(rewards), 1)))
    for i, (term, follower) in enumerate(zip(model.settings.terms, model.followers, strict=True)):
        if isinstance(follower, EmbeddingFollower):
            _grow(
                total, f"follower_{i}_Psi", arm, *_product(ones, _split(follower.features(term.select(contexts))))
            )


def product(A: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
    """A'B in two numbers, for at most `BLOCK` rows."""
    first = _split(A)
    return _product(first, first if A is B else _split(B))


def _product(A: tuple[Matrix, Matrix], B: tuple[Matrix, Matrix]) -> tuple[Matrix, Matrix]:
    (high, low), (other, rest) = A, B
    if A is B:
        low = low.T @ (high + 0.5 * low)
        return high.T @ high, low + low.T
    return high.T @ other, low.T @ (other + rest) + high.T @ rest


def _split(A: Matrix) -> tuple[Matrix, Matrix]:
    """A as H and L (see above)."""
    top = max(float(A.max(initial=0.0)), -float(A.min(initial=0.0)))
    large = 1.5 * 2.0 ** (math.frexp(top)[1] + 52 - _BITS)
    high = A + large
    high -= large
    return high, A - high


def _grow(total: State, name: str, at: Any, high: Matrix, low: Matrix) -> None:
    """Add to a sum; what rounding takes from the high number goes to the low one."""
    before = total[name][at]
    high = high.reshape(before.shape)
    after = before + high
    added = after - before
    low = low.reshape(before.shape) + ((before - (after - added)) + (high - added))
    total[name][at] = after
    total[name + _LOW][at] += low


def add(a: State, b: State) -> State:
    """The sums of two stretches of rows, added up; changes ``a``."""
    for name in a:
        if name + _LOW in a:
            _grow(a, name, ..., b[name], b[name + _LOW])
        elif not name.endswith(_LOW):
            a[name] += b[name]
    return a


def _additive(model: Model) -> State:
    arrays = model.sums.to_arrays()
    found = {"S": arrays["S"], "v": arrays["v"]}
    for p, follower in enumerate(model.followers):
        found |= {f"follower_{p}_{name}": array for name, array in follower.to_arrays().items()}
    return found


def made(plan: Plan, total: State, last: tuple[Indices, Matrix, Vector], taught: Model | None = None) -> Model:
    """The model of these sums and these last rows, on top of what was taught before."""
    model = plan.model()
    last = plan.learned(*last)
    total = {k: v + total[k + _LOW] if k + _LOW in total else v for k, v in total.items() if not k.endswith(_LOW)}
    tally = model.tally
    if taught is not None:
        taught.sum_up()
        for follower in taught.followers:
            follower.let_go()
        before = {"counts": taught.tally.counts, "squares": np.array(taught.tally.squares), **_additive(taught)}
        total = {name: before[name] + array for name, array in total.items()}
        kept = taught.recent
        last = (
            np.concatenate([kept.arms, last[0]]),
            np.concatenate([kept.contexts, last[1]]),
            np.concatenate([kept.rewards, last[2]]),
        )
        tally.refreshes = taught.tally.refreshes
    tally.counts = total["counts"].astype(np.intp)
    tally.n, tally.squares = int(tally.counts.sum()), float(total["squares"])
    tally.refreshes += 1
    model.sums.restore({"S": total["S"], "v": total["v"], "scale": np.array(1.0)})
    for p, follower in enumerate(model.followers):
        prefix = f"follower_{p}_"
        mine = {name.removeprefix(prefix): array for name, array in total.items() if name.startswith(prefix)}
        if mine:
            follower.restore(mine)
    most = model.recent.limit
    arms, contexts, rewards = last[0][-most:], last[1][-most:], last[2][-most:]
    model.recent.fill(arms, contexts, rewards, np.ones(len(arms)))
    points = model.points
    points.follow(model.similarities())
    values = points.values(contexts)
    model.recent.set_rows(0, points.pairs(arms, values)[None] if points.joint else values)
    S, v = model.sums.system(points.lending, model.arm_weights())
    P, A, usage = finished(posterior_inverses(points.gram.copy(), S, plan.settings.ridge))
    model.posterior.set(P, A, v, usage)
    return model
