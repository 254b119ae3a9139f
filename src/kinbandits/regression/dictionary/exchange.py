"""Which rows take the places of which points, when the dictionary is full.

How much point j is missed is what the posterior loses without it: the rise of the regularised squared error,
w_j^2 / A_jj, plus a tenth of the mean squared reward times the prior variance that rows lose, (P S P)_jj / P_jj.
For a row outside, the same two are (y - mean)^2 delta / (delta + ridge), delta its residual, and
sum e_i^2 / delta, e_i its residual covariance with the last rows, which stand for all. It must be missed `MARGIN`
times as much.

What one of several newcomers says already, the others no longer do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinbandits._types import Indices, Vector
from kinbandits.regression.dictionary.build import novel

if TYPE_CHECKING:
    from kinbandits.regression.dictionary.engine import Dictionary

VARIANCE_SHARE = 0.1
MARGIN = 3.0
MOST = 8  # at once: an exchange costs some n^2


def newcomers(engine: Dictionary, errors: Vector) -> tuple[Indices, Indices]:
    """Rows kept (their numbers) and the slots that they take, of the last rows, with y - mean as they came."""
    pairs, recent, inverses, ridge = engine.pairs, engine.recent, engine.inverses, engine.settings.ridge
    several = len(errors)
    k, arms, X = recent.k(engine.size)[-several:], recent.arms[-several:], recent.contexts[-several:]
    U = k @ inverses.P
    prior = pairs.prior(arms, X)
    delta, least = prior - np.einsum("ij,ij->i", k, U), novel(engine.settings, prior)
    may = np.flatnonzero(delta > least)
    if not len(may):
        return may, may
    arms, X, U, delta, least = arms[may], X[may], U[may], delta[may], least[may]
    share = VARIANCE_SHARE * engine.mean_square
    judge, weight = engine.judges(several)
    others = np.concatenate([recent.arms[judge], arms]), np.concatenate([recent.contexts[judge], X])
    residual = pairs.gram(*others, arms, X)
    residual -= np.concatenate([recent.k(engine.size)[judge], k[may]]) @ U.T
    e, own = residual[: -len(may)], residual[-len(may) :]
    gain = errors[may] ** 2 * delta / (delta + ridge)
    gain += share * (delta + weight * np.square(e).sum(axis=0) / delta)
    missed = inverses.missed(share)
    slots = np.argsort(missed, kind="stable")[: min(len(may), MOST)]
    accepted: list[int] = []
    for slot in slots:
        left = own.diagonal()
        worth = np.where(left > least, gain * left / delta, 0.0)
        i = int(np.argmax(worth))
        if not worth[i] > MARGIN * missed[slot]:
            break
        accepted.append(i)
        own = own - np.outer(own[:, i], own[i]) / left[i]
    return len(recent) - several + may[accepted], slots[: len(accepted)]
