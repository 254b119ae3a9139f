"""Decisions: what ``choose`` hands back and ``update`` takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from kinbandits._types import ArmName, Indices, Matrix, Vector
from kinbandits.errors import InvalidTypeError, StaleDecisionError
from kinbandits.regression.contract import Prediction, Query


class Source(Protocol):
    """What decisions ask of their policy when their numbers are read."""

    version: int

    def numbers(self, query: Query) -> Prediction: ...


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
    _batch: Decisions
    _row: int

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


@dataclass(eq=False, repr=False)
class Decisions:
    """The decisions of ``choose_many``: a sequence of `Decision`, with the numbers of all as arrays.

    They were made at once, from the same state of knowledge; ``mean``, ``width``, ``score`` and ``scores`` are computed
    when first read.
    """

    query: Query
    names: tuple[ArmName, ...]
    first_id: int
    index: Indices
    propensity: Vector
    exploration: Vector
    owner: str
    source: Source
    version: int
    notes: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, row: int) -> Decision:
        if isinstance(row, bool) or not isinstance(row, int | np.integer):
            raise InvalidTypeError(f"decisions are taken one by one, with a whole number, got {row!r}")
        row = range(len(self))[row]
        index = int(self.index[row])
        contexts = self.query.contexts[row]
        return Decision(
            id=self.first_id + row,
            arm=self.names[index],
            index=index,
            propensity=float(self.propensity[row]),
            exploration=float(self.exploration[row]),
            candidates=self.names,
            context=contexts[0] if len(contexts) == 1 else contexts[index],
            note=None if self.notes is None else self.notes[row],
            owner=self.owner,
            _batch=self,
            _row=row,
        )

    def __iter__(self) -> Iterator[Decision]:
        return (self[row] for row in range(len(self)))

    @property
    def id(self) -> Indices:
        return self.first_id + np.arange(len(self))

    @property
    def arm(self) -> list[ArmName]:
        return [self.names[i] for i in self.index]

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

    @property
    def mean(self) -> Vector:
        return self._chosen(self.prediction.mean)

    @property
    def width(self) -> Vector:
        return self._chosen(self.prediction.width)

    @property
    def score(self) -> Vector:
        return self._chosen(self.scores)

    def _chosen(self, values: Matrix) -> Vector:
        return np.asarray(values[np.arange(len(self)), self.index])

    def __repr__(self) -> str:
        return f"Decisions({len(self)} rounds, ids {self.first_id}..{self.first_id + len(self) - 1})"
