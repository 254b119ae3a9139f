"""From the leaders of a round to the one that is played, and the probability it had.

Notation
    leaders  (R, k)  a mask of candidates, chosen with equal probability; or the probability of each candidate
    uniform  (R, 2)  numbers in [0, 1): whether to play a uniformly random candidate (epsilon), and which one
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Vector

Leaders = NDArray[np.bool_] | Vector
TieBreak = Literal["random", "first"]
_CERTAIN = np.ones(1)
_CERTAIN.setflags(write=False)


def draw(leaders: Leaders, uniform: Vector, tie_break: TieBreak, epsilon: float) -> tuple[Indices, Vector]:
    """One candidate per round, (R,), and the probability it had, (R,).

    >>> draw(np.array([[True, False, True]]), np.array([[0.9, 0.7]]), "random", 0.0)
    (array([2]), array([0.5]))
    """
    rounds, k = leaders.shape
    single = leaders.dtype == bool and rounds == 1 and epsilon == 0.0
    if single and (tie_break == "first" or np.count_nonzero(leaders) == 1):
        return leaders.argmax(axis=1), _CERTAIN  # nothing to draw
    parts = shares(leaders, tie_break)
    sums = parts.cumsum(axis=1)
    reached = sums > uniform[:, 1:] * sums[:, -1:]
    played = np.where(reached.any(axis=1), reached.argmax(axis=1), k - 1 - (parts[:, ::-1] > 0.0).argmax(axis=1))
    if epsilon > 0.0:
        anyone = np.minimum((uniform[:, 1] * k).astype(np.intp), k - 1)
        played = np.where(uniform[:, 0] < epsilon, anyone, played)
    return played, with_floor(parts, epsilon)[np.arange(rounds), played]


def shares(leaders: Leaders, tie_break: TieBreak) -> Vector:
    """How the leaders of each round divide its choice, (R, k)."""
    if leaders.dtype != bool:
        return np.asarray(leaders, dtype=np.float64)
    if tie_break == "random":
        return np.asarray(leaders / leaders.sum(axis=1)[:, None])
    parts = np.zeros(leaders.shape)
    parts[np.arange(len(leaders)), leaders.argmax(axis=1)] = 1.0
    return parts


def with_floor(parts: Vector, epsilon: float) -> Vector:
    """Shares with the uniform floor mixed in: the probability of each candidate."""
    return np.asarray((1.0 - epsilon) * parts + epsilon / parts.shape[1])
