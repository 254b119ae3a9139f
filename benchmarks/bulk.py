"""Fit and evaluate a log of 10^6 rows: one process, two Dask workers; equal results, speed-up, peak memory.

    python benchmarks/bulk.py [--rows 1000000] [--points 256]     # and writes benchmarks/results/bulk.csv

Each run is a process of its own, which reads the same files. Memory is that of the largest process, and is also
measured on a tenth of the rows. Processor time is that of all processes: what other work on the machine stretches less.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kinbandits as kb

RESULTS = Path(__file__).parent / "results" / "bulk.csv"
ARMS, D, FILE_ROWS = [f"item {i}" for i in range(10)], 5, 2**16


def write(folder: Path, rows: int) -> None:
    """Clicks of ten items, in several files."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    W = rng.standard_normal((len(ARMS), D))
    for i, low in enumerate(range(0, rows, FILE_ROWS)):
        n = min(FILE_ROWS, rows - low)
        X, played = rng.standard_normal((n, D)), rng.integers(len(ARMS), size=n)
        clicked = rng.random(n) < 1.0 / (1.0 + np.exp(2.0 - (X * W[played]).sum(axis=1)))
        table = {"arm": np.array(ARMS)[played], "reward": clicked.astype(float), "propensity": np.full(n, 0.1)}
        pq.write_table(pa.table(table | {f"x{j}": X[:, j] for j in range(D)}), folder / f"part-{i:04}.parquet")


def run(folder: str, points: int, workers: int) -> None:
    """Fit a policy, evaluate it beside one with independent arms, and print what that took, as JSON."""
    with contextlib.ExitStack() as stack:
        if workers:
            from distributed import Client, LocalCluster

            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
            stack.enter_context(cluster)
            stack.enter_context(Client(cluster)).wait_for_workers(workers)
            stack.enter_context(joblib.parallel_config("dask"))
        started, settings = time.perf_counter(), {"engine": kb.Budgeted(points=points), "epsilon": 0.1}
        policy = kb.fit(folder, kb.KMTLUCB(ARMS, **settings))
        fitted = time.perf_counter() - started
        alone = kb.KMTLUCB(ARMS, similarity=kb.Independent(), **settings)
        found = kb.ope.evaluate(folder, {"fitted": policy, "independent": alone}, train=0.2)
        seconds = time.perf_counter() - started
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(u.ru_utime + u.ru_stime for u in used)
    peak = max(u.ru_maxrss for u in used) / 1024
    asked: Any = policy.predict_many(np.random.default_rng(1).standard_normal((100, 1, D)))
    same = hashlib.sha256(np.array(asked).tobytes() + json.dumps(found.to_json()).encode()).hexdigest()
    print(json.dumps({"fit": fitted, "seconds": seconds, "cpu": cpu, "megabytes": peak, "results": same}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--points", type=int, default=256)
    parser.add_argument("--run", nargs=2, metavar=("FOLDER", "WORKERS"))
    given = parser.parse_args()
    if given.run:
        run(given.run[0], given.points, int(given.run[1]))
        return
    with tempfile.TemporaryDirectory() as place:
        found: list[dict[str, Any]] = []
        lines: list[dict[str, str]] = []
        for rows, workers in ((given.rows // 10, 0), (given.rows, 0), (given.rows, 2)):
            folder = Path(place) / str(rows)
            if not folder.exists():
                write(folder, rows)
            command = [sys.executable, __file__, "--points", str(given.points), "--run", str(folder), str(workers)]
            one = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            found.append(one)
            lines.append({
                "rows": f"{rows:,}", "processes": f"{workers} Dask workers" if workers else "1",
                "fit": f"{one['fit']:.0f} s", "with evaluate": f"{one['seconds']:.0f} s",
                "processor time": f"{one['cpu']:.0f} s", "largest process": f"{one['megabytes']:.0f} MB",
                "load of the machine": f"{os.getloadavg()[0]:.1f}",
            })  # fmt: skip
            print(", ".join(f"{name} {value}" for name, value in lines[-1].items()), flush=True)
    tenth, one, two = found
    print(f"speed-up {one['seconds'] / two['seconds']:.2f}; equal results: {one['results'] == two['results']}; "
          f"peak memory over that of a tenth of the rows: {one['megabytes'] / tenth['megabytes']:.2f}")  # fmt: skip
    if given.rows == parser.get_default("rows"):
        with RESULTS.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
