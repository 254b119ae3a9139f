"""Run a page of the documentation: every fenced block, from top to bottom, in a folder of its own.

    pycon                 a doctest; `python` blocks and these share one namespace for each page
    toml                  written to the file that its first comment names, and read by the loader it is for
    console, bash, sh     run by bash; lines without `$ ` in a console block are output, and compared
    kinbandits serve      started until it is ready, stopped at the end of the page; `$TOKEN` is the token it showed
    {directives}          the file they show is there, the names they document can be imported

What cannot be run here stands in `NOT_RUN`, with the reason: such a command is still parsed by the command line.
"""

from __future__ import annotations

import configparser
import doctest
import importlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
CLI = "import sys; from kinbandits.cli import main; main(sys.argv[1:])"

NOT_RUN = {  # how a command begins: why it is only looked at
    "pip install": "changes the environment",
    "python3 -m venv": "changes the machine",
    "useradd": "changes the machine",
    "make ": "calls these tests, or takes minutes",
    "python benchmarks/": "takes minutes to hours",
    "python examples/peptides.py": "needs the measurements; tests/test_examples.py runs it",
    "kinbandits demo": "takes minutes; .ci/run runs it",
    "kinbandits paper": "takes minutes to hours; tests/experiments has small ones",
    "kinbandits theory": "takes a minute; tests/cli runs it",
    "kinbandits data fetch": "needs the network",
    "kinbandits data path usps": "needs the data set",
    "kinbandits run news.toml --backend dask": "starts a cluster; tests/experiments does",
    "kinbandits fit /shared/": "needs a cluster; tests/bulk has one",
    "kinbandits serve news.toml --store postgresql:": "needs a database; tests/service has one",
}
SMALL = {"seeds = 10 ": "seeds = 2 ", "horizon = 1000 ": "horizon = 20 "}  # in experiments, so that they end soon
ELSEWHERE = re.compile(r"/(?:var/lib/kinbandits|backups|etc/kinbandits)\b")  # folders of a real machine: here


@dataclass
class Page:
    """One page being run."""

    path: Path
    folder: Path
    globals: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    servers: list[subprocess.Popen[str]] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ports = {"8321": str(free_port()), "8322": str(free_port())}
        command = self.folder / "bin" / "kinbandits"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(CLI)} "$@"\n')
        command.chmod(0o755)
        paths = os.pathsep.join(p for p in sys.path if p)
        self.environment = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": paths}
        self.environment |= {"COLUMNS": "200", "TERM": "dumb"}

    def run(self, prepare: Callable[[Page], None] | None = None) -> None:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            if prepare:
                prepare(self)
            for language, text, line in blocks(self.path):
                where = f"{self.path.name}:{line}"
                kind = language.split("}")[0] + "}" if language.startswith("{") else language
                if kind not in KINDS:
                    raise AssertionError(f"{where}: no way is known to check a block of {language!r}")
                for there, here in self.ports.items():
                    text = text.replace(there, here)
                KINDS[kind](self, text, language, where)
                self.ran.append(f"{where} {language}")
        finally:
            os.chdir(before)
            for server in self.servers:
                server.terminate()
                server.wait(20)

    def pycon(self, text: str, language: str, where: str) -> None:
        test = doctest.DocTestParser().get_doctest(text, self.globals, where, str(self.path), 0)
        test.globs = self.globals  # get_doctest copies: later blocks are to see what this one defines
        said: list[str] = []
        failed, tried = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
        assert tried, f"{where}: no examples"
        assert not failed, "".join(said)

    def python(self, text: str, language: str, where: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(text, where, "exec"), self.globals)

    def toml(self, text: str, language: str, where: str) -> None:
        for there, here in SMALL.items():
            text = text.replace(there, here)
        name = re.match(r"# (\S+\.toml)\n", text)
        path = self.folder / (name[1] if name else f"block-{where.rsplit(':', 1)[1]}.toml")
        path.write_text(text)
        if "policy" in tomllib.loads(text):
            from kinbandits.service.config import load_settings

            load_settings(path)
        else:
            from kinbandits.experiments import load_experiment

            load_experiment(path)

    def shell(self, text: str, language: str, where: str) -> None:
        for command, wanted in commands(text, prompts=language == "console"):
            command = ELSEWHERE.sub(".", command)
            if reason := next((start for start in NOT_RUN if command.startswith(start)), None):
                self.not_run.append(reason)
                look_at(command, where)
            elif command.startswith("kinbandits serve"):
                self.serve(command, where)
            else:
                self.command(command, wanted, where)

    def command(self, command: str, wanted: str = "", where: str = "") -> None:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command.replace("curl -s ", "curl -sf ")],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        )  # fmt: skip
        assert (done.returncode != 0) == wanted.startswith("Error:"), f"{where}: {command}\n{done.stdout}"
        if command.startswith("kinbandits token new"):
            self.environment["TOKEN"] = os.environ["TOKEN"] = done.stdout.strip()
        if wanted:
            same = doctest.OutputChecker().check_output(wanted, done.stdout, FLAGS)
            assert same, f"{where}: {command}\n{done.stdout}\n-- but the page says\n{wanted}"

    def serve(self, command: str, where: str) -> None:
        port = re.search(r"--port (\d+)", command)
        number = port[1] if port else self.ports["8321"]
        out = self.folder / f"serve-{len(self.servers)}.txt"
        with out.open("w") as file:
            server = subprocess.Popen(
                shlex.split(command) + ([] if port else ["--port", number]),
                env=self.environment, stdout=file, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        self.servers.append(server)
        until = time.monotonic() + 90
        while not ready(number):
            assert server.poll() is None, f"{where}: {command} ended:\n{out.read_text()}"
            assert time.monotonic() < until, f"{where}: {command} is not ready:\n{out.read_text()}"
            time.sleep(0.1)
        if "--demo" in command:  # it keeps the port; what follows is the reader's own
            self.servers.remove(server)
            server.send_signal(signal.SIGINT)
            assert server.wait(30) in (0, 130), f"{where}: {out.read_text()}"

    def shown(self, text: str, language: str, where: str) -> None:
        """literalinclude, image, csv-table: the file is there."""
        name = re.search(r":file: (\S+)", text) or re.search(r"\} (\S+)", language)
        assert name, f"{where}: no file"
        assert (self.path.parent / name[1]).exists(), f"{where}: there is no {name[1]}"

    def reference(self, text: str, language: str, where: str) -> None:
        for name in re.findall(r"^\.\. auto\w+:: (\S+)", text, flags=re.MULTILINE):
            find(name)
        for module, members in re.findall(r"^\.\. automodule:: (\S+)\n\s+:members:(.*)$", text, flags=re.MULTILINE):
            for member in filter(None, map(str.strip, members.split(","))):
                assert hasattr(find(module), member), f"{where}: {module} has no {member}"

    def unit(self, text: str, language: str, where: str) -> None:
        """A systemd unit: the command it starts is one of ours."""
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_string(text)
        look_at(parser["Service"]["ExecStart"].rsplit("/bin/", 1)[1], where)

    def nothing(self, text: str, language: str, where: str) -> None:
        """Pictures of something else: formulas, contents, another program's file."""


KINDS: dict[str, Callable[[Page, str, str, str], None]] = {
    "pycon": Page.pycon,
    "python": Page.python,
    "toml": Page.toml,
    "console": Page.shell,
    "bash": Page.shell,
    "sh": Page.shell,
    "": Page.shell,
    "ini": Page.unit,
    "{literalinclude}": Page.shown,
    "{image}": Page.shown,
    "{figure}": Page.shown,
    "{csv-table}": Page.shown,
    "{eval-rst}": Page.reference,
    "{toctree}": Page.nothing,
    "{math}": Page.nothing,
    "{note}": Page.nothing,
    "nginx": Page.nothing,
    "text": Page.nothing,
}


def blocks(path: Path) -> list[tuple[str, str, int]]:
    """(language, text, line) of each fenced block."""
    page = path.read_text()
    return [(m[1].strip(), m[2], page.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(page)]


def commands(text: str, prompts: bool) -> list[tuple[str, str]]:
    """(command, output that the page shows) of a shell block."""
    found: list[tuple[str, str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if prompts and not line.startswith("$ "):
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
        elif line.strip() and not line.startswith("#"):
            found.append((re.sub(r"\s+# .*$", "", line.removeprefix("$ ")).strip(), ""))
    return found


def look_at(command: str, where: str) -> None:
    """A command that is not run: it exists, and takes these options."""
    words = shlex.split(command)
    if words[0] == "make":
        for target in words[1:]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), (
                f"{where}: {target}"
            )
    elif words[0] == "python":
        script = ROOT / words[1]
        script = script / "__main__.py" if script.is_dir() else script
        source = "".join(p.read_text() for p in {script, *script.parent.glob("*.py")} if script.is_file())
        for option in (w for w in words[2:] if w.startswith("--")):
            found = re.search(rf"\b{option[2:].replace('-', '[-_]')}\b", source)
            assert found, f"{where}: {words[1]} has no {option}"
    elif words[0] == "kinbandits":
        import typer

        from kinbandits.cli import make_app

        command_, rest = typer.main.get_command(make_app()), words[1:]
        context = command_.make_context("kinbandits", list(rest))
        while hasattr(command_, "commands"):
            assert rest[0] in command_.commands, f"{where}: there is no command {rest[0]}"
            command_, rest = command_.commands[rest[0]], rest[1:]
            context = command_.make_context(command_.name or "", list(rest), parent=context)


def find(name: str) -> Any:
    """The module, or the thing in a module, of this name."""
    try:
        return importlib.import_module(name)
    except ImportError:
        module, _, last = name.rpartition(".")
        return getattr(find(module), last)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def ready(port: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
