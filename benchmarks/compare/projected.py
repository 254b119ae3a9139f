"""Kernel-UCB in the span of a few rows: EK-UCB, BKB and batch BKB, written from their papers.

    EK-UCB  Zenati, Bietti, Diemert, Mairal, Martin, Gaillard (2022): a row joins by its leverage, and
            stays (KORS: Calandriello, Lazaric, Valko, 2017)
    BKB     Calandriello, Carratino, Lazaric, Valko, Rosasco (2019): the dictionary is drawn anew after every row
    BBKB    the same authors (2020): drawn anew when the widths played since sum to more than C

The last two are taken with contexts, as the EK-UCB paper compares them: rewards are learned as they come.

Notation (t rows s_i = (arm, context), m of them in the dictionary Z; lambda the ridge)
    L    (m, m)  Cholesky factor of k(Z, Z); its inverse is kept
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
from kinbandits import SupKMTLUCB
from kinbandits._types import Matrix, Vector
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
        self.dictionary: list[int] = []
        self._asked: tuple[Matrix, Vector] | None = None  # features and widths of the round that is open
        self._t, none = 0, np.empty((0, 0))
        self._arms, self._X, self._y = np.empty(0, dtype=np.intp), none, np.empty(0)
        self._inverse, self._F, self._W, self._Fy = none, none, none, np.empty(0)  # of L; and F'y

    @classmethod
    def for_environment(cls, environment: Environment, *, seed: int, scaling: str = "standard", **knobs: Any) -> Peer:
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
        return self._posterior(z)[1:]

    def _posterior(self, z: Vector) -> tuple[Matrix, Vector, Vector]:
        """Features, mean and width of every arm."""
        prior = self._K_arm.diagonal()
        m = len(self.dictionary)
        if not m:
            return np.empty((len(prior), 0)), np.zeros(len(prior)), np.sqrt(prior / self.ridge)
        near = self._K_arm[:, self._arms[self.dictionary]]
        f = (near * _gaussian(z[None], self._X[self.dictionary], self.length_scale)) @ self._inverse[:m, :m].T
        squares = np.einsum("ij,ij->i", f, f)
        explained = f @ self._W[:m, :m]
        width = np.maximum(prior - squares, 0.0) / self.ridge + np.einsum("ij,ij->i", explained, f)
        return f, explained @ self._Fy[:m], np.sqrt(np.maximum(width, 0.0))

    def _choose(self, z: Vector) -> tuple[Any, float]:
        f, mean, width = self._posterior(z)
        self._asked = f, width
        scores = mean + self.exploration * width
        ties = np.flatnonzero(scores >= scores.max() - 1e-12)
        return self.arms[int(self.rng.choice(ties))], 1.0

    # -- learning -------------------------------------------------------------------------------

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        a, t = self.arms.index(arm), self._t
        if self._asked is None:
            f, _, width = self._posterior(z)
        else:
            (f, width), self._asked = self._asked, None
        self._t = t + 1
        self._arms, self._y = _with_room(self._arms, t + 1), _with_room(self._y, t + 1)
        self._X = _with_room(self._X if t else np.empty((0, len(z))), t + 1, len(z))
        self._arms[t], self._X[t], self._y[t] = a, z, reward
        if t:
            self._add_row(f[a])
        else:
            self._rebuild([0])
        self._follow(float(width[a]))

    @abstractmethod
    def _follow(self, width: float) -> None:
        """The dictionary after the last row, which had this width before it was learned."""

    def _add_row(self, f: Vector) -> None:
        """The last row, dictionary unchanged: W by Sherman and Morrison, m^2."""
        m = len(f)
        W = self._W[:m, :m]
        u = W @ f
        W -= np.outer(u / (1.0 + f @ u), u)
        self._F = _with_room(self._F, self._t, m)
        self._F[self._t - 1, :m] = f
        self._Fy[:m] += self._y[self._t - 1] * f

    def _add_last_to_dictionary(self) -> None:
        """The last row joins the dictionary: t m + m^2, by bordering L^-1 and W."""
        t, m = self._t, len(self.dictionary)
        a, F, y = self._arms[t - 1], self._F[:t, :m], self._y[:t]
        low = F[-1]  # its features are its row of L
        corner = np.sqrt(max(float(self._K_arm[a, a]) + _JITTER - low @ low, _JITTER))
        k = self._K_arm[a, self._arms[:t]] * _gaussian(self._X[t - 1 : t], self._X[:t], self.length_scale)[0]
        column = (k - F @ low) / corner
        b = column @ F
        self._inverse = _with_room(self._inverse, m + 1, m + 1)
        self._inverse[m, :m] = low @ self._inverse[:m, :m] / -corner
        self._inverse[m, m] = 1.0 / corner
        self._W, self._F = _with_room(self._W, m + 1, m + 1), _with_room(self._F, t, m + 1)
        _border(self._W, m, b, self.ridge + column @ column)
        self._F[:t, m] = column
        self._Fy = _with_room(self._Fy, m + 1)
        self._Fy[m] = y @ column
        self.dictionary.append(t - 1)

    def _rebuild(self, dictionary: list[int]) -> None:
        """Another dictionary: t m^2."""
        self.dictionary = dictionary
        arms, X, y = self._arms[: self._t], self._X[: self._t], self._y[: self._t]
        K = self.kernel(arms[dictionary], X[dictionary], dictionary)
        eye = np.eye(len(K))
        self._inverse = solve_triangular(np.linalg.cholesky(K + _JITTER * eye), eye, lower=True, check_finite=False)
        self._F = self.kernel(arms, X, dictionary) @ self._inverse.T
        self._W = np.linalg.inv(self._F.T @ self._F + self.ridge * eye)
        self._Fy = y @ self._F

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
        self.chances = np.empty(0)
        self._A = np.empty((0, 0))  # (K + mu I)^-1, weighted

    def _follow(self, width: float) -> None:
        last, m = self._t - 1, len(self.dictionary)
        a = self._arms[last]
        k_ss = float(self._K_arm[a, a])
        if not last:
            self.chances, self._A = np.ones(1), np.array([[1.0 / (k_ss + self.mu)]])
            return
        k = self.kernel([a], self._X[[last]], self.dictionary)[0] / np.sqrt(self.chances)
        d = max(k_ss - float(k @ self._A[:m, :m] @ k), 0.0)
        p = min(1.0, self.gamma * (1.0 + self.eps) * d / (d + self.mu))
        if self.rng.random() < p:
            self._A = _with_room(self._A, m + 1, m + 1)
            _border(self._A, m, k / np.sqrt(p), k_ss / p + self.mu)
            self.chances = np.append(self.chances, p)
            self._add_last_to_dictionary()


class BKB(ProjectedUCB):
    """BKB: after each row, each row is in the dictionary with probability min(1, q width^2)."""

    def __init__(self, arms: Sequence[Any], *, q: float = 1.0, **others: Any) -> None:
        super().__init__(arms, **others)
        self.q = q

    def _follow(self, width: float) -> None:
        self._draw_dictionary()

    def _draw_dictionary(self) -> None:
        prior = self._K_arm.diagonal()[self._arms[: self._t]]
        m = len(self.dictionary)
        F = self._F[: self._t, :m]
        widths = np.maximum(prior - np.einsum("ij,ij->i", F, F), 0.0) / self.ridge
        widths += np.einsum("ij,ij->i", F @ self._W[:m, :m], F)
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


class _Sup(SupKMTLUCB):
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


def _with_room(array: Any, *shape: int) -> Any:
    """The array itself if this shape fits into it, else a copy with twice the room."""
    if all(have >= need for have, need in zip(array.shape, shape, strict=True)):
        return array
    room = [2 * need if need > have else have for have, need in zip(array.shape, shape, strict=True)]
    grown = np.zeros(room, dtype=array.dtype)
    grown[tuple(map(slice, array.shape))] = array
    return grown


def _border(inverse: Matrix, m: int, b: Vector, corner: float) -> None:
    """From the inverse of M, in the first m rows and columns, to that of [[M, b], [b', corner]], in place."""
    old = inverse[:m, :m]
    u = old @ b
    s = 1.0 / (corner - b @ u)
    old += np.outer(s * u, u)
    inverse[m, :m] = inverse[:m, m] = -s * u
    inverse[m, m] = s


def _gaussian(A: Matrix, B: Matrix, length_scale: float) -> Matrix:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2.0 * A @ B.T
    return np.asarray(np.exp(np.maximum(squares, 0.0) / (-2.0 * length_scale**2)))
