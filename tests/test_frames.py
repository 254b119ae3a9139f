"""Tables in place of arrays: pandas, polars and pyarrow, columns by name, arms as categories."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb

LIBRARIES = ["pandas", "polars", "pyarrow"]
X = np.array([[0.1, 1.0], [0.4, 0.0], [0.9, 1.0], [0.3, 0.5], [0.7, 0.2], [0.2, 0.8]])
ARMS = ["red", "blue", "red", "green", "blue", "green"]
REWARDS = [1.0, 0.0, 0.5, 1.0, 0.0, 0.25]


def table(library: str, columns: dict):
    found = pytest.importorskip(library)
    return found.table(columns) if library == "pyarrow" else found.DataFrame(columns)


def column(library: str, values: list, categories: list | None = None):
    found = pytest.importorskip(library)
    if library == "pandas":
        return found.Series(found.Categorical(values, categories)) if categories else found.Series(values)
    if library == "polars":
        return found.Series(values, dtype=found.Enum(categories)) if categories else found.Series(values)
    return found.chunked_array([values])


def contexts(library: str, rows=X, order=("age", "hour")):
    columns = {"age": rows[:, 0].tolist(), "hour": rows[:, 1].tolist()}
    return table(library, {name: columns[name] for name in order})


def taught() -> kb.KMTLUCB:
    policy = kb.KMTLUCB(["red", "blue", "green"], similarity=kb.Mixed(0.4), seed=1)
    policy.observe(ARMS, X, REWARDS)
    return policy


@pytest.mark.parametrize("library", LIBRARIES)
def test_learning_and_asking_with_tables_is_learning_and_asking_with_arrays(library: str) -> None:
    policy, twin = kb.KMTLUCB(["red", "blue", "green"], similarity=kb.Mixed(0.4), seed=1), taught()
    policy.observe(column(library, ARMS), contexts(library), column(library, REWARDS))
    assert policy.feature_names == ("age", "hour")
    assert twin.feature_names is None
    for order in (("age", "hour"), ("hour", "age")):
        ask = contexts(library, X[:3], order)  # one row per candidate
        for found, wanted in zip(policy.predict(ask), twin.predict(X[:3]), strict=True):
            np.testing.assert_array_equal(found, wanted)
        many = contexts(library, X, order)  # a round in each row
        assert policy.choose_many(many).arm == twin.choose_many(X).arm
        np.testing.assert_array_equal(policy.probabilities_many(many), twin.probabilities_many(X))
        uniform = np.full((6, 2), 0.3)
        assert policy.propose(many, uniform=uniform).arm == twin.propose(X, uniform=uniform).arm
    one, two = policy.choose_many(contexts(library, X[:1]))[0], twin.choose(X[0])
    assert one.arm == two.arm
    policy.update(one, 1.0)
    twin.update(two, 1.0)
    np.testing.assert_array_equal(policy.predict(X[1]).mean, twin.predict(X[1]).mean)
    subset = column(library, ["green", "red"])
    assert policy.choose(X[1], subset).arm == twin.choose(X[1], ["green", "red"]).arm


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_arms_are_the_categories(library: str) -> None:
    arms = column(library, ARMS, ["green", "never", "red", "blue"])
    policy = kb.KMTLUCB(arms)
    assert policy.arms == ("green", "never", "red", "blue")
    policy.observe(arms, X, REWARDS)
    assert policy.counts == {"green": 2, "never": 0, "red": 2, "blue": 2}
    with pytest.raises(LookupError, match="unknown arm 'mauve'"):
        policy.observe(column(library, ["mauve"], ["mauve"]), X[:1], [1.0])


@pytest.mark.parametrize("library", LIBRARIES)
def test_candidates_of_a_task_as_a_table(library: str) -> None:
    policy, twin = (kb.KMTLUCB(["red", "blue"], seed=1) for _ in range(2))
    for rows in (X, X[:3]):
        assert policy.choose(contexts(library, rows), task="blue").index == twin.choose(rows, task="blue").index
    columns = {"hour": X[:, 1].tolist(), "age": X[:, 0].tolist()}
    assert policy.choose(columns, task="red").index == twin.choose(X, task="red").index


def test_one_row_as_a_mapping_or_a_row_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    policy, twin = kb.KMTLUCB(["red", "blue", "green"], similarity=kb.Mixed(0.4), seed=1), taught()
    policy.observe(ARMS, contexts("pandas"), REWARDS)
    row = contexts("pandas", order=("hour", "age")).iloc[2]
    for context in (row, {"hour": 1.0, "age": 0.9}, row.to_numpy()[::-1]):
        np.testing.assert_array_equal(policy.predict(context).mean, twin.predict(X[2]).mean)
    np.testing.assert_array_equal(policy.predict(pandas.Series(X[2])).mean, twin.predict(X[2]).mean)  # no names


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_that_do_not_fit_are_named_and_nothing_changes(library: str) -> None:
    policy = kb.KMTLUCB(["red", "blue", "green"])
    policy.observe(ARMS, contexts(library), REWARDS)
    cases = [
        ({"age": [0.1], "colour": [0.2]}, "have no column 'hour'"),
        ({"age": [0.1], "hour": [0.2], "colour": [0.2]}, "a column 'colour' that is new"),
        ({"age": [0.1], "hour": ["noon"]}, "column 'hour' holds .*, not numbers"),
        ({"age": [0.1], "hour": [None]}, "missing value|not numbers"),
    ]
    for columns, words in cases:
        with pytest.raises(ValueError, match=words):
            policy.choose_many(table(library, columns))
        with pytest.raises(ValueError, match=words):
            policy.observe(["red"], table(library, columns), [1.0])
    assert policy.n_observations == 6
    assert policy.n_decisions == 0
    with pytest.raises(ValueError, match="'hour' is 'noon', not a number"):
        policy.choose({"age": 1.0, "hour": "noon"})


def test_a_first_table_that_is_refused_settles_no_names() -> None:
    policy = kb.KMTLUCB(2)
    with pytest.raises(ValueError, match="must be finite"):
        policy.choose_many(table("pandas", {"wrong": [float("inf")]}))
    with pytest.raises(LookupError, match="unknown arm"):
        policy.observe(["nobody"], table("pandas", {"wrong": [1.0]}), [1.0])
    policy.predict_many(table("pandas", {"asked": [1.0]}))  # reads only
    assert policy.feature_names is None


def test_names_are_saved_and_copied(tmp_path) -> None:
    policy = kb.KMTLUCB(["red", "blue", "green"])
    policy.observe(ARMS, contexts("pandas"), REWARDS)
    policy.save(tmp_path / "p.kb")
    again = kb.load(tmp_path / "p.kb")
    assert again.feature_names == policy.copy().feature_names == ("age", "hour")
    other = contexts("pandas", X[:1], ("hour", "age"))
    np.testing.assert_array_equal(again.predict_many(other).mean, policy.predict_many(X[:1]).mean)
    taught().save(tmp_path / "q.kb")
    assert kb.load(tmp_path / "q.kb").feature_names is None
