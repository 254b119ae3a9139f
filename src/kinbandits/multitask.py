"""Batch multi-task regression with the same kernel: a scikit-learn estimator. Needs scikit-learn.

The kernel between distributions of Blanchard, Lee and Scott (2011), k((P, x), (Q, x')) = k_Z(P, Q) k_X(x, x') with
k_Z a Gaussian of the distance of mean embeddings: a task that was not fitted is predicted from the rows of X alone.
Notation as in `regression.base`; a task is an arm.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kinbandits._threads import one_blas_thread
from kinbandits._types import Indices, Matrix
from kinbandits._value import Value, one_of, positive
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import Median
from kinbandits.regression import RegressionSettings
from kinbandits.regression.exact.dense import DenseRegression
from kinbandits.similarity import Estimated, Similarity
from kinbandits.terms import Term, as_terms


class MultiTaskKernelRidge(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel ridge regression on pairs (task, x), from batches of rows of several tasks.

    Args:
        context_kernel: k_X; None is RBF with the median distance of the first 60 rows.
        similarity: k_Z; None is ``Estimated(length_scale=1.0, embedding_kernel=None)``, the mean-embedding kernel
            with k_X as the kernel of the embeddings. Any other similarity of the library will do.
        ridge: lambda.
        weighting: ``"per_arm"``, every task counts alike, however many rows it has (theirs); or ``"uniform"``.

    Fitted: ``tasks_`` (names, sorted), ``similarity_`` (N, N), ``dual_coef_`` (one weight per row),
    ``n_features_in_``.

    >>> from kinbandits.multitask import MultiTaskKernelRidge
    >>> X = np.array([[0.0], [1.0], [5.0], [6.0]])
    >>> model = MultiTaskKernelRidge().fit(X, [0.1, 0.2, 1.0, 1.0], tasks=["a", "a", "b", "b"])
    >>> model.predict([[0.0], [5.0]], tasks=["a", "b"]).round(2)
    array([0.1, 1. ])
    >>> model.predict([[5.0], [6.0]], tasks=["new", "new"]).round(2)
    array([1., 1.])
    """

    def __init__(
        self,
        context_kernel: Any = None,
        similarity: Similarity | None = None,
        ridge: float = 1e-3,
        weighting: Literal["per_arm", "uniform"] = "per_arm",
    ) -> None:
        self.context_kernel = context_kernel
        self.similarity = similarity
        self.ridge = ridge
        self.weighting = weighting

    @one_blas_thread
    def fit(self, X: ArrayLike, y: ArrayLike, tasks: Any = None) -> Self:
        """Learn rows X (n, d) with answers y (n,), of ``tasks`` (n,) names; all of one task if left out."""
        rows, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        one_of("weighting", self.weighting, "per_arm", "uniform")
        names = _names(tasks, len(rows))
        self.tasks_, arms = np.unique(names, return_inverse=True)
        similarity = Estimated(1.0, None) if self.similarity is None else self.similarity
        similarity = similarity.for_arms(self.tasks_.tolist())
        term = Term(similarity, Median() if self.context_kernel is None else self.context_kernel)
        term.check_features(rows.shape[1])
        self._alone = tasks is None
        history = History.of(len(self.tasks_), arms.astype(np.intp), rows, np.asarray(y, dtype=np.float64))
        terms = as_terms(term).fitted(history)
        settings = RegressionSettings(terms, positive("ridge", self.ridge), self.weighting, "borrow")
        regression = DenseRegression(settings, history)
        self.dual_coef_ = np.array(regression.dual())
        self.similarity_ = np.array(regression.similarity_matrices[0])
        self._terms, self._history = settings.terms, history
        return self

    @one_blas_thread
    def predict(self, X: ArrayLike, tasks: Any = None) -> Matrix:
        """Answers for rows X (n, d) of ``tasks`` (n,) names.

        Rows of a task that was not fitted are a sample of it, which its embedding is made of. Without ``tasks`` all
        rows are of one such task (or of the only one).
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        if self._alone and tasks is not None:
            raise InvalidInputError("the model was fitted without tasks=, so predict takes none; fit it with them")
        arms, K_arm = self._place(rows, tasks)
        h = self._history
        K = self._terms.gram([K_arm], arms, rows, h.arms, h.contexts)
        return np.asarray(K @ self.dual_coef_)

    def _place(self, X: Matrix, tasks: Any) -> tuple[Indices, Matrix]:
        """The number of each row's task, new ones after those fitted, and the similarity of all."""
        n = len(self.tasks_)
        if tasks is None:
            arms = np.full(len(X), 0 if self._alone else n, dtype=np.intp)
        else:
            found, place = np.unique(_names(tasks, len(X)), return_inverse=True)
            numbers: dict[Any, int] = {name: i for i, name in enumerate(self.tasks_.tolist())}
            for name in found.tolist():
                numbers.setdefault(name, len(numbers))
            arms = np.array([numbers[name] for name in found.tolist()], dtype=np.intp)[place]
        more = int(arms.max(initial=n - 1)) + 1 - n
        if not more:
            return arms, self.similarity_
        (term,) = self._terms.terms
        similarity = term.similarity
        if isinstance(similarity, Estimated) and similarity.embed != "context":
            raise InvalidInputError("a task that was not fitted has no rewards to embed; use embed='context'")
        try:
            similarity.check_arms(n + more)
        except ValueError as error:
            raise InvalidInputError(
                f"{type(similarity).__name__} does not know tasks that were not fitted"
            ) from error
        h, new = self._history, arms >= n
        everyone = History.of(
            n + more,
            np.concatenate([h.arms, arms[new]]),
            np.concatenate([h.contexts, X[new]]),
            np.concatenate([h.rewards, np.zeros(int(new.sum()))]),
        )
        return arms, similarity.matrix(everyone)

    def set_params(self, **params: Any) -> Self:
        """As scikit-learn's; ``similarity__length_scale=0.5`` replaces the value, which itself never changes."""
        own = {name: value for name, value in params.items() if "__" not in name}
        super().set_params(**own)
        for name, value in params.items():
            if name in own:
                continue
            first, _, rest = name.partition("__")
            held = getattr(self, first, None)
            if isinstance(held, Value):
                setattr(self, first, held.set_params(**{rest: value}))
            else:
                super().set_params(**{name: value})
        return self


def _names(tasks: Any, rows: int) -> NDArray[Any]:
    names = np.zeros(rows, dtype=int) if tasks is None else np.asarray(tasks)
    if names.shape != (rows,):
        raise InvalidInputError(f"tasks must have one name per row: {rows} rows, but shape {names.shape}")
    if names.dtype.kind not in "iuUSO":
        raise InvalidInputError(f"tasks must be names (str or int), got an array of {names.dtype}")
    return names
