"""Neural bandits, written from their papers, in PyTorch on one thread (``pip install 'kinbandits[neural]'``).

    NeuralUCB     Zhou, Li, Gu (2020): upper bounds from the gradient of the network
    NeuralTS      Zhang, Zhou, Li, Gu (2021): draws with the same deviation
    NeuralLinear  Riquelme, Tucker, Snoek (2018): Bayesian regression on the last layer, Thompson's rule

Notation (N arms, d features x, m hidden units)
    W   (N, m, d)  first layer: an arm sees the context in a block of its own, so that each has its weights
    v   (m,)       second layer, shared: f_a(x) = v' relu(W_a x)
    g_a (m d + m)  gradient of f_a at x: outer(v * [W_a x > 0], x) and relu(W_a x); 0 for weights of other arms
    U              diagonal of lambda I + sum g g' over the rows played (the approximation of their programs)
    sigma^2        lambda * sum(g^2 / U)

As in the papers, units come in pairs with opposite v, so that f is 0 at first. Theirs train with up to 1,000 steps
after every row; here it is ``steps`` steps of Adam on 64 rows each, from where the network stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compare.peers import Peer
from kinbandits._types import Vector

__all__ = ["NeuralLinear", "NeuralTS", "NeuralUCB"]

_BATCH = 64
torch.set_num_threads(1)


class _Rows:
    """Rows learned, in arrays that grow by doubling."""

    def __init__(self, d: int) -> None:
        self.n, self._x = 0, torch.zeros(64, d)
        self._arms, self._y = torch.zeros(64, dtype=torch.long), torch.zeros(64)

    def add(self, arm: int, x: Tensor, y: float) -> None:
        if self.n == len(self._y):
            self._x, self._arms, self._y = (torch.cat([a, torch.zeros_like(a)]) for a in (self._x, self._arms, self._y))
        self._x[self.n], self._arms[self.n], self._y[self.n] = x, arm, y
        self.n += 1

    @property
    def all(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._arms[: self.n], self._x[: self.n], self._y[: self.n]

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        i = torch.randint(self.n, (min(_BATCH, self.n),), generator=generator)
        return self._arms[i], self._x[i], self._y[i]


class NeuralUCB(Peer):
    """Play the largest f + nu sigma.

    Args:
        width: m; 100 in the papers' experiments with data sets.
        ridge: lambda.
        nu: the papers choose it from a grid, as we do.
        rate, steps: of Adam.
    """

    def __init__(
        self,
        arms: Sequence[Any],
        *,
        nu: float = 0.1,
        ridge: float = 0.1,
        width: int = 100,
        rate: float = 1e-3,
        steps: int = 10,
        **others: Any,
    ) -> None:
        super().__init__(arms, **others)
        self.nu, self.ridge, self.width, self.rate, self.steps = nu, ridge, width, rate, steps
        self._generator = torch.Generator().manual_seed(self.seed)
        self.W: Tensor | None = None

    def _start(self, d: int) -> None:
        half = (self.width + 1) // 2
        first = torch.randn(len(self.arms), half, d, generator=self._generator) * math.sqrt(2.0 / d)
        second = torch.randn(half, generator=self._generator) / math.sqrt(half)
        self.W = torch.cat([first, first], dim=1).requires_grad_()
        self.v = torch.cat([second, -second]).requires_grad_()
        self.U_W, self.U_v = torch.full_like(self.W, self.ridge), torch.full_like(self.v, self.ridge)
        self.W.grad, self.v.grad = torch.zeros_like(self.W), torch.zeros_like(self.v)
        self._optimiser = torch.optim.Adam([self.W, self.v], lr=self.rate, fused=True)
        self._rows = _Rows(d)

    @torch.no_grad()
    def scores(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """f and sigma of every arm, and the hidden layers."""
        assert self.W is not None
        hidden = torch.relu(self.W @ x)
        first = ((self.v * (hidden > 0)) ** 2 * ((1.0 / self.U_W) @ x**2)).sum(dim=1)
        sigma = torch.sqrt(self.ridge * (first + (hidden**2 / self.U_v).sum(dim=1)))
        return hidden @ self.v, sigma, hidden

    def _choose(self, z: Vector) -> tuple[Any, float]:
        if self.W is None:
            self._start(len(z))
        f, sigma, _ = self.scores(torch.as_tensor(z, dtype=torch.float32))
        return self.arms[int(self._pick(f, self.nu * sigma))], 1.0

    def _pick(self, f: Tensor, deviation: Tensor) -> Tensor:
        return torch.argmax(f + deviation)

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        if self.W is None:
            self._start(len(z))
        assert self.W is not None
        a, x = self.arms.index(arm), torch.as_tensor(z, dtype=torch.float32)
        with torch.no_grad():
            hidden = torch.relu(self.W[a] @ x)
            self.U_W[a] += torch.outer(self.v * (hidden > 0), x) ** 2
            self.U_v += hidden**2
        self._rows.add(a, x, reward)
        for _ in range(self.steps):
            self.set_gradient(*self._rows.batch(self._generator))
            self._optimiser.param_groups[0]["weight_decay"] = 0.02 * self.ridge / self._rows.n
            self._optimiser.step()

    @torch.no_grad()
    def set_gradient(self, arms: Tensor, X: Tensor, y: Tensor) -> None:
        """Of mean((f - y)^2), arm by arm: each row meets the weights of its arm only. Penalties are Adam's."""
        assert self.W is not None
        order, counts = torch.argsort(arms), torch.bincount(arms, minlength=len(self.arms)).tolist()
        rows = X[order].split(counts)
        hidden = torch.relu(torch.cat([x @ w.T for x, w in zip(rows, self.W, strict=True)]))
        error = (hidden @ self.v - y[order]) * (2.0 / len(y))
        torch.mv(hidden.T, error, out=self.v.grad)
        slopes = (torch.outer(error, self.v) * (hidden > 0)).split(counts)
        for x, slope, gradient in zip(rows, slopes, self.W.grad, strict=True):
            torch.mm(slope.T, x, out=gradient)

    def _add_arm(self, arm: Any) -> None:
        raise NotImplementedError("the network has a block of weights for each arm, made at the start")


class NeuralTS(NeuralUCB):
    """Play the largest draw from N(f, nu^2 sigma^2)."""

    def _pick(self, f: Tensor, deviation: Tensor) -> Tensor:
        return torch.argmax(f + deviation * torch.randn(len(f), generator=self._generator))


class NeuralLinear(Peer):
    """A network of two hidden layers with one output an arm; Bayesian linear regression on its last layer.

    Rewards of an arm are normal with unknown weights and variance, the prior inverse gamma (6, 6) with precision
    0.25: the settings of the paper's benchmark. The network is trained every ``every`` rows, and all rows are then
    seen anew.
    """

    def __init__(
        self,
        arms: Sequence[Any],
        *,
        width: int = 50,
        prior: float = 0.25,
        a0: float = 6.0,
        b0: float = 6.0,
        rate: float = 1e-3,
        every: int = 50,
        steps: int = 500,
        **others: Any,
    ) -> None:
        super().__init__(arms, **others)
        self.width, self.prior, self.a0, self.b0 = width, prior, a0, b0
        self.rate, self.every, self.steps = rate, every, steps
        self._generator = torch.Generator().manual_seed(self.seed)
        self.rng = np.random.default_rng(self.seed)
        self._net: Any = None

    def _start(self, d: int) -> None:
        torch.manual_seed(self.seed)
        m = self.width
        layers = [torch.nn.Linear(d, m), torch.nn.ReLU(), torch.nn.Linear(m, m), torch.nn.ReLU()]
        self._net, self._head = torch.nn.Sequential(*layers), torch.nn.Linear(m, len(self.arms))
        parameters = [*self._net.parameters(), *self._head.parameters()]
        self._optimiser = torch.optim.Adam(parameters, lr=self.rate, fused=True)
        self._rows = _Rows(d)
        self._forget()

    def _forget(self) -> None:
        m, N = self.width, len(self.arms)
        self.precision = np.tile(self.prior * np.eye(m), (N, 1, 1))
        self.moment, self.squares, self.rows_of = np.zeros((N, m)), np.zeros(N), np.zeros(N)

    def _add(self, arm: int, phi: Vector, y: float) -> None:
        self.precision[arm] += np.outer(phi, phi)
        self.moment[arm] += y * phi
        self.squares[arm] += y**2
        self.rows_of[arm] += 1

    @torch.no_grad()
    def _phi(self, X: Tensor) -> Any:
        return self._net(X).numpy().astype(np.float64)

    def posterior(self, arm: int) -> tuple[Vector, Any, float, float]:
        """Mean and precision of the weights, and a and b of the inverse gamma of the noise."""
        P, q = self.precision[arm], self.moment[arm]
        mean = np.linalg.solve(P, q)
        return mean, P, self.a0 + self.rows_of[arm] / 2.0, self.b0 + (self.squares[arm] - mean @ q) / 2.0

    def _choose(self, z: Vector) -> tuple[Any, float]:
        if self._net is None:
            self._start(len(z))
        phi = self._phi(torch.as_tensor(z, dtype=torch.float32)[None])[0]
        draws = []
        for a in range(len(self.arms)):
            mean, P, shape, b = self.posterior(a)
            noise = b / self.rng.gamma(shape)
            # the weights' draw along phi is normal with variance noise * phi' P^-1 phi
            draws.append(phi @ mean + math.sqrt(noise * (phi @ np.linalg.solve(P, phi))) * self.rng.standard_normal())
        return self.arms[int(np.argmax(draws))], 1.0

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        if self._net is None:
            self._start(len(z))
        a, x = self.arms.index(arm), torch.as_tensor(z, dtype=torch.float32)
        self._rows.add(a, x, reward)
        if self._rows.n % self.every:
            self._add(a, self._phi(x[None])[0], reward)
            return
        for _ in range(self.steps):
            arms, X, y = self._rows.batch(self._generator)
            loss = ((self._head(self._net(X)).gather(1, arms[:, None])[:, 0] - y) ** 2).mean()
            self._optimiser.zero_grad()
            loss.backward()
            self._optimiser.step()
        self._forget()
        arms, X, y = self._rows.all
        for row in zip(arms.tolist(), self._phi(X), y.tolist(), strict=True):
            self._add(*row)

    def _add_arm(self, arm: Any) -> None:
        raise NotImplementedError("the network has an output for each arm, made at the start")
