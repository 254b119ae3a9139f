"""All of the kill, delivery and fuzz counts; the account is printed, and `make soak-service` keeps it.

    python tests/service/soak.py [--share 0.1]

All on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import platform
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))


def main() -> int:
    from delivery import deliver
    from fuzz import fuzz
    from harness import kill_at_work, kill_under_load
    from postgres_server import Server, binaries
    from steady import steady
    from test_kill import SETTINGS, stop_database_under_load

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the counts, for a trial")
    parser.add_argument("--minutes", type=float, default=30.0, help="of steady load")
    parser.add_argument("--figure", type=Path, help="of the steady load")
    parser.add_argument("--only", default="", help="the jobs whose name has this (a regular expression) in it")
    given = parser.parse_args()
    share = given.share
    many: Callable[[float], int] = lambda n: max(1, round(n * share))  # noqa: E731
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, share of the counts: {share:g}")
    server = None if binaries() is None else Server()
    jobs: list[tuple[str, Callable[[Path], Any]]] = [
        (
            "SIGKILL of the service, SQLite",
            lambda f: kill_under_load(str(f / "log.sqlite3"), f, SETTINGS, many(200)),
        ),
        (
            "SIGKILL in a choice, the change-over, or a snapshot",
            lambda f: kill_at_work(str(f / "log.sqlite3"), f, 24),
        ),
        (
            "100 events a second on one core",
            lambda f: steady(f, 60.0 * given.minutes, figure=given.figure),
        ),
        (
            "rewards delivered 1 to 5 times, shuffled, 8 clients, service killed",
            lambda f: deliver(str(f / "log.sqlite3"), f, many(100_000), kills=many(20)),
        ),
        ("schemathesis, all checks: cases", lambda f: fuzz(f, many(2600))),
    ]
    if server is not None:
        url = server.new_database()
        jobs.insert(
            1, ("SIGKILL of the service, PostgreSQL", lambda f: kill_under_load(url, f, SETTINGS, many(200)))
        )
        jobs.insert(2, ("PostgreSQL stopped in immediate mode", lambda f: stop(server, f, many(20))))
    else:
        print("No PostgreSQL here: its part is left out.")

    def stop(server: Server, folder: Path, stops: int) -> dict[str, int]:
        return {"stops": stops, **stop_database_under_load(server, folder, stops)}

    failed = 0
    for name, job in [(name, job) for name, job in jobs if re.search(given.only, name)]:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kinbandits-soak-") as folder:
            try:
                found = job(Path(folder))
            except Exception as error:
                failed += 1
                found = f"FAILED: {type(error).__name__}: {str(error)[-1500:]}"
        print(f"{name}: {found} ({time.monotonic() - started:.0f} s)", flush=True)
    if server is not None:
        server.remove()
    print("0 acknowledged events lost, 0 counted twice." if not failed else f"{failed} of {len(jobs)} failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
