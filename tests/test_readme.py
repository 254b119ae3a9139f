"""The README: short, with the two commands, and true in the repository as it is."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_two_commands_stand_there() -> None:
    assert "\nmake demo " in TEXT
    assert "\nmake test " in TEXT


def test_it_is_short_and_promises_no_address() -> None:
    assert len(re.sub(r"\|.*", "", TEXT).split()) <= 550
    assert "pip install kinbandits" not in TEXT
    assert not re.search(r"https://(?!arxiv\.org)", TEXT)
