"""Run a page of the documentation: every fenced block, from top to bottom, in a folder of its own.

    pycon                 a doctest; `python` blocks and these share one namespace for each page
    toml                  written to the file that its first comment names, and read by the loader it is for
    console, bash         run by bash; lines without `$ ` in a console block are output, and compared
    kinbandits serve      started until it is ready, and stopped at the end of the page
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
    "kinbandits paper": "takes minutes to hours; tests/paper and tests/cli have small ones",
    "kinbandits serve news.toml --store postgresql:": "needs a database; tests/service has one",
}
SMALL = {"seeds = 10 ": "seeds = 2 ", "horizon = 1000 ": "horizon = 20 "}  # in experiments, so that they end soon
ELSEWHERE = {"/var/lib/kinbandits/": "", "/backups/": "", "/etc/kinbandits/": ""}  # folders of a real machine


@dataclass
class Page:
    """One page being run."""

    path: Path
    folder: Path
    globals: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    servers: list[subprocess.Popen[str]] = field(default_factory=list)
    ran: int = 0

    def __post_init__(self) -> None:
        self.port = str(free_port())
        command = self.folder / "bin" / "kinbandits"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(CLI)} "$@"\n')
        command.chmod(0o755)
        paths = os.pathsep.join(p for p in sys.path if p)
        self.environment = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": paths}
        self.environment |= {"COLUMNS": "200", "TERM": "dumb", "LOKY_MAX_CPU_COUNT": "1"}

    def run(self) -> None:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            for language, text, line in blocks(self.path):
                kind = language.split("}")[0].strip("{")
                block = getattr(self, KINDS.get(kind, ""), None)
                assert block is not None, f"{self.path.name}:{line}: no way is known to check a block of {language!r}"
                block(text.replace("8321", self.port), language, f"{self.path.name}:{line}")
                self.ran += 1
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
        assert name, f"{where}: the first line names the file"
        path = self.folder / name[1]
        path.write_text(text)
        if "policy" in tomllib.loads(text):
            from kinbandits.service.config import load_settings

            load_settings(path)
        else:
            from kinbandits.experiments import load_experiment

            load_experiment(path)

    def shell(self, text: str, language: str, where: str) -> None:
        for command, wanted in commands(text, prompts=language == "console"):
            for there, here in ELSEWHERE.items():
                command = command.replace(there, here)
            if command.startswith(tuple(NOT_RUN)):
                look_at(command, where)
            elif command.startswith("kinbandits serve"):
                self.serve(command, where)
            elif variable := re.match(r"export (\w+)=", command):
                self.command(command + f'; printf %s "${variable[1]}" > variable', "", where)
                os.environ[variable[1]] = self.environment[variable[1]] = (self.folder / "variable").read_text()
            else:
                self.command(command, wanted, where)

    def command(self, command: str, wanted: str, where: str) -> None:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command.replace("curl -s ", "curl -sf ")],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        )  # fmt: skip
        assert (done.returncode != 0) == wanted.startswith("Error:"), f"{where}: {command}\n{done.stdout}"
        if wanted:
            same = doctest.OutputChecker().check_output(wanted, done.stdout, FLAGS)
            assert same, f"{where}: {command}\n{done.stdout}\n-- but the page says\n{wanted}"

    def serve(self, command: str, where: str) -> None:
        out = self.folder / f"serve-{len(self.servers)}.txt"
        with out.open("w") as file:
            server = subprocess.Popen(
                [*shlex.split(command), "--port", self.port],
                env=self.environment, stdout=file, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        self.servers.append(server)
        until = time.monotonic() + 90
        while not ready(self.port):
            assert server.poll() is None, f"{where}: {command} ended:\n{out.read_text()}"
            assert time.monotonic() < until, f"{where}: {command} is not ready:\n{out.read_text()}"
            time.sleep(0.1)
        if "--demo" in command:  # it keeps the port; what follows is the reader's own
            self.servers.remove(server)
            server.send_signal(signal.SIGINT)
            assert server.wait(30) in (0, 130), f"{where}: {out.read_text()}"

    def shown(self, text: str, language: str, where: str) -> None:
        """An image: the file is there."""
        name = language.partition("}")[2].strip()
        assert (self.path.parent / name).exists(), f"{where}: there is no {name}"

    def reference(self, text: str, language: str, where: str) -> None:
        at = "kinbandits"
        for directive, name, members in re.findall(
            r"^\.\. (currentmodule|auto\w+):: (\S+)(?:\n +:members:(.*))?$", text, flags=re.MULTILINE
        ):
            thing = find(name if name.startswith(f"{at}") else f"{at}.{name}")
            for member in filter(None, map(str.strip, members.split(","))):
                assert hasattr(thing, member), f"{where}: {directive} {name} has no {member}"

    def unit(self, text: str, language: str, where: str) -> None:
        """A systemd unit: the command it starts is one of ours."""
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_string(text)
        look_at(parser["Service"]["ExecStart"].rsplit("/bin/", 1)[1], where)

    def nothing(self, text: str, language: str, where: str) -> None:
        """Another program's file, and the table of contents, which a test of its own reads."""


KINDS = {
    "pycon": "pycon", "python": "python", "toml": "toml", "console": "shell", "bash": "shell", "": "shell",
    "ini": "unit", "image": "shown", "eval-rst": "reference", "toctree": "nothing", "nginx": "nothing",
}  # fmt: skip


def blocks(path: Path) -> list[tuple[str, str, int]]:
    """(language, text, line) of each fenced block."""
    page = path.read_text(encoding="utf-8")
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
            pattern = rf"^{target}:"
            assert re.search(pattern, (ROOT / "Makefile").read_text(), flags=re.MULTILINE), f"{where}: {target}"
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
