"""Fitting a log of any length: the same policy from memory, files, processes and a cluster that loses a worker."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
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


@pytest.mark.slow
def test_a_dask_cluster_that_loses_a_worker_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers, one killed on the way: fit and evaluate equal those of this process."""
    import os
    import signal

    import joblib

    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("kinbandits.logs.PART_ROWS", 500)
    path = written(made(12_000), tmp_path / "log.parquet", 500)
    here = kb.fit(path, kb.KMTLUCB(ARMS, seed=0))
    compared = evaluate(path, {"one": here, "two": kb.fit(made(300, 2), kb.KMTLUCB(ARMS, epsilon=0.1, seed=0))})
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
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
