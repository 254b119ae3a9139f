"""Tables of any library (through narwhals, which is imported when one is met), and files, as arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix
from kinbandits.errors import DatasetError, InvalidInputError, MissingPackageError, package

_LIBRARIES = frozenset(("pandas", "polars", "pyarrow", "modin", "cudf", "narwhals", "duckdb"))
_BACKENDS = ("polars", "pandas", "pyarrow")  # that read files
_PLAIN = (np.ndarray, list, tuple, float, int)


def narwhals() -> Any:
    """The package that reads them all."""
    return package("narwhals.stable.v1", "tables need", "'kinbandits[experiments]'")


def as_table(frame: Any) -> Any:
    """A table of any library as a narwhals table."""
    return narwhals().from_native(frame, eager_only=True, pass_through=False)


def is_frame(values: object) -> bool:
    """Whether this is a table of some library."""
    return _from_library(values) and hasattr(values, "columns")


def _from_library(values: object) -> bool:
    return not isinstance(values, _PLAIN) and type(values).__module__.partition(".")[0] in _LIBRARIES


def column_names(values: object) -> list[str] | None:
    """The names of the features, where the contexts say them: a table, a mapping, one row of a pandas table."""
    if isinstance(values, _PLAIN):
        return None
    if isinstance(values, Mapping):
        return [str(name) for name in values]
    if is_frame(values):
        return list(as_table(values).columns)
    index = getattr(values, "index", None) if _from_library(values) else None
    if index is not None and not callable(index) and len(index) and all(isinstance(name, str) for name in index):
        return list(index)
    return None


def ordered(values: Any, names: Sequence[str], found: Sequence[str]) -> Matrix:
    """Contexts that name their columns (``found``) as an array with the columns ``names``: (rows, d), or (d,)."""
    if len(set(found)) < len(found):
        twice = next(n for n in found if list(found).count(n) > 1)
        raise InvalidInputError(f"two columns of the contexts are called {twice!r}")
    missing = [n for n in names if n not in found]
    strange = [n for n in found if n not in names]
    if missing or strange:
        what = f"have no column {missing[0]!r}" if missing else f"have a column {strange[0]!r} that is new"
        raise InvalidInputError(
            f"the contexts {what}; this policy has seen the columns {', '.join(map(str, names[:12]))}"
        )
    if is_frame(values):
        return numbers(as_table(values), names)
    row = {str(name): value for name, value in values.items()}
    for name in names:
        if isinstance(row[name], str | bytes):
            raise InvalidInputError(f"the feature {name!r} is {row[name]!r}, not a number; encode it first")
    return np.array([row[name] for name in names], dtype=np.float64)


def _series(values: Any) -> Any:
    """A column of some library; None if it is none."""
    if not _from_library(values) or is_frame(values):
        return None
    return narwhals().from_native(values, series_only=True, strict=False)


def listed_column(values: Any) -> list[Any] | None:
    """The entries of a column of some library (categories by name), or None if it is none."""
    series = _series(values)
    return list(series.to_list()) if hasattr(series, "to_list") else None


def categories(values: Any) -> list[Any] | None:
    """All categories of a categorical column, in their order; None for any other."""
    series = _series(values)
    if series is None:
        return None
    nw, kind = narwhals(), getattr(series, "dtype", None)
    if kind not in (nw.Categorical, nw.Enum) and not isinstance(kind, nw.Enum):
        return None
    return list(series.cat.get_categories().to_list())


def arm_numbers(names: Sequence[Any], arms: Sequence[Any] | None) -> tuple[list[Any], Indices]:
    """The arms of a log (those played, sorted, if they are not given), and the number of each name."""
    known = sorted(set(names)) if arms is None else list(arms)
    place = {name: i for i, name in enumerate(known)}
    strange = [name for name in names if name not in place]
    if strange:
        raise InvalidInputError(f"the log holds arm {strange[0]!r}, which is not among arms={known[:8]}")
    return known, np.array([place[name] for name in names], dtype=np.intp)


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
        if values.dtype.kind not in "buif":
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
        raise DatasetError(f"cannot read {path} ({type(error).__name__}: {error})") from error
