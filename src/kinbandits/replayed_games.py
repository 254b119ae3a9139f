"""Replayed games: a bandit plays through rows whose rewards are known.

Notation (n rows, N arms)
    K        (n, n)  context-kernel values
    C_a      (n_a, n)  L^-1 k of arm a's rows with the columns of all rows, L the factor of K_a + ridge I
    z_a      (n_a,)  L^-1 y
    mean, q  (N, n)  C_a' z_a and the column sums of C_a^2: mean and explained variance of every arm at every row

Independent arms with uniform weights only gain rows, so a pull of arm a adds one row to C_a (forward substitution,
kept for all later columns) and one product to its mean and q. A game costs the sum of n_a^2 n / 2. With any other
similarity or weights the policy itself is played.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.kernels import Kernel
from kinbandits.policies import KMTLUCB
from kinbandits.similarity import Similarity, Weighting

Player = Callable[[Indices, Any, Any, Any], tuple[Indices, Vector]]
"""Plays through rows in an order, given kernel, ridge and exploration: the places that counted, the rewards."""


def by_substitution(X: Matrix, Y: Matrix) -> Player:
    """Independent arms by forward substitution; keeps the values of one kernel."""

    @lru_cache(maxsize=1)
    def values(kernel: Kernel) -> Matrix:
        return kernel(X, X)

    def player(order: Indices, kernel: Kernel, ridge: float, exploration: float) -> tuple[Indices, Vector]:
        return play_independent(values(kernel)[np.ix_(order, order)], Y[order], ridge, exploration)

    return player


def by_policy(X: Matrix, Y: Matrix, similarity: Similarity, weighting: Weighting) -> Player:
    """`KMTLUCB` itself, with any similarity and weights."""

    def player(order: Indices, kernel: Any, ridge: Any, exploration: Any) -> tuple[Indices, Vector]:
        settings = {"context_kernel": kernel, "ridge": ridge, "exploration": exploration}
        policy = KMTLUCB(Y.shape[1], similarity=similarity, weighting=weighting, tie_break="first", **settings)
        played, received = [], []
        for i, row in enumerate(order):
            decision = policy.choose(X[row])
            reward = float(Y[row, decision.index])
            if math.isnan(reward):
                policy.cancel(decision)
                continue
            policy.update(decision, reward)
            played.append(i)
            received.append(reward)
        return np.array(played, dtype=np.intp), np.array(received)

    return player


def play_independent(
    K: Matrix,
    Y: Matrix,
    ridge: float,
    exploration: float,
    *,
    given: Sequence[int] = (),
    rule: Callable[[Vector, Vector, int], Vector] | None = None,
) -> tuple[Indices, Vector]:
    """Play independent arms through the rows in order: the rounds that counted, and the rewards received.

    ``Y`` (n, N) has NaN where a reward is not known; a round in which that is chosen is left out. Ties go to the
    first arm. ``given`` are the arms of the first rows, learned before; ``rule`` makes scores from means,
    deviations (width times the root of the ridge) and the number of the round.
    """
    n, n_arms = Y.shape
    prior = K.diagonal()
    mean, q = np.zeros((n_arms, n)), np.zeros((n_arms, n))
    C = [np.empty((8, n)) for _ in range(n_arms)]
    z = [np.empty(8) for _ in range(n_arms)]
    counts = [0] * n_arms
    factor = exploration / math.sqrt(ridge)
    played, received = [], []
    for i in range(n):
        if i < len(given):
            a = int(given[i])
            reward = float(Y[i, a])
        else:
            deviation = np.sqrt(np.maximum(prior[i] - q[:, i], 0.0))
            if rule is None:
                score = mean[:, i] + factor * deviation
            else:
                score = rule(mean[:, i], deviation, i - len(given) + 1)
            a = int(score.argmax())
            reward = float(Y[i, a])
            if math.isnan(reward):
                continue
            played.append(i)
            received.append(reward)
        m = counts[a]
        if m == len(z[a]):
            C[a] = np.concatenate([C[a], np.empty((m, n))])
            z[a] = np.concatenate([z[a], np.empty(m)])
        c = C[a][:m, i]
        diagonal = math.sqrt(max(prior[i] + ridge - float(c @ c), 1e-12 * ridge))
        row = C[a][m]
        row[i:] = (K[i, i:] - c @ C[a][:m, i:]) / diagonal
        z[a][m] = (reward - float(c @ z[a][:m])) / diagonal
        mean[a, i:] += row[i:] * z[a][m]
        q[a, i:] += row[i:] ** 2
        counts[a] = m + 1
    return np.array(played, dtype=np.intp), np.array(received)
