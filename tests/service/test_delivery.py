"""Fifty thousand shuffled and repeated deliveries, with the service killed in between."""

from pathlib import Path

import pytest
from delivery import deliver


@pytest.mark.parametrize("deliveries", [800, pytest.param(50_000, marks=[pytest.mark.slow, pytest.mark.soak])])
def test_each_reward_is_learned_once(tmp_path: Path, deliveries: int) -> None:
    found = deliver(str(tmp_path / "log.sqlite3"), tmp_path, deliveries, kills=1 if deliveries < 1000 else 10)
    print(found)
    assert found["deliveries"] > 0.9 * deliveries
