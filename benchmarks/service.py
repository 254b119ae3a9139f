"""How fast the decision service is: durable decisions against a bare ASGI application that does nothing.

    python benchmarks/service.py [--seconds 5] [--restart-events 10000] [--rewards 100]
    python benchmarks/service.py --postgres

Needs wrk. Prints ratios, with the floor of this machine (no-op requests and flushes per second) beside them:
seconds alone mean nothing on another machine. All on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "service"))
from harness import Service, Wire, free_port

from kinbandits.service.config import Settings
from kinbandits.service.events import Draft, decision_id
from kinbandits.service.learner import follow
from kinbandits.service.store import open_store

ARMS, FEATURES = 10, 8
# The rate of decisions, as a share of the no-op's, by rows of the model.
HOLD = {0: 0.40, 1000: 0.40, 5000: 0.30, 20_000: 0.25}
SETTINGS: dict[str, Any] = {
    "policy": {
        "arms": ARMS,
        "context_kernel": {"type": "RBF", "length_scale": 2.0},
        "similarity": {"type": "Estimated", "length_scale": 0.5},
    },
    "service": {"reward_wait": 0.0},
}
TOML = """
[policy]
arms = 10
context_kernel = { type = "RBF", length_scale = 2.0 }
similarity = { type = "Estimated", length_scale = 0.5 }
[service]
reward_wait = 0.0
"""


def fill(url: str, observations: int, decisions: int) -> None:
    """A log with so many decisions, the first of them rewarded."""
    rng = np.random.default_rng(0)
    store = open_store(url)
    drafts = []
    for i in range(decisions):
        name = decision_id(0, 1 + i)
        x, arm = rng.normal(size=FEATURES).round(4).tolist(), int(rng.integers(ARMS))
        body = {"context": x, "candidates": list(range(ARMS)), "arm": arm, "index": arm, "propensity": 0.1}
        body |= {"mean": 0.0, "width": 1.0, "score": 0.1, "best_mean": 0.0, "best_score": 0.1, "model": 0}
        drafts.append(Draft("decision", 1000.0 + i, body, name))
        if i < observations:
            row = {"reward": float(rng.random() < 0.5), "arm": arm, "context": x, "delay": 1.0}
            drafts.append(Draft("reward", 1001.0 + i, row, name))
    with store.transaction() as tx:
        tx.append(drafts)
    store.close()


def processor(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def loaded(pid: int, port: int, path: str, token: str, connections: int, seconds: int) -> dict[str, float]:
    """As `wrk`, with the microseconds of processor time that each answer took."""
    before = processor(pid)
    found = wrk(port, path, token, connections, seconds)
    return {**found, "cpu": 1e6 * (processor(pid) - before) / (found["rate"] * seconds)}


def wrk(port: int, path: str, token: str, connections: int, seconds: int) -> dict[str, float]:
    """Requests per second and latencies (milliseconds) of POSTs with ever new contexts."""
    script = f"""
    wrk.method = "POST"
    wrk.headers["Authorization"] = "Bearer {token}"
    wrk.headers["Content-Type"] = "application/json"
    request = function()
      local x = {{}}
      for i = 1, {FEATURES} do x[i] = string.format("%.4f", math.random() * 4 - 2) end
      return wrk.format(nil, "{path}", nil, '{{"context":[' .. table.concat(x, ",") .. ']}}')
    end
    """
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", file.name]
        command.append(f"http://127.0.0.1:{port}")
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "Non-2xx" not in text, text
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert rate is not None, text
    return {"rate": float(rate[1]), "p50": _milliseconds(text, "50%"), "p99": _milliseconds(text, "99%")}


def _milliseconds(text: str, which: str) -> float:
    found = re.search(rf"{which}\s+([\d.]+)(us|ms|s)", text)
    assert found is not None, text
    return float(found[1]) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[found[2]]


async def noop(scope: Any, receive: Any, send: Any) -> None:
    """The least that an ASGI application can do with a POST: read the body, answer."""
    if scope["type"] != "http":
        while scope["type"] == "lifespan":
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})


def noop_server(port: int) -> None:
    """The same server, with an application that does nothing."""
    uvicorn.Server(uvicorn.Config(noop, port=port, log_config=None, access_log=False)).run()


def flushes_per_second(folder: Path) -> float:
    """How often this disk can make a small write durable."""
    with (folder / "flush").open("wb") as file:
        started = time.perf_counter()
        for _ in range(200):
            file.write(b"x" * 512)
            file.flush()
            os.fdatasync(file.fileno())
        return 200 / (time.perf_counter() - started)


@contextlib.contextmanager
def learning(service: Service, rate: float) -> Iterator[None]:
    """Meanwhile, one client more decides and rewards, so often a second."""
    done, rng = threading.Event(), np.random.default_rng(1)

    def work() -> None:
        at = time.monotonic()
        with Wire(service.port, service.token) as wire:
            while rate and not done.wait(max(0.0, at - time.monotonic())):
                at += 1.0 / rate
                made = wire.call("POST", "/v1/decisions", {"context": rng.normal(size=FEATURES).tolist()})[1]
                wire.call("PUT", f"/v1/decisions/{made['id']}/reward", {"reward": float(rng.random() < 0.5)})

    with ThreadPoolExecutor() as pool:
        client = pool.submit(work)
        try:
            yield
        finally:
            done.set()
            client.result()


def throughput(folder: Path, seconds: int, rows: int, rewards: float = 0.0, rounds: int = 3) -> dict[str, Any]:
    """Interleaved: no-op, decisions, no-op, ... ; medians of the ratios, with a model of so many rows."""
    url = str(folder / f"throughput-{rows}.sqlite3")
    fill(url, observations=rows, decisions=max(rows, 1))
    service = Service(url, SETTINGS, folder, patience=300.0)
    port = free_port()
    other = multiprocessing.get_context("spawn").Process(target=noop_server, args=(port,), daemon=True)
    other.start()
    wait_for(port)
    found: dict[str, Any] = {}
    try:
        check_answer(url, service)
        for connections in (1, 16):
            runs = []
            for _ in range(rounds):
                bare = loaded(other.pid or 0, port, "/noop", service.token, connections, seconds)
                with learning(service, rewards):
                    asked = service.process.pid or 0, service.port, "/v1/decisions", service.token
                    runs.append((bare, loaded(*asked, connections, seconds)))
            found[f"{connections} connections"] = {
                **{
                    f"{name} ratio": float(np.median([d[name] / n[name] for n, d in runs]))
                    for name in ("rate", "p50", "p99")
                },
                "no-op/s": float(np.median([n["rate"] for n, _ in runs])),
                "decisions/s": float(np.median([d["rate"] for _, d in runs])),
                "no-op p99 ms": float(np.median([n["p99"] for n, _ in runs])),
                "decision p99 ms": float(np.median([d["p99"] for _, d in runs])),
                "no-op CPU us": float(np.median([n["cpu"] for n, _ in runs])),
                "decision CPU us": float(np.median([d["cpu"] for _, d in runs])),
            }
    finally:
        other.kill()
        service.stop()
    return found


def wait_for(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)


def check_answer(url: str, service: Service) -> None:
    """Before the clocks: what is served is what the library computes from the log's rows."""
    context = [0.5] * FEATURES
    with Wire(service.port, service.token) as wire:
        answer = wire.call("POST", "/v1/decisions", {"context": context})[1]
    store = open_store(url, readonly=True)
    policy = follow(store, Settings.model_validate(SETTINGS)).policy
    store.close()
    mean, width = policy.predict(context)
    arm = answer["arm"]
    np.testing.assert_allclose([answer["mean"], answer["width"]], [mean[arm], width[arm]], rtol=1e-6)


def two_processes(folder: Path, seconds: int, rounds: int = 3) -> dict[str, float]:
    """PostgreSQL: decisions of one process with 32 connections, and of two with 16 each.

    With the microseconds of processor time a decision, of both processes together, and of PostgreSQL.
    """
    from postgres_server import Server

    server = Server()
    try:
        url = server.new_database()
        fill(url, observations=0, decisions=1)
        services = [Service(url, SETTINGS, folder) for _ in range(2)]
        pids = [service.process.pid or 0 for service in services]
        runs = []
        for _ in range(rounds):
            for some in (services[:1], services):
                before = sum(map(processor, pids)), sum(map(processor, of_postgres()))

                def ask(service: Service, n: int = 32 // len(some)) -> float:
                    return wrk(service.port, "/v1/decisions", service.token, n, seconds)["rate"]

                with ThreadPoolExecutor() as pool:
                    rate = sum(pool.map(ask, some))
                after = sum(map(processor, pids)), sum(map(processor, of_postgres()))
                runs.append((rate, *(1e6 * (b - a) / (rate * seconds) for a, b in zip(before, after, strict=True))))
        for service in services:
            service.stop()
    finally:
        server.remove()
    one, two = np.median(runs[::2], axis=0), np.median(runs[1::2], axis=0)
    names = ("decisions/s", "service CPU us", "PostgreSQL CPU us")
    ratio = float(np.median([b[0] / a[0] for a, b in zip(runs[::2], runs[1::2], strict=True)]))
    told = {
        f"{k} {name}": float(v)
        for k, found in (("one:", one), ("two:", two))
        for name, v in zip(names, found, strict=True)
    }
    return {"ratio": ratio, **told}


def of_postgres() -> list[int]:
    """The processes of PostgreSQL on this machine."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if "(postgres)" in stat.read_text():
                found.append(int(stat.parent.name))
    return found


def restart(folder: Path, events: int, observations: int) -> dict[str, float]:
    """From SIGKILL to the first decision answered, of a command that imports everything anew."""
    url = str(folder / "restart.sqlite3")
    fill(url, observations=observations, decisions=events - observations)
    service = Service(url, SETTINGS, folder, patience=300.0)
    service.stop()
    (folder / "restart.toml").write_text(TOML)
    command = [sys.executable, "-m", "kinbandits", "serve", str(folder / "restart.toml")]
    command += ["--store", url, "--port", str(service.port), "--log-level", "error"]
    times = []
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(5):
            while not decided(service):
                time.sleep(0.01)
            process.kill()
            process.wait()
            started = time.perf_counter()
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            while not decided(service):
                time.sleep(0.01)
            times.append(time.perf_counter() - started)
    finally:
        process.kill()
        process.wait()
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import kinbandits.service.server"], check=True)
    return {
        "seconds (median)": float(np.median(times)),
        "seconds (slowest)": max(times),
        "of which importing": time.perf_counter() - started,
    }


def first_start(folder: Path, rows: int) -> float:
    """Seconds until a service takes requests that finds a log of so many rows, and no snapshot."""
    url = str(folder / "first.sqlite3")
    fill(url, observations=rows, decisions=rows)
    started = time.perf_counter()
    service = Service(url, SETTINGS, folder, patience=300.0)
    seconds = time.perf_counter() - started
    service.stop()
    return seconds


def decided(service: Service) -> bool:
    try:
        with Wire(service.port, service.token, timeout=5.0) as wire:
            return bool(wire.call("POST", "/v1/decisions", {"context": [0.0] * FEATURES})[0] == 200)
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rows", type=int, nargs="+", default=list(HOLD), help="rows of the model")
    parser.add_argument("--rewards", type=float, default=0.0, help="a second, while decisions are timed")
    parser.add_argument("--restart-events", type=int, default=10_000)
    parser.add_argument("--observations", type=int, default=1000, help="rows of the model at restart")
    parser.add_argument("--first-rows", type=int, default=100_000, help="rows of a first start; 0 leaves it out")
    parser.add_argument("--postgres", action="store_true", help="only: one process and two, with PostgreSQL")
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("This benchmark needs wrk (Debian: apt install wrk).")
    with tempfile.TemporaryDirectory(prefix="kinbandits-bench-") as name:
        folder = Path(name)
        if arguments.postgres:
            print(json.dumps(two_processes(folder, arguments.seconds), indent=2))
            return
        rates = {rows: throughput(folder, arguments.seconds, rows, arguments.rewards) for rows in arguments.rows}
        again = restart(folder, arguments.restart_events, arguments.observations)
        first = first_start(folder, arguments.first_rows) if arguments.first_rows else None
        print(json.dumps({"flushes/s": flushes_per_second(folder), **rates, "restart": again}, indent=2))
    print()
    for rows, found in rates.items():
        at16, asked = found["16 connections"], HOLD.get(rows, 0.25)
        print(
            f"{rows:>6} rows, 16 connections: {at16['rate ratio']:.2f} of the no-op's rate (to hold: {asked:.2f}),",
            end=" ",
        )
        print(f"p99 {at16['p99 ratio']:.1f} times (to hold: 5),", end=" ")
        print(f"processor time {at16['decision CPU us']:.0f} us against {at16['no-op CPU us']:.0f}")
    print(f"SIGKILL to first answer, seconds:    {again['seconds (median)']:.2f} (to hold: 2)")
    if first is not None:
        print(f"First start, {arguments.first_rows:,} rows, seconds: {first:.1f} (to hold: 60)")


if __name__ == "__main__":
    main()
