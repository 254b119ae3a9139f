"""``kinbandits serve --demo``: a throw-away service, and simulated visitors who ask it and reward it.

Twelve articles in three families; what a visitor likes depends on two numbers, in the same way within a family.
Rewards come late, some never, a few twice: as in life. Half-way a new article is added and an old one retired.
"""

from __future__ import annotations

import math
import random
import threading
import time

from kinbandits.client import Choice, Client, ServiceError
from kinbandits.service.config import ServiceSettings, Settings

FAMILIES = {"sport": (1.2, 0.2), "science": (-0.6, 1.1), "music": (-0.7, -1.0)}
ARMS = [f"{family}-{i}" for i in range(1, 5) for family in FAMILIES]
_POLICY = {
    "arms": ARMS,
    "context_kernel": {"type": "RBF", "length_scale": 1.0},
    "similarity": {"type": "Estimated", "length_scale": 0.5},
    "epsilon": 0.1,
}
SETTINGS = Settings(policy=_POLICY, service=ServiceSettings(reward_wait=20.0, default_reward=0.0, snapshot_every=500))


def reward_of(arm: str, context: list[float], rng: random.Random) -> float:
    """1 or 0: whether the visitor liked it."""
    family, _, number = arm.partition("-")
    u, v = FAMILIES[family]
    liking = u * context[0] + v * context[1] + 0.1 * int(number) - 0.4
    return float(rng.random() < 1.0 / (1.0 + math.exp(-2.0 * liking)))


def simulate(client: Client, seconds: float, rng: random.Random, pause: float = 0.03) -> int:
    """Visitors for so long; how many there were."""
    end = time.monotonic() + seconds
    due: list[tuple[float, Choice, float]] = []
    visitors = 0
    while time.monotonic() < end:
        context = [rng.gauss(0, 1), rng.gauss(0, 1)]
        choice, visitors = client.decide(context), visitors + 1
        if rng.random() < 0.9:  # the others never say
            due.append((time.monotonic() + rng.expovariate(0.5), choice, reward_of(str(choice.arm), context, rng)))
        for item in [d for d in due if d[0] <= time.monotonic()]:
            due.remove(item)
            for _ in range(2 if rng.random() < 0.05 else 1):
                client.reward(item[1], item[2])
        if visitors == 600 and not any(a.arm == "science-5" for a in client.arms()):
            client.add_arm("science-5")
            client.retire_arm("sport-1")
        time.sleep(pause)
    return visitors


def send_visitors(address: str, token: str) -> None:
    """Visitors, as long as the service is there."""

    def visit() -> None:
        rng = random.Random(1)
        with Client(address, token) as client:
            while not client.ready():
                time.sleep(0.1)
            try:
                while True:
                    simulate(client, 60.0, rng)
            except ServiceError:
                return  # the service has ended

    threading.Thread(target=visit, daemon=True).start()
