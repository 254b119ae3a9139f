"""Neural rivals against autograd and against Bayesian regression written out; skipped without PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def test_deviations_are_those_of_the_gradient() -> None:
    """sigma^2 = lambda sum(g^2 / U) with g from autograd and U = lambda + sum of g^2 over the rows played."""
    from compare.neural import NeuralUCB

    peer, rng = NeuralUCB(range(3), width=8, ridge=0.3, steps=2), np.random.default_rng(0)
    U = None
    for _ in range(6):
        arm, x = int(rng.integers(3)), rng.normal(size=4)
        if peer.W is None:
            peer._start(5)
            U = [torch.full_like(p, 0.3) for p in (peer.W, peer.v)]
        g = gradient(peer, arm, peer.features(x))
        U = [u + d**2 for u, d in zip(U, g, strict=True)]
        peer.observe([arm], [x], [float(rng.random())])
    z = peer.features(rng.normal(size=4))
    f, sigma, _ = peer.scores(torch.as_tensor(z, dtype=torch.float32))
    for arm in range(3):
        g = gradient(peer, arm, z)
        wanted = sum(float((d**2 / u).sum()) for d, u in zip(g, U, strict=True))
        assert float(sigma[arm]) ** 2 == pytest.approx(0.3 * wanted, rel=1e-4)
    assert f.shape == (3,)


def gradient(peer, arm: int, z):
    W, v = (p.detach().clone().requires_grad_() for p in (peer.W, peer.v))
    f = torch.relu(W[arm] @ torch.as_tensor(z, dtype=torch.float32)) @ v
    return torch.autograd.grad(f, (W, v))


def test_the_gradient_is_that_of_autograd() -> None:
    """Of mean((f - y)^2) over rows of which one arm has none."""
    from compare.neural import NeuralUCB

    peer, rng = NeuralUCB(range(4), width=6), np.random.default_rng(0)
    peer._start(5)
    arms, X, y = torch.tensor([2, 0, 2, 3, 0]), torch.randn(5, 5), torch.as_tensor(rng.random(5)).float()
    W, v = (p.detach().clone().requires_grad_() for p in (peer.W, peer.v))
    loss = ((torch.stack([torch.relu(W[a] @ x) @ v for a, x in zip(arms, X, strict=True)]) - y) ** 2).mean()
    peer.set_gradient(arms, X, y)
    for wanted, p in zip(torch.autograd.grad(loss, (W, v)), (peer.W, peer.v), strict=True):
        assert torch.allclose(p.grad, wanted, rtol=1e-5, atol=1e-7)


def test_the_network_is_nothing_at_first() -> None:
    from compare.neural import NeuralUCB

    peer = NeuralUCB(range(3))
    peer._start(5)
    assert peer.scores(torch.ones(5))[0].abs().max() < 1e-5


def test_neural_linear_is_bayesian_regression_on_its_last_layer() -> None:
    from compare.neural import NeuralLinear

    peer, rng = NeuralLinear(range(2), width=4, every=10, steps=5), np.random.default_rng(1)
    X, y = rng.normal(size=(17, 3)), rng.normal(size=17)
    arms = rng.integers(2, size=17)
    peer.observe(arms.tolist(), X, y)
    Z = np.array([peer.features(x) for x in X])
    phi = peer._phi(torch.as_tensor(Z, dtype=torch.float32))
    for arm in range(2):
        P, r = phi[arms == arm], y[arms == arm]
        precision = P.T @ P + 0.25 * np.eye(4)
        mean = np.linalg.inv(precision) @ P.T @ r
        found = peer.posterior(arm)
        np.testing.assert_allclose(found[0], mean, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(found[1], precision, rtol=1e-4)
        assert found[2] == 6.0 + len(r) / 2
        assert found[3] == pytest.approx(6.0 + 0.5 * (r @ r - mean @ precision @ mean), rel=1e-4)


@pytest.mark.parametrize("policy", ["NeuralUCB", "NeuralTS", "NeuralLinear"])
def test_they_learn_digits(policy: str) -> None:
    from compare import neural

    e = kb.environments.Classification("digits", protocol="paper", horizon=150)
    knobs = {"b0": 0.1} if policy == "NeuralLinear" else {}
    peer = getattr(neural, policy).for_environment(e, seed=0, **knobs)
    assert kb.simulate(peer, e).final_regret < 130  # chance: 135
