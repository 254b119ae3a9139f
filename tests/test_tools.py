"""The tools that CI relies on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_least_versions_are_those_of_pyproject() -> None:
    """`python tools/versions.py constraints --oldest > constraints-oldest.txt` after a change of pyproject.toml."""
    command = [sys.executable, str(ROOT / "tools" / "versions.py"), "constraints", "--oldest"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "constraints-oldest.txt").read_text() == said


def test_what_was_left_out_is_said_in_one_line_or_refused(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_a(): pytest.skip('KINBANDITS_DATA is not set')\n"
        "def test_b(): pytest.skip('no Chromium here: apt install chromium')\n"
        "def test_c(): pytest.skip('another reason')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *filter(None, sys.path)])}
    for allowed, counts in (("", "3 skipped"), ("1", "1 failed, 2 skipped")):
        environment["KINBANDITS_ALL_TESTS"] = allowed
        said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment).stdout
        (last,) = (line for line in said.splitlines() if line.startswith("left out"))
        assert last.startswith("left out: 1 need data sets (KINBANDITS_DATA=FOLDER make test"), said
        assert ("1 need Chromium (make browser test)" in last) == (not allowed)
        assert said.splitlines()[-1].startswith(counts), said
