"""Tables of any library (through narwhals, which is imported when one is met), and files, as arrays."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Matrix
from kinbandits.errors import DatasetError, InvalidInputError, InvalidTypeError, MissingPackageError, package

_LIBRARIES = frozenset(("pandas", "polars", "pyarrow", "modin", "cudf", "narwhals", "duckdb"))
_BACKENDS = ("polars", "pandas", "pyarrow")  # that read files
_PLAIN = (np.ndarray, list, tuple, float, int)


def narwhals() -> Any:
    """The package that reads them all."""
    return package("narwhals.stable.v1", "tables need", "'kinbandits[experiments]'")


def as_table(frame: Any) -> Any:
    """A table of any library as a narwhals table; columns that are called by numbers, "0", "1" and so on."""
    pandas_like = hasattr(frame, "set_axis")
    labels = [str(name) for name in (frame.columns if pandas_like else getattr(frame, "column_names", frame.columns))]
    _check_names(labels)
    if pandas_like and any(not isinstance(name, str) for name in frame.columns):
        frame = frame.set_axis(labels, axis=1)
    return narwhals().from_native(frame, eager_only=True, pass_through=False)


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        duplicate = max(names, key=list(names).count)
        raise InvalidInputError(f"two columns of the contexts are called {duplicate!r}; names must differ")


def is_frame(values: object) -> bool:
    """Whether this is a table of some library."""
    return _from_library(values) and hasattr(values, "columns")


def _from_library(values: object) -> bool:
    return not isinstance(values, _PLAIN) and type(values).__module__.partition(".")[0] in _LIBRARIES


def column_names(values: object) -> list[str] | None:
    """The names of the features, where the contexts say them: a table, a mapping, one row of a pandas table.

    A row whose index is 0, 1, 2, ... names nothing; one with these in another order was cut from a table of them.
    """
    if isinstance(values, _PLAIN):
        return None
    if isinstance(values, Mapping):
        return [str(name) for name in values]
    if is_frame(values):
        return list(as_table(values).columns)
    index = getattr(values, "index", None) if _from_library(values) else None
    if index is None or callable(index) or not len(index):
        return None
    names = list(index)
    if all(isinstance(name, str) for name in names):
        return names
    numbers = list(range(len(names)))
    return [str(name) for name in names] if names != numbers and set(names) == set(numbers) else None


def ordered(values: Any, names: Sequence[str], found: Sequence[str]) -> Matrix:
    """Contexts that name their columns (``found``) as an array with the columns ``names``: (rows, d), or (d,)."""
    _check_names(found)
    missing = [n for n in names if n not in found]
    unknown = [n for n in found if n not in names]
    if missing or unknown:
        what = f"have no column {missing[0]!r}" if missing else f"have a column {unknown[0]!r} that is new"
        raise InvalidInputError(
            f"the contexts {what}; this policy has seen the columns {', '.join(map(str, names[:12]))}"
        )
    if is_frame(values):
        return numbers(as_table(values), names)
    row = {str(name): value for name, value in values.items()}
    columns = []
    for name in names:
        column = np.asarray(row[name])
        if column.dtype.kind not in "biuf" or column.ndim > 1 or np.ma.is_masked(row[name]):
            raise InvalidInputError(f"the feature {name!r} is {row[name]!r}, not a number; encode it first")
        columns.append(column)
    if len({c.shape for c in columns}) > 1:
        sizes = ", ".join(f"{n!r} has {c.size if c.ndim else 'one'}" for n, c in zip(names, columns, strict=True))
        raise InvalidInputError(f"columns of contexts must have a number for each row, but {sizes}")
    return np.stack(columns, axis=-1).astype(np.float64) if columns else np.empty(0)


def row_names(values: Any) -> list[Any] | None:
    """What the rows are called: the keys of a mapping, the index of a pandas table unless it counts from 0."""
    if isinstance(values, Mapping):
        return list(values)
    index = getattr(values, "index", None) if _from_library(values) else None
    if index is None or callable(index):
        return None
    names = list(index.tolist() if hasattr(index, "tolist") else index)
    return None if names == list(range(len(names))) else names


def _series(values: Any) -> Any:
    """A column of some library; None if it is none."""
    if not _from_library(values) or is_frame(values):
        return None
    if hasattr(values, "to_pylist") and not hasattr(values, "chunks"):  # an array of pyarrow is a column of one piece
        values = sys.modules["pyarrow"].chunked_array([values])
    return narwhals().from_native(values, series_only=True, strict=False)


def listed_column(values: Any) -> list[Any] | None:
    """The entries of a column of some library (categories by name), or None if it is none."""
    series = _series(values)
    return list(series.to_list()) if hasattr(series, "to_list") else None


def list_of(name: str, values: Any) -> list[Any]:
    """A list, array or column as a list of plain Python objects."""
    column = listed_column(values)
    if column is not None:
        return column
    if isinstance(values, set | frozenset):
        raise InvalidTypeError(f"{name} is a set, which has no order; give a list, such as sorted({name})")
    if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
        raise InvalidTypeError(f"{name} must be a list of arm names, got {values!r}")
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InvalidInputError(f"{name} must be one list of arm names, got an array of shape {values.shape}")
    return [plain(v) for v in values]


def plain(value: Any) -> Any:
    """A NumPy scalar as a Python one."""
    return value.item() if isinstance(value, np.generic) else value


def categories(values: Any) -> list[Any] | None:
    """All categories of a categorical column, in their order; None for any other."""
    series = _series(values)
    if series is None:
        return None
    nw, kind = narwhals(), getattr(series, "dtype", None)
    if kind not in (nw.Categorical, nw.Enum) and not isinstance(kind, nw.Enum):
        return None
    return list(series.cat.get_categories().to_list())


def column(table: Any, argument: str, name: str) -> NDArray[Any]:
    """One column, of any type, without missing values."""
    if name not in table.columns:
        raise InvalidInputError(f"{argument} is {name!r}, but the columns are {', '.join(table.columns)}")
    series = table[name]
    if series.null_count():
        raise InvalidInputError(f"column {name!r} has {series.null_count()} missing values; leave those rows out")
    return np.array(series.to_list())


def numbers(table: Any, columns: Sequence[str]) -> Matrix:
    """Columns of numbers, side by side."""
    if not columns:
        raise InvalidInputError("there are no feature columns")
    arrays = []
    for name in columns:
        values = column(table, "a feature column", name)
        if values.dtype.kind not in "buif" or values.ndim > 1:
            raise InvalidInputError(
                f"column {name!r} holds {table[name].dtype}, not numbers; encode it (one column per category) or "
                "leave it out"
            )
        arrays.append(values.astype(np.float64))
    return np.stack(arrays, axis=1)


def is_table(path: str) -> bool:
    """Whether this names a file that `read_table` reads."""
    return Path(path).suffix.lower() in (".csv", ".parquet")


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
        hint = (
            "" if read is nw.read_parquet else ". A CSV file is UTF-8 text with commas between fields, none in numbers"
        )
        raise DatasetError(f"cannot read {path} ({type(error).__name__}: {error}){hint}") from error
