"""Tables of any library (through narwhals) and CSV or Parquet files, as arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits.datasets import Dataset
from kinbandits.errors import DatasetError, InvalidInputError, MissingPackageError

__all__ = ["column", "from_frame", "is_table", "numbers", "read_labelled", "read_table"]

_SUFFIXES = (".csv", ".parquet")
_BACKENDS = ("polars", "pandas", "pyarrow")


def is_table(path: str) -> bool:
    """Whether this names a file that `read_table` reads."""
    return Path(path).suffix.lower() in _SUFFIXES


def read_table(path: str) -> Any:
    """A CSV or Parquet file as a narwhals table, read by polars, pandas or pyarrow, whichever is there."""
    nw = _narwhals()
    file = Path(path).expanduser()
    if not file.is_file():
        raise DatasetError(f"there is no file {path}")
    backend = next((name for name in _BACKENDS if importlib.util.find_spec(name)), None)
    if backend is None:
        raise MissingPackageError(f"reading {path} needs polars, pandas or pyarrow; try: pip install polars")
    read = nw.read_parquet if file.suffix.lower() == ".parquet" else nw.read_csv
    try:
        return read(str(file), backend=backend)
    except Exception as error:  # every library has its own
        raise DatasetError(f"cannot read {path} ({type(error).__name__}: {error})") from error


def read_labelled(path: str, target: str | None) -> Dataset:
    """A file of rows with labels as a data set."""
    if target is None:
        raise InvalidInputError(f"target is missing: say which column of {path} holds the labels")
    return from_frame(read_table(path), target, Path(path).stem)


def from_frame(frame: Any, target: str, name: str) -> Dataset:
    """A table of rows with labels as a data set."""
    table = _narwhals().from_native(frame, eager_only=True, pass_through=False)
    labels = column(table, "target", target)
    features = [c for c in table.columns if c != target]
    return Dataset.of(numbers(table, features), labels, name, feature_names=tuple(features))


def column(table: Any, argument: str, name: str) -> NDArray[Any]:
    """One column, of any type, without missing values."""
    if name not in table.columns:
        raise InvalidInputError(f"{argument} is {name!r}, but the columns are {', '.join(table.columns)}")
    series = table[name]
    if series.null_count():
        raise InvalidInputError(f"column {name!r} has {series.null_count()} missing values; leave those rows out")
    return np.array(series.to_list())


def numbers(table: Any, columns: Sequence[str]) -> NDArray[np.float64]:
    """Columns of numbers, side by side."""
    if not columns:
        raise InvalidInputError("there are no feature columns")
    arrays = []
    for name in columns:
        values = column(table, "a feature column", name)
        if values.dtype.kind not in "buif":
            raise InvalidInputError(
                f"column {name!r} holds {table[name].dtype}, not numbers; encode it (one column per category) or "
                "leave it out"
            )
        arrays.append(values.astype(np.float64))
    return np.stack(arrays, axis=1)


def _narwhals() -> Any:
    try:
        import narwhals.stable.v1 as narwhals
    except ImportError as error:
        raise MissingPackageError("tables need narwhals; try: pip install 'kinbandits[experiments]'") from error
    return narwhals
