"""Similarity matrices followed in constant memory.

A similarity that does not depend on the data is its matrix, and others are computed from the rows kept. `Estimated`
needs G[a, b], the sum of k'(x, x') over rows of a and b; where one of a pair is no longer kept, k' is replaced by
random features:

    G = Psi Psi' + Delta,    Psi[a] = sum of phi(x) over rows of arm a,    Delta = (exact - features) of the pairs
                             that were both kept when the first row was let go.

So k_Z is exact until then, does not jump there, and the error of phi enters slowly. phi(x) = sqrt(1/F) (cos, sin)
of F random frequencies: phi(x) . phi(x) = k'(x, x) exactly, so the self-pairs of the V-statistic carry no error,
and the standard error of any squared distance is its standard deviation over the frequencies over sqrt(F): `error`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.kernels import Kernel
from kinbandits.similarity import Estimated, Similarity, Stepwise
from kinbandits.terms import Term

FREQUENCIES = 256
_SEED = 20171204  # of the frequencies: the same for every policy, so that a policy's decisions repeat


class Follower:
    """A similarity that never changes, or is read off the rows kept (at milestones, if it changes in steps)."""

    def __init__(self, similarity: Similarity, n_arms: int) -> None:
        self._similarity = similarity
        self.exact = similarity.fixed
        self._stepwise = similarity if isinstance(similarity, Stepwise) else None
        self._milestone = 0
        self._matrix = similarity.matrix(History(n_arms)) if similarity.fixed else np.eye(n_arms)

    def moves(self, counts: Indices) -> bool:
        """Whether the matrix may be another than when it was last asked for."""
        if self._stepwise is not None:
            return self._stepwise.milestone(int(counts.sum())) != self._milestone
        return not self.exact

    def prepare(self, context: Vector, arms: Indices, contexts: Matrix) -> Matrix | None:
        """What a new row needs, given the rows kept, before anything changes."""
        return None

    def observe(self, arm: int, prepared: Matrix | None, sign: float = 1.0) -> None:
        """A row of ``arm`` came (sign 1), or left a window (sign -1; prepared against the others that stay)."""

    def observe_block(self, arms: Indices, contexts: Matrix, low: int, high: int) -> None:
        """Rows ``low`` to ``high`` of these came, after those before them, at once."""

    def let_go(self) -> None:
        """A row is about to be dropped from those kept though it still counts."""

    def matrix(self, counts: Indices, kept: Callable[[], History]) -> Matrix:
        """The similarity matrix."""
        if self._stepwise is not None:
            n = self._stepwise.milestone(int(counts.sum()))
            if n != self._milestone:
                self._matrix, self._milestone = self._stepwise.choice(kept()).matrix, n
        elif not self.exact:
            self._matrix = self._similarity.matrix(kept())
        return self._matrix

    def error(self, counts: Indices) -> float:
        """A standard error of it, where there is one."""
        return 0.0

    def to_arrays(self) -> dict[str, Matrix]:
        if self._stepwise is None:
            return {}
        return {"matrix": self._matrix, "milestone": np.array([float(self._milestone)])}

    def restore(self, arrays: dict[str, Matrix]) -> None:
        if self._stepwise is not None:
            self._matrix, self._milestone = arrays["matrix"].copy(), int(arrays["milestone"][0])


class EmbeddingFollower(Follower):
    """`Estimated`: exact while all rows are kept, then by random features."""

    def __init__(self, similarity: Estimated, n_arms: int, n_features: int) -> None:
        super().__init__(similarity, n_arms)
        self._estimated = similarity
        self.features = FeatureMap(similarity.embedding_kernel, n_features)
        self._Psi = np.zeros((n_arms, self.features.size))
        self._G: Matrix | None = np.zeros((n_arms, n_arms))  # exact sums, while all rows are kept
        self._Delta = np.zeros((n_arms, n_arms))

    def prepare(self, context: Vector, arms: Indices, contexts: Matrix) -> Matrix:
        """The features of a new row, then (while all rows are kept) its kernel sums with each arm."""
        phi: Vector = self.features(context[None, :])[0]
        if self._G is None:
            return phi
        sums = np.zeros(len(self._Psi) + 1)
        sums[-1] = self._estimated.embedding_kernel.diag(context[None, :])[0]
        if len(arms):
            k = self._estimated.embedding_kernel(context[None, :], contexts)[0]
            sums[:-1] = np.bincount(arms, weights=k, minlength=len(self._Psi))
        return np.concatenate([phi, sums])

    def observe(self, arm: int, prepared: Matrix | None, sign: float = 1.0) -> None:
        assert prepared is not None
        self._Psi[arm] += sign * prepared[: self.features.size]
        if self._G is not None:
            sums, own = prepared[self.features.size : -1], prepared[-1]
            self._G[arm] += sign * sums
            self._G[:, arm] += sign * sums
            self._G[arm, arm] += sign * own

    def observe_block(self, arms: Indices, contexts: Matrix, low: int, high: int) -> None:
        of_arm = (arms[:high] == np.arange(len(self._Psi))[:, None]).astype(np.float64)  # (N, rows)
        self._Psi += of_arm[:, low:] @ self.features(contexts[low:high])
        if self._G is not None:
            K = self._estimated.embedding_kernel(contexts[low:high], contexts[:high])
            sums = of_arm[:, low:] @ K
            before = sums[:, :low] @ of_arm[:, :low].T
            self._G += before + before.T + sums[:, low:] @ of_arm[:, low:].T

    def let_go(self) -> None:
        """Features from here on."""
        if self._G is not None:
            self._Delta, self._G = self._G - self._Psi @ self._Psi.T, None

    def matrix(self, counts: Indices, kept: Callable[[], History]) -> Matrix:
        G = self._Psi @ self._Psi.T + self._Delta if self._G is None else self._G
        matrix: Matrix = self._estimated.from_sums(G, counts)
        return matrix

    def error(self, counts: Indices) -> float:
        """The largest standard error of a squared distance of two embeddings (of at most 50 arms)."""
        if self._G is not None:
            return 0.0
        means = (self._Psi / np.maximum(counts, 1)[:, None])[np.argsort(-counts)[:50]]
        worst = 0.0
        for a in range(len(means)):
            worst = max(worst, self.features.standard_error((means[:a] - means[a]) ** 2))
        return worst

    def with_arm(self) -> None:
        self._Psi = np.vstack([self._Psi, np.zeros((1, self.features.size))])
        self._Delta = np.pad(self._Delta, (0, 1))
        self._G = None if self._G is None else np.pad(self._G, (0, 1))

    def without_arm(self, arm: int) -> None:
        self._Psi = np.delete(self._Psi, arm, axis=0)
        self._Delta = without(self._Delta, arm)
        self._G = None if self._G is None else without(self._G, arm)

    def to_arrays(self) -> dict[str, Matrix]:
        exact = {} if self._G is None else {"G": self._G}
        return {"Psi": self._Psi, "Delta": self._Delta, **exact}

    def restore(self, arrays: dict[str, Matrix]) -> None:
        self._Psi, self._Delta, self._G = arrays["Psi"].copy(), arrays["Delta"].copy(), arrays.get("G")
        self._G = None if self._G is None else self._G.copy()


class FeatureMap:
    """phi with phi(x) . phi(x') near k(x, x'): explicit where the kernel has features, else random."""

    def __init__(self, kernel: Kernel, n_features: int) -> None:
        self._kernel = kernel
        self._random = kernel.features(np.zeros((1, n_features))) is None
        if self._random:
            found = kernel.frequencies(FREQUENCIES, n_features, np.random.default_rng(_SEED))
            assert found is not None  # see `has_features`
            self._frequencies, self._amplitude = found
        self.size = self(np.zeros((1, n_features))).shape[1]

    def __call__(self, X: Matrix) -> Matrix:
        """(rows, size)."""
        if not self._random:
            return np.asarray(self._kernel.features(X))
        angles = X @ self._frequencies.T
        scale = self._amplitude / math.sqrt(len(self._frequencies))
        return np.asarray(np.hstack([np.cos(angles), np.sin(angles)]) * scale)

    def standard_error(self, squares: Matrix) -> float:
        """The largest standard error of a sum over features, given its terms (rows, size)."""
        if not self._random or not len(squares):
            return 0.0
        F = len(self._frequencies)
        per_frequency = F * (squares[:, :F] + squares[:, F:])
        return float(per_frequency.std(axis=1).max() / math.sqrt(F))


def has_features(kernel: Kernel, n_features: int) -> bool:
    """Whether `FeatureMap` knows this kernel."""
    if kernel.features(np.zeros((1, n_features))) is not None:
        return True
    return kernel.frequencies(1, n_features, np.random.default_rng(_SEED)) is not None


def make_follower(term: Term, n_arms: int, n_features: int) -> Follower:
    """What follows the similarity of this term."""
    similarity, columns = term.similarity, n_features if term.columns is None else len(term.columns)
    if not isinstance(similarity, Estimated) or not similarity.plain:
        return Follower(similarity, n_arms)
    known = has_features(similarity.embedding_kernel, columns)
    return EmbeddingFollower(similarity, n_arms, columns) if known else Follower(similarity, n_arms)


def without(matrix: Matrix, arm: int) -> Matrix:
    """A matrix over arms, without one of them."""
    return np.delete(np.delete(matrix, arm, axis=0), arm, axis=1)
