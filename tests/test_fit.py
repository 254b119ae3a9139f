"""Fitting a log of any length: the same policy from memory, files, processes and a cluster that loses a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import kinbandits as kb
from kinbandits.cli import make_app
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.fit import fitted
from kinbandits.ope import evaluate
from test_ope import made, written

fit_module = import_module("kinbandits.fit")  # kb.fit is the function
ARMS = ["a", "b", "c"]
ASKED = np.random.default_rng(5).random((50, 1, 2))


def answers(policy: kb.KMTLUCB) -> np.ndarray:
    return np.array(policy.predict_many(ASKED))


def test_a_short_log_is_learned_as_by_observe() -> None:
    log = made(400)
    policy, told = kb.fit(log, kb.KMTLUCB(ARMS)), kb.KMTLUCB(ARMS)
    told.observe(log.played_arms, log.contexts, log.rewards)
    np.testing.assert_array_equal(answers(policy), answers(told))
    more = kb.fit(made(100, 1), policy)
    assert (more.n_observations, policy.n_observations) == (500, 400)


def test_the_names_of_columns_are_learned(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("arm,reward,age,hour\n" + "a,1,0.3,0.5\nb,0,0.7,0.1\n" * 9)
    policy = kb.fit(tmp_path / "log.csv", kb.KMTLUCB(ARMS))
    assert policy.feature_names == ("age", "hour")
    np.testing.assert_array_equal(policy.predict({"hour": 0.2, "age": 0.4}), policy.predict([0.4, 0.2]))


def test_what_is_left_out_is_counted_and_refused(tmp_path: Path) -> None:
    log = made(300)
    log.rewards[7] = 3.0
    policy = kb.KMTLUCB(ARMS, rewards=(0.0, 1.0))
    with pytest.raises(InvalidInputError, match=r"row 8: the reward is outside \(0.0, 1.0\)"):
        kb.fit(log, policy)
    found = fitted(log, policy, bad="skip")
    assert (found.rows, found.left_out) == (299, {"the reward is outside (0.0, 1.0)": 1})
    assert policy.n_observations == 0
    with pytest.raises(InvalidTypeError, match="policy must be a policy"):
        kb.fit(log, kb.KMTLUCB)
    path = written(log, tmp_path / "log.parquet", 100)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InvalidInputError, match="cannot be read as Parquet"):
        kb.fit(path, kb.KMTLUCB(ARMS))


def test_random_numbers_do_not_depend_on_parts() -> None:
    places = np.arange(1000)
    whole = fit_module.random_numbers(places, 3)
    np.testing.assert_array_equal(whole[500:], fit_module.random_numbers(places[500:], 3))
    assert len(np.unique(whole)) == 1000
    assert abs((whole % np.uint64(2)).mean() - 0.5) < 0.06


def test_a_policy_is_known_again_after_a_restart(tmp_path: Path) -> None:
    """What the folder of unfinished work is called by: not the random state, nor the owner of decisions."""
    identity, taught = fit_module.identity, kb.fit(made(60), kb.KMTLUCB(ARMS))
    taught.save(tmp_path / "policy")
    assert identity(kb.KMTLUCB(ARMS)) == identity(kb.KMTLUCB(ARMS)) != identity(kb.KMTLUCB(ARMS, epsilon=0.1))
    assert identity(taught) == identity(kb.load(tmp_path / "policy")) != identity(kb.KMTLUCB(ARMS))


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    policy = kb.KMTLUCB(ARMS, engine=kb.Budgeted(points=16))
    with pytest.raises(InvalidInputError, match="holds other files"):
        kb.fit(made(400), policy, work=tmp_path)
    assert (tmp_path / "letter.txt").exists()


@pytest.mark.slow
def test_a_killed_fit_leaves_nothing_half_written_and_goes_on(tmp_path: Path) -> None:
    """`kinbandits fit`, killed twice on its way: there is no policy, then the one of an undisturbed run."""
    written(made(12_000), tmp_path / "log.parquet", 200)
    (tmp_path / "shop.toml").write_text('[policy]\narms = ["a", "b", "c"]\nengine = {type = "Budgeted", points = 32}\n')
    environment = os.environ | {"PYTHONPATH": str(Path(kb.__file__).parents[1])}

    def fit(name: str, dies: int = 0) -> int:
        options = ["fit", "log.parquet", "--policy", "shop.toml", "--out", name, "--jobs", "1"]
        code = KILLED.format(dies=dies, options=options)
        return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=False).returncode

    assert fit("whole") == 0
    for done in (14, 28):
        assert fit("killed", dies=15) == -signal.SIGKILL
        assert not (tmp_path / "killed").exists()
        with np.load(tmp_path / "killed.work" / "learn.npz") as kept:
            assert int(kept["parts_done"]) == done
    assert fit("killed") == 0
    np.testing.assert_array_equal(answers(kb.load(tmp_path / "killed")), answers(kb.load(tmp_path / "whole")))
    assert {path.name for path in tmp_path.iterdir()} == {"log.parquet", "shop.toml", "whole", "killed"}


KILLED = """
import importlib, itertools, os, signal, time
from kinbandits.cli import main
fit, calls = importlib.import_module("kinbandits.fit"), itertools.count(1)
time.monotonic = itertools.count(step=10).__next__
real = fit._sums
def dies(part, **options):
    if next(calls) == {dies}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(part, **options)
fit._sums = dies
main({options})
"""


def test_since_adds_later_rows_of_a_log_that_was_learned(tmp_path: Path) -> None:
    """A nightly job: the service's log again, but only its later rows."""
    about = {b"kinbandits.log": json.dumps({"first": "x", "head": "60:x", "rows": 60}).encode()}
    table = pq.read_table(written(made(60), tmp_path / "log.parquet", 60))
    pq.write_table(
        table.append_column("at", pa.array(np.arange(60.0))).replace_schema_metadata(about), tmp_path / "log.parquet"
    )
    (tmp_path / "shop.toml").write_text('[policy]\narms = ["a", "b", "c"]\n')
    run = ["fit", str(tmp_path / "log.parquet"), "--context", "x0,x1", "--out", str(tmp_path / "out"), "--jobs", "1"]
    runner, app = CliRunner(), make_app()
    assert runner.invoke(app, [*run, "--policy", str(tmp_path / "shop.toml"), "--until", "40"]).exit_code == 0
    again = [*run, "--policy", str(tmp_path / "out")]
    assert "learned this log before" in str(runner.invoke(app, again).exception)
    assert runner.invoke(app, [*again, "--since", "40"]).exit_code == 0
    assert kb.load(tmp_path / "out").n_observations == 60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Sending large graph")  # policies travel with their parts: nobody can lose them
def test_a_dask_cluster_that_loses_a_worker_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers, one killed on the way: fit and evaluate equal those of this process."""
    import joblib

    distributed = pytest.importorskip("distributed")
    path = written(made(12_000), tmp_path / "log.parquet", 500)
    here = kb.fit(path, kb.KMTLUCB(ARMS, seed=0))
    compared = evaluate(path, {"one": here, "two": kb.fit(made(300, 2), kb.KMTLUCB(ARMS, epsilon=0.1, seed=0))})
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        killed: list[int] = []
        real = fit_module.each

        def each(leaf, parts, jobs):
            for i, found in enumerate(real(leaf, parts, jobs)):
                if i == 3 and not killed:
                    os.kill(victim, signal.SIGKILL)
                    killed.append(victim)
                yield found

        monkeypatch.setattr(fit_module, "each", each)
        with joblib.parallel_config("dask"):
            there = kb.fit(path, kb.KMTLUCB(ARMS, seed=0))
            again = evaluate(path, {"one": here, "two": kb.fit(made(300, 2), kb.KMTLUCB(ARMS, epsilon=0.1, seed=0))})
    assert killed
    np.testing.assert_array_equal(answers(there), answers(here))
    assert again == compared
