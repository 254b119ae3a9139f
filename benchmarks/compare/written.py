"""Rivals that no library has, written from their papers: Lin-UCB, also hybrid, EK-UCB and NeuralUCB.

LinUCB, LinUCBHybrid  Li, Chu, Langford, Schapire (2010), with one ridge for what arms share and what is their own
EKUCB         Zenati, Bietti, Diemert, Mairal, Martin, Gaillard (2022): kernel UCB in the span of a few rows; a row
              joins by its leverage, and stays (KORS: Calandriello, Lazaric, Valko, 2017)
NeuralUCB     Zhou, Li, Gu (2020): upper bounds from the gradient of a network
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from compare.peers import Choice, JointPeer, Peer, grid
from compare.problems import Problem, Setup
from kinbandits._types import Indices, Matrix, Vector

LONG = ("letter", "usps", "mnist")
"""Label sets whose games take minutes: Lin-UCB and EK-UCB have the settings that were best on Digits."""
_JITTER = 1e-8  # on the diagonal of k(Z, Z): rows may coincide


class LinUCB(Peer):
    """Lin-UCB with one ridge regression an arm: the LinUCB of coba and of contextualbandits."""

    title = "Lin-UCB"
    own_contexts = True

    def __init__(self, setup: Setup, *, alpha: float, ridge: float, **others: Any) -> None:
        super().__init__(setup, **others)
        p = setup.n_features + 1
        self.alpha = alpha
        self._inverse, self._moment = np.tile(np.eye(p) / ridge, (self.n_arms, 1, 1)), np.zeros((self.n_arms, p))

    @classmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        if problem.name in LONG:
            yield {"alpha": 0.3, "ridge": 0.2, "scaling": "centred"}
        elif problem.group == "labels":
            yield from grid(problem, alpha=(0.3, 0.1), ridge=(0.2,))
        else:
            yield from grid(problem, alpha=(0.3, 0.1, 1.0), ridge=(0.2, 1.0))

    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        first = np.array_equal(arms, np.arange(len(arms)))  # no copy
        inverse = self._inverse[: len(arms)] if first else self._inverse[arms]
        u = np.matmul(inverse, Z[:, :, None])[:, :, 0]
        scores = (u * self._moment[arms]).sum(axis=1) + self.alpha * np.sqrt((u * Z).sum(axis=1))
        return self._best(scores), 1.0

    def _learn(self, choice: Choice, reward: float) -> None:
        a, z = choice.arms[choice.index], choice.Z[choice.index]
        u = self._inverse[a] @ z
        self._inverse[a] -= np.outer(u / (1.0 + z @ u), u)
        self._moment[a] += reward * z


class LinUCBHybrid(JointPeer):
    """Ridge regression on Phi; mean + alpha * width, with width^2 = phi' A^-1 phi."""

    title = "Lin-UCB hybrid"
    related_only = True

    def __init__(self, setup: Setup, *, alpha: float, ridge: float, **others: Any) -> None:
        super().__init__(setup, **others)
        self.alpha, self.ridge = alpha, ridge
        self._inverse, self._moment = np.empty((0, 0)), np.empty(0)

    @classmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        pairs = ((0.3, 0.1), (0.3, 1.0), (1.0, 1.0)) if problem.binary else ((0.3, 0.1), (0.1, 0.1), (1.0, 0.1))
        for alpha, ridge in pairs:
            yield from grid(problem, alpha=(alpha,), ridge=(ridge,), **cls.knobs(problem))

    def _start(self, p: int) -> None:
        self._inverse, self._moment = np.eye(p) / self.ridge, np.zeros(p)

    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        Phi = self._phi(arms, Z)
        if not len(self._moment):
            self._start(Phi.shape[1])
        A = Phi @ self._inverse
        width = np.sqrt(np.einsum("ij,ij->i", A, Phi))
        return self._best(A @ self._moment + self.alpha * width), 1.0

    def _learn(self, choice: Choice, reward: float) -> None:
        phi = self._phi(choice.arms[[choice.index]], choice.Z[[choice.index]])[0]
        if not len(self._moment):
            self._start(len(phi))
        u = self._inverse @ phi
        self._inverse -= np.outer(u / (1.0 + phi @ u), u)
        self._moment += reward * phi


class EKUCB(Peer):
    """EK-UCB on the kernel k(a, b) * Gaussian(x, y).

    Notation (t rows s_i = (arm, z), m of them in the dictionary D; lambda the ridge)
        L    (m, m)  Cholesky factor of k(D, D); its inverse is kept
        F    (t, m)  features of the rows, f(s) = L^-1 k(D, s)
        W    (m, m)  (F'F + lambda I)^-1
        mean(s) = f' W F'y       width(s)^2 = (k(s, s) - f'f) / lambda + f' W f

    With d = k(s, s) - k'(K + mu I)^-1 k, where the dictionary's rows are weighted by the roots of their 1 / p, the
    leverage of a new row is estimated by 1.5 d / (d + mu), and it joins with that probability.

    Args:
        length_scale: of the Gaussian kernel on features, ``arm_length_scale`` on descriptors, where they are shown.
        kin: k(a, b) of two arms without descriptors.
        exploration: beta of mean + beta * width.
    """

    title, family = "EK-UCB", "kernel"
    own_contexts = True
    too_slow = "clicks-50-3", "clicks-50-13", "clicks-50-50", "drift"

    def __init__(
        self,
        setup: Setup,
        *,
        length_scale: float,
        ridge: float,
        exploration: float,
        kin: float = 0.0,
        arm_length_scale: float = 0.3,
        mu: float = 0.1,
        **others: Any,
    ) -> None:
        super().__init__(setup, **others)
        self.length_scale, self.ridge, self.exploration, self.mu = length_scale, ridge, exploration, mu
        self._K_arm = kin + (1.0 - kin) * np.eye(self.n_arms)
        if setup.descriptors is not None:
            self._K_arm = _gaussian(setup.descriptors, setup.descriptors, arm_length_scale)
        self.dictionary: list[int] = []
        self._t, none = 0, np.empty((0, 0))
        self._arms, self._X, self._y = np.empty(0, dtype=np.intp), none, np.empty(0)
        self._inverse, self._F, self._W, self._Fy = none, none, none, np.empty(0)
        self._A, self._roots = none, np.empty(0)  # (K + mu I)^-1, weighted, and the roots of the probabilities

    @classmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        knobs: dict[str, Sequence[Any]] = {"length_scale": (1.0, 0.7)}
        if problem.name in (*LONG, "pendigits"):
            knobs = {"length_scale": (1.0,)}
        elif problem.described:
            knobs = {"arm_length_scale": (0.3, 0.6), "length_scale": (1.0,)}
        elif problem.group == "hidden" or problem.own:
            knobs = {"kin": (0.9, 0.5, 0.0), "length_scale": (1.0,)}
        for ridge, beta in ((0.1, 0.1), (0.3, 0.3)) if problem.binary and problem.group != "labels" else ((0.01, 0.1),):
            for settings in grid(problem, ridge=(ridge,), exploration=(beta,), **knobs):
                if problem.group != "labels" or settings["scaling"] == "centred":
                    yield settings

    def _kernel(self, arms: Indices, Z: Matrix, rows: Any) -> Matrix:
        """k of points (arm, z) with rows of the history."""
        K: Matrix = self._K_arm[np.ix_(arms, self._arms[rows])] * _gaussian(Z, self._X[rows], self.length_scale)
        return K

    def posterior(self, arms: Indices, Z: Matrix) -> tuple[Matrix, Vector, Vector]:
        """Features, mean and width of every candidate."""
        prior, m = self._K_arm.diagonal()[arms], len(self.dictionary)
        if not m:
            return np.empty((len(arms), 0)), np.zeros(len(arms)), np.sqrt(prior / self.ridge)
        f = self._kernel(arms, Z, self.dictionary) @ self._inverse[:m, :m].T
        explained = f @ self._W[:m, :m]
        width = np.maximum(prior - (f * f).sum(axis=1), 0.0) / self.ridge + (explained * f).sum(axis=1)
        return f, explained @ self._Fy[:m], np.sqrt(np.maximum(width, 0.0))

    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        _, mean, width = self.posterior(arms, Z[:, :-1])  # no distance knows an intercept
        return self._best(mean + self.exploration * width), 1.0

    def _learn(self, choice: Choice, reward: float) -> None:
        t, m = self._t, len(self.dictionary)
        arms, Z = choice.arms[[choice.index]], choice.Z[[choice.index], :-1]
        f = self.posterior(arms, Z)[0][0]
        self._arms, self._y = _room(self._arms, t + 1), _room(self._y, t + 1)
        self._X = _room(self._X if t else np.empty((0, Z.shape[1])), t + 1, Z.shape[1])
        self._arms[t], self._X[t], self._y[t] = arms[0], Z[0], reward
        self._F, self._Fy = _room(self._F, t + 1, m), _room(self._Fy, m)
        self._F[t, :m] = f
        self._Fy[:m] += reward * f
        W = self._W[:m, :m]
        u = W @ f
        W -= np.outer(u / (1.0 + f @ u), u)
        self._t = t + 1
        self._maybe_join(int(arms[0]), f)

    def _maybe_join(self, arm: int, f: Vector) -> None:
        """Whether the last row, with these features, joins the dictionary: t m + m^2, by bordering."""
        t, m = self._t, len(self.dictionary)
        k_ss = float(self._K_arm[arm, arm])
        k = self._kernel(np.array([arm]), self._X[t - 1 : t], np.arange(t))[0]
        weighted = k[self.dictionary] / self._roots
        d = max(k_ss - float(weighted @ self._A[:m, :m] @ weighted), 0.0)
        p = min(1.0, 1.5 * d / (d + self.mu)) if m else 1.0
        if self.rng.random() >= p:
            return
        self._A = _bordered(self._A, m, weighted / math.sqrt(p), k_ss / p + self.mu)
        self._roots = np.append(self._roots, math.sqrt(p))
        corner = math.sqrt(max(k_ss + _JITTER - f @ f, _JITTER))
        self._inverse = _room(self._inverse, m + 1, m + 1)
        self._inverse[m, :m] = f @ self._inverse[:m, :m] / -corner
        self._inverse[m, m] = 1.0 / corner
        F = self._F[:t, :m]
        column = (k - F @ f) / corner
        self._W = _bordered(self._W, m, column @ F, self.ridge + column @ column)
        self._F, self._Fy = _room(self._F, t, m + 1), _room(self._Fy, m + 1)
        self._F[:t, m] = column
        self._Fy[m] = self._y[:t] @ column
        self.dictionary.append(t - 1)


def _gaussian(A: Matrix, B: Matrix, length_scale: float) -> Matrix:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2.0 * A @ B.T
    return np.asarray(np.exp(np.maximum(squares, 0.0) / (-2.0 * length_scale**2)))


def _room(array: Any, *shape: int) -> Any:
    """The array itself if this shape fits into it, else a copy with twice the room."""
    if all(have >= need for have, need in zip(array.shape, shape, strict=True)):
        return array
    room = [2 * need if need > have else have for have, need in zip(array.shape, shape, strict=True)]
    grown = np.zeros(room, dtype=array.dtype)
    grown[tuple(map(slice, array.shape))] = array
    return grown


def _bordered(inverse: Matrix, m: int, b: Vector, corner: float) -> Matrix:
    """From the inverse of M, in the first m rows and columns, to that of [[M, b], [b', corner]]."""
    inverse = _room(inverse, m + 1, m + 1)
    old = inverse[:m, :m]
    u = old @ b
    s = 1.0 / (corner - b @ u)
    old += np.outer(s * u, u)
    inverse[m, :m] = inverse[:m, m] = -s * u
    inverse[m, m] = s
    return inverse


class NeuralUCB(Peer):
    """Play the largest f + nu sigma, in NumPy.

    Notation (N arms, p features z, m hidden units)
        W   (N, m, p)  first layer: an arm sees the context in a block of its own, so that each has its weights
        v   (m,)       second layer, shared: f_a(z) = v' relu(W_a z)
        g_a            gradient of f_a at z: outer(v * [W_a z > 0], z) for W_a, relu(W_a z) for v
        U              diagonal of lambda I + sum g g' over the rows played (the approximation of the authors' program)
        sigma^2        lambda * sum(g^2 / U)

    As in the paper, units come in pairs with opposite v, so that f is 0 at first. Theirs trains with up to 1,000 steps
    after every row; here it is ``steps`` steps of Adam on 64 rows each, from where the network stands.
    """

    title, family = "NeuralUCB", "neural"
    own_contexts = True
    most = 1000
    too_slow = "pendigits", "letter"

    def __init__(
        self,
        setup: Setup,
        *,
        nu: float,
        ridge: float = 0.1,
        width: int = 64,
        rate: float = 1e-3,
        steps: int = 10,
        **others: Any,
    ) -> None:
        super().__init__(setup, **others)
        self.nu, self.ridge, self.rate, self.steps = nu, ridge, rate, steps
        p, half = setup.n_features + 1, width // 2
        first = self.rng.standard_normal((self.n_arms, half, p)) * math.sqrt(2.0 / p)
        second = self.rng.standard_normal(half) / math.sqrt(half)
        self.W = np.concatenate([first, first], axis=1).astype(np.float32)
        self.v = np.concatenate([second, -second]).astype(np.float32)
        self._U_W, self._U_v = np.full_like(self.W, ridge), np.full_like(self.v, ridge)
        self._moments = [np.zeros_like(a) for a in (self.W, self.W, self.v, self.v)]
        self._step = 0
        self._rows: tuple[list[int], list[Vector], list[float]] = ([], [], [])

    @classmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        for nu in (0.1, 0.03, 0.3):
            yield {"nu": nu, "scaling": "centred"}

    def scores(self, arms: Indices, Z: Matrix) -> tuple[Vector, Vector]:
        """f and sigma of every candidate."""
        Z = Z.astype(np.float32)
        hidden = np.maximum(np.matmul(self.W[arms], Z[:, :, None])[:, :, 0], 0.0)
        spread = np.matmul(1.0 / self._U_W[arms], Z[:, :, None] ** 2)[:, :, 0]
        first = ((self.v * (hidden > 0.0)) ** 2 * spread).sum(axis=1)
        return hidden @ self.v, np.sqrt(self.ridge * (first + (hidden**2 / self._U_v).sum(axis=1)))

    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        f, sigma = self.scores(arms, Z)
        return self._best(f + self.nu * sigma), 1.0

    def _learn(self, choice: Choice, reward: float) -> None:
        a, z = int(choice.arms[choice.index]), choice.Z[choice.index].astype(np.float32)
        hidden = np.maximum(self.W[a] @ z, 0.0)
        self._U_W[a] += np.outer(self.v * (hidden > 0.0), z) ** 2
        self._U_v += hidden**2
        for values, value in zip(self._rows, (a, z, reward), strict=True):
            values.append(value)  # type: ignore[arg-type]
        arms, X, y = np.array(self._rows[0]), np.array(self._rows[1]), np.array(self._rows[2], dtype=np.float32)
        for _ in range(self.steps):
            chosen = self.rng.integers(len(y), size=min(64, len(y)))
            self._descend(*self.gradient(arms[chosen], X[chosen], y[chosen]))

    def gradient(self, arms: Indices, X: Matrix, y: Vector) -> tuple[Matrix, Vector]:
        """Of mean((f - y)^2) + a small ridge, arm by arm: each row meets the weights of its arm only."""
        decay = np.float32(0.02 * self.ridge / len(self._rows[0])) if self._rows[0] else np.float32(0.0)
        of_W, of_v = decay * self.W, decay * self.v
        for a in np.unique(arms):
            mine = arms == a
            hidden = np.maximum(X[mine] @ self.W[a].T, 0.0)
            error = (hidden @ self.v - y[mine]) * np.float32(2.0 / len(y))
            of_v += error @ hidden
            of_W[a] += (np.outer(error, self.v) * (hidden > 0.0)).T @ X[mine]
        return of_W, of_v

    def _descend(self, of_W: Matrix, of_v: Vector) -> None:
        """A step of Adam."""
        self._step += 1
        rate = self.rate * math.sqrt(1.0 - 0.999**self._step) / (1.0 - 0.9**self._step)
        for weights, slope, mean, square in (
            (self.W, of_W, *self._moments[:2]),
            (self.v, of_v, *self._moments[2:]),
        ):
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope * slope - square)
            weights -= np.float32(rate) * mean / (np.sqrt(square) + 1e-8)


WRITTEN: dict[str, type[Peer]] = {
    "linucb": LinUCB,
    "linucb-hybrid": LinUCBHybrid,
    "ek-ucb": EKUCB,
    "neural-ucb": NeuralUCB,
}
