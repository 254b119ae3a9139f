"""Data sets: where they are found, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kinbandits import datasets
from kinbandits.errors import DatasetError, InvalidInputError, MissingPackageError

GIVEN = os.environ.get("KINBANDITS_DATA")
PAPER = ("digits", "letter", "mnist", "pendigits", "segment", "usps")


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data on this machine; gives the directories that are looked into."""
    given, cache = tmp_path / "given", tmp_path / "cache"
    given.mkdir()
    monkeypatch.setenv("KINBANDITS_DATA", str(given))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return SimpleNamespace(given=given, cache=cache / "kinbandits")


def fake(name: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows that pass for the data set, as far as counts can tell."""
    entry = datasets.CATALOGUE[name]
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(entry.class_counts)), entry.class_counts)
    X = rng.integers(0, 2, (entry.rows, entry.features)).astype(np.uint8)
    return {"X": X, "y": y}


def test_digits_needs_no_download(nowhere):
    digits = datasets.load("digits", download=False)
    assert (len(digits), digits.X.shape[1], digits.n_classes) == (1797, 64, 10)
    assert digits.features().max() == 16.0
    assert not digits.X.flags.writeable


def test_the_order_of_places(nowhere):
    nowhere.cache.mkdir(parents=True)
    np.savez(nowhere.cache / "segment.npz", **fake("segment", 1))
    assert datasets.where("segment") == str(nowhere.cache / "segment.npz")
    np.savez(nowhere.given / "segment.npz", **fake("segment", 2))
    assert datasets.where("segment") == str(nowhere.given / "segment.npz")
    assert np.array_equal(datasets.load("segment").X, fake("segment", 2)["X"])


def test_the_cache_without_xdg(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    if os.name == "posix":
        assert datasets.cache_directory() == Path("/home/someone/.cache/kinbandits")


def test_a_missing_set_says_all_three_ways(nowhere):
    with pytest.raises(DatasetError) as caught:
        datasets.load("letter", download=False)
    text = str(caught.value)
    for way in ("KINBANDITS_DATA", str(nowhere.cache), "kinbandits data letter", "OpenML data set 6"):
        assert way in text


def test_an_unknown_set():
    with pytest.raises(DatasetError, match="there is no data set 'iris'; there are digits, letter"):
        datasets.load("iris")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda a: a.pop("y"), "damaged"),
        (lambda a: a.update(X=a["X"][:-1]), "X has shape"),
        (lambda a: a.update(X=a["X"][:, :-1]), "X has shape"),
        (lambda a: a.update(y=a["y"][:-1]), "rows per class"),
        (lambda a: a["y"].__setitem__(0, 1), "rows per class"),
        (lambda a: a.update(X=np.where(a["X"] > 0, np.nan, 0.0)), "NaN"),
        (lambda a: a.update(X=a["X"] * 5000.0), "values are outside"),
    ],
)
def test_what_does_not_fit_is_refused(nowhere, damage, message):
    arrays = fake("segment")
    damage(arrays)
    np.savez(nowhere.given / "segment.npz", **arrays)
    with pytest.raises(DatasetError, match=message) as caught:
        datasets.load("segment")
    assert str(nowhere.given / "segment.npz") in str(caught.value)
    assert "not used" in str(caught.value)
    assert "kinbandits data segment" in str(caught.value)


@pytest.mark.parametrize("keep", [0, 10, 5000, -1, None])
def test_a_damaged_file_is_refused(nowhere, keep):
    path = nowhere.given / "segment.npz"
    np.savez_compressed(path, **fake("segment"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= keep is None  # one bit
    path.write_bytes(data[:keep])
    with pytest.raises(DatasetError, match="damaged and is not used"):
        datasets.load("segment")
    (nowhere.given / "digits.npz").write_bytes(b"no")  # which is not replaced in silence
    with pytest.raises(DatasetError, match="damaged"):
        datasets.load("digits")


# -- download: OpenML's own forms, handed over by a stand-in for the network ------------------------


def openml(name: str) -> SimpleNamespace:
    """What `fetch_openml` gives for this set: float values, text labels."""
    entry, rows = datasets.CATALOGUE[name], fake(name)
    label = {
        "usps": lambda c: str(c + 1),
    }.get(name, lambda c: entry.class_names[c])
    return SimpleNamespace(
        data=rows["X"].astype(np.float64),
        target=np.array([label(c) for c in rows["y"]], dtype=object),
        feature_names=[f"f{i}" for i in range(entry.features)],
    )


@pytest.mark.parametrize("name", ["usps", "letter", "segment", "pendigits"])
def test_a_download_is_kept_in_the_cache(nowhere, monkeypatch, name):
    import sklearn.datasets

    asked = []

    def network(*, data_id, as_frame, parser):
        asked.append(data_id)
        return openml(name)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", network)
    first = datasets.load(name)
    again = datasets.load(name)
    assert asked == [datasets.CATALOGUE[name].openml]
    assert datasets.where(name) == str(nowhere.cache / f"{name}.npz")
    assert np.array_equal(first.y, fake(name)["y"])
    assert np.array_equal(first.X, fake(name)["X"])
    assert first == again
    assert [p.name for p in nowhere.cache.iterdir()] == [f"{name}.npz"]  # nothing half-written is left


def test_a_wrong_download_is_not_kept(nowhere, monkeypatch):
    import sklearn.datasets

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **_: openml("pendigits"))
    with pytest.raises(DatasetError, match="unexpected label '0'"):
        datasets.load("letter")
    with pytest.raises(DatasetError, match="OpenML data set 554 is not the mnist data set"):
        datasets.load("mnist")
    assert datasets.where("letter") is None
    assert datasets.where("mnist") is None


def test_no_network(nowhere, monkeypatch):
    import sklearn.datasets

    def network(**_):
        raise OSError("no route")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", network)
    with pytest.raises(DatasetError, match=r"the download failed \(OSError: no route\). Three ways"):
        datasets.load("usps")


def test_no_scikit_learn(nowhere, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingPackageError, match=r"kinbandits\[experiments\]"):
        datasets.load("usps")
    with pytest.raises(MissingPackageError, match=r"digits needs sklearn; .*kinbandits\[experiments\]"):
        datasets.load("digits", download=False)


# -- features -------------------------------------------------------------------------------------


def test_minmax_and_constant_columns():
    d = datasets.Dataset.of([[0.0, 7.0], [5.0, 7.0], [10.0, 7.0]], [0, 1, 0])
    assert d.features(scaling="minmax").tolist() == [[-1, 0], [0, 0], [1, 0]]
    assert d.features([1], scaling="minmax").tolist() == [[0, 0]]  # over all rows, not the chosen ones
    assert d.features().tolist() == d.features(scaling="raw").tolist()  # your own data are taken as they are


def test_labels_of_any_kind():
    assert datasets.Dataset.of([[0.0], [1.0]], [True, False]).class_names == ("False", "True")
    assert datasets.Dataset.of([[0.0], [1.0]], [3.0, 1.0]).class_names == (1, 3)
    assert datasets.Dataset.of([[0.0], [1.0]], ["b", "a"]).y.tolist() == [1, 0]
    assert datasets.Dataset.of([[0.0], [1.0]], [1, "1"]).class_names == (1, "1")
    assert datasets.Dataset.of([[0.0], [1.0]], ["a", "b"], order=["c", "b", "a"]).y.tolist() == [1, 0]
    with pytest.raises(InvalidInputError, match="y holds 'b', which is not in order"):
        datasets.Dataset.of([[0.0], [1.0]], ["a", "b"], order=["a"])


@pytest.mark.parametrize("missing", [None, float("nan"), np.float64("nan")])
def test_a_missing_label_is_no_class(missing):
    with pytest.raises(InvalidInputError, match=r"y\[1\] is missing"):
        datasets.Dataset.of([[0.0], [1.0], [2.0]], ["a", missing, "b"])


@pytest.mark.parametrize("name", ["letter", "mnist", "segment"])
def test_a_name_does_not_rescale_your_rows(name):
    X = np.array([[0.0, 100.0], [5.0, 200.0], [255.0, 300.0]])
    assert datasets.Dataset.of(X, [0, 1, 0], name).features().tolist() == X.tolist()


@pytest.mark.data
@pytest.mark.skipif(GIVEN is None, reason="KINBANDITS_DATA is not set")
@pytest.mark.parametrize("name", PAPER)
def test_the_real_sets(name):
    assert GIVEN is not None
    if not (Path(GIVEN) / f"{name}.npz").exists():
        pytest.skip(f"{name} is not in KINBANDITS_DATA")
    d = datasets.load(name, download=False)
    rows = np.arange(0, len(d), 97)
    X = d.features(rows)
    low, high = {"mnist": (0, 1), "letter": (-1, 1), "segment": (-1, 1), "usps": (-1, 1)}.get(name, (0, 100))
    assert low <= X.min()
    assert X.max() <= high
    if name in ("letter", "segment"):
        full = d.features()
        moving = np.ptp(full, axis=0) > 0
        assert np.array_equal(full[:, moving].min(axis=0), np.full(moving.sum(), -1.0))
        assert np.array_equal(full[:, moving].max(axis=0), np.full(moving.sum(), 1.0))
    if name == "digits":
        from sklearn.datasets import load_digits

        assert np.array_equal(d.features(), load_digits().data)
        assert np.array_equal(d.y, load_digits().target)
