"""What is in deploy/ fits the service: every metric that is named exists, and Prometheus takes the rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_app import decide, serving, wait_ready

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
NAME = re.compile(r"\bkinbandits_[a-z_]+")


def test_every_metric_that_is_named_exists(tmp_path: Path) -> None:
    client, token = serving(tmp_path / "log.sqlite3")
    with client:
        client.headers["Authorization"] = f"Bearer {token}"
        wait_ready(client)
        path = f"/v1/decisions/{decide(client)['id']}/reward"
        for reward in (1.0, 1.0):
            client.put(path, json={"reward": reward})
        found = client.get("/metrics").text
    there = set(re.findall(r"^(kinbandits_[a-z_]+)", found, re.MULTILINE))
    board = json.loads((DEPLOY / "grafana-board.json").read_text())
    asked = " ".join(t["expr"] for panel in board["panels"] for t in panel["targets"])
    asked += " " + " ".join(re.findall(r"expr: (.*)", (DEPLOY / "alerts.yml").read_text()))
    assert set(NAME.findall(asked)) <= there
    routes = set(re.findall(r'route="([^"]+)"', asked))
    assert routes <= set(re.findall(r'route="([^"]+)"', found))
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    assert len(set(places)) == len(places)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is in Debian's package prometheus")
def test_prometheus_takes_the_rules() -> None:
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]):
        done = subprocess.run(["promtool", *command], cwd=DEPLOY, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_container_file_names_what_is_there() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert '"/src[serve,postgres]"' in text
    extras = (DEPLOY.parent / "pyproject.toml").read_text()
    assert "\nserve = " in extras
    assert "\npostgres = " in extras
    assert "USER kinbandits" in text
