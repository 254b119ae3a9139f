"""The quick tests with other versions, each set in an environment of its own under .venvs.

    python tools/versions.py oldest     the least versions that pyproject.toml allows (`make test-oldest`)
    python tools/versions.py pythons    every other supported Python found on PATH (`make test-pythons`)

The package is built and installed, not linked: the tests see what a user would.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from environments import new_environment

ROOT = Path(__file__).parents[1]
EXTRAS = ".[experiments,plot,serve]"
TOOLS = ["pytest", "pytest-xdist", "hypothesis", "pandas"]
TESTS = ["cli", "policies/test_round_trips.py", "service/test_app.py", "service/test_log.py", "test_golden.py"]
TESTS += ["experiments/test_experiment_config.py", "test_values.py", "test_frames.py", "test_kernels.py"]
TESTS += ["test_similarity.py", "regression/test_numbers.py"]


def pythons() -> dict[str, str]:
    """The Pythons of the classifiers that run here, by version, but for this one."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = [c.split("::")[-1].strip() for c in classifiers if "Python :: 3." in c]
    found = {}
    for version in versions:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            continue
        name = f"python{version}"
        folders = [
            *os.environ.get("PATH", "").split(os.pathsep),
            *map(str, Path.home().glob(".pyenv/versions/*/bin")),
        ]
        candidates = [path for folder in folders if (path := shutil.which(name, path=folder))]
        path = next((p for p in candidates if runs(p, version)), None)
        if path:
            found[version] = path
        else:
            print(f"== Python {version}: left out, there is no {name} on PATH that runs")
    return found


def runs(path: str, version: str) -> bool:
    """Not a shim of a version that is not there."""
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        ran = subprocess.run([path, "-c", code], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    return ran.returncode == 0 and ran.stdout.strip() == version


def leg(name: str, python: str, constraints: str, more: list[str]) -> bool:
    start = time.perf_counter()
    folder = ROOT / ".venvs" / name
    print(f"== {name}: {python}, {constraints}", flush=True)
    here, pip = new_environment(folder, python)
    install = [*pip, "install", "-c", constraints]
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # or files that are gone since would be installed
    subprocess.run([*install, EXTRAS, *TOOLS], cwd=ROOT, check=True)
    subprocess.run([*install, "--force-reinstall", "--no-deps", "."], cwd=ROOT, check=True)
    installed = time.perf_counter()
    environment = {k: v for k, v in os.environ.items() if k not in ("KINBANDITS_ALL_TESTS", "PYTHONPATH")}
    tests = [here, "-m", "pytest", "-n", "auto", "-m", "not slow", "-p", "no:cacheprovider", *more]
    tests += [f"tests/{t}" for t in TESTS]
    passed = subprocess.run(tests, cwd=ROOT, env=environment).returncode == 0
    done = time.perf_counter()
    print(
        f"== {name}: {'passed' if passed else 'FAILED'}; installed in {installed - start:.0f} s, "
        f"tested in {done - installed:.0f} s",
        flush=True,
    )
    return passed


def main() -> int:
    what, *more = sys.argv[1:]
    if what == "oldest":  # their own deprecated calls are not ours to mend
        legs = {"oldest": (sys.executable, "constraints-oldest.txt", [*more, "-W", "ignore::DeprecationWarning"])}
    else:
        legs = {version: (path, "constraints.txt", more) for version, path in pythons().items()}
    failed = [name for name, settings in legs.items() if not leg(name, *settings)]
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
