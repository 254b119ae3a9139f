"""fit and evaluate as a nightly job types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from parquet_logs import rows, write

from kinbandits import cli

TOML = """
[policy]
arms = ["a", "b", "c", "d"]
similarity = { type = "Independent" }
engine = { type = "Budgeted", points = 64 }
ridge = 0.1
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: Any, code: int = 0) -> str:
        with pytest.raises(SystemExit) as stop:
            cli.main([*map(str, arguments), "--context", "x0,x1,x2", "--scheduler", "sync"])
        said = capsys.readouterr()
        assert stop.value.code == code, said
        return said.out

    return call


def test_a_nightly_job(tmp_path: Path, run: Any) -> None:
    folder = write(tmp_path / "rows", rows(1500), 3)
    config = tmp_path / "news.toml"
    config.write_text(TOML)
    live, tonight = tmp_path / "live.policy", tmp_path / "tonight.policy"
    said = run("fit", folder, "--policy", config, "--until", 60, "--out", live)
    assert "60 rows learned" in said
    assert "Left out: 1,440 rows, of another time" in said
    run("fit", folder, "--policy", config, "--until", 1000, "--out", tonight)
    job = ("evaluate", folder, "--policy", live, "--policy", tonight, "--since", 1000)
    said = run(*job, "--gate", "--figure", tmp_path / "both.png")
    assert "told from 500 rows" in said
    assert "difference" in said
    assert (tmp_path / "both.png").stat().st_size > 10_000
    found = json.loads(run(*job, "--json", "--clip", 3))["policies"]
    assert found["tonight"]["difference"]["low"] > 0.0
    assert found["tonight"]["clipped"] > 0
    assert found["live"]["difference"] is None
    other = ("evaluate", folder, "--policy", tonight, "--policy", tonight.with_name("live.policy"), "--since", 1000)
    run(*other, "--gate", code=3)  # the other way round it is not better
    assert "told from 750 rows" in run("evaluate", folder, "--policy", config)
