"""A real service in a process of its own, on 127.0.0.1, that can be killed; and clients that put it under load."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, Self

from kinbandits.client import Choice, Client
from kinbandits.service.auth import new_token
from kinbandits.service.config import Settings
from kinbandits.service.learner import replay
from kinbandits.service.server import listen
from kinbandits.service.store import Store, open_store
from kinbandits.service.verify import verify

# A model of constant cost, so that thousands of rewards do not slow down every later start.
LINEAR: dict[str, Any] = {
    "arms": ["a", "b", "c", "d"],
    "context_kernel": {"type": "Linear"},
    "similarity": {"type": "Mixed", "mu": 0.3},
    "ridge": 0.1,
    "exploration": 0.5,
    "engine": "exact",
}

_CONTEXT: ForkServerContext | None = None


def fork_server() -> ForkServerContext:
    """Processes are forked from one that has imported everything: a start takes no time, a kill is real."""
    global _CONTEXT
    if _CONTEXT is None:
        _CONTEXT = multiprocessing.get_context("forkserver")
        _CONTEXT.set_forkserver_preload(
            ["kinbandits.service.server", "psycopg", "sqlalchemy.dialects.postgresql.psycopg"]
        )
    return _CONTEXT


def until(true: Callable[[], bool], seconds: float = 20.0) -> float:
    """Seconds until it was true."""
    started = time.monotonic()
    while not true():
        assert time.monotonic() < started + seconds
        time.sleep(0.01)
    return time.monotonic() - started


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _serve(url: str, settings: dict[str, Any], wire: socket.socket, log: str, fault: str) -> None:
    sys.stderr = open(log, "a", buffering=1)  # noqa: SIM115 (for the life of the process)
    from kinbandits.service import server
    from kinbandits.service.auth import Tokens
    from kinbandits.service.engine import Engine

    server.set_up_logs("warning")
    if fault:
        _die_in(fault)
    os.environ["STATE_DIRECTORY"] = str(Path(log).parent / "state")
    store = open_store(url)
    server.run(Engine(store, Settings.model_validate(settings)), Tokens(Path(log).parent / "tokens.toml"), wire)
    store.close()


class Service:
    """A running service. ``kill()`` is SIGKILL, ``stop()`` is SIGTERM, ``start()`` starts it again.

    With ``restarts`` it is started again when it ends by itself, as systemd does.
    """

    def __init__(
        self,
        url: str,
        settings: dict[str, Any],
        folder: Path,
        patience: float = 30.0,
        restarts: bool = False,
        start: bool = True,
    ) -> None:
        self.patience = patience  # seconds for a start
        self.url, self.settings, self.port, self.folder = url, settings, free_port(), folder
        self.log = folder / f"service-{self.port}.log"
        if not (folder / "tokens.toml").exists():
            (folder / "token").write_text(new_token(folder / "tokens.toml", "test", ["admin"]))
        self.token = (folder / "token").read_text()
        self.address = f"http://127.0.0.1:{self.port}"
        self.wanted = True
        self.fault = ""  # a place in which the next start is killed: see `_die_in`
        if start:
            self.start()
        if restarts:
            threading.Thread(target=self._keep_up, daemon=True).start()

    def _keep_up(self) -> None:
        while self.wanted:
            if not self.process.is_alive() and self.wanted:
                self.start(wait=False)
            time.sleep(0.2)

    def start(self, wait: bool = True) -> float:
        """Seconds until it was ready."""
        started = time.monotonic()
        wire = listen("127.0.0.1", self.port)
        arguments = (self.url, self.settings, wire, str(self.log), self.fault)
        self.process = fork_server().Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        wire.close()
        while wait and not self.ready():
            assert self.process.is_alive(), self.log.read_text()
            assert time.monotonic() < started + self.patience, self.log.read_text()
            time.sleep(0.01)
        return time.monotonic() - started

    def ready(self) -> bool:
        try:
            with Wire(self.port, self.token, timeout=5.0) as wire:
                return wire.call("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def kill(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()

    def stop(self) -> None:
        self.wanted = False
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(20.0)
            assert not self.process.is_alive(), "it does not stop"


class Wire:
    """The lightest client: one connection, JSON in and out, no second attempt."""

    def __init__(self, port: int, token: str, timeout: float = 30.0) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, self._headers)
        response = self._connection.getresponse()
        data = response.read()
        return response.status, json.loads(data) if data[:1] in (b"{", b"[") else data


class Eager(Client):
    """Tries again at once, so that a service is put under load as soon as it is back."""

    def _attempt(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[Any, float | None]:
        answer, wait = super()._attempt(method, path, body)
        return answer, None if wait is None else 0.0


class Load:
    """Clients that decide and reward without pause, and write down what was acknowledged."""

    def __init__(self, service: Service, clients: int, features: int = 2) -> None:
        self.service, self.features = service, features
        self.decided: dict[str, Choice] = {}
        self.rewarded: dict[str, float] = {}
        self.failures: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(i,)) for i in range(clients)]
        for thread in self._threads:
            thread.start()

    def _work(self, number: int) -> None:
        rng = random.Random(number)
        try:
            with Eager(self.service.address, self.service.token, patience=120.0) as client:
                waiting: list[Choice] = []
                while not self._stop.is_set():
                    choice = client.decide([rng.gauss(0, 1) for _ in range(self.features)])
                    assert choice.id not in self.decided, "one id for two decisions"
                    self.decided[choice.id] = choice
                    waiting.append(choice)
                    if len(waiting) > 3:
                        rewarded = waiting.pop(rng.randrange(len(waiting)))
                        value = float(rng.random() < 0.5)
                        client.reward(rewarded, value)
                        self.rewarded[rewarded.id] = value
        except BaseException as error:
            self.failures.append(error)

    def finish(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(150.0)
            assert not thread.is_alive(), "a client hangs"
        if self.failures:
            raise self.failures[0]


def audit(store: Store, load: Load) -> dict[str, int]:
    """Compare the log with what was acknowledged: nothing lost, nothing twice, nothing else. Returns counts."""
    assert verify(store) == []
    decided: dict[Any, Any] = {}
    rewarded: dict[Any, Any] = {}
    for event in store.read_all():
        found = {"decision": decided, "reward": rewarded}.get(event.kind)
        if found is not None:
            assert event.decision not in found, f"a {event.kind} was taken twice"
            found[event.decision] = event.body
    lost = [i for i, choice in load.decided.items() if decided.get(i, {}).get("arm") != choice.arm]
    lost_rewards = [i for i, value in load.rewarded.items() if rewarded.get(i, {}).get("reward") != value]
    assert not lost, f"{len(lost)} acknowledged decisions are lost"
    assert not lost_rewards, f"{len(lost_rewards)} acknowledged rewards are lost"
    # Clients try again with the same key until they are answered, so there is nothing that was not acknowledged.
    assert len(decided) == len(load.decided), "a decision was counted twice"
    assert len(rewarded) == len(load.rewarded), "a reward was counted twice"
    return {"decisions": len(decided), "rewards": len(rewarded), "events": store.last_seq()}


def reckon(service: Service, load: Load) -> dict[str, int]:
    """End load and service: the log has what was acknowledged, and the model is what a replay of the log makes."""
    load.finish()
    with Client(service.address, service.token) as client:
        until(lambda: (state := client.policy())["model"] >= state["events"])
        state = client.policy()
        last = client.decide([0.3] * load.features)
    service.stop()
    store = open_store(service.url, readonly=True)
    load.decided[last.id] = last
    counts = audit(store, load)
    assert (state["observations"], state["not_learned"]) == (counts["rewards"], 0), "not each reward was learned once"
    policy = replay(store, Settings.model_validate(service.settings)).policy
    mean = policy.predict([0.3] * load.features, [last.arm]).mean
    assert last.mean is not None
    assert abs(float(mean[0]) - last.mean) < 1e-6, "the model is not what a replay makes"
    store.close()
    return counts


def kill_at_work(url: str, folder: Path, kills: int) -> dict[str, Any]:
    """SIGKILL where it hurts: inside a choice, a commit, a refit and a snapshot, by the process's own hand."""
    places = ("choose", "commit", "learn", "snapshot")
    policy = {**LINEAR, "arms": ["a", "b", "c"]}
    service = Service(url, {"policy": policy, "service": {"reward_wait": 0.0, "snapshot_every": 20}}, folder)
    load = Load(service, clients=2)
    found = dict.fromkeys(places, 0)
    for i in range(kills):
        place = places[i % len(places)]
        service.kill()
        service.fault = place
        service.start()
        until(lambda: not service.process.is_alive(), 60.0)
        found[place] += 1
        service.fault = ""
        service.start()
    return {"kills": found, **reckon(service, load)}


def _die_in(place: str) -> None:
    """Have this process killed in the middle of something, after a while of it."""
    from kinbandits.service import choose, snapshots, store
    from kinbandits.service.learner import Fold

    homes: dict[str, tuple[Any, str]] = {
        "choose": (choose, "_choose_alike"),
        "commit": (store.Transaction, "set_outcomes"),
        "learn": (Fold, "_learn"),
        "snapshot": (snapshots.Stats, "to_data"),
    }
    owner, name = homes[place]
    honest, left = getattr(owner, name), [1 if place == "snapshot" else random.randint(5, 20)]

    def deadly(*args: Any, **options: Any) -> Any:
        found = honest(*args, **options)
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, deadly)


def kill_under_load(url: str, folder: Path, settings: dict[str, Any], kills: int, seed: int = 0) -> dict[str, Any]:
    """SIGKILL the service again and again under load; then compare."""
    rng = random.Random(seed)
    service = Service(url, settings, folder)
    load = Load(service, clients=4)
    restarts = []
    for _ in range(kills):
        # In the middle of work: not before some more requests have been acknowledged.
        wanted, deadline = len(load.decided) + rng.randint(5, 40), time.monotonic() + 60.0
        while len(load.decided) < wanted and not load.failures:
            assert time.monotonic() < deadline, "the service does not work"
            time.sleep(rng.uniform(0.001, 0.01))
        service.kill()
        restarts.append(service.start())
    time.sleep(0.2)
    return {"kills": kills, **reckon(service, load), "slowest_restart": max(restarts)}
