"""Clicks: every item is an arm that pays 1 or 0, more often 0.

Notation (N arms, contexts x ~ N(0, I_d))
    f_a    functions of variance 1, linear or not
    means  sigmoid(intercept + strength f_a(x)), with the intercept that gives the click rate
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits._value import positive, real
from kinbandits.environments.base import Drawn, Round, seeded
from kinbandits.environments.functions import ArmFunctions
from kinbandits.errors import InvalidInputError

__all__ = ["Clicks"]


@dataclass(frozen=True, eq=False, repr=False)
class Clicks(Drawn):
    """Bernoulli rewards whose log odds are a function of the context, one for each arm.

    Args:
        seed: of everything that is drawn.
        n_arms: N.
        click_rate: how often an arm that is chosen at random pays, on average.
        n_features: d.
        strength: standard deviation of the log odds.
        length_scale: of the functions; None (the default) makes log odds linear in the context.
        drift: how far the functions turn until the end, in quarter turns (`ArmFunctions`).
        horizon: how many rounds.

    Example:
        >>> first = next(Clicks(n_arms=4, click_rate=0.13).rounds())
        >>> first.means.round(2), first.rewards
        (array([0.  , 0.09, 0.03, 0.08]), array([0., 0., 0., 0.]))
    """

    seed: int = 0
    n_arms: int = 12
    click_rate: float = 0.5
    n_features: int = 6
    strength: float = 1.5
    length_scale: float | None = None
    drift: float = 0.0
    horizon: int = 1000

    def __post_init__(self) -> None:
        self._count("n_arms", "n_features", "horizon")
        self._set(click_rate=real("click_rate", self.click_rate))
        if not 0.0 < self.click_rate < 1.0:
            raise InvalidInputError(f"click_rate must be between 0 and 1, such as 0.03, got {self.click_rate!r}")
        if self.length_scale is not None:
            self._set(length_scale=positive("length_scale", self.length_scale))
        for field in ("strength", "drift"):
            self._set(**{field: positive(field, getattr(self, field), zero=True)})

    @property
    def name(self) -> str:
        kind = "linear" if self.length_scale is None else "curved"
        return f"clicks ({self.n_arms} arms, {100 * self.click_rate:g} %, {kind})"

    @property
    def descriptors(self) -> Matrix:
        """The weights of the arms' functions at the start: the truth."""
        return self._functions().weights

    def rounds(self) -> Iterator[Round]:
        _, _, contexts, luck = seeded(self.seed, 4)
        X = contexts.standard_normal((self.horizon, self.n_features))
        functions = self._functions()
        features, intercept = functions.features(X), self._intercept()
        for t, x in enumerate(X):
            means = _sigmoid(intercept + self.strength * (functions.weights_at(t / self.horizon) @ features[t]))
            yield Round(x, (luck.random(self.n_arms) < means).astype(np.float64), means)

    def _functions(self) -> ArmFunctions:
        features, weights, _, _ = seeded(self.seed, 4)
        alone = np.eye(self.n_arms)
        return ArmFunctions.draw(features, weights, alone, self.n_features, self.length_scale, 300, self.drift)

    def _intercept(self) -> float:
        """By bisection: the mean over a function's values, which are normal (nearly, if it is linear)."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        low, high = -60.0, 60.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            rate = weights @ _sigmoid(middle + self.strength * nodes) / weights.sum()
            low, high = (middle, high) if rate < self.click_rate else (low, middle)
        return 0.5 * (low + high)


def _sigmoid(values: Vector) -> Vector:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))
