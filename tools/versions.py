"""The package with other versions: constraints files, and quick tests in environments of their own under .venvs.

    python tools/versions.py constraints [--oldest]   what is installed here (or the least versions), for a file
    python tools/versions.py oldest                   tests with the least versions (`make test-oldest`)
    python tools/versions.py pythons                  tests with every other Python found (`make test-pythons`)

The package is built and installed, not linked: the tests see what a user would. They are a choice that meets every
dependency: the command line, policies saved and loaded, the service, tables of all libraries, golden traces.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTALL = [".[experiments,plot,serve]", "pytest", "pytest-xdist", "hypothesis", "pandas", "pyarrow", "polars"]
TESTS = ["cli/test_commands.py", "policies/test_round_trips.py", "service/test_app.py", "test_frames.py"]
TESTS += ["environments", "experiments", "report", "test_similarity.py"]
TESTS += ["test_golden.py", "test_logs.py", "test_values.py", "test_kernels.py"]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints(oldest: bool) -> list[str]:
    """Lines ``name==version`` for all requirements, extras included."""
    from packaging.requirements import Requirement

    extras = PROJECT["optional-dependencies"].values()
    waiting = [(Requirement(text), "") for texts in (PROJECT["dependencies"], *extras) for text in texts]
    if oldest:
        least = {canonical(r.name): s.version for r, _ in waiting for s in r.specifier if s.operator == ">="}
        return [f"{name}=={version}" for name, version in sorted(least.items())]
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    while waiting:  # and whatever these require in turn
        requirement, extra = waiting.pop()
        name = canonical(requirement.name)
        if name == "kinbandits" or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        for inner in {"", *requirement.extras} - {i for n, i in seen if n == name}:
            seen.add((name, inner))
            waiting += [(Requirement(text), inner) for text in metadata.requires(name) or ()]
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def new_environment(folder: Path, python: str = sys.executable) -> tuple[str, list[str]]:
    """(its Python, the command that is its pip); also where Debian's Python comes without ensurepip."""
    here = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    pip = [here, "-m", "pip", "--disable-pip-version-check", "-q"]
    if not folder.exists():
        made = subprocess.run([python, "-m", "venv", str(folder)], capture_output=True)
        if made.returncode != 0:
            subprocess.run([python, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
    if subprocess.run([*pip, "--version"], capture_output=True).returncode != 0:
        base = getattr(sys, "_base_executable", sys.executable)
        pip = [base, "-m", "pip", "--disable-pip-version-check", "-q", "--python", here]
    return here, pip


def pythons() -> dict[str, str]:
    """The Pythons of the classifiers that run here, by version, but for this one."""
    found, code = {}, "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *map(str, Path.home().glob(".pyenv/versions/*/bin"))]
    for version in re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"])):
        for path in filter(None, (shutil.which(f"python{version}", path=folder) for folder in folders)):
            ran = subprocess.run([path, "-c", code], capture_output=True, text=True)  # not a shim of one that is gone
            if ran.stdout.strip() == version != f"{sys.version_info.major}.{sys.version_info.minor}":
                found[version] = path
                break
    return found


def leg(name: str, python: str, constraint: str, more: list[str]) -> bool:
    start = time.perf_counter()
    print(f"== {name}: {python}, {constraint}", flush=True)
    here, pip = new_environment(ROOT / ".venvs" / name, python)
    install = [*pip, "install", "-c", constraint]
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # or files that are gone since would be installed
    subprocess.run([*install, *INSTALL], cwd=ROOT, check=True)
    subprocess.run([*install, "--force-reinstall", "--no-deps", "."], cwd=ROOT, check=True)
    installed, before = time.perf_counter(), os.times()
    environment = {k: v for k, v in os.environ.items() if k not in ("KINBANDITS_DATA", "PYTHONPATH")}
    tests = [here, "-m", "pytest", "-n", "auto", "-m", "not slow", "-p", "no:cacheprovider", *more]
    passed = subprocess.run([*tests, *(f"tests/{t}" for t in TESTS)], cwd=ROOT, env=environment).returncode == 0
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    took = f"installed in {installed - start:.0f} s, tested in {after.elapsed - before.elapsed:.0f} s ({cpu:.0f} s CPU)"
    print(f"== {name}: {'passed' if passed else 'FAILED'}; {took}", flush=True)
    return passed


def main() -> int:
    what, *more = sys.argv[1:] or [""]
    if what == "constraints":
        oldest = "--oldest" in more
        kind = "The least versions that pyproject.toml allows" if oldest else "Versions with which the tests pass"
        print(f"# {kind}. Written by tools/versions.py {' '.join(sys.argv[1:])}.", *constraints(oldest), sep="\n")
        return 0
    if what == "oldest":  # their own deprecated calls are not ours to mend
        return not leg("oldest", sys.executable, "constraints-oldest.txt", [*more, "-W", "ignore::DeprecationWarning"])
    if what == "pythons":
        return bool([version for version, path in pythons().items() if not leg(version, path, "constraints.txt", more)])
    raise SystemExit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
