"""A dictionary from many rows at once, in parts that may be computed apart: what out-of-core fitting is made of.

    points = choose_points(settings, sample, 512)                 # from some rows
    total = functools.reduce(merge, (sums(settings, points, batch) for batch in batches))
    engine = engine_of(settings, points, total, capacity=512, kept=last_rows)

Everything is deterministic. Points are drawn by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2023), in
proportion to their residuals; a row whose reward the points so far do not explain counts for more. Sums at the
points are exact for all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.contract import Query, Settings
from kinbandits.regression.pairs import Pairs

_SEED = 20171204  # the same for every policy, so that a policy's decisions repeat
_CANDIDATES = 4  # times the points: rows looked at, evenly spread
_BLOCK = 2**21  # kernel values at once
_NOVEL = 0.05  # of the ridge: a residual below this is no reason for a point
_CERTAIN = 1e-8  # of the prior: a residual below this is rounding, after all that is done with it


class PointSet(NamedTuple):
    """Arms (n,) and contexts (n, d)."""

    arms: Indices
    contexts: Matrix


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over rows at n points, as learned: of k k' (n, n), y k (n,), k (n,), y^2; rows, and rows per arm."""

    S: Matrix
    v: Vector
    ones: Vector
    squares: float
    n: int
    counts: Indices


def novel(settings: Settings, prior: Vector) -> Vector:
    """Above which residual rows of such a prior may be points."""
    return np.maximum(_NOVEL * settings.ridge, _CERTAIN * prior)


def sums(settings: Settings, points: PointSet, rows: History) -> Sums:
    """Over these rows: n^2 each."""
    n, y, pairs = len(points.arms), settings.learned(rows.rewards), Pairs.fixed(settings)
    S, v, ones = np.zeros((n, n)), np.zeros(n), np.zeros(n)
    step = max(1, _BLOCK // max(n, 1))
    for low in range(0, len(rows), step):
        part = slice(low, low + step)
        k = pairs.gram(rows.arms[part], rows.contexts[part], *points)
        S += k.T @ k
        v += y[part] @ k
        ones += k.sum(axis=0)
    return Sums(S, v, ones, float(y @ y), len(rows), rows.counts)


def merge(a: Sums, b: Sums) -> Sums:
    """The sums over the rows of both, at the same points."""
    return Sums(a.S + b.S, a.v + b.v, a.ones + b.ones, a.squares + b.squares, a.n + b.n, a.counts + b.counts)


def choose_points(settings: Settings, rows: History, most: int) -> PointSet:
    """Which of the rows are to be points: at most so many, while one has a residual that matters."""
    some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _CANDIDATES * most)).astype(np.intp))
    arms, X, pairs = rows.arms[some], rows.contexts[some], Pairs.fixed(settings)
    rng, residual = np.random.default_rng(_SEED), pairs.prior(Query(arms, X[None]))[0]
    least = 0.5 * novel(settings, residual)  # there is time for more than single rows may bring
    F = np.empty((min(most, len(arms)), len(arms)))  # K = F'F + what the points do not see, a line a point
    error = settings.learned(rows.rewards[some])
    error = error / (float(np.abs(error).max(initial=0.0)) or 1.0)  # squares of tiny rewards would vanish
    usual = float(np.mean(error**2)) or 1.0
    chosen: list[int] = []
    while (n := len(chosen)) < len(F):
        weight = np.cumsum(np.where(residual > least, residual * (error**2 + usual), 0.0))
        if not weight[-1] > 0.0:
            break
        p = int(np.searchsorted(weight, rng.random() * weight[-1], side="right"))
        line = pairs.gram(arms[p : p + 1], X[p : p + 1], arms, X)[0] - F[:n, p] @ F[:n]
        if not line[p] > least[p]:  # rounding had left it more than there is
            residual[p] = 0.0
            continue
        F[n] = line / np.sqrt(line[p])
        chosen.append(p)
        residual -= F[n] ** 2
        residual[chosen] = 0.0
        error -= float(F[n] @ error) / (float(F[n] @ F[n]) + settings.ridge) * F[n]
    return PointSet(arms[chosen], X[chosen])
