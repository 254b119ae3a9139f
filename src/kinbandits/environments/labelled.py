"""Labelled rows as a bandit: every class is an arm, and an arm pays 1 if the row is of its class, else 0.

Which rows are played, and in which order, is a `Split`; the rest is the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._frames import as_table, categories, column, is_table, numbers, read_table
from kinbandits._types import Indices, Matrix
from kinbandits._value import Natural, Value, one_of
from kinbandits.datasets import CATALOGUE, Dataset, Scaling, load
from kinbandits.environments.base import Round, StartRows, checked_horizon, no_rows, seeded
from kinbandits.errors import DatasetError, InvalidInputError, InvalidTypeError


class Split(NamedTuple):
    """Row numbers: kept out for choosing settings, given before round 1 (row i to arm i), and played."""

    validation: Indices
    start: Indices
    test: Indices


class LabelledRows:
    """Mixed into environments over a data set. Subclasses say which rows are played (`split`)."""

    data: str | Dataset
    target: str | None
    scaling: Scaling

    def split(self) -> Split:
        """Which rows are for validation, for the start and for the game."""
        raise NotImplementedError

    @property
    def dataset(self) -> Dataset:
        return self.data if isinstance(self.data, Dataset) else _loaded(self.data, self.target)

    @property
    def name(self) -> str:
        known = isinstance(self.data, str) and self.data in CATALOGUE
        return str(self.data) if known else self.dataset.name

    @property
    def arms(self) -> list[Any]:
        return list(self.dataset.class_names)

    def start_rows(self) -> StartRows:
        """The start rows with their true rewards: row i to arm i."""
        rows, dataset = self.split().start, self.dataset
        if not len(rows):
            return no_rows()
        rewards = (dataset.y[rows] == np.arange(len(rows))).astype(np.float64)
        return self.arms[: len(rows)], dataset.features(rows, self.scaling), rewards

    def rounds(self) -> Iterator[Round]:
        dataset, rows = self.dataset, self.split().test
        rewards = np.eye(dataset.n_classes)
        for x, label in zip(dataset.features(rows, self.scaling), dataset.y[rows], strict=True):
            yield Round(x, rewards[label])

    def validation(self) -> tuple[Matrix, NDArray[np.int64]]:
        """Features and labels that are never played, for choosing settings."""
        rows = self.split().validation
        return self.dataset.features(rows, self.scaling), self.dataset.y[rows]


class Classification(LabelledRows, Value):
    """Every class is an arm; choosing the class of the row pays 1, any other 0.

    * ``protocol="shuffled"``: all rows, in random order.
    * ``protocol="paper"``: ``validation_per_class`` random rows of each class are kept out (the same for every seed);
      one random row of each class is given before round 1, dealt to the arms at random, with the true reward;
      the others are cut so that classes are exactly balanced, and permuted.

    Args:
        data: name of a data set of the paper, path of a CSV or Parquet file, or a `Dataset`. See also
            `Classification.from_arrays` and `Classification.from_frame`.
        target: for a file, the column of labels; the others are features.
        scaling: of the features; see `kinbandits.datasets.Dataset.features`.
        horizon: default: all rows there are, or the paper's number for its data sets.

    >>> environment = Classification.from_arrays([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"], seed=1)
    >>> [(round.context.tolist(), round.rewards.tolist()) for round in environment.rounds()][:2]
    [([3.0], [0.0, 1.0]), ([1.0], [0.0, 1.0])]
    """

    data: str | Dataset
    target: str | None = None
    protocol: Literal["paper", "shuffled"] = "shuffled"
    scaling: Scaling = "paper"
    horizon: Natural = 0
    validation_per_class: Natural = 50
    seed: Natural = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        data = self.data
        if not isinstance(data, Dataset) and not (isinstance(data, str) and (data in CATALOGUE or is_table(data))):
            raise InvalidTypeError(
                f"data must be a data set ({', '.join(CATALOGUE)}), a .csv or .parquet file, or a Dataset (from_arrays "
                f"and from_frame make one), got {data!r}"
            )
        one_of("protocol", self.protocol, "paper", "shuffled")
        entry = CATALOGUE.get(data) if isinstance(data, str) else None
        counts = np.array(entry.class_counts) if entry else np.bincount(self.dataset.y)  # known ones are not read
        least = int(counts.min()) - self.validation_per_class - 1
        if self.protocol == "paper" and least < 1:
            raise InvalidInputError(
                f"the paper's protocol needs more than {self.validation_per_class + 1} rows of every class "
                f"(validation_per_class and one to start with), but the smallest has {int(counts.min())}; lower "
                'validation_per_class, or use protocol="shuffled"'
            )
        n = least * len(counts) if self.protocol == "paper" else int(counts.sum())
        only = f"there are only {n} rounds in {self.name} by the {self.protocol!r} protocol"
        rounds = checked_horizon(self.horizon, n, f"{only}; ask for fewer, or leave horizon out for all")
        published = entry is not None and self.protocol == "paper" and not self.horizon
        self._set(horizon=min(entry.horizon, n) if entry and published else rounds)

    @classmethod
    def from_arrays(cls, X: ArrayLike, y: ArrayLike, name: str = "data", **options: Any) -> Classification:
        """From features (n, d) and labels (n,) of any kind."""
        return cls(Dataset.of(X, y, name), **options)

    @classmethod
    def from_frame(cls, frame: Any, target: str, name: str = "data", **options: Any) -> Classification:
        """From a pandas, polars or other table; ``target`` is the column of labels, the others are features."""
        return cls(_from_frame(frame, target, name), **options)

    def split(self) -> Split:
        y = self.dataset.y
        (order,) = seeded(self.seed, 1)
        if self.protocol == "shuffled":
            empty = np.empty(0, dtype=np.intp)
            return Split(empty, empty, order.permutation(len(y))[: self.horizon])
        (kept_out,) = seeded(0, 1)
        by_class = [np.flatnonzero(y == c) for c in range(self.dataset.n_classes)]
        chosen = [kept_out.permutation(rows)[: self.validation_per_class] for rows in by_class]
        free = [order.permutation(np.setdiff1d(r, c)) for r, c in zip(by_class, chosen, strict=True)]
        least = min(len(rows) for rows in free)
        start = order.permutation(np.array([rows[0] for rows in free]))
        test = order.permutation(np.concatenate([rows[1:least] for rows in free]))
        return Split(np.concatenate(chosen), start, test[: self.horizon])


class Streams(LabelledRows, Value):
    """The rows of a data set in an order that a file gives; ``seed`` says which stream, counted from 0.

    The file (.npz) holds, for the data set NAME and S streams, ``NAME_validation`` (rows never played),
    ``NAME_start`` (S, N), row i of a stream given to arm i before round 1, and ``NAME_test`` (S, T).
    """

    data: str | Dataset
    path: str
    seed: Natural = 0
    horizon: Natural = 0
    scaling: Scaling = "paper"
    target: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(path=str(self.path))
        streams, n = self._file().test.shape
        if self.seed >= streams:
            raise InvalidInputError(f"seed is {self.seed}, but {self.path} has streams 0 to {streams - 1}")
        self._set(horizon=checked_horizon(self.horizon, n, f"the streams of {self.name} have {n} rows"))

    def split(self) -> Split:
        kept_out, start, test = self._file()
        split = Split(kept_out, start[self.seed], test[self.seed, : self.horizon])
        n, used = len(self.dataset), np.concatenate(split)
        if used.min() < 0 or used.max() >= n:
            raise DatasetError(f"{self.path} names row {used.max()}, but {self.name} has {n} rows")
        if len(split.start) != self.dataset.n_classes:
            raise DatasetError(f"{self.path} has {len(split.start)} start rows for {self.dataset.n_classes} arms")
        return split

    def _file(self) -> Split:
        """Row numbers of all streams of the data set."""
        if not Path(self.path).is_file():
            raise DatasetError(f"there is no file {self.path}; path must name an .npz file of row numbers")
        try:
            with Path(self.path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                names = [f"{self.name}_{part}" for part in Split._fields]
                known = sorted({key.rsplit("_", 1)[0] for key in file.files})
                if not set(names) <= set(file.files):
                    raise DatasetError(f"{self.path} has no streams of {self.name}; it has {', '.join(known)}")
                found = Split(*(np.asarray(file[name], dtype=np.intp) for name in names))
        except (OSError, ValueError) as error:
            raise DatasetError(f"{self.path} is damaged or no .npz file ({error})") from error
        if found.start.ndim != 2 or found.test.ndim != 2:
            raise DatasetError(f"{self.path}: {self.name}_start and {self.name}_test must be (streams, rows)")
        return found


@lru_cache(maxsize=2)
def _loaded(data: str, target: str | None) -> Dataset:
    """One copy per process of the last data sets used."""
    if not is_table(data):
        return load(data)
    if target is None:
        raise InvalidInputError(f"target is missing: say which column of {data} holds the labels")
    return _from_frame(read_table(data), target, Path(data).stem)


def _from_frame(frame: Any, target: str, name: str) -> Dataset:
    """A table of rows with labels as a data set; categories keep their order."""
    table = as_table(frame)
    labels = column(table, "target", target)
    features = [c for c in table.columns if c != target]
    return Dataset.of(numbers(table, features), labels, name, categories(table[target]))
