"""Running experiments: what is on disk counts, more seeds are more cells, failing cells, dying workers."""

import json
import os
import signal

import numpy as np
import pytest

from kinbandits.environments import KINDS
from kinbandits.environments.synthetic import SyntheticNews
from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.experiments import CellStore, experiment_of, run_experiment, runner
from kinbandits.experiments.runner import compute_cell, run_cell
from kinbandits.experiments.store import load_cell
from kinbandits.trace import Trace

METHODS = [{"name": "a"}, {"name": "b", "similarity": {"type": "Pooled"}}]


def small(**changes):
    environments = [{"kind": "synthetic-news", "horizon": 12}]
    return experiment_of({"name": "small", "seeds": 2, "environments": environments, "methods": METHODS} | changes)


def files(directory):
    return {p.name: p.read_bytes() for p in sorted((directory / "cells").iterdir())}


def test_a_run_leaves_cells_times_and_a_table(tmp_path):
    table = run_experiment(small(), tmp_path / "out", jobs=1)
    lines = table.read_text().splitlines()
    assert lines[0] == "environment,method,seed,rounds,regret,expected_regret,reward,cell"
    assert len(lines) == 5
    store = CellStore(tmp_path / "out")
    for cell in small().cells():
        result = load_cell(store.cell_path(cell))
        assert len(result) == 12
        assert result.final_regret == pytest.approx(compute_cell(cell).final_regret)
        assert np.shape(result.metadata["similarity"]) == (5, 5)
        assert store.timing(cell.id)["seconds"] > 0
        assert f"{result.final_regret!r}" in lines[1 + small().cells().index(cell)]
        with np.load(store.cell_path(cell), allow_pickle=False) as file:
            assert np.isnan(file["seconds"]).all()  # a result does not depend on the machine
            assert json.loads(str(file["header"]))["metadata"]["method"] == cell.method.name


def test_the_bytes_do_not_depend_on_how_many_processes(tmp_path):
    run_experiment(small(), tmp_path / "one", jobs=1)
    run_experiment(small(), tmp_path / "two", jobs=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert (tmp_path / "one" / "results.csv").read_bytes() == (tmp_path / "two" / "results.csv").read_bytes()


def test_running_again_computes_what_is_missing_and_nothing_else(tmp_path):
    out = tmp_path / "out"
    table = run_experiment(small(), out, jobs=1)
    before, written = files(out), table.read_bytes()
    sorted((out / "cells").iterdir())[1].unlink()
    (out / "cells" / ".half.npz.123.partial").write_bytes(b"PK half a file")
    table.unlink()
    stamps = {p.name: p.stat().st_mtime_ns for p in (out / "cells").glob("[!.]*")}
    run_experiment(small(), out, jobs=1)
    assert files(out) == before
    assert table.read_bytes() == written
    assert {n: (out / "cells" / n).stat().st_mtime_ns for n in stamps} == stamps


def test_seeds_can_be_added_to_a_finished_run(tmp_path):
    out = tmp_path / "out"
    run_experiment(small(), out, jobs=1)
    before = {p.name: p.stat().st_mtime_ns for p in (out / "cells").iterdir()}
    table = run_experiment(small(seeds=3), out, jobs=1)
    assert len(table.read_text().splitlines()) == 1 + 6
    after = {p.name: p.stat().st_mtime_ns for p in (out / "cells").iterdir()}
    assert len(after) == 6
    assert after.items() >= before.items()  # what was finished was not computed again


def test_two_drivers_do_not_share_a_directory(tmp_path):
    with CellStore(tmp_path / "out").locked(), pytest.raises(InvalidInputError, match="another run is working"):
        run_experiment(small(), tmp_path / "out", jobs=1)


def test_damaged_files_are_refused_by_name(tmp_path):
    out = tmp_path / "out"
    run_experiment(small(), out, jobs=1)
    cell = small().cells()[0]
    path = CellStore(out).cell_path(cell)
    result = load_cell(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FormatError, match=f"{cell.id}.npz is not a finished cell"):
        load_cell(path)
    (out / "experiment.json").write_text("{")
    with pytest.raises(FormatError, match=r"experiment\.json is damaged"):
        CellStore(out).record()
    with pytest.raises(InvalidInputError, match="holds no experiment"):
        CellStore(tmp_path).record()
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
    run_experiment(experiment, tmp_path / "out", jobs=1)
    assert len(files(tmp_path / "out")) == 4
    assert not list((tmp_path / "out" / "errors").iterdir())


def murder(directory, cell):
    """`run_cell`, but the first worker to come here is killed at work."""
    marker = os.path.join(directory, "murdered")
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return run_cell(directory, cell)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # loky warns of the death, as it should
def test_a_killed_worker_costs_the_cells_under_way(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "run_cell", murder)
    with pytest.raises(InvalidInputError, match=r"a worker process died; .*run again to go on"):
        run_experiment(small(), tmp_path / "out", jobs=2)
    run_experiment(small(), tmp_path / "out", jobs=2)
    monkeypatch.undo()
    run_experiment(small(), tmp_path / "calm", jobs=1)
    assert files(tmp_path / "out") == files(tmp_path / "calm")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_bytes(tmp_path):
    import joblib

    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    run_experiment(small(), tmp_path / "calm", jobs=1)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        run_experiment(small(), tmp_path / "out")
    assert files(tmp_path / "out") == files(tmp_path / "calm")
