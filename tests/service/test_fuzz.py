"""schemathesis with all its checks; `make soak` runs ten times as many cases."""

from pathlib import Path

import pytest
from fuzz import fuzz

pytest.importorskip("schemathesis")


@pytest.mark.slow
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    assert fuzz(tmp_path, examples=110) >= 1000
