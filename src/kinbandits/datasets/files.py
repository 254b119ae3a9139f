"""Data sets as files, read and written, and where there is none from scikit-learn or OpenML; others are refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._files import replacing
from kinbandits.datasets.catalogue import CATALOGUE, Entry
from kinbandits.datasets.dataset import Dataset
from kinbandits.errors import DatasetError, MissingPackageError

VARIABLE = "KINBANDITS_DATA"


def entry_of(name: str) -> Entry:
    """What is known about a data set."""
    if name not in CATALOGUE:
        raise DatasetError(f"there is no data set {name!r}; there are {', '.join(sorted(CATALOGUE))}")
    return CATALOGUE[name]


def find(name: str) -> Path | None:
    """Where the file of a data set is on this machine, if it is: ``KINBANDITS_DATA`` first, then the cache."""
    entry = entry_of(name)
    for directory in directories():
        path = directory / f"{entry.name}.npz"
        if path.is_file():
            return path
    return None


def cache_directory() -> Path:
    """Where downloads are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "kinbandits"
    if sys.platform == "win32" and "LOCALAPPDATA" in os.environ:
        return Path(os.environ["LOCALAPPDATA"]) / "kinbandits" / "cache"
    return Path.home() / ".cache" / "kinbandits"


def directories() -> list[Path]:
    """Where files are looked for: ``KINBANDITS_DATA`` first, then the cache."""
    given = os.environ.get(VARIABLE)
    return ([Path(given).expanduser()] if given else []) + [cache_directory()]


def ways_to_have(entry: Entry, reason: str) -> str:
    """The text of an error: why a data set is not here, and three ways to have it."""
    ways = [
        f"1. set {VARIABLE} to a directory that holds {entry.name}.npz",
        f"2. put {entry.name}.npz into the cache, {cache_directory()}",
    ]
    if entry.openml is None:
        ways.append("3. install scikit-learn, which carries it: pip install 'kinbandits[experiments]'")
    else:
        ways.append(
            f"3. with a network: kinbandits data fetch {entry.name} (OpenML data set {entry.openml}; needs "
            "pip install 'kinbandits[experiments]')"
        )
    return f"cannot load the {entry.name} data set: {reason}. Three ways to have it: " + "; ".join(ways)


def read(entry: Entry, path: Path) -> Dataset:
    """The data set in a file."""
    cure = f"Remove it and run: kinbandits data fetch {entry.name}"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = dict(file)
        dataset = Dataset(
            entry.name,
            arrays["X"],
            arrays["y"].astype(np.int64),
            tuple(str(c) for c in arrays["class_names"]),
            float(arrays.get("scale", 1.0)),
            tuple(str(f) for f in arrays["feature_names"]) if "feature_names" in arrays else None,
            int(arrays["n_train"]) if "n_train" in arrays else None,
        )
    except Exception as error:  # zipfile, zlib, numpy and KeyError have no common ancestor
        raise DatasetError(f"{path} is damaged and is not used ({error}). {cure}") from error
    check(entry, dataset, str(path), cure)
    for array in (dataset.X, dataset.y):
        array.setflags(write=False)
    return dataset


def check(entry: Entry, dataset: Dataset, source: str, cure: str) -> None:
    """Refuse what is not this data set."""
    X, y = dataset.X, dataset.y
    if X.shape != (entry.rows, entry.features):
        problem = f"X has shape {X.shape}, not {(entry.rows, entry.features)}"
    elif y.shape != (entry.rows,) or y.min() < 0 or len(dataset.class_names) != entry.classes:
        problem = f"it has {len(dataset.class_names)} classes and {y.shape} labels, not {entry.classes}"
    elif tuple(np.bincount(y, minlength=entry.classes).tolist()) != entry.class_counts:
        problem = f"rows per class are {np.bincount(y).tolist()}, not {list(entry.class_counts)}"
    elif not np.isfinite(X).all():
        problem = "X holds NaN or infinity"
    elif X.min() * dataset.scale < entry.range[0] - 1e-6 or X.max() * dataset.scale > entry.range[1] + 1e-6:
        problem = f"values are outside {entry.range}"
    else:
        return
    raise DatasetError(f"{source} is not the {entry.name} data set and is not used: {problem}. {cure}")


def write(dataset: Dataset, path: Path) -> None:
    """Write the file that `read` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {
        "X": dataset.X,
        "y": dataset.y,
        "class_names": np.array([str(c) for c in dataset.class_names]),
    }
    if dataset.scale != 1.0:
        arrays["scale"] = np.float64(dataset.scale)
    if dataset.feature_names is not None:
        arrays["feature_names"] = np.array(dataset.feature_names)
    with replacing(path) as part, part.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def bundled_digits() -> Dataset | None:
    """Digits, if scikit-learn is installed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return None
    X, y = load_digits(return_X_y=True)
    classes = tuple(str(c) for c in range(10))
    dataset = Dataset("digits", X.astype(np.uint8), y.astype(np.int64), classes)
    check(CATALOGUE["digits"], dataset, "scikit-learn's load_digits()", "Reinstall scikit-learn")
    for array in (dataset.X, dataset.y):
        array.setflags(write=False)
    return dataset


def from_openml(entry: Entry) -> Dataset:
    """Download it."""
    try:
        from sklearn.datasets import fetch_openml
    except ImportError as error:
        raise MissingPackageError(ways_to_have(entry, "scikit-learn is not installed")) from error
    try:
        bunch = fetch_openml(data_id=entry.openml, as_frame=False, parser="liac-arff")
    except Exception as error:  # whatever the network or OpenML can raise
        raise DatasetError(ways_to_have(entry, f"the download failed ({type(error).__name__}: {error})")) from error
    dataset = _coded(entry, np.asarray(bunch.data), np.asarray(bunch.target), list(bunch.feature_names))
    check(entry, dataset, f"OpenML data set {entry.openml}", "Report this, and use a copy in the meantime")
    return dataset


_SEGMENT = ("brickface", "sky", "foliage", "cement", "window", "path", "grass")


def _coded(entry: Entry, X: NDArray[Any], target: NDArray[Any], features: list[str]) -> Dataset:
    """OpenML's labels as 0..N-1, in the order of our files; values in the smallest type that holds them."""
    labels = [str(t) for t in target]
    classes: tuple[str, ...]
    if entry.name == "segment":
        classes = _SEGMENT
    elif entry.name == "letter":
        classes = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    else:
        classes = tuple(str(c) for c in range(entry.classes))
        if entry.name == "usps":  # '1'..'10' at OpenML
            labels = [str(int(label) - 1) for label in labels]
    code: dict[str, int] = {c: i for i, c in enumerate(classes)}
    try:
        y = np.array([code[label] for label in labels], dtype=np.int64)
    except KeyError as error:
        raise DatasetError(
            f"OpenML data set {entry.openml} has an unexpected label {error.args[0]!r}; it is not used"
        ) from None
    values = np.asarray(X, dtype=np.float64)
    whole = bool(np.equal(values, np.floor(values)).all())
    kind: Any = np.uint8 if whole and values.min() >= 0 and values.max() <= 255 else np.float32
    return Dataset(entry.name, values.astype(kind), y, classes, 1.0, tuple(features))
