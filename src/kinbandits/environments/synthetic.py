"""The synthetic news problem of the paper (section 5.1).

Notation
    u      (2,)  a user, uniform in the ellipse with half-axes 0.5 (minor, u[0]) and 1 (major, u[1])
    theta  (N,)  angles, one per article
    x_a    (2,)  the context of article a: u rotated by theta_a
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits._value import Count, Natural, NotNegative, Value, one_of, real
from kinbandits.environments.base import Drawn, Round, StartRows, no_rows, seeded
from kinbandits.errors import InvalidInputError


class SyntheticNews(Drawn, Value):
    """Articles for users: every article sees the user rotated by its own angle.

    The paper can be read in two ways, and both are here.

    * ``reward="text"``: r_a = 1 - (u[0] - a/N + 0.5)^2 with a = 1..N, from the user's own minor coordinate.
    * ``reward="scripts"``: the authors' scripts, a = 0..N-1 and the rotated coordinate x_a[0] in place of u[0].
      The published numbers are of this reading.

    Args:
        reward: which reading.
        angles: (smallest, largest) angle; articles are spaced evenly between them. The default is the
            scripts' a pi/25 for five articles; the text allows up to pi/2.
        half_axes: (minor, major) of the users' ellipse. The default is the scripts'; the text, to the letter, has
            axes of length 0.5 and 1: (0.25, 0.5).
        start: give every arm one row before round 1: in the text's reading a random user with his reward. The
            scripts give one user to all arms, rotate him for arm a by theta_0 + ... + theta_a and pay by his own
            coordinate, unlike in the rounds that follow; ``reward="scripts"`` does the same.

    >>> environment = SyntheticNews(seed=0, horizon=3)
    >>> [int(round.rewards.argmax()) for round in environment.rounds()]
    [1, 3, 1]
    """

    seed: Natural = 0
    n_arms: Count = 5
    horizon: Count = 1000
    reward: Literal["text", "scripts"] = "text"
    angles: tuple[float, float] = (0.0, 4 * math.pi / 25)
    noise: NotNegative = 0.0
    start: bool = False
    half_axes: tuple[float, float] = (0.5, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("reward", self.reward, "text", "scripts")
        for name, pair in (("angles", self.angles), ("half_axes", self.half_axes)):
            if np.shape(pair) != (2,):
                raise InvalidInputError(f"{name} must be two numbers, got {pair!r}")
            self._set(**{name: (real(f"{name}[0]", pair[0]), real(f"{name}[1]", pair[1]))})
        if self.angles[0] > self.angles[1]:
            raise InvalidInputError(f"angles must be (smallest, largest), got {self.angles!r}")
        if min(self.half_axes) <= 0.0:
            raise InvalidInputError(f"half_axes must be above 0, got {self.half_axes!r}")

    @property
    def name(self) -> str:
        return "synthetic news" if self.reward == "text" else "synthetic news (scripts' reward)"

    @property
    def arms(self) -> list[str]:
        return [f"article {a + 1}" for a in range(self.n_arms)]

    @property
    def theta(self) -> Vector:
        """The angle of each article, (N,)."""
        return np.linspace(*self.angles, self.n_arms)

    @property
    def descriptors(self) -> Matrix:
        """The angles as descriptors of the arms, (N, 1)."""
        return self.theta[:, None]

    def start_rows(self) -> StartRows:
        if not self.start:
            return no_rows()
        _, _, rng = seeded(self.seed, 3)
        if self.reward == "scripts":
            (u,) = self._users(rng, 1)
            rewards = 1.0 - (u[0] - np.arange(self.n_arms) / self.n_arms + 0.5) ** 2
            return self.arms, _rotated(u, np.cumsum(self.theta)), rewards
        users = self._users(rng, self.n_arms)
        contexts = np.stack([self.contexts(u)[a] for a, u in enumerate(users)])
        return self.arms, contexts, np.array([self.means(u)[a] for a, u in enumerate(users)])

    def rounds(self) -> Iterator[Round]:
        users, noise, _ = seeded(self.seed, 3)
        for u in self._users(users, self.horizon):
            means = self.means(u)
            yield Round(self.contexts(u), means + self.noise * noise.standard_normal(self.n_arms), means)

    def _users(self, rng: np.random.Generator, n: int) -> Matrix:
        """Uniform in the ellipse: an angle, and a radius whose square is uniform. (n, 2)"""
        radius, angle = rng.random((n, 2)).T
        radius, angle = np.sqrt(radius), 2.0 * math.pi * angle
        minor, major = self.half_axes
        return np.stack([minor * radius * np.cos(angle), major * radius * np.sin(angle)], axis=1)

    def contexts(self, user: Vector) -> Matrix:
        """The user rotated by each article's angle, (N, 2)."""
        return _rotated(user, self.theta)

    def means(self, user: Vector) -> Vector:
        """The reward of each article for this user, (N,)."""
        a = np.arange(self.n_arms)
        if self.reward == "text":
            return np.asarray(1.0 - (user[0] - (a + 1) / self.n_arms + 0.5) ** 2)
        return np.asarray(1.0 - (self.contexts(user)[:, 0] - a / self.n_arms + 0.5) ** 2)


def _rotated(user: Vector, angles: Vector) -> Matrix:
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([cos * user[0] - sin * user[1], sin * user[0] + cos * user[1]], axis=1)
