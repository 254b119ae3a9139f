"""Batch multi-task regression with the same kernel: a scikit-learn estimator. Needs scikit-learn.

The kernel between distributions of Blanchard, Lee and Scott (2011), k((P, x), (Q, x')) = k_Z(P, Q) k_X(x, x') with
k_Z a Gaussian of the distance of mean embeddings: a task that was not fitted is predicted from the rows of X alone.
Notation as in `regression.contract`; a task is an arm.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kinbandits._types import Indices, Matrix
from kinbandits._value import one_of, positive
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import RBF, as_kernel
from kinbandits.regression import make
from kinbandits.regression.contract import Product, Settings
from kinbandits.similarity import Estimated, Similarity


class MultiTaskKernelRidge(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel ridge regression on pairs (task, x), from batches of rows of several tasks.

    Args:
        context_kernel: k_X; None is RBF with the median distance of the rows.
        similarity: k_Z; None is ``Estimated(length_scale=1.0, embedding_kernel=None)``, the mean-embedding kernel
            with k_X as the kernel of the embeddings. Any other similarity that is not `Learned` will do.
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

    def fit(self, X: ArrayLike, y: ArrayLike, tasks: Any = None) -> Self:
        """Learn rows X (n, d) with answers y (n,), of ``tasks`` (n,) names; all of one task if left out."""
        rows, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        one_of("weighting", self.weighting, "per_arm", "uniform")
        self.tasks_, arms = np.unique(_names(tasks, len(rows)), return_inverse=True)
        self._alone, N = tasks is None, len(self.tasks_)
        self._kernel = RBF.median(rows) if self.context_kernel is None else as_kernel(self.context_kernel)
        self._kernel.check_features(rows.shape[1])
        similarity = Estimated(1.0, None) if self.similarity is None else self.similarity
        similarity.check_arms(N)
        self._similarity = similarity.with_kernel(self._kernel) if isinstance(similarity, Estimated) else similarity
        self._history = History.of(N, arms.astype(np.intp), rows, np.asarray(y, dtype=np.float64))
        terms = (Product(self._similarity.in_force(N), self._kernel),)
        settings = Settings(N, terms, positive("ridge", self.ridge), self.weighting, "borrow")
        regression = make("exact", settings, self._history.copy())
        self.dual_coef_ = np.array(regression.dual()[2])
        self.similarity_ = np.array(regression.k_z[0])
        return self

    def predict(self, X: ArrayLike, tasks: Any = None) -> Matrix:
        """Answers for rows X (n, d) of ``tasks`` (n,) names.

        Rows of a task that was not fitted are a sample of it, which its embedding is made of. Without ``tasks`` all
        rows are of one such task (or of the only one).
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        if self._alone and tasks is not None:
            raise InvalidInputError("the model was fitted without tasks=, so predict takes none; fit it with them")
        arms, k_z = self._place(rows, tasks)
        h = self._history
        K = k_z[np.ix_(arms, h.arms)] * self._kernel(rows, h.contexts)
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
        try:
            self._similarity.check_arms(n + more)
        except ValueError as error:
            raise InvalidInputError(
                f"{type(self._similarity).__name__} does not know tasks that were not fitted"
            ) from error
        everyone, new = self._history.copy(n + more), arms >= n
        everyone.append(arms[new], X[new], np.zeros(int(new.sum())))
        return arms, self._similarity.matrix(everyone)


def _names(tasks: Any, rows: int) -> NDArray[Any]:
    names = np.zeros(rows, dtype=int) if tasks is None else np.asarray(tasks)
    if names.shape != (rows,):
        raise InvalidInputError(f"tasks must have one name per row: {rows} rows, but shape {names.shape}")
    if names.dtype.kind not in "iuUSO":
        raise InvalidInputError(f"tasks must be names (str or int), got an array of {names.dtype}")
    return names
