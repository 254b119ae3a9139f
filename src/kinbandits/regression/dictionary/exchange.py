"""Which rows become points, and what the sums at a new point are.

How much point j is missed is what the posterior loses without it: the rise of the regularised squared error,
w_j^2 / A_jj, plus a tenth of the mean squared reward times the prior variance that rows lose, (P S P)_jj / P_jj.
For a row outside, the same two are (y - mean)^2 delta / (delta + ridge), delta its residual, and
sum e_i^2 / delta, e_i its residual covariance with the last rows, which stand for all. It must be missed `MARGIN`
times as much. What one of several newcomers says already, the others no longer do.

A row's k at a new point is z'k + error, z = (K + `_NUGGET` diag(K))^-1 k_new over the `_NEAREST` points that say
most of it. The error is known for the rows kept, and taken as zero for older ones. So the new line of S is
z'S + sum over rows kept of error k': exact for the rows kept. Without the nugget z has entries of 1e3 where contexts
are dense, and errors multiply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dposv

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.contract import Query
from kinbandits.regression.dictionary.build import novel

if TYPE_CHECKING:
    from kinbandits.regression.dictionary.engine import Dictionary

VARIANCE_SHARE = 0.1
MARGIN = 3.0
_JUDGES = 128  # rows that stand for all
_NUGGET = 1e-5
_NEAREST = 64


def newcomers(engine: Dictionary, errors: Vector, most: int) -> tuple[Indices, Indices]:
    """Rows kept (their numbers) and the points whose places they take, of the last rows, with y - mean as they came."""
    pairs, recent, inverses, ridge = engine.pairs, engine.recent, engine.inverses, engine.settings.ridge
    several, rows = len(errors), recent.rows
    k, arms, X = recent.k(engine.size)[-several:], rows.arms[-several:], rows.contexts[-several:]
    U = k @ inverses.P
    prior = pairs.prior(Query(arms, X[None]))[0]
    delta, least = prior - np.einsum("ij,ij->i", k, U), novel(engine.settings, prior)
    may = np.flatnonzero(delta > least)
    if not len(may):
        return may, may
    arms, X, U, delta, least = arms[may], X[may], U[may], delta[may], least[may]
    share = VARIANCE_SHARE * engine.squares / max(engine.n_rows, 1)
    judges = slice(max(0, len(rows) - several - _JUDGES), len(rows) - several)
    weight = engine.n_rows / max(judges.stop - judges.start, 1)
    others = np.concatenate([rows.arms[judges], arms]), np.concatenate([rows.contexts[judges], X])
    residual = pairs.gram(*others, arms, X)
    residual -= np.concatenate([recent.k(engine.size)[judges], k[may]]) @ U.T
    e, own = residual[: -len(may)], residual[-len(may) :]
    gain = errors[may] ** 2 * delta / (delta + ridge)
    gain += share * (delta + weight * np.square(e).sum(axis=0) / delta)
    missed = inverses.missed(share)
    places = np.argsort(missed, kind="stable")[: min(len(may), most)]
    accepted: list[int] = []
    for place in places:
        left = own.diagonal()
        worth = np.where(left > least, gain * left / delta, 0.0)
        i = int(np.argmax(worth))
        if not worth[i] > MARGIN * missed[place]:
            break
        accepted.append(i)
        own = own - np.outer(own[:, i], own[i]) / left[i]
    return len(rows) - several + may[accepted], places[: len(accepted)]


def sums_at(engine: Dictionary, k: Matrix, at_new: Matrix, leaving: Indices) -> tuple[Matrix, Matrix, Vector, Vector]:
    """Of k k' at b new points with the points there (b, n) and among themselves (b, b); of y k and of k (b,).

    ``k`` (b, n) are the new points' kernel values at the points, of which some leave; ``at_new`` (b, rows kept).
    """
    recent, K = engine.recent, engine.K
    k_kept, rewards, z = recent.k(engine.size), engine.settings.learned(recent.rows.rewards), np.zeros(k.shape)
    stay = np.delete(np.arange(engine.size), leaving)
    own = K.diagonal()[stay]
    for i, column in enumerate(k[:, stay]):
        near = stay
        if len(stay) > _NEAREST:
            near = stay[np.sort(np.argpartition(-np.square(column) / own, _NEAREST)[:_NEAREST])]
        if len(near):
            M = K[near[:, None], near]
            M.flat[:: len(near) + 1] *= 1.0 + _NUGGET
            _, found, info = dposv(M, k[i, near], lower=1, overwrite_a=1)
            if not info:
                z[i, near] = found
    errors, lines = at_new - z @ k_kept.T, z @ engine.S
    corner = lines @ z.T + errors @ at_new.T + (at_new - errors) @ errors.T
    v, ones = z @ engine.v + errors @ rewards, z @ engine.ones + errors.sum(axis=1)
    return lines + errors @ k_kept, corner, v, ones
