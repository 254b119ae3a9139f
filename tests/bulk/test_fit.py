"""A policy from Parquet files: equal to one process that reads all rows, whatever the partitions."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet_logs import ARMS, CONTEXT, contexts, rows, write

import kinbandits as kb
from kinbandits._files import locked
from kinbandits.bulk import Columns, fitted
from kinbandits.errors import InvalidInputError, MissingFileError

COLUMNS = Columns(context=CONTEXT)
MATRIX = 0.4 + 0.6 * np.eye(len(ARMS))
SIMILARITIES = {"independent": kb.Independent(), "known": kb.Known(MATRIX), "mixed": kb.Mixed(0.3)}
QUIET: dict[str, Any] = {"columns": COLUMNS, "progress": False, "scheduler": "sync"}
ASKED = np.random.default_rng(5).uniform(-1.0, 1.0, (50, 1, len(CONTEXT)))


def untaught(similarity: Any = None, **options: Any) -> kb.KMTLUCB:
    options = {
        "engine": kb.Budgeted(points=64),
        "context_kernel": kb.RBF(length_scale=1.0),
        "ridge": 0.01,
        **options,
    }
    return kb.KMTLUCB(arms=ARMS, similarity=similarity or kb.Independent(), **options)


def points_of(policy: kb.KMTLUCB) -> tuple[list[str], np.ndarray]:
    points = policy.regression.model.points
    return [policy.arms[a] for a in points.arms], points.contexts.copy()


@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_formula(tmp_path: Path, name: str, weighting: str) -> None:
    """Subset of regressors with the points it chose, from its definition."""
    found = rows()
    similarity = SIMILARITIES[name]
    policy = kb.bulk.fit(write(tmp_path / "log", found, 3), untaught(similarity, weighting=weighting), **QUIET)
    names, C = points_of(policy)
    assert 20 <= len(names) <= 64
    kernel, ridge = kb.RBF(length_scale=1.0), policy.ridge
    K_arm = policy.similarity_matrix()
    number = {a: i for i, a in enumerate(ARMS)}
    b, a = (np.array([number[n] for n in which]) for which in (names, found["arm"]))
    k = K_arm[np.ix_(a, b)] * kernel(contexts(found), C)
    eta = np.ones(len(a)) if weighting == "uniform" else 1.0 / np.bincount(a)[a]
    K = K_arm[np.ix_(b, b)] * kernel(C, C)
    A = np.linalg.inv(ridge * K + k.T @ (eta[:, None] * k))
    w = A @ (k.T @ (eta * found["reward"]))
    mean, width = policy.predict(ASKED)
    for i in range(len(ARMS)):
        q = K_arm[i, b] * kernel(ASKED[:, 0], C)
        assert mean[:, i] == pytest.approx(q @ w, abs=1e-8)
        left = K_arm[i, i] - np.einsum("ij,jk,ik->i", q, np.linalg.inv(K), q)
        variance = left / ridge + np.einsum("ij,jk,ik->i", q, A, q)
        assert width[:, i] == pytest.approx(np.sqrt(variance), abs=1e-6)
    assert list(policy.counts.values()) == np.bincount(a).tolist()


@pytest.mark.parametrize("name", [*SIMILARITIES, "estimated"])
def test_partitions_do_not_matter(tmp_path: Path, name: str) -> None:
    similarity = SIMILARITIES.get(name, kb.Estimated(length_scale=0.5))
    found = rows()
    one = kb.bulk.fit(write(tmp_path / "one", found), untaught(similarity), **QUIET)
    for parts, scheduler in ((3, "sync"), (17, "loky" if name == "known" else "threads")):
        other = kb.bulk.fit(
            write(tmp_path / f"{parts}", found, parts), untaught(similarity),
            **{**QUIET, "scheduler": scheduler, "partition_rows": 100, "jobs": 2},
        )  # fmt: skip
        assert points_of(other)[0] == points_of(one)[0]
        for x, y in zip(one.predict(ASKED), other.predict(ASKED), strict=True):
            assert np.abs(x - y).max() < 1e-10
        assert np.abs(one.similarity_matrix() - other.similarity_matrix()).max() < 1e-10
        assert other.choose_many(ASKED).arm == one.copy().choose_many(ASKED).arm


def test_processes_of_a_fit_are_not_those_of_joblib(tmp_path: Path) -> None:
    kb.bulk.fit(write(tmp_path / "one", rows()), untaught(), **{**QUIET, "scheduler": "loky", "jobs": 2})
    assert joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(abs)(-i) for i in range(3)) == [0, 1, 2]


def test_one_job_in_a_folder(tmp_path: Path) -> None:
    folder, work = write(tmp_path / "one", rows()), tmp_path / "work"
    with locked(tmp_path / "work.lock", work), pytest.raises(InvalidInputError, match="another run is working"):
        kb.bulk.fit(folder, untaught(), work=work, **QUIET)
    kb.bulk.fit(folder, untaught(), work=work, **QUIET)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one"]  # nothing is left behind


def test_any_order_with_fixed_points(tmp_path: Path) -> None:
    found = rows()
    first = kb.bulk.fit(write(tmp_path / "log", found, 5), untaught(), **QUIET)
    shuffled = np.random.default_rng(1).permutation(3000)
    folder = write(tmp_path / "other", {k: v[shuffled] for k, v in found.items()}, 4)
    other = kb.bulk.fit(folder, untaught(), points=points_of(first), **QUIET)
    for x, y in zip(first.predict(ASKED), other.predict(ASKED), strict=True):
        assert np.abs(x - y).max() < 1e-10


def test_saved_and_taught_on(tmp_path: Path) -> None:
    """The file loads, decides the same, and goes on learning as an engine that was taught in one go."""
    found = rows()
    policy = kb.bulk.fit(
        write(tmp_path / "log", found, 3), kb.KMTLUCB(arms=ARMS, engine=kb.Budgeted(points=128)), **QUIET
    )
    assert policy.n_observations == 3000
    policy.save(tmp_path / "start.policy")
    again = kb.load(tmp_path / "start.policy")
    assert again.choose_many(ASKED).arm == policy.copy().choose_many(ASKED).arm
    more = rows(300, seed=9)
    for one in (policy, again):
        one.observe(list(more["arm"]), contexts(more), more["reward"])
    assert again.n_observations == 3300
    assert again.predict(ASKED).mean == pytest.approx(policy.predict(ASKED).mean, abs=1e-9)
    number = np.array([0.5 + 0.4 * np.sin(2.0 * ASKED[:, 0, 0] + i) for i in range(len(ARMS))]).T
    assert np.abs(again.predict(ASKED).mean - number).mean() < 0.05


def test_rows_are_added_to_a_fitted_policy(tmp_path: Path) -> None:
    """Yesterday's policy and today's rows: as all rows at the same points."""
    found = rows()
    early, late = ({k: v[part] for k, v in found.items()} for part in (slice(0, 2000), slice(2000, 3000)))
    yesterday = kb.bulk.fit(write(tmp_path / "early", early), untaught(kb.Known(MATRIX)), **QUIET)
    today = kb.bulk.fit(write(tmp_path / "late", late), yesterday, **QUIET)
    whole = kb.bulk.fit(
        write(tmp_path / "all", found), untaught(kb.Known(MATRIX)), points=points_of(yesterday), **QUIET
    )
    assert yesterday.n_observations == 2000
    assert today.n_observations == 3000
    for x, y in zip(today.predict(ASKED), whole.predict(ASKED), strict=True):
        assert np.abs(x - y).max() < 1e-10
    since = kb.bulk.fit(tmp_path / "all", yesterday, since=2000.0, **QUIET)
    assert since.predict(ASKED).mean == pytest.approx(today.predict(ASKED).mean, abs=1e-10)


def test_lists_text_and_what_is_learned(tmp_path: Path) -> None:
    """Contexts as lists or JSON text, arms as numbers, rewards in ``learned``; without one, a row is left out."""
    found = rows(600)
    X = contexts(found)
    numbers = {a: i for i, a in enumerate(ARMS)}
    base = {
        "arm": [numbers[a] for a in found["arm"]],
        "learned": [None if i % 10 == 0 else r for i, r in enumerate(found["reward"].tolist())],
        "reward": [7.0] * 600,
    }
    means = []
    for i, context in enumerate((X.tolist(), [str(x) for x in X.tolist()], [[x] for x in X.tolist()])):
        (tmp_path / str(i)).mkdir()
        pq.write_table(pa.table({**base, "context": context}), tmp_path / str(i) / "log.parquet")
        policy = kb.KMTLUCB(arms=4, similarity=kb.Independent(), ridge=0.01, engine=kb.Budgeted(points=64))
        done = fitted(tmp_path / str(i), policy, progress=False, scheduler="sync")
        assert done.rows == 540
        assert done.left_out == {"without a reward": 60}
        means.append(done.policy.predict(ASKED).mean)
    assert np.array_equal(means[0], means[1])
    assert np.array_equal(means[0], means[2])


def test_bad_rows_are_named_or_skipped(tmp_path: Path) -> None:
    found = rows(500)
    found["arm"][7], found["x1"][260], found["reward"][499] = "z", np.nan, np.inf
    folder = write(tmp_path / "log", found, 2)
    with pytest.raises(InvalidInputError) as told:
        kb.bulk.fit(folder, untaught(), **QUIET)
    text = str(told.value)
    assert "3 of 500 rows are bad" in text
    assert f"{folder}/0000.parquet, row 8: the arm is missing or unknown" in text
    assert f"{folder}/0001.parquet, row 11: the context is not 3 finite numbers" in text
    assert f"{folder}/0001.parquet, row 250: the reward is not a finite number" in text
    done = fitted(folder, untaught(), bad="skip", **QUIET)
    assert done.rows == done.policy.n_observations == 497
    assert sum(done.left_out.values()) == 3
    limited = untaught(rewards=kb.Range(0.0, 1.0))
    with pytest.raises(InvalidInputError, match=r"the reward is outside \(0.0, 1.0\)"):
        kb.bulk.fit(folder, limited, **QUIET)


def test_wrong_types(tmp_path: Path) -> None:
    found: dict[str, Any] = rows(300)
    found["reward"] = np.array(["0.5", "much", *["1"] * 298])
    with pytest.raises(
        InvalidInputError, match=r"1 of 300 rows are bad.*\n.*row 2: the reward is not a finite number"
    ):
        kb.bulk.fit(write(tmp_path / "log", found), untaught(), **QUIET)


def test_files_of_other_types(tmp_path: Path) -> None:
    for name, context in (("a", [[0.1], [0.2]]), ("b", ["[0.1]", "[0.2]"])):
        log = {"arm": ["a", "b"], "reward": [0.0, 1.0], "context": context}
        pq.write_table(pa.table(log), tmp_path / f"{name}.parquet")
    with pytest.raises(InvalidInputError, match="columns have other types"):
        kb.bulk.fit(tmp_path, untaught(), progress=False, scheduler="sync")


def test_bad_arguments(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", rows(300))
    with pytest.raises(MissingFileError, match="no file or folder"):
        kb.bulk.fit(tmp_path / "nothing", untaught(), **QUIET)
    with pytest.raises(InvalidInputError, match="no column 'context'; they have arm, x0"):
        kb.bulk.fit(folder, untaught(), progress=False)
    with pytest.raises(InvalidInputError, match='engine must be "auto"'):
        kb.bulk.fit(folder, untaught(engine="exact"), **QUIET)
    with pytest.raises(InvalidInputError, match="memory"):
        kb.bulk.fit(folder, untaught(memory=kb.Window(size=300)), **QUIET)
    with pytest.raises(InvalidInputError, match="refuse"):
        kb.bulk.fit(folder, untaught(), bad="ignore", **QUIET)
    with pytest.raises(InvalidInputError, match="no row is left"):
        kb.bulk.fit(folder, untaught(), since=1e6, **QUIET)
    exact = kb.KMTLUCB(arms=ARMS)
    exact.observe(["a"], [[0.0] * 3], [1.0])
    with pytest.raises(InvalidInputError, match="exact engine"):
        kb.bulk.fit(folder, exact, **QUIET)


def test_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is finished is not computed again, and the same bytes come out."""
    from kinbandits.bulk import fitting as module

    folder = write(tmp_path / "log", rows(), 17)
    options = {**QUIET, "partition_rows": 100}
    kb.bulk.fit(folder, untaught(), **options).save(tmp_path / "whole")
    calls = []
    summed = module.summed

    def counted(*given: Any) -> Any:
        calls.append(len(given[1]))
        if len(calls) == 8:
            raise KeyboardInterrupt
        return summed(*given)

    monkeypatch.setattr(module, "summed", counted)
    work = tmp_path / "work"
    with pytest.raises(KeyboardInterrupt):
        kb.bulk.fit(folder, untaught(), work=work, **options)
    assert any(work.iterdir())
    kb.bulk.fit(folder, untaught(), work=work, **options).save(tmp_path / "resumed")
    assert len(calls) == 18
    assert not work.exists()
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
def test_memory_of_a_worker(tmp_path: Path, weighting: str) -> None:
    """A partition, a block of rows at the points, and some times the sums: not more for more partitions."""
    m, n = 64, 40_000
    folder = write(tmp_path / "log", rows(n), group=n // 4)
    kb.bulk.fit(write(tmp_path / "small", rows(300)), untaught(), **QUIET)  # loads what it needs
    tracemalloc.start()
    try:
        kb.bulk.fit(folder, untaught(weighting=weighting), partition_rows=n // 4, **QUIET)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    sums = m * m * (len(ARMS) if weighting == "per_arm" else 1)
    partition, block = n // 4 * (len(CONTEXT) + 5), n // 4 // len(ARMS) * m
    sample = 2000 * (2 * m + 40)  # and what is drawn from it
    assert peak < 8 * (2 * partition + 4 * block + 8 * sums + sample)  # 10 MB; as one partition per_arm takes 14
