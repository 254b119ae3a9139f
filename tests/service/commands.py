"""Logs to try commands on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kinbandits.service.config import ServiceSettings, Settings, load_settings
from kinbandits.service.engine import Engine
from kinbandits.service.ledger import Decide, Reward, Void
from kinbandits.service.store import open_store

TOML = """
[policy]
arms = ["a", "b", 3]
context_kernel = { type = "RBF", length_scale = 1.0 }
epsilon = 0.3
[service]
reward_wait = 0.0
"""
POLICY: dict[str, Any] = {
    "arms": ["a", "b", "c"],
    "similarity": {"type": "Mixed", "mu": 0.5},
    "context_kernel": {"type": "RBF", "length_scale": 1.0},
    "ridge": 0.01,
    "exploration": 0.1,
    "epsilon": 0.2,
}

Run = Callable[..., str]


def settings(**service: Any) -> Settings:
    return Settings(policy=POLICY, service=ServiceSettings(**{"reward_wait": 0.0, **service}))


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def running(url: str, settings: Settings, **options: Any) -> Iterator[Engine]:
    """An engine on the log at ``url``."""
    store = open_store(url)
    engine = Engine(store, settings, **options)
    try:
        engine.start(wait=30.0)
        yield engine
    finally:
        engine.stop()
        store.close()


def fill(url: str, config: Path, rounds: int = 120) -> None:
    rng = random.Random(0)
    with running(url, load_settings(config)) as engine:
        for i in range(rounds):
            answer = engine.ask(Decide([rng.gauss(0, 1), rng.gauss(0, 1)]))
            if i % 10 == 3:
                engine.ask(Void(answer["id"], "no"))
            elif i % 10 != 7:
                engine.ask(Reward(answer["id"], float(answer["arm"] == "b")))
