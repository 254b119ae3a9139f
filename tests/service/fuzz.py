"""Thousands of requests that a schema can think of, and that it forbids, against a real service (schemathesis)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness import Service, Wire

SETTINGS: dict[str, Any] = {
    "policy": {"arms": ["a", "b", 3], "context_kernel": {"type": "RBF"}},
    "service": {"reward_wait": 0.0, "features": 2},
}


# A body above the limit is refused with 413, which the check's own list of refusals lacks. Not so 5xx: it has them.
CONFIG = """
[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429]
"""


def fuzz(folder: Path, examples: int, seed: int = 1) -> int:
    """Run all checks with so many examples for each operation; how many cases there were."""
    service = Service(str(folder / "log.sqlite3"), SETTINGS, folder)
    try:
        with Wire(service.port, service.token) as wire:
            for i in range(3):  # something to name in paths
                wire.call("POST", "/v1/decisions", {"context": [0.1 * i, 0.2]})
        (folder / "schemathesis.toml").write_text(CONFIG)
        done = subprocess.run(
            [
                str(Path(sys.executable).parent / "schemathesis"),
                *("run", f"{service.address}/openapi.json"),
                *("-H", f"Authorization: Bearer {service.token}"),
                *("--checks", "all"),
                *("--max-examples", str(examples)),
                *("--seed", str(seed)),
                "--continue-on-failure",
                "--no-color",
            ],
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=3000,
            check=False,
        )
        (folder / "schemathesis.txt").write_text(done.stdout + done.stderr)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert service.ready()
        cases = re.search(r"([\d,]+) generated", done.stdout)
        assert cases is not None, done.stdout[-2000:]
    finally:
        service.stop()
    assert "request failed" not in service.log.read_text()
    return int(cases[1].replace(",", ""))
