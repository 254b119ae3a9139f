"""Environments from tables and files, of every library that is installed."""

from __future__ import annotations

import numpy as np
import pytest

from kinbandits.environments import Classification, Replay, make_environment
from kinbandits.errors import DatasetError, InvalidInputError

COLUMNS = {"height": [1.0, 2.0, 3.0, 4.0], "age": [5, 6, 7, 8], "kind": ["cat", "dog", "cat", "dog"]}


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def frame(request):
    library = pytest.importorskip(request.param)
    return library.table(COLUMNS) if request.param == "pyarrow" else library.DataFrame(COLUMNS)


def test_from_any_table(frame):
    e = Classification.from_frame(frame, target="kind", seed=1)
    assert e.arms == ["cat", "dog"]
    by_hand = Classification.from_arrays(np.array([[1, 5], [2, 6], [3, 7], [4, 8.0]]), COLUMNS["kind"], seed=1)
    for one, two in zip(e.rounds(), by_hand.rounds(), strict=True):
        assert np.array_equal(one.context, two.context)
        assert np.array_equal(one.rewards, two.rewards)


def test_table_complaints(frame):
    with pytest.raises(InvalidInputError, match="target is 'species', but the columns are height, age, kind"):
        Classification.from_frame(frame, target="species")
    with pytest.raises(InvalidInputError, match=r"column 'kind' holds .*, not numbers"):
        Classification.from_frame(frame, target="age")


@pytest.fixture(params=["csv", "parquet"])
def file(request, tmp_path):
    polars = pytest.importorskip("polars")
    path = tmp_path / f"animals.{request.param}"
    frame = polars.DataFrame(COLUMNS)
    if request.param == "csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


def test_from_a_file(file):
    e = make_environment("classification", data=str(file), target="kind", seed=1)
    assert (e.name, e.arms, e.horizon) == ("animals", ["cat", "dog"], 4)
    with pytest.raises(InvalidInputError, match="target is missing"):
        Classification(str(file))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DatasetError, match="there is no file"):
        Classification(str(tmp_path / "none.csv"), target="y")
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"not parquet")
    with pytest.raises(DatasetError, match="cannot read"):
        Classification(str(bad), target="y")


def test_missing_values_are_named(tmp_path):
    path = tmp_path / "holes.csv"
    path.write_text("x,y\n1,a\n,b\n")
    with pytest.raises(InvalidInputError, match="column 'x' has 1 missing value"):
        Classification(str(path), target="y")


def test_replay_of_a_file(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("arm,x1,x2,reward,p\nred,0,1,0.5,0.5\nblue,1,0,1,0.5\nred,1,1,0,0.5\n")
    e = Replay(str(path), propensity="p")
    assert e.arms == ["blue", "red"]
    assert [r.context.tolist() for r in e.rounds()] == [[0, 1], [1, 0], [1, 1]]
    assert [r.rewards[~np.isnan(r.rewards)].tolist() for r in e.rounds()] == [[0.5], [1.0], [0.0]]
    chosen = make_environment("replay", log=str(path), contexts=["x2"])
    assert [r.context.tolist() for r in chosen.rounds()] == [[1], [0], [1]]
    with pytest.raises(InvalidInputError, match="no column 'action'; it has arm"):
        Replay(str(path), arm="action")
