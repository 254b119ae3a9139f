"""Choosing settings by playing: run the bandit itself on rows whose rewards are known, and keep what did best.

Games are in `kinbandits.playing`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import number_array
from kinbandits._types import Matrix, Vector
from kinbandits._value import positive
from kinbandits.errors import InvalidInputError, InvalidTypeError, TuningWarning
from kinbandits.kernels import DEFAULT_KERNEL, Stationary, median_distance
from kinbandits.playing import Player, Policies, Substitution
from kinbandits.policies import KMTLUCB
from kinbandits.similarity import Independent, Similarity, Weighting

Criterion = Literal["replay", "leave_one_out", "likelihood"]

__all__ = ["Tried", "Tuned", "tune"]

LENGTH_SCALES = (0.25, 0.35, 0.5, 0.71, 1.0, 1.41)  # times the median distance
RIDGES = (0.001, 0.01, 0.1)
WIDTHS = (0.1, 0.2, 0.3, 0.6, 1.0)  # exploration over the root of the ridge


@dataclass(frozen=True)
class Tried:
    """One point of the grid.

    Attributes:
        kernel, ridge, exploration: the settings; the kernel has its length scale.
        loss: what is to be small: regret a round (replay), squared error, or minus log-likelihood a row.
        error: standard error of the loss over orders (0 where there is one).
    """

    kernel: Stationary
    ridge: float
    exploration: float
    loss: float
    error: float = 0.0

    @property
    def length_scale(self) -> float:
        """Of the kernel."""
        return _number(self.kernel)


@dataclass(frozen=True)
class Tuned:
    """What was found.

    Attributes:
        best: the point chosen.
        table: all points, best first.
        criterion: how they were judged.
    """

    best: Tried
    table: tuple[Tried, ...]
    criterion: Criterion

    @property
    def settings(self) -> dict[str, Any]:
        """For ``KMTLUCB(arms, **settings)``."""
        return {"context_kernel": self.best.kernel, "ridge": self.best.ridge, "exploration": self.best.exploration}

    def __str__(self) -> str:
        lines = ["length_scale     ridge  exploration        loss"]
        for t in self.table[:10]:
            lines.append(
                f"{t.length_scale:12.4g}  {t.ridge:8.3g}  {t.exploration:11.4g}  {t.loss:.4f} +- {t.error:.4f}"
            )
        return "\n".join(lines)


def tune(
    contexts: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    rewards: ArrayLike | None = None,
    arms: ArrayLike | None = None,
    propensities: ArrayLike | None = None,
    kernel: Stationary = DEFAULT_KERNEL.kernel,
    length_scales: Sequence[float] = LENGTH_SCALES,
    ridges: Sequence[float] = RIDGES,
    widths: Sequence[float] = WIDTHS,
    criterion: Criterion = "replay",
    pick: Literal["best", "centre"] = "best",
    orders: int = 4,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    similarity: Similarity | None = None,
    weighting: Weighting = "uniform",
) -> Tuned:
    """Choose length scale, ridge and exploration on labelled rows or a log.

    The bandit is played on the rows in several random orders with every setting of the grid, and the setting with
    the least regret a round is taken. In a log only the arm that was played has
    a known reward: rounds in which the bandit would have played another are left out, so the log should be long and
    its arms well mixed; what is small then is minus the mean reward.

    Args:
        contexts: (n, d).
        labels: (n,) class of each row; arm a pays 1 if the label is the a-th class, else 0.
        rewards: in place of labels: (n, N), what every arm would have paid; or, with ``arms``, (n,).
        arms: (n,) the arm played in each row of a log.
        propensities: (n,) the probability with which it was played; rows are weighted by their inverse.
        kernel: whose length scale is looked for: `RationalQuadratic`, `RBF` or `Matern`. A length scale of its own
            is one more factor.
        length_scales: tried, as multiples of the median distance of the contexts.
        ridges: tried.
        widths: tried, as exploration / sqrt(ridge): multiples of the posterior's standard deviation.
        criterion: ``"replay"``, as said; or a batch criterion, ``"leave_one_out"`` squared error or the
            ``"likelihood"``. These are cheap, but see every arm's reward in every row, which a bandit does not, and
            say nothing about exploration (the largest of ``widths`` is taken): they picked worse in our trials,
            hence a `TuningWarning`.
        pick: ``"best"``, or the geometric ``"centre"`` of the five best points.
        orders: random orders in which the rows are played.
        seed: of the orders.
        progress: called with the number of games played and their number.
        similarity: of the bandit that plays; for `Known` and the like, arms are in the order of the classes, of the
            columns of ``rewards``, or of the sorted names in ``arms``. None is independent arms, which are played
            by forward substitution, many times faster than any other.
        weighting: of that bandit.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(60, 2))
        >>> found = tune(X, labels=X[:, 0] > 0, ridges=[0.01], widths=[0.1, 1.0], orders=2)
        >>> len(found.table)
        12
    """
    X = number_array("contexts", contexts)
    if X.ndim != 2 or len(X) < 4:
        raise InvalidInputError(f"contexts must be (rows, features) with at least 4 rows, got shape {X.shape}")
    Y, weights = _rewards(len(X), labels, rewards, arms, propensities)
    if not isinstance(kernel, Stationary) or isinstance(kernel.length_scale, tuple):
        raise InvalidTypeError(f"kernel must be one with a single length scale, such as kb.RBF(); got {kernel!r}")
    for name, values in (("length_scales", length_scales), ("ridges", ridges), ("widths", widths)):
        if not len(values):
            raise InvalidInputError(f"{name} is empty; give at least one value to try")
        for value in values:
            positive(name, value, zero=name == "widths")
    if criterion not in ("replay", "leave_one_out", "likelihood"):
        raise InvalidInputError(f'criterion must be "replay", "leave_one_out" or "likelihood", got {criterion!r}')
    if pick not in ("best", "centre"):
        raise InvalidInputError(f'pick must be "best" or "centre", got {pick!r}')
    if isinstance(orders, bool) or not isinstance(orders, int) or orders < 1:
        raise InvalidInputError(f"orders must be a whole number of at least 1, got {orders!r}")
    if similarity is not None or weighting != "uniform":
        if criterion != "replay":
            raise InvalidInputError(
                f'criterion="{criterion}" fits independent arms with uniform weights; with similarity= or '
                'weighting= use criterion="replay"'
            )
        KMTLUCB(Y.shape[1], similarity=similarity, weighting=weighting)  # says what does not fit, before any game
    unit = median_distance(X) * _number(kernel)
    kernels = [kernel.replace(length_scale=float(c) * unit) for c in length_scales]
    points = [(k, float(r)) for k in kernels for r in ridges]
    if criterion == "replay":
        player: Player
        if similarity in (None, Independent()) and weighting == "uniform":
            player = Substitution(X, Y)
        else:
            player = Policies(X, Y, similarity or Independent(), weighting)
        tried = _replayed(player, Y, weights, points, widths, orders, seed, progress)
    else:
        warnings.warn(
            f'criterion="{criterion}" judges the batch fit, which picked worse settings for bandits than '
            'criterion="replay" in our trials',
            TuningWarning,
            stacklevel=2,
        )
        tried = [
            Tried(k, ridge, max(widths) * math.sqrt(ridge), batch_loss(k(X, X), Y, ridge, criterion))
            for k, ridge in points
        ]
    table = tuple(sorted(tried, key=lambda t: t.loss))
    return Tuned(table[0] if pick == "best" else _centre(table[:5]), table, criterion)


def _replayed(
    player: Player,
    Y: Matrix,
    weights: Vector,
    points: list[tuple[Stationary, float]],
    widths: Sequence[float],
    orders: int,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> list[Tried]:
    rng = np.random.default_rng(seed)
    games = [rng.permutation(len(Y)) for _ in range(orders)]
    best = np.nanmax(Y, axis=1) if not np.isnan(Y).any() else np.zeros(len(Y))  # a log does not know the best
    tried, done, total = [], 0, len(points) * len(widths) * orders
    for kernel, ridge in points:
        for width in widths:
            losses = []
            for order in games:
                played, rewards = player(order, kernel, ridge, float(width) * math.sqrt(ridge))
                w, regret = weights[order][played], best[order][played] - rewards
                losses.append(float(w @ regret / w.sum()) if len(played) else math.inf)
                done += 1
                if progress is not None:
                    progress(done, total)
            error = float(np.std(losses, ddof=1) / math.sqrt(orders)) if orders > 1 else 0.0
            tried.append(Tried(kernel, ridge, float(width) * math.sqrt(ridge), float(np.mean(losses)), error))
    return tried


def batch_loss(K: Matrix, Y: Matrix, ridge: float, criterion: str) -> float:
    """Leave-one-out squared error, or minus the profiled log-likelihood a row, of independent ridge regressions."""
    squared, nats, count = 0.0, 0.0, 0
    for a in range(Y.shape[1]):
        known = np.flatnonzero(~np.isnan(Y[:, a]))
        if not len(known):
            continue
        y, n = Y[known, a], len(known)
        values, vectors = np.linalg.eigh(K[np.ix_(known, known)])
        inverse = 1.0 / (np.maximum(values, 0.0) + ridge)
        projected = vectors.T @ y
        residual = (vectors @ (inverse * projected)) / ((vectors**2) @ inverse)
        squared += float(residual @ residual)
        fit = max(float(inverse @ projected**2) / n, 1e-300)
        nats += 0.5 * n * math.log(fit) - 0.5 * float(np.log(inverse).sum())
        count += n
    return (squared if criterion == "leave_one_out" else nats) / count


def _centre(table: Sequence[Tried]) -> Tried:
    def middle(values: list[float]) -> float:
        return math.exp(sum(math.log(max(v, 1e-12)) for v in values) / len(values))

    return Tried(
        table[0].kernel.replace(length_scale=middle([t.length_scale for t in table])),
        middle([t.ridge for t in table]),
        middle([t.exploration for t in table]),
        sum(t.loss for t in table) / len(table),
    )


def _number(kernel: Stationary) -> float:
    assert isinstance(kernel.length_scale, float)
    return kernel.length_scale


def _rewards(n: int, labels: Any, rewards: Any, arms: Any, propensities: Any) -> tuple[Matrix, Vector]:
    """(n, N) rewards with NaN where unknown, and the weight of each row."""
    if (labels is None) == (rewards is None):
        raise InvalidInputError("give labels=, or rewards= (with arms= if they are a log)")
    weights = np.ones(n)
    if labels is not None:
        values = np.asarray(labels)
        if values.shape != (n,):
            raise InvalidInputError(f"labels must have one entry per row, {n}, got shape {values.shape}")
        if arms is not None or propensities is not None:
            raise InvalidInputError("arms= and propensities= belong to a log, with rewards=")
        classes, place = np.unique(values, return_inverse=True)
        return np.eye(len(classes))[place], weights
    table = number_array("rewards", rewards)
    if arms is None:
        if table.ndim != 2 or len(table) != n:
            raise InvalidInputError(
                f"rewards must be (rows, arms) with {n} rows, or come with arms=; got shape {table.shape}"
            )
        return table, weights
    played = np.asarray(arms)
    if played.shape != (n,) or table.shape != (n,):
        raise InvalidInputError(
            f"arms and rewards of a log must have one entry per row, {n}; got shapes {played.shape}, {table.shape}"
        )
    names, place = np.unique(played, return_inverse=True)
    full = np.full((n, len(names)), np.nan)
    full[np.arange(n), place] = table
    if propensities is not None:
        p = number_array("propensities", propensities)
        if p.shape != (n,) or p.min() <= 0.0 or p.max() > 1.0:
            raise InvalidInputError(f"propensities must be {n} numbers above 0 and at most 1")
        weights = 1.0 / p
    return full, weights
