"""The multi-class data sets of the paper: found on disk, in the cache, or downloaded; and `Dataset`, for yours.

    load("letter")

looks in the directory that the environment variable ``KINBANDITS_DATA`` names, then in the user's cache
(``$XDG_CACHE_HOME/kinbandits`` or ``~/.cache/kinbandits``), then asks OpenML through scikit-learn and keeps
what it got in the cache. Whatever the source, rows, columns and classes are counted, and a file that is
damaged or does not fit is refused, never used. Digits comes with scikit-learn and needs no download.

A file NAME.npz holds ``X`` (n, d), ``y`` (n,) in 0..N-1 and ``class_names``; optionally ``scale``: the published
values are X * scale.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._files import replacing
from kinbandits._types import Matrix
from kinbandits._value import Value, one_of
from kinbandits.errors import DatasetError, InvalidInputError, MissingPackageError

__all__ = ["CATALOGUE", "Dataset", "Entry", "Scaling", "cache_directory", "fetch", "find", "load", "names", "where"]

VARIABLE = "KINBANDITS_DATA"
Scaling = Literal["paper", "raw", "minmax"]


@dataclass(frozen=True)
class Entry:
    """What is known about a data set before it is read."""

    name: str  # as in `load`
    rows: int  # and features, and classes: what any copy must have
    features: int
    classes: int
    class_counts: tuple[int, ...]  # rows of each class
    openml: int | None  # the number of the data set at OpenML
    scaling: Literal["raw", "minmax"]  # how the paper's experiments scale the features (`Dataset.features`)
    factor: float
    horizon: int  # T of the paper's experiments
    range: tuple[float, float]  # of the published values
    note: str  # what it is, in a few words


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


class Dataset(Value):
    """Labelled rows: ``X`` (n, d), ``y`` (n,) in 0..N-1, and class names. `Dataset.of` makes one of your arrays.

    ``published`` says that these are the rows of the paper's data set of this name, which `load` alone can say.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[np.int64]
    class_names: tuple[str | int, ...]
    scale: float = 1.0
    published: bool = False

    @classmethod
    def of(cls, X: ArrayLike, y: ArrayLike, name: str = "data", order: Sequence[Any] | None = None) -> Dataset:
        """A data set from features and labels of any kind; classes are the different labels,
        sorted or in ``order``.

        >>> Dataset.of([[0.0], [1.0], [2.0]], ["no", "yes", "no"]).class_names
        ('no', 'yes')
        """
        features, given = np.asarray(X), list(np.asarray(y, dtype=object))
        if features.ndim != 2 or not features.size:
            raise InvalidInputError(f"X must be 2-D (rows, features) and not empty, got shape {features.shape}")
        if len(given) != len(features) or np.ndim(y) != 1:
            raise InvalidInputError(f"y must have one label per row: {len(features)} rows, shape {np.shape(y)}")
        if features.dtype.kind not in "buif":
            raise InvalidInputError(
                f"X must hold numbers, got {features.dtype}; turn text and categories into numbers first"
            )
        if not np.isfinite(features).all():
            row, column = np.argwhere(~np.isfinite(features))[0]
            raise InvalidInputError(f"X[{row}, {column}] is {features[row, column]}; fill in missing values first")
        labels = [_label(i, v) for i, v in enumerate(given)]
        classes = sorted(set(labels), key=lambda c: (isinstance(c, str), c))
        if len(classes) < 2:
            raise InvalidInputError(f"y has only one class, {classes}; a bandit needs two or more")
        if order is not None:
            unknown = [c for c in classes if c not in order]
            if unknown:
                raise InvalidInputError(f"y holds {unknown[0]!r}, which is not in order={list(order)[:8]}")
            classes = [_label(i, c) for i, c in enumerate(order) if c in classes]
        code = {c: i for i, c in enumerate(classes)}
        features = features.copy()
        features.setflags(write=False)
        return cls(name, features, np.array([code[c] for c in labels], dtype=np.int64), tuple(classes))

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    def __len__(self) -> int:
        return len(self.y)

    def features(self, rows: ArrayLike | None = None, scaling: Scaling = "paper") -> Matrix:
        """The features of some rows (all, if left out) as float64.

        ``scaling`` is ``"raw"``, as published; ``"minmax"``, columns over all rows to [-1, 1], constant ones to 0;
        or ``"paper"``: MNIST divided by 255, Letter and Segment ``"minmax"``, all others (and yours) ``"raw"``.
        """
        one_of("scaling", scaling, "paper", "raw", "minmax")
        entry = CATALOGUE[self.name] if self.published else None
        values = (self.X if rows is None else self.X[np.asarray(rows, dtype=np.intp)]).astype(np.float64)
        values *= self.scale
        if scaling == "minmax" or (scaling == "paper" and entry is not None and entry.scaling == "minmax"):
            low, high = ((end * self.scale).astype(np.float64) for end in (self.X.min(axis=0), self.X.max(axis=0)))
            span = np.where(high > low, high - low, 1.0)
            return np.asarray(np.where(high > low, 2.0 * (values - low) / span - 1.0, 0.0))
        return values * entry.factor if scaling == "paper" and entry is not None else values

    @property
    def paper(self) -> Matrix:
        """All rows as the paper's experiments scale them."""
        return self.features()

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {len(self)} rows, {self.X.shape[1]} features, {self.n_classes} classes)"


def _label(row: int, value: Any) -> str | int:
    """A label as text or a whole number."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or plain != plain:
        raise InvalidInputError(f"y[{row}] is missing ({plain!r}); leave that row out")
    if isinstance(plain, float):
        if not plain.is_integer():
            raise InvalidInputError(f"y must hold classes, but y[{row}] is {plain!r}; is it a regression target?")
        return int(plain)
    return plain if isinstance(plain, str | int) and not isinstance(plain, bool) else str(plain)


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
        raise DatasetError(_ways_to_have(entry, "it is not on this machine, and download is off"))
    return _read(entry, fetch(name))


def fetch(name: str, *, again: bool = False) -> Path:
    """Have a data set on this machine, downloaded if need be (or ``again``), and say where."""
    entry = _entry(name)
    path = find(name)
    if path is not None and not again:
        _read(entry, path)
        return path
    if name == "digits":
        dataset = _bundled_digits()
        if dataset is None:
            raise DatasetError(_ways_to_have(entry, "scikit-learn, which carries it, is not installed"))
    else:
        dataset = _from_openml(entry)
    target = cache_directory() / f"{entry.name}.npz"
    _write(dataset, target)
    return target


def where(name: str) -> str | None:
    """Where a data set is on this machine, in words; None if it is not here."""
    path = find(name)
    if path is not None:
        return str(path)
    bundled = _entry(name).openml is None and importlib.util.find_spec("sklearn") is not None
    return "with scikit-learn" if bundled else None


def _entry(name: str) -> Entry:
    """What is known about a data set."""
    if name not in CATALOGUE:
        raise DatasetError(f"there is no data set {name!r}; there are {', '.join(sorted(CATALOGUE))}")
    return CATALOGUE[name]


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


def _directories() -> list[Path]:
    """Where files are looked for: ``KINBANDITS_DATA`` first, then the cache."""
    given = os.environ.get(VARIABLE)
    return ([Path(given).expanduser()] if given else []) + [cache_directory()]


def _ways_to_have(entry: Entry, reason: str) -> str:
    """The text of an error: why a data set is not here, and three ways to have it."""
    ways = [
        f"1. set {VARIABLE} to a directory that holds {entry.name}.npz",
        f"2. put {entry.name}.npz into the cache, {cache_directory()}",
    ]
    if entry.openml is None:
        ways.append("3. install scikit-learn, which carries it: pip install 'kinbandits[experiments]'")
    else:
        ways.append(
            f"3. with a network: kinbandits data {entry.name} (OpenML data set {entry.openml}; needs "
            "pip install 'kinbandits[experiments]')"
        )
    return f"cannot load the {entry.name} data set: {reason}. Three ways to have it: " + "; ".join(ways)


def _read(entry: Entry, path: Path) -> Dataset:
    """The data set in a file."""
    cure = f"Remove it and run: kinbandits data {entry.name}"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = dict(file)
        dataset = Dataset(
            entry.name,
            arrays["X"],
            arrays["y"].astype(np.int64),
            tuple(str(c) for c in arrays["class_names"]),
            float(arrays.get("scale", 1.0)),
            published=True,
        )
    except Exception as error:  # zipfile, zlib, numpy and KeyError have no common ancestor
        raise DatasetError(f"{path} is damaged and is not used ({error}). {cure}") from error
    _check(entry, dataset, str(path), cure)
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


def _write(dataset: Dataset, path: Path) -> None:
    """Write the file that `read` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {
        "X": dataset.X,
        "y": dataset.y,
        "class_names": np.array([str(c) for c in dataset.class_names]),
    }
    if dataset.scale != 1.0:
        arrays["scale"] = np.float64(dataset.scale)
    with replacing(path) as part, part.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def _bundled_digits() -> Dataset | None:
    """Digits, if scikit-learn is installed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return None
    X, y = load_digits(return_X_y=True)
    classes = tuple(str(c) for c in range(10))
    dataset = Dataset("digits", X.astype(np.uint8), y.astype(np.int64), classes, published=True)
    _check(CATALOGUE["digits"], dataset, "scikit-learn's load_digits()", "Reinstall scikit-learn")
    for array in (dataset.X, dataset.y):
        array.setflags(write=False)
    return dataset


def _from_openml(entry: Entry) -> Dataset:
    """Download it."""
    try:
        from sklearn.datasets import fetch_openml
    except ImportError as error:
        raise MissingPackageError(_ways_to_have(entry, "scikit-learn is not installed")) from error
    try:
        bunch = fetch_openml(data_id=entry.openml, as_frame=False, parser="liac-arff")
    except Exception as error:  # whatever the network or OpenML can raise
        raise DatasetError(_ways_to_have(entry, f"the download failed ({type(error).__name__}: {error})")) from error
    dataset = _coded(entry, np.asarray(bunch.data), np.asarray(bunch.target))
    _check(entry, dataset, f"OpenML data set {entry.openml}", "Report this, and use a copy in the meantime")
    return dataset


_SEGMENT = ("brickface", "sky", "foliage", "cement", "window", "path", "grass")


def _coded(entry: Entry, X: NDArray[Any], target: NDArray[Any]) -> Dataset:
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
    return Dataset(entry.name, values.astype(kind), y, classes, published=True)
