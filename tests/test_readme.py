"""The README's numbers are those that commands have written, its pictures are there, and its links are absolute."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))

import readme  # noqa: E402

TEXT = (ROOT / "README.md").read_text()
HOME = "https://github.com/kinbandits/kinbandits/blob/main/"
RAW = "https://raw.githubusercontent.com/kinbandits/kinbandits/main/"


def test_the_numbers_are_those_of_the_files() -> None:
    assert readme.written(TEXT) == TEXT, "run: python tools/readme.py --text"


def test_a_changed_number_would_be_noticed() -> None:
    number = re.search(r"\*\*(\d+)\*\*", TEXT)
    assert number is not None
    assert readme.written(TEXT.replace(number[0], "**1**")) == TEXT


def test_links_are_absolute_and_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXT):
        assert target.startswith("https://"), target
        for base in (HOME, RAW):
            if target.startswith(base):
                assert (ROOT / target.removeprefix(base).partition("#")[0]).exists(), target


def test_the_two_commands_stand_there() -> None:
    assert "\nmake demo " in TEXT
    assert "\nmake test " in TEXT
