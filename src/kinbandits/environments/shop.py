"""A shop: many items that resemble each other, new ones as time goes by, and customers who click or do not.

Notation (N items with descriptors z, customers x in [-1, 1]^d)
    f_a     a Gaussian process over descriptors and customers: alike items have alike functions
    means   sigmoid(intercept + strength f_a(x)), the chance of a click
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbandits._types import Matrix
from kinbandits._value import positive, real
from kinbandits.environments.base import Drawn, Round, seeded
from kinbandits.environments.functions import ArmFunctions
from kinbandits.errors import InvalidInputError
from kinbandits.kernels import cdist

__all__ = ["Shop"]

_FEATURES = 300  # of the random functions


@dataclass(frozen=True, eq=False, repr=False)
class Shop(Drawn):
    """Related items, some of them new, and noisy clicks.

    Args:
        seed: of everything that is drawn.
        n_arms: N, how many items there are in the end.
        new: the part of the items that come later, one after the other, in the first three quarters of the time.
        horizon: how many customers.
        n_features: d, what is known of a customer.
        kinship: length scale over descriptors, which are uniform in the unit square: larger is more alike.
        strength: standard deviation of the log odds of a click.
        intercept: log odds of a click on an average item.

    Example:
        >>> shop = Shop(n_arms=4, new=0.5, horizon=40)
        >>> rounds = list(shop.rounds())
        >>> rounds[0].candidates, rounds[-1].candidates
        (['item 0', 'item 1'], ['item 0', 'item 1', 'item 2', 'item 3'])
    """

    seed: int = 0
    n_arms: int = 120
    new: float = 0.5
    horizon: int = 1000
    n_features: int = 3
    kinship: float = 0.3
    strength: float = 1.5
    intercept: float = -2.0

    def __post_init__(self) -> None:
        self._count("n_arms", "horizon", "n_features")
        self._set(new=real("new", self.new), intercept=real("intercept", self.intercept))
        if not 0.0 <= self.new < 1.0:
            raise InvalidInputError(f"new must be a part, from 0 to below 1, got {self.new!r}")
        self._set(kinship=positive("kinship", self.kinship), strength=positive("strength", self.strength))

    @property
    def name(self) -> str:
        return f"shop, {self.n_arms - self.on_sale(0)} of {self.n_arms} items new"

    @property
    def arms(self) -> list[Any]:
        return [f"item {i}" for i in range(self.n_arms)]

    @property
    def descriptors(self) -> Matrix:
        """What a shop knows of its items, (N, 2): say, style and price."""
        return seeded(self.seed, 5)[0].random((self.n_arms, 2))

    def on_sale(self, t: int) -> int:
        """How many items there are in round ``t``: the first so many."""
        later = int(self.new * self.n_arms)
        return self.n_arms - later + min(later, int(later * t / (0.75 * self.horizon)))

    def rounds(self) -> Iterator[Round]:
        _, features, weights, customers, luck = seeded(self.seed, 5)
        K = np.exp(-0.5 * (cdist(self.descriptors, self.descriptors) / self.kinship) ** 2)
        functions = ArmFunctions.draw(features, weights, K, self.n_features, 1.0, _FEATURES)
        X = customers.uniform(-1.0, 1.0, (self.horizon, self.n_features))
        f = functions.features(X) @ functions.weights.T
        means = 1.0 / (1.0 + np.exp(-self.intercept - self.strength * f))
        clicks = (luck.random(means.shape) < means).astype(np.float64)
        names = self.arms
        for t, x in enumerate(X):
            n = self.on_sale(t)
            yield Round(x, clicks[t, :n], means[t, :n], names[:n])
