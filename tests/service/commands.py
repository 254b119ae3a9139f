"""Logs to try commands on."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from kinbandits.service.config import load_settings
from kinbandits.service.engine import Engine
from kinbandits.service.requests import Decide, Reward, Void
from kinbandits.service.store import open_store

TOML = """
[policy]
arms = ["a", "b", 3]
context_kernel = { type = "RBF", length_scale = 1.0 }
epsilon = 0.3
[service]
reward_wait = 0.0
"""

Run = Callable[..., str]


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fill(url: str, config: Path, rounds: int = 120) -> None:
    rng = random.Random(0)
    store = open_store(url)
    engine = Engine(store, load_settings(config))
    engine.start()
    for i in range(rounds):
        answer = engine.ask(Decide([rng.gauss(0, 1), rng.gauss(0, 1)]))
        if i % 10 == 3:
            engine.ask(Void(answer["id"], "no"))
        elif i % 10 != 7:
            engine.ask(Reward(answer["id"], float(answer["arm"] == "b")))
    engine.stop()
    store.close()
