"""The numerical tests as on other processors: `make test-kernels`.

With ``--all`` on all of them, with two BLAS threads, and with the slow tests.

Each leg is one run of pytest, in which `tests/test_portability.py` makes sure that every OpenBLAS loaded uses the
kernels asked for. What this processor cannot run is named and left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from processors import PROCESSORS, can_run, own  # noqa: E402

LIKE = {
    "Prescott": "Nehalem is an SSE processor too",
    "Sandybridge": "between Nehalem and Haswell; saved policies are still tried on it",
}


def leg(name: str, environment: dict[str, str], arguments: list[str], which: str) -> bool:
    command = [sys.executable, "-m", "pytest", "tests", "-m", which, "-n", "auto", *arguments]
    print(f"== {name}: {' '.join(f'{k}={v}' for k, v in environment.items() if v)}", flush=True)
    start = time.perf_counter()
    code = subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode
    print(f"== {name}: {'passed' if code == 0 else 'FAILED'}, {time.perf_counter() - start:.0f} s", flush=True)
    return code == 0


def main() -> int:
    here = own()
    legs: dict[str, dict[str, str]] = {}
    for processor in PROCESSORS:
        if reason := can_run(processor):
            print(f"== {processor.name}: left out, {reason}")
        elif processor.name in LIKE and "--all" not in sys.argv:
            print(f"== {processor.name}: left out, {LIKE[processor.name]}; --all runs it")
        elif processor == here:
            print(f"== {processor.name}: this machine's own, as in `make test`")
        else:
            legs[processor.name] = processor.environment()
    if "--all" in sys.argv:
        legs["two threads"] = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    arguments, which = [a for a in sys.argv[1:] if a != "--all"], "numerical and not slow"
    if "--all" in sys.argv:
        which = "numerical"
    failed = [name for name, environment in legs.items() if not leg(name, environment, arguments, which)]
    print(
        f"== {len(legs) - len(failed)} of {len(legs)} legs passed"
        + (f"; failed: {', '.join(failed)}" if failed else "")
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
