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
from kinbandits.cli import doctor, output

HEAVY = ("sklearn", "matplotlib", "pandas", "polars", "fastapi", "distributed", "narwhals", "jinja2")
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "FORCE_COLOR"}
ENVIRONMENT |= {"PYTHONPATH": str(Path(kinbandits.__file__).parent.parent)}


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run ``kinbandits ARGUMENTS`` in this process, with no data sets; gives (exit code, output, errors)."""
    monkeypatch.delenv("KINBANDITS_DEBUG", raising=False)
    monkeypatch.setenv("KINBANDITS_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(a) for a in arguments])
        return stop.value.code, *capsys.readouterr()

    return call


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


def test_an_option_means_the_same_wherever_it_is():
    texts: dict[str, set[str]] = {}
    for words, _ in commands():
        command = typer.main.get_command(cli.make_app())
        for word in words:
            command = command.commands[word]
        for option in command.params:
            texts.setdefault(option.name, set()).add(getattr(option, "help", None) or "")
    for name in ("jobs", "as_json", "context", "at", "bad"):
        assert len({text.partition(";")[0].rstrip(".") for text in texts[name]}) == 1, texts[name]


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
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0, done.stderr
        assert "demo" in done.stdout
        assert "..." not in done.stdout.partition("Commands:")[2].partition("fit")[0]  # first lines are not cut
    assert min(times) < 1.0


def test_wrong_calls_say_what_was_meant(run):
    assert run("--version") == (0, f"kinbandits {kinbandits.__version__}\n", "")
    code, _, errors = run("docter")
    assert code == 2
    assert "Did you mean 'doctor'" in errors
    assert run("demo", "--seeds", 0)[0] == 2


def test_errors_are_one_line_and_debug_shows_the_rest(run):
    code, _, errors = run("data", "iris")
    assert code == 1
    assert errors.startswith("Error: there is no data set 'iris'; there are digits")
    assert errors.count("\n") == 1
    for words in (["--debug", "data", "iris"], ["data", "iris", "--debug"]):
        with pytest.raises(kinbandits.errors.DatasetError):
            cli.main(words)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (PermissionError(13, "Permission denied", "report"), 1, "Permission denied: 'report'. Check the path"),
        (RuntimeError("a bug"), 1, "RuntimeError: a bug\nThis should not happen. Run the command again with --debug"),
        (KeyboardInterrupt(), 130, "Stopped."),
    ],
)
def test_errors_of_the_system_and_of_ours(run, monkeypatch, error, code, text):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(cli, "make_app", lambda: broken)
    found, _, errors = run("doctor")
    assert found == code
    assert text in errors
    if code == 1:
        with pytest.raises(type(error)):
            cli.main(["doctor", "--debug"])


@pytest.mark.parametrize("typed", ["paper --quick", "run any.toml", "demo", "report runs/any"])
def test_a_missing_extra_is_named_before_the_work(typed, run, monkeypatch):
    monkeypatch.setattr(output, "find_spec", lambda name: None)
    code, _, errors = run(*typed.split())
    assert code == 1
    assert "pip install 'kinbandits[" in errors


def test_data_lists_and_fetches(run, tmp_path):
    listed = json.loads(run("data", "--json")[1])
    assert [d["name"] for d in listed] == ["digits", "letter", "mnist", "pendigits", "segment", "usps"]
    assert [d["path"] for d in listed] == ["with scikit-learn"] + [None] * 5
    assert "kinbandits data letter mnist" in run("data")[1]
    cached = tmp_path / "cache" / "kinbandits" / "digits.npz"
    assert run("data", "digits")[1].strip() == f"digits: {cached}"
    assert json.loads(run("data", "digits", "--json")[1])[0]["path"] == str(cached)


def test_digits_is_not_here_without_scikit_learn(run, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "sklearn" else real(name, *a))
    assert json.loads(run("data", "--json")[1])[0]["path"] is None
    (finding,) = (f for f in doctor.examine() if f.what == "data sets")
    assert finding.found == "none"
    assert "kinbandits data digits" in finding.advice


def test_doctor(run, monkeypatch):
    monkeypatch.setitem(doctor.OPTIONAL, "'kinbandits[plot]'", ("not-a-package",))
    code, out, _ = run("doctor", "--json")
    findings = {f["what"]: f for f in json.loads(out)}
    for what in ("Python", "kinbandits", "BLAS", "cores", "SQLite", "disk here", "data sets", "scikit-learn"):
        assert what in findings
    assert code == any(f["problem"] for f in findings.values())
    assert findings["not-a-package"]["advice"] == "optional; pip install 'kinbandits[plot]'"
    monkeypatch.setattr(doctor, "examine", lambda: [doctor.Finding("disk", "full", "make room", True)])
    code, out, _ = run("doctor")
    assert code == 1
    assert "make room" in out


@pytest.mark.slow
def test_the_demo_away_from_a_terminal(tmp_path):
    command = [sys.executable, "-m", "kinbandits", "demo", "--seeds", "1", "--jobs", "1", "--horizon", "40"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT, timeout=300)
    assert done.returncode == 0, done.stderr
    for text in ("with descriptors", "Lin-UCB", "The default", "Contribution of each arm", "report/index.html"):
        assert text in done.stdout
    assert "\x1b" not in done.stdout + done.stderr  # no colour
    assert "\r" not in done.stderr  # no animation
    assert "runs: 4 of 4" in done.stderr
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2


@pytest.mark.slow
def test_output_can_be_cut_off():
    command = f"'{sys.executable}' -m kinbandits doctor | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.stderr == ""


@pytest.fixture
def clicks(tmp_path):
    """A CSV file of clicks, and a policy's file."""
    rows = [f"{'ab'[i % 2]},{int(i % 2 == i % 3 // 2)},0.5,0.{i % 7},{i % 3}\n" for i in range(120)]
    (tmp_path / "log.csv").write_text("item,clicked,p,age,hour\n" + "".join(rows))
    (tmp_path / "shop.toml").write_text('[policy]\narms = ["a", "b"]\n')
    return tmp_path / "log.csv"


ITEMS = ("--arm", "item", "--reward", "clicked", "--jobs", 1)


def test_a_csv_file_is_fitted_and_evaluated(run, tmp_path, clicks):
    toml, fitted = tmp_path / "shop.toml", tmp_path / "shop.policy"
    code, out, errors = run("fit", clicks, "--policy", toml, "--out", fitted, *ITEMS, "--context", "age,hour")
    assert (code, errors) == (0, "")
    assert "120 rows learned, 120 in all" in out
    named = ("--propensity", "p", "--context", "age,hour")
    code, out, errors = run("evaluate", clicks, "--policy", fitted, "--policy", toml, *ITEMS, *named)
    assert (code, errors) == (0, "")
    for text in ("95 % interval", "minus ", "dr ", "shop.policy", "shop.toml"):
        assert text in out
    code, out, _ = run("evaluate", clicks, *ITEMS, *named, "--json")  # the default policy
    assert json.loads(out)["policies"]["default"]["n"] == 60
    code, _, _ = run("evaluate", clicks, "--policy", toml, "--policy", toml, *ITEMS, *named, "--gate")
    assert code == 1  # the same name twice is told apart by the path, and the same path cannot be


def test_a_column_that_numbers_the_rows_is_warned_of_in_words(run, clicks):
    header, *rows = clicks.read_text().splitlines()
    clicks.write_text("\n".join([f"{header},user", *(f"{row},{7000 + i}" for i, row in enumerate(rows))]) + "\n")
    code, _, errors = run("evaluate", clicks, *ITEMS, "--propensity", "p")
    assert code == 0
    assert errors.startswith("Warning: column 'user' has 120 values in 120 rows")
    assert "--context" in errors


def test_what_a_log_lacks_is_said(run, tmp_path, clicks):
    code, _, errors = run("evaluate", clicks)
    assert code == 1
    assert "the log has no column 'arm'; it has item, clicked, p, age, hour" in errors
    toml = tmp_path / "shop.toml"
    named = ("--policy", toml, *ITEMS, "--context", "age", "--propensity", "p")
    assert run("evaluate", clicks, *named, "--gate")[0] == 3
    clicks.write_text(clicks.read_text().replace("b,0,0.5,0.1,1", "c,0,0.5,0.1,1"))
    code, _, errors = run("fit", clicks, "--policy", toml, "--out", tmp_path / "x", *ITEMS, "--context", "age")
    assert code == 1
    assert f"{clicks}, row 2: the arm is missing or unknown" in errors or "the arm is missing" in errors
    assert not (tmp_path / "x").exists()
    assert run("evaluate", tmp_path / "news.sqlite3")[0] == 1
