"""The next regression, built a little with each row while the present one answers.

A similarity that changes in steps says some rows ahead what it will be (`StepTracker.coming`). A factor for the new
matrix costs t^3 / 3; spread over those t / 16 rows it costs each about five times an ordinary update.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from kinbandits._types import Matrix
from kinbandits.history import History
from kinbandits.regression.base import RegressionSettings
from kinbandits.regression.exact.append import AppendRegression

_WORTH = 300  # rows below which a fresh factor costs nothing worth spreading


class Coming:
    """A regression for these matrices, to be in force from ``force`` rows on."""

    def __init__(self, settings: RegressionSettings, matrices: list[Matrix], n_arms: int, force: int) -> None:
        self.matrices, self._force = matrices, force
        self._settings = dataclasses.replace(settings, terms=settings.terms.settled(matrices))
        self._regression = AppendRegression(self._settings, History(n_arms))

    @staticmethod
    def pays(settings: RegressionSettings, matrices: list[Matrix], rows: int) -> bool:
        """Whether it is worth the trouble, and this method the one to use."""
        settled = dataclasses.replace(settings, terms=settings.terms.settled(matrices))
        return rows >= _WORTH and AppendRegression.fits(settled)

    def advance(self, history: History, share: float) -> None:
        """Learn as many rows as make equal work of each call, when this share of the time is gone."""
        self._learn(history, min(len(history), int(self._force * share ** (1.0 / 3.0))))

    def arrived(self, history: History) -> AppendRegression:
        """The regression, with all rows of ``history`` learned, which it follows from now on."""
        self._learn(history, len(history))
        self._regression.history = history
        return self._regression

    def is_for(self, matrices: list[Matrix]) -> bool:
        """Whether it is made for these matrices."""
        return all(np.array_equal(mine, K) for mine, K in zip(self.matrices, matrices, strict=True))

    def _learn(self, history: History, size: int) -> None:
        known = self._regression.history
        start = len(known)
        if size > start:
            rows = slice(start, size)
            known.append(history.arms[rows], history.contexts[rows], history.rewards[rows])
            self._regression._absorb(start)
