"""Actions on a line: three reward shapes of the EK-UCB paper (Zenati et al., 2022), over context and action.

Notation
    a  (N,)  actions in [0, 1), the arms' descriptors
    x  (d,)  context, uniform in [0, 1]^d: d = 5 for the bump, 1 for the others

    bump      max(0, 1 - |a - a*| - w'(x - x*)), with a* one of the actions, w and x* drawn once
    squares   a chessboard of 4 by 4 squares (x, a), where six pay: three 1, three 0.5
    diagonal  1 where |x - (a + 0.15)| < 0.1, 0.5 where |x - (a - 0.15)| < 0.1, else 0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits._value import Value, as_int, positive
from kinbandits.environments.base import Round, StartRows, no_rows, seeded
from kinbandits.errors import InvalidInputError

_SQUARES = np.array([[0.0, 0.5, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]])
"""Rows are quarters of the context, columns quarters of the action."""


@dataclass(frozen=True, eq=False, repr=False)
class LineActions(Value):
    """Arms are actions on a line, rewards a function of (context, action) with normal noise.

    Regret is against the best of the N actions, where the authors' program compares with the best action at all.

    Args:
        shape: ``"bump"``, ``"squares"`` or ``"diagonal"``.
        seed: of contexts and noise.
        problem: seed of the actions, and of a*, w and x* of the bump.
        n_arms: N, at most 100.
        horizon: how many rounds.
        noise: standard deviation.

    Example:
        >>> LineActions("diagonal").means(np.array([[0.5]]), np.array([0.35, 0.65, 0.9]))
        array([[1. , 0.5, 0. ]])
    """

    shape: Literal["bump", "squares", "diagonal"] = "bump"
    seed: int = 0
    problem: int = 123
    n_arms: int = 10
    horizon: int = 1000
    noise: float = 0.1

    def __post_init__(self) -> None:
        if self.shape not in ("bump", "squares", "diagonal"):
            raise InvalidInputError(f'shape must be "bump", "squares" or "diagonal", got {self.shape!r}')
        for field, least in (("seed", 0), ("problem", 0), ("n_arms", 1), ("horizon", 1)):
            as_int(field, getattr(self, field), least)
        if self.n_arms > 100:
            raise InvalidInputError(f"n_arms must be at most 100, the actions 0, 0.01 to 0.99; got {self.n_arms!r}")
        object.__setattr__(self, "noise", positive("noise", self.noise, zero=True))

    @property
    def name(self) -> str:
        """For tables and figures."""
        return f"actions on a line ({self.shape})"

    @property
    def arms(self) -> list[int]:
        """Arms are numbered from 0."""
        return list(range(self.n_arms))

    @property
    def n_features(self) -> int:
        """d."""
        return 5 if self.shape == "bump" else 1

    @property
    def descriptors(self) -> Matrix:
        """The actions, (N, 1)."""
        return self._actions()[:, None]

    def _actions(self) -> Vector:
        return seeded(self.problem, 2)[0].choice(100, self.n_arms, replace=False) / 100.0

    def means(self, X: Matrix, actions: Vector) -> Matrix:
        """Expected rewards of contexts (n, d) and actions (m,), (n, m)."""
        x = X[:, :1]
        if self.shape == "diagonal":
            high, low = (np.abs(x - (actions + shift)) < 0.1 for shift in (0.15, -0.15))
            return np.where(high, 1.0, np.where(low, 0.5, 0.0))
        if self.shape == "squares":
            quarter = [np.minimum((4.0 * v).astype(int), 3) for v in (x, actions)]
            return np.asarray(_SQUARES[quarter[0], quarter[1]])
        rng = seeded(self.problem, 2)[1]
        best, x_best, w = rng.choice(self._actions()), rng.random(self.n_features), rng.uniform(-1.0, 1.0, 5)
        return np.asarray(np.maximum(0.0, 1.0 - np.abs(actions - best) - ((X - x_best) @ w)[:, None]))

    def start_rows(self) -> StartRows:
        """None."""
        return no_rows()

    def rounds(self) -> Iterator[Round]:
        """Contexts are the same for all arms."""
        contexts, noise = seeded(self.seed, 2)
        X = contexts.random((self.horizon, self.n_features))
        means = self.means(X, self._actions())
        rewards = means + self.noise * noise.standard_normal(means.shape)
        for row in zip(X, rewards, means, strict=True):
            yield Round(*row)
