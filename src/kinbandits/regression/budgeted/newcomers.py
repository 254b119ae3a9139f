"""Which rows take the places of which points, when the dictionary is full.

How much point j is missed is what the posterior loses without it: the rise of the regularised squared error,
w_j^2 / A_jj, plus a tenth of the mean squared reward times the prior variance that rows lose, (P S~ P)_jj / P_jj.
For a row outside, the same two are (reward - mean)^2 delta / (delta + ridge), delta its residual, and
sum e_i^2 / delta, e_i its residual covariance with the last rows, which stand for all. It must be missed `MARGIN`
times as much.

What one of several newcomers says already, the others no longer do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinbandits._types import Indices, Vector

if TYPE_CHECKING:
    from kinbandits.regression.budgeted.model import Model

NOVEL = 0.05  # of the ridge: a residual below this is no reason for a point
VARIANCE_SHARE = 0.1
MARGIN = 3.0
MOST = 8  # at once: an exchange costs some n^2


def newcomers(model: Model, surprises: Vector) -> tuple[Indices, Indices]:
    """Rows kept (their numbers) and the slots that they take, of the last rows, with reward - mean as they came."""
    points, recent, posterior, ridge = model.points, model.recent, model.posterior, model.settings.ridge
    several = len(surprises)
    rows, X = recent.rows(model.size, several), recent.contexts[-several:]
    k = points.full(rows.arms, rows.kappa)
    U = k @ posterior.P
    delta = points.prior(rows.arms, X) - np.einsum("ij,ij->i", k, U)
    novel = np.flatnonzero(delta > NOVEL * ridge)
    if not len(novel):
        return novel, novel
    arms, X, U, delta = rows.arms[novel], X[novel], U[novel], delta[novel]
    weight = model.arm_weights()[arms]
    share = VARIANCE_SHARE * model.tally.squares / model.tally.n
    judge_arms, judge_X, judge_weights, judge_k = model.judges(several)
    both = points.context_values(np.concatenate([judge_X, X]), X)
    residual = points.between(np.concatenate([judge_arms, arms]), arms, both)
    residual -= np.concatenate([judge_k, k[novel]]) @ U.T
    e, own = residual[: len(judge_arms)], residual[len(judge_arms) :]
    gain = weight * surprises[novel] ** 2 * delta / (delta + ridge / weight)
    gain += share * (delta + judge_weights @ np.square(e) / delta)
    missed = posterior.missed(share)
    slots = np.argsort(missed, kind="stable")[: min(len(novel), MOST)]
    accepted: list[int] = []
    for slot in slots:
        left = own.diagonal()
        worth = np.where(left > NOVEL * ridge, gain * left / delta, 0.0)
        i = int(np.argmax(worth))
        if not worth[i] > MARGIN * missed[slot]:
            break
        accepted.append(i)
        own = own - np.outer(own[:, i], own[i]) / left[i]
    first = len(recent) - several
    return first + novel[accepted], slots[: len(accepted)]
