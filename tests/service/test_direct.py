"""Calls that are answered straight from the connection: as the routes would, in order, whatever comes."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness import Service, Wire, free_port, until
from test_app import SETTINGS, serving, wait_ready

from kinbandits.service.app import create_app
from kinbandits.service.config import Settings
from kinbandits.service.connections import Server
from kinbandits.service.engine import Engine
from kinbandits.service.server import server_config
from kinbandits.service.store import open_store
from kinbandits.service.tokens import first_token

REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/decisions", {"json": {"context": [0.1, 0.2]}}),
    ("POST", "/v1/decisions", {"json": {"context": [0.1, 0.2], "arms": ["b", 3], "key": "k"}}),
    ("POST", "/v1/decisions", {"json": {"context": [0.1, 0.2], "arms": ["nobody"]}}),
    ("POST", "/v1/decisions", {"json": {"context": [0.1]}}),
    ("POST", "/v1/decisions", {"json": {"context": "x", "more": 1}}),
    ("POST", "/v1/decisions", {"content": b"{", "headers": {"Content-Type": "application/json; charset=utf-8"}}),
    ("POST", "/v1/decisions", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}),
    ("POST", "/v1/decisions", {"content": b"{}"}),
    ("POST", "/v1/decisions/", {"json": {"context": [0.1, 0.2]}}),
    ("PUT", "/v1/decisions", {"json": {"context": [0.1, 0.2]}}),
    ("PUT", "/v1/decisions/0-000000000001/reward", {"json": {"reward": 0.5}}),
    ("PUT", "/v1/decisions/0-000000000001/reward", {"json": {"reward": 0.7}}),
    ("PUT", "/v1/decisions/0-000000000002/reward", {"json": {"reward": 7.0}}),
    ("PUT", "/v1/decisions/0-0000000000ff/reward", {"json": {"reward": 0.5}}),
    ("PUT", "/v1/decisions/0-x/reward", {"json": {"reward": 0.5}}),
    ("PUT", "/v1/decisions/0-000000000001/reward%0A", {"json": {"reward": 0.5}}),
    ("POST", "/v1/decisions/0-000000000001/reward", {"json": {"reward": 0.5}}),
]
BODY = b'{"context": [0.1, 0.2]}'


def routed(path: Path) -> list[tuple[int, bytes, dict[str, str]]]:
    """As any ASGI server would have it."""
    client, token = serving(path)
    with client:
        client.headers["Authorization"] = f"Bearer {token}"
        wait_ready(client)
        found = [client.request(method, url, **more) for method, url, more in REQUESTS]
    return [(r.status_code, r.content, dict(r.headers)) for r in found]


def wired(service: Service, method: str, url: str, more: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
    headers = {"Authorization": f"Bearer {service.token}"}
    if "json" in more:
        headers["Content-Type"] = "application/json"
    content = json.dumps(more["json"]).encode() if "json" in more else more["content"]
    wire = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10.0)
    wire.request(method, url, content, headers | more.get("headers", {}))
    answer = wire.getresponse()
    found = answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders() if k.lower() != "date"}
    wire.close()
    return found


def test_it_answers_as_the_routes_do(tmp_path: Path) -> None:
    fresh = Service(str(tmp_path / "direct.sqlite3"), SETTINGS, tmp_path)
    direct = [wired(fresh, *request) for request in REQUESTS]
    metrics = wired(fresh, "GET", "/metrics", {"content": None})[1].decode()
    fresh.stop()
    for request, a, b in zip(REQUESTS, direct, routed(tmp_path / "routed.sqlite3"), strict=True):
        assert a == b, request
    assert {status for status, _, _ in direct} == {200, 400, 404, 405, 409, 415, 422}
    assert 'route="POST /v1/decisions"' in metrics
    assert 'route="PUT /v1/decisions/{id}/reward"' in metrics


def raw(service: Service, *parts: bytes, answers: int) -> list[tuple[int, bytes]]:
    """Statuses and first bytes of bodies of what comes back on one connection, in order."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=10.0) as wire:
        for part in parts:
            wire.sendall(part)
        found = b""
        while len(re.findall(rb"HTTP/1.1 [2-5]", found)) < answers or not found.endswith(b"}"):
            more = wire.recv(65536)
            assert more, found
            found += more
    split = re.split(rb"HTTP/1.1 (?=[2-5])", found)[1:]
    return [(int(one[:3]), one.partition(b"\r\n\r\n")[2][:7]) for one in split]


def head(service: Service, line: str, *headers: str) -> bytes:
    told = [line, "Host: x", f"Authorization: Bearer {service.token}", "Content-Type: application/json", *headers]
    return "\r\n".join([*told, "", ""]).encode()


def test_requests_sent_ahead_are_answered_in_order(service: Service) -> None:
    decide = head(service, "POST /v1/decisions HTTP/1.1", f"Content-Length: {len(BODY)}") + BODY
    policy = head(service, "GET /v1/policy HTTP/1.1")
    found = raw(service, decide + policy + decide + decide + policy, answers=5)
    assert [status for status, _ in found] == [200] * 5
    assert [body[:6] for _, body in found] == [b'{"id":', b'{"poli', b'{"id":', b'{"id":', b'{"poli']


def test_bodies_in_pieces_in_chunks_and_announced(service: Service) -> None:
    line, most = "POST /v1/decisions HTTP/1.1", json.dumps({"context": [0.25] * 9000}).encode()
    assert len(most) < 100_000
    large = head(service, line, f"Content-Length: {len(most)}")  # more than the server holds back at once
    assert raw(service, large, most[:10], most[10:70_000], most[70_000:], answers=1)[0][0] == 409
    chunked = head(service, line, "Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    announced = head(service, line, f"Content-Length: {len(BODY)}", "Expect: 100-continue")
    old = head(service, "POST /v1/decisions HTTP/1.0", f"Content-Length: {len(BODY)}")
    for parts in ((chunked,), (announced, BODY), (old + BODY,)):
        assert raw(service, *parts, answers=1) == [(200, b'{"id":"')]
    close = head(service, line, f"Content-Length: {len(BODY)}", "Connection: close") + BODY
    with socket.create_connection(("127.0.0.1", service.port), timeout=10.0) as wire:
        wire.sendall(close)
        found = b""
        while more := wire.recv(65536):  # to its end
            found += more
    assert b"connection: close" in found


def test_a_client_that_goes_harms_nobody(service: Service) -> None:
    decide = head(service, "POST /v1/decisions HTTP/1.1", f"Content-Length: {len(BODY)}") + BODY
    for content in (decide, decide[:-3], decide * 3):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", service.port), timeout=10.0) as wire:
                wire.sendall(content)
    assert raw(service, decide, answers=1)[0][0] == 200
    assert "request failed" not in service.log.read_text()


def test_who_is_refused_at_the_door_is_told_why(service: Service) -> None:
    def decide(*headers: str) -> bytes:
        told = ["POST /v1/decisions HTTP/1.1", "Host: x", "Content-Type: application/json", *headers]
        return "\r\n".join([*told, f"Content-Length: {len(BODY)}", "", ""]).encode() + BODY

    assert raw(service, decide(), answers=1)[0][0] == 401
    assert raw(service, decide("Authorization: Bearer kb_no"), answers=1)[0][0] == 401
    assert raw(service, decide(f"Authorization: Bearer {service.token}"), answers=1)[0][0] == 200
    twice = decide("Authorization: Bearer kb_no", f"Authorization: Bearer {service.token}")
    assert raw(service, twice, answers=1)[0][0] == 401  # the first counts, by the long way


def test_the_same_head_again_means_the_same(service: Service) -> None:
    """A head that was understood is not parsed again: whatever comes after it, and whoever may come in no more."""
    line = "POST /v1/decisions HTTP/1.1"
    known = head(service, line, f"Content-Length: {len(BODY)}")
    wrong, other = b"{" + BODY[1:-1] + b" ", BODY.replace(b"0.1", b"0.7")
    with socket.create_connection(("127.0.0.1", service.port), timeout=10.0) as wire:

        def ask(*parts: bytes) -> tuple[int, Any]:
            for part in parts:
                wire.sendall(part)
                time.sleep(0.02)
            found = b""
            while b"\r\n\r\n" not in found or not found.endswith(b"}"):
                found += wire.recv(65536)
            return int(found[9:12]), json.loads(found.partition(b"\r\n\r\n")[2])

        first = [ask(known + body) for body in (BODY, BODY, BODY, other)]
        assert [status for status, _ in first] == [200] * 4
        assert len({answer["id"] for _, answer in first}) == 4
        assert ask(known + wrong)[0] == 400
        assert ask(known, BODY)[0] == 200
        assert ask(known + BODY[:5], BODY[5:9], BODY[9:])[0] == 200
        assert ask(b"\r\n" + known + BODY)[0] == 200
        assert ask(known[:-4], known[-4:] + BODY)[0] == 200  # a head that is cut at its end is not yet known
        assert ask(known[:-4], b"0" + known[-4:] + BODY.ljust(10 * len(BODY)))[0] == 200
        wire.sendall(known + BODY[:5])
        time.sleep(0.02)
        wire.sendall(BODY[5:] + known + BODY)  # one more is sent ahead
        found = b""
        while found.count(b'"propensity"') < 2:
            found += wire.recv(65536)
        longer = head(service, line, f"Content-Length: {len(BODY) + 1}")
        for _ in range(3):
            assert ask(longer + BODY + b" ")[0] == 200
        assert ask(known.replace(service.token.encode(), b"kb_no") + BODY)[0] == 401
        with Wire(service.port, service.token) as admin:
            made = admin.call("POST", "/v1/tokens", {"name": "short", "roles": ["decide"]})[1]["token"]
            mine = known.replace(service.token.encode(), made.encode())
            assert [ask(mine + BODY)[0] for _ in range(3)] == [200] * 3
            assert admin.call("DELETE", "/v1/tokens/short")[0] == 200
            assert ask(mine + BODY)[0] == 401


def test_the_server_lets_calls_take_the_short_way(tmp_path: Path) -> None:
    """uvicorn wraps an application in others if it is let to; then all would go the long way, and nobody notice."""
    store, port = open_store(str(tmp_path / "log.sqlite3")), free_port()
    token = first_token(store)
    assert token is not None
    app = create_app(Engine(store, Settings.model_validate(SETTINGS)))
    server = Server(server_config(app, "127.0.0.1", port))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    with Wire(port, token) as wire:
        until(lambda: wire.call("GET", "/readyz")[0] == 200)
        assert wire.call("GET", "/v1/policy")[0] == 200
        assert not app.heads
        asked = [wire.call("POST", "/v1/decisions", {"context": [0.1, 0.2]}) for _ in range(4)]
    assert [status for status, _ in asked] == [200] * 4
    server.should_exit = True
    thread.join(20.0)
    assert len(app.heads) == 1


def test_which_calls_take_the_short_way(tmp_path: Path) -> None:
    client, token = serving(tmp_path / "log.sqlite3")
    take = client.app.direct  # type: ignore[attr-defined]
    reward = b"/v1/decisions/0-000000000001/reward"
    bearer, length = (b"authorization", f"Bearer {token}".encode()), (b"content-length", b"20")
    ordinary = SimpleNamespace(headers=[bearer, length])
    assert take(ordinary, b"POST", b"/v1/decisions", True).name == "POST /v1/decisions"
    assert take(ordinary, b"PUT", reward, True).identifier == "0-000000000001"
    for method, url in (
        (b"PUT", b"/v1/decisions"),
        (b"POST", b"/v1/decisions?x=1"),
        (b"PUT", reward + b"/"),
        (b"GET", reward),
    ):
        assert take(ordinary, method, url, True) is None
    for headers in ([bearer], [length], [bearer, length, length], [bearer, (b"content-length", b"100001")]):
        assert take(SimpleNamespace(headers=headers), b"POST", b"/v1/decisions", True) is None
