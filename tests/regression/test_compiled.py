"""The compiled core: optional, switched off by an environment variable, and never an old build."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kinbandits.regression import compiled


def state(**environment: str) -> str:
    code = "from kinbandits.regression import compiled; print(compiled.STATE)"
    kept = {name: value for name, value in os.environ.items() if name != "KINBANDITS_COMPILED"}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=kept | environment
    ).stdout.strip()


def test_the_environment_switches_it_off() -> None:
    assert state(KINBANDITS_COMPILED="0") == "switched off by KINBANDITS_COMPILED=0"
    assert state() in ("in use", "not built", "built from another version")


def test_an_old_build_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KINBANDITS_COMPILED", raising=False)
    if compiled._load()[1] == "not built":
        pytest.skip("there is no compiled core here")
    monkeypatch.setattr(compiled, "TEXT", compiled.TEXT + 1)
    assert compiled._load() == (None, "built from another version")
