"""Labelled rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._types import Matrix
from kinbandits._value import Value, one_of
from kinbandits.datasets.catalogue import CATALOGUE
from kinbandits.errors import InvalidInputError

Scaling = Literal["paper", "raw", "minmax"]


class Dataset(Value):
    """Labelled rows: ``X`` (n, d), ``y`` (n,) in 0..N-1, and class names. `Dataset.of` makes one of your arrays."""

    name: str
    X: NDArray[Any]
    y: NDArray[np.int64]
    class_names: tuple[str | int, ...]
    scale: float = 1.0
    feature_names: tuple[str, ...] | None = None
    n_train: int | None = None

    @classmethod
    def of(
        cls, X: ArrayLike, y: ArrayLike, name: str = "data", order: Sequence[Any] | None = None, **others: Any
    ) -> Dataset:
        """A data set from features and labels of any kind; classes are the different labels,
        sorted or in ``order``.

        >>> Dataset.of([[0.0], [1.0], [2.0]], ["no", "yes", "no"]).class_names
        ('no', 'yes')
        """
        features, labels = np.asarray(X), np.asarray(y)
        if features.ndim != 2 or not features.size:
            raise InvalidInputError(f"X must be 2-D (rows, features) and not empty, got shape {features.shape}")
        if labels.shape != (len(features),):
            raise InvalidInputError(f"y must have one label per row: {len(features)} rows, shape {labels.shape}")
        if features.dtype.kind not in "buif":
            raise InvalidInputError(
                f"X must hold numbers, got {features.dtype}; turn text and categories into numbers first"
            )
        if labels.dtype.kind == "f":
            if not np.isfinite(labels).all():
                raise InvalidInputError("y has missing labels (NaN or infinite); leave those rows out")
            if not np.equal(labels, np.floor(labels)).all():
                raise InvalidInputError("y must hold classes, but it has fractions; is it a regression target?")
            labels = labels.astype(np.int64)
        if not np.isfinite(features).all():
            row, column = np.argwhere(~np.isfinite(features))[0]
            raise InvalidInputError(f"X[{row}, {column}] is {features[row, column]}; fill in missing values first")
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise InvalidInputError(f"y has only one class, {classes.tolist()}; a bandit needs two or more")
        if order is not None:
            place = {label: i for i, label in enumerate(order)}
            unknown = [c for c in classes.tolist() if c not in place]
            if unknown:
                raise InvalidInputError(f"y holds {unknown[0]!r}, which is not in order={list(order)[:8]}")
            new = np.argsort([place[c] for c in classes.tolist()])
            classes, codes = classes[new], np.argsort(new)[codes]
        plain = [c if isinstance(c, str | int) and not isinstance(c, bool) else str(c) for c in classes.tolist()]
        features = features.copy()
        features.setflags(write=False)
        return cls(name, features, codes.astype(np.int64), tuple(plain), **others)

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    def __len__(self) -> int:
        return len(self.y)

    def features(self, rows: ArrayLike | None = None, scaling: Scaling = "paper") -> Matrix:
        """The features of some rows (all, if left out) as float64.

        ``scaling`` is ``"raw"``, as published; ``"minmax"``, columns over all rows to [-1, 1], constant ones to 0;
        or ``"paper"``: MNIST divided by 255, Letter and Segment ``"minmax"``, all others (and yours) ``"raw"``.
        """
        one_of("scaling", scaling, "paper", "raw", "minmax")
        entry = CATALOGUE.get(self.name)
        chosen = self.X if rows is None else self.X[np.asarray(rows, dtype=np.intp)]
        values = chosen.astype(np.float64)
        if self.scale != 1.0:
            values *= self.scale
        if scaling == "minmax" or (scaling == "paper" and entry is not None and entry.scaling == "minmax"):
            low, high = self.X.min(axis=0) * self.scale, self.X.max(axis=0) * self.scale
            low, high = low.astype(np.float64), high.astype(np.float64)
            span = np.where(high > low, high - low, 1.0)
            return np.asarray(np.where(high > low, 2.0 * (values - low) / span - 1.0, 0.0))
        if scaling == "paper" and entry is not None and entry.factor != 1.0:
            values *= entry.factor
        return values

    @property
    def paper(self) -> Matrix:
        """All rows as the paper's experiments scale them."""
        return self.features()

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {len(self)} rows, {self.X.shape[1]} features, {self.n_classes} classes)"
