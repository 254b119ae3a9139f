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

import importlib.util
from pathlib import Path

from kinbandits.datasets import files
from kinbandits.datasets.binding import Peptides, peptides
from kinbandits.datasets.catalogue import CATALOGUE, Entry
from kinbandits.datasets.dataset import Dataset, Scaling
from kinbandits.datasets.files import cache_directory, entry_of, find, read, ways_to_have, write
from kinbandits.errors import DatasetError

__all__ = [
    "CATALOGUE", "Dataset", "Entry", "Peptides", "Scaling", "cache_directory", "fetch", "find", "load", "names",
    "peptides", "where",
]  # fmt: skip


def names() -> list[str]:
    """The data sets that `load` knows.

    >>> names()
    ['digits', 'letter', 'mnist', 'optdigits', 'pendigits', 'segment', 'usps']
    """
    return sorted(CATALOGUE)


def load(name: str, *, download: bool = True) -> Dataset:
    """A data set of the paper: from ``KINBANDITS_DATA``, the cache, or (unless forbidden) OpenML."""
    entry = entry_of(name)
    path = find(name)
    if path is not None:
        return read(entry, path)
    if name == "digits":
        bundled = files.bundled_digits()
        if bundled is not None:
            return bundled
    if not download:
        raise DatasetError(ways_to_have(entry, "it is not on this machine, and download is off"))
    return read(entry, fetch(name))


def fetch(name: str, *, again: bool = False) -> Path:
    """Have a data set on this machine, downloaded if need be (or ``again``), and say where."""
    entry = entry_of(name)
    path = find(name)
    if path is not None and not again:
        read(entry, path)
        return path
    if name == "digits":
        dataset = files.bundled_digits()
        if dataset is None:
            raise DatasetError(ways_to_have(entry, "scikit-learn, which carries it, is not installed"))
    else:
        dataset = files.from_openml(entry)
    target = cache_directory() / f"{entry.name}.npz"
    write(dataset, target)
    return target


def where(name: str) -> str | None:
    """Where a data set is on this machine, in words; None if it is not here."""
    path = find(name)
    if path is not None:
        return str(path)
    bundled = entry_of(name).openml is None and importlib.util.find_spec("sklearn") is not None
    return "with scikit-learn" if bundled else None
