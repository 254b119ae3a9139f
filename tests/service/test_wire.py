"""Raw bytes on the wire: whatever comes, the answer is not a fault of ours, and nobody else waits."""

from __future__ import annotations

import resource
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from harness import Service, Wire

SETTINGS: dict[str, Any] = {"policy": {"arms": ["a", "b"], "epsilon": 0.5}, "service": {"features": 1}}
PATHS = ["/", "/login", "/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/policy", "/v1/arms", "/v1/tokens"]
PATHS += ["/v1/similarity", "/v1/decisions/0-000000000001", "/v1/decisions/0-000000000001/explanation"]
PATHS += ["/view/arms", "/view/explain", "/static/style.css", "/nothing"]


def raw(service: Service, line: str, *headers: str, body: bytes = b"") -> int:
    """The status of one request as it is written here; 0 if there is no answer."""
    lines = [line, "Host: x", f"Authorization: Bearer {service.token}", *headers]
    with socket.create_connection(("127.0.0.1", service.port), timeout=10.0) as wire:
        wire.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        found = wire.recv(65536)
    return int(found.split()[1]) if found else 0


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("?x=%ff", ()),
        ("?id=%ff%00", ()),
        ("", ("X-Big: " + "a" * 100_000,)),
        ("", ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")),
        ("", ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x")),
        ("", ("Cookie: kinbandits_session=\xff.1.2",)),
        ("", ("X-Forwarded-For: \xff, ,", "X-Forwarded-Proto: \xff")),
    ],
)
def test_odd_requests(service: Service, query: str, headers: tuple[str, ...]) -> None:
    for path in PATHS:
        for prefix in ("", "http://elsewhere"):
            assert 200 <= raw(service, f"GET {prefix}{path}{query} HTTP/1.1", *headers) < 500, path
    body = b'{"context": [0.5]}'
    typed = ("Content-Type: application/json", f"Content-Length: {len(body)}", *headers)
    assert 200 <= raw(service, f"POST /v1/decisions{query} HTTP/1.1", *typed, body=body) < 500


def test_a_query_names_a_parameter_once(service: Service) -> None:
    """Of several values the last would count, and the others, wrong ones too, would be passed over."""
    assert raw(service, "GET /v1/decisions?before=7 HTTP/1.1") == 200
    assert raw(service, "GET /v1/decisions?before=x&before=7 HTTP/1.1") == 422
    assert raw(service, "GET /v1/decisions?arm=&limit=1&ar%6d= HTTP/1.1") == 422


def test_huge_rewards(service: Service) -> None:
    with Wire(service.port, service.token) as wire:
        for i in range(80):
            status, made = wire.call(
                "POST", "/v1/decisions", {"context": [[-1e12, 1e12, 0.1][i % 3] / (1 + i % 7)]}
            )
            assert status == 200
            reward = [-1e12, 1e12, 0.0][i % 3]
            assert wire.call("PUT", f"/v1/decisions/{made['id']}/reward", {"reward": reward})[0] == 200
        deadline = time.monotonic() + 20.0
        while wire.call("GET", "/v1/policy")[1]["observations"] < 80:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for path in [*PATHS, f"/v1/decisions/{made['id']}/explanation", "/view/arms", "/view/choices"]:
            assert wire.call("GET", path)[0] < 500, path
        assert wire.call("POST", "/v1/decisions", {"context": [1e12]})[0] == 200
    assert "request failed" not in service.log.read_text()


@pytest.mark.slow
def test_half_open_requests_keep_nobody_out(service: Service) -> None:
    """More of them than a process may have files by default; they are let go after a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    opened = []
    try:
        for i in range(1300):
            wire = socket.create_connection(("127.0.0.1", service.port), timeout=10.0)
            half = [
                "",
                "POST /v1/decisions HTTP/1.1\r\nHo",
                "POST /v1/decisions HTTP/1.1\r\nContent-Length: 10\r\n\r\n{",
            ]
            wire.sendall(half[i % 3].encode())
            opened.append(wire)
        with Wire(service.port, service.token, timeout=5.0) as wire:
            assert wire.call("POST", "/v1/decisions", {"context": [0.5]})[0] == 200
        for wire in opened[:3]:
            wire.settimeout(40.0)
            wire.recv(1000)  # an answer (408), or the end: but not for ever
    finally:
        for wire in opened:
            wire.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert Path(service.log).exists()


def test_every_refusal_is_documented(service: Service) -> None:
    with Wire(service.port, service.token) as wire:
        document = wire.call("GET", "/openapi.json")[1]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "413" in operation["responses"], (method, path)
