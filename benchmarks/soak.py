"""A sweep that is killed again and again must end with the results of one that was left in peace, byte for byte.

    python benchmarks/soak.py                        60 cells, 10 kills each on loky and dask; ray undisturbed
    python benchmarks/soak.py --cells 6 --kills 2 --backends loky

Kills are SIGKILL at random moments, by turns to everything (driver and workers, then --resume) and to one worker
alone (the driver must go on by itself). What was finished before a kill must not be computed again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

METHODS = """
[[methods]]
name = "independent"

[[methods]]
name = "estimated"
similarity = { type = "Estimated", length_scale = 0.3, embedding_kernel = { type = "RBF", length_scale = 0.5 } }

[[methods]]
name = "pooled"
similarity = { type = "Pooled" }
weighting = "per_arm"
"""


def experiment_file(path: Path, cells: int, horizon: int) -> Path:
    """A TOML file of two environments, three methods and as many seeds as are needed."""
    seeds = max(1, cells // 6)
    environments = "".join(
        f'\n[[environments]]\nname = "{name}"\nkind = "synthetic-news"\nreward = "{name}"\nhorizon = {horizon}\n'
        for name in ("text", "scripts")
    )
    path.write_text(f'name = "soak"\nseeds = {seeds}\n{environments}{METHODS}')
    return path


@dataclass
class Sweep:
    """A sweep in its own directory, started as a user would."""

    file: Path
    out: Path
    backend: str

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "kinbandits", "run", str(self.file), "--resume", "--out", str(self.out)]
        command += ["--backend", self.backend, "--jobs", "2", "--no-report"]
        with (self.out.parent / f"{self.out.name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def finish(self) -> None:
        code = self.start().wait()
        if code:
            raise SystemExit(f"the sweep failed ({code}):\n{self.log()}")

    def done(self) -> dict[str, float]:
        """Finished cells, and when their files were written."""
        cells = self.out / "cells"
        return {p.name: p.stat().st_mtime for p in cells.glob("[!.]*.npz")} if cells.exists() else {}

    def log(self) -> str:
        path = self.out.parent / f"{self.out.name}.log"
        return path.read_text()[-4000:] if path.exists() else ""

    def digest(self) -> str:
        """Of the table and of every cell's file."""
        digest = hashlib.sha256((self.out / "results.csv").read_bytes())
        for path in sorted((self.out / "cells").glob("[!.]*")):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()


def workers(driver: int) -> list[int]:
    """Processes below the driver that do the work (not helpers such as resource trackers)."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                names[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except (OSError, IndexError, ValueError):
                continue
    below, found = {driver}, []
    for _ in range(4):
        below |= {p for p, parent in parents.items() if parent in below}
    for pid in below - {driver}:
        if "resource_tracker" not in names[pid] and "forkserver" not in names[pid]:
            found.append(pid)
    return sorted(found)


def killed_sweep(sweep: Sweep, cells: int, kills: int, rng: random.Random) -> tuple[int, int]:
    """Run a sweep with so many kills. Gives how many hit everything, and how many a worker alone."""
    moments = sorted(rng.randrange(0, cells - 1) for _ in range(kills))
    everything = lone = 0
    process = sweep.start()
    for i, moment in enumerate(moments):
        deadline = time.monotonic() + 300
        while len(sweep.done()) < moment and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(rng.uniform(0.0, 0.4))
        before = sweep.done()
        victims = workers(process.pid)
        if i % 2 and victims and process.poll() is None:
            try:
                os.kill(rng.choice(victims), signal.SIGKILL)
                lone += 1
            except ProcessLookupError:
                pass
        elif process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            everything += 1
            process = sweep.start()
        elif len(before) < cells:
            process = sweep.start()
        again = [name for name, written in before.items() if sweep.done().get(name) != written]
        if again:
            raise SystemExit(f"finished cells were written again: {again}")
    if process.wait() and len(sweep.done()) < cells:
        sweep.finish()
    sweep.finish()
    return everything, lone


def soak(cells: int, kills: int, backends: list[str], horizon: int, seed: int, place: Path) -> list[str]:
    """All of it; gives the lines of the account, and raises SystemExit if results differ."""
    file = experiment_file(place / "soak.toml", cells, horizon)
    calm = Sweep(file, place / "undisturbed", "loky")
    calm.finish()
    count, expected = len(calm.done()), calm.digest()
    lines = [f"undisturbed (loky): {count} cells, sha256 {expected[:16]}"]
    needs = {"dask": "distributed", "ray": "ray"}
    for backend in backends:
        if backend in needs and importlib.util.find_spec(needs[backend]) is None:
            lines.append(f"{backend}: left out, {needs[backend]} is not installed")
            continue
        sweep = Sweep(file, place / backend, backend)
        rng = random.Random(f"{seed} {backend}")
        everything, lone = (0, 0) if backend == "ray" else killed_sweep(sweep, count, kills, rng)
        if backend == "ray":
            sweep.finish()
        same = sweep.digest() == expected
        how = "undisturbed" if backend == "ray" else f"{everything} kills of everything, {lone} of one worker"
        lines.append(f"{backend}: {how}; {len(sweep.done())} cells, table and cells byte-equal: {same}")
        if not same:
            raise SystemExit("\n".join([*lines, sweep.log()]))
    return lines


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=60)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--backends", default="loky,dask,ray")
    parser.add_argument("--horizon", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kinbandits-soak-") as place:
        for line in soak(
            arguments.cells,
            arguments.kills,
            arguments.backends.split(","),
            arguments.horizon,
            arguments.seed,
            Path(place),
        ):
            print(line, flush=True)


if __name__ == "__main__":
    main()
