"""Frozen values: checked by annotation, equal by value, written and read back."""

import copy
import pickle

import numpy as np
import pytest

import kinbandits as kb
from kinbandits._value import Count, Natural, Positive, Value, from_json, to_json  # no __future__ annotations here
from kinbandits.errors import InvalidInputError, InvalidTypeError


class Box(Value):
    """A user's value, in a module without ``from __future__ import annotations``."""

    width: Positive
    sides: Count = 4
    label: Natural | None = None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"width": "abc"}, "width must be a number"),
        ({"width": -3}, "width must be greater than 0"),
        ({"width": 1, "sides": 0}, "sides must be at least 1"),
        ({"width": 1, "sides": 2.5}, "sides must be a whole number"),
        ({"width": 1, "label": -1}, "label must be at least 0"),
        ({"width": None}, "width must be a number"),
    ],
)
def test_numbers_are_checked_by_the_annotations_of_a_users_module(fields, words) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError), match=words):
        Box(**fields)
    assert Box(2).width == 2.0
    assert Box(2, label=None) == Box(2.0) != Box(3)


VALUES = [
    kb.RBF((1.0, 2.0)) + 0.5 * kb.Matern(nu=0.5) * kb.Linear(),
    kb.Known(np.eye(3)),
    kb.Known(descriptors=[[0.0], [1.0]], kernel=kb.RBF(0.5)),
    kb.Graph([[0, 1], [1, 0]], normalise=True),
    kb.Learned(kb.Known(descriptors=[0.0, 1.0])),
    kb.Estimated(0.3, kb.RBF(2.0)),
    kb.Term(kb.Mixed(0.5), kb.RBF(), columns=[1, 0]) + kb.Term(kb.Pooled(), kb.Constant(2.0)),
    kb.UCB(0.3, ceiling=1.0),
    kb.Thompson(200),
    kb.Window(50),
    Box(2.5, label=3),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_written_copied_and_frozen(value) -> None:
    arrays: dict = {}
    assert from_json(to_json(value, arrays), arrays) == value
    for twin in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), value.replace()):
        assert twin == value
        assert hash(twin) == hash(value)
    with pytest.raises(AttributeError):
        value.width = 1
    assert value != kb.RBF()


def test_two_values_of_ours_never_share_a_name_and_users_are_found_by_module() -> None:
    with pytest.raises(TypeError, match="RBF"):
        type("RBF", (Value,), {"__module__": "kinbandits.somewhere"})
    assert to_json(Box(1.0))["type"] == f"{__name__}:Box"
    with pytest.raises(ValueError, match="read-only"):
        kb.Known(np.eye(2)).given[0, 0] = 5.0
    assert repr(kb.Known(np.eye(9))) == "Known(matrix=<9 x 9 array>)"
