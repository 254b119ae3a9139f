"""Decisions: what ``choose`` hands back and ``update`` takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from kinbandits._types import ArmName, Indices, Matrix, Vector
from kinbandits.errors import InvalidTypeError, StaleDecisionError
from kinbandits.regression.contract import Prediction, Query


class Source(Protocol):
    """What a batch asks of its policy when its numbers are read."""

    version: int

    def numbers(self, query: Query) -> Prediction: ...


@dataclass(eq=False)
class Batch:
    """Decisions made at once, from the same state of knowledge; their numbers are computed when first read."""

    query: Query
    names: tuple[ArmName, ...]
    first_id: int
    indices: Indices
    propensities: Vector
    exploration: Vector
    owner: str
    source: Source
    version: int
    notes: list[Any] | None = None

    @cached_property
    def prediction(self) -> Prediction:
        """Mean and width of all candidates, (R, k) each."""
        if self.source.version != self.version:
            raise StaleDecisionError(
                "the policy has learned more since this decision was made, so its numbers can no longer be "
                "computed; ask for them at once with choose(..., scores=True), or read them before update()"
            )
        prediction = self.source.numbers(self.query)
        for values in prediction:
            values.setflags(write=False)
        return prediction

    @cached_property
    def scores(self) -> Matrix:
        """mean + exploration * width of all candidates, (R, k)."""
        mean, width = self.prediction
        scores = np.asarray(mean + self.exploration[:, None] * width)
        scores.setflags(write=False)
        return scores

    def decision(self, row: int) -> Decision:
        index = int(self.indices[row])
        contexts = self.query.contexts[row]
        return Decision(
            id=self.first_id + row,
            arm=self.names[index],
            index=index,
            propensity=float(self.propensities[row]),
            exploration=float(self.exploration[row]),
            candidates=self.names,
            context=contexts[0] if len(contexts) == 1 else contexts[index],
            note=None if self.notes is None else self.notes[row],
            owner=self.owner,
            _batch=self,
            _row=row,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """One choice. Hand it (or its ``id``) to ``policy.update`` when the reward is known, however late.

    ``mean``, ``width``, ``score`` and ``scores`` are computed when first read, which must be before the policy learns
    more, unless they were asked for at once with ``choose(..., scores=True)``.

    Attributes:
        id: the number of this decision; rewards may name it instead of the object.
        arm: the name of the arm chosen.
        index: which candidate was chosen, counted from 0: of ``policy.arms``, or of the ``arms=`` given.
        propensity: the exact probability with which it was chosen.
        exploration: the multiplier of the width when the choice was made.
        candidates: the arms of the round, in the order of ``scores``.
        context: the context of the chosen candidate, (d,).
        note: what the policy wrote down for itself (None for most).
    """

    id: int
    arm: ArmName
    index: int
    propensity: float
    exploration: float
    candidates: tuple[ArmName, ...]
    context: Vector
    note: Any
    owner: str
    _batch: Batch = field(repr=False)
    _row: int = field(repr=False)

    @property
    def prediction(self) -> Prediction:
        """Mean and width of all candidates, (k,) each."""
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
        """mean + exploration * width of all candidates, (k,)."""
        return np.asarray(self._batch.scores[self._row])

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
        if isinstance(row, bool) or not isinstance(row, int | np.integer):
            raise InvalidTypeError(f"decisions are taken one by one, with a whole number, got {row!r}")
        return self._batch.decision(range(len(self))[row])

    def __iter__(self) -> Iterator[Decision]:
        return (self._batch.decision(row) for row in range(len(self)))

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
