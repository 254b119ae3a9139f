"""Labelled rows as a bandit: every class is an arm, and an arm pays 1 if the row is of its class, else 0.

Which rows are played, and in which order, is a `Split`; the rest is the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._frames import as_table, categories, column, is_table, numbers, read_table
from kinbandits._types import Indices, Matrix
from kinbandits._value import Natural, Value, one_of
from kinbandits.datasets import CATALOGUE, Dataset, Scaling, load
from kinbandits.environments.base import Round, StartRows, checked_horizon, no_rows, seeded
from kinbandits.errors import DatasetError, InvalidInputError, InvalidTypeError

Protocol = Literal["paper", "shuffled"]


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers: kept out for choosing settings, given before round 1 (row i to arm i), and played."""

    validation: Indices
    start: Indices
    test: Indices


class LabelledRows(ABC):
    """Mixed into environments over a data set. Subclasses say which rows are played (`split`)."""

    data: str | Dataset
    target: str | None
    scaling: Scaling
    seed: int

    @abstractmethod
    def split(self) -> Split:
        """Which rows are for validation, for the start and for the game."""

    @property
    def dataset(self) -> Dataset:
        return self.data if isinstance(self.data, Dataset) else _loaded(self.data, self.target)

    @property
    def name(self) -> str:
        return str(self.data) if self.data_is_known else self.dataset.name

    @property
    def data_is_known(self) -> bool:
        """Whether the data set is one of the paper's."""
        return isinstance(self.data, str) and self.data in CATALOGUE

    @property
    def arms(self) -> list[Any]:
        return list(self.dataset.class_names)

    def start_rows(self) -> StartRows:
        """The start rows with their true rewards: row i to arm i."""
        rows = self.split().start
        if not len(rows):
            return no_rows()
        dataset = self.dataset
        rewards = (dataset.y[rows] == np.arange(len(rows))).astype(np.float64)
        return self.arms[: len(rows)], dataset.features(rows, self.scaling), rewards

    def rounds(self) -> Iterator[Round]:
        dataset, rows = self.dataset, self.split().test
        X = dataset.features(rows, self.scaling)
        rewards = np.eye(dataset.n_classes)
        for x, label in zip(X, dataset.y[rows], strict=True):
            yield Round(x, rewards[label])

    def validation(self) -> tuple[Matrix, NDArray[np.int64]]:
        """Features and labels that are never played, for choosing settings."""
        rows = self.split().validation
        return self.dataset.features(rows, self.scaling), self.dataset.y[rows]


class Classification(LabelledRows, Value):
    """Every class is an arm; choosing the class of the row pays 1, any other 0.

    * ``protocol="shuffled"``: all rows, in random order.
    * ``protocol="paper"``: ``validation`` random rows of each class are kept out (the same for every seed);
      one random row of each class is given before round 1, dealt to the arms at random, with the true reward;
      the others are cut so that classes are exactly balanced, and permuted.

    Args:
        data: name of a data set of the paper, path of a CSV or Parquet file, or a `Dataset`. See also
            `Classification.from_arrays` and `Classification.from_frame`.
        target: for a file, the column of labels; the others are features.
        scaling: of the features; see `kinbandits.datasets.Dataset.features`.
        horizon: default: all rows there are, or the paper's number for its data sets.
        validation_per_class: rows kept out by the paper's protocol, drawn by ``validation_seed``.

    >>> environment = Classification.from_arrays([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"], seed=1)
    >>> [(round.context.tolist(), round.rewards.tolist()) for round in environment.rounds()][:2]
    [([3.0], [0.0, 1.0]), ([1.0], [0.0, 1.0])]
    """

    data: str | Dataset
    target: str | None = None
    protocol: Protocol = "shuffled"
    scaling: Scaling = "paper"
    horizon: Natural = 0
    validation_per_class: Natural = 50
    seed: Natural = 0
    validation_seed: Natural = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.data, str | Dataset):
            raise InvalidTypeError(
                f"data must be a data set's name, a file or a Dataset, got {type(self.data).__name__}; "
                "from_arrays and from_frame take arrays and tables"
            )
        if isinstance(self.data, str) and self.data not in CATALOGUE and not is_table(self.data):
            raise InvalidInputError(
                f"data is {self.data!r}, which is neither a data set ({', '.join(sorted(CATALOGUE))}) nor a "
                ".csv or .parquet file"
            )
        one_of("protocol", self.protocol, "paper", "shuffled")
        n = self._available()
        only = f"there are only {n} rounds in {self.name} by the {self.protocol!r} protocol"
        rounds = checked_horizon(self.horizon, n, f"{only}; ask for fewer, or leave horizon out for all")
        published = self.data_is_known and self.protocol == "paper" and not self.horizon
        self._set(horizon=min(CATALOGUE[str(self.data)].horizon, n) if published else rounds)

    @classmethod
    def from_arrays(cls, X: ArrayLike, y: ArrayLike, name: str = "data", **options: Any) -> Classification:
        """From features (n, d) and labels (n,) of any kind."""
        return cls(Dataset.of(X, y, name), **options)

    @classmethod
    def from_frame(cls, frame: Any, target: str, name: str = "data", **options: Any) -> Classification:
        """From a pandas, polars or other table; ``target`` is the column of labels, the others are features."""
        return cls(_from_frame(frame, target, name), **options)

    def _available(self) -> int:
        """How many rounds the protocol can give, without reading a data set that is known."""
        known = self.data_is_known
        counts = np.array(CATALOGUE[str(self.data)].class_counts) if known else np.bincount(self.dataset.y)
        if self.protocol == "shuffled":
            return int(counts.sum())
        least = int(counts.min()) - self.validation_per_class - 1
        if least < 1:
            raise InvalidInputError(
                f"the paper's protocol needs more than {self.validation_per_class + 1} rows of every class "
                f"(validation_per_class and one to start with), but the smallest has {int(counts.min())}; lower "
                'validation_per_class, or use protocol="shuffled"'
            )
        return least * len(counts)

    def split(self) -> Split:
        y = self.dataset.y
        (order,) = seeded(self.seed, 1)
        if self.protocol == "shuffled":
            empty = np.empty(0, dtype=np.intp)
            return Split(empty, empty, order.permutation(len(y))[: self.horizon])
        (kept_out,) = seeded(self.validation_seed, 1)
        classes = range(self.dataset.n_classes)
        by_class = [np.flatnonzero(y == c) for c in classes]
        m = self.validation_per_class
        chosen = [kept_out.permutation(rows)[:m] for rows in by_class]
        free = [order.permutation(np.setdiff1d(r, c)) for r, c in zip(by_class, chosen, strict=True)]
        least = min(len(rows) for rows in free) - 1
        start = order.permutation(np.array([rows[0] for rows in free]))
        test = order.permutation(np.concatenate([rows[1 : least + 1] for rows in free]))
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
        test = self._rows("test")
        if self.seed >= len(test):
            raise InvalidInputError(f"seed is {self.seed}, but {self.path} has streams 0 to {len(test) - 1}")
        n = int(test.shape[1])
        self._set(horizon=checked_horizon(self.horizon, n, f"the streams of {self.name} have {n} rows"))

    def split(self) -> Split:
        n = len(self.dataset)
        parts = Split(
            self._rows("validation"), self._rows("start")[self.seed], self._rows("test")[self.seed, : self.horizon]
        )
        for rows in (parts.validation, parts.start, parts.test):
            if len(rows) and (rows.min() < 0 or rows.max() >= n):
                raise DatasetError(f"{self.path} names row {rows.max()}, but {self.name} has {n} rows")
        if len(parts.start) != self.dataset.n_classes:
            raise DatasetError(f"{self.path} has {len(parts.start)} start rows for {self.dataset.n_classes} arms")
        return parts

    def _rows(self, part: str) -> Indices:
        name = self.data if isinstance(self.data, str) else self.data.name
        if not Path(self.path).is_file():
            raise DatasetError(f"there is no file {self.path}; path must name an .npz file of row numbers")
        key = f"{name}_{part}"
        try:
            with Path(self.path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                if key not in file:
                    known = sorted({k.rsplit("_", 1)[0] for k in file.files})
                    raise DatasetError(f"{self.path} has no streams of {name}; it has {', '.join(known)}")
                rows = file[key]
        except (OSError, ValueError) as error:
            raise DatasetError(f"{self.path} is damaged or no .npz file ({error})") from error
        if part != "validation" and rows.ndim != 2:
            raise DatasetError(f"{key} in {self.path} has shape {rows.shape}; it must be (streams, rows)")
        return np.asarray(rows, dtype=np.intp)


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
    order = categories(table[target])
    return Dataset.of(numbers(table, features), labels, name, order)
