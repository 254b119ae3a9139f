"""What goes wrong around the service: dead threads, hung or read-only databases, full and damaged files,
clocks, rows
that nobody can learn."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import POLICY, Clock, fill, running, settings
from harness import LINEAR, Service, Wire, free_port, until
from postgres_server import Server

from kinbandits.errors import FormatError
from kinbandits.policy import KMTLUCB
from kinbandits.service import snapshots
from kinbandits.service.auth import new_token
from kinbandits.service.config import load_settings
from kinbandits.service.databases import StoreUnavailableError
from kinbandits.service.engine import Engine
from kinbandits.service.learner import Fold, replay, restored
from kinbandits.service.ledger import AddArm, Decide, Reward
from kinbandits.service.messages import Problem
from kinbandits.service.store import open_store

TOML = '[policy]\narms = ["a", "b"]\n[service]\nfeatures = 1\nreward_wait = 0.0\nsnapshot_every = 1\n'


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with running(str(tmp_path / "log.sqlite3"), settings()) as engine:
        yield engine


def call(port: int, token: str, method: str, path: str, body: Any = None, timeout: float = 30.0) -> int:
    try:
        with Wire(port, token, timeout) as wire:
            return wire.call(method, path, body)[0]
    except OSError:
        return 0


# -- supervision ------------------------------------------------------------------------------------


@pytest.mark.parametrize("thread", ["writer", "learner"])
def test_a_thread_that_dies_fails_the_engine(engine: Engine, thread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[str] = []
    engine.on_failure = failures.append

    def die(*arguments: object) -> None:
        raise RuntimeError("out of luck")

    engine.ask(Decide([0.1]))
    monkeypatch.setattr(*((engine.writer, "_gather") if thread == "writer" else (engine.learner, "_follow")), die)
    try:
        engine.ask(Decide([0.1]), timeout=10.0)
    except Problem as problem:
        assert problem.status == 503  # noqa: PT017
    until(lambda: bool(failures))
    assert f"the {thread} has died: RuntimeError: out of luck" in failures[0]
    assert not engine.ready
    with pytest.raises(Problem, match="no requests are taken now"):
        engine.ask(Decide([0.1]), timeout=5.0)


def serve(folder: Path, url: str, before: str = "", config: str = TOML) -> tuple[subprocess.Popen[str], int, str]:
    (folder / "service.toml").write_text(config)
    if not (folder / "tokens.toml").exists():
        (folder / "token").write_text(new_token(folder / "tokens.toml", "test", ["admin"]))
    port = free_port()
    arguments = ["serve", str(folder / "service.toml"), "--store", url, "--port", str(port)]
    code = f"{before}\nfrom kinbandits.cli import main\nmain({arguments!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    )
    return process, port, (folder / "token").read_text()


def test_a_start_that_fails_ends_the_process_and_says_nothing_of_serving(tmp_path: Path) -> None:
    broken = "import kinbandits.service.learner as l\ndef no(*a): raise RuntimeError('no luck')\nl.restored = no"
    process, _, _ = serve(tmp_path, str(tmp_path / "log.sqlite3"), broken)
    _, said = process.communicate(timeout=60.0)
    assert process.returncode == 1, said
    assert "the service could not start: RuntimeError: no luck" in said
    assert "Serving on" not in said


def test_a_dead_thread_ends_the_process(tmp_path: Path) -> None:
    broken = "import kinbandits.service.stats as s\ndef no(self, e): raise MemoryError('no room')\ns.Stats.apply = no"
    process, port, token = serve(tmp_path, str(tmp_path / "log.sqlite3"), broken)
    try:
        until(lambda: call(port, token, "GET", "/readyz") == 200, 60.0)
        assert call(port, token, "POST", "/v1/decisions", {"context": [0.5]}) == 200
        _, said = process.communicate(timeout=30.0)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "the learner has died: MemoryError: no room" in said
    assert f"Serving on http://127.0.0.1:{port}/" in said
    assert token not in said


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
    token = new_token(tmp_path / "tokens.toml", "test", ["admin"])
    (tmp_path / "service.toml").write_text(TOML)
    port = free_port()
    arguments = ["serve", str(tmp_path / "service.toml"), "--store", str(home / "log.sqlite3"), "--port", str(port)]
    arguments += ["--tokens", str(tmp_path / "tokens.toml")]
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
        until(lambda: call(port, token, "GET", "/readyz") == 200, 60.0)
        with Wire(port, token) as wire:
            made = wire.call("POST", "/v1/decisions", {"context": [0.1]})[1]
            assert wire.call("PUT", f"/v1/decisions/{made['id']}/reward", {"reward": 1.0})[0] == 200
            until(lambda: wire.call("GET", "/v1/policy")[1]["observations"] == 1)
            until(lambda: len(list((home / "log.sqlite3.snapshots").glob("0*"))) >= 1)
    finally:
        process.terminate()
        said = process.communicate(timeout=20.0)[1]
    assert process.returncode in (0, -signal.SIGTERM), said


# -- rows that cannot be learned --------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("math domain error"), ZeroDivisionError(), MemoryError()])
def test_the_service_survives_any_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    honest = KMTLUCB.observe

    def observe(self: KMTLUCB, arms: Any, contexts: Any, rewards: Any, **options: Any) -> None:
        if 0.125 in list(rewards):
            raise error
        honest(self, arms, contexts, rewards, **options)

    monkeypatch.setattr(KMTLUCB, "observe", observe)
    url = str(tmp_path / "log.sqlite3")
    with running(url, settings()) as engine:
        for i in range(20):
            engine.ask(Reward(engine.ask(Decide([0.1 * i]))["id"], 0.125 if i == 7 else 0.5))
        assert engine.wait_for(40)
        assert (engine.serving.policy.n_observations, engine.serving.stats.refused) == (19, 1)
        assert engine.serving.stats.last_refused[0][0] == 16  # the event, named
        assert engine.ask(Decide([0.2]))["id"]
    shutil.rmtree(f"{url}.snapshots")
    with running(url, settings()) as engine:  # and it starts again
        assert (engine.serving.policy.n_observations, engine.serving.stats.refused) == (19, 1)


def test_a_model_that_cannot_be_copied_leaves_the_one_before(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def no(self: KMTLUCB) -> KMTLUCB:
        raise ArithmeticError("singular")

    first = engine.ask(Decide([0.1]))
    monkeypatch.setattr(KMTLUCB, "frozen", no)
    engine.ask(Reward(first["id"], 1.0))
    assert engine.wait_for(2)
    assert engine.serving.policy.n_observations == 0
    assert engine.ask(Decide([0.1]))["id"]


def test_a_first_decision_of_the_wrong_length_can_be_put_right(tmp_path: Path) -> None:
    """Once ``features`` is set, a row of another length is left out of the model, and the service goes on."""
    url = str(tmp_path / "log.sqlite3")
    with running(url, settings()) as engine:
        engine.ask(Reward(engine.ask(Decide([0.1, 0.2, 0.3]))["id"], 1.0))
        with pytest.raises(Problem, match="has 3 numbers"):
            engine.ask(Decide([0.1, 0.2]))
    with running(url, settings(features=2)) as engine:
        engine.ask(Reward(engine.ask(Decide([0.1, 0.2]))["id"], 1.0))
        until(lambda: engine.serving.policy.n_observations == 1)
        assert engine.serving.stats.refused == 1


# -- snapshots --------------------------------------------------------------------------------------


def test_any_damaged_snapshot_falls_back_to_the_log(tmp_path: Path, config: Path) -> None:
    url = str(tmp_path / "log.sqlite3")
    fill(url, config, rounds=40)
    store, options = open_store(url, readonly=True), load_settings(config)
    (path,) = snapshots.found(Path(f"{url}.snapshots"))
    rng, whole = random.Random(0), path.read_bytes()
    for _ in range(120):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(damaged)[: rng.choice([len(damaged), rng.randrange(len(damaged))])])
        with pytest.raises(FormatError):
            snapshots.load(path)
    assert restored(store, options, path.parent).stats.seq == 0  # it begins with the log
    assert replay(store, options).policy.n_observations == 32
    store.close()


def test_no_snapshot_where_nothing_was_learned(tmp_path: Path) -> None:
    folder = tmp_path / "log.sqlite3.snapshots"
    with running(str(tmp_path / "log.sqlite3"), settings(snapshot_every=1)) as engine:
        answers = [engine.ask(Decide([0.1 * i])) for i in range(20)]
        assert engine.wait_for(20)
        time.sleep(0.6)
        assert snapshots.found(folder) == []
        engine.ask(Reward(answers[0]["id"], 1.0))
        until(lambda: bool(snapshots.found(folder)))


# -- the learner keeps nobody waiting ---------------------------------------------------------------


def test_learning_keeps_no_decision_waiting(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, busy = engine.learner.fold.apply, threading.Event()

    def slow(events: Any, *more: Any) -> None:
        if events:
            busy.wait(20.0)
        honest(events, *more)

    monkeypatch.setattr(engine.learner.fold, "apply", slow)
    added = engine.ask(AddArm("d", "me"), timeout=2.0)
    for _ in range(5):
        assert engine.ask(Decide([0.2]), timeout=2.0)["arm"] in ("a", "b", "c")  # it is not in force yet
    with pytest.raises(Problem, match="being added"):
        engine.ask(Decide([0.2], arms=["d"]))
    with pytest.raises(Problem, match="there is an active arm of this name"):
        engine.ask(AddArm("d", "me"), timeout=2.0)
    assert engine.learner.behind() > 0.0
    busy.set()
    assert engine.wait_for(added["seq"])
    assert engine.ask(Decide([0.2], arms=["d"]))["arm"] == "d"


def test_rows_learned_one_by_one_in_slices_and_in_bulk_are_learned_alike(tmp_path: Path) -> None:
    url = str(tmp_path / "log.sqlite3")
    rng = np.random.default_rng(0)
    with running(url, settings()) as engine:
        for _ in range(90):
            engine.ask(Reward(engine.ask(Decide(rng.normal(size=2).tolist()))["id"], float(rng.random())))
        assert engine.wait_for(180)
        expected = engine.serving.policy.predict([0.3, 0.4]).mean
    store = open_store(url, readonly=True)
    one_by_one = Fold(store, settings())
    for event in store.read_all():
        one_by_one.apply([event], 1)
    for fold in (one_by_one, replay(store, settings())):
        np.testing.assert_allclose(fold.policy.predict([0.3, 0.4]).mean, expected, rtol=1e-8)
    store.close()


# -- clocks -----------------------------------------------------------------------------------------


def test_the_log_does_not_follow_a_clock_that_is_set_back(tmp_path: Path) -> None:
    clock = Clock()
    with running(str(tmp_path / "log.sqlite3"), settings(reward_wait=0.5, default_reward=0.0), clock=clock) as engine:
        engine.ask(Decide([0.1]))
        clock.now -= 0.25  # NTP; then it goes on
        engine.ask(Decide([0.1]))
        clock.now += 1.0
        until(lambda: engine.serving.stats.states["defaulted"] == 2, 5.0)
        times = [e.at for e in engine.store.read()]
        assert times == sorted(times)


# -- SQLite in trouble ------------------------------------------------------------------------------


def test_a_full_disk_is_not_ready_until_it_can_be_written(engine: Engine) -> None:
    kept = engine.ask(Decide([0.1], key="k"))
    raw: Any = engine.store._writer.connection.dbapi_connection  # type: ignore[union-attr]
    raw.execute(f"PRAGMA max_page_count = {raw.execute('PRAGMA page_count').fetchone()[0]}")
    acknowledged = 1
    for i in range(300):
        try:
            engine.ask(Decide([0.1], key=f"{i}-{'x' * 150}"))
            acknowledged += 1
        except Problem as problem:
            assert problem.status == 503  # noqa: PT017
            break
    else:
        pytest.fail("the disk is not full")
    for _ in range(30):  # the sweep tries again each second, in vain
        assert not engine.ready
        time.sleep(0.1)
    assert engine.store.last_seq() == acknowledged
    raw.execute("PRAGMA max_page_count = 1000000")
    until(lambda: engine.ready)
    assert engine.ask(Decide([0.1], key="k")) == kept
    assert engine.ask(Decide([0.1]))["id"] == f"{acknowledged + 1:012x}"


def test_a_damaged_database_is_not_ready(tmp_path: Path) -> None:
    url = tmp_path / "log.sqlite3"
    with running(str(url), settings()) as engine:
        engine.submit([Decide([0.1 * i]) for i in range(500)]).result(10.0)
        raw: Any = engine.store._writer.connection.dbapi_connection  # type: ignore[union-attr]
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with url.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))
        raw.execute("PRAGMA shrink_memory")  # its cache would hide it
        with pytest.raises(Problem) as caught:  # noqa: PT012
            for _ in range(50):
                engine.ask(Decide([0.1], key=f"{random.random()}"))
        assert caught.value.status == 503
        time.sleep(1.2)
        assert not engine.ready
        assert engine.failure is None


def test_a_link_to_a_log_has_its_lock(tmp_path: Path) -> None:
    (tmp_path / "link.sqlite3").symlink_to(tmp_path / "log.sqlite3")
    store = open_store(str(tmp_path / "log.sqlite3"))
    with pytest.raises(RuntimeError, match="in use by another process"):
        open_store(str(tmp_path / "link.sqlite3"))
    assert (tmp_path / "log.sqlite3").stat().st_mode & 0o077 == 0
    store.close()


SLOW_FLUSH = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static void wait(void)
{ const char *f = getenv("SLOW_FLUSH"); if (f && access(f, F_OK) == 0) { unlink(f); sleep(3); } }
int fsync(int d) { wait(); return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(d); }
int fdatasync(int d) { wait(); return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(d); }
"""


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="no C compiler here (cc)")
def test_health_does_not_wait_for_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush takes 3 seconds: /healthz answers within 50 ms all the while, and nothing is lied about."""
    (tmp_path / "slow.c").write_text(SLOW_FLUSH)
    library, flag = tmp_path / "slow.so", tmp_path / "now"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "slow.c", "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("SLOW_FLUSH", str(flag))
    process, port, token = serve(tmp_path, str(tmp_path / "log.sqlite3"))
    try:
        until(lambda: call(port, token, "GET", "/readyz") == 200, 60.0)
        with Wire(port, token) as wire:
            assert wire.call("POST", "/v1/decisions", {"context": [0.5]})[0] == 200
            wire.call("GET", "/healthz")
            flag.touch()
            took: list[float] = []
            statuses: list[int] = []

            def decide() -> None:
                started = time.monotonic()
                statuses.append(call(port, token, "POST", "/v1/decisions", {"context": [0.5]}))
                took.append(time.monotonic() - started)

            asking = threading.Thread(target=decide)
            asking.start()
            slowest, looks = 0.0, 0
            while asking.is_alive():
                started = time.monotonic()
                assert wire.call("GET", "/healthz")[0] == 200
                slowest, looks = max(slowest, time.monotonic() - started), looks + 1
                time.sleep(0.02)
        assert not flag.exists()
        assert statuses == [200]
        assert 2.9 < took[0] < 10.0  # it was answered when it was on disk
        assert looks > 50
        assert slowest < 0.05
    finally:
        process.terminate()
        process.communicate(timeout=20.0)


# -- PostgreSQL in trouble --------------------------------------------------------------------------


def statement(server: Server, *sql: str) -> None:
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as connection:
        for text in sql:
            connection.execute(text)  # type: ignore[call-overload]


def test_a_read_only_episode_passes(postgres_server: Server, postgres_url: str) -> None:
    with running(postgres_url, settings(reward_wait=60.0)) as engine:
        kept = engine.ask(Decide([0.1], key="k"))
        try:
            statement(postgres_server, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
            time.sleep(0.5)
            for _ in range(3):
                with pytest.raises(Problem) as caught:
                    engine.ask(Decide([0.1], key="n"), timeout=10.0)
                assert caught.value.status == 503
            time.sleep(1.2)
            assert not engine.ready
            assert engine.failure is None
        finally:
            sql = ("SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only")
            statement(postgres_server, *sql, "SELECT pg_reload_conf()")
        until(lambda: engine.ready)
        assert engine.ask(Decide([0.1], key="k")) == kept


def test_a_lost_connection_ends_the_writer(postgres_server: Server, postgres_url: str) -> None:
    """Its lock went with it: whether the commit was, nobody knows; asking the next process, with the key,
    settles it."""
    with running(postgres_url, settings()) as engine:
        failures: list[str] = []
        engine.on_failure = failures.append
        kept = engine.ask(Decide([0.0], key="k"))
        postgres_server.stop("immediate")
        try:
            with pytest.raises(Problem) as caught:
                engine.ask(Decide([0.0], key="n"), timeout=10.0)
            assert caught.value.status == 503
            until(lambda: bool(failures))
            assert "StoreLostError" in failures[0]
        finally:
            postgres_server.start()
    with running(postgres_url, settings()) as engine:
        assert engine.ask(Decide([0.0], key="k")) == kept
        assert engine.ask(Decide([0.0], key="n"))["id"] == "000000000002"


def test_a_standby_takes_over(postgres_url: str, tmp_path: Path) -> None:
    options = {"policy": LINEAR, "service": {"reward_wait": 0.0, "features": 2}}
    first = Service(postgres_url, options, tmp_path)
    second = Service(postgres_url, options, tmp_path, start=False)
    second.start(wait=False)
    try:
        with Wire(first.port, first.token) as wire:
            made = wire.call("POST", "/v1/decisions", {"context": [0.1, 0.2], "key": "k"})[1]
        until(lambda: call(second.port, second.token, "GET", "/healthz") == 200)
        until(lambda: standby(second) == (503, "standby: another process writes this log"))
        assert call(second.port, second.token, "POST", "/v1/decisions", {"context": [0.1, 0.2]}) == 503
        first.kill()
        took = until(second.ready, 30.0)
        assert took < 5.0
        with Wire(second.port, second.token) as wire:
            assert wire.call("POST", "/v1/decisions", {"context": [0.1, 0.2], "key": "k"})[1] == made
            assert wire.call("POST", "/v1/decisions", {"context": [0.1, 0.2]})[1]["id"] == "000000000002"
    finally:
        first.stop()
        second.stop()


def standby(service: Service) -> tuple[int, Any]:
    with Wire(service.port, service.token) as wire:
        status, answer = wire.call("GET", "/readyz")
        return status, answer["detail"]


@pytest.mark.slow
def test_a_hung_database_freezes_nothing(postgres_server: Server, postgres_url: str, tmp_path: Path) -> None:
    """SIGSTOP: it neither answers nor refuses. Health stays, decisions are 503 in time, SIGTERM works."""
    service = Service(postgres_url, {"policy": POLICY, "service": {"reward_wait": 60.0, "features": 1}}, tmp_path)
    stopped: list[int] = []
    try:
        assert call(service.port, service.token, "POST", "/v1/decisions", {"context": [0.1]}) == 200
        main = int((postgres_server.data / "postmaster.pid").read_text().split()[0])
        found = subprocess.run(["pgrep", "-P", str(main)], capture_output=True, text=True, check=False).stdout
        stopped = [main, *map(int, found.split())]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        codes: list[int] = []
        decide: Callable[[], None] = lambda: codes.append(  # noqa: E731
            call(service.port, service.token, "POST", "/v1/decisions", {"context": [0.1]})
        )
        threads = [threading.Thread(target=decide) for _ in range(4)]
        for thread in threads:
            thread.start()
        slowest = 0.0
        for _ in range(30):
            started = time.monotonic()
            assert call(service.port, service.token, "GET", "/healthz", timeout=5.0) == 200
            slowest = max(slowest, time.monotonic() - started)
            time.sleep(0.1)
        assert slowest < 1.0
        for thread in threads:
            thread.join(20.0)
        assert codes == [503] * 4
        assert standby(service) == (503, "the log does not answer")
        assert call(service.port, service.token, "GET", "/v1/decisions/000000000001", timeout=20.0) == 503
        started = time.monotonic()
        service.stop()
        assert time.monotonic() - started < 15.0
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        service.stop()


def test_a_log_with_two_writers_in_postgres_is_refused(postgres_url: str) -> None:
    one, two = open_store(postgres_url), open_store(postgres_url)
    assert one.try_lock()
    assert not two.try_lock()
    with pytest.raises(RuntimeError, match="in use by another process"):
        two.lock()
    one.close()
    until(two.try_lock, 5.0)
    two.close()


def test_no_message_names_a_password() -> None:
    for url in ("postgresql://kin:hunter2@127.0.0.1:1/x", "postgresql:///x?host=127.0.0.1&port=1&password=hunter2"):
        with pytest.raises(StoreUnavailableError) as caught:
            open_store(url)
        assert "hunter2" not in str(caught.value)
        assert "127.0.0.1" in str(caught.value)
