"""A task (or a user) is given, and one of many candidates is chosen for it; tasks are alike, drawn or measured.

Notation (N tasks with m candidates in d dimensions each)
    K_task  (N, N)  (1 - mu) I + mu K, with K = 11', or a kernel on descriptors z
    f_a     sqrt(mu) times a part in common plus sqrt(1 - mu) times a part of its own
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinbandits._checks import as_float64
from kinbandits._types import Indices, Matrix
from kinbandits._value import Count, Natural, NotNegative, Part, Positive, Value, frozen_array
from kinbandits.environments.base import Drawn, Round, StartRows, no_rows, seeded
from kinbandits.environments.functions import ArmFunctions
from kinbandits.errors import InvalidInputError
from kinbandits.kernels import RBF

_KIN = RBF(0.3)  # of descriptors, which are uniform in [0, 1]^p


class Tasks(Drawn, Value):
    """Tasks with a part in common and parts of their own. In each round a task and candidates for it are given.

    Arms are the tasks; the candidates of a round are one task with several contexts (`Round.candidates`). Whatever
    mu is, each single task is equally hard: what a policy gains as mu grows it gains from the other tasks.

    Args:
        mu: how much two tasks have in common, from 0 (nothing) to 1 (they are one).
        n_candidates: m, for each of the N tasks; they stay the same in all rounds.
        on_offer: how many of them are on offer in a round, drawn anew; 0 is all.
        length_scale: of the functions of candidates, which are uniform in [-1, 1]^d.
        descriptor_size: how many numbers describe a task. With 0 all tasks have the same part in common; else
            tasks have more in common the nearer their ``descriptors`` are.
        drift: how far the functions turn until the end, in quarter turns (`ArmFunctions`).

    >>> environment = Tasks(mu=0.9, n_tasks=3, n_candidates=4, horizon=2)
    >>> [(round.candidates, round.context.shape) for round in environment.rounds()]
    [([0, 0, 0, 0], (4, 4)), ([1, 1, 1, 1], (4, 4))]
    """

    seed: Natural = 0
    mu: Part = 0.5
    n_tasks: Count = 8
    n_candidates: Count = 400
    on_offer: Natural = 0
    n_features: Count = 4
    length_scale: Positive = 0.8
    noise: NotNegative = 0.05
    descriptor_size: Natural = 0
    drift: NotNegative = 0.0
    horizon: Count = 200
    start: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_offer > self.n_candidates:
            raise InvalidInputError(f"on_offer is {self.on_offer}, but a task has {self.n_candidates} candidates")

    @property
    def name(self) -> str:
        return f"tasks (mu {self.mu:g})"

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return self.n_tasks

    @property
    def descriptors(self) -> Matrix | None:
        """z, (N, p), if tasks have any."""
        if not self.descriptor_size:
            return None
        return seeded(self.seed, 6)[0].random((self.n_tasks, self.descriptor_size))

    @property
    def similarity_matrix(self) -> Matrix:
        """K_task, the truth that a policy may try to find."""
        z = self.descriptors
        common = np.ones((self.n_tasks, self.n_tasks)) if z is None else _KIN(z, z)
        return np.asarray((1.0 - self.mu) * np.eye(self.n_tasks) + self.mu * common)

    def start_rows(self) -> StartRows:
        if not self.start:
            return no_rows()
        rng = seeded(self.seed, 6)[5]
        X, functions = self._drawn()
        chosen = X[np.arange(self.n_tasks), rng.integers(self.n_candidates, size=self.n_tasks)]
        means = np.einsum("ad,ad->a", functions.features(chosen), functions.weights)
        return list(self.arms), chosen, means + self.noise * rng.standard_normal(self.n_tasks)

    def rounds(self) -> Iterator[Round]:
        rng = seeded(self.seed, 6)[4]
        X, functions = self._drawn()
        features = [functions.features(x) for x in X]
        for t in range(self.horizon):
            task = int(rng.integers(self.n_tasks))
            offer = rng.permutation(self.n_candidates)[: self.on_offer] if self.on_offer else slice(None)
            means = features[task][offer] @ functions.weights_at(t / self.horizon)[task]
            rewards = means + self.noise * rng.standard_normal(len(means))
            yield Round(X[task][offer], rewards, means, [task] * len(means))

    def _drawn(self) -> tuple[Matrix, ArmFunctions]:
        """Candidates (N, m, d), and the tasks' functions."""
        _, features, weights, contexts, _, _ = seeded(self.seed, 6)
        functions = ArmFunctions.draw(
            features, weights, self.similarity_matrix, self.n_features, self.length_scale, 300, self.drift
        )
        return contexts.uniform(-1.0, 1.0, (self.n_tasks, self.n_candidates, self.n_features)), functions


class MeasuredTasks(Value):
    """Measurements of candidates for tasks, as a game: in each round a task and all its candidates are given.

    Args:
        tasks: (n,) the task of each measurement, by name.
        contexts: (n, d) features of what was measured.
        rewards: (n,) what was measured; higher is better.
        descriptors: (N, p) of the tasks, in order of their first measurement.

    >>> measured = MeasuredTasks(["a", "b", "b"], [[0.1], [0.2], [0.3]], [1.0, 0.0, 0.5], horizon=2)
    >>> [(round.candidates, round.rewards) for round in measured.rounds()]
    [(['b', 'b'], array([0. , 0.5])), (['b', 'b'], array([0. , 0.5]))]
    """

    tasks: Any
    contexts: Any
    rewards: Any
    descriptors: Any = None
    horizon: Count = 200
    seed: Natural = 0
    start: bool = True
    title: str = "measured tasks"

    def __post_init__(self) -> None:
        super().__post_init__()
        tasks: list[Any] = np.asarray(self.tasks).tolist()
        self._set(tasks=tuple(tasks))
        for field, dimensions in (("contexts", 2), ("rewards", 1)):
            values = as_float64(field, getattr(self, field))
            if values.ndim != dimensions or len(values) != len(tasks):
                raise InvalidInputError(
                    f"{field} must have one row for each of the {len(tasks)} tasks, got shape {values.shape}"
                )
            self._set(**{field: frozen_array(values)})
        if self.descriptors is not None:
            self._set(descriptors=frozen_array(self.descriptors))

    @property
    def name(self) -> str:
        return self.title

    @property
    def arms(self) -> list[Any]:
        return list(dict.fromkeys(self.tasks))

    def start_rows(self) -> StartRows:
        if not self.start:
            return no_rows()
        rng = seeded(self.seed, 2)[0]
        rows = [int(rng.choice(found)) for found in self._rows()]
        return self.arms, self.contexts[rows], self.rewards[rows]

    def rounds(self) -> Iterator[Round]:
        rng, arms, rows = seeded(self.seed, 2)[1], self.arms, self._rows()
        for _ in range(self.horizon):
            a = int(rng.integers(len(arms)))
            rewards = self.rewards[rows[a]]
            yield Round(self.contexts[rows[a]], rewards, rewards, [arms[a]] * len(rewards))

    def _rows(self) -> list[Indices]:
        number = {task: i for i, task in enumerate(self.arms)}
        of = np.array([number[task] for task in self.tasks])
        return [np.flatnonzero(of == i) for i in range(len(number))]


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
