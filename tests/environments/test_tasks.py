"""Given tasks, clicks, and environments made harder."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.environments import Clicks, Tasks, check_environment

SMALL = Tasks(n_tasks=3, n_candidates=12, horizon=30)


@pytest.mark.parametrize(
    "environment",
    [
        SMALL,
        SMALL.replace(on_offer=5, descriptor_size=2, drift=1.0, start=False),
        Clicks(n_arms=4, horizon=30, drift=0.5),
        Clicks(n_arms=4, horizon=30, length_scale=1.5),
    ],
    ids=lambda e: e.name,
)
def test_environments_keep_the_contract(environment: object) -> None:
    check_environment(environment)


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.0])
def test_functions_of_two_tasks_correlate_by_mu_over_seeds(mu: float) -> None:
    """The correlation of f_a(x) and f_b(x) over draws is mu, and their variance 1 whatever mu is."""
    pairs = []
    for seed in range(200):
        X, functions = Tasks(seed=seed, mu=mu, n_tasks=2, n_candidates=4)._drawn()
        pairs.append(functions.features(X[0]) @ functions.weights.T)
    values = np.concatenate(pairs)  # (800, 2)
    covariance = values.T @ values / len(values)
    assert covariance.diagonal() == pytest.approx([1.0, 1.0], abs=0.2)
    assert covariance[0, 1] == pytest.approx(mu, abs=0.2)


def test_drift_turns_functions_away_from_where_they_began() -> None:
    _, functions = SMALL.replace(drift=1.0)._drawn()
    start, end = functions.weights_at(0.0), functions.weights_at(1.0)
    assert np.allclose(start, functions.weights)
    assert np.allclose(end, functions.turned)
    assert abs(np.corrcoef(start.ravel(), end.ravel())[0, 1]) < 0.2


@pytest.mark.parametrize("rate", [0.03, 0.13, 0.5])
def test_click_rates_are_as_asked(rate: float) -> None:
    means = [np.mean([r.means for r in Clicks(seed=s, click_rate=rate, horizon=200).rounds()]) for s in range(20)]
    assert np.mean(means) == pytest.approx(rate, rel=0.1)


def test_a_late_reward_is_learned_after_its_delay() -> None:
    seen = []

    class Watched(kb.KMTLUCB):
        def choose(self, *args, **kwargs):
            seen.append(self.n_observations)
            return super().choose(*args, **kwargs)

    class TwoLate(Tasks):
        def rounds(self):
            for round in super().rounds():
                yield dataclasses.replace(round, delay=2)

    environment = TwoLate(n_tasks=2, n_candidates=5, start=False, horizon=6)
    trace = kb.simulate(Watched(environment.arms), environment)
    assert seen == [0, 0, 0, 1, 2, 3]
    assert len(trace) == 6


def test_descriptors_say_which_tasks_are_alike() -> None:
    environment = Tasks(mu=1.0, descriptor_size=1, n_tasks=5)
    z, K = environment.descriptors, environment.similarity_matrix
    nearest = np.abs(z - z.T) + 10.0 * np.eye(5)
    assert np.array_equal(nearest.argmin(axis=1), (K - 10.0 * np.eye(5)).argmax(axis=1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tasks(mu=1.5), "mu must be between 0"),
        (lambda: Tasks(on_offer=500), "on_offer is 500, but a task has 400"),
        (lambda: Clicks(click_rate=0.0), "click_rate must be between 0 and 1"),
        (lambda: Clicks(length_scale=-1.0), "length_scale must be greater than 0"),
        (lambda: kb.environments.make_environment("tasks", nonsense=1), "no option 'nonsense'"),
    ],
)
def test_bad_options_are_refused(make, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()
