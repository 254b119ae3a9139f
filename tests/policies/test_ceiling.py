"""Scores above the highest possible reward count as equal, and the largest mean is played."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import InvalidInputError


def taught(**settings: object) -> kb.KMTLUCB:
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(), similarity=kb.Independent(), **settings)  # type: ignore[arg-type]
    policy.observe([0, 0, 1], [[0.0], [0.3], [1.0]], [0.9, 0.8, 0.6])
    return policy


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_largest_mean_of_those_above(scale: float) -> None:
    x = [0.8]
    free = kb.KMTLUCB(3, context_kernel=kb.RBF(), similarity=kb.Independent(), exploration=0.15)
    tied = kb.KMTLUCB(
        3, context_kernel=kb.RBF(), similarity=kb.Independent(),
        exploration=kb.UCB(0.15, ceiling=0.7 * scale), rewards=kb.Range(0.0, scale),
    )  # fmt: skip
    for policy, unit in ((free, 1.0), (tied, scale)):
        policy.observe([0, 0, 1], [[0.0], [0.3], [1.0]], np.array([0.9, 0.8, 0.6]) * unit)
    scores, mean = free.choose(x).scores, free.predict(x).mean
    above = scores >= 0.7
    assert above.sum() >= 2
    wanted = int(np.argmax(np.where(above, mean, -1.0)))
    assert wanted != int(scores.argmax())  # else it shows nothing
    assert tied.choose(x).arm == wanted
    assert tied.choose_many(np.array([[x], [x]])).arm == [wanted, wanted]


def test_a_ceiling_that_is_not_reached_changes_nothing(tmp_path: Path) -> None:
    free, capped = taught(exploration=0.1), taught(exploration=kb.UCB(0.1, ceiling=100.0))
    for x in np.linspace(-1, 2, 20)[:, None]:
        assert free.choose(x).arm == capped.choose(x).arm
    capped.save(tmp_path / "p.kb")
    assert kb.load(tmp_path / "p.kb").exploration == kb.UCB(0.1, ceiling=100.0)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="ceiling"):
        kb.UCB(0.1, ceiling=float("nan"))
