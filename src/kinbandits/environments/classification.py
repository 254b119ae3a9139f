"""Classification turned into a bandit, by the paper's protocol or as a plain shuffled stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import as_int
from kinbandits._types import Indices
from kinbandits.datasets import CATALOGUE, Dataset, Scaling
from kinbandits.environments.base import seeded
from kinbandits.environments.labelled import LabelledRows, Split
from kinbandits.environments.tables import from_frame, is_table
from kinbandits.errors import InvalidInputError, InvalidTypeError

Protocol = Literal["paper", "shuffled"]


@dataclass(frozen=True, eq=False, repr=False)
class Classification(LabelledRows):
    """Every class is an arm; choosing the class of the row pays 1, any other 0.

    * ``protocol="shuffled"``: all rows, in random order.
    * ``protocol="paper"``: ``validation`` random rows of each class are kept out (the same for every seed);
      one random row of each class is given before round 1, dealt to the arms at random, with the true reward;
      the others are cut so that classes are exactly balanced, and permuted.

    Args:
        data: name of a data set of the paper, path of a CSV or Parquet file, or a `Dataset`. See also
            `Classification.from_arrays` and `Classification.from_frame`.
        target: for a file, the column of labels; the others are features.
        protocol: ``"shuffled"`` or ``"paper"``.
        scaling: of the features; see `kinbandits.datasets.Dataset.features`.
        horizon: how many rounds. Default: all rows there are, or the paper's number for its data sets.
        validation: rows per class kept out by the paper's protocol.
        seed: of the order of rows and the start rows.
        validation_seed: of the rows kept out.

    Example:
        >>> environment = Classification.from_arrays([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"], seed=1)
        >>> [(round.context.tolist(), round.rewards.tolist()) for round in environment.rounds()][:2]
        [([3.0], [0.0, 1.0]), ([1.0], [0.0, 1.0])]
    """

    data: str | Dataset
    target: str | None = None
    protocol: Protocol = "shuffled"
    scaling: Scaling = "paper"
    horizon: int = 0
    validation_per_class: int = 50
    seed: int = 0
    validation_seed: int = 0

    def __post_init__(self) -> None:
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
        if self.protocol not in ("paper", "shuffled"):
            raise InvalidInputError(f'protocol must be "paper" or "shuffled", got {self.protocol!r}')
        as_int("seed", self.seed)
        as_int("validation_seed", self.validation_seed)
        as_int("validation_per_class", self.validation_per_class)
        asked = as_int("horizon", self.horizon)
        available = self._available()
        if asked > available:
            raise InvalidInputError(
                f"horizon is {asked}, but there are only {available} rounds in {self.name} by the "
                f"{self.protocol!r} protocol; ask for fewer, or leave horizon out for all"
            )
        if not asked:
            known = self.data_is_known and self.protocol == "paper"
            self._set(horizon=min(CATALOGUE[str(self.data)].horizon, available) if known else available)

    @classmethod
    def from_arrays(cls, X: ArrayLike, y: ArrayLike, name: str = "data", **options: Any) -> Classification:
        """From features (n, d) and labels (n,) of any kind."""
        return cls(Dataset.of(X, y, name), **options)

    @classmethod
    def from_frame(cls, frame: Any, target: str, name: str = "data", **options: Any) -> Classification:
        """From a pandas, polars or other table; ``target`` is the column of labels, the others are features."""
        return cls(from_frame(frame, target, name), **options)

    def _counts(self) -> Indices:
        """Rows per class, without reading a data set that is known."""
        if self.data_is_known:
            return np.array(CATALOGUE[str(self.data)].class_counts)
        return np.bincount(self.dataset.y)

    def _available(self) -> int:
        """How many rounds the protocol can give."""
        counts = self._counts()
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
