"""The loader of the Open Bandit Dataset, on a small log made in its layout."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest

import open_bandit
from kinbandits.errors import KinbanditsError
from open_bandit import read_open_bandit

COLUMNS = ["", "timestamp", "item_id", "position", "click", "propensity_score", "user_feature_0", "user_feature_1"]


def write(folder: Path, rows: int = 600, propensity: float = 0.25, columns: list[str] = COLUMNS) -> Path:
    """Four items; those who like it click on the item of their first feature six times in ten, else one in ten."""
    rng, folder = np.random.default_rng(0), folder / "men"
    folder.mkdir()
    with (folder / "men.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for i in range(rows):
            item, likes, other = rng.integers(4), rng.integers(4), rng.integers(2)
            click = int(rng.random() < (0.6 if item == likes else 0.1))
            values = [i, "2019-11-24", item, 1 + i % 3, click, propensity, f"cef{likes}", f"03a{other}"]
            writer.writerow(values[: len(columns)])
    return folder


def test_rows_of_a_position(tmp_path: Path) -> None:
    log = read_open_bandit(write(tmp_path), position=2)
    assert log.arms == (0, 1, 2, 3)
    assert log.contexts.shape == (200, 1 + 4 + 2)
    assert (log.contexts[:, 1:5].sum(axis=1) == 1.0).all()
    assert set(log.rewards.tolist()) == {0.0, 1.0}


def test_policies_learn_from_it(tmp_path: Path, capsys, monkeypatch) -> None:
    folder = write(tmp_path, rows=6000)
    monkeypatch.setattr(sys, "argv", ["open_bandit", str(folder), "--seeds", "1"])
    kept = {k: open_bandit.POLICIES[k] for k in ("LinUCB", "Uniform")}
    monkeypatch.setattr(open_bandit, "POLICIES", kept)
    open_bandit.main()
    lines = capsys.readouterr().out.splitlines()[1:]
    found = {line.split()[0]: float(line.split()[1]) for line in lines}
    assert found["LinUCB"] > 1.5 * found["Uniform"]


def test_what_is_not_such_a_log(tmp_path: Path) -> None:
    with pytest.raises(KinbanditsError, match="there is no"):
        read_open_bandit(tmp_path / "women")
    folder = write(tmp_path, propensity=0.5)
    with pytest.raises(KinbanditsError, match="propensit"):
        read_open_bandit(folder)
    with pytest.raises(KinbanditsError, match="position 9"):
        read_open_bandit(folder, position=9)
    (folder / "men.csv").write_text("item_id,position\n1,1\n")
    with pytest.raises(KinbanditsError, match="no column 'click'"):
        read_open_bandit(folder)
