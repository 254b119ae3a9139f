"""``kinbandits doctor``: is everything in order on this machine?"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import typer

from kinbandits.cli.output import Json, print_json, print_table

OPTIONAL = {
    "scikit-learn": "experiments",
    "narwhals": "experiments",
    "matplotlib": "plot",
    "jinja2": "plot",
    "fastapi": "serve",
    "uvicorn": "serve",
    "psycopg": "postgres",
    "distributed": "dask",
    "pandas": None,
    "polars": None,
    "pyarrow": None,
}
"""Packages that are not required, and the extra that brings each."""

_WAL_FIXED = (3, 51, 3)


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    what: str
    value: str
    verdict: Literal["ok", "note", "problem"] = "ok"
    advice: str = ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(as_json: Json = False) -> None:
    """Look at Python, BLAS and its threads, SQLite, the disk, data sets and optional packages.

    Ends with 1 if something is wrong.

    \b
    Examples:
      kinbandits doctor
      kinbandits doctor --json > machine.json
    """
    findings = list(examine())
    if as_json:
        print_json([asdict(f) for f in findings])
    else:
        rows = [[f.what, f.value, f.verdict, f.advice] for f in findings]
        print_table("kinbandits doctor", ["what", "found", "verdict", "advice"], rows)
    if any(f.verdict == "problem" for f in findings):
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """All findings."""
    import numpy
    import scipy
    from joblib import cpu_count

    from kinbandits._version import __version__
    from kinbandits.datasets import cache_directory

    yield Finding("Python", f"{platform.python_version()} on {platform.platform()}")
    yield Finding("kinbandits", f"{__version__} with NumPy {numpy.__version__}, SciPy {scipy.__version__}")
    yield from _blas()
    yield Finding("cores", str(cpu_count()))
    yield _sqlite()
    for what, path in (("disk here", Path.cwd()), ("disk of the cache", cache_directory())):
        place = next(p for p in (path, *path.parents) if p.exists())
        free = shutil.disk_usage(place).free / 1e9
        low = free < 1.0
        advice = "less than 1 GB is free" if low else ""
        yield Finding(what, f"{free:.1f} GB free at {place}", "problem" if low else "ok", advice)
    yield _data()
    yield from _packages()


def _blas() -> Iterator[Finding]:
    import numpy.linalg  # noqa: F401 (so that their libraries are loaded)
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    libraries = threadpool_info()
    if not libraries:
        yield Finding("BLAS", "none found", "note", "linear algebra may be slow")
    note = "set OPENBLAS_NUM_THREADS=1 where the last bits of a result must not depend on the machine"
    for library in libraries:
        n = library["num_threads"]
        value = f"{library['internal_api']} {library['version']}, {n} thread{'s' if n != 1 else ''}"
        yield Finding("BLAS", value, "note" if n > 1 else "ok", note if n > 1 else "")


def _sqlite() -> Finding:
    import sqlite3

    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < (3, 7, 0):
        return Finding("SQLite", version, "problem", "no WAL before 3.7.0; use a newer Python")
    if sqlite3.sqlite_version_info < _WAL_FIXED:
        safe = "WAL is safe with one writer, which is all that kinbandits opens"
        return Finding("SQLite", version, "note", f"{safe}; several could damage a database before 3.51.3")
    return Finding("SQLite", f"{version}, WAL safe")


def _data() -> Finding:
    from kinbandits import datasets

    places = {name: datasets.where(name) for name in datasets.names()}
    here = [f"{n} (with scikit-learn)" if p == "with scikit-learn" else n for n, p in places.items() if p]
    missing = [name for name, place in places.items() if place is None]
    advice = f"to have them: kinbandits data {' '.join(missing)}" if missing else ""
    return Finding("data sets", ", ".join(here) or "none", "note" if missing else "ok", advice)


def _packages() -> Iterator[Finding]:
    for package, extra in OPTIONAL.items():
        try:
            yield Finding(package, metadata.version(package))
        except metadata.PackageNotFoundError:
            name = f"'kinbandits[{extra}]'" if extra else package
            yield Finding(package, "not installed", "note", f"optional; pip install {name}")
