"""Off-policy evaluation over partitions: the numbers of the functions in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet_logs import ARMS, CONTEXT, contexts, rows, write

import kinbandits as kb
from kinbandits.bulk import Columns, evaluating
from kinbandits.errors import InvalidInputError
from kinbandits.ope import estimate
from kinbandits.ope.estimators import evaluated, merged, tally, terms

QUIET: dict[str, Any] = {"columns": Columns(context=CONTEXT), "progress": False, "scheduler": "sync"}


def policy(epsilon: float = 0.2, **options: Any) -> kb.KMTLUCB:
    options = {"engine": kb.Budgeted(points=64), "similarity": kb.Independent(), "ridge": 0.1, **options}
    return kb.KMTLUCB(arms=ARMS, context_kernel=kb.RBF(length_scale=1.0), epsilon=epsilon, **options)


def taught(seed: int = 3, **options: Any) -> kb.KMTLUCB:
    found, one = rows(200, seed=seed), policy(**options)
    one.observe(list(found["arm"]), contexts(found), found["reward"])
    return one


def close(a: Any, b: Any, within: float = 1e-12) -> None:
    assert a.estimates.keys() == b.estimates.keys()
    pairs = [(a.estimates[name], b.estimates[name]) for name in a.estimates]
    for x, y in [*pairs, *([] if a.difference is None else [(a.difference, b.difference)])]:
        assert (x.value, x.low, x.high, x.standard_error) == pytest.approx(
            (y.value, y.low, y.high, y.standard_error), abs=within, rel=within
        )
    assert (a.n, a.clipped, a.warnings) == (b.n, b.clipped, b.warnings)
    assert (a.effective_n, a.logged, a.mean_weight) == pytest.approx((b.effective_n, b.logged, b.mean_weight))


@pytest.mark.parametrize("clip", [None, 2.0])
def test_tallies_of_parts_are_that_of_the_whole(clip: float | None) -> None:
    rng = np.random.default_rng(0)
    n, k = 500, 4
    pi, q, p = rng.dirichlet(np.ones(k), n), rng.random((n, k)), rng.uniform(0.1, 1.0, n)
    for r in (rng.random(n), np.full(n, 0.3) + 1e-9 * rng.random(n)):  # nearly equal: raw squares would be lost
        played = rng.integers(k, size=n)
        whole = estimate(r, p, played, pi, q, clip=clip)
        found: Any = None
        for part in np.array_split(np.arange(n), 7):
            one = tally(terms(r[part], p[part], pi[part], played[part], q[part], clip))
            found = one if found is None else merged(found, one)
        close(evaluated(found), whole)
    assert (whole.clipped > 0) == (clip is not None)
    assert any("clipped" in w for w in whole.warnings) == (clip is not None)


def test_as_in_memory_for_all_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows(1500)
    candidates = {"live": taught(), "greedy": taught(epsilon=0.0), "other": taught(similarity=kb.Mixed(0.5))}
    seen: list[tuple[Any, ...]] = []

    def kept(*given: Any) -> Any:
        seen.append(given)
        return terms(*given)

    monkeypatch.setattr(evaluating, "terms", kept)
    one = kb.bulk.evaluate(write(tmp_path / "one", found), candidates, **QUIET)
    for i, name in enumerate(candidates):
        parts = [given for given in seen if given[2] is not None][i :: len(candidates)]
        r, p, pi, played, q = (np.concatenate([part[j] for part in parts]) for j in range(5))
        direct = estimate(r, p, played, pi, q)
        assert direct.n == 1500
        assert np.array_equal(pi, candidates[name].probabilities(contexts(found)[:, None]))
        for estimator, e in one.evaluations[name].estimates.items():
            assert e == direct.estimates[estimator] or e.value == pytest.approx(
                direct.estimates[estimator].value, abs=1e-12
            )
    monkeypatch.undo()
    many = kb.bulk.evaluate(write(tmp_path / "many", found, 17), candidates, **{**QUIET, "partition_rows": 100})
    for name in candidates:
        close(many.evaluations[name], one.evaluations[name], 1e-10)  # the model is fitted again
    assert one.evaluations["live"].difference is None
    more = one.evaluations["other"].difference
    values = {name: e.estimates["dr"].value for name, e in one.evaluations.items()}
    assert more is not None
    assert more.value == pytest.approx(values["other"] - values["live"])
    assert more.standard_error < one.evaluations["other"].estimates["dr"].standard_error


def test_untaught_policies_learn_the_first_part(tmp_path: Path) -> None:
    found = rows(1500)
    folder = write(tmp_path / "log", found, 3)
    half = kb.bulk.evaluate(folder, {"new": policy()}, **QUIET)
    assert half.evaluations["new"].n == 750
    assert half.evaluations["new"].estimates["dr"].value > found["reward"].mean() + 0.1  # it has learned
    later = kb.bulk.evaluate(folder, {"new": policy()}, since=1000.0, **QUIET)
    assert later.evaluations["new"].n == 500
    assert later.left_out == {"of another time": 1000}
    early = kb.bulk.fit(folder, policy(), until=1000.0, **QUIET)
    again = kb.bulk.evaluate(folder, {"new": early}, since=1000.0, **QUIET)
    close(again.evaluations["new"], later.evaluations["new"], 1e-10)


def test_bad_propensities_are_named_with_their_count(tmp_path: Path) -> None:
    found = rows(600)
    found["propensity"][:5], found["propensity"][7], found["propensity"][8] = 0.0, 1.5, np.nan
    folder = write(tmp_path / "log", found)
    with pytest.raises(InvalidInputError) as told:
        kb.bulk.evaluate(folder, {"live": taught()}, **QUIET)
    for text in (
        "7 of 600 rows are bad",
        "0 or less: 5",
        "above 1: 1",
        "not a number: 1",
        "row 8: the propensity is above 1",
    ):
        assert text in str(told.value)
    skipped = kb.bulk.evaluate(folder, {"live": taught()}, bad="skip", **QUIET)
    assert skipped.evaluations["live"].n == 593
    del found["propensity"]
    with pytest.raises(InvalidInputError, match="the propensity is missing: 600"):
        kb.bulk.evaluate(write(tmp_path / "without", found), {"live": taught()}, **QUIET)


def test_candidates_of_each_row_and_contexts_of_their_own(tmp_path: Path) -> None:
    """As LoggedRounds has them: two of the arms in each round, each with its own context."""
    rng = np.random.default_rng(0)
    n = 400
    names = [[ARMS[i] for i in rng.choice(4, 2, replace=False)] for _ in range(n)]
    X = rng.uniform(-1, 1, (n, 2, 3))
    index = rng.integers(2, size=n)
    log = {
        "arm": [c[i] for c, i in zip(names, index, strict=True)],
        "candidates": names,
        "index": index,
        "context": X.tolist(),
        "propensity": np.full(n, 0.5),
        "reward": rng.random(n),
    }
    (tmp_path / "log").mkdir()
    pq.write_table(pa.table(log), tmp_path / "log" / "log.parquet")
    live = taught()
    found = kb.bulk.evaluate(tmp_path / "log", {"live": live}, progress=False, scheduler="sync").evaluations["live"]
    logged = kb.ope.LoggedRounds(list(X), names, index.tolist(), log["reward"].tolist(), [0.5] * n)
    direct = estimate(log["reward"], log["propensity"], index, logged.table(live.frozen().probabilities))
    for name, e in direct.estimates.items():
        assert found.estimates[name].value == pytest.approx(e.value, abs=1e-12)
    log["index"] = 1 - index
    pq.write_table(pa.table(log), tmp_path / "log" / "log.parquet")
    with pytest.raises(InvalidInputError, match="the arm is not the candidate that the index names"):
        kb.bulk.evaluate(tmp_path / "log", {"live": live}, progress=False, scheduler="sync")


def test_rows_after_an_open_decision_wait(tmp_path: Path) -> None:
    """Where decisions are defaulted, what came after the oldest open one is not known well enough yet."""
    found: dict[str, Any] = rows(600)
    state = np.array(["rewarded"] * 600, dtype=object)
    state[[10, 20]], state[400] = "defaulted", "open"
    folder = write(tmp_path / "log", {**found, "state": state}, 2)
    result = kb.bulk.evaluate(folder, {"live": taught()}, **QUIET)
    assert result.evaluations["live"].n == 400
    assert result.left_out == {"younger than the oldest open decision": 200}


def test_bad_arguments(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", rows(300))
    with pytest.raises(InvalidInputError, match="empty"):
        kb.bulk.evaluate(folder, {}, **QUIET)
    with pytest.raises(InvalidInputError, match="same arms"):
        kb.bulk.evaluate(folder, {"live": taught(), "two": kb.KMTLUCB(arms=2)}, **QUIET)
    with pytest.raises(InvalidInputError, match="leaves none"):
        kb.bulk.evaluate(folder, {"live": taught()}, train=1.0, **QUIET)
    with pytest.raises(InvalidInputError, match="not both"):
        kb.bulk.evaluate(folder, {"live": taught()}, train=0.5, since=3.0, **QUIET)
