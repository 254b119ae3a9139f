"""The service, or its database, is killed under load: nothing acknowledged is lost, nothing counts twice.

`make soak` does the same with ten times as many kills.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from harness import Load, Service, audit, kill_at_work, kill_under_load
from postgres_server import Server

from kinbandits.service.store import open_store

SETTINGS: dict[str, Any] = {
    "policy": {
        "arms": ["a", "b", "c", "d"],
        "context_kernel": {"type": "RBF"},
        "similarity": {"type": "Mixed", "mu": 0.3},
        "engine": {"type": "Budgeted", "points": 64},  # thousands of rewards must not slow down every later start
    },
    "service": {"snapshot_every": 50, "reward_wait": 0.0},
}


@pytest.mark.slow
def test_sqlite_service_killed(tmp_path: Path) -> None:
    found = kill_under_load(str(tmp_path / "log.sqlite3"), tmp_path, SETTINGS, kills=20)
    assert found["decisions"] >= 20 * 5


@pytest.mark.slow
def test_service_killed_at_work(tmp_path: Path) -> None:
    """In a choice, the change-over or a snapshot: afterwards the model is what a replay of the log makes."""
    found = kill_at_work(str(tmp_path / "log.sqlite3"), tmp_path, kills=6)
    assert sum(found["kills"].values()) == 6


@pytest.mark.slow
def test_postgres_service_killed(tmp_path: Path, postgres_url: str) -> None:
    found = kill_under_load(postgres_url, tmp_path, SETTINGS, kills=5)
    assert found["decisions"] >= 5 * 5


@pytest.mark.slow
def test_postgres_itself_stopped_in_immediate_mode(tmp_path: Path, postgres_server: Server) -> None:
    stop_database_under_load(postgres_server, tmp_path, stops=2)


def stop_database_under_load(server: Server, folder: Path, stops: int) -> dict[str, int]:
    rng = random.Random(1)
    url = server.new_database()
    service = Service(url, SETTINGS, folder)
    load = Load(service, clients=4)
    for _ in range(stops):
        time.sleep(rng.uniform(0.2, 0.6))
        before = len(load.decided)
        server.stop("immediate")
        server.start()
        deadline = time.monotonic() + 30.0
        while len(load.decided) <= before + 8:  # it works again by itself
            assert time.monotonic() < deadline
            time.sleep(0.02)
    load.finish()
    service.stop()
    store = open_store(url)
    counts = audit(store, load)
    store.close()
    return counts
