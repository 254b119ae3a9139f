"""``engine="auto"``: exact while that is affordable, then budgeted.

From `CHANGEOVER` rows on a budgeted model is built of all of them, in pieces of bounded work, one with each row
learned (`budgeted.build`); then it catches up, some rows with each, and until then the exact engine answers. Pieces
are counted, not timed: a replay, a copy and a loaded policy change over at the same row with the same model. Many
rows at once that lead past the change are learned by the budgeted engine alone.

Kernels with a finite feature map stay exact: their cost does not grow. A similarity that changes in steps stays as
it is then.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.base import Regression, RegressionSettings
from kinbandits.regression.budgeted import BudgetedRegression, Model, Sliced, built, largest_budget
from kinbandits.regression.exact import ExactRegression
from kinbandits.regression.exact.features import FeatureRegression
from kinbandits.terms import TermsTracker

CHANGEOVER = 5000  # rows: the paper's longest experiments (T = 4000) stay exact
LEAST_BUDGET = 1000
MANY = 1000  # rows at once, or beyond the change, that are learned as a block
CATCH_UP = 4  # rows that the new model learns with each row
MOST_SUMS = 2**22  # numbers of sums per arm: what a refresh reads at once


class Change:
    """A budgeted model on its way, built of ``rows`` rows; it knows ``taught`` of them, once built."""

    def __init__(self, settings: RegressionSettings, history: History, rows: int, pieces: int = 0) -> None:
        self.settings, self.rows, self.taught = settings, rows, rows
        n_arms, arms, contexts, rewards = history.n_arms, history.arms, history.contexts, history.rewards

        def start() -> Any:
            model = Model(settings, n_arms, contexts.shape[1])
            return built(model, arms[:rows].copy(), contexts[:rows].copy(), rewards[:rows].copy())

        self._build: Sliced[Model] = Sliced(start)
        self._model: Model | None = None
        for _ in range(pieces):
            self.advance(history)

    @property
    def pieces(self) -> int:
        return self._build.pieces

    def advance(self, history: History) -> Model | None:
        """A piece more; the model, once it knows the whole history."""
        if self._model is None:
            self._model = self._build.advance()
            return None
        self.teach(history, min(self.taught + CATCH_UP, len(history)))
        return self._model if self.taught == len(history) else None

    def teach(self, history: History, rows: int) -> None:
        """The model, which is built, learns up to this many rows."""
        assert self._model is not None
        for i in range(self.taught, rows):
            self._model.learn(int(history.arms[i]), history.contexts[i].copy(), float(history.rewards[i]))
        self.taught = rows


class AutoRegression(ExactRegression):
    """The exact engine, which makes a budgeted one ``ready`` when it has many rows: see `changed_over`."""

    ready: BudgetedRegression | None = None
    _change: Change | None = None
    _stays = False  # nobody took what was ready

    @property
    def changeover(self) -> int:
        return CHANGEOVER if self.settings.changeover is None else self.settings.changeover

    def _build(self) -> None:
        self.ready, self._change = None, None
        if len(self.history) > self.changeover + MANY:
            settings = self._budgeted(self.history)
            if not stays_exact(settings, self.history):
                self.ready = BudgetedRegression(settings, self.history)
                return
        super()._build()

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: int = False) -> None:
        self._stays |= self.ready is not None
        if not self._stays and self._hurried(len(arms)):
            grown = self.history.copy()
            grown.append(arms, contexts, rewards, own_contexts)
            settings = self._budgeted(grown)
            if not stays_exact(settings, grown):
                self.ready = BudgetedRegression(settings, grown)
                return
        found = None if self._stays else self._advanced()
        if found is None:
            super().observe(arms, contexts, rewards, own_contexts)
        else:
            found.observe(arms, contexts, rewards, own_contexts)
            self.ready, self._change = found, None

    def one_by_one(self, more: int) -> bool:
        """Whether these rows take part in a change: each is a piece of it if it is learned alone."""
        beyond = len(self.history) + more > self.changeover
        return beyond and self.settings.memory is None and self.grows and not (self._stays or self._hurried(more))

    def _hurried(self, more: int) -> bool:
        """Whether these many rows more may be learned as a block, the exact engine being dearer."""
        if len(self.history) + more <= self.changeover:
            return False
        memory = self.settings.memory
        return more > MANY if memory is None else memory.rows is None

    def _advanced(self) -> BudgetedRegression | None:
        if self._change is None:
            if len(self.history) <= self.changeover or self.settings.memory is not None or not self.grows:
                return None
            self._change = Change(self._budgeted(self.history), self.history, len(self.history))
        try:
            model = self._change.advance(self.history)
        except BaseException:
            self._change = None  # begins again
            raise
        if model is None:
            return None
        return BudgetedRegression(self._change.settings, History(self.history.n_arms), model)

    def _budgeted(self, history: History) -> RegressionSettings:
        terms = self.settings.terms
        if any(t.similarity.steps for t in terms):
            known = history is self.history and len(history) <= self.changeover + MANY
            rows = min(len(history), self.changeover)
            matrices = self.similarity_matrices if known else TermsTracker(terms, history.head(rows)).matrices
            terms = terms.settled(matrices)
        return budgeted_settings(dataclasses.replace(self.settings, terms=terms), history.n_arms)

    def to_data(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        data, arrays = super().to_data()
        if self._change is not None:
            change = self._change
            data["change"] = {"rows": change.rows, "pieces": change.pieces, "taught": change.taught}
            matrices = enumerate(change.settings.terms.matrices(History(self.history.n_arms)))
            steps = [t.similarity.steps for t in self.settings.terms]
            arrays |= {f"change_{p}": K for p, K in matrices if steps[p]}
        return data, arrays

    def _restored(self, history: History, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        other = super()._restored(history, data, arrays)
        told = data.get("change")
        if told is not None:
            terms = self.settings.terms
            matrices = [arrays.get(f"change_{p}") for p in range(len(terms))]
            settings = dataclasses.replace(self.settings, terms=terms.settled(matrices))  # type: ignore[arg-type]
            settings = budgeted_settings(settings, history.n_arms)
            other._change = Change(settings, history, told["rows"], told["pieces"])
            if told["taught"] > told["rows"]:
                other._change.teach(history, told["taught"])
        return other


def changed_over(regression: Regression) -> Regression:
    """The regression to go on with: itself, or the budgeted one that it has made ready."""
    if isinstance(regression, AutoRegression) and regression.ready is not None:
        return regression.ready
    return regression


def stays_exact(settings: RegressionSettings, history: History) -> bool:
    """Whether the exact engine's cost does not grow with the rows."""
    rows = FeatureRegression.pays_from(settings, history)
    return rows is not None and len(history) >= rows


def budgeted_settings(settings: RegressionSettings, n_arms: int, points: int = 0) -> RegressionSettings:
    """The settings after the change: the points asked for (of "auto", `LEAST_BUDGET` at least), if they fit."""
    budget = max(settings.budget, LEAST_BUDGET) if settings.changeover is None else settings.budget
    return dataclasses.replace(
        settings, budget=max(points, min(budget, largest_budget(settings, n_arms, MOST_SUMS)))
    )
