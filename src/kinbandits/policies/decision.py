"""Decisions: what ``choose`` hands back and ``update`` takes."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from kinbandits._threads import Turn, one_thread
from kinbandits._types import Indices, Matrix, Vector
from kinbandits.errors import InvalidTypeError, StaleDecisionError
from kinbandits.regression import Prediction, Query

ArmName = str | int


class Source(Protocol):
    """What a batch asks its policy for, when its numbers are read."""

    _version: int
    _turn: Turn

    def _predict(self, query: Query) -> Prediction: ...


_serials = itertools.count(secrets.randbits(60))  # those of other processes are far away


@dataclass(eq=False)
class Batch:
    """Decisions made at once, from the same state of knowledge; their numbers are computed when first read.

    ``serial`` is a number that no other batch has, but for its copies.
    """

    query: Query
    names: tuple[ArmName, ...]
    first_id: int
    indices: Indices
    propensities: Vector
    exploration: Vector
    source: Source
    version: int
    notes: list[Any] | None = None
    serial: int = field(default_factory=_serials.__next__)

    @cached_property
    def prediction(self) -> Prediction:
        """Mean and width of all candidates, (R, k) each."""
        return _read_only(self._predicted())

    @property
    def _turn(self) -> Turn:
        return self.source._turn

    @one_thread
    def _predicted(self) -> Prediction:
        if self.source._version != self.version:
            raise StaleDecisionError(
                "the policy has learned more since this decision was made, so its numbers can no longer be "
                "computed; ask for them at once with choose(..., scores=True), or read them before update()"
            )
        return self.source._predict(self.query)

    def keep(self, prediction: Prediction) -> None:
        """Have the numbers computed already, so that they can be read at any later time."""
        self.__dict__["prediction"] = _read_only(prediction)

    def arm(self, row: int) -> int:
        """The number of the arm chosen in round ``row``."""
        return int(self.query.arms[self.indices[row]])

    @cached_property
    def scores(self) -> Matrix:
        """mean + exploration * width of all candidates, (R, k)."""
        mean, width = self.prediction
        scores = np.asarray(mean + self.exploration[:, None] * width)
        scores.setflags(write=False)
        return scores

    def context(self, row: int) -> Vector:
        """The context of the candidate chosen in round ``row``."""
        rows = self.query.contexts[row]
        return np.asarray(rows[0] if len(rows) == 1 else rows[self.indices[row]])


class Decision:
    """One choice. Hand it (or its ``id``) to ``policy.update`` when the reward is known, however late.

    ``arm``, ``index``, ``id`` and ``propensity`` are always there. ``mean``, ``width``, ``score`` and
    ``scores`` are computed when first read, which must be before the policy learns more, unless they were
    asked for at once with ``choose(..., scores=True)``.
    """

    __slots__ = ("_batch", "_row")

    def __init__(self, batch: Batch, row: int) -> None:
        self._batch, self._row = batch, row

    @property
    def id(self) -> int:
        """The number of this decision; rewards may name it instead of the object."""
        return self._batch.first_id + self._row

    @property
    def index(self) -> int:
        """Which candidate was chosen, counted from 0."""
        return int(self._batch.indices[self._row])

    @property
    def arm(self) -> ArmName:
        """The name of the arm chosen."""
        return self._batch.names[self.index]

    @property
    def propensity(self) -> float:
        """The exact probability with which this candidate was chosen."""
        return float(self._batch.propensities[self._row])

    @property
    def exploration(self) -> float:
        """The multiplier of the width when the choice was made."""
        return float(self._batch.exploration[self._row])

    @property
    def candidates(self) -> tuple[ArmName, ...]:
        """The arms that could have been chosen."""
        return self._batch.names

    @property
    def context(self) -> Vector:
        """The context of the chosen candidate."""
        return self._batch.context(self._row)

    @property
    def prediction(self) -> Prediction:
        """Mean and width of all candidates."""
        mean, width = self._batch.prediction
        return Prediction(mean[self._row], width[self._row])

    @property
    def mean(self) -> float:
        """Estimated reward of the choice."""
        return float(self.prediction.mean[self.index])

    @property
    def width(self) -> float:
        """Width of the choice (the paper's s)."""
        return float(self.prediction.width[self.index])

    @property
    def score(self) -> float:
        """mean + exploration * width of the choice."""
        return float(self.scores[self.index])

    @property
    def scores(self) -> Vector:
        """mean + exploration * width of all candidates."""
        return np.asarray(self._batch.scores[self._row])

    @property
    def note(self) -> Any:
        """What the policy wrote down for itself with this decision (None for most)."""
        return None if self._batch.notes is None else self._batch.notes[self._row]

    def __repr__(self) -> str:
        known = "prediction" in self._batch.__dict__
        numbers = f", mean={self.mean:.4g}, width={self.width:.4g}" if known else ""
        return f"Decision(id={self.id}, arm={self.arm!r}, propensity={self.propensity:.4g}{numbers})"


class Decisions:
    """The decisions of ``choose_many``: a sequence of `Decision`, with the numbers of all as arrays."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return len(self._batch.indices)

    def __getitem__(self, row: int) -> Decision:
        if not isinstance(row, int | np.integer):
            raise InvalidTypeError(f"decisions are taken one by one, with a whole number, got {row!r}")
        row = range(len(self))[row]
        return Decision(self._batch, row)

    def __iter__(self) -> Iterator[Decision]:
        return (Decision(self._batch, row) for row in range(len(self)))

    @property
    def id(self) -> Indices:
        return self._batch.first_id + np.arange(len(self))

    @property
    def index(self) -> Indices:
        return self._batch.indices

    @property
    def arm(self) -> list[ArmName]:
        return [self._batch.names[i] for i in self._batch.indices]

    @property
    def propensity(self) -> Vector:
        return self._batch.propensities

    @property
    def prediction(self) -> Prediction:
        return self._batch.prediction

    @property
    def mean(self) -> Vector:
        return self._chosen(self._batch.prediction.mean)

    @property
    def width(self) -> Vector:
        return self._chosen(self._batch.prediction.width)

    @property
    def score(self) -> Vector:
        return self._chosen(self._batch.scores)

    @property
    def scores(self) -> Matrix:
        return self._batch.scores

    def _chosen(self, values: Matrix) -> Vector:
        return np.asarray(values[np.arange(len(self)), self._batch.indices])

    def __repr__(self) -> str:
        return f"Decisions({len(self)} rounds, ids {self._batch.first_id}..{self._batch.first_id + len(self) - 1})"


def _read_only(prediction: Prediction) -> Prediction:
    for values in prediction:
        values.setflags(write=False)
    return prediction
