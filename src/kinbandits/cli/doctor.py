"""``kinbandits doctor``: is everything in order on this machine?"""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

import typer

from kinbandits.cli.output import print_json, print_table

OPTIONAL = {
    "scikit-learn": "experiments",
    "narwhals": "experiments",
    "matplotlib": "plot",
    "jinja2": "plot",
    "fastapi": "serve",
    "uvicorn": "serve",
    "psycopg": "postgres",
    "distributed": "dask",
    "ray": "ray",
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


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Look at Python, BLAS and its threads, SQLite, the disk, data sets and optional packages.

    Ends with 1 if something is wrong.

    \b
    Examples:
      kinbandits doctor
      kinbandits doctor --json > machine.json
    """
    findings = examine()
    if as_json:
        print_json([asdict(f) for f in findings])
    else:
        rows = [[f.what, f.value, f.verdict, f.advice] for f in findings]
        print_table("kinbandits doctor", ["what", "found", "verdict", "advice"], rows)
    if any(f.verdict == "problem" for f in findings):
        raise typer.Exit(1)


def examine() -> list[Finding]:
    """All findings."""
    return [_python(), _ours(), _core(), *_blas(), _cores(), _sqlite(), *_disks(), _data(), *_packages()]


def _python() -> Finding:
    return Finding("Python", f"{platform.python_version()} on {platform.platform()}")


def _ours() -> Finding:
    import numpy
    import scipy

    from kinbandits._version import __version__

    return Finding("kinbandits", f"{__version__} with NumPy {numpy.__version__}, SciPy {scipy.__version__}")


def _core() -> Finding:
    from kinbandits._compiled import STATE

    advice = "" if STATE == "in use" else "the same arms, but slower; install again where there is a C compiler"
    return Finding("compiled core", STATE, "note" if advice else "ok", advice)


def _blas() -> list[Finding]:
    import numpy.linalg  # noqa: F401 (so that their libraries are loaded)
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    findings = []
    for library in threadpool_info():
        n = library["num_threads"]
        name = f"{library['internal_api']} {library['version']}"
        value = f"{name}, {n} thread{'s' if n != 1 else ''}"
        note = "set OPENBLAS_NUM_THREADS=1 where the last bits of a result must not depend on the machine"
        findings.append(Finding("BLAS", value, "note" if n > 1 else "ok", note if n > 1 else ""))
    return findings or [Finding("BLAS", "none found", "note", "linear algebra may be slow")]


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding("cores", str(usable))


def _sqlite() -> Finding:
    import sqlite3

    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < (3, 7, 0):
        return Finding("SQLite", version, "problem", "no WAL before 3.7.0; use a newer Python")
    if sqlite3.sqlite_version_info < _WAL_FIXED:
        return Finding(
            "SQLite",
            version,
            "note",
            "WAL is safe with one writer, which is all that kinbandits opens; several writers could damage a "
            "database before 3.51.3",
        )
    return Finding("SQLite", f"{version}, WAL safe")


def _disks() -> list[Finding]:
    from kinbandits.datasets import cache_directory

    findings = []
    for what, path in (("disk here", Path.cwd()), ("disk of the cache", cache_directory())):
        place = next(p for p in (path, *path.parents) if p.exists())
        free = shutil.disk_usage(place).free / 1e9
        low = free < 1.0
        advice = "less than 1 GB is free" if low else ""
        findings.append(Finding(what, f"{free:.1f} GB free at {place}", "problem" if low else "ok", advice))
    return findings


def _data() -> Finding:
    from kinbandits import datasets

    places = {name: datasets.where(name) for name in datasets.names()}
    here = [f"{n} (with scikit-learn)" if p == "with scikit-learn" else n for n, p in places.items() if p]
    missing = [name for name, place in places.items() if place is None]
    value = ", ".join(here) or "none"
    advice = f"for {', '.join(missing)}: kinbandits data fetch" if missing else ""
    return Finding("data sets", value, "note" if missing else "ok", advice)


def _packages() -> list[Finding]:
    findings = []
    for package, extra in OPTIONAL.items():
        try:
            findings.append(Finding(package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            name = f"'kinbandits[{extra}]'" if extra else package
            findings.append(Finding(package, "not installed", "note", f"optional; pip install {name}"))
    return findings
