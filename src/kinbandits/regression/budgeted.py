"""The budgeted engine: constant cost and constant memory, whatever the number of rows.

`budget_model` has the algebra and learns; here it is read: mean k'w, width^2 = delta / ridge + k' A k. The Nystrom
residual delta stays in the width, or exploration would starve.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.base import Query, Regression, Ridge
from kinbandits.regression.budget_model import BudgetModel
from kinbandits.regression.budget_report import budget_report, warn_if_small
from kinbandits.regression.linalg import low_rank_forms, low_rank_root
from kinbandits.terms import TermsTracker

_CHUNK = 2**22  # numbers in the largest temporary of a prediction


class BudgetedRegression(Regression):
    """A fixed number of dictionary points, whatever the number of rows."""

    def __init__(self, settings: Ridge, history: History) -> None:
        self.settings = settings
        self._n_arms = history.n_arms
        self.model: BudgetModel | None = None  # from the first row on, which settles the number of columns
        self._next_check = 2 * settings.budget  # rows at which the budget is looked at again
        self._K_arms = TermsTracker(settings.terms, History(history.n_arms)).matrices
        self._gap: Matrix | None = None
        self._buffer: Vector = np.empty(settings.budget**2)
        self._root: Matrix | None = None
        self._root_at = -1  # the refresh it belongs to
        self._teach(history.arms, history.contexts, history.rewards, history.forgotten)

    # -- what the contract asks -----------------------------------------------------------------

    @property
    def history(self) -> History:  # type: ignore[override]
        """The rows still kept (the last ones), not all that were learned."""
        return History(self._n_arms) if self.model is None else self.model.kept_history()

    @property
    def n_observations(self) -> int:
        """All rows learned."""
        return 0 if self.model is None else self.model.n

    @property
    def counts(self) -> Indices:
        """Rows per arm: all that were learned, or those in the window."""
        return np.zeros(self._n_arms, dtype=np.intp) if self.model is None else self.model.counts

    @property
    def n_features(self) -> int | None:
        """Columns of a context."""
        return None if self.model is None else self.model.n_features

    @property
    def keeps_all_rows(self) -> bool:
        """Whether the rows learned are all still here."""
        return self.model is None or len(self.model.kept) == self.model.n

    @property
    def similarity_matrices(self) -> list[Matrix]:
        """As of the last refresh."""
        return self._K_arms if self.model is None else self.model.K_arms

    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: bool = False) -> None:
        """Learn rows, one after the other. If a kernel fails, the regression is as it was before."""
        # One row changes nothing before all its kernel values are there; many need a way back, and so does a
        # warning that someone has turned into an error.
        simple = len(arms) == 1 and self.n_observations + 1 < self._next_check
        before = self.model if simple else copy.deepcopy(self.model)
        try:
            self._teach(arms, contexts, rewards)
        except BaseException:
            self.model = before
            raise

    def _absorb(self, start: int) -> None:
        raise NotImplementedError("the budgeted engine has no history to follow")

    def _teach(self, arms: Indices, contexts: Matrix, rewards: Vector, forgotten: int = 0) -> None:
        if not len(arms):
            return
        if self.model is None:
            self.model = BudgetModel(self.settings, self._n_arms, contexts.shape[1])
            self.model.n = forgotten
        model = self.model
        self._gap = None
        for arm, context, reward in zip(arms.tolist(), contexts, rewards.tolist(), strict=True):
            model.learn(arm, context, reward)
        if model.n >= self._next_check and model.size == self.settings.budget:
            self._next_check = 2 * model.n
            warn_if_small(model)

    def with_arm(self, settings: Ridge) -> Self:
        """The same knowledge with one arm more."""
        return self._resettled(settings, self._n_arms + 1, lambda model: model.with_arm(settings))

    def without_arm(self, settings: Ridge, arm: int) -> Self:
        """The same knowledge without this arm and its rows."""
        return self._resettled(settings, self._n_arms - 1, lambda model: model.without_arm(settings, arm))

    def _resettled(self, settings: Ridge, n_arms: int, change: Callable[[BudgetModel], None]) -> Self:
        other = type(self)(settings, History(n_arms))
        other.model = copy.deepcopy(self.model)
        other._next_check = self._next_check
        if other.model is not None:
            change(other.model)
        return other

    # -- reading --------------------------------------------------------------------------------

    def _gap_matrix(self, model: BudgetModel) -> Matrix:
        """P / ridge - A: width^2 = prior / ridge - k' (P / ridge - A) k."""
        if self._gap is None:
            n = model.size
            gap = self._buffer[: n * n].reshape(n, n)
            np.multiply(model.P.matrix, 1.0 / self.settings.ridge, out=gap)
            gap -= model.A.matrix
            self._gap = gap
        return self._gap

    def _low_rank(self, model: BudgetModel) -> Matrix | None:
        """U with K_arm = U U', where that is worth it (many arms, few dimensions)."""
        if len(model.K_arms) > 1:
            return None
        if self._root_at != model.refreshes:
            self._root, self._root_at = low_rank_root(model.K_arms[0]), model.refreshes
        return self._root

    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        prior, model = self._prior(query), self.model
        if model is None or not model.size:
            return np.zeros(query.shape), self.settings.width(prior, np.zeros(1))
        rounds, k = query.shape
        d, gap = model.dictionary, self._gap_matrix(model)
        root = self._low_rank(model) if query.shared else None
        mean, forms = np.zeros(query.shape), np.zeros(query.shape)
        chunk = max(1, _CHUNK // (k * model.size))
        for low in range(0, rounds, chunk):
            part = slice(low, low + chunk)
            X = query.contexts[part]
            values = d.values(X.reshape(-1, X.shape[2]))
            if root is not None:
                mean[part], forms[part] = low_rank_forms(root[query.arms], root[d.arms], values[0], model.w, gap)
                continue
            if query.shared:
                values = np.repeat(values, k, axis=2)
            at_points = d.pairs(model.K_arms, np.tile(query.arms, len(X)), values)
            mean[part] = (model.w @ at_points).reshape(-1, k)
            forms[part] = np.einsum("ij,ij->j", at_points, gap @ at_points).reshape(-1, k)
        return mean, self.settings.width(prior, self.settings.ridge * forms)

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        gram = self.settings.terms.gram(self.similarity_matrices, arms, contexts, arms, contexts)
        model = self.model
        if model is None or not model.size:
            return gram
        k = model.dictionary.pairs(model.K_arms, arms, model.dictionary.values(contexts))
        return np.asarray(gram - self.settings.ridge * (k.T @ self._gap_matrix(model) @ k))

    def dual(self) -> Vector:
        """w: one weight per dictionary point, not per row."""
        return np.zeros(0) if self.model is None else self.model.w

    def log_det(self) -> float:
        """log det(D) - log det(ridge K): that of the rows as the dictionary sees them."""
        if self.model is None or not self.model.size:
            return 0.0
        P, A = self.model.P.matrix, self.model.A.matrix
        signs = np.linalg.slogdet(P / self.settings.ridge)[1] - np.linalg.slogdet(A)[1]
        return float(signs)

    def contributions(self, arm: int, context: Vector) -> Vector:
        """How much of the mean of (arm, context) comes from each arm's rows, (N,).

        D w = v~, so k'w = k'P (v~ - S~ w) / ridge, and v~ and S~ are sums over arms. Pooled sums have no S~ of each
        arm: there the mean is divided by whose rewards it is made of, k' A v~.
        """
        model = self.model
        if model is None or self._cold(np.array([arm])).any():
            return np.zeros(self._n_arms)
        d, n = model.dictionary, model.size
        k = d.pairs(model.K_arms, np.array([arm]), d.values(context[None, :]))[:, 0]
        if model.sums.pooled:
            return np.asarray(model.sums.scale * model.sums.v[:, 0, :n] @ (model.A.matrix @ k))
        solved = model.P.matrix @ k / self.settings.ridge
        q, weights = d.lending(model.K_arms), model.arm_weights()
        lent = np.zeros(self._n_arms)
        for a in np.flatnonzero(weights):
            S, v = model.sums.system(q, np.where(np.arange(self._n_arms) == a, weights, 0.0))
            lent[a] = solved @ (v - S @ model.w)
        return lent

    def report(self) -> dict[str, Any]:
        """How good the dictionary is: see `budget_report`."""
        return budget_report(self)

    # -- saving ---------------------------------------------------------------------------------

    def to_data(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All of it, inverses included, so that a loaded policy makes the same decisions."""
        data = {"n_arms": self._n_arms, "next_check": self._next_check}
        return data, {} if self.model is None else self.model.to_arrays()

    def restored(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """From what `to_data` gave."""
        other = type(self)(self.settings, History(data["n_arms"]))
        other._next_check = int(data["next_check"])
        if "dictionary_contexts" in arrays:
            other.model = BudgetModel(self.settings, data["n_arms"], arrays["dictionary_contexts"].shape[1])
            other.model.restore(arrays)
        return other
