"""Ten thousand deliveries; `make soak` makes a hundred thousand."""

from pathlib import Path

import pytest
from delivery import deliver


@pytest.mark.slow
def test_each_reward_is_learned_once(tmp_path: Path) -> None:
    found = deliver(str(tmp_path / "log.sqlite3"), tmp_path, deliveries=10_000)
    assert found["deliveries"] > 9_000
