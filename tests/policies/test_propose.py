"""Choosing for a caller who keeps the open decisions and the random numbers."""

import numpy as np
import pytest

import kinbandits as kb


def taught(**settings: object) -> kb.KMTLUCB:
    rng = np.random.default_rng(3)
    policy = kb.KMTLUCB(arms=4, context_kernel=kb.RBF(1.0), **settings)
    policy.observe(rng.integers(0, 4, 30), rng.normal(size=(30, 2)), rng.normal(size=30))
    return policy


def test_the_same_draws_give_the_choices_of_choose() -> None:
    policy = taught(epsilon=0.3, seed=9)
    contexts = np.random.default_rng(0).normal(size=(50, 1, 2))
    draws = np.random.default_rng(9).random((50, 2))
    proposed = policy.propose(contexts, uniform=draws)
    chosen = policy.copy().choose_many(contexts)
    assert proposed.arm == chosen.arm
    np.testing.assert_array_equal(proposed.propensity, chosen.propensity)
    np.testing.assert_array_equal(proposed.scores, chosen.scores)


def test_it_only_reads() -> None:
    policy = taught(epsilon=0.3)
    state = policy.rng.bit_generator.state
    policy.propose([[[0.0, 0.0]]], uniform=[[0.5, 0.5]], first_round=7)
    policy.probabilities([[[0.0, 0.0]]])
    assert policy.pending() == []
    assert policy.n_decisions == 0
    assert policy.rng.bit_generator.state == state


@pytest.mark.parametrize("uniform", [[[0.5]], [[0.5, 1.0]], [[-0.1, 0.5]], [[0.5, 0.5], [0.1, 0.1]]])
def test_bad_draws_are_refused(uniform: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="uniform must be"):
        taught().propose([[[0.0, 0.0]]], uniform=uniform)


def test_a_schedule_sees_the_round() -> None:
    policy = kb.KMTLUCB(arms=2, exploration=lambda t: 1.0 / t, context_kernel=kb.RBF(1.0))
    (decision,) = policy.propose([[[0.0]]], uniform=[[0.5, 0.5]], first_round=9)
    assert decision.exploration == pytest.approx(0.1)


@pytest.mark.parametrize("tie_break", ["first", "random"])
def test_probabilities_are_those_of_the_draw(tie_break: str) -> None:
    policy = kb.KMTLUCB(arms=3, epsilon=0.3, tie_break=tie_break, context_kernel=kb.RBF(1.0))
    policy.observe([0], [[0.0]], [-50.0])  # arms 1 and 2 tie
    probabilities = policy.probabilities([[[0.0]]])[0]
    expected = [0.1, 0.8, 0.1] if tie_break == "first" else [0.1, 0.45, 0.45]
    np.testing.assert_allclose(probabilities, expected)
    draws = np.random.default_rng(0).random((20_000, 2))
    chosen = policy.propose(np.zeros((20_000, 1, 1)), uniform=draws)
    np.testing.assert_allclose(np.bincount(chosen.arm, minlength=3) / 20_000, expected, atol=0.015)
    np.testing.assert_allclose(chosen.propensity, probabilities[chosen.index])
