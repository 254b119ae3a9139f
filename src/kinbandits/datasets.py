"""The multi-class data sets of the paper: found on disk, in the cache, or downloaded; and `Dataset`, for yours.

    load("letter")

looks in the directory that the environment variable ``KINBANDITS_DATA`` names, then in the user's cache
(``$XDG_CACHE_HOME/kinbandits`` or ``~/.cache/kinbandits``), then asks OpenML through scikit-learn and keeps
what it got in the cache. Whatever the source, rows, columns and classes are counted, and a file that is
damaged or does not fit is refused, never used. Digits comes with scikit-learn and needs no download.

A file NAME.npz holds ``X`` (n, d), ``y`` (n,) in 0..N-1 and optionally ``scale``, which X is multiplied by.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import as_float64
from kinbandits._files import replacing, write_arrays
from kinbandits._types import Matrix
from kinbandits._value import Value, one_of
from kinbandits.errors import DatasetError, InvalidInputError, package

__all__ = ["CATALOGUE", "Dataset", "Entry", "Scaling", "cache_directory", "fetch", "load", "where"]

Scaling = Literal["paper", "raw", "minmax"]
_DIGITS = tuple("0123456789")
_SEGMENT = ("brickface", "sky", "foliage", "cement", "window", "path", "grass")
_LETTERS = (789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792,
            783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """What is known about a data set before it is read."""

    class_counts: tuple[int, ...]  # rows of each class
    features: int
    openml: int | None  # the number of the data set at OpenML; None: it comes with scikit-learn
    horizon: int  # T of the paper's experiments
    range: tuple[float, float]  # of the published values
    note: str  # what it is, in a few words
    minmax: bool = False  # whether the paper's experiments scale columns to [-1, 1]
    factor: float = 1.0  # what they multiply values by
    class_names: tuple[str, ...] = _DIGITS

    @property
    def rows(self) -> int:
        return sum(self.class_counts)


CATALOGUE: dict[str, Entry] = {
    "digits": Entry(
        (178, 182, 177, 183, 181, 182, 181, 179, 174, 180), 64, None, 1250, (0, 16),
        "handwritten digits, 8 x 8 (the test part of optdigits)",
    ),
    "letter": Entry(
        _LETTERS, 16, 6, 4000, (0, 15), "printed capital letters, 16 statistics of the image",
        minmax=True, class_names=tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    ),
    "mnist": Entry(
        (6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958), 784, 554, 4000, (0, 255),
        "handwritten digits, 28 x 28", factor=1.0 / 255.0,
    ),
    "pendigits": Entry(
        (1143, 1143, 1144, 1055, 1144, 1055, 1056, 1142, 1055, 1055), 16, 32, 4000, (0, 100),
        "handwritten digits, eight points along the pen's way",
    ),
    "segment": Entry(
        (330,) * 7, 19, 36, 1000, (-50, 1387), "3 x 3 patches of outdoor images", minmax=True, class_names=_SEGMENT
    ),
    "usps": Entry(
        (1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821), 256, 41082, 4000, (-1, 1),
        "handwritten digits of US zip codes, 16 x 16",
    ),
}  # fmt: skip
"""The data sets that `load` knows, by name."""


class Dataset(Value):
    """Labelled rows: ``X`` (n, d), ``y`` (n,) in 0..N-1, and class names. `Dataset.of` makes one of your arrays.

    ``published`` says that these are the rows of the paper's data set of this name, which `load` alone can say.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[np.int64]
    class_names: tuple[str | int, ...]
    published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.X.setflags(write=False)
        self.y.setflags(write=False)

    @classmethod
    def of(cls, X: ArrayLike, y: ArrayLike, name: str = "data", order: Sequence[Any] | None = None) -> Dataset:
        """A data set from features and labels of any kind; classes are the different labels, sorted or in ``order``.

        >>> Dataset.of([[0.0], [1.0], [2.0]], ["no", "yes", "no"]).class_names
        ('no', 'yes')
        """
        features, given = as_float64("X", X), list(np.asarray(y, dtype=object))
        if features.ndim != 2 or not features.size:
            raise InvalidInputError(f"X must be 2-D (rows, features) and not empty, got shape {features.shape}")
        if len(given) != len(features) or np.ndim(y) != 1:
            raise InvalidInputError(f"y must have one label per row: {len(features)} rows, shape {np.shape(y)}")
        labels = [_label(i, v) for i, v in enumerate(given)]
        classes = sorted(set(labels), key=lambda c: (isinstance(c, str), c))
        if len(classes) < 2:
            raise InvalidInputError(f"y has only one class, {classes}; a bandit needs two or more")
        if order is not None:
            named = [_label(i, c) for i, c in enumerate(order)]
            unknown = [c for c in classes if c not in named]
            if unknown:
                raise InvalidInputError(f"y holds {unknown[0]!r}, which is not in order={named[:8]}")
            classes = [c for c in named if c in classes]
        code = {c: i for i, c in enumerate(classes)}
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
        entry = CATALOGUE[self.name] if self.published and scaling == "paper" else None
        values = (self.X if rows is None else self.X[np.asarray(rows, dtype=np.intp)]).astype(np.float64)
        if scaling == "minmax" or (entry is not None and entry.minmax):
            low, high = (end.astype(np.float64) for end in (self.X.min(axis=0), self.X.max(axis=0)))
            span = np.where(high > low, high - low, 1.0)
            return np.asarray(np.where(high > low, 2.0 * (values - low) / span - 1.0, 0.0))
        return values if entry is None else values * entry.factor

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


def load(name: str, *, download: bool = True) -> Dataset:
    """A data set of the paper: from ``KINBANDITS_DATA``, the cache, or (unless forbidden) OpenML.

    >>> load("digits")
    Dataset('digits', 1797 rows, 64 features, 10 classes)
    """
    path = _find(name)
    if path is None and where(name) is not None:
        return _bundled(name)
    if path is None and not download:
        raise DatasetError(_ways_to_have(name, "it is not on this machine, and download is off"))
    return _read(name, path or fetch(name))


def fetch(name: str) -> Path:
    """Have a data set on this machine, downloaded if need be, and say where."""
    path = _find(name)
    if path is not None:
        _read(name, path)
        return path
    dataset = _bundled(name) if CATALOGUE[name].openml is None else _download(name)
    path = cache_directory() / f"{name}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part, part.open("wb") as stream:
        write_arrays(stream, {"X": dataset.X, "y": dataset.y}, compressed=True)
    return path


def where(name: str) -> str | None:
    """Where a data set is on this machine, in words; None if it is not here."""
    path = _find(name)
    if path is not None:
        return str(path)
    bundled = CATALOGUE[name].openml is None and importlib.util.find_spec("sklearn") is not None
    return "with scikit-learn" if bundled else None


def cache_directory() -> Path:
    """Where downloads are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kinbandits"


def _find(name: str) -> Path | None:
    """The file of a data set, if it is on this machine: ``KINBANDITS_DATA`` first, then the cache."""
    if name not in CATALOGUE:
        raise DatasetError(f"there is no data set {name!r}; there are {', '.join(CATALOGUE)}")
    own = os.environ.get("KINBANDITS_DATA")
    folders = [*([Path(own).expanduser()] if own else []), cache_directory()]
    return next((path for folder in folders if (path := folder / f"{name}.npz").is_file()), None)


def _ways_to_have(name: str, reason: str) -> str:
    """The text of an error: why a data set is not here, and three ways to have it."""
    openml = CATALOGUE[name].openml
    third = "install scikit-learn, which carries it: pip install 'kinbandits[experiments]'"
    if openml is not None:
        third = f"with a network: kinbandits data {name} (OpenML data set {openml}; needs "
        third += "pip install 'kinbandits[experiments]')"
    return (
        f"cannot load the {name} data set: {reason}. Three ways to have it: 1. set KINBANDITS_DATA to a directory "
        f"that holds {name}.npz; 2. put {name}.npz into the cache, {cache_directory()}; 3. {third}"
    )


def _read(name: str, path: Path) -> Dataset:
    """The data set in a file."""
    cure = f"Remove it and run: kinbandits data {name}"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            X, y = file["X"], file["y"].astype(np.int64)
            X = X * float(file["scale"]) if "scale" in file else X
    except Exception as error:  # zipfile, zlib, numpy and KeyError have no common ancestor
        raise DatasetError(f"{path} is damaged and is not used ({error}). {cure}") from error
    return _checked(Dataset(name, X, y, CATALOGUE[name].class_names, published=True), str(path), cure)


def _checked(dataset: Dataset, source: str, cure: str) -> Dataset:
    """The data set, refused if it is another one than it is called."""
    X, y, entry = dataset.X, dataset.y, CATALOGUE[dataset.name]
    if X.shape != (entry.rows, entry.features):
        problem = f"X has shape {X.shape}, not {(entry.rows, entry.features)}"
    elif y.shape != (entry.rows,) or y.min() < 0 or tuple(np.bincount(y).tolist()) != entry.class_counts:
        problem = f"rows per class are not {list(entry.class_counts)}"
    elif not np.isfinite(X).all():
        problem = "X holds NaN or infinity"
    elif X.min() < entry.range[0] - 1e-6 or X.max() > entry.range[1] + 1e-6:
        problem = f"values are outside {entry.range}"
    else:
        return dataset
    raise DatasetError(f"{source} is not the {dataset.name} data set and is not used: {problem}. {cure}")


def _bundled(name: str) -> Dataset:
    """A data set that comes with scikit-learn: Digits."""
    X, y = package("sklearn.datasets", f"{name} needs", "'kinbandits[experiments]'").load_digits(return_X_y=True)
    dataset = Dataset(name, X.astype(np.uint8), y.astype(np.int64), _DIGITS, published=True)
    return _checked(dataset, "scikit-learn's load_digits()", "Reinstall scikit-learn")


def _download(name: str) -> Dataset:
    """A data set from OpenML, its labels as 0..N-1 and its values in the smallest type that holds them."""
    entry = CATALOGUE[name]
    sklearn = package("sklearn.datasets", f"downloading {name} needs", "'kinbandits[experiments]'")
    try:
        bunch = sklearn.fetch_openml(data_id=entry.openml, as_frame=False, parser="liac-arff")
    except Exception as error:  # whatever the network or OpenML can raise
        raise DatasetError(_ways_to_have(name, f"the download failed ({type(error).__name__}: {error})")) from error
    published = [str(i) for i in range(1, 11)] if name == "usps" else entry.class_names
    code = {label: i for i, label in enumerate(published)}
    unknown = next((label for label in bunch.target if str(label) not in code), None)
    if unknown is not None:
        raise DatasetError(f"OpenML data set {entry.openml} has an unexpected label {unknown!r}; it is not used")
    y = np.array([code[str(label)] for label in bunch.target], dtype=np.int64)
    X = np.asarray(bunch.data, dtype=np.float64)
    whole = bool(np.equal(X, np.floor(X)).all()) and X.min() >= 0 and X.max() <= 255
    dataset = Dataset(name, X.astype(np.uint8 if whole else np.float32), y, entry.class_names, published=True)
    return _checked(dataset, f"OpenML data set {entry.openml}", "Report this, and use a copy in the meantime")
