"""A nearly solved regression, and its numbers to rounding when they are read.

Play needs only the argmax (`ladder`), and numbers only when they are read; both start from the dual vector of
`state`, whose notation is used here. Numbers come from conjugate gradients, or from a fresh Cholesky factor where
many are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.regression.base import Query
from kinbandits.regression.linalg import backward, factor, forward
from kinbandits.regression.state import DualState

_MAX_CG = 40


class DualRegression(DualState):
    """A dual vector that follows the history; numbers to rounding when they are read."""

    def conjugate_gradients(
        self, k: Matrix, first: Matrix | None = None
    ) -> Iterator[tuple[Matrix, Matrix, Vector | None]]:
        """(V, k - M V, R' B^-1 R) for M V = k, column by column, preconditioned by the reference.

        ``first`` is B^-1 k if it is known. Where B^-1 costs as much as a product with M, R' B^-1 R is left out.
        """
        V, R = np.zeros_like(k), k.copy()
        Z = self._reference.apply(R) if first is None else first
        rho = np.einsum("ij,ij->j", R, Z)
        D = Z.copy()
        for step in range(_MAX_CG):
            MD = self.times_matrix(D)
            curvature = np.einsum("ij,ij->j", D, MD)
            a = np.divide(rho, curvature, out=np.zeros_like(rho), where=curvature > 0)
            V += a * D
            R = k - self.times_matrix(V) if step % 8 == 7 else R - a * MD
            if self._reference.apply_is_a_pass:
                yield V, R, None
            Z = self._reference.apply(R)
            fresh = np.maximum(np.einsum("ij,ij->j", R, Z), 0.0)
            if not self._reference.apply_is_a_pass:
                yield V, R, fresh
            ratio = np.divide(fresh, rho, out=np.zeros_like(rho), where=rho > 0)
            D = Z + ratio * D
            rho = fresh

    # -- numbers --------------------------------------------------------------------------------

    def _posterior(self, query: Query) -> tuple[Matrix, Matrix]:
        points = query.shape[0] * query.shape[1]
        t = len(self.history)
        if self._dense_factor is None and query.shape[0] == 1 and t > 400 and points * 30 < t:
            refined = self._refined_posterior(query)
            if refined is not None:
                return refined
        mean, explained = self._dense_moments(query)
        return mean, self.settings.width(self._prior(query), explained)

    def _refined_posterior(self, query: Query) -> tuple[Matrix, Matrix] | None:
        """Mean and width of one round by conjugate gradients, to rounding; None if they do not get there."""
        probe = self._probe(query)
        noise = self.noise
        if not self._refine():
            return None
        k = probe.columns(np.arange(len(query.arms)))
        for V, R, _ in self.conjugate_gradients(k):
            remainder = (R**2 / noise[:, None]).sum(axis=0)
            q = np.einsum("ij,ij->j", V, k + R)
            if (remainder <= 1e-12 * np.maximum(probe.prior - q, 1e-4 * probe.prior)).all():
                width = self.settings.width(probe.prior, q)
                return probe.dot(self.alpha)[None, :], width[None, :]
        return None

    def _refine(self) -> bool:
        """Bring the dual vector to M^-1 y, up to rounding."""
        noise = self.noise
        goal = 1e-13 * float(np.sqrt((self.history.rewards**2 / noise).sum())) + 1e-300
        for _ in range(4):
            res = self._residual()
            if float(np.sqrt((res**2 / noise).sum())) <= goal:
                return True
            d = None
            for V, R, _ in self.conjugate_gradients(res[:, None].copy()):
                d = V[:, 0]
                if float(np.sqrt((R[:, 0] ** 2 / noise).sum())) <= 0.3 * goal:
                    break
            if d is None:
                return False
            self._alpha_buffer[: len(d)] += d
            self._recompute_sums()
        return float(np.sqrt((self._residual() ** 2 / noise).sum())) <= 10.0 * goal

    def _factor(self) -> tuple[Matrix, Vector]:
        """A fresh Cholesky factor of M, and L^-1 y: the definition of the answer."""
        if self._dense_factor is None:
            M = self.kernel_matrix(self.similarity_matrices)
            M[np.diag_indices_from(M)] += self.noise
            self._counters["dense factors"] += 1
            L = factor(M)
            self._dense_factor = (L, forward(L, self.history.rewards))
        return self._dense_factor

    def _cross(self, arms: Indices, contexts: Matrix) -> Matrix:
        h = self.history
        return self.settings.terms.gram(self.similarity_matrices, h.arms, h.contexts, arms, contexts)

    def _dense_moments(self, query: Query) -> tuple[Matrix, Matrix]:
        """Mean and k' M^-1 k of every candidate, from the fresh factor."""
        if not len(self.history):
            return np.zeros(query.shape), np.zeros(query.shape)
        L, z = self._factor()
        c = forward(L, self._cross(*query.points()))
        return (c.T @ z).reshape(query.shape), np.einsum("ij,ij->j", c, c).reshape(query.shape)

    def _covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        gram = self.settings.terms.gram(self.similarity_matrices, arms, contexts, arms, contexts)
        if not len(self.history):
            return gram
        c = forward(self._factor()[0], self._cross(arms, contexts))
        return gram - c.T @ c

    def dual(self) -> Vector:
        """M^-1 y."""
        if not len(self.history):
            return np.zeros(0)
        if self._dense_factor is None and self._refine():
            return self.alpha.copy()
        L, z = self._factor()
        return backward(L, z)

    def log_det(self) -> float:
        """2 sum log L_ii - sum log noise."""
        if not len(self.history):
            return 0.0
        return float(2.0 * np.log(np.diag(self._factor()[0])).sum() - np.log(self.noise).sum())

    def report(self) -> dict[str, Any]:
        """What the ladder did until now."""
        return {
            "reference": self._reference.name,
            "condition bound": self._spread,
            **dict(sorted(self._counters.items())),
            **self._reference.report(),
            "largest residual": self._largest_residual,
            "bytes": sum(s.nbytes for s in self._strips)
            + sum(y.nbytes for y in self._Y_buffers)
            + self._reference.nbytes
            + (self._dense_factor[0].nbytes if self._dense_factor else 0),
        }
