"""Names that people guess, and shapes: right at once, or an error that says what to write."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits._renamed import GUESSED, METHODS
from kinbandits.environments import make_environment
from kinbandits.experiments.config import experiment_of


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: kb.KMTLUCB(3, alpha=0.1), "no argument alpha=; write exploration="),
        (lambda: kb.baselines.LinUCB(3, alpha=0.1), "no argument alpha=; write exploration="),
        (lambda: kb.KMTLUCB(3, rigde=0.1), "no argument rigde=; did you mean 'ridge'"),
        (lambda: kb.baselines.UCB1(3, sede=0.1), "no argument sede=; did you mean 'seed'"),
        (lambda: kb.KMTLUCB(3, xyzzy=0.1), "no argument xyzzy="),
        (lambda: kb.LinTS, r"kb.baselines.LinUCB\(arms, exploration=kb.Thompson\(\)\)"),
        (lambda: kb.Indepedent, "did you mean 'Independent'"),
        (lambda: kb.KMTLUCB(3).partial_fit, r"write observe\(arms, contexts, rewards\)"),
        (lambda: kb.KMTLUCB(3).update_many, r"write update\(decision, reward\) for each"),
        (lambda: kb.KMTLUCB(3).choos, "did you mean 'choose'"),
        (lambda: make_environment("shpo"), "did you mean 'shop'"),
        (lambda: make_environment("shop", sed=1), "did you mean 'seed'"),
        (lambda: experiment_of({"sedes": 1}), "did you mean 'seeds'"),
        (
            lambda: experiment_of({"environments": [{"kind": "shop"}], "methods": [{"name": "m", "rigde": 1.0}]}),
            "did you mean 'ridge'",
        ),
    ],
)
def test_a_guess_is_answered(call, match):
    with pytest.raises((TypeError, ValueError, AttributeError), match=match):
        call()


def test_what_is_advised_exists():
    for advice in METHODS.values():
        for method in advice.replace(" or ", ",").split(","):
            name = method.strip().partition("(")[0]
            if "(" in method and name.isidentifier():
                assert hasattr(kb.KMTLUCB, name), advice
    kb.baselines.LinUCB(3, exploration=kb.Thompson())
    assert not set(GUESSED) & set(kb.KMTLUCB(3).get_params())


def test_rows_are_rounds():
    rng = np.random.default_rng(0)
    policy = kb.KMTLUCB(3, epsilon=0.1, tie_break="first", ridge=0.1)
    policy.observe([0, 1, 2], rng.random((3, 2)), [0.0, 1.0, 0.5])
    X = rng.random((3, 2))  # as many rounds as arms
    mean = np.array([policy.predict(x).mean for x in X])
    np.testing.assert_allclose(policy.predict(X).mean, mean)
    np.testing.assert_allclose(policy.means(X), mean)
    np.testing.assert_allclose(policy.probabilities(X), policy.probabilities(X[:, None]))
    assert len(policy.choose_many(X)) == len(policy.propose(X, uniform=rng.random((3, 2)))) == 3
    own = rng.random((1, 3, 2))  # a context for each candidate
    np.testing.assert_allclose(policy.predict(own).mean[0], [policy.predict(own[0, a]).mean[a] for a in range(3)])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda p: p.choose(np.zeros((9, 2))), r"a round of its own: choose_many\(contexts\)"),
        (lambda p: p.choose(np.zeros((9, 1, 2))), r"For many rounds: choose_many\(contexts\)"),
        (lambda p: p.choose_many(np.zeros((9, 4, 2))), r"round of its own: contexts.reshape\(-1, 2\)"),
        (lambda p: p.choose(0.3), r"a single number x is \[x\]"),
        (lambda p: p.observe([0, 1], [0.1, 0.2], [1.0, 0.0]), r"one feature: contexts.reshape\(-1, 1\)"),
    ],
)
def test_a_refused_shape_says_the_reshape(call, match):
    with pytest.raises(ValueError, match=match):
        call(kb.KMTLUCB(3))
