"""Fixtures of the service tests: stores of both kinds. What cannot be had is skipped, and said so."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra: pip install 'kinbandits[serve]'")
pytest.importorskip("sqlalchemy", reason="the service needs the extra: pip install 'kinbandits[serve]'")

from commands import TOML, Run
from harness import Service
from postgres_server import Server, why_not

with warnings.catch_warnings():  # newer Starlettes would rather have httpx2; httpx does
    warnings.simplefilter("ignore")
    import starlette.testclient  # noqa: F401

from kinbandits.cli import main
from kinbandits.service.store import Store, open_store


def left_out(what: str) -> None:
    """Skip, unless the run is one where nothing may be left out."""
    if os.environ.get("KINBANDITS_ALL_TESTS"):
        pytest.fail(f"{what}, and KINBANDITS_ALL_TESTS is set")
    pytest.skip(what)


@pytest.fixture(autouse=True)
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots of logs in PostgreSQL stay in the test's own folder."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    reason = why_not()
    if reason:
        left_out(reason)
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres_server: Server) -> str:
    return postgres_server.new_database()


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "log.sqlite3")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def open_log(store_url: str) -> Iterator[Callable[..., Store]]:
    """Opens the log (again); closes all at the end."""
    opened: list[Store] = []

    def opener(**options: bool) -> Store:
        store = open_store(store_url, **options)
        opened.append(store)
        return store

    yield opener
    for store in opened:
        store.close()


@pytest.fixture
def store(open_log: Callable[..., Store]) -> Store:
    return open_log()


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with the module's SETTINGS."""
    folder = tmp_path_factory.mktemp("service")
    service = Service(str(folder / "log.sqlite3"), request.module.SETTINGS, folder)
    yield service
    service.stop()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command as a user types it; its exit code must be ``code``."""

    def command(*arguments: object, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        captured = capsys.readouterr()
        assert ended.value.code == code, captured.out + captured.err
        return captured.out + captured.err

    return command


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(TOML)
    return path
