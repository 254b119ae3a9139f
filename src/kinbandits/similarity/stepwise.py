"""Similarities chosen anew at milestones, and constant between them.

Milestones are sizes n of the history: ``first``, then each time it has grown by a factor, up to ``until``.

1. The choice at milestone n is a function of the first n rows alone: of at most `SAMPLE` of them, spread over time
   (`History.sample`), so that its cost has a bound whatever n is.
2. It comes into force at row n + n // 16. Until then the choice before it answers, while the work is done in
   slices, a little with each row (`evidence.Work`), and an engine may prepare for what is coming.

Both depend on numbers of rows, never on a clock. So the matrix after a history depends on nothing but that history,
however the rows arrived; and between two choices a regression with uniform weights only gains rows.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from kinbandits._types import Matrix
from kinbandits._value import Real, as_int
from kinbandits._work import Work, finished
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.similarity.base import Judging, Tracker
from kinbandits.similarity.evidence import Evidence

RULE = 5  # of choosing; a choice saved under another is made again
SAMPLE = 800  # rows that a choice is made from, at most
_FITS = 12  # the work of a choice at its worst, in cubes of the number of rows


@dataclass(frozen=True)
class SimilarityChoice:
    """What was chosen at a milestone, and why; ``candidates`` is empty where it is not chosen among several."""

    rows: int  # how many rows it was chosen from
    mu: float  # 0 is Independent
    scale: float | None
    candidates: tuple[Evidence, ...]  # the evidence for each, Independent first
    reason: str  # in a sentence
    matrix: Matrix  # (N, N)

    @property
    def posterior(self) -> dict[float, float]:
        """How likely each mu is, where the choice is an average; empty where one was chosen."""
        found: dict[float, float] = {}
        for candidate in self.candidates:
            if candidate.weight is not None:
                found[candidate.mu] = found.get(candidate.mu, 0.0) + candidate.weight
        return dict(sorted(found.items()))

    def to_data(self) -> tuple[dict[str, Any], dict[str, Matrix]]:
        """As JSON data and arrays; what is missing in the evidence is NaN."""
        fields = [tuple(vars(c).values()) for c in self.candidates]
        data = {"rule": RULE, "rows": self.rows, "mu": self.mu, "scale": self.scale, "reason": self.reason}
        candidates = np.array(fields, dtype=np.float64).reshape(-1, 7)  # None becomes NaN
        return data, {"candidates": candidates, "matrix": self.matrix}

    @classmethod
    def of_data(cls, data: dict[str, Any], arrays: dict[str, Matrix]) -> SimilarityChoice:
        rows = [[None if np.isnan(v) else float(v) for v in row] for row in arrays["candidates"]]
        evidence = tuple(replace(Evidence(*row), rows=int(row[5] or 0)) for row in rows)  # type: ignore[arg-type]
        return cls(data["rows"], data["mu"], data["scale"], evidence, data["reason"], arrays["matrix"])


class Stepwise(Judging, kw_only=True):
    """Base of similarities that are chosen at milestones.

    Args:
        first: rows at the first choice; until then arms are independent.
        growth: by which factor the history grows between choices.
        until: the last choice is made at this many rows at most, and then stays.
    """

    first: int = 30
    growth: Real = 1.3
    until: int = 5000

    judges_kernel: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("first", "until"):
            as_int(name, getattr(self, name), 2)
        if not self.growth > 1.0:
            raise InvalidInputError(f"growth must be greater than 1, such as 1.3, got {self.growth!r}")

    def milestones(self, rows: int) -> Iterator[int]:
        """Those up to ``rows``.

        >>> from kinbandits.similarity import Adaptive
        >>> list(Adaptive().milestones(100))
        [30, 39, 51, 67, 88]
        """
        return milestones(self.first, self.growth, min(rows, self.until))

    def milestone(self, rows: int) -> int:
        """The last milestone up to ``rows``; 0 before the first."""
        return max(self.milestones(rows), default=0)

    def in_force(self, rows: int) -> int:
        """The milestone whose choice is in force after so many rows; 0 before the first.

        >>> from kinbandits.similarity import Adaptive
        >>> [Adaptive().in_force(n) for n in (30, 31, 90, 93)]
        [0, 30, 67, 88]
        """
        return max((n for n in self.milestones(rows) if takes_force(n) <= rows), default=0)

    def matrix(self, history: History) -> Matrix:
        n = self.in_force(len(history))
        return self.choice(history.sample(n, SAMPLE)).matrix if n else self.at_first(history)

    def at_first(self, history: History) -> Matrix:
        return np.eye(history.n_arms)

    @abstractmethod
    def choosing(self, history: History) -> Work[SimilarityChoice]:
        """The choice from all of these rows, in slices."""

    def choice(self, history: History) -> SimilarityChoice:
        return finished(self.choosing(history))

    def tracker(self, history: History, known: SimilarityChoice | None = None) -> StepTracker:
        """Chooses in slices, over the rows until it is in force; ``known`` is one made from these rows before."""
        return StepTracker(self, history, known)


def milestones(first: int, growth: float, last: int) -> Iterator[int]:
    """Sizes of a history: ``first``, then each time it has grown by the factor ``growth``, up to ``last``."""
    n = first
    while n <= last:
        yield n
        n = max(n + 1, math.ceil(n * growth))


def takes_force(n: int) -> int:
    """The size of the history from which on the choice made from its first ``n`` rows is in force."""
    return n + n // 16


def elapsed(rows: int, begun: int, last: int) -> float:
    """The share of the time that is gone after so many rows, of work to be done between ``begun`` and ``last``."""
    return (rows + 1 - begun) / (last + 1 - begun)


class Job:
    """A choice in the making. A copy starts again: what is chosen is the same."""

    def __init__(self, similarity: Stepwise, history: History, n: int) -> None:
        self.n = n
        self._similarity, self._history = similarity, history
        self._work: Work[SimilarityChoice] | None = None
        self._spent = 0.0
        self.choice: SimilarityChoice | None = None

    def advance(self, share: float) -> None:
        """Do what is due when this share of the time is gone; all of it at 1."""
        due = _FITS * min(self.n, SAMPLE) ** 3 * share
        try:
            while self.choice is None and (self._spent < due or share >= 1.0):
                if self._work is None:
                    self._work = self._similarity.choosing(self._history.sample(self.n, SAMPLE))
                self._spent += next(self._work)
        except StopIteration as end:
            self.choice = end.value
        except BaseException:  # a kernel failed: from the start again
            self._work, self._spent = None, 0.0
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_work": None, "_spent": 0.0}


class StepTracker(Tracker):
    """Keeps the matrix in force and works on the one that is coming; ``choices`` are without their matrices."""

    def __init__(self, similarity: Stepwise, history: History, known: SimilarityChoice | None = None) -> None:
        super().__init__(similarity, history)
        self._stepwise = similarity
        self._milestone = 0
        self._chosen: Matrix = similarity.at_first(history)
        self._job: Job | None = None
        self._rows = self._next = 0  # rows seen; rows at which the next choice begins or takes force
        self.choices: tuple[SimilarityChoice, ...] = ()
        fits = known is not None and known.matrix.shape == self._chosen.shape
        if known is not None and fits and known.rows == similarity.in_force(len(history)):
            self._take(known)
        self.observe(len(history))

    @property
    def latest(self) -> SimilarityChoice | None:
        return replace(self.choices[-1], matrix=self._chosen) if self.choices else None

    @property
    def coming(self) -> tuple[int, Matrix] | None:
        """The matrix that is chosen but not yet in force, with the size of the history at which it will be."""
        if self._job is None or self._job.choice is None:
            return None
        return takes_force(self._job.n), self._job.choice.matrix

    @property
    def matrix(self) -> Matrix:
        return self._chosen

    def observe(self, start: int, squares: Matrix | None = None) -> None:
        rows, before = len(self._history), self._rows
        self._rows = rows
        if start < before:  # the history was cut back
            self._next = 0
            if start < self._milestone:
                self._milestone, self._chosen = 0, self._stepwise.at_first(self._history)
            if self._job is not None and start < self._job.n:
                self._job = None
        if rows < self._next and (self._job is None or self._job.choice is not None):
            return  # nothing to work on until then
        n, last = self._stepwise.in_force(rows), self._stepwise.milestone(rows)
        if n != self._milestone:
            self._take(self._worked_on(n))
            self._job = None
        if last > n:
            self._worked_on(last)
            self._next = takes_force(last)
        else:
            later = self._stepwise.milestones(self._stepwise.until)
            self._next = next((stone for stone in later if stone > rows), sys.maxsize)

    def _worked_on(self, n: int) -> SimilarityChoice | None:
        """Do what is due for the choice from the first ``n`` rows; the choice, if it is there."""
        if self._job is None or self._job.n != n:
            self._job = Job(self._stepwise, self._history, n)
        self._job.advance(elapsed(len(self._history), n, takes_force(n)))
        return self._job.choice

    def _take(self, choice: SimilarityChoice | None) -> None:
        assert choice is not None
        self._milestone, self._chosen = choice.rows, choice.matrix
        self.choices = (*self.choices, replace(choice, matrix=np.empty((0, 0))))
