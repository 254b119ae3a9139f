"""Fit and evaluate on logs of any length: throughput, scaling, memory, kills, coverage.

    python benchmarks/bulk.py fit         rows a second on one and two dask workers, and one by one; memory
    python benchmarks/bulk.py cpu         rows per CPU second of one core, a partition in bulk and one by one; short
    python benchmarks/bulk.py kill        a worker is killed in the middle: the same bytes
    python benchmarks/bulk.py coverage    95 % intervals over 500 simulated logs with known truth, through evaluate

``--rows``, ``--similarity``, ``--points``, ``--logs`` change the size; ``--folder`` keeps generated rows. Times are
of one run.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kinbandits as kb
from kinbandits.bulk import Columns
from kinbandits.bulk.summing import Plan, summed
from kinbandits.bulk.table import PARTITION_ROWS

N, D = 50, 16
COLUMNS = Columns(context=[f"x{i}" for i in range(D)])
SIMILARITIES = {
    "independent": kb.Independent(),
    "mixed": kb.Mixed(0.3),
    "estimated": kb.Estimated(length_scale=4.0),
}


def policy(similarity: str, points: int) -> kb.KMTLUCB:
    return kb.KMTLUCB(
        arms=N,
        similarity=SIMILARITIES[similarity],
        context_kernel=kb.RBF(length_scale=16.0),
        ridge=0.1,
        engine=kb.Budgeted(points=points),
    )


def block(start: int, n: int) -> dict[str, Any]:
    """Rows from number ``start`` on: fifty arms, each with a smooth function of its own, and noise."""
    rng = np.random.default_rng([7, start])
    directions = np.random.default_rng(1).normal(size=(N, D)) / D**0.5
    X, arms = rng.standard_normal((n, D)), rng.integers(N, size=n)
    mean = 0.5 + 0.4 * np.sin(np.einsum("ij,ij->i", X, directions[arms]))
    return {
        "arm": arms,
        **{f"x{i}": X[:, i] for i in range(D)},
        "reward": mean + 0.3 * rng.standard_normal(n),
        "propensity": np.full(n, 1.0 / N),
    }


def generated(folder: Path, rows: int, group: int = 2**17) -> Path:
    """That many rows in files of eight row groups, unless they are there."""
    path = folder / f"rows-{rows}"
    if not path.exists():
        part = folder / f".rows-{rows}"
        part.mkdir(parents=True, exist_ok=True)
        for i, start in enumerate(range(0, rows, 8 * group)):
            with pq.ParquetWriter(part / f"part-{i:04}.parquet", pa.table(block(0, 1)).schema) as writer:
                for low in range(start, min(start + 8 * group, rows), group):
                    writer.write_table(pa.table(block(low, min(group, rows - low))))
        part.rename(path)
    return path


def one_by_one(
    similarity: str, points: int, rows: int = 1500, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Rows a second of ``observe``, row by row, once the dictionary is full."""
    learner = policy(similarity, points)
    found = block(0, 8 * points + rows)
    X = np.stack([found[name] for name in COLUMNS.context], axis=1)
    learner.observe(found["arm"][: 8 * points], X[: 8 * points], found["reward"][: 8 * points])
    start = clock()
    for i in range(8 * points, 8 * points + rows):
        learner.observe(found["arm"][i : i + 1], X[i : i + 1], found["reward"][i : i + 1])
    return rows / (clock() - start)


def cpu(args: argparse.Namespace, folder: Path) -> None:
    n = min(args.rows, PARTITION_ROWS)
    found = block(0, n)
    X = np.stack([found[name] for name in COLUMNS.context], axis=1)
    chosen = np.random.default_rng(0).choice(n, args.points, replace=False)
    for name in SIMILARITIES:
        slow = one_by_one(name, args.points, 300, time.process_time)
        untaught = policy(name, args.points)
        plan = Plan(untaught.regression.settings, N, found["arm"][chosen], X[chosen], None, untaught._scale)
        start = time.process_time()
        summed(plan, found["arm"], X, found["reward"])
        quick = n / (time.process_time() - start)
        print(f"{name}: {quick:,.0f} rows per CPU second in bulk, {slow:,.0f} one by one: {quick / slow:.1f}")


class Peak:
    """The largest resident memory of the workers, looked at four times a second."""

    def __init__(self, client: distributed.Client) -> None:
        self.mb, self._client, self._stop = 0.0, client, threading.Event()
        self.first = self._now()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _now(self) -> float:
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return max((w["metrics"].get("memory", 0) / 2**20 for w in workers), default=0.0)

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            self.mb = max(self.mb, self._now())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


def fitted(log: Path, args: argparse.Namespace, client: distributed.Client, folder: Path) -> kb.KMTLUCB:
    untaught = policy(args.similarity, args.points)
    return kb.bulk.fit(log, untaught, columns=COLUMNS, scheduler=client, work=folder / "work")


def fit(args: argparse.Namespace, folder: Path) -> None:
    slow = one_by_one(args.similarity, args.points)
    print(f"one by one: {slow:,.0f} rows/s ({args.similarity}, N={N}, d={D}, m={args.points})", flush=True)
    speeds = {}
    for workers in map(int, args.workers.split(",")):
        rows = args.rows if workers > 1 or not args.rows_alone else args.rows_alone
        log = generated(folder, rows)
        with (
            distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            client.run(_warm)
            with Peak(client) as peak:
                start = time.perf_counter()
                learned = fitted(log, args, client, folder)
                seconds = time.perf_counter() - start
        assert learned.n_observations == rows
        speeds[workers] = rows / seconds
        print(
            f"{workers} dask worker(s): {rows:,} rows in {seconds:.1f} s, {rows / seconds:,.0f} rows/s, "
            f"{rows / seconds / slow:.1f} times one by one; a worker {peak.mb:.0f} MB at most, "
            f"{peak.first:.0f} before",
            flush=True,
        )
    if {1, 2} <= speeds.keys():
        print(f"one worker to two: {speeds[2] / speeds[1]:.2f} (bar 1.6)")


def _warm() -> None:
    import pyarrow.parquet  # noqa: F401

    import kinbandits.bulk  # noqa: F401


def kill(args: argparse.Namespace, folder: Path) -> None:
    log = generated(folder, args.rows)
    saved = []
    for killed in (False, True):
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            if killed:
                threading.Thread(target=_kill_one, args=(client, folder / "work"), daemon=True).start()
            learned = fitted(log, args, client, folder)
        saved.append(folder / f"policy-{killed}")
        learned.save(saved[-1])
    same = saved[0].read_bytes() == saved[1].read_bytes()
    print(f"{args.rows:,} rows, a worker killed while it learned: {'the same bytes' if same else 'OTHER BYTES'}")


def _kill_one(client: distributed.Client, work: Path) -> None:
    while not any(work.glob("learn-*")):
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    print("killed a worker", flush=True)


def coverage(args: argparse.Namespace, folder: Path) -> None:
    """A target that is known, logs of 8,000 rounds: how often intervals of `kb.bulk.evaluate` hold the truth."""
    arms, types, n = 4, 5, 8000
    world = np.random.default_rng(42)
    means, shares = world.uniform(0.1, 0.9, (types, arms)), world.dirichlet(np.full(types, 3.0))
    logging = 0.7 * np.eye(arms)[means.argmin(axis=1)] + 0.3 / arms  # mostly the worst arm, with a floor
    target = kb.KMTLUCB(
        arms, similarity=kb.Independent(), context_kernel=kb.RBF(0.3), ridge=0.1, exploration=0.0, epsilon=0.2,
        engine=kb.Budgeted(points=20),
    )  # fmt: skip
    t, a = np.divmod(np.arange(types * arms), arms)
    target.observe(np.repeat(a, 20), np.repeat(t, 20)[:, None].astype(float), np.repeat(means[t, a], 20))
    pi = target.probabilities(np.arange(types, dtype=float)[:, None, None])
    truth = float(shares @ (pi * means).sum(axis=1))
    held: dict[str, int] = {}
    path = folder / "log.parquet"
    for seed in range(args.logs):
        rng = np.random.default_rng(seed)
        kind = rng.choice(types, n, p=shares)
        chosen = (rng.random(n)[:, None] > logging[kind].cumsum(axis=1)).sum(axis=1)
        log = {"arm": chosen, "context": kind.astype(float), "propensity": logging[kind, chosen]}
        log["reward"] = (rng.random(n) < means[kind, chosen]).astype(float)
        pq.write_table(pa.table(log), path, row_group_size=2000)
        found = kb.bulk.evaluate(path, {"t": target}, partition_rows=2000, scheduler="sync", progress=False)
        for name, e in found.evaluations["t"].estimates.items():
            held[name] = held.get(name, 0) + (e.low <= truth <= e.high)
    shares_held = ", ".join(f"{name} {count / args.logs:.3f}" for name, count in held.items())
    print(f"{args.logs} logs of {n:,} rounds, truth {truth:.4f}, 95 % intervals hold it in: {shares_held}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["fit", "cpu", "kill", "coverage"])
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--rows-alone", type=int, default=0, help="rows for one worker, if fewer")
    parser.add_argument("--points", type=int, default=512)
    parser.add_argument("--similarity", choices=SIMILARITIES, default="mixed")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    parts = {"fit": fit, "cpu": cpu, "kill": kill, "coverage": coverage}
    with tempfile.TemporaryDirectory() as temporary:
        parts[args.part](args, args.folder or Path(temporary))


if __name__ == "__main__":
    main()
