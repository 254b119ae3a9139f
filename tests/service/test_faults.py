"""What goes wrong around the service: dead threads, hung or read-only databases, full and damaged files, clocks."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Clock, fill
from harness import Service, Wire, free_port, until
from postgres_server import Server

from kinbandits.errors import FormatError
from kinbandits.service.clock import SteadyClock
from kinbandits.service.config import ServiceSettings, Settings, load_settings
from kinbandits.service.engine import Engine
from kinbandits.service.events import Event
from kinbandits.service.learner import Learner, follow
from kinbandits.service.problems import Problem
from kinbandits.service.requests import AddArm, Decide, RetireArm, Reward
from kinbandits.service.store import Store, StoreUnavailableError, open_store
from kinbandits.service.tokens import first_token

POLICY: dict[str, Any] = {"arms": ["a", "b", "c"], "context_kernel": {"type": "RBF"}, "epsilon": 0.2}


def settings(**service: Any) -> Settings:
    return Settings(policy=POLICY, service=ServiceSettings(**service))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Engine]:
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, settings(reward_wait=0.0))
    engine.start()
    yield engine
    engine.stop()
    store.close()


# -- supervision ------------------------------------------------------------------------------------


@pytest.mark.parametrize("thread", ["sequencer", "follower"])
def test_a_thread_that_dies_fails_the_engine(running: Engine, thread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    running.on_failure = told.append

    def die(*arguments: object) -> None:
        raise RuntimeError("out of luck")

    running.ask(Decide([0.1]))
    monkeypatch.setattr(running.sequencer, "sweep", die) if thread == "sequencer" else monkeypatch.setattr(
        running.learner, "apply", die
    )
    try:
        running.ask(Decide([0.1]), timeout=10.0)
    except Problem as problem:
        assert problem.status == 503  # noqa: PT017
    until(lambda: bool(told))
    assert f"the {thread} has died: RuntimeError: out of luck" in told[0]
    assert not running.ready
    with pytest.raises(Problem, match="not taking requests"):
        running.ask(Decide([0.1]), timeout=5.0)


def serve(folder: Path, url: str, config: str, before: str = "") -> tuple[subprocess.Popen[str], int]:
    (folder / "service.toml").write_text(config)
    port = free_port()
    arguments = ["serve", str(folder / "service.toml"), "--store", url, "--port", str(port)]
    code = f"{before}\nfrom kinbandits.cli import main\nmain({arguments!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    )
    return process, port


TOML = '[policy]\narms = ["a", "b"]\n[service]\nfeatures = 1\nreward_wait = 0.0\nsnapshot_every = 1\n'


def test_a_start_that_fails_ends_the_process(tmp_path: Path) -> None:
    broken = "import kinbandits.service.engine as e\ndef no(*a): raise RuntimeError('no luck')\ne.follow = no"
    process, _ = serve(tmp_path, str(tmp_path / "log.sqlite3"), TOML, broken)
    _, said = process.communicate(timeout=30.0)
    assert process.returncode == 1, said
    assert "the service could not start: no luck" in said.splitlines()[-1]


def test_a_dead_thread_ends_the_process(tmp_path: Path) -> None:
    broken = (
        "import kinbandits.service.learner as l\n"
        "def no(self, events): raise MemoryError('no room')\n"
        "l.Learner.apply = no"
    )
    url = str(tmp_path / "log.sqlite3")
    store = open_store(url)
    token = first_token(store)
    assert token is not None
    with store.transaction() as tx:  # as if there were nothing to read at the start
        tx._store._write("DELETE FROM events")
    store.close()
    process, port = serve(tmp_path, url, TOML, broken)
    try:
        until(lambda: status(port, token, "GET", "/readyz") == 200, 30.0)
        assert status(port, token, "POST", "/v1/decisions", {"context": [0.5]}) == 200
        _, said = process.communicate(timeout=30.0)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "the follower has died: MemoryError: no room" in said.splitlines()[-1]


def status(port: int, token: str, method: str, path: str, body: Any = None, timeout: float = 30.0) -> int:
    try:
        with Wire(port, token, timeout) as wire:
            return wire.call(method, path, body)[0]
    except OSError:
        return 0


# -- the documented sandbox -------------------------------------------------------------------------


def can_unshare() -> bool:
    command = ["unshare", "-m", "sh", "-c", "mount --make-rprivate / && mount -o remount,bind,ro /"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_unshare(), reason="this machine lets nobody make a mount namespace")
def test_it_learns_and_keeps_snapshots_where_only_its_folder_can_be_written(tmp_path: Path) -> None:
    """As with ProtectSystem=strict and ReadWritePaths=: every file system is read-only but the log's folder."""
    home = tmp_path / "home"
    home.mkdir()
    store = open_store(str(home / "log.sqlite3"))
    token = first_token(store)
    store.close()
    assert token is not None
    (tmp_path / "service.toml").write_text(TOML)
    port = free_port()
    arguments = ["serve", str(tmp_path / "service.toml"), "--store", str(home / "log.sqlite3"), "--port", str(port)]
    script = f"""
    mount --make-rprivate / && mount --bind {home} {home}
    mount -o remount,bind,ro / && mount -o remount,bind,ro /dev/shm 2>/dev/null
    touch /tmp/x 2>/dev/null && exit 9
    exec {sys.executable} -m kinbandits {" ".join(arguments)}
    """
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script], stderr=subprocess.PIPE, text=True, cwd=home, start_new_session=True
    )
    try:
        until(lambda: status(port, token, "GET", "/readyz") == 200, 30.0)
        with Wire(port, token) as wire:
            for n in (1, 2):
                made = wire.call("POST", "/v1/decisions", {"context": [0.1 * n]})[1]
                assert wire.call("PUT", f"/v1/decisions/{made['id']}/reward", {"reward": 1.0})[0] == 200
                until(lambda n=n: wire.call("GET", "/v1/policy")[1]["observations"] == n)
                until(lambda n=n: len(list((home / "log.sqlite3.snapshots").glob("0*"))) >= n)
            assert wire.call("GET", "/readyz")[0] == 200
    finally:
        process.terminate()
        said = process.communicate(timeout=20.0)[1]
    assert process.returncode in (0, -signal.SIGTERM), said


# -- snapshots --------------------------------------------------------------------------------------


def test_any_damaged_snapshot_falls_back_to_the_log(tmp_path: Path, config: Path) -> None:
    url = str(tmp_path / "log.sqlite3")
    fill(url, config, rounds=40)
    store, options = open_store(url), load_settings(config)
    (whole,) = [data for _, data in store.snapshots()]
    learned = follow(store, options).policy.n_observations
    rng = random.Random(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 5)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        cut = bytes(damaged)[: rng.choice([len(damaged), rng.randrange(len(damaged))])]
        with pytest.raises(FormatError):
            Learner(options).restore(cut)
    store.save_snapshot(10_000, [whole[:100]])
    assert follow(store, options).policy.n_observations == learned
    store.close()


def test_no_snapshot_where_nothing_was_learned(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, settings(reward_wait=0.0, snapshot_every=1))
    engine.start()
    answers = [engine.ask(Decide([0.1 * i])) for i in range(20)]
    assert engine.wait_for(20)
    time.sleep(0.6)
    assert store.snapshot_seqs() == []
    engine.ask(Reward(answers[0]["id"], 1.0))
    until(lambda: bool(store.snapshot_seqs()))
    engine.stop()
    store.close()


# -- the learner keeps nobody waiting ---------------------------------------------------------------


def test_a_change_of_arms_keeps_no_decision_waiting(running: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, busy = running.learner.apply, threading.Event()

    def slow(events: Any) -> bool:
        busy.wait(20.0)
        return honest(events)

    running.ask(Decide([0.1]))
    assert running.wait_for(1)
    monkeypatch.setattr(running.learner, "apply", slow)
    added = running.submit(AddArm("d", "me"))
    for _ in range(5):
        assert running.ask(Decide([0.2]), timeout=2.0)["arm"] in ("a", "b", "c")
    assert not added.done()  # it is answered when it is in force
    with pytest.raises(Problem, match="there is an arm of this name"):
        running.ask(AddArm("d", "me"), timeout=2.0)
    busy.set()
    assert added.result(10.0) == {"arm": "d", "retired": False}  # type: ignore[call-arg]
    assert "d" in running.serving.policy.arms


def test_the_last_two_arms_are_not_both_retired(postgres_url: str) -> None:
    """By two processes at once: each asks the log, under its lock, not what its own model knows."""
    two = Settings(policy={**POLICY, "arms": ["a", "b"]})
    stores = [open_store(postgres_url), open_store(postgres_url)]
    engines = [Engine(store, two) for store in stores]
    for engine in engines:
        engine.start()
    for engine in engines:
        engine.follower.stop()  # neither learns what the other has done
    time.sleep(0.3)
    engines[0].submit(RetireArm("a", "me"))
    until(lambda: stores[0].last_seq() == 1)
    with pytest.raises(Problem, match="last active arm"):
        engines[1].ask(RetireArm("b", "me"))
    for engine, store in zip(engines, stores, strict=True):
        engine.stop()
        store.close()


def test_a_dictionary_learns_alike_in_slices_of_any_size() -> None:
    """Rows leave a dictionary as others come, and the noise is learned from those that are left."""
    import numpy as np

    similarity, engine = {"type": "Mixed", "mu": 0.3}, {"type": "Budgeted", "points": 64}
    options = Settings(policy={**POLICY, "arms": 4, "similarity": similarity, "engine": engine})
    rng = np.random.default_rng(0)
    drawn = rng.integers(4, size=420).tolist(), rng.normal(size=(420, 2)).tolist(), (rng.random(420) < 0.5).tolist()
    events = [
        Event(i, "reward", f"0-{i}", 0.0, {"arm": arm, "context": x, "reward": float(y), "delay": 0.0}, "")
        for i, (arm, x, y) in enumerate(zip(*drawn, strict=True), 1)
    ]
    found = []
    for step in (37, 256):
        learner = Learner(options)
        for low in range(0, 420, step):
            learner.apply(events[low : low + step])
        found.append(learner.policy.predict([0.3, 0.3]).mean)
    np.testing.assert_allclose(*found, rtol=1e-9)


@pytest.mark.parametrize("engine", ["exact", {"type": "Budgeted", "points": 45, "after": 50}])
def test_rows_learned_in_slices_together_or_in_bulk_are_learned_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Any
) -> None:
    import numpy as np

    store = open_store(str(tmp_path / "log.sqlite3"))
    options = Settings(policy={**POLICY, "similarity": {"type": "Adaptive", "first": 20}, "engine": engine})
    engine = Engine(store, options)
    engine.start()
    rng = np.random.default_rng(0)
    for i in range(90):
        answer = engine.ask(Decide(rng.normal(size=2).tolist()))
        engine.ask(Reward(answer["id"], float(rng.random())))
        assert engine.wait_for(2 * i + 2)  # or what is chosen, and so the rows, would be a matter of time
    engine.stop()
    one_by_one, together = Learner(options), Learner(options)
    for event in store.read_all():
        one_by_one.apply([event])
    together.apply(store.read_all())
    for learner in (one_by_one, together):
        np.testing.assert_allclose(
            learner.policy.predict([0.3, 0.4]).mean, engine.serving.policy.predict([0.3, 0.4]).mean, rtol=1e-8
        )
    store.drop_snapshots()
    monkeypatch.setattr("kinbandits.service.learner._BULK", 50)
    monkeypatch.setattr("kinbandits.regression.auto.MANY", 10)
    told: list[int] = []
    bulk = follow(store, options, lambda done, of: told.append(done))
    assert bulk.policy.n_observations == 90
    assert told[-1] == 180
    np.testing.assert_allclose(
        bulk.policy.predict([0.3, 0.4]).mean, engine.serving.policy.predict([0.3, 0.4]).mean, atol=0.1
    )
    store.close()


# -- lengths ----------------------------------------------------------------------------------------


def test_a_first_decision_of_the_wrong_length_can_be_put_right(tmp_path: Path) -> None:
    """Once ``features`` is set, a row of another length is left out of the model, and the service goes on."""
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, settings())
    engine.start()
    wrong = engine.ask(Decide([0.1, 0.2, 0.3]))
    engine.ask(Reward(wrong["id"], 1.0))
    with pytest.raises(Problem, match="has 3 numbers"):
        engine.ask(Decide([0.1, 0.2]))
    assert engine.wait_for(2)
    engine.stop()
    engine = Engine(store, settings(features=2))
    engine.start()
    right = engine.ask(Decide([0.1, 0.2]))
    engine.ask(Reward(right["id"], 1.0))
    until(lambda: engine.serving.policy.n_observations == 1)
    assert engine.learner.refused == 1
    assert engine.ask(Decide([0.1, 0.2]))["id"]
    engine.stop()
    store.close()


# -- clocks -----------------------------------------------------------------------------------------


def test_a_steady_clock() -> None:
    wall, steady = Clock(), Clock()
    steady.now = 7.0
    clock = SteadyClock(wall, steady)
    assert clock() == 1000.0
    wall.now, steady.now = 1010.0, 17.0
    assert clock() == 1010.0
    wall.now, steady.now = 500.0, 20.0  # set back; three seconds have passed
    assert clock() == 1013.0
    wall.now, steady.now = 2000.0, 21.0
    assert clock() == 2000.0
    clock.begin(2500.0)  # the log is ahead
    assert clock() == 2500.0
    clock.begin(1e9)  # that was another clock
    assert clock() == 2500.0


def test_decisions_are_defaulted_although_the_clock_was_set_back(tmp_path: Path) -> None:
    wall = Clock()
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, settings(reward_wait=0.5, default_reward=0.0), SteadyClock(wall))
    engine.start()
    engine.ask(Decide([0.1]))
    wall.now -= 3600.0
    until(lambda: engine.learner.state.states["defaulted"] == 1, 5.0)
    engine.stop()
    store.close()


# -- SQLite in trouble ------------------------------------------------------------------------------


def test_a_full_disk_is_not_ready_until_it_can_be_written(running: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    running.ask(Decide([0.1], key="k"))
    writer = running.store._writer  # type: ignore[attr-defined]
    writer.execute(f"PRAGMA max_page_count = {writer.execute('PRAGMA page_count').fetchone()[0]}")
    for i in range(300):
        try:
            running.ask(Decide([0.1], key=f"{i}-{'x' * 150}"))
        except Problem as problem:
            assert problem.status == 503  # noqa: PT017
            break
    else:
        pytest.fail("the disk is not full")
    for _ in range(30):  # the sweep tries again each second, in vain
        assert not running.ready
        time.sleep(0.1)
    writer.execute("PRAGMA max_page_count = 1000000")
    until(lambda: running.ready)
    assert running.ask(Decide([0.1], key="k"))["id"] == "0-000000000001"


def test_what_the_model_refuses_is_refused_while_the_log_is_away(
    running: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that cannot be right is told so; only the others may try again."""
    running.ask(Decide([0.1]))

    def away(*arguments: object) -> None:
        raise StoreUnavailableError("away")

    for name in ("transaction", "probe"):
        monkeypatch.setattr(running.store, name, away)
    wrong = {404: Decide([0.1], arms=["z"]), 409: Decide([0.1, 0.2]), 422: Decide([0.1], arms=[])}
    right = [Decide([0.1]), Decide([0.1, 0.2], key="may be known")]
    for status, request in [*wrong.items(), *((503, request) for request in right)]:
        for _ in range(2):
            with pytest.raises(Problem) as told:
                running.ask(request)
            assert told.value.status == status


def test_a_damaged_database_is_not_ready(running: Engine, tmp_path: Path) -> None:
    for i in range(200):
        running.ask(Decide([0.1 * i]))
    running.store._write("PRAGMA wal_checkpoint(TRUNCATE)")
    with (tmp_path / "log.sqlite3").open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    running.store._writer.close()  # type: ignore[attr-defined]  # its cache would hide it
    running.store._writer = sqlite3.connect(  # type: ignore[attr-defined]
        tmp_path / "log.sqlite3", isolation_level=None, check_same_thread=False
    )
    with pytest.raises(Problem) as caught:
        running.ask(Decide([0.1]))
    assert caught.value.status == 503
    time.sleep(1.5)
    assert not running.ready
    assert running.failure is None


def test_a_link_to_a_log_has_its_lock(tmp_path: Path) -> None:
    (tmp_path / "link.sqlite3").symlink_to(tmp_path / "log.sqlite3")
    store = open_store(str(tmp_path / "log.sqlite3"))
    with pytest.raises(RuntimeError, match="in use by another process"):
        open_store(str(tmp_path / "link.sqlite3"))
    assert (tmp_path / "log.sqlite3").stat().st_mode & 0o077 == 0
    store.close()


# -- PostgreSQL in trouble --------------------------------------------------------------------------


def statement(server: Server, *sql: str) -> None:
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as connection:
        for text in sql:
            connection.execute(text)  # type: ignore[call-overload]


def test_a_read_only_episode_passes(postgres_server: Server, postgres_url: str) -> None:
    store = open_store(postgres_url)
    engine = Engine(store, settings(reward_wait=60.0))
    engine.start()
    kept = engine.ask(Decide([0.1], key="k"))
    try:
        statement(postgres_server, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
        time.sleep(0.5)
        for _ in range(3):
            with pytest.raises(Problem) as caught:
                engine.ask(Decide([0.1], key="n"), timeout=10.0)
            assert caught.value.status == 503
        time.sleep(1.5)
        assert not engine.ready
        assert engine.failure is None
    finally:
        sql = ("SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only")
        statement(postgres_server, *sql, "SELECT pg_reload_conf()")
    until(lambda: engine.ready)
    assert engine.ask(Decide([0.1], key="k")) == kept
    engine.stop()
    store.close()


def backends(server: Server) -> list[int]:
    """The processes of the server: all of them are stopped to make it hang."""
    main = int((server.data / "postmaster.pid").read_text().split()[0])
    found = subprocess.run(["pgrep", "-P", str(main)], capture_output=True, text=True, check=False).stdout
    return [main, *map(int, found.split())]


@pytest.mark.slow
def test_a_hung_database_freezes_nothing(postgres_server: Server, postgres_url: str, tmp_path: Path) -> None:
    """SIGSTOP: it neither answers nor refuses. Health stays, decisions are 503 in time, SIGTERM works."""
    options = {"policy": POLICY, "service": {"reward_wait": 60.0, "features": 1}}
    service = Service(postgres_url, options, tmp_path)
    stopped: list[int] = []
    try:
        assert status(service.port, service.token, "POST", "/v1/decisions", {"context": [0.1]}) == 200
        stopped = backends(postgres_server)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        threads = []
        codes: list[int] = []
        for _ in range(4):
            threads.append(
                threading.Thread(
                    target=lambda: codes.append(
                        status(service.port, service.token, "POST", "/v1/decisions", {"context": [0.1]})
                    )
                )
            )
            threads[-1].start()
        slowest = 0.0
        for _ in range(30):
            started = time.monotonic()
            assert status(service.port, service.token, "GET", "/healthz", timeout=5.0) == 200
            slowest = max(slowest, time.monotonic() - started)
            time.sleep(0.1)
        assert slowest < 1.0
        for thread in threads:
            thread.join(20.0)
        assert codes == [503] * 4
        assert status(service.port, service.token, "GET", "/readyz") == 503
        started = time.monotonic()
        service.stop()
        assert time.monotonic() - started < 15.0
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        service.stop()


def test_a_query_that_hangs_ends_in_time(postgres_server: Server, postgres_url: str) -> None:
    store: Store = open_store(postgres_url)
    store._patience = 0.5  # type: ignore[attr-defined]
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="cannot be read now"):
        store._query("SELECT pg_sleep(30)")
    assert time.monotonic() - started < 5.0
    assert store.last_seq() == 0  # connected again
    store.close()
