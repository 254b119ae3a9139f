"""The exact engine: the answers of `naive`, from whichever structure makes them cheap.

It looks at the settings and the size, and hands the work to one of
    `features`  kernels with a finite feature map (Linear): the cost does not grow with the history
    `append`    similarities that do not change, uniform weights: M only grows by rows
    `dense`     few rows: one Cholesky factor per change
    `ladder`    everything else: exact decisions from intervals
and moves on when the history has grown. Which one is at work is in `report`.

A similarity that changes in steps (`Stepwise`) is followed here: the method at work is given the matrix in force as
one that does not change; when it does, another takes over that was built meanwhile (`append.Coming`).
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinbandits import _compiled as compiled
from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.history import History
from kinbandits.kernels import Foreign, Kernel
from kinbandits.regression.base import Query, Regression, RegressionSettings
from kinbandits.regression.exact.append import AppendRegression, Coming
from kinbandits.regression.exact.dense import DenseRegression
from kinbandits.regression.exact.features import FeatureRegression
from kinbandits.regression.exact.ladder import LadderRegression
from kinbandits.regression.frozen import FrozenRegression
from kinbandits.regression.rows import RowRegression
from kinbandits.similarity import RULE, SimilarityChoice, elapsed
from kinbandits.terms import TermsTracker

SMALL = 100  # rows below which a fresh factor is the cheapest thing there is


class ExactRegression(RowRegression):
    """Exact, by the method that fits."""

    _laid_out: weakref.ref[FrozenRegression] | None = None  # what was frozen last, as long as somebody reads it

    def __init__(
        self,
        settings: RegressionSettings,
        history: History,
        known: Mapping[int, SimilarityChoice] | None = None,
        ready: Coming | None = None,
    ) -> None:
        """``known`` choices of similarities need not be made again, nor a regression that is ``ready``."""
        self._known, self._ready = known, ready
        super().__init__(settings, history)

    def _build(self) -> None:
        terms, history = self.settings.terms, self.history
        steps = any(t.similarity.steps for t in terms)
        self._feature_rows: float | None = None  # rows from which on feature space pays, once known
        self._tracker = TermsTracker(terms, history, self._known) if steps else None
        self._given = self._settled()
        self._coming: Coming | None = None
        self._begun = 0  # rows at which the work on it began
        method, ready, self._ready = self._pick(), self._ready, None
        if ready is not None and method is AppendRegression and ready.is_for(self._given.terms.matrices(history)):
            self._core: RowRegression = ready.arrived(history)
        else:
            self._core = method(self._given, history)

    def _settled(self) -> RegressionSettings:
        """The settings with the matrices in force for similarities that change in steps."""
        if self._tracker is None:
            return self.settings
        return dataclasses.replace(self.settings, terms=self.settings.terms.settled(self._tracker.matrices))

    def _pick(self) -> type[RowRegression]:
        if self.settings.memory is not None:  # rows leave, or their noise changes with each: nothing to reuse
            return DenseRegression
        t = len(self.history)
        if self._feature_rows is None and t:
            self._feature_rows = FeatureRegression.pays_from(self._given, self.history)
        if self._feature_rows is not None and t >= self._feature_rows:
            return FeatureRegression
        if AppendRegression.fits(self._given):
            return AppendRegression
        return DenseRegression if t < SMALL else LadderRegression

    def to_data(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The rows, and the choices made from them, which would cost much to make again."""
        data, arrays = super().to_data()
        kept = self._tracker is not None and not any(_has_function(t.context_kernel) for t in self.settings.terms)
        for i, choice in (self._tracker.latest if kept and self._tracker is not None else {}).items():
            told, numbers = choice.to_data()
            data.setdefault("choices", {})[str(i)] = told
            arrays |= {f"choice_{i}_{name}": array for name, array in numbers.items()}
        return data, arrays

    def _restored(self, history: History, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        known = {
            int(i): SimilarityChoice.of_data(told, {n: arrays[f"choice_{i}_{n}"] for n in ("candidates", "matrix")})
            for i, told in data.get("choices", {}).items()
            if told["rule"] == RULE
        }
        return type(self)(self.settings, history, known)

    @property
    def similarity_matrices(self) -> list[Matrix]:
        return self._core.similarity_matrices

    def _absorb(self, start: int) -> None:
        before, moved = self._core, self._follow(start)
        wanted = self._pick()
        if type(self._core) is wanted and not moved:
            self._core._absorb(start)
        elif (
            moved
            and wanted is AppendRegression
            and self._coming is not None
            and self._coming.is_for(self._matrices())
        ):
            self._core = self._coming.arrived(self.history)
        else:
            self._core = wanted(self._given, self.history)
        if isinstance(self._core, AppendRegression) and isinstance(before, AppendRegression):
            self._core.kept = before.kept  # of contexts alone, whatever the similarity
        self._prepare()

    def _matrices(self) -> list[Matrix]:
        return [] if self._tracker is None else self._tracker.matrices

    def _prepare(self) -> None:
        """Work on the regression for the similarity that is chosen but not yet in force."""
        found = None if self._tracker is None else self._tracker.coming
        if found is None or not isinstance(self._core, AppendRegression):
            self._coming = None
            return
        force, matrices = found
        rows = len(self.history)
        if self._coming is None or not self._coming.is_for(matrices):
            pays, self._begun = Coming.pays(self.settings, matrices, rows), rows
            self._coming = Coming(self.settings, matrices, self.history.n_arms, force) if pays else None
        if self._coming is not None:
            self._coming.advance(self.history, elapsed(rows, self._begun, force))

    def _follow(self, start: int) -> bool:
        """Whether a similarity that changes in steps has changed with the rows from ``start`` on."""
        if self._tracker is None:
            return False
        before = self._tracker.matrices
        self._tracker.observe(start)
        pairs = zip(before, self._tracker.matrices, strict=True)
        if all(new is old or np.array_equal(new, old) for old, new in pairs):
            return False
        self._given, self._feature_rows = self._settled(), None
        return True

    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        return self._core.leaders(query, exploration, tolerance)

    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        return self._core._posterior(query)

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        return self._core._covariance(arms, contexts)

    @property
    def grows(self) -> bool:
        """Whether a round costs the more the more rows there are; in feature space it does not."""
        return not isinstance(self._core, FeatureRegression)

    def frozen(self) -> Regression:
        if self.settings.memory is not None or not self.grows:  # feature space is read as it is, and has no t x t
            return self.copy()
        last = None if self._laid_out is None else self._laid_out()
        found = FrozenRegression(self.settings, self.history, self.similarity_matrices, self.choices(), last)
        self._laid_out = weakref.ref(found)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_laid_out": None}  # another's

    def choices(self) -> tuple[SimilarityChoice, ...]:
        return () if self._tracker is None else self._tracker.choices

    def dual(self) -> Vector:
        return self._core.dual()

    def log_det(self) -> float:
        return self._core.log_det()

    def report(self) -> dict[str, Any]:
        method = type(self._core).__name__.removesuffix("Regression").lower()
        return {"method": method, "compiled core": compiled.STATE, **self._core.report()}


def _has_function(kernel: Kernel) -> bool:
    """Whether a plain function is in it, which may be another one when the rows are read again."""
    return isinstance(kernel, Foreign) or any(_has_function(part) for part in kernel.parts)
