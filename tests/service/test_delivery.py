"""Rewards delivered one to five times, shuffled, by eight clients, with the service killed in between."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from harness import Service, Wire

from kinbandits.service.store import open_store
from kinbandits.service.verify import verify

SETTINGS: dict[str, Any] = {
    "policy": {"arms": 5, "context_kernel": {"type": "Linear"}},
    "service": {"reward_wait": 0.0, "snapshot_every": 2000},
}


def deliver(url: str, folder: Path, deliveries: int, kills: int = 2, clients: int = 8) -> dict[str, int]:
    """Exactly one learning update per rewarded decision, whatever was delivered how often."""
    service = Service(url, SETTINGS, folder)
    rng = random.Random(0)
    times, left = [], deliveries
    while left > 0:
        times.append(rng.randint(1, 5))
        left -= times[-1]
    ids: list[str] = []

    def decide(share: int) -> None:
        with Wire(service.port, service.token) as wire:
            for i in range(share, len(times), clients):
                ids.append(wire.call("POST", "/v1/decisions", {"context": [i / len(times), 1.0]})[1]["id"])

    run(decide, clients)
    values = {name: float(i % 3) for i, name in enumerate(sorted(ids))}
    jobs = [name for name, n in zip(sorted(ids), times, strict=True) for _ in range(n)]
    rng.shuffle(jobs)
    statuses: dict[int, int] = {}
    conflicts: list[int] = []

    def reward(share: int) -> None:
        wire = Wire(service.port, service.token)
        for i in range(share, len(jobs), clients):
            name = jobs[i]
            while True:
                try:
                    status = wire.call("PUT", f"/v1/decisions/{name}/reward", {"reward": values[name]})[0]
                    if status == 200:
                        break
                except OSError:
                    status = 0
                except Exception as error:  # the connection was cut in the middle of an answer
                    if type(error).__module__ != "http.client":
                        raise
                    status = 0
                wire._connection.close()
                time.sleep(0.02)
                assert status in (0, 503), status
            statuses[status] = statuses.get(status, 0) + 1
            if i % 50 == 0:  # now and then another value, which must be refused
                try:
                    conflicts.append(wire.call("PUT", f"/v1/decisions/{name}/reward", {"reward": 7.0})[0])
                except Exception:
                    wire._connection.close()
        wire._connection.close()

    killed = 0

    def kill() -> None:
        nonlocal killed
        for _ in range(kills):
            time.sleep(0.8)
            service.kill()
            service.start()
            killed += 1

    killer = threading.Thread(target=kill)
    killer.start()
    run(reward, clients)
    killer.join()
    assert killed == kills, f"the service came back {killed} times of {kills}"
    with Wire(service.port, service.token) as wire:
        for _ in range(3000):
            policy = wire.call("GET", "/v1/policy")[1]
            if policy["model"] >= policy["events"]:
                break
            time.sleep(0.02)
    service.stop()
    store = open_store(url, readonly=True)
    rewards = [e for e in store.read_all() if e.kind == "reward"]
    assert verify(store) == []
    store.close()
    assert len(rewards) == len({e.decision for e in rewards}) == len(ids), "not one reward for each decision"
    assert all(e.body["reward"] == values[str(e.decision)] for e in rewards)
    assert policy["observations"] == len(ids), "not one update for each rewarded decision"
    assert set(conflicts) <= {409, 503}
    assert 409 in conflicts
    return {"decisions": len(ids), "deliveries": len(jobs), "updates": policy["observations"], "kills": kills}


def run(work: Any, clients: int) -> None:
    problems: list[BaseException] = []

    def guarded(share: int) -> None:
        try:
            work(share)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if problems:
        raise problems[0]


@pytest.mark.parametrize("deliveries", [800, pytest.param(50_000, marks=[pytest.mark.slow, pytest.mark.soak])])
def test_each_reward_is_learned_once(tmp_path: Path, deliveries: int) -> None:
    found = deliver(str(tmp_path / "log.sqlite3"), tmp_path, deliveries, kills=1 if deliveries < 1000 else 10)
    print(found)
    assert found["deliveries"] > 0.9 * deliveries
