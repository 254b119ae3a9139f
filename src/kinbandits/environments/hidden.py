"""The hidden-descriptor problem: arms that resemble each other by a dial, from not at all to entirely.

Notation
    z      (N, p)    descriptors of the arms, uniform in [0, 1]^p, not shown to the policy
    K_arm  (N, N)    exp(-||z_a - z_b||^2 / (2 ell^2))
    f      (n, N)    arm functions (`ArmFunctions`)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinbandits._types import Matrix
from kinbandits._value import Count, Natural, NotNegative, Part, Positive
from kinbandits.environments.base import ArmFunctions, Drawn, Round, StartRows, seeded
from kinbandits.kernels import cdist

_UNIT = 0.2  # length scale over descriptors in the middle of the dial


@dataclass(frozen=True, eq=False, repr=False)
class HiddenDescriptors(Drawn):
    """Arm functions drawn from a Gaussian process over hidden arm descriptors.

    Args:
        similarity: the dial s, from 0 (unrelated arms, K_arm = I) to 1 (all arms have one function). Between,
            the length scale over descriptors is 0.2 s / (1 - s), so that 0.5 gives 0.2.
        descriptor_size: p, how many numbers describe an arm.
        length_scale: of the arm functions over contexts, which are uniform in [-1, 1]^d, the same for all arms.
        fourier_features: of which arm functions are made.

    Example:
        >>> HiddenDescriptors(similarity=0.0, n_arms=3).similarity_matrix
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """

    seed: Natural = 0
    similarity: Part = 0.5
    n_arms: Count = 20
    horizon: Count = 1000
    descriptor_size: Count = 1
    n_features: Count = 5
    length_scale: Positive = 1.5
    noise: NotNegative = 0.1
    fourier_features: Count = 400
    start: bool = True

    @property
    def name(self) -> str:
        return f"hidden descriptors (similarity {self.similarity:g})"

    @property
    def arm_length_scale(self) -> float:
        """ell, the length scale over descriptors: 0 for unrelated arms, infinite for equal ones."""
        return math.inf if self.similarity == 1.0 else _UNIT * self.similarity / (1.0 - self.similarity)

    @property
    def descriptors(self) -> Matrix:
        """z, (N, p). For policies that are to know them, and for judging those that are not."""
        return seeded(self.seed, 5)[0].random((self.n_arms, self.descriptor_size))

    @property
    def similarity_matrix(self) -> Matrix:
        """K_arm, the truth that a policy may try to estimate."""
        ell = self.arm_length_scale
        if ell == 0.0:
            return np.eye(self.n_arms)
        distances = cdist(self.descriptors, self.descriptors)
        with np.errstate(over="ignore"):  # far beyond any similarity, which is then 0
            return np.asarray(np.exp(-0.5 * (distances / ell) ** 2))

    def start_rows(self) -> StartRows:
        X, f, noise = self._draws()
        n = self._n_start
        return self.arms[:n], X[:n], np.diagonal(f[:n] + noise[:n]).copy()

    def rounds(self) -> Iterator[Round]:
        X, f, noise = self._draws()
        for i in range(self._n_start, len(X)):
            yield Round(X[i], f[i] + noise[i], f[i])

    @property
    def _n_start(self) -> int:
        return self.n_arms if self.start else 0

    def _draws(self) -> tuple[Matrix, Matrix, Matrix]:
        """Contexts (n, d), arm functions (n, N) and noise (n, N), start rows first."""
        _, features, weights, contexts, noise = seeded(self.seed, 5)
        n = self.horizon + self._n_start
        functions = ArmFunctions.draw(
            features, weights, self.similarity_matrix, self.n_features, self.length_scale, self.fourier_features
        )
        X = contexts.uniform(-1.0, 1.0, (n, self.n_features))
        f = functions.features(X) @ functions.weights.T
        return X, f, self.noise * noise.standard_normal((n, self.n_arms))
