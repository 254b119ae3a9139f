"""Thousands of malformed requests against a real service: none is a fault of ours, and it goes on."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path
from typing import Any

import pytest
from harness import Service, Wire

SETTINGS: dict[str, Any] = {"policy": {"arms": ["a", "b", 3]}, "service": {"reward_wait": 0.0, "features": 2}}
ODD: list[Any] = [None, True, -1, 0, 2**53 + 1, 10**40, 1e308, [], {}, [[]], [None], [[1.0]], 3, 3.0]
ODD += ["", "x" * 300, "\x00", "\ud800", "é" * 50, "a"]
PATHS = [
    ("POST", "/v1/decisions", {"context": [0.1, 0.2], "arms": ["a", 3], "task": "a", "key": "k"}),
    ("POST", "/v1/batch/decisions", {"decisions": [{"context": [0.1, 0.2]}, {"context": [[0.1, 0.2]] * 3}]}),
    ("POST", "/v1/rewards", {"rewards": [{"id": "000000000001", "reward": 1.0}, {"key": "k", "reward": 0.5}]}),
    ("PUT", "/v1/decisions/000000000001/reward", {"reward": 1.0}),
    ("PUT", "/v1/decisions/000000000001/correction", {"reward": 1.0}),
    ("POST", "/v1/rollback", {"to": 1}),
    ("POST", "/v1/arms", {"arm": "c", "descriptor": [1.0], "similarity": [1.0], "neighbours": ["a"]}),
    ("DELETE", "/v1/decisions/000000000001", None),
    ("DELETE", "/v1/arms/zzz", None),
    ("GET", "/v1/decisions?limit=3&state=open&arm=a&since=1&until=2&before=000000000009", None),
    ("GET", "/v1/decisions/000000000001/explanation", None),
    ("GET", "/?range=1h&find=a&sort=pulls&explain=000000000001", None),
    ("GET", "/static/style.css", None),
    ("GET", "/metrics", None),
]


def mutated(value: Any, rng: random.Random) -> Any:
    """Something else, somewhere in a body."""
    if rng.random() < 0.3 or not isinstance(value, dict | list) or not value:
        return rng.choice(ODD)
    if isinstance(value, list):
        i = rng.randrange(len(value))
        return [*value[:i], mutated(value[i], rng), *value[i + rng.randint(0, 1) :]]
    name = rng.choice(list(value))
    changed = {**value, rng.choice([name, "more"]): mutated(value[name], rng)}
    if rng.random() < 0.2:
        del changed[name]
    return changed


def request(rng: random.Random, token: str) -> tuple[bytes, bool]:
    """One request, as bytes, of which something is wrong; whether it is shorter than it says."""
    method, path, body = rng.choice(PATHS)
    if rng.random() < 0.2:
        method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "FOO"])
    if rng.random() < 0.4:
        i = rng.randrange(len(path) + 1)
        odd = rng.choice(["%00", "%ff", "..", "/", "?", "&x=1", "%2f", "\xe9", "nan", "1e999", "%"])
        path = path[:i] + odd + path[i + rng.randint(0, 3) :]
        path = "/" + path.lstrip("/")
    content = b"" if body is None else json.dumps(mutated(body, rng)).encode()
    if content and rng.random() < 0.2:
        i = rng.randrange(len(content))
        content = content[:i] + bytes(rng.choices(range(256), k=rng.randint(0, 4))) + content[i + 1 :]
    kind = rng.choice(["application/json"] * 8 + ["text/plain", "application/json; charset=utf-16", ""])
    length = len(content) if rng.random() < 0.95 else rng.choice(["-1", "x", 10**12, 10**30])
    who = token if rng.random() < 0.95 else rng.choice(["", "wrong", "\xff"])
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {who}\r\n"
    head += f"Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    return head.encode("latin-1") + content, length != len(content)


def fuzz(folder: Path, requests: int) -> dict[int, int]:
    """How many answers of each status there were; 0 is a connection that was closed."""
    service, rng = Service(str(folder / "log.sqlite3"), SETTINGS, folder), random.Random(1)
    statuses: dict[int, int] = {}
    try:
        with Wire(service.port, service.token) as wire:
            for i in range(3):  # something to name in paths
                wire.call("POST", "/v1/decisions", {"context": [0.1 * i, 0.2]})
        for _ in range(requests):
            sent, short = request(rng, service.token)
            with socket.create_connection(("127.0.0.1", service.port), timeout=10.0) as raw:
                raw.sendall(sent)
                if short:
                    raw.shutdown(socket.SHUT_WR)
                answer = raw.recv(65536)
            status = int(answer.split()[1]) if answer else 0
            assert status < 500, (sent, answer)
            statuses[status] = statuses.get(status, 0) + 1
        assert service.ready()
    finally:
        service.stop()
    text = service.log.read_text()
    assert "request failed" not in text
    assert service.token not in text
    return statuses


@pytest.mark.parametrize("requests", [500, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.soak])])
def test_no_malformed_request_is_a_fault_of_ours(tmp_path: Path, requests: int) -> None:
    found = fuzz(tmp_path, requests)
    print(found)
    assert sum(found.values()) == requests
    assert found[422] > requests / 10
