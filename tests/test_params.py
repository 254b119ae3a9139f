"""scikit-learn's conventions: get_params, set_params and clone on kernels, similarities, schedules and policies."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import kinbandits as kb
from kinbandits._value import Value

VALUES = [
    kb.RBF(2.0),
    kb.RBF((1.0, 2.0)) + 0.5 * kb.Matern(nu=0.5) * kb.Linear(),
    kb.Median(rows=7),
    kb.Mixed(0.5),
    kb.Known(np.eye(3)),
    kb.Known(kb.RBF(0.5), [[0.0], [1.0]]),
    kb.Graph([[0, 1], [1, 0]], normalise=True),
    kb.Estimated(0.3, kb.RBF(2.0)),
    kb.Adaptive(),
    kb.exploration.Decaying(),
    kb.Window(50),
    kb.Term(kb.Mixed(0.5), kb.RBF(), columns=[1, 0]),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_rebuilt_by_its_parameters(value: Value) -> None:
    flat = value.get_params(deep=False)
    assert set(flat) == {f.name for f in dataclasses.fields(value) if f.init}  # type: ignore[arg-type]
    assert type(value)(**flat) == value == clone(value)
    deep = value.get_params(deep=True)
    assert set(flat) <= set(deep)
    assert value.set_params(**flat) == value
    assert value.set_params() == value
    for name, inner in deep.items():  # every inner parameter can be set by its own name
        if name not in flat:
            assert value.set_params(**{name: inner}) == value


def test_inner_parameters_change_and_the_value_itself_does_not() -> None:
    value = kb.Estimated(0.3, kb.RBF(2.0) + kb.Linear())
    other = value.set_params(embedding_kernel__first__length_scale=5.0, length_scale=0.1)
    assert other == kb.Estimated(0.1, kb.RBF(5.0) + kb.Linear())
    assert value == kb.Estimated(0.3, kb.RBF(2.0) + kb.Linear())
    with pytest.raises(ValueError, match="Estimated has no setting 'sigma'; it has length_scale"):
        value.set_params(sigma=1.0)
    with pytest.raises(ValueError, match=r"length_scale of Estimated is 0.3, which has no setting 'x'"):
        value.set_params(length_scale__x=1.0)
    with pytest.raises(ValueError, match="greater than 0"):
        value.set_params(length_scale=-1.0)


POLICIES = [
    lambda: kb.KMTLUCB(["a", "b"], similarity=kb.Mixed(0.3), context_kernel=kb.RBF(2.0), epsilon=0.1, seed=4),
    lambda: kb.KMTLUCB(3),
    lambda: kb.baselines.LinUCB(3, sharing="hybrid"),
    lambda: kb.baselines.SupKMTLUCB(3, horizon=100, similarity=kb.Mixed(0.3), context_kernel=kb.RBF(2.0)),
]


@pytest.mark.parametrize("make", POLICIES)
def test_policies_are_rebuilt_by_their_parameters(make) -> None:
    policy = make()
    flat = policy.get_params()
    assert type(policy)(**flat).get_params() == flat == clone(policy).get_params() == policy.get_params(deep=False)
    deep = policy.get_params(deep=True)
    assert set(flat) <= set(deep)
    for name, value in deep.items():
        assert make().set_params(**{name: value}).get_params() == flat, name


def test_inner_settings_of_a_policy() -> None:
    policy = POLICIES[0]()
    deep = policy.get_params(deep=True)
    assert deep["similarity__mu"] == 0.3
    assert deep["context_kernel__length_scale"] == 2.0
    same = policy.set_params(similarity__mu=0.9, context_kernel=kb.Matern(3.0), ridge=0.5)
    assert same is policy
    assert (policy.similarity, policy.context_kernel, policy.ridge) == (kb.Mixed(0.9), kb.Matern(3.0), 0.5)
    assert policy.arms == ["a", "b"]
    # What it plays with is what it says.
    kept: dict[str, Any] = {"exploration": policy.exploration, "rewards": policy.rewards, "seed": 4}
    twin = kb.KMTLUCB(["a", "b"], similarity=kb.Mixed(0.9), context_kernel=kb.Matern(3.0), ridge=0.5, **kept)
    for p in (policy, twin):
        p.observe(["a"], [[0.3]], [1.0])
    np.testing.assert_array_equal(policy.predict([0.4]).mean, twin.predict([0.4]).mean)


def test_a_policy_that_has_begun_keeps_its_settings() -> None:
    policy = kb.KMTLUCB(2, similarity=kb.Mixed(0.3))
    policy.choose([0.1])
    with pytest.raises(ValueError, match="made 1 decisions"):
        policy.set_params(ridge=0.5)
    policy.observe([0], [[0.1]], [1.0])
    with pytest.raises(ValueError, match="learned 1 rows"):
        policy.set_params(ridge=0.5)
    assert policy.ridge == kb.LearnedRidge()
    assert clone(policy).set_params(ridge=0.5).ridge == 0.5


def test_bad_settings_change_nothing() -> None:
    policy = kb.KMTLUCB(2, similarity=kb.Mixed(0.3))
    before = policy.get_params()
    for bad in ({"ridge": -1.0}, {"similarity__mu": 7.0}, {"colour": 1}, {"ridge__x": 1}):
        with pytest.raises(ValueError, match=r"."):
            policy.set_params(**bad)
        assert policy.get_params() == before
    with pytest.raises(ValueError, match="has no setting 'similarity'"):  # there are two
        kb.baselines.LinUCB(3, sharing="hybrid").set_params(similarity=kb.Pooled())
