"""Hybrid Lin-UCB against Algorithm 2 of Li, Chu, Langford and Schapire (2010), written for this test alone."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb


class Algorithm2:
    """Its block formulas, line by line: z are shared features, x those of the arm."""

    def __init__(self, n_arms: int, k: int, d: int, alpha: float) -> None:
        self.alpha = alpha
        self.A0, self.b0 = np.eye(k), np.zeros(k)  # lines 1, 2
        self.A = [np.eye(d) for _ in range(n_arms)]  # lines 8 to 10, for all arms at once
        self.B = [np.zeros((d, k)) for _ in range(n_arms)]
        self.b = [np.zeros(d) for _ in range(n_arms)]

    def scores(self, z: np.ndarray, x: np.ndarray) -> np.ndarray:
        A0_inv = np.linalg.inv(self.A0)
        beta = A0_inv @ self.b0  # line 5
        p = []
        for a, (A, B, b) in enumerate(zip(self.A, self.B, self.b, strict=True)):
            A_inv = np.linalg.inv(A)
            theta = A_inv @ (b - B @ beta)  # line 12
            za, xa = z[a], x[a]
            s = (  # line 13
                za @ A0_inv @ za
                - 2.0 * za @ A0_inv @ B.T @ A_inv @ xa
                + xa @ A_inv @ xa
                + xa @ A_inv @ B @ A0_inv @ B.T @ A_inv @ xa
            )
            p.append(za @ beta + xa @ theta + self.alpha * np.sqrt(s))  # line 14
        return np.array(p)

    def learn(self, a: int, z: np.ndarray, x: np.ndarray, r: float) -> None:
        A_inv = np.linalg.inv(self.A[a])
        self.A0 += self.B[a].T @ A_inv @ self.B[a]  # line 17
        self.b0 += self.B[a].T @ A_inv @ self.b[a]
        self.A[a] += np.outer(x, x)  # lines 19 to 21
        self.B[a] += np.outer(x, z)
        self.b[a] += r * x
        A_inv = np.linalg.inv(self.A[a])
        self.A0 += np.outer(z, z) - self.B[a].T @ A_inv @ self.B[a]  # lines 22, 23
        self.b0 += r * z - self.B[a].T @ A_inv @ self.b[a]


@pytest.mark.parametrize("engine", ["auto", "naive", "exact"])
@pytest.mark.parametrize("shared", [[0, 1], [0, 1, 2, 3, 4]], ids=["apart", "overlapping"])
def test_hybrid_plays_the_game_of_algorithm_2(engine: str, shared: list[int]) -> None:
    N, own, alpha, T = 4, [2, 3, 4], 0.7, 60 if engine == "naive" else 150
    policy = kb.baselines.lin_ucb(
        N,
        sharing="hybrid",
        shared_columns=shared,
        arm_columns=own,
        exploration=alpha,
        cold_start="borrow",
        tie_break="first",
        engine=engine,
    )
    other = Algorithm2(N, len(shared), len(own), alpha)
    rng = np.random.default_rng(7)
    beta, theta = rng.standard_normal(len(shared)), rng.standard_normal((N, len(own)))
    for _ in range(T):
        contexts = rng.standard_normal((N, 5))
        z, x = contexts[:, shared], contexts[:, own]
        wanted = other.scores(z, x)
        decision = policy.choose(contexts)
        np.testing.assert_allclose(decision.scores, wanted, rtol=1e-8, atol=1e-8)
        a = int(wanted.argmax())
        assert decision.arm == a
        reward = float(z[a] @ beta + x[a] @ theta[a] + 0.1 * rng.standard_normal())
        policy.update(decision, reward)
        other.learn(a, z[a], x[a], reward)
