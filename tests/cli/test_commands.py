"""The command line, as a user meets it: in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import kinbandits

HEAVY = ("sklearn", "matplotlib", "pandas", "polars", "fastapi", "ray", "distributed", "narwhals", "jinja2")


def run(*arguments, cwd=None, **environment):
    """Run ``kinbandits ARGUMENTS``; gives the finished process."""
    clean = {k: v for k, v in os.environ.items() if k not in ("KINBANDITS_DEBUG", "FORCE_COLOR")}
    clean["PYTHONPATH"] = str(Path(kinbandits.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-m", "kinbandits", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=clean | environment,
        timeout=300,
    )


def commands():
    """Every command, as the words that call it."""
    import typer.main

    from kinbandits.cli import make_app

    def walk(command, words):
        children = getattr(command, "commands", None)
        if not children:
            yield words
            return
        yield words
        for name, child in children.items():
            yield from walk(child, [*words, name])

    return list(walk(typer.main.get_command(make_app()), []))


@pytest.fixture(scope="module")
def quick_demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    return out, run("demo", "--seeds", 2, "--horizon", 20, "--out", out / "report", cwd=out)


@pytest.mark.parametrize("words", commands(), ids=lambda w: " ".join(w) or "kinbandits")
def test_every_command_has_help_with_examples(words):
    from typer.main import get_command
    from typer.testing import CliRunner

    from kinbandits.cli import make_app

    app = make_app()
    get_command(app)
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="kinbandits")
    assert result.exit_code == 0
    group = words and len(words) == 1 and "Commands:" in result.output
    assert group or "Examples:" in result.output
    assert group or "  kinbandits " in result.output.split("Examples:")[1]


def test_help_is_quick_and_loads_nothing_heavy():
    code = f"""
import sys
from kinbandits.cli import main
try:
    main(["--help"])
except SystemExit as stop:
    assert not stop.code, stop.code
loaded = [m for m in {HEAVY!r} if m in sys.modules]
assert not loaded, loaded
"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout
    # processor time, which other work on the machine does not stretch much
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 1.0


def test_version():
    assert run("--version").stdout == f"kinbandits {kinbandits.__version__}\n"


def test_wrong_calls_say_what_was_meant():
    done = run("data", "lst")
    assert done.returncode == 2
    assert "Did you mean 'list'" in done.stderr
    assert run("demo", "--seeds", 0).returncode == 2


def test_errors_are_one_line_and_debug_shows_the_rest(tmp_path):
    done = run("data", "path", "iris")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: there is no data set 'iris'; there are digits")
    assert "Traceback" not in done.stderr
    for words in (["--debug", "data", "path", "iris"], ["data", "path", "iris", "--debug"]):
        assert "Traceback" in run(*words).stderr
    (tmp_path / "file").write_text("")
    done = run("demo", "--seeds", 1, "--horizon", 2, "--out", tmp_path / "file" / "report")
    assert done.returncode == 1
    assert "Check the path" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_of_ours_is_not_hidden(monkeypatch, capsys):
    from kinbandits import cli

    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "make_app", lambda: broken)
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor"])
    assert stop.value.code == 1
    text = capsys.readouterr().err
    assert "RuntimeError: a bug" in text
    assert "--debug" in text
    with pytest.raises(RuntimeError):
        cli.main(["doctor", "--debug"])


def test_data_commands(tmp_path):
    here = {"KINBANDITS_DATA": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    listed = json.loads(run("data", "list", "--json", **here).stdout)
    assert [d["name"] for d in listed] == ["digits", "letter", "mnist", "optdigits", "pendigits", "segment", "usps"]
    assert [d["path"] for d in listed] == ["with scikit-learn"] + [None] * 6
    assert "kinbandits data fetch" in run("data", "list", **here).stdout
    cached = tmp_path / "cache" / "kinbandits" / "digits.npz"
    assert run("data", "path", "digits", **here).stdout.strip() == str(cached)
    assert run("data", "fetch", "digits", **here).stdout.strip() == f"digits: {cached}"
    assert cached.exists()
    assert run("data", "path", "digits", **here).stdout.strip() == str(cached)


def test_doctor():
    done = run("doctor", "--json")
    findings = {f["what"]: f for f in json.loads(done.stdout)}
    for what in ("Python", "kinbandits", "BLAS", "cores", "SQLite", "disk here", "data sets", "scikit-learn"):
        assert what in findings
    assert done.returncode == any(f["verdict"] == "problem" for f in findings.values())
    assert "SQLite" in run("doctor").stdout


@pytest.mark.parametrize(
    ("version", "verdict"),
    [((3, 6, 0), "problem"), ((3, 40, 1), "note"), ((3, 51, 2), "note"), ((3, 51, 3), "ok"), ((3, 54, 0), "ok")],
)
def test_the_verdict_on_sqlite(monkeypatch, version, verdict):
    import sqlite3

    from kinbandits.cli import doctor

    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    assert doctor._sqlite().verdict == verdict


def test_doctor_sees_a_missing_package(monkeypatch):
    from kinbandits.cli import doctor

    monkeypatch.setattr(doctor, "OPTIONAL", {"not-a-package": "plot", "nor-this": None})
    first, second = doctor._packages()
    assert first.advice == "optional; pip install 'kinbandits[plot]'"
    assert second.advice == "optional; pip install nor-this"


def test_no_colour_and_no_animation_away_from_a_terminal(quick_demo):
    _, done = quick_demo
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stderr
    assert "12 of 12" in done.stderr
    assert "left" in done.stderr


def test_the_demo(quick_demo):
    out, done = quick_demo
    assert done.returncode == 0, done.stderr
    for text in ("KMTL-UCB-Est", "Kernel-UCB-Pool", "synthetic", "digits", "20 rounds"):
        assert text in done.stdout
    figure = out / "report" / "demo.png"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert figure.stat().st_size > 20_000


def test_the_demo_as_json(tmp_path):
    done = run("demo", "--seeds", 1, "--horizon", 5, "--json", cwd=tmp_path)
    runs = json.loads(done.stdout)["runs"]
    assert len(runs) == 6
    assert {r["rounds"] for r in runs} == {5}


def test_output_can_be_cut_off():
    done = subprocess.run(
        f"{sys.executable} -m kinbandits doctor | head -1", shell=True, capture_output=True, text=True
    )
    assert done.stderr == ""


def test_completion_knows_data_sets():
    from kinbandits.cli.data import _complete

    assert _complete("p") == ["pendigits"]
    assert len(_complete("")) == 7
