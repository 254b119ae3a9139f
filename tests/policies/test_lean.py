"""The policy layer asks nothing twice: calls are counted, which is steadier than the clock of a benchmark."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kinbandits as kb


class NullEngine:
    """Answers at once, and learns nothing."""

    keeps_all_rows, n_features, n_observations = True, 4, 1_000
    settings = SimpleNamespace(ridge=0.01)

    def leaders(self, query: object, exploration: object, tolerance: float = 0.0) -> np.ndarray:
        return np.array([[False, True, False]])

    def observe(self, *rows: object) -> None:
        pass


def calls_of_a_round(**settings: Any) -> Counter[str]:
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(), similarity=kb.Independent(), engine="exact", **settings)
    policy.observe([0, 1], np.zeros((2, 4)), [0.0, 1.0])  # rewards differ: their unit is known
    policy.regression = NullEngine()  # type: ignore[assignment]
    x = np.arange(4.0)
    policy.update(policy.choose(x), 1.0)
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            found[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        policy.update(policy.choose(x), 1.0)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize(("settings", "most"), [({}, 60), ({"ridge": 0.01}, 55)], ids=["learned", "fixed"])
def test_choose_and_update_ask_nothing_twice(settings: dict[str, Any], most: int) -> None:
    found = calls_of_a_round(**settings)
    assert sum(found.values()) <= most, found
    for name in ("_features_seen", "column_names", "rounds_of_contexts", "exploration_at", "_leaders", "observe"):
        assert found[name] == 1, (name, found)
