"""The budgeted engine: constant cost and constant memory, whatever the number of rows.

`model` learns; here it is read: mean k'w, width^2 = prior / ridge - k' gap k, with the Nystrom residual.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._work import finished
from kinbandits.errors import InvalidTypeError
from kinbandits.history import History
from kinbandits.regression.base import Query, Regression, RegressionSettings
from kinbandits.regression.budgeted import saved
from kinbandits.regression.budgeted.arms import add_arm, remove_arm
from kinbandits.regression.budgeted.build import built
from kinbandits.regression.budgeted.by_arm import ByArm
from kinbandits.regression.budgeted.model import Model
from kinbandits.regression.budgeted.report import budget_report, warn_if_small
from kinbandits.regression.linalg.cholesky import low_rank_forms, low_rank_root
from kinbandits.terms import TermsTracker

_FEW = 64  # arms up to which means and widths are read off sums over pairs of arms
_CHUNK = 2**22  # numbers in the largest temporary of a prediction


class BudgetedRegression(Regression):
    """A fixed number of dictionary points, whatever the number of rows."""

    def __init__(self, settings: RegressionSettings, history: History, model: Model | None = None) -> None:
        """``model`` has been taught before, and is not copied."""
        self.settings = settings
        self._n_arms = history.n_arms
        self.model = model  # from the first row on, which settles the number of columns
        self._next_check = 2 * settings.budget  # rows at which the budget is looked at again
        self._K_arms = TermsTracker(settings.terms, History(history.n_arms)).matrices
        self._root: Matrix | None = None
        self._root_at = -1  # the refresh it belongs to
        self._by_arm: ByArm | None = None  # of one that only reads
        self._learns = True
        self._teach(history.arms, history.contexts, history.rewards, history.forgotten)
        if len(history):
            self._check()

    # -- what the contract asks -----------------------------------------------------------------

    @property
    def history(self) -> History:  # type: ignore[override]
        """The rows still kept (the last ones), not all that were learned."""
        return History(self._n_arms) if self.model is None else self.model.recent.history(self._n_arms)

    @property
    def n_observations(self) -> int:
        return 0 if self.model is None else self.model.tally.n

    @property
    def counts(self) -> Indices:
        """Rows per arm: all that were learned, or those in the window."""
        return np.zeros(self._n_arms, dtype=np.intp) if self.model is None else self.model.tally.counts

    @property
    def n_features(self) -> int | None:
        return None if self.model is None else self.model.n_features

    @property
    def keeps_all_rows(self) -> bool:
        return self.model is None or len(self.model.recent) == self.model.tally.n

    @property
    def similarity_matrices(self) -> list[Matrix]:
        return self._K_arms if self.model is None else self.model.points.K_arms

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: int = False) -> None:
        """Learn rows, one after the other. If a kernel fails, the regression is as it was before."""
        if len(arms) == 1:  # changes nothing before all its kernel values are there
            if self.n_observations + 1 >= self._next_check:
                self._check()  # before, so that a warning which is turned into an error leaves nothing behind
            self._teach(arms, contexts, rewards)
            return
        before = copy.deepcopy(self.model), self._next_check
        try:
            self._teach(arms, contexts, rewards)
            self._check()
        except BaseException:
            self.model, self._next_check = before
            raise

    def _as_block(self, rows: int) -> bool:
        """Whether so many rows, the first ones, are learned all at once."""
        return self.model is None and rows > max(2 * self.settings.budget, 256)

    def one_by_one(self, more: int) -> bool:
        """Yes: rows leave as others come, so that noise learned with many at once would see other rows."""
        return not self._as_block(more)

    def _teach(self, arms: Indices, contexts: Matrix, rewards: Vector, forgotten: int = 0) -> None:
        if not len(arms):
            return
        model = self.model
        if model is None:
            model = Model(self.settings, self._n_arms, contexts.shape[1])
            model.tally.n = forgotten
            if self._as_block(len(arms)):
                last = slice(0 if model.window is None else max(0, len(arms) - model.window), None)
                model.tally.n += last.start
                model.tally.squares += float(rewards[: last.start] @ rewards[: last.start])
                self.model = finished(built(model, arms[last], contexts[last], rewards[last]))
                return
        for arm, context, reward in zip(arms.tolist(), contexts, rewards.tolist(), strict=True):
            model.learn(arm, context, reward)
        self.model = model

    def _check(self) -> None:
        """Look whether the budget is enough, each time the number of rows has doubled."""
        model = self.model
        if model is not None and self._next_check <= model.tally.n + 1 and model.size == self.settings.budget:
            self._next_check = 2 * (model.tally.n + 1)
            warn_if_small(model)

    def with_arm(self, settings: RegressionSettings) -> Self:
        return self._resettled(settings, self._n_arms + 1, lambda model: add_arm(model, settings))

    def without_arm(self, settings: RegressionSettings, arm: int) -> Self:
        return self._resettled(settings, self._n_arms - 1, lambda model: remove_arm(model, settings, arm))

    def _resettled(self, settings: RegressionSettings, n_arms: int, change: Callable[[Model], None]) -> Self:
        self._check_learns()
        model = copy.deepcopy(self.model)
        if model is not None:
            change(model)
        other = type(self)(settings, History(n_arms), model)
        other._next_check = self._next_check
        return other

    # -- reading --------------------------------------------------------------------------------

    def frozen(self) -> Regression:
        """A copy that only reads, with its points in order of their arms; what learning needs is left behind."""
        model = self.model
        if model is None:
            return self.copy()
        # A refresh would do its pieces again; sums and kept values are most of the memory.
        left: dict[int, Any] = {id(model.refreshing): None, id(model.sums.S): None, id(model.recent._kappa): None}
        left[id(model.posterior._buffer)] = np.empty_like(model.posterior._buffer)
        other = copy.deepcopy(self, left)
        assert other.model is not None
        other.model.sums.v, other.model.tally.unsummed = model.reward_sums(), 0
        other._by_arm, other._learns = ByArm.of(other.model), False
        return other

    def _check_learns(self) -> None:
        if not self._learns:
            raise InvalidTypeError("a frozen policy is only read; save or change the one it came from")

    def _low_rank(self, model: Model) -> Matrix | None:
        """U with K_arm = U U', where that is worth it (many arms, few dimensions)."""
        if len(model.points.K_arms) > 1:
            return None
        if self._root_at != model.tally.refreshes:
            self._root, self._root_at = low_rank_root(model.points.K_arms[0]), model.tally.refreshes
        return self._root

    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        prior, model = self._prior(query), self.model
        if model is None or not model.size:
            return np.zeros(query.shape), self.settings.width(prior, np.zeros(1))
        if self._by_arm is not None and query.shared:
            mean, forms = self._by_arm.read(query)
            return mean, self.settings.width(prior, self.settings.ridge * forms)
        rounds, k = query.shape
        points, posterior = model.points, model.posterior
        if query.shared and rounds == 1 and len(points.K_arms) == 1 and self._n_arms <= _FEW:
            (kx,), (K_arm,) = points.values(query.contexts[0])[0], points.K_arms
            mean, forms = posterior.read(kx, points.arms, K_arm, query.arms)[:, None, :]
            return mean, self.settings.width(prior, self.settings.ridge * forms)
        root = self._low_rank(model) if query.shared else None
        mean, forms = np.zeros(query.shape), np.zeros(query.shape)
        chunk = max(1, _CHUNK // (k * model.size))
        for low in range(0, rounds, chunk):
            part = slice(low, low + chunk)
            X = query.contexts[part]
            values = points.values(X.reshape(-1, X.shape[2]))
            if root is not None:
                U, U_points = root[query.arms], root[points.arms]
                mean[part], forms[part] = low_rank_forms(U, U_points, values[0].T, posterior.w, posterior.gap)
                continue
            if query.shared and k > 1:
                values = np.repeat(values, k, axis=1) if len(X) > 1 else values
            rows = points.pairs(query.arms if len(X) == 1 else np.tile(query.arms, len(X)), values)
            mean[part] = (rows @ posterior.w).reshape(-1, k)
            forms[part] = posterior.forms(rows).reshape(-1, k)
        return mean, self.settings.width(prior, self.settings.ridge * forms)

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        gram = self.settings.terms.gram(self.similarity_matrices, arms, contexts, arms, contexts)
        model = self.model
        if model is None or not model.size:
            return gram
        k = model.points.at(arms, contexts)
        return np.asarray(gram - self.settings.ridge * (k @ model.posterior.gap @ k.T))

    def dual(self) -> Vector:
        """w: one weight per dictionary point, not per row."""
        return np.zeros(0) if self.model is None else self.model.posterior.w

    def log_det(self) -> float:
        """log det(D) - log det(ridge K): that of the rows as the dictionary sees them."""
        if self.model is None or not self.model.size:
            return 0.0
        P, A = self.model.posterior.P, self.model.posterior.A
        signs = np.linalg.slogdet(P / self.settings.ridge)[1] - np.linalg.slogdet(A)[1]
        return float(signs)

    def means(self, query: Query) -> Matrix:
        return self.predict(query).mean

    def contributions(self, arm: int, context: Vector) -> Vector:
        """As w = A v~, and v~ is a sum over arms: each has the part of the mean that its rewards make."""
        model = self.model
        if model is None or self._cold(np.array([arm])).any():
            return np.zeros(self._n_arms)
        points, weights, v = model.points, model.arm_weights(), model.reward_sums()[..., : model.size]
        solved = model.posterior.A @ points.at(np.array([arm]), context[None, :])[0]
        if points.joint:
            return np.asarray(model.sums.scale * v[:, 0] @ solved)
        return np.asarray(model.sums.scale * weights * np.einsum("apn,apn,n->a", points.lending, v, solved))

    def report(self) -> dict[str, Any]:
        return budget_report(self)

    # -- saving ---------------------------------------------------------------------------------

    def to_data(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All of it, inverses included, so that a loaded policy makes the same decisions."""
        self._check_learns()
        data = {"n_arms": self._n_arms, "next_check": self._next_check}
        return data, {} if self.model is None else saved.to_arrays(self.model)

    def restored(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        known = "dictionary_contexts" in arrays
        model = saved.restored(self.settings, data["n_arms"], arrays) if known else None
        other = type(self)(self.settings, History(data["n_arms"]), model)
        other._next_check = int(data["next_check"])
        return other
