"""The commands run, report and paper, called as a user would."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kinbandits.cli import main

NEWS = """
seeds = 2
[[environments]]
kind = "synthetic-news"
horizon = 8
[[methods]]
name = "alone"
[[methods]]
name = "pooled"
similarity = { type = "Pooled" }
"""


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        with pytest.raises(SystemExit) as stop:
            main([str(w) for w in words])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return run


@pytest.fixture
def undrawn(monkeypatch):
    """Reports without pictures, where these are not what is tested."""

    monkeypatch.setattr("kinbandits.report.save_figure", lambda figure, path: path.write_bytes(b""))


def test_run_report_and_more_seeds(call, tmp_path):
    (tmp_path / "news.toml").write_text(NEWS)
    code, out, err = call("run", "news.toml", "--jobs", 1)
    assert code == 0, err
    assert "cells: 4 of 4" in err
    assert "pooled" in out
    assert "Report: runs/news/report/index.html" in out
    (tmp_path / "news.toml").write_text(NEWS.replace("seeds = 2", "seeds = 3"))
    code, out, err = call("run", "news.toml", "--jobs", 1, "--no-report")
    assert (code, out.strip()) == (0, "runs/news/results.csv")
    out = call("run", "news.toml", "--jobs", 1, "--no-report", "--json")[1]  # nothing is left to do
    assert json.loads(out)["results"] == "runs/news/results.csv"
    assert "cells: 6 of 6" in err
    assert len((tmp_path / "runs" / "news" / "results.csv").read_text().splitlines()) == 7


def test_report_as_json(call, tmp_path, undrawn):
    (tmp_path / "news.toml").write_text(NEWS)
    call("run", "news.toml", "--jobs", 1, "--no-report")
    code, out, err = call("report", "runs/news", "--out", "page", "--json")
    assert code == 0, err
    data = json.loads(out)
    assert data["report"] == "page/index.html"
    assert [s["method"] for s in data["summaries"]] == ["alone", "pooled"]
    assert data["comparisons"][0]["wins"] + data["comparisons"][0]["losses"] <= 2


@pytest.fixture
def short(monkeypatch):
    """The paper's experiments, of six rounds."""
    from kinbandits.paper import protocol

    real = protocol.paper_experiment
    monkeypatch.setattr(protocol, "paper_experiment", lambda *a, **k: real(*a, **k, horizon=6))


def test_the_paper_goes_on_where_it_was(call, tmp_path, undrawn, short):
    words = ["paper", "--data", "synthetic,digits", "--seeds", 1, "--jobs", 1, "--out", "p"]
    code, out, err = call(*words)
    assert code == 0, err
    assert "KMTL-UCB-Est is better than Kernel-UCB-Ind" in out
    assert "not enough runs" in out
    cells = {p: p.stat().st_mtime_ns for p in (tmp_path / "p" / "cells").iterdir()}
    assert call(*words)[0] == 0
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "p" / "cells").iterdir()} == cells


def test_quick_runs_with_what_is_here(call, tmp_path, monkeypatch, undrawn, short):
    monkeypatch.setenv("KINBANDITS_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("kinbandits.datasets.fetch", lambda name: pytest.fail("the network was asked"))
    code, _, err = call("paper", "--quick", "--seeds", 1, "--jobs", 1)
    assert code == 0, err
    assert "segment is left out: it is not on this machine; to have it: kinbandits data segment" in err
    assert "cells: 6 of 6" in err


@pytest.mark.slow
def test_cross_validated_settings_by_command(call, tmp_path, monkeypatch, undrawn, short):
    from kinbandits.paper import protocol
    from kinbandits.paper.crossval import Grid

    tiny, real = Grid([0.001, 0.01], [0.01], [10.0, 100.0], [0.001]), protocol.choose_settings
    monkeypatch.setattr(protocol, "choose_settings", lambda *a, **k: real(*a, **k, grid=tiny))
    words = ["paper", "--settings", "cv", "--data", "digits", "--seeds", 1, "--jobs", 1, "--out", "cv"]
    code, _, err = call(*words)
    assert code == 0, err
    chosen = (tmp_path / "cv" / "report" / "chosen.csv").read_text()
    assert "Digits,KMTL-UCB-Est,ridge,0.001,0.001\n" in chosen
    assert len(list((tmp_path / "cv" / "settings").glob("digits-*.npz"))) == 4


def test_missing_data_say_what_can_be_run_without(call, tmp_path, monkeypatch):
    from kinbandits.errors import DatasetError

    def offline(name):
        raise DatasetError(f"cannot load the {name} data set: the download failed")

    monkeypatch.setenv("KINBANDITS_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("kinbandits.datasets.fetch", offline)
    code, _, err = call("paper", "--data", "digits,letter,synthetic", "--seeds", 1)
    assert code == 1
    assert "cannot load the letter data set" in err
    assert "--data synthetic,digits" in err
    code, _, err = call("paper", "--data", "letter", "--seeds", 1)
    assert "--data synthetic" in err


@pytest.mark.slow
def test_a_run_that_is_stopped_says_how_to_go_on(tmp_path):
    """Ctrl-C, which a terminal sends to the driver and to its workers."""
    import kinbandits

    (tmp_path / "news.toml").write_text(NEWS.replace("seeds = 2", "seeds = 60").replace("horizon = 8", "horizon = 400"))
    command = [sys.executable, "-m", "kinbandits", "run", "news.toml", "--jobs", "2"]
    source = str(Path(kinbandits.__file__).parent.parent)
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": source}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    cells = tmp_path / "runs" / "news" / "cells"
    deadline = time.monotonic() + 120
    while not list(cells.glob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "kept in runs/news" in err
    assert "kinbandits run news.toml --jobs 2" in err
    assert "Traceback" not in err
    assert out == ""


def test_wrong_calls(call):
    for words, text in (
        (["paper", "--data", "iris"], "the paper has no data set 'iris'"),
        (["paper", "--settings", "best", "--data", "digits"], "--settings must be"),
        (["run", "none.toml"], "there is no file none.toml"),
        (["report", "nowhere"], "nowhere holds no experiment"),
    ):
        code, _, err = call(*words)
        assert (code, text in err) == (1, True), err
