"""A dictionary from many rows at once, in parts that may be computed apart: what out-of-core fitting is made of.

    points = choose_points(settings, sample, 512)                 # from some rows
    total = functools.reduce(merge, (sums(settings, points, batch) for batch in batches))
    engine = engine_of(settings, points, total, capacity=512, kept=last_rows)

Everything is deterministic. Points are drawn by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2023; in
blocks with rejection, Epperly, Tropp and Webber 2024), in proportion to their residuals; a row whose reward the
points so far do not explain counts for more. Sums at the points are exact for all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.contract import Settings
from kinbandits.regression.dictionary.points import PointSet
from kinbandits.regression.linalg import forward
from kinbandits.regression.pairs import Pairs

if TYPE_CHECKING:
    from kinbandits.regression.dictionary.engine import Dictionary

_SEED = 20171204  # the same for every policy, so that a policy's decisions repeat
_PROPOSALS = 32
_CANDIDATES = 4  # times the points: rows looked at, evenly spread
_BLOCK = 2**21  # kernel values at once
_NOVEL = 0.05  # of the ridge: a residual below this is no reason for a point
_CERTAIN = 1e-8  # of the prior: a residual below this is rounding, after all that is done with it


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
        k = pairs.gram(rows.arms[part], rows.contexts[part], points.arms, points.contexts)
        S += k.T @ k
        v += y[part] @ k
        ones += k.sum(axis=0)
    return Sums(S, v, ones, float(y @ y), len(rows), rows.counts)


def merge(a: Sums, b: Sums) -> Sums:
    """The sums over the rows of both, at the same points."""
    return Sums(a.S + b.S, a.v + b.v, a.ones + b.ones, a.squares + b.squares, a.n + b.n, a.counts + b.counts)


def engine_of(settings: Settings, points: PointSet, total: Sums, *, capacity: int, kept: History) -> Dictionary:
    """The engine that knows these sums; ``kept`` are some of their rows, the last ones at the end."""
    from kinbandits.regression.dictionary.engine import Dictionary, check

    check(settings)
    engine = Dictionary(settings, capacity, History(settings.n_arms))
    rows = kept.copy()
    rows.forgotten = total.n - len(kept)
    engine._counts, engine._n = total.counts.astype(np.intp), total.n
    engine._fill(rows, points, total)
    return engine


def choose_points(settings: Settings, rows: History, most: int) -> PointSet:
    """Which of the rows are to be points: at most so many, while one has a residual that matters."""
    some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _CANDIDATES * most)).astype(np.intp))
    arms, X, pairs = rows.arms[some], rows.contexts[some], Pairs.fixed(settings)
    rng, ridge = np.random.default_rng(_SEED), settings.ridge
    residual = pairs.prior(arms, X)
    least = novel(settings, residual)
    F = np.empty((min(most, len(arms)), len(arms)))  # K = F'F + what the points do not see, a line a point
    chosen: list[int] = []
    error = settings.learned(rows.rewards[some])
    error = error / (float(np.abs(error).max(initial=0.0)) or 1.0)  # squares of tiny rewards would vanish
    usual = float(np.mean(error**2)) or 1.0
    while len(chosen) < len(F):
        weight = np.where(residual > least, residual * (error**2 + usual), 0.0)
        several = min(_PROPOSALS, len(F) - len(chosen), int(np.count_nonzero(weight)))
        if not several:
            break
        proposed = rng.choice(len(arms), several, replace=False, p=weight / weight.sum())
        n = len(chosen)
        columns = pairs.gram(arms, X, arms[proposed], X[proposed])
        columns -= F[:n].T @ F[:n, proposed]
        accepted = _accepted(columns[proposed], rng.random(several), least[proposed])
        try:
            L: Matrix = np.asarray(np.linalg.cholesky(columns[proposed[accepted]][:, accepted]), dtype=np.float64)
        except np.linalg.LinAlgError:
            accepted = []
        if not accepted:  # rounding had left them more than there is
            residual[proposed] = 0.0
            continue
        new = forward(L, columns[:, accepted].T)
        F[n : n + len(accepted)] = new
        residual -= np.einsum("ij,ij->j", new, new)
        chosen += proposed[accepted].tolist()
        residual[chosen] = 0.0
        error = error - np.linalg.solve(new @ new.T + ridge * np.eye(len(accepted)), new @ error) @ new
    return PointSet(arms[chosen], X[chosen])


def _accepted(H: Matrix, draws: Vector, least: Vector) -> list[int]:
    """Which proposals stand: each by how much of its residual the ones before it have left, (b, b) matrix H."""
    H, first = H.copy(), H.diagonal().copy()
    accepted: list[int] = []
    for i, draw in enumerate(draws):
        left = float(H[i, i])
        if left > least[i] and (not accepted or left > draw * first[i]):
            accepted.append(i)
            column = H[:, i] / np.sqrt(left)
            H -= np.outer(column, column)
    return accepted
