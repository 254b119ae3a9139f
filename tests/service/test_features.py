"""Named features: contexts as objects, by API, client and import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import Run
from harness import Service
from test_app import serving, wait_ready

from kinbandits.client import Client
from kinbandits.errors import InvalidInputError
from kinbandits.service.config import load_settings

AGE, DEVICE = {"name": "age", "low": 0, "high": 100}, {"name": "device", "values": ["phone", "desk"]}
FEATURES: list[Any] = ["hour", AGE, DEVICE]
SETTINGS: dict[str, Any] = {"policy": {"arms": ["a", "b"]}, "service": {"features": FEATURES}}
TOML = """
[policy]
arms = ["a", "b"]
[service]
features = ["hour", { name = "age", low = 0, high = 100 }, { name = "device", values = ["phone", "desk"] }]
"""
GOOD = {"hour": 3, "age": 25, "device": "desk"}


def test_objects_become_numbers(tmp_path: Path) -> None:
    client, token = serving(tmp_path / "log.sqlite3", SETTINGS)
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


def test_without_names_objects_are_refused(tmp_path: Path) -> None:
    client, token = serving(tmp_path / "log.sqlite3")
    with client:
        client.headers["Authorization"] = f"Bearer {token}"
        wait_ready(client)
        assert client.post("/v1/decisions", json={"context": GOOD}).json()["code"] == "no_names"


def test_import_and_client(tmp_path: Path, run: Run) -> None:
    config, old, url = tmp_path / "s.toml", tmp_path / "old.csv", str(tmp_path / "log.sqlite3")
    config.write_text(TOML)
    old.write_text("arm,reward,hour,age,device\na,1,3,50,phone\n")
    assert "1 rounds" in run("log", "import", url, old, "--config", config, "--context", "hour,age,device")
    old.write_text("arm,reward,hour,age,device\na,1,3,50,tv\n")
    said = run("log", "import", url, old, "--config", config, "--context", "hour,age,device", code=1)
    assert "row 1: feature device" in said
    service = Service(url, load_settings(config).model_dump(), tmp_path)
    try:
        with Client(service.address, service.token) as client:
            assert client.decision(client.decide(GOOD))["context"] == [3.0, 0.25, 0.0, 1.0]
            assert client.decision("0-000000000001")["context"] == [3.0, 0.5, 1.0, 0.0]
            assert len(client.decide_many([GOOD, GOOD])) == 2
    finally:
        service.stop()


@pytest.mark.parametrize(
    "features",
    ['["a", "a"]', "[]", '[{ name = "a", low = 1 }]', '[{ name = "a", low = 1, high = 0 }]', '["no spaces"]'],
)
def test_features_that_cannot_be(tmp_path: Path, features: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'[policy]\narms = ["a"]\n[service]\nfeatures = {features}\n')
    with pytest.raises(InvalidInputError, match="features"):
        load_settings(path)
