"""Logs: one container, from arrays, tables and files; bad rows are named, arms are never confused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import DatasetError, InvalidInputError, InvalidTypeError, LogWarning
from kinbandits.log_rows import seconds
from kinbandits.logs import Columns, Log, LogFiles, Source, learned_from

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def columns(n: int = 60, **changes: object) -> dict[str, object]:
    rng = np.random.default_rng(3)
    arms = rng.choice(["a", "b", "c"], n)
    data: dict[str, object] = {
        "item": arms.tolist(),
        "clicked": (rng.random(n) < 0.3 + 0.4 * (arms == "b")).astype(float).tolist(),
        "p": [1 / 3] * n,
        "age": rng.random(n).tolist(),
        "hour": rng.integers(24, size=n).tolist(),
    }
    return data | changes


def about(source: Source) -> dict[bytes, bytes]:
    return {b"kinbandits.log": json.dumps(source._asdict()).encode()}


NAMED = {"arm": "item", "reward": "clicked", "propensity": "p"}
COLUMNS = Columns("item", "clicked", None, "p")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_table_is_a_log(library: str) -> None:
    data = columns()
    frame = pa.table(data) if library == "pyarrow" else pytest.importorskip(library).DataFrame(data)
    log = Log.from_frame(frame, **NAMED)
    assert log.played_arms == data["item"]
    assert log.arms == ("a", "b", "c")
    np.testing.assert_array_equal(log.contexts, np.stack([data["age"], data["hour"]], axis=1))
    assert repr(log) == f"Log(60 rows of 3 arms, 2 features, mean reward {log.rewards.mean():.4g})"


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_are_the_table(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(columns())
    getattr(frame, f"to_{kind}")(tmp_path / f"log.{kind}", index=False)
    whole, read = Log.from_frame(frame, **NAMED), Log.read(tmp_path, COLUMNS)
    source = LogFiles.of(tmp_path, COLUMNS)
    (part,) = source.parts(["a", "b", "c"], propensities=True)
    for log in (read, part()[0]):
        for name in ("played", "contexts", "rewards", "propensities", "places"):
            np.testing.assert_array_equal(getattr(log, name), getattr(whole, name))
    assert (len(source), source.n_features, source.arms()) == (60, 2, ["a", "b", "c"])


def test_parts_are_row_groups_and_count_places(tmp_path: Path) -> None:
    pq.write_table(pa.table(columns(60)), tmp_path / "a.parquet", row_group_size=20)
    pq.write_table(pa.table(columns(7)), tmp_path / "b.parquet")
    parts = LogFiles.of(tmp_path, COLUMNS).between(5, 64).parts(["a", "b", "c"])
    places = [part()[0].places.tolist() for part in parts]
    assert places == [list(range(5, 20)), list(range(20, 40)), list(range(40, 60)), list(range(60, 64))]


def test_bad_rows_are_named_with_file_and_number(tmp_path: Path) -> None:
    data = columns(60)
    data["clicked"][7] = None  # its reward has not come
    data["item"][33] = "z"
    data["p"][41] = 0.0
    data["age"][50] = float("nan")
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(data), path, row_group_size=20)
    source = LogFiles.of(path, COLUMNS)
    found = [part() for part in source.parts(["a", "b", "c"], propensities=True)]
    account = found[0][1] + found[1][1] + found[2][1]
    with pytest.raises(InvalidInputError) as caught:
        account.left_out()
    text = str(caught.value)
    for line in (
        "3 of 60 rows are bad",
        f"{path}, row 34: the arm is missing or unknown",
        f"{path}, row 42: the propensity is not a number above 0 and at most 1",
        f"{path}, row 51: the context is not 2 finite numbers",
        "--bad skip",
    ):
        assert line in text
    assert sum(account.left_out("skip").values()) == 4
    assert sum(len(log) for log, _ in found) == 56
    frame = pd.DataFrame(data)
    with pytest.raises(InvalidInputError, match=r"row 34: the arm is missing"):
        Log.from_frame(frame, **NAMED, arms=["a", "b", "c"])
    assert sum(Log.from_frame(frame, **NAMED, arms=["a", "b", "c"], bad="skip").left_out.values()) == 4


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_arm_is_no_arm(missing: object) -> None:
    data = columns(60)
    data["item"][3] = missing
    with pytest.raises(InvalidInputError, match="row 4: the arm is missing"):
        Log.from_frame(pd.DataFrame(data), **NAMED)
    with pytest.raises(InvalidInputError, match="an arm is"):
        Log.of(["a", missing], [[0.0], [1.0]], [0.0, 1.0])


def test_the_arm_1_and_the_arm_of_that_text_are_two(tmp_path: Path) -> None:
    log = Log.of([1, "1", 1], [[0.0]] * 3, [1.0, 0.0, 1.0])
    assert log.arms == (1, "1")
    assert log.played_arms == [1, "1", 1]
    policy = kb.fit(log, kb.KMTLUCB([1, "1"]))
    assert dict(policy.counts) == {1: 2, "1": 1}
    frame = pd.DataFrame({"arm": [1, "1", 1], "x": [0.0] * 3, "reward": [1.0, 0.0, 1.0], "propensity": [0.5] * 3})
    assert Log.from_frame(frame).played_arms == [1, "1", 1]
    numbers = {"arm": [1, 2], "x": [0.0, 1.0], "reward": [0.0, 1.0]}
    pq.write_table(pa.table(numbers), tmp_path / "log.parquet")
    with pytest.raises(InvalidInputError, match="the number 1 and the text '1' are different arms"):
        kb.fit(tmp_path / "log.parquet", kb.KMTLUCB(["1", "2"]))
    with pytest.raises(InvalidInputError, match="different arms"):
        kb.fit(Log.of([1, 2], [[0.0]] * 2, [1.0, 0.0]), kb.KMTLUCB(["1", "2"]))
    pd.DataFrame(numbers).to_csv(tmp_path / "log.csv", index=False)  # a CSV file has text alone
    assert kb.fit(tmp_path / "log.csv", kb.KMTLUCB(["1", "2"])).n_observations == 2


def test_a_column_that_numbers_the_rows_is_warned_of() -> None:
    frame = pd.DataFrame(columns(60)).assign(user_id=np.arange(60) + 1000)
    with pytest.warns(LogWarning, match="column 'user_id' has 60 values in 60 rows"):
        Log.from_frame(frame, **NAMED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Log.from_frame(frame, **NAMED, contexts=["age", "hour"]).n_features == 2


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda f: Log.from_frame(f.to_numpy(), **NAMED), "frame must be a table"),
        (lambda f: Log.from_frame(f.head(0), **NAMED), "no rows"),
        (lambda f: Log.from_frame(f, **{**NAMED, "arm": "article"}), "no column 'article'"),
        (lambda f: Log.from_frame(f, **{**NAMED, "reward": "p", "propensity": "clicked"}), "swapped"),
        (lambda f: Log.from_frame(f.drop(columns="p"), **NAMED), "propensity=None"),
        (lambda f: Log.from_frame(f.assign(city="Rome"), **NAMED), "'city' holds 'Rome', not numbers"),
        (lambda f: Log.from_frame(f, **NAMED, arms=["x"]), "no row has an arm of 'x'"),
        (lambda f: Log.of(["a"], [[0.0]], [1.0], propensities=[0.0]), "above 0"),
        (lambda f: Log.of(["a"], [[0.0]], [1.0, 2.0]), "one entry per row"),
        (lambda f: Log.of([], np.zeros((0, 1)), []), "empty"),
        (lambda f: Log.of(["c"], [[0.0]], [1.0], arms=["a"]), r"played\[0\] is 'c'"),
        (lambda f: Log.of_rounds([[0.0]], [["a"]], [1], [0.0], [0.5]), "chosen must name a candidate"),
        (lambda f: kb.fit(f, kb.KMTLUCB(3)), "kb.Log.from_frame"),
        (lambda f: kb.fit("nowhere.csv", kb.KMTLUCB(3)), "no file or folder"),
    ],
)
def test_what_is_no_log_is_refused(call, match) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError, FileNotFoundError), match=match):
        call(pd.DataFrame(columns()))


def test_propensities_and_arms_may_follow_from_the_table() -> None:
    frame = pd.DataFrame(columns()).drop(columns="p")
    frame["item"] = pd.Categorical(frame["item"], categories=["c", "b", "a", "new"])
    log = Log.from_frame(frame, arm="item", reward="clicked", propensity=None, contexts=["age"])
    assert log.arms == ("c", "b", "a", "new")
    assert set(log.propensities.tolist()) == {0.25}


def test_rounds_with_candidates_of_their_own() -> None:
    log = Log.of_rounds(
        [[0.0, 1.0], [[0.0, 0.0], [1.0, 1.0]], [0.5, 0.5]], [["a", "b", "c"], ["a", "b"], ["c", "a"]], [2, 1, 0],
        [1.0, 0.0, 1.0], [0.5] * 3,
    )  # fmt: skip
    assert log.played_arms == ["c", "b", "c"]
    assert log.contexts.tolist() == [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]
    asked = []
    table = log.table(lambda X, arms: asked.append((X.shape, arms)) or np.ones((len(X), len(arms))))
    assert table.sum(axis=1).tolist() == [3.0, 2.0, 2.0]
    assert ((1, 2, 2), ["a", "b"]) in asked
    policy = kb.KMTLUCB(["a", "b", "c"])
    log[np.array([2, 0])].teach(policy)
    assert policy.n_observations == 2


def test_lists_and_json_are_contexts(tmp_path: Path) -> None:
    lists = {"arm": ["a", "b"], "reward": [0.0, 1.0], "context": [[0.1, 0.2], [0.3, 0.4]], "propensity": [0.5] * 2}
    pq.write_table(pa.table(lists), tmp_path / "lists.parquet")
    text = lists | {"context": ["[0.1, 0.2]", "[[0.3, 0.4], [0.5, 0.6]]"], "index": [0, 1]}
    pq.write_table(pa.table(text | {"candidates": ['["a"]', '["a", "b"]']}), tmp_path / "text.parquet")
    assert Log.read(tmp_path / "lists.parquet").contexts.tolist() == [[0.1, 0.2], [0.3, 0.4]]
    (part,) = LogFiles.of(tmp_path / "text.parquet").parts(["a", "b"], propensities=True)
    log = part()[0]
    assert log.contexts.tolist() == [[0.1, 0.2], [0.5, 0.6]]
    assert log.candidates == (("a",), ("a", "b"))
    assert log.index.tolist() == [0, 1]


def test_times(tmp_path: Path) -> None:
    frame = pd.DataFrame(columns(6)).assign(at=np.arange(6.0))
    frame.to_parquet(tmp_path / "log.parquet")
    log = Log.from_frame(frame, **NAMED)
    assert log.timed(2.0, 4.0).places.tolist() == [2, 3]
    named = Log.from_frame(frame.rename(columns={"at": "when"}), **NAMED, at="when")
    assert named.timed(2.0, 4.0) == log.timed(2.0, 4.0)
    source = LogFiles.of(tmp_path / "log.parquet", COLUMNS).timed(2.0, 4.0)
    assert source.parts(["a", "b", "c"])[0]()[0].places.tolist() == [2, 3]
    assert kb.fit(source, kb.KMTLUCB(["a", "b", "c"])).n_observations == 2
    with pytest.raises(InvalidInputError, match="no times"):
        Log.of(["a"], [[0.0]], [1.0]).timed(1.0, None)
    with pytest.raises(InvalidInputError, match="since must be like"):
        seconds("yesterday")


def test_no_row_of_a_services_log_is_learned_twice(tmp_path: Path) -> None:
    source = Source("first", "6:head", 6)
    table = pa.table(columns(6)).replace_schema_metadata(about(source))
    pq.write_table(table, tmp_path / "log.parquet")
    found = LogFiles.of(tmp_path / "log.parquet", COLUMNS)
    assert found.sources == {source: 6}
    kept = learned_from((), found.sources, True, False)
    assert kept == ({"first": "first", "head": "6:head", "whole": True},)
    with pytest.raises(InvalidInputError, match="learned this log before, up to event 6"):
        learned_from(kept, found.sources, True, False)
    assert learned_from(kept, found.sources, True, True)[0]["whole"] is False
    later = pa.table(columns(9)).replace_schema_metadata(about(Source("first", "9:head", 9)))
    pq.write_table(later, tmp_path / "later.parquet")
    with pytest.raises(InvalidInputError, match="several exports of one log"):
        kb.fit(LogFiles.of(tmp_path, COLUMNS), kb.KMTLUCB(["a", "b", "c"]))


@pytest.mark.parametrize("dialect", ["plain", "byte order mark", "windows"])
def test_csv_files_of_any_system(dialect: str, tmp_path: Path) -> None:
    text = pd.DataFrame(columns(), columns=["item", "age", "hour", "p", "clicked"]).to_csv(index=False)
    text = text.replace("\n", "\r\n") if dialect == "windows" else text
    encoding = "utf-8-sig" if dialect == "byte order mark" else "utf-8"
    (tmp_path / "log.csv").write_bytes(text.encode(encoding))
    log = Log.read(tmp_path / "log.csv", COLUMNS)
    assert (len(log), log.arms, log.n_features) == (60, ("a", "b", "c"), 2)
    assert log.rewards.tolist() == columns()["clicked"]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("item", "z", r"row 4: the arm is missing or unknown \(z\)"),
        ("item", None, r"row 4: the arm is missing or unknown \(None\)"),
        ("p", 0.0, r"row 4: the propensity is not a number above 0 and at most 1 \(0.0\)"),
        ("p", None, "row 4: the propensity is missing"),
        ("age", None, r"row 4: the context is not 2 finite numbers \(\[nan"),
        ("clicked", "yes", r"row 4: the reward is not a finite number \(yes\)"),
        ("at", "11/15/2026", r"row 4: the time is not like 2026-11-15T08:00, .* \(11/15/2026\)"),
        ("at", "1794700000000", "row 4: the time is too large for seconds since 1970; divide milliseconds"),
    ],
)
def test_a_bad_row_of_a_csv_file_is_shown(column: str, value: object, said: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(columns()).assign(at="2026-11-15T08:00").astype({column: object})
    frame.loc[3, column] = value
    frame.to_csv(tmp_path / "log.csv", index=False)
    source = LogFiles.of(tmp_path / "log.csv", Columns("item", "clicked", ("age", "hour"), "p"))
    taught = kb.KMTLUCB(["a", "b", "c"])
    taught.observe(["a"], [[0.0, 0.0]], [0.0])
    with pytest.raises(InvalidInputError, match=rf"1 of 60 rows are bad .*\n  .*log.csv, {said}"):
        kb.ope.evaluate(source.timed(0.0, None), taught)


@pytest.mark.parametrize("time", ["2026-11-15", "2026-11-15T00:00:00", "2026-11-15 00:00Z", "1794700800"])
def test_times_are_dates_or_seconds(time: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(columns()).assign(at=time)
    frame.loc[:9, "at"] = "2026-11-14" if "-" in time else "1794614400"
    frame.to_csv(tmp_path / "log.csv", index=False)
    source = LogFiles.of(tmp_path / "log.csv", COLUMNS).timed(seconds("2026-11-15"), None)
    assert kb.fit(source, kb.KMTLUCB(["a", "b", "c"])).n_observations == 50


def test_files_that_are_no_csv_say_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("item;clicked;p;age\na;1;0.5;0.1\n")
    with pytest.raises(InvalidInputError, match="separated by semicolons"):
        LogFiles.of(path, COLUMNS)
    path.write_bytes("item,clicked\nSchön,1\n".encode("latin-1"))
    with pytest.raises(DatasetError, match="UTF-8 text with commas"):
        LogFiles.of(path, COLUMNS)
