"""The tools that CI relies on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_least_versions_are_those_of_pyproject() -> None:
    """`python tools/versions.py constraints --oldest > constraints-oldest.txt` after a change of pyproject.toml."""
    command = [sys.executable, str(ROOT / "tools" / "versions.py"), "constraints", "--oldest"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "constraints-oldest.txt").read_text() == said


def test_what_was_left_out_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_a(): pytest.skip('KINBANDITS_DATA is not set')\n"
        "def test_b(): pytest.skip('no Chromium here: apt install chromium')\n"
        "def test_c(): pytest.skip('another reason')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *filter(None, sys.path)])}
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment).stdout
    (last,) = (line for line in said.splitlines()[-2:] if line.startswith("left out"))
    assert last.startswith("left out: 1 need data sets (KINBANDITS_DATA=FOLDER make test"), said
    assert "1 need Chromium (make browser test)" in last


def test_the_reference_runs_and_what_is_said_of_a_sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import tables

    runs = {key: [int(v) for v in text.split()] for key, text in tables.REFERENCE.items()}
    assert {len(v) for (where, _), v in runs.items() if where != "Letter"} == {10}
    means = {key: round(sum(v) / len(v)) for key, v in runs.items()}
    est, ind = tables.EST, tables.IND
    assert (means["Digits", est], means["Segment", ind], means["USPS", est]) == (325, 183, 970)
    assert (means["MNIST", ind], means["Letter", ind]) == (1052, 2522)

    lines = ["where,method,multiplier,rounds,finals,mean,half"]
    for method, mean in ((est, 100.0), (ind, 110.0), ("no self pairs", 250.0)):
        lines += [f"Digits,{method},{x},1000,{' '.join(['1'] * 10)},{mean / x},1" for x in (0.1, 1.0)]
    (tmp_path / "sweep-points.csv").write_text("\n".join(lines))
    (tmp_path / "sweep.csv").write_text(
        "where,second,multiplier,first_mean,second_mean,equal,low,high\n"
        f"Digits,counts only,0.1,1000,1001,0.01,-3,1\nDigits,{ind},0.1,1000,1100,0.9,-120,-80\n"
    )
    counts, at_01, at_1, pairs, falls = tables.findings(tmp_path)
    assert "on Digits (1,000 and 1,001)." in counts
    assert "on Digits (1,000 and 1,100), and more on none" in at_01
    assert "on none, and more on none, of 0" in at_1
    assert "Digits 2.5" in pairs
    assert "Digits from 1,100 to 110" in falls
