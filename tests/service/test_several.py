"""Several policies in one process, each under its own name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from commands import Run
from harness import Wire, free_port
from test_faults import status, until


def test_two_policies(tmp_path: Path) -> None:
    for name, arms in (("news", '["sport", "music"]'), ("shop", '["red", "blue", "green"]')):
        (tmp_path / f"{name}.toml").write_text(f"[policy]\narms = {arms}\n[service]\nfeatures = 1\n")
    port = free_port()
    files = [str(tmp_path / "news.toml"), str(tmp_path / "shop.toml")]
    command = [sys.executable, "-m", "kinbandits", "serve", *files, "--store", str(tmp_path), "--port", str(port)]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, stderr=said, cwd=tmp_path)
    try:
        until(lambda: status(port, "", "GET", "/readyz") == 200, 60.0)
        with Wire(port, "") as wire:
            assert wire.call("GET", "/healthz")[0] == 200
            assert b"/shop/" in wire.call("GET", "/")[1]
            assert wire.call("GET", "/other/v1/policy")[0] == 404
        tokens = dict(re.findall(r"Admin token of (\w+) .*: (kb_\S+)", (tmp_path / "said").read_text()))
        with Wire(port, tokens["news"]) as news, Wire(port, tokens["shop"]) as shop:
            made = news.call("POST", "/news/v1/decisions", {"context": [0.5]})[1]
            assert made["arm"] in ("sport", "music")
            assert shop.call("POST", "/shop/v1/decisions", {"context": [0.5]})[1]["arm"] in ("red", "blue", "green")
            assert news.call("POST", "/shop/v1/decisions", {"context": [0.5]})[0] == 401  # each has its own tokens
            assert news.call("PUT", f"/news/v1/decisions/{made['id']}/reward", {"reward": 1.0})[0] == 200
            assert shop.call("GET", "/shop/v1/policy")[1]["states"]["rewarded"] == 0
            page = news.call("GET", "/news/")[1].decode()
            assert 'href="/news/static/style.css"' in page
            assert news.call("GET", "/news/static/style.css")[0] == 200
            assert news.call("GET", "/news/docs")[0] == 200
        assert (tmp_path / "news.sqlite3").exists()
        assert (tmp_path / "shop.sqlite3").exists()
    finally:
        process.terminate()
        process.wait(20.0)


def test_names_that_cannot_be(tmp_path: Path, run: Run) -> None:
    for name in ("good", "not good"):
        (tmp_path / f"{name}.toml").write_text("[policy]\narms = 2\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "good.toml").write_text("[policy]\narms = 2\n")
    good, bad, other = tmp_path / "good.toml", tmp_path / "not good.toml", tmp_path / "other" / "good.toml"
    assert "stands in paths" in " ".join(run("serve", good, bad, "--store", tmp_path, code=1).split())
    assert "different names" in " ".join(run("serve", good, other, "--store", tmp_path, code=1).split())
    said = run("serve", good, tmp_path / "not good.toml", "--store", "postgresql://x/y", code=1)
    assert "a process for each" in " ".join(said.split())
    assert not list(tmp_path.glob("*.sqlite3"))
