"""The command line, as a user meets it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import kinbandits
from kinbandits import cli
from kinbandits.cli import data, doctor

HEAVY = ("sklearn", "matplotlib", "pandas", "polars", "fastapi", "ray", "distributed", "narwhals", "jinja2")
SOURCE = str(Path(kinbandits.__file__).parent.parent)


@pytest.fixture
def run(capsys, monkeypatch):
    """Run ``kinbandits ARGUMENTS`` in this process; gives (exit code, output, errors)."""
    monkeypatch.delenv("KINBANDITS_DEBUG", raising=False)

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(a) for a in arguments])
        return stop.value.code, *capsys.readouterr()

    return call


def process(*arguments, cwd=None):
    """Run ``kinbandits ARGUMENTS`` in a process of its own, away from a terminal."""
    command = [sys.executable, "-m", "kinbandits", *map(str, arguments)]
    environment = {k: v for k, v in os.environ.items() if k != "FORCE_COLOR"} | {"PYTHONPATH": SOURCE}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300)


def commands():
    """Every command, as the words that call it, and whether it is a group of commands."""

    def walk(command, words):
        children = getattr(command, "commands", None)
        yield words, bool(children)
        for name, child in (children or {}).items():
            yield from walk(child, [*words, name])

    return list(walk(typer.main.get_command(cli.make_app()), []))


@pytest.mark.parametrize(("words", "group"), commands(), ids=lambda w: " ".join(w) if isinstance(w, list) else "")
def test_every_command_has_help_with_examples(words, group):
    result = CliRunner().invoke(cli.make_app(), [*words, "--help"], prog_name="kinbandits")
    assert result.exit_code == 0
    if not group or not words:
        examples = result.output.split("Examples:")[1]
        assert f"kinbandits {' '.join(words)}".rstrip() in examples
    else:
        assert "Commands:" in result.output


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
    times = []
    for _ in range(3):  # the best of three, in processor time: other work on the machine stretches it less
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": SOURCE}
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0, done.stderr
        assert "demo" in done.stdout
    assert min(times) < 1.0


def test_version(run):
    assert run("--version") == (0, f"kinbandits {kinbandits.__version__}\n", "")


def test_wrong_calls_say_what_was_meant(run):
    code, _, errors = run("data", "lst")
    assert code == 2
    assert "Did you mean 'list'" in errors
    assert run("demo", "--seeds", 0)[0] == 2


def test_errors_are_one_line_and_debug_shows_the_rest(run, tmp_path):
    code, _, errors = run("data", "path", "iris")
    assert code == 1
    assert errors.startswith("Error: there is no data set 'iris'; there are digits")
    assert errors.count("\n") == 1
    for words in (["--debug", "data", "path", "iris"], ["data", "path", "iris", "--debug"]):
        with pytest.raises(kinbandits.errors.DatasetError):
            cli.main(words)
    done = process("data", "path", "iris")
    assert "Traceback" not in done.stderr


def test_errors_of_the_system_and_of_ours(run, monkeypatch):
    def app(error):
        def broken(*_, **__):
            raise error

        monkeypatch.setattr(cli, "make_app", lambda: broken)

    app(PermissionError(13, "Permission denied", "report"))
    code, _, errors = run("doctor")
    assert code == 1
    assert "Permission denied: 'report'. Check the path" in errors
    app(RuntimeError("a bug"))
    code, _, errors = run("doctor")
    assert code == 1
    assert "RuntimeError: a bug" in errors
    assert "--debug" in errors
    with pytest.raises(RuntimeError):
        cli.main(["doctor", "--debug"])
    app(KeyboardInterrupt())
    assert run("doctor")[0] == 130


def test_data_commands(run, tmp_path, monkeypatch):
    monkeypatch.setenv("KINBANDITS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    listed = json.loads(run("data", "list", "--json")[1])
    assert [d["name"] for d in listed] == ["digits", "letter", "mnist", "optdigits", "pendigits", "segment", "usps"]
    assert [d["path"] for d in listed] == ["with scikit-learn"] + [None] * 6
    assert "kinbandits data fetch" in run("data", "list")[1]
    cached = tmp_path / "cache" / "kinbandits" / "digits.npz"
    code, out, errors = run("data", "path", "digits")
    assert (code, out) == (1, "")
    assert "has no file here" in errors
    assert "kinbandits data fetch digits" in errors
    code, out, errors = run("data", "path", "usps")
    assert (code, out) == (1, "")
    assert "it is not on this machine" in errors
    assert "kinbandits data fetch usps" in errors
    assert run("data", "fetch", "digits")[1].strip() == f"digits: {cached}"
    assert cached.exists()
    assert run("data", "path", "digits")[1].strip() == str(cached)


def test_digits_is_not_here_without_scikit_learn(run, tmp_path, monkeypatch):
    import importlib.util

    monkeypatch.setenv("KINBANDITS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert doctor._data().value == "digits (with scikit-learn)"
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "sklearn" else real(name, *a))
    assert json.loads(run("data", "list", "--json")[1])[0]["path"] is None
    assert "with scikit-learn" not in run("data", "list")[1]
    finding = doctor._data()
    assert finding.value == "none"
    assert "digits" in finding.advice
    assert "scikit-learn" in run("data", "path", "digits")[2]


def test_doctor(run):
    code, out, _ = run("doctor", "--json")
    findings = {f["what"]: f for f in json.loads(out)}
    for what in ("Python", "kinbandits", "BLAS", "cores", "SQLite", "disk here", "data sets", "scikit-learn"):
        assert what in findings
    assert code == any(f["verdict"] == "problem" for f in findings.values())
    assert "SQLite" in run("doctor")[1]


@pytest.mark.parametrize(
    ("version", "verdict"),
    [((3, 6, 0), "problem"), ((3, 40, 1), "note"), ((3, 51, 2), "note"), ((3, 51, 3), "ok"), ((3, 54, 0), "ok")],
)
def test_the_verdict_on_sqlite(monkeypatch, version, verdict):
    import sqlite3

    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    assert doctor._sqlite().verdict == verdict


def test_doctor_fails_on_a_problem(run, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda: [doctor.Finding("disk", "full", "problem", "make room")])
    code, out, _ = run("doctor")
    assert code == 1
    assert "make room" in out


def test_doctor_sees_a_missing_package(monkeypatch):
    monkeypatch.setattr(doctor, "OPTIONAL", {"not-a-package": "plot", "nor-this": None})
    first, second = doctor._packages()
    assert first.advice == "optional; pip install 'kinbandits[plot]'"
    assert second.advice == "optional; pip install nor-this"


def test_a_table_on_a_terminal(monkeypatch, capsys):
    from kinbandits.cli.output import print_table

    plain = "Title\nname   n\na      1\nbb    12\n"
    print_table("Title", ["name", "n"], [["a", "1"], ["bb", "12"]], right=(1,))
    assert capsys.readouterr().out.replace("  ", " ").split() == plain.split()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table("Title", ["name", "n"], [["a", "1"], ["bb", "12"]], right=(1,))
    assert "┃" in capsys.readouterr().out


@pytest.mark.slow
def test_the_demo_away_from_a_terminal(tmp_path):
    done = process("demo", "--seeds", 1, "--jobs", 1, "--horizon", 40, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for text in ("with descriptors", "Lin-UCB", "Who lent what", "kinbandits paper --quick", "report/index.html"):
        assert text in done.stdout
    assert "\x1b" not in done.stdout + done.stderr  # no colour
    assert "\r" not in done.stderr  # no animation
    assert "runs: 4 of 4" in done.stderr
    assert (tmp_path / "report" / "index.html").stat().st_size > 20_000
    assert (tmp_path / "report" / "figures" / "regret.png").read_bytes().startswith(b"\x89PNG")


def test_output_can_be_cut_off():
    done = subprocess.run(
        f"'{sys.executable}' -m kinbandits doctor | head -1",
        shell=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert done.stderr == ""


def test_completion_knows_data_sets():
    assert data._complete("p") == ["pendigits"]
    assert len(data._complete("")) == 7


def test_a_table_is_evaluated(run, tmp_path):
    rows = [f"{'ab'[i % 2]},{i % 3 // 2},0.5,0.{i % 7}\n" for i in range(60)]
    (tmp_path / "log.csv").write_text("item,clicked,p,age\n" + "".join(rows))
    columns = ("--arm", "item", "--reward", "clicked", "--propensity", "p")
    code, out, _ = run("evaluate", tmp_path / "log.csv", *columns)
    assert code == 0
    assert "dr " in out
    code, _, errors = run("evaluate", tmp_path / "log.csv")
    assert code == 1
    assert "arm is 'arm', but the columns are item, clicked, p, age" in errors
    code, _, errors = run("evaluate", tmp_path / "news.sqlite3")
    assert code == 1
