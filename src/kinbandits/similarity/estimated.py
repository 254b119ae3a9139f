"""The paper's estimated similarity (its section 3.2), and its reward-aware variant.

Notation
    G        (N, N)  G[a, b] = sum of k'(x, x') over rows x of arm a and x' of arm b
    own      (N,)    sum of k'(x, x) over rows of arm a: the pairs of a row with itself
    counts   (N,)    n_a
    D2       (N, N)  squared distances of mean embeddings
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kinbandits import _compiled as compiled
from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import Positive, one_of
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import RBF, Kernel, KernelRule, as_kernel
from kinbandits.similarity.base import Similarity, Tracker, Weighting

_BLOCK = 1024  # rows of kernel values computed at a time


class Estimated(Similarity):
    """The paper's estimate (its section 3.2): arms are alike when they were played in like contexts.

    k_Z(a, b) = exp(-||Psi_a - Psi_b||^2 / (2 length_scale^2)), where Psi_a is the mean of k'(., x) over the
    contexts x in which arm a was played; an arm never played has Psi_a = 0.

    Args:
        length_scale: sigma_Z. Distances of embeddings of a kernel with k'(x, x) = 1 are at most sqrt(2).
        embedding_kernel: k', any kernel on contexts; None takes the context kernel of the policy.
        embed: ``"context"``, the paper; or ``"context_reward"``, which the paper leaves to the future: the rows
            embedded are pairs (x, r), with k'(x, x') exp(-(r - r')^2 / (2 reward_length_scale^2)).
        reward_length_scale: for ``"context_reward"``; None is half the standard deviation of the rewards seen.
        self_pairs: whether pairs of a row with itself count in the squared distance. The paper's plain V-statistic
            has them, and with few rows and a narrow k' they are most of the distance: it then measures counts, not
            contexts. Without them the matrix is made positive semidefinite by cutting negative eigenvalues off.

    >>> history = History.of(2, np.array([0, 1]), np.array([[0.0], [1.0]]), np.array([0.0, 1.0]))
    >>> Estimated(length_scale=1.0).matrix(history).round(4)
    array([[1.    , 0.6747],
           [0.6747, 1.    ]])
    >>> Estimated(length_scale=1.0, embed="context_reward").matrix(history).round(4)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    length_scale: Positive = 1.0
    embedding_kernel: Any = RBF()
    embed: Literal["context", "context_reward"] = "context"
    reward_length_scale: Positive | None = None
    self_pairs: bool = True

    fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.embedding_kernel is not None:
            if isinstance(self.embedding_kernel, KernelRule):
                raise InvalidInputError(
                    "embedding_kernel must not be read off the data; give it a length scale, such as "
                    "kb.RBF.median(contexts), or None for the context kernel of the policy"
                )
            self._set(embedding_kernel=as_kernel(self.embedding_kernel))
        one_of("embed", self.embed, "context", "context_reward")

    def bound(self, context_kernel: Kernel, ridge: float, weighting: Weighting) -> Estimated:
        """With the context kernel as k', if none was given."""
        return self.replace(embedding_kernel=context_kernel) if self.embedding_kernel is None else self

    @property
    def plain(self) -> bool:
        """Whether it is the paper's: contexts alone, self pairs included."""
        return self.embed == "context" and self.self_pairs

    def matrix(self, history: History) -> Matrix:
        """From all pairs of rows: t^2 kernel values."""
        G = np.zeros((history.n_arms, history.n_arms))
        own = np.zeros(history.n_arms)
        rows_of = {a: np.flatnonzero(history.arms == a) for a in np.flatnonzero(history.counts).tolist()}
        for a, rows in rows_of.items():
            own[a] = self.kernel.diag(history.contexts[rows]).sum()
            for b, others in rows_of.items():
                G[a, b] = self.values(history, rows, others).sum()
        return self.from_sums(G, history.counts, own)

    @property
    def kernel(self) -> Kernel:
        if self.embedding_kernel is None:
            raise InvalidInputError(
                "Estimated(embedding_kernel=None) takes the context kernel of its policy; alone it has none"
            )
        kernel: Kernel = self.embedding_kernel
        return kernel

    def values(self, history: History, rows: Any, others: Any, K: Matrix | None = None) -> Matrix:
        """k' of these rows of the history with those others; ``K`` holds its values on contexts, if known."""
        if K is None:
            K = self.kernel(history.contexts[rows], history.contexts[others])
        if self.embed == "context":
            return K
        scale = self.reward_length_scale or float(history.rewards.std()) / 2.0 or 1.0  # all equal: any will do
        r = history.rewards / scale
        return np.asarray(K * np.exp(-0.5 * (r[rows, None] - r[None, others]) ** 2))

    def from_sums(self, G: Matrix, counts: NDArray[Any], own: Matrix | None = None) -> Matrix:
        """The similarity matrix from the sums G of embedding-kernel values and the counts."""
        if compiled.CORE is not None and self.self_pairs and counts.dtype == np.intp:
            K = np.empty(G.shape)
            compiled.CORE.alike(G, counts, -0.5 / self.length_scale**2, K)
            return K
        return self._of_distances(self._distances(G, counts, own), self.length_scale)

    def scaled(self, history: History, scales: Sequence[float], K: Matrix | None) -> list[tuple[float, Matrix]]:
        """exp(-c D2 / median of D2) for each scale c, the median over pairs of arms that were played."""
        played = np.flatnonzero(history.counts)
        if len(played) < 2:
            return []
        everyone = slice(None)
        values = self.values(history, everyone, everyone, K)
        order = np.argsort(history.arms, kind="stable")
        in_order = values if (np.diff(history.arms) >= 0).all() else values[np.ix_(order, order)]
        starts = np.searchsorted(history.arms[order], played)
        sums = np.add.reduceat(np.add.reduceat(in_order, starts, axis=0), starts, axis=1)
        G = np.zeros((history.n_arms, history.n_arms))
        G[np.ix_(played, played)] = sums
        own = np.bincount(history.arms, weights=values.diagonal(), minlength=history.n_arms).astype(np.float64)
        D2 = self._distances(G, history.counts, own)
        median = float(np.median(D2[np.ix_(played, played)][np.triu_indices(len(played), k=1)]))
        if not median > 0.0:
            return []
        return [(c, self._of_distances(D2, np.sqrt(median / (2.0 * c)))) for c in scales]

    def _distances(self, G: Matrix, counts: NDArray[Any], own: Matrix | None) -> Matrix:
        return embedding_distances(G, counts, None if self.self_pairs else own)

    def _of_distances(self, D2: Matrix, length_scale: float) -> Matrix:
        K = np.exp(D2 / (-2.0 * length_scale**2))
        return K if self.self_pairs else nearest_similarity(K)

    def tracker(self, history: History) -> Tracker:
        """Keeps G; a new row costs one row of kernel values. A reward scale read off the data costs t^2 a row."""
        if self.embed == "context_reward" and self.reward_length_scale is None:
            return Tracker(self, history)
        return _EstimatedTracker(self, history)


class CountOnly(Similarity):
    """What `Estimated` becomes when its kernel k' finds no two contexts alike: k_Z knows counts, and no contexts.

    k_Z(a, b) = exp(-(1/n_a + 1/n_b) / (2 length_scale^2)), with 0 for 1/n of an arm never played. Use it to see
    whether an estimate says anything about contexts: if this control does as well, it does not.

    Args:
        length_scale: as that of `Estimated`.

    >>> history = History.of(2, np.array([0, 0, 1]), np.zeros((3, 1)), np.zeros(3))
    >>> CountOnly(length_scale=1.0).matrix(history).round(4)
    array([[1.    , 0.4724],
           [0.4724, 1.    ]])
    """

    length_scale: Positive = 1.0

    fixed: ClassVar[bool] = False

    def matrix(self, history: History) -> Matrix:
        counts = history.counts
        inverse = np.where(counts > 0, 1.0 / np.maximum(counts, 1), 0.0)
        K = np.exp(-(inverse[:, None] + inverse[None, :]) / (2.0 * self.length_scale**2))
        np.fill_diagonal(K, 1.0)
        return np.asarray(K)


class _EstimatedTracker(Tracker):
    def __init__(self, similarity: Estimated, history: History) -> None:
        super().__init__(similarity, history)
        self._estimated = similarity
        self._G = np.zeros((history.n_arms, history.n_arms))
        self._own = np.zeros(history.n_arms)
        self._counts = np.zeros(history.n_arms, dtype=np.intp)
        self.observe(0)

    @property
    def matrix(self) -> Matrix:
        if self._matrix is None:
            self._matrix = self._estimated.from_sums(self._G, self._counts, self._own)
        return self._matrix

    def observe(self, start: int, squares: Matrix | None = None) -> None:
        # Rows are added one by one in order, so that G is the same to the last bit however they arrived;
        # kernel values come in blocks, so that bulk data need no t x t matrix.
        arms, kernel = self._history.arms, self._estimated.kernel
        G, own, counts = self._G.copy(), self._own.copy(), self._counts.copy()  # a failure leaves no trace
        add = _embed if compiled.CORE is None else compiled.CORE.embed
        for low in range(start, len(arms), _BLOCK):
            high = min(low + _BLOCK, len(arms))
            K = None if squares is None else kernel.from_squares(squares[None, :])
            if K is None or self._estimated.embed != "context":
                K = self._estimated.values(self._history, slice(low, high), slice(0, high), K)
                K = np.ascontiguousarray(K, dtype=np.float64)
            for i in range(low, high):
                add(G, own, counts, arms, K[i - low], i)
        self._G, self._own, self._counts, self._matrix = G, own, counts, None


def _embed(G: Matrix, own: Vector, counts: Indices, arms: Indices, row: Vector, n: int) -> None:
    """Row n of the history, by its embedding-kernel values with rows 0 to n."""
    a = arms[n]
    sums = np.bincount(arms[: n + 1], weights=row[: n + 1], minlength=len(G))
    G[a] += sums
    sums[a] -= row[n]  # the pair of a row with itself stands once in G
    G[:, a] += sums
    own[a] += row[n]
    counts[a] += 1


def embedding_distances(G: Matrix, counts: NDArray[Any], own: Matrix | None = None) -> Matrix:
    """Squared distances of mean embeddings, ||Psi_a||^2 - 2 <Psi_a, Psi_b> + ||Psi_b||^2, from their sums.

    With ``own``, the sums over pairs of a row with itself, these are left out of the norms (an arm with one row
    has no other pair, and keeps it).

    >>> embedding_distances(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1, 0]))
    array([[0., 1.],
           [1., 0.]])
    """
    n = np.maximum(counts, 1.0)
    inner = G + G.T
    inner /= 2.0 * (n[:, None] * n)
    norms = inner.diagonal()
    if own is not None:
        pairs = np.maximum(n * (n - 1.0), 1.0)
        norms = np.where(n > 1.0, (np.diag(G) - own) / pairs, norms)
    distances = norms[:, None] - 2.0 * inner
    distances += norms
    distances.flat[:: len(n) + 1] = 0.0
    return np.maximum(distances, 0.0, out=distances)


def nearest_similarity(K: Matrix) -> Matrix:
    """K with negative eigenvalues cut off, and its diagonal back at 1.

    >>> nearest_similarity(np.array([[1.0, 0.5], [0.5, 1.0]])).round(6)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    values, vectors = np.linalg.eigh((K + K.T) / 2.0)
    if values[0] < 0.0:
        K = (vectors * np.maximum(values, 0.0)) @ vectors.T
        root = np.sqrt(np.maximum(K.diagonal(), 1e-12))
        K = K / np.outer(root, root)
    K = np.clip((K + K.T) / 2.0, -1.0, 1.0)
    np.fill_diagonal(K, 1.0)
    return K
