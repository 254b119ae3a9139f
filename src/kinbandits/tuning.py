"""Choosing settings by playing: run the bandit itself on rows whose rewards are known, and keep what did best.

Ridges and explorations tried follow what the rows say about noise (`kinbandits.noise`), which the default learns as
it plays. Games are in `kinbandits.replayed_games`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import as_float64
from kinbandits._html import html_table
from kinbandits._threads import one_blas_thread
from kinbandits._types import Matrix, Vector
from kinbandits._value import as_int, positive
from kinbandits.errors import InvalidInputError, InvalidTypeError, TuningWarning
from kinbandits.exploration import Deviations
from kinbandits.history import History
from kinbandits.kernels import DEFAULT_KERNEL, DEFAULT_RULE, KernelRule, Stationary, median_distance
from kinbandits.noise import LearnedRidge, Noise
from kinbandits.policies import KMTLUCB
from kinbandits.progress import Told, telling
from kinbandits.replayed_games import Player, by_policy, by_substitution
from kinbandits.similarity import Independent, Similarity, Weighting
from kinbandits.terms import Term, as_terms

__all__ = ["Tried", "Tuned", "tune"]

LENGTH_SCALES = (0.25, 0.35, 0.5, 0.71, 1.0, 1.41)  # times the median distance
RIDGES = (0.1, 1.0, 10.0)  # times the ridge that the rows' noise asks for
WIDTHS = (0.1, 0.2, 0.3, 0.6, 1.0)  # exploration over the root of the ridge, in the unit of the rewards
CAUTION = 2.0  # standard errors by which a log must favour a setting over the default


@dataclass(frozen=True)
class Tried:
    """One point of the grid.

    Attributes:
        kernel, ridge, exploration: the settings; the kernel has its length scale. Those of the default are learned.
        loss: regret a round; minus the mean reward, if only logged rewards are known.
        error: standard error of the loss over orders (0 where there is one).
        rounds: rounds scored in a game, on average: in a log those in which the bandit plays the logged arm.
    """

    kernel: Stationary | KernelRule
    ridge: float | LearnedRidge
    exploration: float | Deviations
    loss: float
    error: float = 0.0
    rounds: float = 0.0

    @property
    def length_scale(self) -> float:
        return _number(self.kernel)


@dataclass(frozen=True)
class Tuned:
    """What was found.

    Attributes:
        best: the point chosen.
        table: all points, best first.
        default: the default settings, played on the same rows: a policy that learns its noise as it plays.
        rows: how many rows there were.
        fell_back: whether the default was taken because nothing was clearly better.
        noise: what all rows together say about the noise of rewards.
    """

    best: Tried
    table: tuple[Tried, ...]
    default: Tried
    rows: int
    fell_back: bool = False
    noise: Noise | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """For ``KMTLUCB(arms, **settings)``."""
        return {"context_kernel": self.best.kernel, "ridge": self.best.ridge, "exploration": self.best.exploration}

    def __str__(self) -> str:
        lines = [self._title, "length_scale     ridge  exploration        loss"]
        row = "{0.length_scale:12.4g}  {0.ridge:8.3g}  {0.exploration:11.4g}  {0.loss:.4f} +- {0.error:.4f}"
        return "\n".join(lines + [row.format(t) for t in self.table[:10]])

    @property
    def _title(self) -> str:
        return (
            f"{self.best.rounds:.0f} of {self.rows} rows scored in a game; default settings: loss "
            f"{self.default.loss:.4f}{', kept' if self.fell_back else ''}; rewards: {self.noise}"
        )

    def _repr_html_(self) -> str:
        rows = [
            [f"{t.length_scale:.4g}", f"{t.ridge:.3g}", f"{t.exploration:.4g}", f"{t.loss:.4f} ± {t.error:.4f}"]
            for t in self.table
        ]
        return html_table(self._title, ["length_scale", "ridge", "exploration", "loss"], rows, most=10)


class Rows(NamedTuple):
    """Rows to play on: contexts (n, d), rewards (n, N) with NaN where unknown, and the weight of each row (n,)."""

    X: Matrix
    Y: Matrix
    weights: Vector

    @property
    def is_log(self) -> bool:
        return bool(np.isnan(self.Y).any())


@one_blas_thread
def tune(
    contexts: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    rewards: ArrayLike | None = None,
    arms: ArrayLike | None = None,
    propensities: ArrayLike | None = None,
    kernel: Stationary = DEFAULT_KERNEL.kernel,
    length_scales: Sequence[float] = LENGTH_SCALES,
    ridges: Sequence[float] | None = None,
    widths: Sequence[float] = WIDTHS,
    orders: int = 4,
    seed: int = 0,
    progress: bool | Told | None = None,
    similarity: Similarity | None = None,
    weighting: Weighting = "uniform",
) -> Tuned:
    """Choose length scale, ridge and exploration on labelled rows or a log.

    The bandit is played on the rows in several random orders with every setting of the grid; the one with the least
    regret a round is taken. In a log rounds in which it would have played another arm are left out (about n / N
    stay, ``found.best.rounds``), and minus the mean reward counts. The default is played too, and kept if no
    setting is better (on a log: by twice the standard error, else a `TuningWarning`).

    Args:
        labels: (n,) class of each row; arm a pays 1 if the label is the a-th class, else 0.
        rewards: in place of labels: (n, N), what every arm would have paid; or, with ``arms``, (n,).
        arms: (n,) the arm played in each row of a log.
        propensities: (n,) the probability with which it was played; rows are weighted by their inverse.
        kernel: whose length scale is looked for (its own is one more factor): `RationalQuadratic`, `RBF`, `Matern`.
        length_scales: tried, as multiples of the median distance of the contexts.
        ridges: tried. Default: what `LearnedRidge` makes of all rows, a tenth of it and ten times that.
        widths: tried, as exploration / sqrt(ridge): posterior deviations, in the unit learned with the ridge.
        orders, seed: random orders in which the rows are played.
        progress: True shows a bar; or a function of the number of games played and of all.
        similarity, weighting: of the bandit that plays; arms are in the order of the classes, of the columns of
            ``rewards``, or of the sorted names in ``arms``. None is independent arms, played many times faster.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> found = tune(X, labels=X[:, 0] > 0, ridges=[0.01], widths=[0.1, 1.0], orders=2)
    >>> len(found.table)
    12
    """
    X = as_float64("contexts", contexts)
    if X.ndim != 2 or len(X) < 4:
        raise InvalidInputError(f"contexts must be (rows, features) with at least 4 rows, got shape {X.shape}")
    rows = Rows(X, *_rewards(len(X), labels, rewards, arms, propensities))
    if not isinstance(kernel, Stationary) or isinstance(kernel.length_scale, tuple):
        raise InvalidTypeError(f"kernel must be one with a single length scale, such as kb.RBF(); got {kernel!r}")
    noise = _noise_of(rows, seed)
    if ridges is None:
        ridges = [c * noise.ridge for c in RIDGES]
    for name, values in (("length_scales", length_scales), ("ridges", ridges), ("widths", widths)):
        if not len(values):
            raise InvalidInputError(f"{name} is empty; give at least one value to try")
        for value in values:
            positive(name, value, zero=name == "widths")
    orders = as_int("orders", orders, 1)
    KMTLUCB(rows.Y.shape[1], similarity=similarity, weighting=weighting)  # says what does not fit, before any game
    itself = by_policy(X, rows.Y, similarity or Independent(), weighting)
    alone = similarity in (None, Independent()) and weighting == "uniform"
    player = by_substitution(X, rows.Y) if alone else itself
    unit = median_distance(X)
    kernels = [kernel.replace(length_scale=float(c) * unit * _number(kernel)) for c in length_scales]
    points = [(k, r, w) for k in kernels for r in ridges for w in widths]
    grid = [(k, float(r), float(w) * math.sqrt(r) * noise.unit) for k, r, w in points]
    rng = np.random.default_rng(seed)
    games = [rng.permutation(len(X)) for _ in range(orders)]
    tried, total = [], (len(grid) + 1) * orders
    with telling(progress, "games") as tell:
        default = _played(itself, rows, (DEFAULT_RULE, LearnedRidge(), Deviations()), games)
        for i, point in enumerate(grid):
            tried.append(_played(player, rows, point, games))
            tell((i + 2) * orders, total)
    table = tuple(sorted(tried, key=lambda t: t.loss))
    best = table[0]
    error = CAUTION * math.hypot(_error(rows, best, orders), _error(rows, default, orders)) if rows.is_log else 0.0
    kept = not best.loss < default.loss - error
    if kept and rows.is_log:
        warnings.warn(
            f"only {best.rounds:.0f} of {len(X)} rows could be scored in a game, and the best setting tried (loss "
            f"{best.loss:.4f}) is not clearly better than the default settings (loss {default.loss:.4f}), which "
            "are kept; a longer log would tell more",
            TuningWarning,
            stacklevel=2,
        )
    return Tuned(default if kept else best, table, default, len(X), kept, noise)


def _noise_of(rows: Rows, seed: int) -> Noise:
    """What the rows say about noise: in a log its own arms, else one arm of each row, drawn at random."""
    known = ~np.isnan(rows.Y)
    draw = np.where(known, np.random.default_rng(seed).random(known.shape), -1.0).argmax(axis=1)
    rewards = rows.Y[np.arange(len(draw)), draw]
    history = History.of(rows.Y.shape[1], draw, rows.X, rewards)
    return Noise.of(LearnedRidge()).grown(as_terms(Term(Independent(), DEFAULT_KERNEL)), history, 0)


def _played(player: Player, rows: Rows, point: tuple[Any, Any, Any], games: list[Any]) -> Tried:
    """One point of the grid, played in every order."""
    best = np.zeros(len(rows.Y)) if rows.is_log else rows.Y.max(axis=1)  # a log does not know the best
    losses, scored = [], 0
    for order in games:
        played, rewards = player(order, *point)
        w, regret = rows.weights[order][played], best[order][played] - rewards
        losses.append(float(w @ regret / w.sum()) if len(played) else math.inf)
        scored += len(played)
    error = float(np.std(losses, ddof=1) / math.sqrt(len(games))) if len(games) > 1 else 0.0
    return Tried(*point, float(np.mean(losses)), error, scored / len(games))


def _error(rows: Rows, tried: Tried, orders: int) -> float:
    """Standard error of a loss: games in other orders score other rows, but there are no more rows than these."""
    return float(np.nanstd(rows.Y)) / math.sqrt(max(min(tried.rounds * orders, len(rows.Y)), 1.0))


def _number(kernel: Stationary | KernelRule) -> float:
    value = (kernel if isinstance(kernel, Stationary) else DEFAULT_KERNEL.kernel).length_scale
    assert isinstance(value, float)
    return value


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
    table = as_float64("rewards", rewards)
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
        p = as_float64("propensities", propensities)
        if p.shape != (n,) or p.min() <= 0.0 or p.max() > 1.0:
            raise InvalidInputError(f"propensities must be {n} numbers above 0 and at most 1")
        weights = 1.0 / p
    return full, weights
