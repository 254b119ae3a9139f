"""Labelled rows as a bandit: every class is an arm, and an arm pays 1 if the row is of its class, else 0.

Where the rows come from and in which order they are played is a `Split`; the rest is the same for all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix
from kinbandits._value import Value
from kinbandits.datasets import CATALOGUE, Dataset, Scaling, load
from kinbandits.environments.base import Round, StartRows, no_rows
from kinbandits.environments.tables import is_table, read_labelled


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers: kept out for choosing settings, given before round 1 (row i to arm i), and played."""

    validation: Indices
    start: Indices
    test: Indices


class LabelledRows(Value):
    """Base of environments over a data set. Subclasses say which rows are played (`split`)."""

    data: str | Dataset
    target: str | None
    scaling: Scaling
    seed: int

    @abstractmethod
    def split(self) -> Split:
        """Which rows are for validation, for the start and for the game."""

    @property
    def dataset(self) -> Dataset:
        """The rows, read when first needed."""
        return self.data if isinstance(self.data, Dataset) else _loaded(self.data, self.target)

    @property
    def name(self) -> str:
        return self.dataset.name if not self.data_is_known else str(self.data)

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
        """One row a round, the same context for all arms."""
        dataset, rows = self.dataset, self.split().test
        X = dataset.features(rows, self.scaling)
        rewards = np.eye(dataset.n_classes)
        for x, label in zip(X, dataset.y[rows], strict=True):
            yield Round(x, rewards[label])

    def validation(self) -> tuple[Matrix, NDArray[np.int64]]:
        """Features and labels that are never played, for choosing settings."""
        rows = self.split().validation
        return self.dataset.features(rows, self.scaling), self.dataset.y[rows]


@lru_cache(maxsize=2)
def _loaded(data: str, target: str | None) -> Dataset:
    """One copy per process of the last data sets used."""
    return read_labelled(data, target) if is_table(data) else load(data)
