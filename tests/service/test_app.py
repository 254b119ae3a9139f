"""The HTTP face: who may do what, what is refused and how, and that nothing sent comes back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from kinbandits.service.app import create_app
from kinbandits.service.config import Settings
from kinbandits.service.engine import Engine
from kinbandits.service.guard import OPEN
from kinbandits.service.store import open_store
from kinbandits.service.tokens import first_token

SETTINGS = {
    "policy": {
        "arms": ["a", "b", 3],
        "context_kernel": {"type": "RBF"},
        "rewards": {"type": "Range", "low": 0.0, "high": 1.0},
    },
    "service": {"max_body": 100_000},
}


def serving(path: Path, settings: dict[str, Any] = SETTINGS) -> tuple[TestClient, str]:
    store = open_store(str(path))
    token = first_token(store)
    assert token is not None
    app = create_app(Engine(store, Settings.model_validate(settings)))
    return TestClient(app, raise_server_exceptions=False), token


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    client, token = serving(tmp_path / "log.sqlite3")
    with client:
        client.headers["Authorization"] = f"Bearer {token}"
        wait_ready(client)
        yield client


def wait_ready(client: TestClient) -> None:
    for _ in range(500):
        if client.get("/readyz").status_code == 200:
            return
        time.sleep(0.01)
    raise AssertionError("not ready")


def decide(client: TestClient, **body: Any) -> dict[str, Any]:
    response = client.post("/v1/decisions", json={"context": [0.1, 0.2], **body})
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_the_main_path(client: TestClient) -> None:
    choice = decide(client, key="k")
    assert decide(client, key="k") == choice
    path = f"/v1/decisions/{choice['id']}"
    first = client.put(f"{path}/reward", json={"reward": 1.0})
    assert first.status_code == 200
    assert client.put(f"{path}/reward", json={"reward": 1.0}).content == first.content
    assert client.put(f"{path}/reward", json={"reward": 0.0}).status_code == 409
    assert client.put(f"{path}/reward", json={"reward": 2.0}).status_code == 409
    record = client.get(path).json()
    assert (record["state"], record["reward"], record["context"]) == ("rewarded", 1.0, [0.1, 0.2])
    for _ in range(100):
        policy = client.get("/v1/policy").json()
        if policy["observations"] == 1:
            break
        time.sleep(0.01)
    assert policy["states"]["rewarded"] == 1
    assert policy["counters"] == {"duplicate": 1, "conflicting": 2}
    explanation = client.get(f"{path}/explanation").json()
    assert explanation["arm"] == choice["arm"]
    assert explanation["n_own"] == explanation["n_all"] == 1
    similarity = client.get("/v1/similarity").json()
    assert similarity["arms"] == ["a", "b", 3]
    assert len(similarity["matrix"]) == 3
    arms = {a["arm"]: a for a in client.get("/v1/arms").json()}
    assert arms[choice["arm"]]["mean_reward"] == 1.0
    voided = decide(client)
    assert client.delete(f"/v1/decisions/{voided['id']}").json()["state"] == "void"


def test_arms_over_http(client: TestClient) -> None:
    assert client.post("/v1/arms", json={"arm": "new one"}).status_code == 200
    assert client.delete("/v1/arms/new%20one").json() == {"arm": "new one", "retired": True}
    assert client.delete("/v1/arms/3").json() == {"arm": 3, "retired": True}
    assert client.delete("/v1/arms/none").status_code == 404
    assert client.post("/v1/decisions", json={"context": [0.0], "arms": [3]}).json()["code"] == "retired_arm"


def test_metrics_and_health(client: TestClient) -> None:
    decide(client)
    assert client.get("/healthz").json() == {"status": "ok"}
    text = client.get("/metrics").text
    assert 'kinbandits_decisions{state="open"}' in text
    assert 'kinbandits_http_requests_total{route="POST /v1/decisions",status="200"} 1.0' in text


# -- tokens -----------------------------------------------------------------------------------------


def routes(client: TestClient) -> list[tuple[str, str]]:
    document = client.get("/openapi.json").json()
    listed = [(method.upper(), path) for path, item in document["paths"].items() for method in item]
    assert len(listed) >= 14
    return listed


def test_no_route_but_health_without_a_token(client: TestClient) -> None:
    listed = routes(client)
    del client.headers["Authorization"]
    for method, path in [*listed, ("GET", "/"), ("GET", "/openapi.json"), ("GET", "/anything")]:
        concrete = path.replace("{id}", "0-000000000001").replace("{arm}", "a").replace("{name}", "x")
        response = client.request(method, concrete, json={}, follow_redirects=False)
        if concrete.startswith(OPEN):
            assert response.status_code == 200
        elif path == "/":
            assert (response.status_code, response.headers["location"]) == (303, "/login")
        else:
            assert response.status_code == 401, (method, path)
            assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("given", [b"Bearer wrong", b"Bearer ", b"Basic abc", b"kb_", b"Bearer \xff"])
def test_wrong_tokens(client: TestClient, given: bytes) -> None:
    del client.headers["Authorization"]
    assert client.get("/v1/policy", headers=[(b"authorization", given)]).status_code == 401


def test_roles(client: TestClient) -> None:
    may = {
        "decide": {("POST", "/v1/decisions"), ("DELETE", "/v1/decisions/0-00000000000f")},
        "reward": {("PUT", "/v1/decisions/0-00000000000f/reward")},
        "read": {("GET", "/v1/policy"), ("GET", "/metrics"), ("GET", "/v1/arms")},
    }
    admin = {("POST", "/v1/arms"), ("DELETE", "/v1/arms/a"), ("GET", "/v1/tokens"), ("POST", "/v1/tokens")}
    secrets = {}
    for role in may:
        made = client.post("/v1/tokens", json={"name": role, "roles": [role]})
        assert made.status_code == 200
        secrets[role] = made.json()["token"]
    for role, secret in secrets.items():
        for method, path in set.union(admin, *may.values()):
            response = client.request(method, path, json={}, headers={"Authorization": f"Bearer {secret}"})
            allowed = (method, path) in may[role]
            assert (response.status_code != 403) == allowed, (role, method, path, response.status_code)
            assert response.status_code != 401


def test_tokens_are_shown_once_kept_hashed_and_can_be_revoked(client: TestClient, tmp_path: Path) -> None:
    secret = client.post("/v1/tokens", json={"name": "t", "roles": ["read"]}).json()["token"]
    assert secret not in client.get("/v1/tokens").text
    content = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert secret.encode() not in content
    reader = {"Authorization": f"Bearer {secret}"}
    assert client.get("/v1/policy", headers=reader).status_code == 200
    assert client.delete("/v1/tokens/t").status_code == 200
    assert client.get("/v1/policy", headers=reader).status_code == 401
    assert client.delete("/v1/tokens/t").status_code == 404
    again = client.post("/v1/tokens", json={"name": "t", "roles": ["read"]})
    assert again.status_code == 409


def test_limits_of_rate_and_size(tmp_path: Path) -> None:
    settings = {**SETTINGS, "service": {"rate": 5.0, "burst": 10, "max_body": 1000}}
    client, token = serving(tmp_path / "log.sqlite3", settings)
    with client:
        wait_ready(client)
        client.headers["Authorization"] = f"Bearer {token}"
        answers = [client.get("/v1/arms") for _ in range(30)]
        refused = [a for a in answers if a.status_code == 429]
        assert len(refused) >= 15
        assert int(refused[0].headers["retry-after"]) >= 1
        big = b'{"context": [' + b"0.1," * 1000 + b"0.1]}"
        json_type = {"Content-Type": "application/json"}
        assert client.post("/v1/decisions", content=big, headers=json_type).status_code == 413
        time.sleep(0.5)
        chunks = iter([big[:500], big[500:]])  # no length given beforehand
        assert client.post("/v1/decisions", content=chunks, headers=json_type).status_code == 413


# -- malformed input --------------------------------------------------------------------------------

SECRET = "SeNtInEl"
BODIES: dict[str, tuple[bytes, int]] = {
    "NaN": (b'{"context": [NaN]}', 422),
    "infinity": (b'{"context": [Infinity]}', 422),
    "1e999": (b'{"context": [1e999]}', 422),
    "too large a number": (b'{"context": [1e200]}', 422),
    "numbers as text": (b'{"context": ["1.0"]}', 422),
    "booleans": (b'{"context": [true]}', 422),
    "null": (b'{"context": null}', 422),
    "nothing": (b"", 400),
    "not JSON": (b"SeNtInEl", 400),
    "half of JSON": (b'{"context": [0.1', 400),
    "empty": (b"{}", 422),
    "a list": (b"[]", 422),
    "empty context": (b'{"context": []}', 422),
    "empty row": (b'{"context": [[]]}', 422),
    "ragged": (b'{"context": [[1.0, 2.0], [1.0], [0.0, 0.0]]}', 409),
    "mixed": (b'{"context": [1.0, [1.0]]}', 422),
    "unknown field": (b'{"context": [0.1], "SeNtInEl": 1}', 422),
    "unknown arm": (b'{"context": [0.1], "arms": ["SeNtInEl"]}', 404),
    "lone surrogate in a key": (b'{"context": [0.1], "key": "\\ud800SeNtInEl"}', 400),
    "lone surrogate in an arm": (b'{"context": [0.1], "arms": ["\\ud800"]}', 400),
    "control characters": (b'{"context": [0.1], "key": "a\\u0000b"}', 422),
    "key too long": (b'{"context": [0.1], "key": "' + b"k" * 201 + b'"}', 422),
    "not UTF-8": (b'{"context": [0.1], "key": "\xff\xfe"}', 400),
    "deep nesting": (b'{"context": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", 400),
    "huge integer": (b'{"context": [' + b"9" * 5000 + b"]}", 400),
    "huge arm number": (b'{"context": [0.1], "arms": [' + b"9" * 300 + b"]}", 422),
}


@pytest.mark.parametrize("name", BODIES)
def test_malformed_decisions(client: TestClient, name: str) -> None:
    content, status = BODIES[name]
    response = client.post("/v1/decisions", content=content, headers={"Content-Type": "application/json"})
    assert response.status_code == status, response.text
    assert SECRET not in response.text
    assert response.json()["code"]
    assert decide(client)["id"] == "0-000000000001"  # nothing was written, and it still works


def test_ten_megabytes(client: TestClient) -> None:
    body = b'{"context": [' + b"0.1, " * 2_000_000 + b"0.1]}"
    assert len(body) > 10_000_000
    response = client.post("/v1/decisions", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    decide(client)


@pytest.mark.parametrize("reward", ["NaN", "1e999", "-Infinity", '"1"', "true", "null", "[1.0]", "1e13"])
def test_malformed_rewards(client: TestClient, reward: str) -> None:
    choice = decide(client)
    path = f"/v1/decisions/{choice['id']}/reward"
    json_type = {"Content-Type": "application/json"}
    response = client.put(path, content=f'{{"reward": {reward}}}'.encode(), headers=json_type)
    assert response.status_code == 422
    assert client.put(path, json={"reward": 1.5}).json()["code"] == "reward_range"
    assert client.put(path, json={"reward": 1}).status_code == 200


def test_other_things_that_are_refused(client: TestClient) -> None:
    assert client.post("/v1/decisions", content=b"{}").status_code == 415
    assert client.get("/v1/decisions/SeNtInEl").status_code == 422
    assert SECRET not in client.get("/v1/decisions/SeNtInEl").text
    assert client.get("/v1/decisions/0-00000000ffff").status_code == 404
    assert client.get("/v1/decisions/0-00000000ffff/explanation").status_code == 404
    response = client.patch("/v1/decisions")
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, POST"
    assert client.get("/SeNtInEl").status_code == 404
    assert SECRET not in client.get("/SeNtInEl").text
    assert client.post("/v1/tokens", json={"name": "x", "roles": ["king"]}).status_code == 422
    assert client.post("/v1/arms", json={"arm": "a"}).status_code == 409
    assert client.post("/v1/arms", json={"arm": "q", "descriptor": [1.0]}).json()["code"] == "arm_refused"


def test_a_fault_of_ours_shows_no_trace(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise RuntimeError("SeNtInEl in a trace")

    monkeypatch.setattr("kinbandits.service.state.State.arm_table", broken)
    response = client.get("/v1/arms")
    assert response.status_code == 500
    assert response.json() == {"code": "internal", "detail": "something went wrong here"}


def test_headers(client: TestClient) -> None:
    response = client.get("/v1/policy")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in response.headers["content-security-policy"]


def test_every_status_is_documented(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            statuses = set(operation["responses"])
            assert "200" in statuses
            if not path.startswith(OPEN):
                assert {"401", "403", "405", "429", "503"} <= statuses, (method, path)
                assert operation["security"] == [{"token": []}]
            if "requestBody" in operation:
                assert {"400", "413", "415", "422"} <= statuses
    json.dumps(document)


def test_docs_for_people(client: TestClient) -> None:
    page = client.get("/docs").text
    for _, path in routes(client):
        assert path in page
    assert "https://" not in page  # nothing from elsewhere
    assert "choose" in page.lower()
    del client.headers["Authorization"]
    assert client.get("/docs", follow_redirects=False).headers["location"] == "/login"
