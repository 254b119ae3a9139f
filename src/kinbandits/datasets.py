"""The multi-class data sets of the paper: found on disk, in the cache, or downloaded.

    load("letter")

looks in the directory that the environment variable ``KINBANDITS_DATA`` names, then in the user's cache
(``$XDG_CACHE_HOME/kinbandits`` or ``~/.cache/kinbandits``), then asks OpenML through scikit-learn and keeps
what it got in the cache. Whatever the source, rows, columns and classes are counted, and a file that is
damaged or does not fit is refused, never used. Digits comes with scikit-learn and needs no download.

A file NAME.npz holds ``X`` (n, d), ``y`` (n,) in 0..N-1 and ``class_names``; optionally ``scale`` (the
published values are X * scale), ``feature_names`` and ``n_train``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._types import Matrix
from kinbandits._value import Value
from kinbandits.errors import DatasetError, InvalidInputError, MissingPackageError

__all__ = ["CATALOGUE", "Dataset", "Entry", "Scaling", "cache_directory", "fetch", "find", "load", "names"]

Scaling = Literal["paper", "raw", "minmax"]
VARIABLE = "KINBANDITS_DATA"


@dataclass(frozen=True)
class Entry:
    """What is known about a data set before it is read.

    Attributes:
        name: as in `load`.
        rows, features, classes: what any copy must have.
        class_counts: rows of each class.
        openml: the number of the data set at OpenML.
        scaling: how the paper's experiments scale the features (`Dataset.features`).
        horizon: T of the paper's experiments.
        range: of the published values.
        note: what it is, in a few words.
    """

    name: str
    rows: int
    features: int
    classes: int
    class_counts: tuple[int, ...]
    openml: int | None
    scaling: Literal["raw", "minmax"]
    factor: float
    horizon: int
    range: tuple[float, float]
    note: str


_LETTERS: tuple[int, ...] = (789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792)
_LETTERS += (783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734)

CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "digits", 1797, 64, 10, (178, 182, 177, 183, 181, 182, 181, 179, 174, 180),
            None, "raw", 1.0, 1250, (0, 16), "handwritten digits, 8 x 8 (the test part of optdigits)",
        ),
        Entry(
            "letter", 20000, 16, 26, _LETTERS,
            6, "minmax", 1.0, 4000, (0, 15), "printed capital letters, 16 statistics of the image",
        ),
        Entry(
            "mnist", 70000, 784, 10, (6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958),
            554, "raw", 1.0 / 255.0, 4000, (0, 255), "handwritten digits, 28 x 28",
        ),
        Entry(
            "optdigits", 5620, 64, 10, (554, 571, 557, 572, 568, 558, 558, 566, 554, 562),
            28, "raw", 1.0, 4000, (0, 16), "handwritten digits, 8 x 8, all of it",
        ),
        Entry(
            "pendigits", 10992, 16, 10, (1143, 1143, 1144, 1055, 1144, 1055, 1056, 1142, 1055, 1055),
            32, "raw", 1.0, 4000, (0, 100), "handwritten digits, eight points along the pen's way",
        ),
        Entry(
            "segment", 2310, 19, 7, (330,) * 7,
            36, "minmax", 1.0, 1000, (-50, 1387), "3 x 3 patches of outdoor images",
        ),
        Entry(
            "usps", 9298, 256, 10, (1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821),
            41082, "raw", 1.0, 4000, (-1, 1), "handwritten digits of US zip codes, 16 x 16",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Value):
    """Labelled rows: ``X`` (n, d), ``y`` (n,) in 0..N-1, and the names of the N classes.

    Made from your own arrays by `Dataset.of`.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[np.int64]
    class_names: tuple[str | int, ...]
    scale: float = 1.0
    feature_names: tuple[str, ...] | None = None
    n_train: int | None = None

    @classmethod
    def of(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        name: str = "data",
        order: Sequence[Any] | None = None,
        **others: Any,
    ) -> Dataset:
        """A data set from features and labels of any kind; classes are the different labels,
        sorted or in ``order``.

        >>> Dataset.of([[0.0], [1.0], [2.0]], ["no", "yes", "no"]).class_names
        ('no', 'yes')
        """
        features, labels = np.asarray(X), np.asarray(y)
        if features.ndim != 2 or not features.size:
            raise InvalidInputError(f"X must be 2-D (rows, features) and not empty, got shape {features.shape}")
        if labels.shape != (len(features),):
            raise InvalidInputError(f"y must have one label per row: {len(features)} rows, shape {labels.shape}")
        if features.dtype.kind not in "buif":
            raise InvalidInputError(
                f"X must hold numbers, got {features.dtype}; turn text and categories into numbers first"
            )
        if labels.dtype.kind == "f":
            if not np.isfinite(labels).all():
                raise InvalidInputError("y has missing labels (NaN or infinite); leave those rows out")
            if not np.equal(labels, np.floor(labels)).all():
                raise InvalidInputError("y must hold classes, but it has fractions; is it a regression target?")
            labels = labels.astype(np.int64)
        if not np.isfinite(features).all():
            row, column = np.argwhere(~np.isfinite(features))[0]
            raise InvalidInputError(f"X[{row}, {column}] is {features[row, column]}; fill in missing values first")
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise InvalidInputError(f"y has only one class, {classes.tolist()}; a bandit needs two or more")
        if order is not None:
            place = {label: i for i, label in enumerate(order)}
            unknown = [c for c in classes.tolist() if c not in place]
            if unknown:
                raise InvalidInputError(f"y holds {unknown[0]!r}, which is not in order={list(order)[:8]}")
            new = np.argsort([place[c] for c in classes.tolist()])
            classes, codes = classes[new], np.argsort(new)[codes]
        plain = [c if isinstance(c, str | int) and not isinstance(c, bool) else str(c) for c in classes.tolist()]
        features = features.copy()
        features.setflags(write=False)
        return cls(name, features, codes.astype(np.int64), tuple(plain), **others)

    @property
    def n_classes(self) -> int:
        """N."""
        return len(self.class_names)

    def __len__(self) -> int:
        return len(self.y)

    def features(self, rows: ArrayLike | None = None, scaling: Scaling = "paper") -> Matrix:
        """The features of some rows (all, if left out) as float64.

        Args:
            rows: row numbers.
            scaling: ``"raw"``, the published values; ``"minmax"``, every column over all rows to [-1, 1], a
                constant column to 0; ``"paper"``, what the paper's experiments use: MNIST divided by 255,
                Letter and Segment ``"minmax"``, all others (and your own data) ``"raw"``.
        """
        if scaling not in ("paper", "raw", "minmax"):
            raise InvalidInputError(f'scaling must be "paper", "raw" or "minmax", got {scaling!r}')
        entry = CATALOGUE.get(self.name)
        chosen = self.X if rows is None else self.X[np.asarray(rows, dtype=np.intp)]
        values = chosen.astype(np.float64)
        if self.scale != 1.0:
            values *= self.scale
        if scaling == "minmax" or (scaling == "paper" and entry is not None and entry.scaling == "minmax"):
            low, high = self.X.min(axis=0) * self.scale, self.X.max(axis=0) * self.scale
            low, high = low.astype(np.float64), high.astype(np.float64)
            span = np.where(high > low, high - low, 1.0)
            return np.asarray(np.where(high > low, 2.0 * (values - low) / span - 1.0, 0.0))
        if scaling == "paper" and entry is not None and entry.factor != 1.0:
            values *= entry.factor
        return values

    @property
    def paper(self) -> Matrix:
        """All rows as the paper's experiments scale them."""
        return self.features()

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {len(self)} rows, {self.X.shape[1]} features, {self.n_classes} classes)"


def names() -> list[str]:
    """The data sets that `load` knows.

    >>> names()
    ['digits', 'letter', 'mnist', 'optdigits', 'pendigits', 'segment', 'usps']
    """
    return sorted(CATALOGUE)


def load(name: str, *, download: bool = True) -> Dataset:
    """A data set of the paper: from ``KINBANDITS_DATA``, the cache, or (unless forbidden) OpenML."""
    entry = _entry(name)
    path = find(name)
    if path is not None:
        return _read(entry, path)
    if name == "digits":
        bundled = _bundled_digits()
        if bundled is not None:
            return bundled
    if not download:
        raise DatasetError(_ways(entry, "it is not on this machine, and download is off"))
    return _read(entry, fetch(name))


def find(name: str) -> Path | None:
    """Where the file of a data set is on this machine, if it is: ``KINBANDITS_DATA`` first, then the cache."""
    entry = _entry(name)
    for directory in _directories():
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


def fetch(name: str, *, again: bool = False) -> Path:
    """Make sure that a data set is on this machine, downloading it if need be, and say where.

    Args:
        name: which.
        again: download even if the cache has it.
    """
    entry = _entry(name)
    path = find(name)
    if path is not None and not again:
        _read(entry, path)
        return path
    if name == "digits":
        dataset = _bundled_digits()
        if dataset is None:
            raise DatasetError(_ways(entry, "scikit-learn, which carries it, is not installed"))
    else:
        dataset = _download(entry)
    target = cache_directory() / f"{entry.name}.npz"
    _write(dataset, target)
    return target


def _entry(name: str) -> Entry:
    if name not in CATALOGUE:
        raise DatasetError(f"there is no data set {name!r}; there are {', '.join(names())}")
    return CATALOGUE[name]


def _directories() -> list[Path]:
    given = os.environ.get(VARIABLE)
    return ([Path(given).expanduser()] if given else []) + [cache_directory()]


def _read(entry: Entry, path: Path) -> Dataset:
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
        raise DatasetError(f"{path} is damaged and is not used ({error}). {_cure(entry, path)}") from error
    _check(entry, dataset, str(path), _cure(entry, path))
    for array in (dataset.X, dataset.y):
        array.setflags(write=False)
    return dataset


def _check(entry: Entry, dataset: Dataset, source: str, cure: str) -> None:
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


def _cure(entry: Entry, path: Path) -> str:
    return f"Remove it and run: kinbandits data fetch {entry.name}"


def _ways(entry: Entry, reason: str) -> str:
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


def _bundled_digits() -> Dataset | None:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return None
    X, y = load_digits(return_X_y=True)
    classes = tuple(str(c) for c in range(10))
    dataset = Dataset("digits", X.astype(np.uint8), y.astype(np.int64), classes)
    _check(CATALOGUE["digits"], dataset, "scikit-learn's load_digits()", "Reinstall scikit-learn")
    for array in (dataset.X, dataset.y):
        array.setflags(write=False)
    return dataset


def _download(entry: Entry) -> Dataset:
    try:
        from sklearn.datasets import fetch_openml
    except ImportError as error:
        raise MissingPackageError(_ways(entry, "scikit-learn is not installed")) from error
    try:
        bunch = fetch_openml(data_id=entry.openml, as_frame=False, parser="liac-arff")
    except Exception as error:  # whatever the network or OpenML can raise
        raise DatasetError(_ways(entry, f"the download failed ({type(error).__name__}: {error})")) from error
    dataset = _from_openml(entry, np.asarray(bunch.data), np.asarray(bunch.target), list(bunch.feature_names))
    _check(entry, dataset, f"OpenML data set {entry.openml}", "Report this, and use a copy in the meantime")
    return dataset


_SEGMENT = ("brickface", "sky", "foliage", "cement", "window", "path", "grass")


def _from_openml(entry: Entry, X: NDArray[Any], target: NDArray[Any], features: list[str]) -> Dataset:
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


def _write(dataset: Dataset, path: Path) -> None:
    """Beside its place first, so that a crash or a full disk leaves no half file behind."""
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
    save: Callable[..., None] = np.savez_compressed
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as stream:
            save(stream, **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        Path(partial).replace(path)
    finally:
        Path(partial).unlink(missing_ok=True)
