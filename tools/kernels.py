"""The numerical tests as on other processors, and with two BLAS threads: `make test-kernels`.

Each leg is one run of pytest, in which `tests/test_portability.py` makes sure that every OpenBLAS loaded uses the
kernels and threads asked for. What this processor cannot run is named and left out. More arguments go to pytest.
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

TWO_THREADS = ["tests/regression/test_engines.py", "tests/regression/test_numbers.py"]
TWO_THREADS += ["tests/test_golden.py", "tests/test_portability.py"]


def leg(name: str, environment: dict[str, str], workers: str, *tests: str) -> bool:
    asked = ["-m", "numerical and not slow", "-n", workers, *sys.argv[1:]]
    command = [sys.executable, "-m", "pytest", *(tests or ["tests"]), *asked]
    print(f"== {name}: {' '.join(f'{k}={v}' for k, v in environment.items() if v)}", flush=True)
    start = time.perf_counter()
    code = subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode
    print(f"== {name}: {'passed' if code == 0 else 'FAILED'}, {time.perf_counter() - start:.0f} s", flush=True)
    return code == 0


def main() -> int:
    passed = []
    for processor in PROCESSORS:
        if processor == own():
            print(f"== {processor.name}: this machine's own, as in `make test`")
        elif reason := can_run(processor):
            print(f"== {processor.name}: left out, {reason}")
        elif processor.name == "Prescott":
            print("== Prescott: left out, Nehalem is an SSE processor too")
        else:
            passed.append(leg(processor.name, processor.environment(), "auto"))
    if (os.cpu_count() or 1) > 1:  # one process, or their threads would wait for each other: so a part of the tests
        threads = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
        passed.append(leg("two threads", threads, "1", *TWO_THREADS))
    print(f"== {sum(passed)} of {len(passed)} legs passed")
    return not all(passed)


if __name__ == "__main__":
    sys.exit(main())
