"""Feature space: for kernels with a finite feature map, fixed similarities and uniform weights. Flat in t.

Notation (the appendix's theta = D^-1 Phi' eta y)
    phi(x)      the context features of a term, side by side for several terms
    F           (N, r)  a root of the similarity, K_Z = F F'
    Phi(a, x)   F[a] x phi(x) (all products), side by side over terms, so that Phi . Phi' is the kernel; D columns
    A           (D, D)  ridge I + S,  S = sum_i Phi_i Phi_i';   P = A^-1
    theta       P v,  v = sum_i y_i Phi_i
    mean        Phi . theta,     width^2 = Phi' P Phi

Two layouts. Where no arm learns from another (all similarities diagonal), one A per arm on phi alone, with ridge /
K_Z[a, a] on its diagonal: a block of d x d for each arm with rows. Otherwise one block for all. P follows a row by
Sherman and Morrison's formula, D^2, and is computed anew from A every now and then.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.contract import Common, Query, Settings
from kinbandits.regression.linalg import factor, lower_inverse, room_for
from kinbandits.regression.pairs import InForce, Pairs, dense, diagonal
from kinbandits.regression.posterior import RowPosterior

_RENEW = 32  # rank-one updates of a block before its inverse is computed anew
_STEEP = 1e6  # a rank-one update that shrinks a variance by more than this would lose as many digits
_LARGEST = 256  # blocks up to this size are always worth it
_MEMORY = 2**26  # numbers held in all blocks


class Linear(RowPosterior):
    """Exact for finite feature maps."""

    @staticmethod
    def pays_from(settings: Settings, contexts: Matrix) -> float:
        """From how many rows on feature space is the cheaper place; infinity if never. Contexts: at least one."""
        features = [t.kernel.features(t.select(contexts[:1])) for t in settings.terms] if settings.growing else [None]
        widths = [phi.shape[1] for phi in features if phi is not None]
        if len(widths) < len(features):
            return math.inf
        K_Zs = Pairs.fixed(settings).K_Zs
        separate = all(map(_is_diagonal, K_Zs))
        D = (
            sum(widths)
            if separate
            else sum(
                width * (K.n_arms if isinstance(K, Common) and K.shared != 1.0 else _root(K).shape[1])
                for width, K in zip(widths, K_Zs, strict=True)
            )
        )
        if (settings.n_arms if separate else 1) * D**2 > _MEMORY:
            return math.inf
        return 0.0 if D <= _LARGEST else D

    def _build(self) -> None:
        n = self.settings.n_arms
        self.pairs = Pairs.fixed(self.settings)
        self._separate = all(map(_is_diagonal, self.pairs.K_Zs))
        self._roots = [] if self._separate else [_root(K) for K in self.pairs.K_Zs]
        self._slot = np.full(n, -1) if self._separate else np.zeros(n, dtype=np.intp)  # block of each arm
        self._used = 0
        self._S: Matrix = np.zeros((0, 0, 0))
        if len(self._rows):
            self._absorb(0, self._compared(0))

    # -- features -------------------------------------------------------------------------------

    def _phi(self, contexts: Matrix) -> list[Matrix]:
        features = [t.kernel.features(t.select(contexts)) for t in self.settings.terms]
        return [phi for phi in features if phi is not None]

    def _features(self, arms: Indices, contexts: Matrix) -> Matrix:
        """Phi of each point, (m, D); phi alone where blocks are arms."""
        parts = self._phi(contexts)
        if not self._separate:
            pairs = zip(parts, self._roots, strict=True)
            parts = [np.einsum("ir,id->ird", root[arms], phi).reshape(len(arms), -1) for phi, root in pairs]
        return np.hstack(parts)

    def _compared(self, start: int) -> Matrix:
        """Phi of the new rows."""
        return self._features(self._rows.arms[start:], self._rows.contexts[start:])

    # -- learning -------------------------------------------------------------------------------

    def _absorb(self, start: int, news: Any) -> None:
        Phi: Matrix = news
        arms, y = self._rows.arms[start:], self.settings.learned(self._rows.rewards[start:])
        new = arms[self._slot[arms] < 0] if self._separate else arms[: 0 if self._used else 1]
        for arm in np.unique(new).tolist():
            self._open(arm, Phi.shape[1])
        slots = self._slot[arms]
        for s in np.unique(slots).tolist():
            rows = slots == s
            self._S[s] += Phi[rows].T @ Phi[rows]
            self._v[s] += y[rows] @ Phi[rows]
            if len(arms) > 1:
                self._renew(s)
        if len(arms) == 1:
            self._rank_one(int(slots[0]), Phi[0])

    def _open(self, arm: int, D: int) -> None:
        """A block for this arm, or for all."""
        s = self._used
        if not s:
            self._S, self._P = np.zeros((0, D, D)), np.zeros((0, D, D))
            self._v, self._theta, self._own = np.zeros((0, D)), np.zeros((0, D)), np.zeros((0, D))
            self._log_dets, self._age = np.zeros(0), np.zeros(0)
        for name in ("_S", "_P", "_v", "_theta", "_own", "_log_dets", "_age"):
            setattr(self, name, room_for(getattr(self, name), s + 1))
        self._own[s] = self.settings.ridge
        if self._separate:
            self._slot[arm] = s
            widths = [phi.shape[1] for phi in self._phi(self._rows.contexts[:1])]
            scale = [float(diagonal(K, np.array([arm]))[0]) for K in self.pairs.K_Zs]
            self._own[s] /= np.maximum(np.repeat(scale, widths), 1e-300)
        self._P[s] = np.diag(1.0 / self._own[s])
        self._used += 1

    def _renew(self, s: int) -> None:
        """P and theta from A: D^3."""
        L, _ = factor(self._S[s] + np.diag(self._own[s]))
        T = lower_inverse(L)
        self._P[s] = T.T @ T
        self._theta[s] = T.T @ (T @ self._v[s])
        self._log_dets[s] = 2.0 * np.log(L.diagonal()).sum() - np.log(self._own[s]).sum()
        self._age[s] = 0

    def _rank_one(self, s: int, phi: Vector) -> None:
        """P - P phi phi' P / (1 + phi' P phi), and theta = P v: D^2."""
        self._age[s] += 1
        P = self._P[s]
        u = P @ phi
        grows = 1.0 + float(phi @ u)
        if self._age[s] >= _RENEW or not grows < _STEEP:
            self._renew(s)
            return
        P -= np.outer(u, u / grows)
        self._log_dets[s] += np.log(grows)
        self._theta[s] = P @ self._v[s]

    # -- numbers --------------------------------------------------------------------------------

    def _moments(self, query: Query, prior: Matrix) -> tuple[Matrix, Matrix]:
        mean, variance = np.zeros(query.shape), prior.copy()
        warm = np.flatnonzero(self._slot[query.arms] >= 0)
        arms = query.arms[warm]
        if not len(arms):
            return mean, variance
        contexts = query.contexts if query.shared else query.contexts[:, warm]
        slots: Indices | slice = slice(0, 1)
        if self._separate:  # candidate by candidate, (k or 1, R, D), all blocks at once
            slots = self._slot[arms]
            Phi = np.hstack(self._phi(contexts.reshape(-1, contexts.shape[2])))
            Phi = Phi.reshape(len(contexts), -1, Phi.shape[1]).swapaxes(0, 1)
        else:
            Phi = self._features(*Query(arms, contexts).points())[None]
        P, theta = self._P[slots], self._theta[slots]
        half, Phi = Phi @ P, np.broadcast_to(Phi, (len(P), *Phi.shape[1:]))
        q = self.settings.ridge * np.einsum("krd,krd->kr", half, Phi)
        found = np.stack([np.einsum("krd,kd->kr", Phi, theta), q])
        if self._separate:
            found = found.swapaxes(1, 2)
        mean[:, warm], variance[:, warm] = found.reshape(2, -1, len(warm))
        return mean, variance

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        covariance = self.pairs.gram(arms, contexts, arms, contexts)
        Phi, slots = self._features(arms, contexts), self._slot[arms]
        for s in np.unique(slots[slots >= 0]).tolist():
            rows = np.flatnonzero(slots == s)
            covariance[np.ix_(rows, rows)] = self.settings.ridge * (Phi[rows] @ self._P[s] @ Phi[rows].T)
        return covariance

    def _weights(self) -> Vector:
        """M^-1 y = (y - mean) / noise at the rows."""
        h = self._rows
        Phi, slots = self._features(h.arms, h.contexts), self._slot[h.arms]
        return np.asarray((self.y - np.einsum("ij,ij->i", Phi, self._theta[slots])) / self.settings.ridge)

    def log_det(self) -> float:
        """log det(A / ridge), summed over blocks."""
        return float(self._log_dets[: self._used].sum()) if self._used else 0.0

    def snapshot(self) -> Self:
        other = super().snapshot()
        other._slot = self._slot.copy()
        if self._used:
            other._P, other._theta = self._P[: self._used].copy(), self._theta[: self._used].copy()
            other._log_dets = self._log_dets.copy()
        return other

    def report(self) -> dict[str, Any]:
        return {"method": "linear", "blocks": self._used}


def _is_diagonal(K_Z: InForce) -> bool:
    if isinstance(K_Z, Common):
        return K_Z.shared == 0.0
    return not np.any(K_Z - np.diag(K_Z.diagonal()))


def _root(K_Z: InForce) -> Matrix:
    """F with K_Z = F F', of as few columns as K_Z has rank."""
    if isinstance(K_Z, Common) and K_Z.shared == 1.0:
        return np.ones((K_Z.n_arms, 1))
    K = dense(K_Z)
    if _is_diagonal(K):
        return np.diag(np.sqrt(K.diagonal()))
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-14 * max(float(values[-1]), 1e-300)
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))
