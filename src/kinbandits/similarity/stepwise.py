"""Similarities chosen anew at milestones, and constant between them.

The milestones are sizes of the history: ``first``, then each time it has grown by a factor, up to ``until``. The
choice at milestone n is a function of the first n rows alone. So the matrix after a history depends on nothing but
that history, however the rows arrived; and between milestones a regression with uniform weights only gains rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from kinbandits._types import Matrix
from kinbandits._value import real
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.kernels import Kernel
from kinbandits.similarity.base import Similarity, Tracker, Weighting
from kinbandits.similarity.criteria import Evidence, Problem

RULE = 2  # of choosing; a choice saved under another is made again


@dataclass(frozen=True)
class Choice:
    """What was chosen at a milestone, and why.

    Attributes:
        rows: how many rows it was chosen from.
        mu, scale: of the choice; mu = 0 is Independent.
        candidates: the evidence for each, Independent first.
        reason: in a sentence.
        matrix: (N, N).

    ``candidates`` is empty for a similarity that is not chosen among several.
    """

    rows: int
    mu: float
    scale: float | None
    candidates: tuple[Evidence, ...]
    reason: str
    matrix: Matrix

    def to_data(self) -> tuple[dict[str, Any], dict[str, Matrix]]:
        """As JSON data and arrays; what is missing in the evidence is NaN."""
        fields = [(c.mu, c.scale, c.log_likelihood, c.decision_score, c.decision_error) for c in self.candidates]
        data = {"rule": RULE, "rows": self.rows, "mu": self.mu, "scale": self.scale, "reason": self.reason}
        candidates = np.array(fields, dtype=np.float64).reshape(-1, 5)  # None becomes NaN
        return data, {"candidates": candidates, "matrix": self.matrix}

    @classmethod
    def of_data(cls, data: dict[str, Any], arrays: dict[str, Matrix]) -> Choice:
        """What `to_data` gave."""
        rows = [[None if np.isnan(v) else float(v) for v in row] for row in arrays["candidates"]]
        evidence = tuple(Evidence(*row) for row in rows)  # type: ignore[arg-type]
        return cls(data["rows"], data["mu"], data["scale"], evidence, data["reason"], arrays["matrix"])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Stepwise(Similarity):
    """Base of similarities that are chosen at milestones.

    Args:
        first: rows at the first choice; until then arms are independent.
        growth: by which factor the history grows between choices.
        until: the last choice is made at this many rows at most, and then stays.
        context_kernel, ridge, weighting: of the regression; filled in by `bound`.
    """

    first: int = 30
    growth: float = 1.15
    until: int = 5000
    context_kernel: Any = None
    ridge: float | None = None
    weighting: Weighting | None = None

    fixed: ClassVar[bool] = False
    steps: ClassVar[bool] = True
    judges_kernel: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("first", "until"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise InvalidTypeError(f"{name} must be a whole number of rows, got {value!r}")
            if value < 2:
                raise InvalidInputError(f"{name} must be at least 2 rows, got {value!r}")
        object.__setattr__(self, "growth", real("growth", self.growth))
        if not self.growth > 1.0:
            raise InvalidInputError(f"growth must be greater than 1, such as 1.15, got {self.growth!r}")

    def bound(self, context_kernel: Kernel, ridge: float, weighting: Weighting) -> Similarity:
        """Told what the regression is."""
        return self.replace(context_kernel=context_kernel, ridge=ridge, weighting=weighting)

    def milestones(self, rows: int) -> Iterator[int]:
        """Those up to ``rows``.

        >>> from kinbandits.similarity import Adaptive
        >>> list(Adaptive().milestones(50))
        [30, 35, 41, 48]
        """
        n = self.first
        while n <= min(rows, self.until):
            yield n
            n = max(n + 1, math.ceil(n * self.growth))

    def milestone(self, rows: int) -> int:
        """The last one up to ``rows``; 0 before the first."""
        return max(self.milestones(rows), default=0)

    def matrix(self, history: History) -> Matrix:
        """As chosen at the last milestone."""
        n = self.milestone(len(history))
        return self.choice(history.head(n)).matrix if n else np.eye(history.n_arms)

    @abstractmethod
    def choice(self, history: History) -> Choice:
        """The choice from all of these rows."""

    def tracker(self, history: History, known: Choice | None = None) -> StepTracker:
        """Chooses when a milestone is passed: the cost is spread over the rows until the next.

        ``known`` is a choice that was made from these rows before, and need not be made again.
        """
        return StepTracker(self, history, known)

    def _problem(self, history: History) -> Problem:
        if self.context_kernel is None or self.ridge is None or self.weighting is None:
            raise InvalidInputError(
                f"{type(self).__name__} judges by the fit of a policy's regression; give it to a policy "
                "(similarity=), or call bound(context_kernel, ridge, weighting) first"
            )
        return Problem(history, self.context_kernel, self.ridge, self.weighting)


class StepTracker(Tracker):
    """Keeps the matrix of the last milestone.

    Attributes:
        choices: those made while it followed, without their matrices.
    """

    def __init__(self, similarity: Stepwise, history: History, known: Choice | None = None) -> None:
        super().__init__(similarity, history)
        self._stepwise = similarity
        self._milestone = -1
        self._chosen: Matrix = np.eye(history.n_arms)
        self.choices: tuple[Choice, ...] = ()
        fits = known is not None and known.matrix.shape == self._chosen.shape
        if known is not None and fits and known.rows == similarity.milestone(len(history)):
            self._take(known)
        self.observe(0)

    @property
    def latest(self) -> Choice | None:
        """The choice in force, with its matrix."""
        return replace(self.choices[-1], matrix=self._chosen) if self.choices else None

    @property
    def matrix(self) -> Matrix:
        return self._chosen

    def observe(self, start: int, squares: Matrix | None = None) -> None:
        n = self._stepwise.milestone(len(self._history))
        if n != self._milestone and n:
            self._take(self._stepwise.choice(self._history.head(n)))
        self._milestone = n

    def _take(self, choice: Choice) -> None:
        self._milestone, self._chosen = choice.rows, choice.matrix
        self.choices = (*self.choices, replace(choice, matrix=np.empty((0, 0))))
