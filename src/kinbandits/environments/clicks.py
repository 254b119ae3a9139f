"""Clicks: every item is an arm that pays 1 or 0, with probability sigmoid(intercept + strength f_a(x))."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from kinbandits._types import Matrix
from kinbandits._value import Count, Natural, NotNegative, OpenPart, Part, Positive, Real, Value
from kinbandits.environments.base import Drawn, Round, seeded
from kinbandits.environments.functions import ArmFunctions
from kinbandits.errors import InvalidInputError
from kinbandits.kernels import cdist


class Clicks(Drawn, Value):
    """Bernoulli rewards whose log odds are a function of the context, one for each arm.

    Args:
        click_rate: how often an arm that is chosen at random pays, on average.
        strength: standard deviation of the log odds.
        length_scale: of the functions; None (the default) makes log odds linear in the context.
        drift: how far the functions turn until the end, in quarter turns: at 1 nothing is left of what was at first.

    >>> first = next(Clicks(n_arms=4, click_rate=0.13).rounds())
    >>> first.means.round(2), first.rewards
    (array([0.  , 0.09, 0.03, 0.08]), array([0., 0., 0., 0.]))
    """

    seed: Natural = 0
    n_arms: Count = 12
    click_rate: OpenPart = 0.5
    n_features: Count = 6
    strength: NotNegative = 1.5
    length_scale: Positive | None = None
    drift: NotNegative = 0.0
    horizon: Count = 1000

    @property
    def name(self) -> str:
        kind = "linear" if self.length_scale is None else "curved"
        return f"clicks ({self.n_arms} arms, {100 * self.click_rate:g} %, {kind})"

    @property
    def descriptors(self) -> Matrix:
        """The weights of the arms' functions at the start: the truth."""
        return self._functions()[0].weights

    def rounds(self) -> Iterator[Round]:
        _, _, contexts, luck = seeded(self.seed, 4)
        X = contexts.standard_normal((self.horizon, self.n_features))
        first, last = self._functions()
        turn = 0.5 * np.pi * self.drift * np.arange(self.horizon)[:, np.newaxis] / self.horizon
        f = np.cos(turn) * first(X) + np.sin(turn) * last(X) if self.drift else first(X)
        means = expit(self._intercept() + self.strength * f)
        for x, chances in zip(X, means, strict=True):
            yield Round(x, (luck.random(self.n_arms) < chances).astype(np.float64), chances)

    def _functions(self) -> tuple[ArmFunctions, ArmFunctions]:
        """At the start, and after a quarter turn."""
        features, weights, _, _ = seeded(self.seed, 4)
        parts = features, weights, np.eye(self.n_arms), self.n_features, self.length_scale
        return ArmFunctions.draw(*parts), ArmFunctions.draw(*parts)

    def _intercept(self) -> float:
        """Where the mean over a function's values, which are normal (nearly, if it is linear), is the click rate."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        weights = weights / weights.sum()
        return float(brentq(lambda b: weights @ expit(b + self.strength * nodes) - self.click_rate, -60.0, 60.0))


class Shop(Drawn, Value):
    """A shop: items that resemble each other, new ones as time goes by, and customers who click or do not.

    Items near each other in descriptors have like functions of the customer.

    Args:
        n_arms: how many items there are in the end.
        new: the part of the items that come later, one after the other, in the first three quarters of the time.
        kinship: length scale over descriptors, which are uniform in the unit square: larger is more alike.
        strength: standard deviation of the log odds of a click.
        intercept: log odds of a click on an average item.

    >>> shop = Shop(n_arms=4, new=0.5, horizon=40)
    >>> rounds = list(shop.rounds())
    >>> rounds[0].candidates, rounds[-1].candidates
    (['item 0', 'item 1'], ['item 0', 'item 1', 'item 2', 'item 3'])
    """

    seed: Natural = 0
    n_arms: Count = 120
    new: Part = 0.5
    horizon: Count = 1000
    n_features: Count = 3
    kinship: Positive = 0.3
    strength: Positive = 1.5
    intercept: Real = -2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.new == 1.0:
            raise InvalidInputError("new must be below 1: there must be items to begin with")

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
        functions = ArmFunctions.draw(features, weights, K, self.n_features, 1.0)
        X = customers.uniform(-1.0, 1.0, (self.horizon, self.n_features))
        means = expit(self.intercept + self.strength * functions(X))
        clicks = (luck.random(means.shape) < means).astype(np.float64)
        names = self.arms
        for t, x in enumerate(X):
            n = self.on_sale(t)
            yield Round(x, clicks[t, :n], means[t, :n], names[:n])
