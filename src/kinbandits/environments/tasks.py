"""A task (or a user) is given, and one of many candidates is chosen for it; tasks are alike, drawn or measured.

Notation (N tasks with m candidates in d dimensions each)
    K_task  (N, N)  (1 - mu) I + mu K, with K = 11', or a kernel on descriptors z
    f_a     sqrt(mu) times a part in common plus sqrt(1 - mu) times a part of its own
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kinbandits._types import Matrix
from kinbandits._value import Count, Natural, NotNegative, Part, Positive, Value
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
