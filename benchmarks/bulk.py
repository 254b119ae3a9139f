"""Fitting and evaluating a log of 10^6 rows: one process, two Dask workers, equal results, peak memory.

    python benchmarks/bulk.py [--rows 1000000] [--points 256]

Prints ratios of one run: the time of one process over that of two workers, whether the results are equal, and the
peak memory of one process on the log and on a quarter of it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import kinbandits as kb

ARMS = [f"item {i}" for i in range(10)]


def written(folder: Path, rows: int) -> Path:
    """Clicks of ten items, in files of 2^17 rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    rng = np.random.default_rng(0)
    W = rng.standard_normal((10, 5))
    for i, low in enumerate(range(0, rows, 2**17)):
        n = min(2**17, rows - low)
        X, played = rng.standard_normal((n, 5)), rng.integers(10, size=n)
        clicked = rng.random(n) < 1.0 / (1.0 + np.exp(2.0 - np.einsum("nd,nd->n", X, W[played])))
        columns: dict[str, Any] = {"arm": np.array(ARMS)[played], "reward": clicked.astype(float)}
        columns |= {"propensity": np.full(n, 0.1), **{f"x{j}": X[:, j] for j in range(5)}}
        pq.write_table(pa.table(columns), folder / f"part-{i:04}.parquet")
    return folder


def both(folder: Path, points: int) -> tuple[kb.KMTLUCB, Any]:
    """The fitted policy, and what it would have earned beside one with independent arms."""
    budget = kb.Budgeted(points=points)
    first = kb.fit(folder, kb.KMTLUCB(ARMS, engine=budget, epsilon=0.1))
    other = kb.KMTLUCB(ARMS, engine=budget, epsilon=0.1, similarity=kb.Independent())
    return first, kb.ope.evaluate(folder, {"fitted": first, "independent": other}, train=0.2)


def alone(folder: str, points: int) -> None:
    """In a process of its own: seconds and peak memory, as JSON."""
    started = time.perf_counter()
    both(Path(folder), points)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": time.perf_counter() - started, "megabytes": peak}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--points", type=int, default=256)
    parser.add_argument("--alone", default="")
    given = parser.parse_args()
    if given.alone:
        alone(given.alone, given.points)
        return
    import distributed

    with tempfile.TemporaryDirectory() as place:
        peaks = []
        for rows in (given.rows // 4, given.rows):
            folder = written(Path(place) / str(rows), rows)
            command = [sys.executable, __file__, "--alone", str(folder), "--points", str(given.points)]
            peaks.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            print(f"{rows:,} rows, one process: {peaks[-1]['seconds']:.1f} s, peak {peaks[-1]['megabytes']:.0f} MB")
        here, found = both(folder, given.points)
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster),
            joblib.parallel_config("dask"),
        ):
            started = time.perf_counter()
            there, again = both(folder, given.points)
            seconds = time.perf_counter() - started
    x = np.random.default_rng(1).standard_normal((100, 1, 5))
    ask = getattr(here, "predict_many", here.predict), getattr(there, "predict_many", there.predict)
    same = all(np.array_equal(a, b) for a, b in zip(ask[0](x), ask[1](x), strict=True)) and found == again
    print(f"two Dask workers: {seconds:.1f} s, {peaks[1]['seconds'] / seconds:.2f} times as fast; equal: {same}")
    print(
        f"peak memory of {given.rows:,} rows over that of a quarter: "
        f"{peaks[1]['megabytes'] / peaks[0]['megabytes']:.2f}"
    )


if __name__ == "__main__":
    main()
