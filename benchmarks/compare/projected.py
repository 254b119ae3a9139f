"""Kernel-UCB in the span of a few rows: EK-UCB, BKB and batch BKB, written from their papers.

    EK-UCB  Zenati, Bietti, Diemert, Mairal, Martin, Gaillard (2022): a row joins by its leverage, and
            stays (KORS: Calandriello, Lazaric, Valko, 2017)
    BKB     Calandriello, Carratino, Lazaric, Valko, Rosasco (2019): the dictionary is drawn anew after every row
    BBKB    the same authors (2020): drawn anew when the widths played since sum to more than C

The last two are taken with contexts, as the EK-UCB paper compares them: rewards are learned as they come.

Notation (t rows s_i = (arm, context), m of them in the dictionary Z; lambda the ridge)
    L    (m, m)  Cholesky factor of k(Z, Z)
    F    (t, m)  features of the rows, f(s) = L^-1 k(Z, s)
    V    (m, m)  F'F + lambda I; W its inverse
    mean(s) = f' W F'y       width(s)^2 = (k(s, s) - f'f) / lambda + f' W f

In the papers' terms mean = k' Lambda Gamma with Lambda = (k(Z,S) k(S,Z) + lambda k(Z,Z))^-1 = L^-T W L^-1: that is
what the tests compare with. A width squared times lambda is the posterior variance, so that all is in our units.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from compare.peers import Peer
from kinbandits._types import Matrix, Vector
from kinbandits.baselines import SupKernelUCB
from kinbandits.environments import Environment
from kinbandits.kernels import RBF

__all__ = ["BKB", "EKUCB", "BatchBKB", "ProjectedUCB"]

_JITTER = 1e-8  # on the diagonal of k(Z, Z): rows may coincide


class ProjectedUCB(Peer):
    """What the three have in common. Subclasses say who is in the dictionary.

    Args:
        length_scale: of the Gaussian kernel on features of contexts.
        arm_length_scale: of a Gaussian kernel on the arms' descriptors; None takes arms as unrelated.
        ridge: lambda.
        exploration: beta of mean + beta * width.
    """

    def __init__(
        self,
        arms: Sequence[Any],
        *,
        length_scale: float,
        ridge: float,
        exploration: float,
        arm_length_scale: float | None = None,
        descriptors: Matrix | None = None,
        **others: Any,
    ) -> None:
        super().__init__(arms, **others)
        self.length_scale, self.ridge, self.exploration = length_scale, ridge, exploration
        self._K_arm = np.eye(len(self.arms))
        if arm_length_scale is not None and descriptors is not None:
            self._K_arm = _gaussian(descriptors, descriptors, arm_length_scale)
        self.rng = np.random.default_rng(self.seed)
        self._arms, self._X, self._y = np.empty(0, dtype=np.intp), np.empty((0, 0)), np.empty(0)
        self._asked: tuple[Vector, Vector] | None = None  # of the round that is open
        self.dictionary: list[int] = []
        self._L, self._F, self._W = np.empty((0, 0)), np.empty((0, 0)), np.empty((0, 0))

    @classmethod
    def for_environment(
        cls, environment: Environment, *, seed: int, scaling: str = "standard", **knobs: Any
    ) -> Peer:
        """With the arms' descriptors, where the environment has them; ``scaling="raw"`` leaves contexts alone."""
        knobs["descriptors"] = getattr(environment, "descriptors", None)
        if scaling == "raw":
            return cls(environment.arms, seed=seed, **knobs)
        return super().for_environment(environment, seed=seed, scaling=scaling, **knobs)

    def features(self, context: Any) -> Vector:
        """Scaled as for the other peers; without an intercept, which no distance knows."""
        if self._centre is None:
            return np.asarray(context, dtype=np.float64)
        return super().features(context)[:-1]

    # -- the posterior --------------------------------------------------------------------------

    def kernel(self, arms: Any, X: Matrix, rows: Any) -> Matrix:
        """k of points (arm, x) with rows of the history."""
        return self._K_arm[np.ix_(arms, self._arms[rows])] * _gaussian(X, self._X[rows], self.length_scale)

    def predict(self, z: Vector) -> tuple[Vector, Vector]:
        """Mean and width of every arm."""
        prior = self._K_arm.diagonal()
        if not len(self._y):
            return np.zeros(len(prior)), np.sqrt(prior / self.ridge)
        f = self._features_of(np.arange(len(self.arms)), np.tile(z, (len(self.arms), 1)))
        squares = np.einsum("ij,ij->i", f, f)
        width = np.maximum(prior - squares, 0.0) / self.ridge + ((f @ self._W) * f).sum(axis=1)
        return f @ (self._W @ (self._y @ self._F)), np.sqrt(np.maximum(width, 0.0))

    def _features_of(self, arms: Any, X: Matrix) -> Matrix:
        k = self.kernel(arms, X, self.dictionary)
        return np.asarray(solve_triangular(self._L, k.T, lower=True, check_finite=False).T)

    def _choose(self, z: Vector) -> tuple[Any, float]:
        mean, width = self._asked = self.predict(z)
        scores = mean + self.exploration * width
        ties = np.flatnonzero(scores >= scores.max() - 1e-12)
        return self.arms[int(self.rng.choice(ties))], 1.0

    # -- learning -------------------------------------------------------------------------------

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        a = self.arms.index(arm)
        asked, self._asked = self._asked, None
        width = float((self.predict(z) if asked is None else asked)[1][a])
        self._arms = np.append(self._arms, a)
        self._X = np.vstack([self._X.reshape(-1, len(z)), z])
        self._y = np.append(self._y, reward)
        if not self.dictionary:
            self._rebuild([0])
        else:
            self._add_row()
        self._follow(width)

    @abstractmethod
    def _follow(self, width: float) -> None:
        """The dictionary after the last row, which had this width before it was learned."""

    def _add_row(self) -> None:
        """The last row, dictionary unchanged: W by Sherman and Morrison, m^2."""
        f = self._features_of(self._arms[-1:], self._X[-1:])
        u = self._W @ f[0]
        self._W = self._W - np.outer(u, u) / (1.0 + f[0] @ u)
        self._F = np.vstack([self._F, f])

    def _add_to_dictionary(self, row: int) -> None:
        """One row more in the dictionary: t m + m^2, by bordering L and W."""
        rows = np.arange(len(self._y))
        k = self.kernel(self._arms[[row]], self._X[[row]], self.dictionary)[0]
        low = solve_triangular(self._L, k, lower=True, check_finite=False)
        corner = np.sqrt(max(float(self._K_arm[self._arms[row], self._arms[row]]) + _JITTER - low @ low, _JITTER))
        column = (self.kernel(self._arms[[row]], self._X[[row]], rows)[0] - self._F @ low) / corner
        self._L = np.block([[self._L, np.zeros((len(low), 1))], [low, corner]])
        b = self._F.T @ column
        u = self._W @ b
        s = 1.0 / (self.ridge + column @ column - b @ u)
        self._W = np.block([[self._W + s * np.outer(u, u), -s * u[:, None]], [-s * u, s]])
        self._F = np.column_stack([self._F, column])
        self.dictionary = [*self.dictionary, row]

    def _rebuild(self, dictionary: list[int]) -> None:
        """Another dictionary: t m^2."""
        self.dictionary = dictionary
        K = self.kernel(self._arms[dictionary], self._X[dictionary], dictionary)
        self._L = np.linalg.cholesky(K + _JITTER * np.eye(len(K)))
        self._F = self._features_of(self._arms, self._X)
        self._W = np.linalg.inv(self._F.T @ self._F + self.ridge * np.eye(len(K)))

    def _add_arm(self, arm: Any) -> None:
        grown = np.eye(len(self._K_arm) + 1)
        grown[:-1, :-1] = self._K_arm
        self._K_arm = grown


class EKUCB(ProjectedUCB):
    """EK-UCB with projections by KORS.

    With d = k(s, s) - k'(K + mu I)^-1 k, where the dictionary's rows are weighted by the roots of their 1 / p, the
    leverage of a new row is estimated by (1 + eps) d / (d + mu), and it joins with probability p = min(1, gamma *
    leverage). The authors' program leaves the ``k(s, s) -`` of KORS out, and so lets other rows in.

    Args:
        mu: regularisation of the leverage; the paper sets mu = lambda.
        gamma: rows a unit of leverage.
    """

    def __init__(
        self, arms: Sequence[Any], *, mu: float = 1.0, gamma: float = 1.0, eps: float = 0.5, **others: Any
    ) -> None:
        super().__init__(arms, **others)
        self.mu, self.gamma, self.eps = mu, gamma, eps
        self.chances: list[float] = []
        self._A = np.empty((0, 0))  # (K + mu I)^-1, weighted

    def _follow(self, width: float) -> None:
        last = len(self._y) - 1
        k_ss = float(self._K_arm[self._arms[last], self._arms[last]])
        if not last:
            self.chances, self._A = [1.0], np.array([[1.0 / (k_ss + self.mu)]])
            return
        k = self.kernel(self._arms[[last]], self._X[[last]], self.dictionary)[0] / np.sqrt(self.chances)
        u = self._A @ k
        d = max(k_ss - float(k @ u), 0.0)
        p = min(1.0, self.gamma * (1.0 + self.eps) * d / (d + self.mu))
        if self.rng.random() < p:
            b, u = k / np.sqrt(p), u / np.sqrt(p)
            s = 1.0 / (k_ss / p + self.mu - b @ u)
            self._A = np.block([[self._A + s * np.outer(u, u), -s * u[:, None]], [-s * u, s]])
            self.chances.append(p)
            self._add_to_dictionary(last)


class BKB(ProjectedUCB):
    """BKB: after each row, each row is in the dictionary with probability min(1, q width^2)."""

    def __init__(self, arms: Sequence[Any], *, q: float = 1.0, **others: Any) -> None:
        super().__init__(arms, **others)
        self.q = q

    def _follow(self, width: float) -> None:
        self._draw_dictionary()

    def _draw_dictionary(self) -> None:
        prior = self._K_arm.diagonal()[self._arms]
        squares = np.einsum("ij,ij->i", self._F, self._F)
        widths = np.maximum(prior - squares, 0.0) / self.ridge
        widths += ((self._F @ self._W) * self._F).sum(axis=1)
        chosen = np.flatnonzero(self.rng.random(len(prior)) < self.q * widths)
        self._rebuild(chosen.tolist() if len(chosen) else [len(prior) - 1])


class BatchBKB(BKB):
    """Batch BKB: the dictionary is drawn anew once 1 + the sum of width^2 since the last time exceeds C."""

    def __init__(self, arms: Sequence[Any], *, C: float = 2.0, **others: Any) -> None:
        super().__init__(arms, **others)
        self.C, self._sum = C, 1.0

    def _follow(self, width: float) -> None:
        self._sum += width**2
        if self._sum > self.C:
            self._draw_dictionary()
            self._sum = 1.0


class _Sup(SupKernelUCB):
    """With a confidence factor that is given."""

    factor = 1.0

    @property
    def exploration(self) -> float:
        return self.factor


class SupKernel(Peer):
    """SupKernelUCB (Valko et al., 2013), our own baseline, with the kernel and the features of the others here.

    ``exploration`` stands in place of the confidence factor of its theory, with which it would play at random for
    thousands of rounds.
    """

    def __init__(self, arms: Sequence[Any], *, exploration: float, horizon: int, **others: Any) -> None:
        kernel, ridge = RBF(others.pop("length_scale")), others.pop("ridge")
        super().__init__(arms, **others)
        self._policy = _Sup(arms, horizon=horizon, context_kernel=kernel, ridge=ridge, seed=self.seed)
        self._policy.factor = exploration
        self._decision: Any = None

    @classmethod
    def for_environment(cls, environment: Environment, *, seed: int, **knobs: Any) -> Peer:
        """It must know the horizon."""
        return super().for_environment(environment, seed=seed, horizon=environment.horizon, **knobs)

    def _choose(self, z: Vector) -> tuple[Any, float]:
        self._decision = self._policy.choose(z)
        return self._decision.arm, self._decision.propensity

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        if self._decision is None:
            self._policy.observe([arm], z[None, :], [reward])
        else:
            self._policy.update(self._decision, reward)

    def _add_arm(self, arm: Any) -> None:
        raise NotImplementedError("its confidence factor knows the number of arms beforehand")


def _gaussian(A: Matrix, B: Matrix, length_scale: float) -> Matrix:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2.0 * A @ B.T
    return np.asarray(np.exp(np.maximum(squares, 0.0) / (-2.0 * length_scale**2)))
