"""``kinbandits doctor``: is everything in order on this machine?"""

from __future__ import annotations

import platform
import shutil
import sqlite3
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import typer

from kinbandits._html import text_table
from kinbandits.cli.output import Json, print_json

OPTIONAL = {
    "'kinbandits[experiments]'": ("scikit-learn", "narwhals"),
    "'kinbandits[plot]'": ("matplotlib", "jinja2"),
    "'kinbandits[serve]'": ("fastapi", "uvicorn"),
    "'kinbandits[postgres]'": ("psycopg",),
    "'kinbandits[dask]'": ("distributed",),
    "pandas polars pyarrow": ("pandas", "polars", "pyarrow"),
}
"""What to install for packages that are not required."""


class Finding(NamedTuple):
    """One thing looked at, and what could be done about it."""

    what: str
    found: str
    advice: str = ""
    problem: bool = False


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(as_json: Json = False) -> None:
    """Check this machine.

    Python, BLAS and its threads, SQLite, the disk, data sets and optional packages. Exits with status 1 if
    something is wrong.

    \b
    Examples:
      kinbandits doctor
      kinbandits doctor --json > machine.json
    """
    findings = list(examine())
    if as_json:
        print_json([f._asdict() for f in findings])
    else:
        print(text_table("kinbandits doctor", ["what", "found", "advice"], [f[:3] for f in findings]))
    if any(f.problem for f in findings):
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """All findings."""
    import numpy
    import scipy.linalg  # so that its BLAS is loaded
    from joblib import cpu_count
    from threadpoolctl import threadpool_info

    from kinbandits._version import __version__
    from kinbandits.datasets import CATALOGUE, cache_directory, where

    yield Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Finding("kinbandits", f"{__version__} with NumPy {numpy.__version__}, SciPy {scipy.__version__}")
    note = "set OPENBLAS_NUM_THREADS=1 where the last bits of a result must not depend on the machine"
    for library in threadpool_info():
        value = f"{library['internal_api']} {library['version']}, threads: {library['num_threads']}"
        yield Finding("BLAS", value, note if library["num_threads"] > 1 else "")
    yield Finding("cores", str(cpu_count()))
    yield Finding("SQLite", sqlite3.sqlite_version)
    for what, path in (("disk here", Path.cwd()), ("disk of the cache", cache_directory())):
        place = next(p for p in (path, *path.parents) if p.exists())
        free = shutil.disk_usage(place).free / 1e9
        low = free < 1.0
        yield Finding(what, f"{free:.1f} GB free at {place}", "less than 1 GB; make room" if low else "", low)
    missing = [name for name in CATALOGUE if where(name) is None]
    here = ", ".join(name for name in CATALOGUE if name not in missing) or "none"
    yield Finding("data sets", here, f"to have the others: kinbandits data {' '.join(missing)}" if missing else "")
    for install, packages in OPTIONAL.items():
        for package in packages:
            try:
                yield Finding(package, metadata.version(package))
            except metadata.PackageNotFoundError:
                yield Finding(package, "not installed", f"optional; pip install {install}")
