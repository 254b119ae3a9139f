"""Actions on a line: the shapes from their definitions, and the contract."""

from __future__ import annotations

import numpy as np
import pytest

from kinbandits.environments import check_environment
from line_actions import LineActions


@pytest.mark.parametrize("shape", ["bump", "squares", "diagonal"])
def test_contract(shape) -> None:
    e = LineActions(shape, seed=3, horizon=20)
    check_environment(e)
    means = np.array([r.means for r in e.rounds()])
    assert means.shape == (20, 10)
    assert 0.0 <= means.min() < means.max()


def test_squares_and_diagonal_from_the_definition() -> None:
    def square(x: float, a: float) -> float:
        half = [(0, 1), (2, 1), (2, 3)]
        whole = [(1, 0), (1, 2), (3, 2)]
        place = int(4 * x), int(4 * a)
        return 1.0 if place in whole else 0.5 if place in half else 0.0

    def diagonal(x: float, a: float) -> float:
        return 1.0 if abs(x - a - 0.15) < 0.1 else 0.5 if abs(x - a + 0.15) < 0.1 else 0.0

    for shape, wanted in (("squares", square), ("diagonal", diagonal)):
        e = LineActions(shape, horizon=50)
        for r in e.rounds():
            assert r.means.tolist() == [wanted(r.context[0], a) for a in e.descriptors[:, 0]]


def test_the_bump_has_its_top_at_an_action_whatever_the_context() -> None:
    rounds = list(LineActions("bump", horizon=30).rounds())
    top = int(np.argmax(np.sum([r.means for r in rounds], axis=0)))
    assert all(r.means[top] == r.means.max() for r in rounds)
    assert rounds[0].context.shape == (5,)


@pytest.mark.parametrize("wrong", [{"shape": "round"}, {"n_arms": 101}, {"noise": -1.0}])
def test_bad_options(wrong) -> None:
    with pytest.raises(ValueError, match="must be"):
        LineActions(**wrong)
