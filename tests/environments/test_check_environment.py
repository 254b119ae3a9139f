"""Every complaint of `check_environment` can be raised, and a good environment raises none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kinbandits.environments import Round, check_environment
from kinbandits.errors import ContractError


class Good:
    """The least that an environment can be."""

    name, horizon, calls = "good", 5, 0

    def __init__(self, **changes) -> None:
        self.arms = ["a", "b"]
        self.start = lambda: (["a"], np.zeros((1, 3)), np.zeros(1))
        self.round = lambda t, rng: Round(rng.random(3), rng.random(2), np.array([0.5, 0.5]))
        vars(self).update(changes)

    def start_rows(self):
        return self.start()

    def rounds(self):
        self.calls += 1
        rng = np.random.default_rng(0)
        for t in range(self.horizon):
            yield self.round(t, rng)


class Short(Good):
    def rounds(self):
        return itertools.islice(super().rounds(), 4)


class Long(Good):
    def rounds(self):
        return itertools.chain(super().rounds(), super().rounds())


class UsedUp(Good):
    def __init__(self):
        super().__init__()
        self._iterator = super().rounds()

    def rounds(self):
        return self._iterator


class MeansOnce(Good):
    def rounds(self):
        self.calls += 1
        for _ in range(self.horizon):
            yield Round(np.zeros(3), np.zeros(2), np.zeros(2) if self.calls == 1 else None)


def round_of(context=(3,), rewards=(2,), **more):
    """Rounds with a context and rewards of these shapes, or these arrays."""

    def make(t, rng):
        x, r = (rng.random(v) if isinstance(v, tuple) else np.array(v) for v in (context, rewards))
        return Round(x, r, **more)

    return Good(round=make)


def start(arms=("a",), contexts=(1, 3), rewards=(1,)):
    return Good(start=lambda: (list(arms), np.zeros(contexts), np.zeros(rewards)))


def test_the_good_one_passes():
    check_environment(Good())
    check_environment(Good(), rounds=2)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (Good(name=""), "name must be a text"),
        (Good(arms=("a", "b")), "arms must be a list"),
        (Good(arms=[]), "arms must be a list of at least one"),
        (Good(arms=["a", 1.5]), "an arm name must be"),
        (Good(arms=["a", "a"]), "same name"),
        (Good(horizon=0), "horizon must be"),
        (Good(descriptors=np.zeros((3, 1))), "descriptors must have one row per arm"),
        (Short(), r"rounds\(\) ends after 4"),
        (Long(), "goes on after that"),
        (Good(round=lambda t, rng: (rng.random(3), rng.random(2))), "is a tuple, not a Round"),
        (round_of(context=(3, 3)), r"must be \(d,\) or \(2, d\)"),
        (round_of(context=[np.nan] * 3), "context holds NaN"),
        (Good(round=lambda t, rng: Round(np.zeros(3 + t), np.zeros(2))), "round 1: context has 4 features"),
        (round_of(rewards=(3,)), r"rewards has shape \(3,\)"),
        (round_of(rewards=[0.0, np.inf]), "must be finite"),
        (round_of(rewards=[np.nan, np.nan]), "must be finite, or NaN"),
        (round_of(means=np.array([np.nan, 0.0])), "means must be"),
        (round_of(candidates=[]), "candidates must be a list of at least one arm"),
        (round_of(candidates=["a", "z"]), "candidates name an arm 'z'"),
        (Good(round=lambda t, rng: Round(np.random.default_rng().random(3), np.zeros(2))), "round 0 differs"),
        (MeansOnce(), "round 0 differs"),
        (start(rewards=(2,)), "as many contexts and rewards"),
        (start(arms=["z"]), "an arm 'z'"),
        (start(contexts=(1, 2)), r"must be \(1, 3\)"),
        (Good(start=lambda: (["a"], np.zeros((1, 3)), np.array([np.nan]))), r"start_rows\(\) holds NaN"),
        (Good(start=lambda: (["a"], np.random.default_rng().random((1, 3)), np.zeros(1))), r"start_rows\(\) differs"),
        (object(), "it has no name, arms, horizon, start_rows, rounds"),
    ],
)
def test_each_complaint(environment, message):
    with pytest.raises(ContractError, match=message):
        check_environment(environment)


def test_rounds_that_are_used_up():
    with pytest.raises(ContractError, match="shorter when it is called again"):
        check_environment(UsedUp())
