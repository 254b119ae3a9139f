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

ALONE = ("--no-sweep", "--no-theory")
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

    def empty(figure, stem, formats):
        path = stem.with_suffix(".svg")
        path.write_text("<svg/>")
        return [path]

    monkeypatch.setattr("kinbandits.report.html.save_figure", empty)


def test_run_report_and_resume(call, tmp_path):
    (tmp_path / "news.toml").write_text(NEWS)
    code, out, err = call("run", "news.toml", "--jobs", 1)
    assert code == 0, err
    assert "cells: 4 of 4" in err
    assert "pooled" in out
    assert (tmp_path / "runs" / "news" / "report" / "index.html").exists()
    code, _, err = call("run", "news.toml", "--jobs", 1)
    assert code == 1
    assert "go on with it with --resume" in err
    assert "Traceback" not in err
    code, out, _ = call("run", "news.toml", "--resume", "--no-report")
    assert (code, out.strip()) == (0, "runs/news/results.csv")
    (tmp_path / "news.toml").write_text(NEWS.replace("horizon = 8", "horizon = 9"))
    code, _, err = call("run", "news.toml", "--resume")
    assert code == 1
    assert "environments.synthetic-news.horizon was 8, now 9" in err


def test_report_as_json(call, tmp_path, undrawn):
    (tmp_path / "news.toml").write_text(NEWS)
    call("run", "news.toml", "--jobs", 1, "--no-report")
    code, out, err = call("report", "runs/news", "--out", "page", "--json")
    assert code == 0, err
    data = json.loads(out)
    assert data["report"] == "page/index.html"
    assert [s["method"] for s in data["summaries"]] == ["alone", "pooled"]
    assert data["comparisons"][0]["wins"] + data["comparisons"][0]["losses"] <= 2


def test_paper_says_how_long_and_goes_on(call, tmp_path, undrawn):
    words = ["paper", "--data", "synthetic,digits", "--seeds", 1, "--horizon", 6, "--jobs", 1, "--out", "p", *ALONE]
    code, out, err = call(*words)
    assert code == 0, err
    assert err.startswith("6 runs on synthetic, digits: about ")
    assert "KMTL-UCB-Est is better than Kernel-UCB-Ind" in out
    cells = {p: p.stat().st_mtime_ns for p in (tmp_path / "p" / "cells").iterdir()}
    code, _, err = call(*words)
    assert code == 0
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "p" / "cells").iterdir()} == cells
    code, _, err = call("paper", "--data", "synthetic,digits", "--seeds", 2, "--horizon", 6, "--out", "p", *ALONE)
    assert code == 1
    assert "seeds was [0], now [0, 1]" in err


def test_quick_runs_with_what_is_here(call, tmp_path, monkeypatch, undrawn):
    monkeypatch.setenv("KINBANDITS_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("kinbandits.datasets.fetch", lambda name: pytest.fail("the network was asked"))
    code, _, err = call("paper", "--quick", "--horizon", 6, "--seeds", 1, "--jobs", 1, *ALONE)
    assert code == 0, err
    assert "Segment is left out" in err
    assert "kinbandits data fetch segment" in err
    assert "6 runs on synthetic, digits" in err
    code, _, err = call("paper", "--quick", "--data", "synthetic", "--horizon", 6, "--jobs", 1, *ALONE)
    assert code == 0, err
    assert "12 runs on synthetic" in err  # four methods, three seeds


def test_missing_data_say_what_can_be_run_without(call, tmp_path, monkeypatch):
    from kinbandits.errors import DatasetError

    def offline(name):
        raise DatasetError(f"cannot load the {name} data set: the download failed")

    monkeypatch.setenv("KINBANDITS_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("kinbandits.datasets.fetch", offline)
    code, _, err = call("paper", "--data", "digits,letter,synthetic", "--seeds", 1, "--horizon", 6)
    assert code == 1
    assert "cannot load the letter data set" in err
    assert "--data synthetic,digits" in err
    code, _, err = call("paper", "--data", "letter", "--seeds", 1, "--horizon", 6)
    assert "--data synthetic" in err


@pytest.mark.slow
def test_a_run_that_is_stopped_says_how_to_go_on(tmp_path):
    """Ctrl-C, which a terminal sends to the driver and to its workers."""
    import kinbandits

    (tmp_path / "news.toml").write_text(
        NEWS.replace("seeds = 2", "seeds = 60").replace("horizon = 8", "horizon = 400")
    )
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
    assert "kinbandits run news.toml --jobs 2 --resume" in err
    assert "Traceback" not in err
    assert out == ""


def test_wrong_calls(call):
    for words, text in (
        (["paper", "--data", "iris"], "the paper has no data set 'iris'"),
        (["paper", "--settings", "best", "--data", "digits"], "settings must be one of"),
        (["run", "none.toml"], "there is no file none.toml"),
        (["report", "nowhere"], "nowhere holds no experiment"),
    ):
        code, _, err = call(*words)
        assert (code, text in err) == (1, True), err


def test_names_of_data_sets_complete():
    from kinbandits.cli.experiment import _complete_data

    assert _complete_data("le") == ["letter"]
    assert _complete_data("digits,us") == ["digits,usps"]
