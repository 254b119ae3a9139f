"""Streams given as row numbers, so that runs can be compared one by one with those of others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinbandits._checks import as_int
from kinbandits.datasets import Dataset, Scaling
from kinbandits.environments.labelled import LabelledRows, Split
from kinbandits.errors import DatasetError, InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class Streams(LabelledRows):
    """The rows of a data set in an order that a file gives.

    The file (.npz) holds, for the data set NAME and S streams, ``NAME_validation`` (rows never played),
    ``NAME_start`` (S, N), row i of a stream given to arm i before round 1, and ``NAME_test`` (S, T).

    Args:
        data: name of a data set of the paper, or a `Dataset`.
        path: the file.
        seed: which stream, counted from 0.
        horizon: how many rounds; default all of the stream.
        scaling: of the features.
    """

    data: str | Dataset
    path: str
    seed: int = 0
    horizon: int = 0
    scaling: Scaling = "paper"
    target: str | None = None

    def __post_init__(self) -> None:
        self._set(path=str(self.path))
        as_int("seed", self.seed)
        test = self._rows("test")
        if self.seed >= len(test):
            raise InvalidInputError(f"seed is {self.seed}, but {self.path} has streams 0 to {len(test) - 1}")
        asked = as_int("horizon", self.horizon)
        if asked > test.shape[1]:
            raise InvalidInputError(f"horizon is {asked}, but the streams of {self.name} have {test.shape[1]} rows")
        self._set(horizon=asked or int(test.shape[1]))

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

    def _rows(self, part: str) -> NDArray[np.intp]:
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
