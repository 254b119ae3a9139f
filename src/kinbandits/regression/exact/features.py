"""Feature space: for kernels with a finite feature map, the cost does not grow with the history.

Notation (the appendix's theta = D^-1 Phi' eta y)
    phi(x)      the context features of a term, side by side for several terms
    F           (N, r)  a root of the similarity, K_arm = F F'
    Phi(a, x)   F[a] x phi(x) (all products), side by side over terms, so that Phi . Phi' is the kernel; D columns
    A           (D, D)  ridge I + sum_i eta_i Phi_i Phi_i',   P = A^-1
    theta       P sum_i eta_i y_i Phi_i
    mean        Phi . theta,     width^2 = Phi' P Phi

Two layouts. Where no arm learns from another (all similarities diagonal), one A per arm on phi alone, with ridge /
K_arm[a, a] on its diagonal: N blocks of d x d. Otherwise one block for all. With uniform weights P follows by
Sherman and Morrison's formula, D^2 a row, and is computed anew from A every now and then; with per_arm weights A is
another after every row, and so is P: D^3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.regression.base import Query, RegressionSettings
from kinbandits.regression.linalg.cholesky import factor
from kinbandits.regression.rows import RowRegression

_RENEW = 32  # rank-one updates of a block before its inverse is computed anew
_STEEP = 1e6  # a rank-one update that shrinks a variance by more than this would lose as many digits
_LARGEST = 256  # blocks up to this size are always worth it
_MEMORY = 2**26  # numbers held in all blocks


class FeatureRegression(RowRegression):
    """Exact for finite feature maps and fixed similarities; flat in t."""

    def _build(self) -> None:
        self._matrices = self.settings.terms.matrices(self.history)
        self._separate = _diagonal(self._matrices)
        self._roots = [_root(K) for K in self._matrices]
        self._renewals = 0
        self._ready = False
        if len(self.history):
            self._absorb(0)

    @staticmethod
    def size(settings: RegressionSettings, history: History) -> tuple[int, int] | None:
        """(blocks, D) if the kernel has a finite feature map and the similarity is fixed, else None."""
        if not len(history) or not all(t.similarity.fixed for t in settings.terms):
            return None
        widths = []
        for term in settings.terms:
            phi = term.context_kernel.features(term.select(history.contexts[:1]))
            if phi is None:
                return None
            widths.append(phi.shape[1])
        matrices = settings.terms.matrices(history)
        if _diagonal(matrices):
            return history.n_arms, sum(widths)
        return 1, sum(w * _root(K).shape[1] for w, K in zip(widths, matrices, strict=True))

    @staticmethod
    def pays_from(settings: RegressionSettings, history: History) -> float:
        """From how many rows on feature space is the cheaper place; infinity if never."""
        size = FeatureRegression.size(settings, history)
        if size is None:
            return math.inf
        sums = history.n_arms if settings.weighting == "per_arm" else size[0]  # S is kept per arm, see `_allocate`
        if max(size[0], sums) * size[1] ** 2 > _MEMORY:
            return math.inf
        return 0.0 if size[1] <= _LARGEST else size[1]

    @property
    def similarity_matrices(self) -> list[Matrix]:
        return self._matrices

    # -- features -------------------------------------------------------------------------------

    def _phi(self, contexts: Matrix) -> list[Matrix]:
        features = [t.context_kernel.features(t.select(contexts)) for t in self.settings.terms]
        return [phi for phi in features if phi is not None]

    def _features(self, arms: Indices, contexts: Matrix) -> Matrix:
        """Phi of each point, (m, D); phi alone where blocks are arms."""
        parts = self._phi(contexts)
        if not self._separate:
            pairs = zip(parts, self._roots, strict=True)
            parts = [np.einsum("ir,id->ird", root[arms], phi).reshape(len(arms), -1) for phi, root in pairs]
        return np.hstack(parts)

    def _priors(self) -> Matrix:
        """The diagonal of A of each block without rows, (blocks, D)."""
        if not self._separate:
            return np.full((1, self._v.shape[1]), self.settings.ridge)
        widths = [phi.shape[1] for phi in self._phi(self.history.contexts[:1])]
        own = [np.tile(K.diagonal()[:, None], w) for K, w in zip(self._matrices, widths, strict=True)]
        return np.asarray(self.settings.ridge / np.maximum(np.hstack(own), 1e-300))

    def _block(self, arms: Indices) -> Indices:
        return arms if self._separate else np.zeros_like(arms)

    # -- learning -------------------------------------------------------------------------------

    def _absorb(self, start: int) -> None:
        h = self.history
        Phi = self._features(h.arms[start:], h.contexts[start:])
        if not self._ready:
            self._allocate(Phi.shape[1])
        arms, rewards = h.arms[start:], h.rewards[start:]
        places = arms if len(self._S) > 1 else np.zeros_like(arms)
        for a in np.unique(places).tolist():
            rows = places == a
            self._S[a] += Phi[rows].T @ Phi[rows]
            self._v[a] += rewards[rows] @ Phi[rows]
        self._n += np.bincount(arms, minlength=len(self._n))
        if len(arms) == 1 and not self._weighted:
            self._rank_one(int(self._block(arms)[0]), Phi[0])
        else:
            for b in np.unique(self._block(arms)).tolist():
                self._renew(b)

    @property
    def _weighted(self) -> bool:
        return self.settings.weighting == "per_arm"

    def _allocate(self, D: int) -> None:
        """S, v, n: sums per arm (one place for all, where weights do not tell arms apart)."""
        n_arms = self.history.n_arms
        blocks = n_arms if self._separate else 1
        keep = n_arms if self._separate or self._weighted else 1
        self._S: Matrix = np.zeros((keep, D, D))
        self._v: Matrix = np.zeros((keep, D))
        self._n = np.zeros(n_arms, dtype=np.intp)
        self._prior_diagonals = self._priors()
        self._P = np.stack([np.diag(1.0 / own) for own in self._prior_diagonals])
        self._theta = np.zeros((blocks, D))
        self._log_dets = np.zeros(blocks)
        self._age = np.zeros(blocks, dtype=np.intp)
        self._ready = True

    def _moments(self, block: int) -> tuple[Matrix, Vector]:
        eta = 1.0 / np.maximum(self._n, 1) if self._weighted else np.ones(len(self._n))
        if self._separate or len(self._S) == 1:
            S, v = eta[block] * self._S[block], eta[block] * self._v[block]
        else:
            S, v = np.tensordot(eta, self._S, axes=1), eta @ self._v
        return S + np.diag(self._prior_diagonals[block]), v

    def _renew(self, block: int) -> None:
        """P and theta from A: D^3."""
        A, v = self._moments(block)
        L = factor(A)
        P = cho_solve((L, True), np.eye(len(v)), check_finite=False)
        self._P[block] = (P + P.T) / 2.0
        self._theta[block] = cho_solve((L, True), v, check_finite=False)
        self._log_dets[block] = 2.0 * np.log(np.diag(L)).sum() - np.log(self._prior_diagonals[block]).sum()
        self._age[block] = 0
        self._renewals += 1

    def _rank_one(self, block: int, phi: Vector) -> None:
        """P - P phi phi' P / (1 + phi' P phi), and theta = P v: D^2."""
        self._age[block] += 1
        if self._age[block] >= _RENEW:
            self._renew(block)
            return
        P = self._P[block]
        u = P @ phi
        s = 1.0 + float(phi @ u)
        if not s < _STEEP:
            self._renew(block)
            return
        P -= np.outer(u, u / s)
        self._log_dets[block] += np.log(s)
        self._theta[block] = P @ self._v[block]

    # -- numbers --------------------------------------------------------------------------------

    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        if not self._ready:
            return np.zeros(query.shape), self.settings.width(self._prior(query), np.zeros(1))
        rounds, k = query.shape
        if self._separate and query.shared:
            phi = np.hstack(self._phi(query.contexts[:, 0, :]))  # (R, D)
            P = self._of(query.arms)
            half = (P.reshape(-1, P.shape[2]) @ phi.T).reshape(k, -1, rounds)  # with all inverses at once
            squares = np.einsum("kdr,rd->rk", half, phi)
            return phi @ self._theta[query.arms].T, np.sqrt(np.maximum(squares, 0.0))
        arms, contexts = query.points()
        Phi, blocks = self._features(arms, contexts), self._block(arms)
        mean, square = np.empty(len(arms)), np.empty(len(arms))
        for b in np.unique(blocks).tolist():
            mine = blocks == b
            mean[mine] = Phi[mine] @ self._theta[b]
            square[mine] = np.einsum("ij,ij->i", Phi[mine] @ self._P[b], Phi[mine])
        return mean.reshape(rounds, k), np.sqrt(np.maximum(square, 0.0)).reshape(rounds, k)

    def _of(self, arms: Indices) -> Matrix:
        """The inverses of these arms; no copy where they are all arms in order."""
        everyone = len(arms) == len(self._P) and np.array_equal(arms, np.arange(len(arms)))
        return self._P if everyone else self._P[arms]

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        if not self._ready:
            return self.settings.terms.gram(self._matrices, arms, contexts, arms, contexts)
        Phi, blocks = self._features(arms, contexts), self._block(arms)
        covariance = np.zeros((len(arms), len(arms)))
        for b in np.unique(blocks).tolist():
            mine = np.flatnonzero(blocks == b)
            covariance[np.ix_(mine, mine)] = self.settings.ridge * (Phi[mine] @ self._P[b] @ Phi[mine].T)
        return covariance

    def dual(self) -> Vector:
        """M^-1 y = (y - mean) / noise at the rows."""
        h = self.history
        if not len(h):
            return np.zeros(0)
        Phi, blocks = self._features(h.arms, h.contexts), self._block(h.arms)
        return np.asarray((h.rewards - np.einsum("ij,ij->i", Phi, self._theta[blocks])) / self._noise())

    def log_det(self) -> float:
        """log det(A / ridge), summed over blocks."""
        return float(self._log_dets.sum()) if self._ready else 0.0

    def report(self) -> dict[str, Any]:
        if not self._ready:
            return {}
        return {
            "blocks": len(self._P),
            "features": self._P.shape[1],
            "refreshes": self._renewals,
            "bytes": self._P.nbytes,
        }


def _diagonal(matrices: list[Matrix]) -> bool:
    return all(not np.any(K - np.diag(K.diagonal())) for K in matrices)


def _root(K: Matrix) -> Matrix:
    """F with K = F F', of as few columns as K has rank."""
    if _diagonal([K]):
        return np.diag(np.sqrt(K.diagonal()))
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-14 * max(float(values[-1]), 1e-300)
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))
