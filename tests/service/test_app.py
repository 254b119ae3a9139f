"""The HTTP face: who may do what, what is refused and how, and that nothing sent comes back."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import until
from starlette.testclient import TestClient

from kinbandits.errors import InvalidInputError
from kinbandits.service.auth import Tokens, new_token
from kinbandits.service.config import Settings, load_settings
from kinbandits.service.engine import Engine
from kinbandits.service.server import OPEN, create_app
from kinbandits.service.store import open_store

SETTINGS = {
    "policy": {"arms": ["a", "b", 3], "context_kernel": {"type": "RBF"}, "rewards": [0.0, 1.0]},
    "service": {"max_body": 100_000},
}


def serving(path: Path, settings: dict[str, Any] = SETTINGS) -> tuple[TestClient, str]:
    file = path.with_name("tokens.toml")
    token = new_token(file, "test", ["admin"])
    store = open_store(str(path))
    app = create_app(Engine(store, Settings.model_validate(settings)), Tokens(file), store.close)
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
    assert policy["counters"] == {"duplicate": 1, "conflicting": 2, "dangling": 0}
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
    assert client.post("/v1/arms", json={"arm": 3}).json() == {"arm": 3, "retired": False}
    assert client.post("/v1/decisions", json={"context": [0.0], "arms": [3]}).json()["arm"] == 3


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
    for method, path in [*listed, ("GET", "/"), ("GET", "/openapi.json"), ("GET", "/anything"), ("GET", "/metrics")]:
        concrete = path.replace("{id}", "000000000001").replace("{arm}", "a").replace("{name}", "x")
        for content in (b"{}", b"not JSON"):
            response = client.request(method, concrete, content=content)
            assert response.status_code == (200 if concrete.startswith(OPEN) else 401), (method, path)
            if response.status_code == 401:
                assert response.headers["www-authenticate"].startswith("Basic" if method == "GET" else "Bearer")


@pytest.mark.parametrize("given", [b"Bearer wrong", b"Bearer ", b"Basic abc", b"Basic eDp5", b"kb_", b"Bearer \xff"])
def test_wrong_tokens(client: TestClient, given: bytes) -> None:
    del client.headers["Authorization"]
    assert client.get("/v1/policy", headers=[(b"authorization", given)]).status_code == 401


def test_a_browser_only_reads(client: TestClient) -> None:
    """What a browser sends by itself (Basic) never changes anything, whoever made it send that."""
    token = client.headers.pop("Authorization").removeprefix("Bearer ")
    page = client.get("/", auth=("anybody", token))
    assert page.status_code == 200
    assert "Is it working?" in page.text
    assert token not in page.text
    assert client.post("/v1/decisions", json={"context": [0.1]}, auth=("anybody", token)).status_code == 401


def test_roles(client: TestClient, tmp_path: Path) -> None:
    may = {
        "decide": {("POST", "/v1/decisions"), ("DELETE", "/v1/decisions/00000000000f")},
        "reward": {("PUT", "/v1/decisions/00000000000f/reward"), ("POST", "/v1/rewards")},
        "read": {("GET", "/v1/policy"), ("GET", "/metrics"), ("GET", "/v1/arms"), ("GET", "/")},
    }
    admin = {("POST", "/v1/arms"), ("DELETE", "/v1/arms/a"), ("POST", "/v1/rollback")}
    admin |= {("PUT", "/v1/decisions/00000000000f/correction")}
    secrets = {role: new_token(tmp_path / "tokens.toml", role, [role]) for role in may}
    reader = {"Authorization": f"Bearer {secrets['read']}"}
    until(lambda: client.get("/v1/policy", headers=reader).status_code == 200)
    for role, secret in secrets.items():
        for method, path in set.union(admin, *may.values()):
            response = client.request(method, path, json={}, headers={"Authorization": f"Bearer {secret}"})
            allowed = (method, path) in may[role]
            assert (response.status_code not in (403, 422) or allowed) == allowed, (role, method, path)
            assert response.status_code != 401
    text = (tmp_path / "tokens.toml").read_text()
    assert not any(secret in text for secret in secrets.values())
    kept = [part for part in text.split("\n\n") if not part.startswith("[read]")]
    (tmp_path / "tokens.toml").write_text("\n\n".join(kept))  # its lines are deleted, so it is revoked
    until(lambda: client.get("/v1/policy", headers=reader).status_code == 401)
    (tmp_path / "tokens.toml").write_text("rubbish")  # what cannot be read changes nothing
    time.sleep(1.2)
    assert client.get("/v1/policy").status_code == 200


def test_limits_of_size(tmp_path: Path) -> None:
    client, token = serving(tmp_path / "log.sqlite3", {**SETTINGS, "service": {"max_body": 1000}})
    with client:
        wait_ready(client)
        client.headers["Authorization"] = f"Bearer {token}"
        big = b'{"context": [' + b"0.1," * 1000 + b"0.1]}"
        json_type = {"Content-Type": "application/json"}
        assert client.post("/v1/decisions", content=big, headers=json_type).status_code == 413
        chunks = iter([big[:500], big[500:2500], big[2500:]])  # no length given beforehand
        assert client.post("/v1/decisions", content=chunks, headers=json_type).status_code == 413


def test_a_request_has_an_id_and_a_line(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("kinbandits.service").propagate = True
    with caplog.at_level(logging.INFO, "kinbandits.service"):
        assert client.get("/nothing", headers={"X-Request-ID": "abc-1"}).headers["x-request-id"] == "abc-1"
        made = client.get("/nothing", headers={"X-Request-ID": "no good"}).headers["x-request-id"]
    lines = [record.__dict__ for record in caplog.records if record.getMessage() == "request"]
    assert [line["request"] for line in lines] == ["abc-1", made]
    assert lines[0]["token"] == "test"
    assert (lines[0]["status"], lines[0]["route"]) == (404, "GET other")


# -- named features ---------------------------------------------------------------------------------

AGE, DEVICE = {"name": "age", "low": 0, "high": 100}, {"name": "device", "values": ["phone", "desk"]}
NAMED: dict[str, Any] = {"policy": {"arms": ["a", "b"]}, "service": {"features": ["hour", AGE, DEVICE]}}
GOOD = {"hour": 3, "age": 25, "device": "desk"}


def test_objects_become_numbers(tmp_path: Path) -> None:
    client, token = serving(tmp_path / "log.sqlite3", NAMED)
    with client:
        client.headers["Authorization"] = f"Bearer {token}"
        wait_ready(client)

        def asked(context: Any) -> tuple[int, dict[str, Any]]:
            response = client.post("/v1/decisions", json={"context": context})
            return response.status_code, response.json()

        status, made = asked(GOOD)
        assert status == 200
        assert client.get(f"/v1/decisions/{made['id']}").json()["context"] == [3.0, 0.25, 0.0, 1.0]
        assert asked([3.0, 0.25, 0.0, 1.0])[0] == 200
        assert asked([GOOD, GOOD | {"device": "phone"}])[0] == 200
        for change, detail in (
            ({"age": 200}, "feature age is between 0 and 100"),
            ({"device": "tv"}, "feature device is one of its values"),
            ({"hour": "late"}, "feature hour is a number"),
            ({"more": 1}, "names a feature that this service does not have"),
        ):
            status, answer = asked(GOOD | change)
            assert status == 409
            assert detail in answer["detail"]
        assert "lacks age, device" in asked({"hour": 3})[1]["detail"]
        assert asked([1.0, 2.0])[1]["code"] == "context_length"
        assert asked({})[0] == 422
        parts = [{"context": GOOD}, {"context": {"hour": 1}}, {"context": GOOD}]  # one is refused, alone
        batch = client.post("/v1/batch/decisions", json={"decisions": parts}).json()
        assert [a["status"] for a in batch["answers"]] == [200, 409, 200]
        assert client.get("/v1/policy").json()["settings"]["features"][1]["name"] == "age"


@pytest.mark.parametrize(
    "features",
    ['["a", "a"]', "[]", '[{ name = "a", low = 1 }]', '[{ name = "a", low = 1, high = 0 }]', '["no spaces"]'],
)
def test_features_that_cannot_be(tmp_path: Path, features: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'[policy]\narms = ["a"]\n[service]\nfeatures = {features}\n')
    with pytest.raises(InvalidInputError, match="features"):
        load_settings(path)


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
    "nothing": (b"", 422),
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
    "lone surrogate in a key": (b'{"context": [0.1], "key": "\\ud800SeNtInEl"}', 422),
    "lone surrogate in an arm": (b'{"context": [0.1], "arms": ["\\ud800"]}', 422),
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
    assert decide(client)["id"] == "000000000001"  # nothing was written, and it still works


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
    assert client.get("/v1/decisions/00000000ffff").status_code == 404
    assert client.get("/v1/decisions/00000000ffff/explanation").status_code == 404
    response = client.patch("/v1/decisions")
    assert response.status_code == 405
    assert response.headers["allow"]
    assert client.get("/SeNtInEl").status_code == 404
    for query, name in (
        ("limt=3", "query does not fit (extra_forbidden)"),
        ("limit=x", "query.limit"),
        ("state=lost", "query.state"),
    ):
        response = client.get(f"/v1/decisions?{query}")
        assert response.status_code == 422
        assert name in response.json()["detail"]
    assert SECRET not in client.get("/SeNtInEl").text
    assert client.post("/v1/arms", json={"arm": "a"}).status_code == 409
    assert client.post("/v1/arms", json={"arm": "q", "descriptor": [1.0]}).json()["code"] == "arm_refused"


def test_a_fault_of_ours_shows_no_trace(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise RuntimeError("SeNtInEl in a trace")

    monkeypatch.setattr("kinbandits.service.stats.Stats.arm_table", broken)
    response = client.get("/v1/arms")
    assert response.status_code == 500
    assert response.json() == {"code": "internal", "detail": "something went wrong here"}


def test_headers(client: TestClient) -> None:
    response = client.get("/v1/policy")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in response.headers["content-security-policy"]


def test_bodies_and_answers_are_documented(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert "200" in operation["responses"]
            if not path.startswith(OPEN):
                assert {"401", "403", "503"} <= set(operation["responses"]), (method, path)
            if method in ("post", "put"):
                assert "requestBody" in operation
