"""Users who are asked about items: the game of Gang of Bandits, CLUB and COFIBA.

Notation (N users, m items in d dimensions, k candidates a round)
    theta   (C, d)   the model of each cluster of users, of norm 1
    items   (m, d)   the catalogue, of norm 1
    means   (k,)     theta of the user's cluster times the item
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Matrix
from kinbandits._value import positive, real
from kinbandits.environments.base import Drawn, Round, seeded
from kinbandits.errors import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class Users(Drawn):
    """A user comes, some items of a catalogue are on offer, and one is to be chosen. Users fall into clusters.

    The arms are the users; the candidates of a round are one user with several items (`Round.candidates`).

    Args:
        seed: of everything that is drawn.
        n_users: N.
        n_clusters: users of one cluster have one linear model.
        n_items: size of the catalogue.
        on_offer: k, items on offer in a round.
        n_features: d.
        noise: standard deviation of the normal noise on rewards.
        graph_noise: the graph links users of one cluster; each pair is drawn wrong with this probability.
        horizon: how many rounds.

    Example:
        >>> environment = Users(seed=0, n_users=4, n_clusters=2, on_offer=3, horizon=2)
        >>> [(round.candidates, round.context.shape) for round in environment.rounds()]
        [([3, 3, 3], (3, 5)), ([3, 3, 3], (3, 5))]
    """

    seed: int = 0
    n_users: int = 20
    n_clusters: int = 4
    n_items: int = 30
    on_offer: int = 10
    n_features: int = 5
    noise: float = 0.1
    graph_noise: float = 0.0
    horizon: int = 1000

    def __post_init__(self) -> None:
        self._count("n_users", "n_clusters", "n_items", "on_offer", "n_features", "horizon")
        if self.on_offer > self.n_items:
            raise InvalidInputError(f"on_offer is {self.on_offer}, but the catalogue has n_items={self.n_items}")
        self._set(noise=positive("noise", self.noise, zero=True))
        self._set(graph_noise=real("graph_noise", self.graph_noise))
        if not 0.0 <= self.graph_noise <= 1.0:
            raise InvalidInputError(f"graph_noise must be between 0 and 1, got {self.graph_noise!r}")

    @property
    def name(self) -> str:
        return f"users in {self.n_clusters} clusters"

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return self.n_users

    @property
    def clusters(self) -> NDArray[np.intp]:
        """The planted cluster of each user, (N,)."""
        return np.arange(self.n_users) % self.n_clusters

    @property
    def items(self) -> Matrix:
        """The catalogue, (m, d)."""
        return _unit(seeded(self.seed, 4)[0], self.n_items, self.n_features)

    @property
    def theta(self) -> Matrix:
        """The model of each cluster, (C, d)."""
        return _unit(seeded(self.seed, 4)[1], self.n_clusters, self.n_features)

    @property
    def graph(self) -> Matrix:
        """Who is linked to whom, (N, N)."""
        alike = self.clusters[:, None] == self.clusters[None, :]
        wrong = np.triu(seeded(self.seed, 4)[2].random(alike.shape) < self.graph_noise, 1)
        linked = (alike ^ (wrong | wrong.T)).astype(np.float64)
        np.fill_diagonal(linked, 0.0)
        return np.asarray(linked)

    def rounds(self) -> Iterator[Round]:
        rng = seeded(self.seed, 4)[3]
        items, likes = self.items, self.items @ self.theta[self.clusters].T  # (m, N)
        for _ in range(self.horizon):
            user = int(rng.integers(self.n_users))
            offer = rng.permutation(self.n_items)[: self.on_offer]
            means = likes[offer, user]
            candidates: list[Any] = [user] * self.on_offer
            yield Round(items[offer], means + self.noise * rng.standard_normal(len(offer)), means, candidates)


def _unit(rng: np.random.Generator, rows: int, d: int) -> Matrix:
    X = rng.standard_normal((rows, d))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))
