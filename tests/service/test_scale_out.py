"""Several processes over one PostgreSQL log: each follows it, one keeps house, and another takes over."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from harness import Load, Service, Wire, audit, until

from kinbandits.service.store import open_store

SETTINGS: dict[str, Any] = {
    "policy": {
        "arms": ["a", "b", "c"],
        "context_kernel": {"type": "RBF"},
        "similarity": {"type": "Mixed", "mu": 0.3},
    },
    "service": {"snapshot_every": 40, "reward_wait": 2.0, "default_reward": 0.0},
}


@pytest.mark.slow
def test_two_processes_one_log(postgres_url: str, tmp_path: Path) -> None:
    one = Service(postgres_url, SETTINGS, tmp_path)
    two = Service(postgres_url, SETTINGS, tmp_path)
    try:
        with Wire(one.port, one.token) as first, Wire(two.port, two.token) as second:
            made = first.call("POST", "/v1/decisions", {"context": [0.1, 0.2], "key": "k"})[1]
            other = second.call("POST", "/v1/decisions", {"context": [0.1, 0.2]})[1]
            assert made["id"].split("-")[0] != other["id"].split("-")[0]  # each has its own slot
            assert second.call("POST", "/v1/decisions", {"context": [0.1, 0.2], "key": "k"})[1] == made
            path = f"/v1/decisions/{made['id']}/reward"
            assert second.call("PUT", path, {"reward": 1.0})[0] == 200  # whoever is asked
            assert first.call("PUT", path, {"reward": 0.0})[0] == 409
            # An arm added at one is a candidate at the other; both learn the reward. Staleness is bounded.
            assert first.call("POST", "/v1/arms", {"arm": "d"})[0] == 200
            stale = until(lambda: "d" in second.call("GET", "/v1/policy")[1]["arms"])
            assert stale < 5.0
            until(lambda: first.call("GET", "/v1/policy")[1]["observations"] >= 1)
            until(lambda: second.call("GET", "/v1/policy")[1]["observations"] >= 1)
            # The leader dies; the other defaults the decision that stays without a reward.
            one.kill()
            until(lambda: second.call("GET", f"/v1/decisions/{other['id']}")[1]["state"] == "defaulted")
            third = second.call("POST", "/v1/decisions", {"context": [0.3, 0.2]})[1]
            assert second.call("PUT", f"/v1/decisions/{third['id']}/reward", {"reward": 1.0})[0] == 200
            until(lambda: second.call("GET", "/v1/policy")[1]["states"]["rewarded"] == 2)
        one.start()
        with Wire(one.port, one.token) as first, Wire(two.port, two.token) as second:
            until(lambda: first.call("GET", "/v1/policy")[1]["states"]["rewarded"] == 2)
            mine, theirs = (w.call("GET", "/v1/similarity")[1] for w in (first, second))
            assert mine == theirs
    finally:
        one.stop()
        two.stop()


@pytest.mark.slow
def test_both_under_load_with_kills(postgres_url: str, tmp_path: Path) -> None:
    settings = {**SETTINGS, "service": {"snapshot_every": 40, "reward_wait": 0.0}}
    one = Service(postgres_url, settings, tmp_path)
    two = Service(postgres_url, settings, tmp_path)
    loads = [Load(one, clients=2), Load(two, clients=2)]
    for _ in range(2):
        time.sleep(0.5)
        one.kill()
        one.start()
    for load in loads:
        load.finish()
    until(lambda: observations(one) == observations(two) == sum(len(load.rewarded) for load in loads))
    one.stop()
    two.stop()
    both = loads[0]
    both.decided |= loads[1].decided
    both.rewarded |= loads[1].rewarded
    store = open_store(postgres_url)
    audit(store, both)
    store.close()


def observations(service: Service) -> int:
    with Wire(service.port, service.token) as wire:
        return int(wire.call("GET", "/v1/policy")[1]["observations"])
