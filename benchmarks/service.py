"""The decision service on one machine: durable decisions and rewards a second, beside a FastAPI no-op.

    python benchmarks/service.py [--seconds 5] [--connections 16] [--rewards 200]

Server and clients are two processes on 127.0.0.1. Each connection asks again when it is answered. Decisions carry keys,
as those of the client do; rewards come at a steady rate on four connections of their own and are learned. The second
run of each kind counts. Compare figures of one run only: they depend on the machine, and on what else it does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import secrets
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits.client import Choice
from kinbandits.service.messages import DecisionBody

ARMS, FEATURES = 10, 8
SETTINGS: dict[str, Any] = {"policy": {"arms": ARMS}, "service": {"features": FEATURES, "reward_wait": 0.0}}


def serve_noop(wire: Any) -> None:
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()

    @app.post("/v1/decisions")
    async def decide(body: DecisionBody) -> Choice:
        return Choice(id="0" * 12, arm=0, index=0, mean=0.0, width=0.0, propensity=0.5)

    uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[wire])


def serve(wire: Any, folder: str) -> None:
    from kinbandits.service import server
    from kinbandits.service.auth import Tokens
    from kinbandits.service.config import Settings
    from kinbandits.service.engine import Engine
    from kinbandits.service.store import open_store

    store = open_store(f"{folder}/log.sqlite3")
    server.run(Engine(store, Settings.model_validate(SETTINGS)), Tokens(f"{folder}/tokens.toml"), wire)


async def call(wire: tuple[Any, Any], head: str, path: str, body: Any, method: str = "POST") -> dict[str, Any]:
    """One request on a connection."""
    reader, writer = wire
    content = json.dumps(body).encode()
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    found: dict[str, Any] = json.loads(await reader.readexactly(length))
    assert answer.startswith(b"HTTP/1.1 200"), found
    return found


async def load(port: int, token: str, connections: int, seconds: float, rewards: float, batch: int) -> dict[str, Any]:
    head = f"Host: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n"
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(4096, FEATURES)).round(4).tolist()
    times: list[float] = []
    open_: list[str] = []
    sent = 0
    end = time.perf_counter() + seconds

    def one(i: int) -> dict[str, Any]:
        return {"context": contexts[i % 4096], "key": secrets.token_hex(16)}

    async def ask(number: int) -> None:
        wire, i = await asyncio.open_connection("127.0.0.1", port), number
        while time.perf_counter() < end:
            started, i = time.perf_counter(), i + connections
            if batch:
                await call(wire, head, "/v1/batch/decisions", {"decisions": [one(i * batch + n) for n in range(batch)]})
            else:
                open_.append((await call(wire, head, "/v1/decisions", one(i)))["id"])
            times.append(time.perf_counter() - started)

    async def reward() -> None:
        nonlocal sent
        wire, began = await asyncio.open_connection("127.0.0.1", port), time.perf_counter()
        while time.perf_counter() < end:
            if open_ and sent < rewards * (time.perf_counter() - began):
                sent += 1
                body = {"reward": float(rng.random() < 0.3)}
                await call(wire, head, f"/v1/decisions/{open_.pop()}/reward", body, "PUT")
            else:
                await asyncio.sleep(0.002)

    began = time.perf_counter()
    await asyncio.gather(*(ask(i) for i in range(connections)), *(reward() for _ in range(4 if rewards else 0)))
    n, took = len(times) * (batch or 1), time.perf_counter() - began
    p50, p99 = np.quantile(times, [0.5, 0.99]) * 1e3
    return {"n": n, "rate": n / took, "rewards": sent / took, "p50": p50, "p99": p99}


def client(results: Any, *args: Any) -> None:
    import uvloop

    results.put(uvloop.run(load(*args)))


def cpu(pid: int | None) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    from kinbandits.service.auth import new_token
    from kinbandits.service.server import listen

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rewards", type=float, default=200.0, help="a second")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {given.connections} connections, {ARMS} arms")
    with tempfile.TemporaryDirectory(prefix="kinbandits-bench-") as folder:
        token = new_token(Path(folder) / "tokens.toml", "bench", ["admin"])
        runs: list[tuple[str, Any, tuple[Any, ...], float, int]] = [
            ("FastAPI no-op", serve_noop, (), 0.0, 0),
            ("decisions", serve, (folder,), 0.0, 0),
            ("decisions and rewards", serve, (folder,), given.rewards, 0),
            ("batches of 100", serve, (folder,), 0.0, 100),
        ]
        rates: dict[str, float] = {}
        for name, target, args, rewards, batch in runs:
            wire = listen("127.0.0.1", 0)
            port = wire.getsockname()[1]
            process = context.Process(target=target, args=(wire, *args), daemon=True)
            process.start()
            time.sleep(6.0)
            for _ in range(2):
                results = context.SimpleQueue()
                before = cpu(process.pid)
                who = given.connections if not batch else 2
                asking = context.Process(target=client, args=(results, port, token, who, given.seconds, rewards, batch))
                asking.start()
                found = results.get()
                asking.join()
                used = cpu(process.pid) - before
            process.terminate()
            process.join()
            rates[name] = found["rate"]
            ratio, us = found["rate"] / rates["FastAPI no-op"], 1e6 * used / found["n"]
            speed = f"{found['rate']:8,.0f} decisions/s {found['rewards']:6,.0f} rewards/s"
            took = f"p50 {found['p50']:6.1f} p99 {found['p99']:6.1f} ms   {us:6.0f} us CPU a decision"
            print(f"{name:22} {speed}   {took}   {ratio:5.2f} of the no-op", flush=True)


if __name__ == "__main__":
    main()
