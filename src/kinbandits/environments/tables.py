"""Tables of any library (through narwhals) and CSV or Parquet files, as arrays."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from kinbandits._frames import categories, column, narwhals, numbers
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
    nw = narwhals()
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
    """A table of rows with labels as a data set; categories keep their order."""
    table = narwhals().from_native(frame, eager_only=True, pass_through=False)
    labels = column(table, "target", target)
    features = [c for c in table.columns if c != target]
    order = categories(table[target])
    return Dataset.of(numbers(table, features), labels, name, order, feature_names=tuple(features))
