"""Users and items: the environment keeps the contract, and its rounds pay as planted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.environments import Round, Users, check_environment, make_environment
from kinbandits.errors import ContractError, InvalidInputError


def test_contract_and_payments() -> None:
    environment = Users(seed=3, n_users=6, n_clusters=3, on_offer=4, noise=0.0, horizon=60)
    check_environment(environment)
    assert make_environment("users", n_users=6).arms == list(range(6))
    for round in environment.rounds():
        assert round.candidates is not None
        (user,) = set(round.candidates)
        np.testing.assert_allclose(round.rewards, round.context @ environment.theta[user % 3])
        assert (round.context[:, None] == environment.items[None]).all(axis=2).any(axis=1).all()
    np.testing.assert_allclose(np.linalg.norm(environment.items, axis=1), 1.0)


def test_graph() -> None:
    clean = Users(n_users=6, n_clusters=2).graph
    np.testing.assert_array_equal(clean, np.tile(np.eye(2), (3, 3)) - np.eye(6))
    noisy = Users(n_users=40, graph_noise=0.2).graph
    np.testing.assert_array_equal(noisy, noisy.T)
    wrong = (noisy != Users(n_users=40).graph).sum() / (40 * 39)
    assert 0.12 < wrong < 0.28
    assert not noisy.diagonal().any()


def test_the_trace_names_the_user_and_counts_regret_among_the_candidates() -> None:
    environment = Users(n_users=3, n_clusters=1, on_offer=2, noise=0.0, horizon=20)
    trace = kb.simulate(kb.baselines.LinUCB(environment.arms, sharing="pooled"), environment)
    users = [round.candidates[0] for round in environment.rounds() if round.candidates]
    assert trace["arm_index"].tolist() == users
    best = [round.rewards.max() for round in environment.rounds()]
    np.testing.assert_allclose(trace["best_reward"], best)


class Wrong(Users):
    """Rounds with one thing wrong."""

    def rounds(self) -> Iterator[Round]:
        for round in super().rounds():
            yield Round(round.context, round.rewards, round.means, self.candidates)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("candidates", "text"), [([], "at least one arm"), (["nobody"] * 10, "not in arms"), ([0] * 9, "must be")]
)
def test_check_sees_wrong_candidates(candidates: list[object], text: str) -> None:
    environment = Wrong(horizon=3)
    object.__setattr__(environment, "candidates", candidates)
    with pytest.raises(ContractError, match=text):
        check_environment(environment)


def test_bad_options() -> None:
    with pytest.raises(InvalidInputError, match="on_offer is 50"):
        Users(on_offer=50)
    with pytest.raises(InvalidInputError, match="graph_noise must be between"):
        Users(graph_noise=2.0)
