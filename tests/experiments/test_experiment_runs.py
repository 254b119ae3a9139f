"""Running experiments: what is on disk counts, resuming, failing cells, dying workers, every backend."""

import io
import json
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

from kinbandits.environments import KINDS
from kinbandits.environments.synthetic import SyntheticNews
from kinbandits.errors import FormatError, InvalidInputError, MissingPackageError
from kinbandits.experiments import CellStore, experiment_of, run_experiment
from kinbandits.experiments.backends import WorkerLostError
from kinbandits.experiments.runner import _until_done as until_done
from kinbandits.experiments.runner import _watched, compute_cell, run_cell
from kinbandits.experiments.storage import load_cell
from kinbandits.trace import Trace

METHODS = [{"name": "a"}, {"name": "b", "similarity": {"type": "Pooled"}}]


def small(**changes):
    data = {
        "name": "small",
        "seeds": 2,
        "environments": [{"kind": "synthetic-news", "horizon": 12}],
        "methods": METHODS,
    }
    return experiment_of(data | changes)


def files(directory):
    return {p.name: p.read_bytes() for p in sorted((directory / "cells").iterdir())}


def test_a_run_leaves_cells_times_and_a_table(tmp_path):
    table = run_experiment(small(), tmp_path / "out", jobs=1)
    lines = table.read_text().splitlines()
    assert lines[0] == "environment,method,seed,rounds,regret,expected_regret,reward,cell"
    assert len(lines) == 5
    store = CellStore(tmp_path / "out")
    for cell, result in store.results(small()):
        assert len(result) == 12
        assert result.final_regret == pytest.approx(compute_cell(cell).final_regret)
        assert np.shape(result.metadata["similarity"]) == (5, 5)
        assert store.timing(cell.id)["seconds"] > 0
        assert f"{result.final_regret!r}" in lines[1 + small().cells().index(cell)]


def test_the_bytes_do_not_depend_on_when_or_how_many(tmp_path):
    run_experiment(small(), tmp_path / "one", jobs=1)
    run_experiment(small(), tmp_path / "two", jobs=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert (tmp_path / "one" / "results.csv").read_bytes() == (tmp_path / "two" / "results.csv").read_bytes()


def test_resuming_computes_what_is_missing_and_nothing_else(tmp_path):
    out = tmp_path / "out"
    table = run_experiment(small(), out, jobs=1)
    before, written = files(out), table.read_bytes()
    lost = sorted((out / "cells").iterdir())[1]
    lost.unlink()
    (out / "cells" / ".half.npz.123.partial").write_bytes(b"PK half a file")
    table.unlink()
    stamps = {p.name: p.stat().st_mtime_ns for p in (out / "cells").glob("[!.]*")}
    run_experiment(small(), out, jobs=1, resume=True)
    assert files(out) == before
    assert table.read_bytes() == written
    assert {n: (out / "cells" / n).stat().st_mtime_ns for n in stamps} == stamps


def test_a_directory_in_use_needs_resume_and_the_same_experiment(tmp_path):
    out = tmp_path / "out"
    run_experiment(small(), out, jobs=1)
    with pytest.raises(InvalidInputError, match="--resume"):
        run_experiment(small(), out, jobs=1)
    before = files(out)
    changed = small(methods=[{"name": "a", "ridge": 0.5}, METHODS[1]])
    with pytest.raises(InvalidInputError, match=r"methods\.a\.ridge is new: 0\.5"):
        run_experiment(changed, out, jobs=1, resume=True)
    with pytest.raises(InvalidInputError, match=r"seeds was \[0, 1\], now \[0, 1, 2\]"):
        run_experiment(small(seeds=3), out, jobs=1, resume=True)
    assert files(out) == before


def test_two_drivers_do_not_share_a_directory(tmp_path):
    store = CellStore(tmp_path / "out")
    store.open(small(), resume=False)
    with store.locked(), pytest.raises(InvalidInputError, match="another run is working"):
        run_experiment(small(), tmp_path / "out", jobs=1, resume=True)


def test_damaged_files_are_refused_by_name(tmp_path):
    out = tmp_path / "out"
    run_experiment(small(), out, jobs=1)
    cell = small().cells()[0]
    path = CellStore(out).cell_path(cell)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FormatError, match=f"{cell.id}.npz is not a finished cell"):
        load_cell(path)
    (out / "experiment.json").write_text("{")
    with pytest.raises(FormatError, match=r"experiment\.json is damaged"):
        CellStore(out).record()
    with pytest.raises(InvalidInputError, match="holds no experiment"):
        CellStore(tmp_path).record()


def test_cells_of_another_format_are_refused(tmp_path):
    result = compute_cell(small().cells()[0])
    Trace.of(result.columns, {**result.metadata, "format": 999}).save(tmp_path / "x.npz")
    with pytest.raises(FormatError, match="another release"):
        load_cell(tmp_path / "x.npz")


class Sour(SyntheticNews):
    """Goes bad with seed 1."""

    def rounds(self):
        if self.seed == 1:
            raise RuntimeError("the milk is off")
        return super().rounds()


def test_a_failing_cell_does_not_take_the_others_with_it(tmp_path, monkeypatch):
    monkeypatch.setitem(KINDS, "sour", Sour)
    experiment = small(environments=[{"kind": "sour", "horizon": 6}])
    with pytest.raises(InvalidInputError, match=r"2 of 4 cells failed; .*seed 1: RuntimeError: the milk is off"):
        run_experiment(experiment, tmp_path / "out", jobs=1)
    assert len(files(tmp_path / "out")) == 2
    assert "Traceback" in next((tmp_path / "out" / "errors").iterdir()).read_text()
    monkeypatch.setitem(KINDS, "sour", SyntheticNews)  # mended
    run_experiment(experiment, tmp_path / "out", jobs=1, resume=True)
    assert len(files(tmp_path / "out")) == 4
    assert not list((tmp_path / "out" / "errors").iterdir())


def test_after_a_loss_the_rest_is_sent_again(tmp_path):
    store, cells, sent = CellStore(tmp_path / "out"), small().cells(), []
    store.open(small(), resume=False)

    def dying(function, tasks):
        sent.append(len(tasks))
        function(*tasks[0])
        if len(tasks) > 1:
            raise WorkerLostError("a worker is gone")

    assert until_done(dying, store, cells, {c.id: 1.0 for c in cells}, lambda text: None) == set()
    assert sent == [4, 3, 2, 1]


def test_workers_that_only_die_are_not_tried_for_ever(tmp_path):
    store, cells = CellStore(tmp_path / "out"), small().cells()
    store.open(small(), resume=False)

    def dead(function, tasks):
        raise WorkerLostError("out of memory")

    with pytest.raises(InvalidInputError, match=r"died 3 times without finishing a cell .*fewer --jobs"):
        until_done(dead, store, cells, {c.id: 1.0 for c in cells}, lambda text: None)


def murder(directory, cell):
    """`run_cell`, but the first worker to come here is killed at work."""
    marker = os.path.join(directory, "murdered")
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return run_cell(directory, cell)


@pytest.mark.slow
def test_a_killed_worker_costs_one_cell(tmp_path, monkeypatch):
    monkeypatch.setattr("kinbandits.experiments.runner.run_cell", murder)
    stream = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # loky warns of the death, as it should
        run_experiment(small(), tmp_path / "out", jobs=2, stream=stream)
    assert "a worker died" in stream.getvalue()
    monkeypatch.undo()
    run_experiment(small(), tmp_path / "calm", jobs=1)
    assert files(tmp_path / "out") == files(tmp_path / "calm")


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
@pytest.mark.filterwarnings("ignore")
def test_every_backend_gives_the_same_bytes(backend, package, tmp_path):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'kinbandits[{backend}]'")
    stream = io.StringIO()
    run_experiment(small(), tmp_path / "calm", jobs=1)
    run_experiment(small(), tmp_path / "out", jobs=2, backend_name=backend, stream=stream)
    assert files(tmp_path / "out") == files(tmp_path / "calm")
    assert "2 cells at a time" in stream.getvalue()
    assert "cells: 4 of 4" in stream.getvalue()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_with_other_versions_is_refused(tmp_path, monkeypatch):
    distributed = pytest.importorskip(
        "distributed", reason="distributed is not installed: pip install 'kinbandits[dask]'"
    )
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        address = cluster.scheduler_address
        run_experiment(small(), tmp_path / "out", backend_name="dask", scheduler=address)
        assert len(files(tmp_path / "out")) == 4
        monkeypatch.setattr("kinbandits.experiments.backends.__version__", "9.9")  # here, not on the worker
        with pytest.raises(InvalidInputError, match=r"the dask worker tcp.* has kinbandits .*, here is 9\.9"):
            run_experiment(small(seeds=3), tmp_path / "two", backend_name="dask", scheduler=address)
        assert not files(tmp_path / "two")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"backend_name": "slurm"}, "there is no backend 'slurm'; there are loky, dask, ray"),
        ({"scheduler": "tcp://x:1"}, "--scheduler is for --backend dask or ray"),
        ({"jobs": 0}, "jobs must be at least 1, or -1"),
    ],
)
def test_wrong_backends_are_told(options, text, tmp_path):
    with pytest.raises(InvalidInputError, match=text):
        run_experiment(small(), tmp_path / "out", **options)


def test_a_backend_that_is_not_installed_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'kinbandits\[ray\]'"):
        run_experiment(small(), tmp_path / "out", backend_name="ray")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_progress_counts_files_and_weighs_them_by_their_work(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    out, done = io.StringIO(), {"before"}
    with _watched({"before": 1.0, "short": 1.0, "long": 8.0}, lambda: set(done), out, every=0.01):
        now[0] += 10.0
        done.add("short")
        for _ in range(200):
            if "2 of 3" in out.getvalue():
                break
            threading.Event().wait(0.01)
        done.add("long")
    assert "cells: 2 of 3, 10 s elapsed, about 1 min 20 s left" in out.getvalue()
    assert out.getvalue().splitlines()[-1] == "cells: 3 of 3, 10 s elapsed"


def test_what_is_stored_is_plain(tmp_path):
    run_experiment(small(), tmp_path / "out", jobs=1)
    path = CellStore(tmp_path / "out").cell_path(small().cells()[0])
    with np.load(path, allow_pickle=False) as file:
        header = json.loads(str(file["header"]))["metadata"]
        assert np.isnan(file["seconds"]).all()
    assert header["arms"][0] == "article 1"
    assert header["method"] == "a"
    assert "seconds" not in header
