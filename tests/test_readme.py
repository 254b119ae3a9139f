"""The README's numbers are those that commands have written, and its pictures and links are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))

import readme  # noqa: E402

TEXT = (ROOT / "README.md").read_text()


def test_the_numbers_are_those_of_the_files() -> None:
    assert readme.written(TEXT) == TEXT, "run: python tools/readme.py --text"


def test_a_changed_number_would_be_noticed() -> None:
    number = re.search(r"\*\*(\d+)\*\*", TEXT)
    assert number is not None
    assert readme.written(TEXT.replace(number[0], "**1**")) == TEXT


def test_links_lead_to_files_of_the_copy() -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXT):
        if not target.startswith("https://arxiv.org/"):  # no other address is ours to promise
            assert (ROOT / target.partition("#")[0]).exists(), target


def test_it_is_installed_from_the_copy() -> None:
    assert "pip install ." in TEXT
    assert "pip install kinbandits" not in TEXT


def test_the_two_commands_stand_there() -> None:
    assert "\nmake demo " in TEXT
    assert "\nmake test " in TEXT
