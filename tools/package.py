"""Wheel and sdist, as a stranger gets them: `make test-package`.

Builds both, has twine look at them, looks into them, and installs each without extras into an empty environment:
the wheel, which is one file for every platform, and the sdist with no compiler at hand. There the README's example
runs, `--help`, `--version` and `doctor` answer, and every command that needs an extra says which.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from versions import new_environment

ROOT = Path(__file__).parents[1]
IN_SDIST = ["docs/index.md", "tests/conftest.py", "README.md", "CHANGELOG.md", "LICENSE", "Makefile"]
IN_SDIST += ["constraints.txt", "constraints-oldest.txt", "tools/versions.py", "reproduce/controls.py"]
IN_WHEEL = ["kinbandits/py.typed", "kinbandits/cli/__init__.py"]
EXPERIMENT = """
seeds = 1
horizon = 5
environments = [{ kind = "synthetic-news" }]
methods = [{ name = "defaults" }]
"""
SERVICE = '[policy]\narms = ["a", "b"]\n'
NEED = {  # what is typed, without any extra: what it must answer
    "demo": "kinbandits[demo]",
    "serve --demo": "kinbandits[serve]",
    "serve service.toml --store log.sqlite3": "kinbandits[serve]",
    "serve service.toml --store postgresql://nobody@localhost/x": "kinbandits[",
    "run experiment.toml": "kinbandits[plot]",
    "paper --quick": "kinbandits[",
    "data digits": "kinbandits[experiments]",
}


def call(*command: str, ok: bool = True, more: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "KINBANDITS"))}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment | (more or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if (done.returncode == 0) != ok:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """(wheel, sdist), the wheel made from the sdist."""
    tools, pip = new_environment(folder / "tools")
    call(*pip, "install", "build", "twine")
    call(tools, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT))
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    print(call(tools, "-m", "twine", "check", "--strict", str(wheel), str(sdist)).strip())
    return wheel, sdist


def look_into(wheel: Path, sdist: Path) -> None:
    with tarfile.open(sdist) as file:
        inside = {name.split("/", 1)[-1] for name in file.getnames()}
    missing = [name for name in IN_SDIST if name not in inside]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    missing += [name for name in IN_WHEEL if name not in names]
    stray = [name for name in names if not name.startswith("kinbandits")]
    if missing or stray:
        raise SystemExit(f"missing: {missing}; not ours: {stray}")
    if not wheel.name.endswith("-py3-none-any.whl"):
        raise SystemExit(f"{wheel.name} is not for every platform")
    for path, n in ((sdist, len(inside)), (wheel, len(names))):
        print(f"{path.name}: {n} files, {path.stat().st_size / 1e6:.1f} MB")


def try_it(name: str, file: Path, folder: Path, more: dict[str, str]) -> None:
    start = time.perf_counter()
    python, pip = new_environment(folder / name)
    call(*pip, "install", "-c", str(ROOT / "constraints.txt"), str(file), more=more)
    here = folder / f"{name}-work"
    here.mkdir()
    (here / "experiment.toml").write_text(EXPERIMENT)
    (here / "service.toml").write_text(SERVICE)
    call(python, "-W", "error", "-m", "doctest", str(ROOT / "README.md"), cwd=here)
    kinbandits = str(Path(python).with_name("kinbandits"))
    for arguments in ("--help", "--version", "doctor", "run --help", "data"):
        call(kinbandits, *arguments.split(), cwd=here)
    for typed, wanted in NEED.items():
        said = call(kinbandits, *typed.split(), ok=False, cwd=here, more={"XDG_CACHE_HOME": str(here)})
        if wanted not in said:
            raise SystemExit(f"kinbandits {typed} does not name {wanted}:\n{said}")
    took = time.perf_counter() - start
    print(f"{name}: the example, doctor, {len(NEED)} commands without their extra: {took:.0f} s", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, sdist = build(folder)
        look_into(wheel, sdist)
        try_it("wheel", wheel, folder, {})
        try_it("sdist", sdist, folder, {"CC": "false", "CXX": "false"})


if __name__ == "__main__":
    main()
