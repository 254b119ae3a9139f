"""Users and items: the systems that learn from other users, against each user alone. Expected regret over seeds.

    python benchmarks/users.py --seeds 5

Every policy meets the same rounds. All explore with 0.3 sqrt(log(t + 1)), so that they differ only in who learns
from whom; CLUB and COFIBA at several confidences. Only gob_lin looks at the graph: the others are played once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import kinbandits as kb
from clusters import COFIBA, club
from kinbandits._types import Indices, Matrix
from kinbandits._value import Count, Natural, NotNegative, Part, Value
from kinbandits.environments import Round
from kinbandits.environments.base import Drawn, seeded
from kinbandits.errors import InvalidInputError
from kinbandits.rules import Logarithmic


class Users(Drawn, Value):
    """A user comes, and one of some items on offer is to be chosen: the game of Gang of Bandits, CLUB and COFIBA.

    The arms are the users; the candidates of a round are one user with several items (`Round.candidates`). Users of
    one cluster have one linear model; models and items are of norm 1.

    Args:
        n_items: size of the catalogue. on_offer: k, items on offer in a round.
        graph_noise: the graph links users of one cluster; each pair is drawn wrong with this probability.

    >>> environment = Users(seed=0, n_users=4, n_clusters=2, on_offer=3, horizon=2)
    >>> [(round.candidates, round.context.shape) for round in environment.rounds()]
    [([3, 3, 3], (3, 5)), ([3, 3, 3], (3, 5))]
    """

    seed: Natural = 0
    n_users: Count = 20
    n_clusters: Count = 4
    n_items: Count = 30
    on_offer: Count = 10
    n_features: Count = 5
    noise: NotNegative = 0.1
    graph_noise: Part = 0.0
    horizon: Count = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_offer > self.n_items:
            raise InvalidInputError(f"on_offer is {self.on_offer}, but the catalogue has n_items={self.n_items}")

    @property
    def name(self) -> str:
        return f"users in {self.n_clusters} clusters"

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return self.n_users

    @property
    def clusters(self) -> Indices:
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


BETA = Logarithmic(0.3)


def linear(environment: Users, **settings: Any) -> Any:
    return kb.baselines.lin_ucb(environment.arms, **{"exploration": BETA, "cold_start": "borrow", **settings})


METHODS: dict[str, Callable[[Users], Any]] = {
    "uniform": lambda e: kb.baselines.uniform(e.arms),
    "lin_ucb, each user alone": linear,
    "lin_ucb, all users one": lambda e: linear(e, sharing="pooled"),
    "lin_ucb, clusters known": lambda e: linear(e, similarity=kb.Known(e.clusters[:, None] == e.clusters)),
    "gob_lin": lambda e: kb.baselines.gob_lin(e.arms, graph=e.graph, exploration=BETA),
    "CLUB, confidence 0.15": lambda e: club(e.arms, confidence=0.15, exploration=BETA),
    "CLUB, confidence 0.3": lambda e: club(e.arms, confidence=0.3, exploration=BETA),
    "CLUB, confidence 0.6": lambda e: club(e.arms, confidence=0.6, exploration=BETA),
    "COFIBA, confidence 0.1": lambda e: COFIBA(e.arms, items=e.items, confidence=0.1, exploration=BETA),
    "COFIBA, confidence 0.3": lambda e: COFIBA(e.arms, items=e.items, confidence=0.3, exploration=BETA),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=2000)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--only", default="", help="systems whose name contains this")
    given = parser.parse_args()
    noises = (0.0, 0.05)
    print(f"{given.users} users in 4 clusters, T={given.horizon}, {given.seeds} seeds: mean (sd)")
    print("| system | " + " | ".join(f"{100 * g:g}% of the graph wrong" for g in noises) + " |")
    print("|---|" + "---|" * len(noises))
    for name, make in METHODS.items():
        if given.only not in name:
            continue
        cells: list[str] = []
        for noise in noises:
            if cells and not name.startswith("gob_lin"):
                cells *= 2
                break
            regret = []
            for seed in range(given.seeds):
                e = Users(seed=seed, n_users=given.users, horizon=given.horizon, graph_noise=noise)
                regret.append(kb.simulate(make(e), e)["expected_regret"].sum())
            cells.append(f"{np.mean(regret):.0f} ({np.std(regret, ddof=1):.0f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
