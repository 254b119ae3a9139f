"""Where a data set comes from that is not on disk: scikit-learn, which carries Digits, or OpenML."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits.datasets.catalogue import CATALOGUE, Entry
from kinbandits.datasets.dataset import Dataset
from kinbandits.datasets.files import check, ways_to_have
from kinbandits.errors import DatasetError, MissingPackageError

__all__ = ["bundled_digits", "from_openml"]


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
