"""A problem that the paper's theorems cover: rewards are a function of known RKHS norm plus bounded noise.

Notation
    K_arm  (N, N)    K_Z(mu), ones on the diagonal and mu elsewhere; or any that is given
    C      (M, d)    centres, uniform in [-1, 1]^d
    G      (N, M)    standard normals, scaled
    f*     f_a(x) = sum over j of B[a, j] k_X(C[j], x), with B = K_arm^1/2 G
    norm   ||f*||^2 = trace(B' K_arm^+ B k_X(C, C)), in the RKHS of k_Z(a, b) k_X(x, x')
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbandits._types import Matrix
from kinbandits._value import Count, Natural, NotNegative, Positive
from kinbandits.environments.base import Drawn, Round, seeded, symmetric_root
from kinbandits.errors import InvalidInputError
from kinbandits.kernels import RBF, as_kernel
from kinbandits.similarity import Known, Mixed, Similarity
from kinbandits.theory import equicorrelated


@dataclass(frozen=True, eq=False, repr=False)
class RKHSProblem(Drawn):
    """Arm functions in the RKHS of K_Z(mu) times a context kernel, and noise in an interval of length 1.

    Every arm has a context of its own in every round (uniform in [-1, 1]^d), so that arms with one function
    (mu = 1) still differ. Whatever mu is, each single arm's function has the same distribution: learning alone
    is equally hard for all mu, and what a policy gains as mu grows it gains from kin.

    Args:
        mu: similarity of any two different arms, from 0 to 1.
        context_kernel: k_X, with k_X(x, x) = 1.
        centres: M.
        amplitude: root mean square of f*.
        noise: noise is within [-noise, noise]; Lemma 1 allows at most 0.5.
        two_point: noise is -noise or +noise, the worst case, instead of uniform.
        arm_kernel: (N, N) any K_Z in place of K_Z(mu); ``mu`` and ``n_arms`` then say nothing.

    Example:
        >>> problem = RKHSProblem(mu=0.5, n_arms=3, horizon=100)
        >>> problem.similarity, round(problem.norm, 2)
        (Mixed(mu=0.5), 0.7)
    """

    seed: Natural = 0
    mu: NotNegative = 0.5
    n_arms: Count = 5
    horizon: Count = 1000
    n_features: Count = 1
    context_kernel: Any = RBF()  # noqa: RUF009 (a frozen value)
    centres: Count = 10
    amplitude: Positive = 0.3
    noise: NotNegative = 0.5
    two_point: bool = False
    arm_kernel: Any = None

    def __post_init__(self) -> None:
        if self.arm_kernel is not None:
            self._set(arm_kernel=Known(self.arm_kernel).given, n_arms=len(self.arm_kernel))
        super().__post_init__()
        self._set(context_kernel=as_kernel(self.context_kernel))
        equicorrelated(self.mu, self.n_arms)
        if self.noise > 0.5:
            raise InvalidInputError(f"noise must be at most 0.5 (an interval of length 1), got {self.noise!r}")

    @property
    def name(self) -> str:
        return "RKHS problem" + (f" (mu {self.mu:g})" if self.arm_kernel is None else "")

    @property
    def similarity(self) -> Similarity:
        """k_Z, for a policy that is to know it."""
        return Mixed(self.mu) if self.arm_kernel is None else Known(self.arm_kernel)

    @property
    def similarity_matrix(self) -> Matrix:
        return equicorrelated(self.mu, self.n_arms) if self.arm_kernel is None else np.array(self.arm_kernel)

    @property
    def norm(self) -> float:
        """||f*||, exactly: what ``norm_bound`` is to be."""
        C, B = self._function()
        inner = np.linalg.pinv(self.similarity_matrix, hermitian=True) @ B @ self.context_kernel(C, C)
        return float(np.sqrt(max(np.sum(B * inner), 0.0)))

    def rounds(self) -> Iterator[Round]:
        _, _, contexts, noise = seeded(self.seed, 4)
        X = contexts.uniform(-1.0, 1.0, (self.horizon, self.n_arms, self.n_features))
        e = noise.uniform(-self.noise, self.noise, (self.horizon, self.n_arms))
        if self.two_point:
            e = np.copysign(self.noise, e)
        C, B = self._function()
        K = self.context_kernel(X.reshape(-1, self.n_features), C).reshape(self.horizon, self.n_arms, -1)
        means = np.einsum("tam,am->ta", K, B)
        for t in range(self.horizon):
            yield Round(X[t], means[t] + e[t], means[t])

    def _function(self) -> tuple[Matrix, Matrix]:
        centres, weights, contexts, _ = seeded(self.seed, 4)
        C = centres.uniform(-1.0, 1.0, (self.centres, self.n_features))
        # f_a(x) has variance |k_X(x, C)|^2 over draws of G: scale by its mean over contexts
        X = contexts.uniform(-1.0, 1.0, (1000, self.n_features))
        scale = self.amplitude / np.sqrt(np.mean(np.sum(self.context_kernel(X, C) ** 2, axis=1)))
        root = symmetric_root(self.similarity_matrix)
        return C, scale * root @ weights.standard_normal((self.n_arms, self.centres))
