"""The service, or its database, is killed under load: nothing acknowledged is lost, nothing counts twice.

The slow ones are the full counts.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from harness import LINEAR, Load, Service, audit, kill_at_work, kill_under_load
from postgres_server import Server

from kinbandits.service.store import open_store

SETTINGS: dict[str, Any] = {"policy": LINEAR, "service": {"snapshot_every": 50, "reward_wait": 0.0, "features": 2}}


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.soak])])
def test_sqlite_service_killed(tmp_path: Path, kills: int) -> None:
    found = kill_under_load(str(tmp_path / "log.sqlite3"), tmp_path, SETTINGS, kills)
    print(found)
    assert found["decisions"] >= kills * 5


@pytest.mark.slow
def test_service_killed_at_work(tmp_path: Path) -> None:
    """Inside a choice, a commit, learning, and a snapshot: afterwards the model is what a replay of the log
    makes."""
    found = kill_at_work(str(tmp_path / "log.sqlite3"), tmp_path, kills=12)
    print(found)
    assert sum(found["kills"].values()) == 12


@pytest.mark.slow
def test_postgres_service_killed(tmp_path: Path, postgres_url: str) -> None:
    found = kill_under_load(postgres_url, tmp_path, SETTINGS, kills=30)
    print(found)
    assert found["decisions"] >= 30 * 5


@pytest.mark.slow
def test_postgres_itself_stopped_in_immediate_mode(tmp_path: Path, postgres_server: Server) -> None:
    print(stop_database_under_load(postgres_server, tmp_path, stops=20))


def stop_database_under_load(server: Server, folder: Path, stops: int) -> dict[str, int]:
    """The service ends with its connection, and is started again, as systemd does."""
    rng = random.Random(1)
    url = server.new_database()
    service = Service(url, SETTINGS, folder, restarts=True)
    load = Load(service, clients=4)
    for _ in range(stops):
        time.sleep(rng.uniform(0.2, 0.6))
        before = len(load.decided)
        server.stop("immediate")
        server.start()
        deadline = time.monotonic() + 60.0
        while len(load.decided) <= before + 8:  # it works again by itself
            assert time.monotonic() < deadline
            time.sleep(0.02)
    load.finish()
    service.stop()
    store = open_store(url, readonly=True)
    counts = audit(store, load)
    store.close()
    return {"stops": stops, **counts}
