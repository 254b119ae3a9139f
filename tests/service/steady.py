"""A service under steady load on one core: how far the model is behind, how long answers take, and memory.

    python tests/service/steady.py [--minutes 30] [--rate 100]

Half of the events are decisions, half are rewards, sent by the clock whether or not answers come (so that waiting
counts). All on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from harness import Service, Wire

ARMS, FEATURES, CLIENTS = 10, 8, 8
SETTINGS: dict[str, Any] = {"policy": {"arms": ARMS}, "service": {"reward_wait": 0.0, "features": FEATURES}}


def on_one_core(pid: int) -> None:
    """All threads of a process on the last core."""
    core = {max(os.sched_getaffinity(0))}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), core)


class Clients:
    """Ask and reward in turn, each by its own clock."""

    def __init__(self, service: Service, rate: float) -> None:
        self.service, self.pause = service, CLIENTS / rate
        self.answered: list[tuple[float, float]] = []  # (when it was due, seconds), of decisions
        self.failures: list[str] = []
        self.stop = threading.Event()
        self.began = time.monotonic()
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def work(self, number: int) -> None:
        rng = random.Random(number)
        truth = [[random.Random(100 * a + i).gauss(0, 1) for i in range(FEATURES)] for a in range(ARMS)]
        due = self.began + self.pause * number / CLIENTS
        waiting: list[tuple[str, float]] = []
        try:
            with Wire(self.service.port, self.service.token) as wire:
                while not self.stop.is_set():
                    time.sleep(max(0.0, due - time.monotonic()))
                    if len(waiting) < 4:
                        x = [rng.gauss(0, 1) for _ in range(FEATURES)]
                        status, answer = wire.call("POST", "/v1/decisions", {"context": x})
                        self.answered.append((due - self.began, time.monotonic() - due))
                        value = sum(a * b for a, b in zip(x, truth[answer["arm"]], strict=True)) + rng.gauss(0, 1)
                        waiting.append((answer["id"], float(value > 0)))
                    else:
                        name, reward = waiting.pop(0)
                        status, _ = wire.call("PUT", f"/v1/decisions/{name}/reward", {"reward": reward})
                    assert status == 200, status
                    due += self.pause
        except Exception as error:
            self.failures.append(f"{type(error).__name__}: {error}")

    def finish(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(60.0)


def steady(folder: Path, seconds: float, rate: float = 100.0, **policy: Any) -> str:
    """Run it; the account in words."""
    settings = SETTINGS | {"policy": SETTINGS["policy"] | policy}
    service = Service(str(folder / "log.sqlite3"), settings, folder)
    assert service.process.pid is not None
    on_one_core(service.process.pid)
    clients = Clients(service, rate)
    seen: list[tuple[float, float, float, float]] = []  # second, lag, rows, MB
    with Wire(service.port, service.token) as wire:
        while time.monotonic() < clients.began + seconds and not clients.failures:
            time.sleep(0.5)
            text = wire.call("GET", "/metrics")[1].decode()
            lag, rows = (
                float(re.search(rf"^{name} (\S+)", text, re.MULTILINE)[1])  # type: ignore[index]
                for name in ("kinbandits_behind_seconds", "kinbandits_model_observations")
            )
            pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
            seen.append((time.monotonic() - clients.began, lag, rows, pages * os.sysconf("SC_PAGE_SIZE") / 1e6))
    clients.finish()
    assert not clients.failures, clients.failures
    started = time.monotonic()
    service.stop()
    stopped = time.monotonic() - started
    started = time.monotonic()
    service.start()
    restarted = time.monotonic() - started
    service.stop()
    found, answered = np.array(seen), np.array(clients.answered)
    late = found[len(found) // 2 :, 3]
    return (
        f"{2 * len(answered) / seconds:.0f} events/s, {len(answered):,} decisions, {found[-1, 2]:,.0f} rows; "
        f"behind at most {found[:, 1].max():.2f} s (median {np.median(found[:, 1]):.2f}); decisions p50 "
        f"{1e3 * np.quantile(answered[:, 1], 0.5):.1f} ms, p99 {1e3 * np.quantile(answered[:, 1], 0.99):.0f} ms, "
        f"slowest {answered[:, 1].max():.2f} s; memory {late[0]:.0f} MB half-way, {late[-1]:.0f} MB at the end; "
        f"SIGTERM {stopped:.1f} s, start with a snapshot {restarted:.1f} s"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--similarity", help="in place of the default one")
    given = parser.parse_args()
    own = {} if given.similarity is None else {"similarity": {"type": given.similarity}}
    with tempfile.TemporaryDirectory(prefix="kinbandits-steady-") as name:
        print(steady(Path(name), 60.0 * given.minutes, given.rate, **own))
