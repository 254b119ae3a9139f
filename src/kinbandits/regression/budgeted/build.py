"""A model from many rows at once, in pieces: what teaching them one by one would give, in blocks.

1. Points are drawn by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2023; in blocks with rejection,
      Epperly, Tropp and Webber 2024), in proportion to their residuals. A row whose reward the points so far do not
      explain counts for more. Candidates are all rows, or evenly spread ones, four times the points.
2. Sums at the points in one pass over the rows: exact for all of them.
3. Inverses, as at any refresh.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._work import Work
from kinbandits.history import History
from kinbandits.regression.base import RegressionSettings
from kinbandits.regression.budgeted.model import Model
from kinbandits.regression.budgeted.newcomers import NOVEL
from kinbandits.regression.budgeted.slices import PIECE, VALUE, posterior_inverses
from kinbandits.regression.budgeted.sums import Rows, changing

_SEED = 20171204  # the same for every policy, so that a policy's decisions repeat
_PROPOSALS = 32
_EXACT_EMBEDDINGS = 8192  # rows up to which embeddings are exact


def built(model: Model, arms: Indices, contexts: Matrix, rewards: Vector) -> Work[Model]:
    """The model, which must be new, taught these rows."""
    tally, recent, points = model.tally, model.recent, model.points
    memory = model.settings.memory
    rows, first = len(arms), max(0, len(arms) - recent.limit)
    weights = np.ones(rows) if memory is None else memory.weights(rows)
    yield from _followed(model, arms, contexts)
    recent.fill(arms[first:], contexts[first:], rewards[first:], weights[first:])
    tally.counts += np.bincount(arms, minlength=model.n_arms)
    tally.n += rows
    tally.squares += float(rewards @ rewards)
    tally.refreshes += 1
    points.follow(model.similarities())
    asked = np.unique(np.linspace(0, rows - 1, min(rows, 4 * points.capacity)).astype(np.intp))
    some = History.of(model.n_arms, arms[asked], contexts[asked], rewards[asked])
    chosen = yield from draw_points(model.settings, points.K_arms, some, NOVEL * model.settings.ridge)
    chosen = asked[chosen]
    yield from points.fill(arms[chosen], contexts[chosen])
    model.sums.size = n = len(chosen)
    a_row = n * points.kinds * (VALUE + 2.0 * n * points.kinds) + 1.0
    step = max(1, int(PIECE / a_row))
    for low in range(0, rows, step):
        part = slice(low, min(low + step, rows))
        values = points.values(contexts[part])
        kappa = points.pairs(arms[part], values)[None] if points.joint else values
        model.sums.add_block(Rows(arms[part], rewards[part], weights[part], kappa))
        if part.stop > first:
            recent.set_rows(max(low, first) - first, kappa[:, max(0, first - low) :])
        yield a_row * (part.stop - low)
    S, v = model.sums.system(points.lending, model.arm_weights())
    P, A, usage = yield from posterior_inverses(points.gram.copy(), S, model.settings.ridge)
    model.posterior.set(P, A, v, usage)
    return model


def _followed(model: Model, arms: Indices, contexts: Matrix) -> Work[None]:
    """Similarities that change with the data have seen these rows."""
    exact = len(arms) <= _EXACT_EMBEDDINGS
    for term, follower in zip(model.settings.terms, model.followers, strict=True):
        if not exact:
            follower.let_go()
        for low in range(0, len(arms) if changing(model.settings) else 0, 32):
            high = min(low + 32, len(arms))
            follower.observe_block(arms, term.select(contexts[:high]), low, high)
            yield VALUE * (high - low) * (high if exact else 1.0)
        if len(arms) > model.recent.limit:
            follower.let_go()


def draw_points(settings: RegressionSettings, K_arms: list[Matrix], rows: History, least: float) -> Work[Indices]:
    """Which of the rows are to be points: as many as the budget, while one has a residual above ``least``."""
    terms, arms, X, most = settings.terms, rows.arms, rows.contexts, settings.budget
    rng = np.random.default_rng(_SEED)  # F below: K = F'F + what the points do not see
    residual = terms.prior(K_arms, arms, X)
    F = np.empty((min(most, len(arms)), len(arms)))  # a line a point: memory is touched as it is needed
    chosen: list[int] = []
    error, usual = rows.rewards.copy(), float(np.mean(rows.rewards**2)) or 1.0
    while len(chosen) < len(F):
        open_to = np.where(residual > least, residual * (error**2 + usual), 0.0)
        several = min(_PROPOSALS, len(F) - len(chosen), int(np.count_nonzero(open_to)))
        if not several:
            break
        proposed = rng.choice(len(arms), several, replace=False, p=open_to / open_to.sum())
        n = len(chosen)
        columns = terms.gram(K_arms, arms, X, arms[proposed], X[proposed])
        columns -= F[:n].T @ F[:n, proposed]
        accepted = _accepted(columns[proposed], rng.random(several), least)
        if not accepted:  # rounding had left them more than there is
            residual[proposed] = 0.0
            continue
        L = cholesky(columns[proposed[accepted]][:, accepted], lower=True, check_finite=False)
        new = solve_triangular(L, columns[:, accepted].T, lower=True, check_finite=False)
        F[n : n + len(accepted)] = new
        residual -= np.einsum("ij,ij->j", new, new)
        chosen += proposed[accepted].tolist()
        residual[chosen] = 0.0
        error -= np.linalg.solve(new @ new.T + settings.ridge * np.eye(len(accepted)), new @ error) @ new
        yield len(arms) * several * (VALUE * len(terms) + 2.0 * n + several)
    return np.array(chosen, dtype=np.intp)


def _accepted(H: Matrix, draws: Vector, least: float) -> list[int]:
    """Which proposals stand: each by how much of its residual the ones before it have left, (b, b) matrix H."""
    H, first = H.copy(), H.diagonal().copy()
    accepted: list[int] = []
    for i, draw in enumerate(draws):
        left = float(H[i, i])
        if left > least and (not accepted or left > draw * first[i]):
            accepted.append(i)
            column = H[:, i] / np.sqrt(left)
            H -= np.outer(column, column)
    return accepted
