"""Every complaint of `check_environment` can be raised, and a good environment raises none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kinbandits.environments import Round, check_environment
from kinbandits.errors import ContractError


class Good:
    """The least that an environment can be."""

    name = "good"
    horizon = 5

    def __init__(self) -> None:
        self.arms = ["a", "b"]

    def start_rows(self):
        return ["a"], np.zeros((1, 3)), np.zeros(1)

    def rounds(self):
        rng = np.random.default_rng(0)
        for _ in range(self.horizon):
            yield self.round(rng)

    def round(self, rng):
        return Round(rng.random(3), rng.random(2), np.array([0.5, 0.5]))


def test_the_good_one_passes():
    check_environment(Good())
    check_environment(Good(), rounds=2)


class NoName(Good):
    name = ""


class ArmsTuple(Good):
    def __init__(self):
        self.arms = ("a", "b")


class NoArms(Good):
    def __init__(self):
        self.arms = []


class FloatArm(Good):
    def __init__(self):
        self.arms = ["a", 1.5]


class TwinArms(Good):
    def __init__(self):
        self.arms = ["a", "a"]


class NoHorizon(Good):
    horizon = 0


class Short(Good):
    def rounds(self):
        return itertools.islice(super().rounds(), 4)


class Long(Good):
    def rounds(self):
        return itertools.chain(super().rounds(), super().rounds())


class Tuples(Good):
    def round(self, rng):
        return rng.random(3), rng.random(2)


class WrongContext(Good):
    def round(self, rng):
        return Round(rng.random((3, 3)), rng.random(2))


class NanContext(Good):
    def round(self, rng):
        return Round(np.full(3, np.nan), rng.random(2))


class GrowingContext(Good):
    def rounds(self):
        for t in range(self.horizon):
            yield Round(np.zeros(3 + t), np.zeros(2))


class WrongRewards(Good):
    def round(self, rng):
        return Round(rng.random(3), rng.random(3))


class InfiniteRewards(Good):
    def round(self, rng):
        return Round(rng.random(3), np.array([0.0, np.inf]))


class NoRewards(Good):
    def round(self, rng):
        return Round(rng.random(3), np.full(2, np.nan))


class WrongMeans(Good):
    def round(self, rng):
        return Round(rng.random(3), rng.random(2), np.array([np.nan, 0.0]))


class Unseeded(Good):
    def rounds(self):
        rng = np.random.default_rng()
        for _ in range(self.horizon):
            yield self.round(rng)


class MeansOnce(Good):
    calls = 0

    def rounds(self):
        self.calls += 1
        for _ in range(self.horizon):
            yield Round(np.zeros(3), np.zeros(2), np.zeros(2) if self.calls == 1 else None)


class UsedUp(Good):
    def __init__(self):
        super().__init__()
        self._iterator = super().rounds()

    def rounds(self):
        return self._iterator


class UnevenStart(Good):
    def start_rows(self):
        return ["a"], np.zeros((1, 3)), np.zeros(2)


class UnknownStart(Good):
    def start_rows(self):
        return ["z"], np.zeros((1, 3)), np.zeros(1)


class NarrowStart(Good):
    def start_rows(self):
        return ["a"], np.zeros((1, 2)), np.zeros(1)


class NanStart(Good):
    def start_rows(self):
        return ["a"], np.zeros((1, 3)), np.array([np.nan])


class UnseededStart(Good):
    def start_rows(self):
        return ["a"], np.random.default_rng().random((1, 3)), np.zeros(1)


class Descriptors(Good):
    descriptors = np.zeros((3, 1))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NoName, "name must be a text"),
        (ArmsTuple, "arms must be a list"),
        (NoArms, "arms must be a list of at least one"),
        (FloatArm, "an arm name must be"),
        (TwinArms, "same name"),
        (NoHorizon, "horizon must be"),
        (Short, "rounds\\(\\) ends after 4"),
        (Long, "goes on after that"),
        (Tuples, "is a tuple, not a Round"),
        (WrongContext, r"must be \(d,\) or \(2, d\)"),
        (NanContext, "context holds NaN"),
        (GrowingContext, "round 1: context has 4 features"),
        (WrongRewards, r"rewards has shape \(3,\)"),
        (InfiniteRewards, "must be finite"),
        (NoRewards, "must be finite, or NaN"),
        (WrongMeans, "means must be"),
        (Unseeded, "round 0 differs"),
        (MeansOnce, "round 0 differs"),
        (UsedUp, "shorter when it is called again"),
        (UnevenStart, "as many contexts and rewards"),
        (UnknownStart, "an arm 'z'"),
        (NarrowStart, r"must be \(1, 3\)"),
        (NanStart, "start_rows\\(\\) holds NaN"),
        (UnseededStart, "start_rows\\(\\) differs"),
        (Descriptors, "descriptors must have one row per arm"),
    ],
)
def test_each_complaint(kind, message):
    with pytest.raises(ContractError, match=message):
        check_environment(kind())


def test_something_else_entirely():
    with pytest.raises(ContractError, match="it has no name, arms, horizon, start_rows, rounds"):
        check_environment(object())
