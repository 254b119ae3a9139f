"""Arms that come and go in a model of the budgeted engine."""

from __future__ import annotations

import numpy as np

from kinbandits._types import Matrix
from kinbandits.errors import InvalidInputError
from kinbandits.regression.base import RegressionSettings
from kinbandits.regression.budgeted.followers import EmbeddingFollower, make_follower, without
from kinbandits.regression.budgeted.model import Model
from kinbandits.regression.budgeted.sums import Rows


def add_arm(model: Model, settings: RegressionSettings) -> None:
    """One arm more, without rows; ``settings`` have its similarity."""
    model.sum_up()
    before = model.points.K_arms
    model.tally.counts = np.append(model.tally.counts, 0)
    _resettle(model, settings)
    model.sums.with_arm()
    for follower in model.followers:
        if isinstance(follower, EmbeddingFollower):
            follower.with_arm()
    _follow(model, before, [K[:-1, :-1] for K in model.similarities()])


def remove_arm(model: Model, settings: RegressionSettings, arm: int) -> None:
    """An arm leaves with its rows and its points."""
    model.sum_up()
    before = [without(K, arm) for K in model.points.K_arms]
    if model.sums.joint:
        _take_out(model, arm)
    for j in reversed(range(model.size)):
        if model.points.arms[j] == arm:
            model.evict(j)
    model.tally.n -= int(model.tally.counts[arm])
    model.tally.counts = np.delete(model.tally.counts, arm)
    _resettle(model, settings, gone=arm)
    model.sums.without_arm(arm)
    model.recent.drop_arm(arm)
    model.tally.waiting.clear()
    for follower in model.followers:
        if isinstance(follower, EmbeddingFollower):
            follower.without_arm(arm)
    _follow(model, before, model.similarities())


def _follow(model: Model, before: list[Matrix], after: list[Matrix]) -> None:
    """All anew, with the similarity of now; sums of the full kernel cannot follow if that of other arms changed."""
    if model.sums.joint and not all(np.allclose(a, b, atol=1e-12) for a, b in zip(before, after, strict=True)):
        raise InvalidInputError(
            "the similarity of the other arms changes with this one, and there is no room for the sums of each arm "
            f"that this needs with {model.n_arms} arms and {model.points.capacity} points. retire_arm() retires an "
            "arm; fewer points make room"
        )
    model.refresh()


def _take_out(model: Model, arm: int) -> None:
    """Take the rows of an arm out of sums of the full kernel: possible where it lends nothing, or all are kept."""
    recent, points = model.recent, model.points
    if not any(np.delete(K_arm[arm], arm).any() for K_arm in points.K_arms):
        return
    mine = np.flatnonzero(recent.arms == arm)
    if len(mine) < model.tally.counts[arm]:
        raise InvalidInputError(
            f"the arm has {model.tally.counts[arm]} rows, of which {len(mine)} are still kept: with a known "
            "similarity the sums are those of all arms together, and the data of one arm cannot be taken out. "
            "retire_arm() retires it"
        )
    rows = recent.rows(model.size)
    taken = rows.arms[mine], rows.rewards[mine], -rows.weights[mine], rows.kappa[:, mine]
    model.sums.add_block(Rows(*taken))


def _resettle(model: Model, settings: RegressionSettings, gone: int | None = None) -> None:
    """The same kernels over other arms; similarities that are not followed by sums start again."""
    fresh = [make_follower(t, model.n_arms, model.n_features) for t in settings.terms]
    model.followers = [
        old if isinstance(old, EmbeddingFollower) else new for old, new in zip(model.followers, fresh, strict=True)
    ]
    model.settings = settings
    model.points.resettle(settings.terms, gone)
