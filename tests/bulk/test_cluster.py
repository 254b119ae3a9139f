"""The same bytes from a dask cluster, also when a worker dies in the middle."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import distributed
import pytest
from parquet_logs import CONTEXT, rows, write

import kinbandits as kb
from kinbandits.bulk import Columns, fitting

POLICY = {
    "arms": ["a", "b", "c", "d"],
    "engine": kb.Budgeted(points=64),
    "similarity": kb.Mixed(0.3),
    "ridge": 0.01,
}


def dies_once(partition: object, marker: str, **rest: object) -> object:
    """As `fitting.sums`, but the first worker that comes to the fourth partition dies there."""
    if partition.low == 450 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return ORIGINAL(partition, **rest)


ORIGINAL = fitting.sums


@pytest.mark.slow
def test_a_worker_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "log", rows(1500), 10)
    options = {"columns": Columns(context=CONTEXT), "progress": False, "partition_rows": 100}
    kb.bulk.fit(folder, kb.KMTLUCB(**POLICY), scheduler="sync", **options).save(tmp_path / "here")
    monkeypatch.setattr(fitting, "sums", partial(dies_once, marker=str(tmp_path / "died")))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    )
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        address = cluster.scheduler_address
        work = tmp_path / "work"
        kb.bulk.fit(folder, kb.KMTLUCB(**POLICY), scheduler=address, work=work, **options).save(tmp_path / "there")
        live = kb.load(tmp_path / "here")
        there = kb.bulk.evaluate(folder, {"live": live}, scheduler=address, **options).evaluations["live"]
    here_too = kb.bulk.evaluate(folder, {"live": live}, scheduler="sync", **options).evaluations["live"]
    assert there == here_too
    assert (tmp_path / "died").exists()
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
