"""Arms whose functions are drawn, and known: arms that resemble each other by a dial, and what the theorems cover.

Notation (hidden descriptors, tasks)
    z      (N, p)    descriptors of the arms, uniform in [0, 1]^p, not shown to the policy
    K_arm  (N, N)    exp(-||z_a - z_b||^2 / (2 ell^2)); of tasks (1 - mu) I + mu 11'
    f      (n, N)    arm functions (`ArmFunctions`)

Notation (RKHS problem: a function of known norm plus bounded noise)
    K_arm  (N, N)    K_Z(mu), ones on the diagonal and mu elsewhere; or a given matrix
    C      (M, d)    centres, uniform in [-1, 1]^d
    G      (N, M)    standard normals, scaled
    f*     f_a(x) = sum over j of B[a, j] k_X(C[j], x), with B = K_arm^1/2 G
    norm   ||f*||^2 = trace(B' K_arm^+ B k_X(C, C)), in the RKHS of k_Z(a, b) k_X(x, x')
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits._value import Count, Natural, NotNegative, Part, Positive, Value
from kinbandits.environments.base import Drawn, Round, StartRows, no_rows, seeded
from kinbandits.errors import InvalidInputError
from kinbandits.kernels import RBF, as_kernel, cdist
from kinbandits.rules import symmetric_root
from kinbandits.similarity import Known, Mixed, Similarity
from kinbandits.theory import equicorrelated

_UNIT = 0.2  # length scale over descriptors in the middle of the dial


@dataclass(frozen=True, eq=False)
class ArmFunctions:
    """Functions f_a of a context, one for each arm, of variance 1 (linear ones: where columns have variance 1).

    They are draws from a Gaussian process with kernel K_arm times RBF, f = Phi W': Phi (n, D) are random Fourier
    features of the contexts (themselves, for linear functions), W (N, D) the root of K_arm times standard normals.
    """

    weights: Matrix
    frequencies: Matrix | None
    phases: Vector

    @classmethod
    def draw(
        cls,
        features: np.random.Generator,
        weights: np.random.Generator,
        K_arm: Matrix,
        n_features: int,
        length_scale: float | None,
        size: int = 300,
    ) -> ArmFunctions:
        """Functions of ``n_features`` columns with this length scale; linear ones if it is None."""
        frequencies, phases, D = None, np.empty(0), n_features
        if length_scale is not None:
            frequencies = features.standard_normal((n_features, size)) / length_scale
            phases, D = features.uniform(0.0, 2.0 * math.pi, size), size
        W = symmetric_root(K_arm, rounding=False) @ weights.standard_normal((len(K_arm), D))
        return cls(W, frequencies, phases)

    def features(self, X: Matrix) -> Matrix:
        """Phi, (n, D)."""
        if self.frequencies is None:
            return X / math.sqrt(X.shape[1])
        return np.asarray(math.sqrt(2.0 / len(self.phases)) * np.cos(X @ self.frequencies + self.phases))

    def __call__(self, X: Matrix) -> Matrix:
        return self.features(X) @ self.weights.T


class HiddenDescriptors(Drawn, Value):
    """Arm functions drawn from a Gaussian process over hidden arm descriptors.

    Args:
        similarity: the dial s, from 0 (unrelated arms, K_arm = I) to 1 (all arms have one function). Between,
            the length scale over descriptors is 0.2 s / (1 - s), so that 0.5 gives 0.2.
        descriptor_size: p, how many numbers describe an arm.
        length_scale: of the arm functions over contexts, which are uniform in [-1, 1]^d, the same for all arms.

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
        with np.errstate(over="ignore"):  # far beyond any similarity, which is then 0
            return np.asarray(np.exp(-0.5 * (cdist(self.descriptors, self.descriptors) / ell) ** 2))

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
        f = ArmFunctions.draw(features, weights, self.similarity_matrix, self.n_features, self.length_scale, 400)
        X = contexts.uniform(-1.0, 1.0, (n, self.n_features))
        return X, f(X), self.noise * noise.standard_normal((n, self.n_arms))


class Tasks(Drawn, Value):
    """Tasks with a part in common and parts of their own. In each round a task and candidates for it are given.

    Arms are the tasks; the candidates of a round are one task with several contexts (`Round.candidates`). Whatever
    mu is, each single task is equally hard: what a policy gains as mu grows it gains from the other tasks.

    Args:
        mu: how much two tasks have in common, from 0 (nothing) to 1 (they are one).
        n_candidates: m, for each of the N tasks; they stay the same in all rounds.
        on_offer: how many of them are on offer in a round, drawn anew; 0 is all.
        length_scale: of the functions of candidates, which are uniform in [-1, 1]^d.

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
    def similarity_matrix(self) -> Matrix:
        """The truth that a policy may try to find."""
        return np.asarray((1.0 - self.mu) * np.eye(self.n_tasks) + self.mu)

    def start_rows(self) -> StartRows:
        if not self.start:
            return no_rows()
        rng = seeded(self.seed, 6)[5]
        X, f = self._drawn()
        chosen = X[np.arange(self.n_tasks), rng.integers(self.n_candidates, size=self.n_tasks)]
        means = np.einsum("ad,ad->a", f.features(chosen), f.weights)
        return self.arms, chosen, means + self.noise * rng.standard_normal(self.n_tasks)

    def rounds(self) -> Iterator[Round]:
        rng = seeded(self.seed, 6)[4]
        X, f = self._drawn()
        means = [f(X[task])[:, task] for task in range(self.n_tasks)]
        for _ in range(self.horizon):
            task = int(rng.integers(self.n_tasks))
            offer = rng.permutation(self.n_candidates)[: self.on_offer] if self.on_offer else slice(None)
            expected = means[task][offer]
            rewards = expected + self.noise * rng.standard_normal(len(expected))
            yield Round(X[task][offer], rewards, expected, [task] * len(expected))

    def _drawn(self) -> tuple[Matrix, ArmFunctions]:
        """Candidates (N, m, d), and the tasks' functions."""
        _, features, weights, contexts, _, _ = seeded(self.seed, 6)
        f = ArmFunctions.draw(features, weights, self.similarity_matrix, self.n_features, self.length_scale)
        return contexts.uniform(-1.0, 1.0, (self.n_tasks, self.n_candidates, self.n_features)), f


class RKHSProblem(Drawn, Value):
    """Arm functions in the RKHS of K_Z(mu) times a context kernel, and noise in an interval of length 1.

    Every arm has a context of its own in every round (uniform in [-1, 1]^d), so that arms with one function
    (mu = 1) still differ. Whatever mu is, each single arm's function has the same distribution: learning alone
    is equally hard for all mu, and what a policy gains as mu grows it gains from related arms.

    Args:
        mu: similarity of any two different arms, from 0 to 1.
        context_kernel: k_X, with k_X(x, x) = 1. centres: M. amplitude: root mean square of f*.
        noise: noise is within [-noise, noise]; Lemma 1 allows at most 0.5.
        two_point: noise is -noise or +noise, the worst case, instead of uniform.
        arm_kernel: (N, N) any K_Z in place of K_Z(mu); ``mu`` and ``n_arms`` are then not used.

    >>> problem = RKHSProblem(mu=0.5, n_arms=3, horizon=100)
    >>> problem.similarity, round(problem.norm, 2)
    (Mixed(mu=0.5), 0.7)
    """

    seed: Natural = 0
    mu: NotNegative = 0.5
    n_arms: Count = 5
    horizon: Count = 1000
    n_features: Count = 1
    context_kernel: Any = RBF()
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
        """C and B."""
        centres, weights, contexts, _ = seeded(self.seed, 4)
        C = centres.uniform(-1.0, 1.0, (self.centres, self.n_features))
        # f_a(x) has variance |k_X(x, C)|^2 over draws of G: scale by its mean over contexts
        X = contexts.uniform(-1.0, 1.0, (1000, self.n_features))
        scale = self.amplitude / np.sqrt(np.mean(np.sum(self.context_kernel(X, C) ** 2, axis=1)))
        root = symmetric_root(self.similarity_matrix, rounding=False)
        return C, scale * root @ weights.standard_normal((self.n_arms, self.centres))
