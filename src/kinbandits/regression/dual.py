"""The state of a nearly solved regression: the dual vector, its residual, and products with M.

Play needs only the argmax (`ladder`), and numbers only when they are read; both start from here.

Notation (besides `base`, `strips`, `blocks`)
    alpha    (t,)    dual vector, near M^-1 y
    res      (t,)    y - M alpha
    eta      bound on sqrt(res' M^-1 res): M >= diag(noise), so eta^2 = sum res_i^2 / noise_i
    lift     1 / noise, per arm

Rounding. u = 2^-53. A sum of n products has error at most n u sum |x_i y_i|. From that:
    Y        `drift` bounds |Y - K_context alpha| in every entry; each change of alpha adds to it, and Y is computed
             anew when drift matters
    res      `_rounding` of the residual: drift, and (N + 4) u times the terms it is summed from
    mean     `_floor`, (t + N) u times kernel bound times ||alpha||_1
These enter eta and the intervals of the ladder, which so hold for exact arithmetic on the same data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg.blas import dasum

from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import cdist
from kinbandits.regression.base import Indices, Matrix, Query, Regression, Ridge, Vector
from kinbandits.regression.blocks import UNIT
from kinbandits.regression.linalg import backward, factor, forward
from kinbandits.regression.probe import Probe
from kinbandits.regression.reference import ArmsReference, FactorReference, Reference
from kinbandits.regression.strips import Rows, Strips
from kinbandits.terms import TermsTracker

_MAX_CG = 40
_BULK = 32  # more rows than this at once are a fresh start, not single updates


class DualRegression(Regression):
    """A dual vector that follows the history; numbers to rounding when they are read."""

    def __init__(self, settings: Ridge, history: History) -> None:
        if settings.memory is not None and settings.memory.decay != 1.0:
            raise InvalidInputError(
                f'engine="lagged" cannot follow memory={settings.memory!r}, which changes the noise of every row '
                'with each new one; use engine="exact" or "budgeted"'
            )
        super().__init__(settings, history)
        self._tracker = TermsTracker(settings.terms, history)
        one = np.zeros((1, 1))
        self._stationary = any(
            t.columns is None and t.context_kernel.from_squares(one) is not None for t in settings.terms
        )
        self._K_arms = self._tracker.matrices
        self._counters: Counter[str] = Counter()
        self._largest_residual = 0.0
        self._build()

    # -- state ----------------------------------------------------------------------------------

    @property
    def similarity_matrices(self) -> list[Matrix]:
        return self._K_arms

    def _build(self) -> None:
        """Everything from the history; the dual vector starts at zero."""
        h = self.history
        t, n_arms = len(h), h.n_arms
        self._rows = Rows(n_arms)
        for i, a in enumerate(h.arms.tolist()):
            self._rows.append(a, i)
        self._strips = [Strips(n_arms) for _ in self.settings.terms]
        self._kernel_bound = 0.0
        self._every_arm = np.arange(n_arms)
        self._row_sum = n_arms * float(max(K.diagonal().max() for K in self._K_arms))
        self._ones = 0.0
        self._largest_reward = float(np.abs(h.rewards).max(initial=0.0))
        for term, strips in zip(self.settings.terms, self._strips, strict=True):
            if t:
                X = term.select(h.contexts)
                strips.fill(self._rows, term.context_kernel(X, X))
        if t:
            for term, K_arm in zip(self.settings.terms, self._K_arms, strict=True):
                own = term.context_kernel.diag(term.select(h.contexts))
                self._kernel_bound += float(own.max()) * max(1.0, float(K_arm.diagonal().max()))
        capacity = max(256, 2 * t)
        self._alpha_buffer: Vector = np.zeros(capacity)
        self._Y_buffers: list[Matrix] = [np.zeros((n_arms, capacity)) for _ in self._strips]
        self._drift = 0.0
        self._gathered: Vector = np.empty(0)
        self._choose_reference()
        self._forget()

    def _choose_reference(self) -> None:
        """Block-diagonal while the similarity is well away from singular, else a lagged full factor."""
        arms = ArmsReference(self)
        self._reference: Reference = arms if self._blocks_fit(arms) else FactorReference(self)

    def _blocks_fit(self, arms: ArmsReference) -> bool:
        """Whether one block per arm is the better reference; asked again when the history has grown by 30 %."""
        t = len(self.history)
        self._spread = arms.spread() if t else 1.0
        self._next_check = int(1.3 * t) + 64
        return self._spread <= 20.0 and self.history.n_arms * 16 <= max(t, 1)

    def _forget(self) -> None:
        """What was computed for the present rows is no longer valid."""
        counts = self._rows.counts
        self._arm_noise = self.settings.noise(self._every_arm, np.maximum(counts, 1))
        self._arm_lift = 1.0 / self._arm_noise  # M^-1 <= diag(lift)
        self._lift_root = math.sqrt(counts @ self._arm_lift)
        self._largest_noise = float(self._arm_noise.max())
        self._noise_now: Vector | None = None
        self._res: Vector | None = None
        self._eta = 0.0
        self._dense_factor: tuple[Matrix, Vector] | None = None
        self._asked: tuple[Matrix, list[Matrix], Matrix | None] | None = None

    @property
    def counts(self) -> Indices:
        """Rows per arm, n_a (a view)."""
        return self._rows.counts

    @property
    def noise(self) -> Vector:
        """What is added to the diagonal of K, row by row."""
        if self._noise_now is None:
            self._noise_now = np.take(self._arm_noise, self.history.arms)
        return self._noise_now

    @property
    def alpha(self) -> Vector:
        """The dual vector as it stands (a view)."""
        return self._alpha_buffer[: len(self.history)]

    def _sums(self, term: int) -> Matrix:
        return self._Y_buffers[term][:, : len(self.history)]

    def _absorb(self, start: int) -> None:
        end = len(self.history)
        kept, squares = self._kept_rows(start) if end - start == 1 else (None, None)
        self._tracker.observe(start, squares)
        self._K_arms = self._tracker.matrices
        if end - start > _BULK:
            self._build()
            return
        X = self.history.contexts
        rows = kept or [t.context_kernel(t.select(X[start:]), t.select(X)) for t in self.settings.terms]
        for i in range(start, end):
            self._append(i, [K[i - start, : i + 1] for K in rows])
        self._forget()
        if end >= self._next_check:
            self._recheck_reference()

    def _recheck_reference(self) -> None:
        current = self._reference if isinstance(self._reference, ArmsReference) else None
        if self._blocks_fit(current or ArmsReference(self)) != (current is not None):
            self._choose_reference()

    def _kept_rows(self, start: int) -> tuple[list[Matrix] | None, Vector | None]:
        """Kernel values and squared distances of the new row, if it is a candidate of the last query."""
        if self._asked is None:
            return None, None
        contexts, kx, squares = self._asked
        x = self.history.contexts[start]
        for c, candidate in enumerate(contexts):
            if (candidate == x).all():
                return [k[c : c + 1] for k in kx], None if squares is None else squares[c]
        return None, None

    def _append(self, i: int, values: list[Vector]) -> None:
        a = int(self.history.arms[i])
        if i >= len(self._alpha_buffer):
            self._grow(2 * len(self._alpha_buffer))
        self._rows.append(a, i)
        alpha, arms = self._alpha_buffer[:i], self.history.arms[:i]
        self._alpha_buffer[i] = 0.0
        prior = own = 0.0
        n = int(self._rows.counts[a]) - 1
        kin = []  # kernel values with the arm's earlier rows, per term
        for term, (strips, K) in enumerate(zip(self._strips, values, strict=True)):
            kin.append(self._rows.part(strips.append(self._rows, a, K), a, n))
            sums = np.bincount(arms, weights=K[:i] * alpha, minlength=self.history.n_arms)
            self._Y_buffers[term][:, i] = sums
            own = float(self._K_arms[term][a, a])
            prior += max(1.0, own) * float(K[i])
        self._kernel_bound = max(self._kernel_bound, prior)
        self._row_sum = max(self._row_sum, self.history.n_arms * own)
        self._largest_reward = max(self._largest_reward, abs(float(self.history.rewards[i])))
        self._drift = max(self._drift, i * UNIT * self._kernel_bound * self._ones)
        self._reference.append(i, a, values, kin)

    def _grow(self, capacity: int) -> None:
        grown = np.zeros(capacity)
        grown[: len(self._alpha_buffer)] = self._alpha_buffer
        self._alpha_buffer = grown
        for term, buffer in enumerate(self._Y_buffers):
            wider = np.zeros((len(buffer), capacity))
            wider[:, : buffer.shape[1]] = buffer
            self._Y_buffers[term] = wider

    # -- products -------------------------------------------------------------------------------

    def kernel_block(self, a: int) -> Matrix:
        """The kernel among the rows of arm a, (n_a, n_a); a new array."""
        rows = self._rows[a]
        block = np.zeros((len(rows), len(rows)))
        for strips, K_arm in zip(self._strips, self.similarity_matrices, strict=True):
            block += K_arm[a, a] * strips.strip(a, len(rows))[:, rows]
        return block

    def kernel_matrix(self, K_arms: list[Matrix]) -> Matrix:
        """The kernel among all rows with these similarity matrices, (t, t); a new array."""
        arms = self.history.arms
        total = np.zeros((len(arms), len(arms)))
        for strips, K_arm in zip(self._strips, K_arms, strict=True):
            K = strips.dense(self._rows)
            K *= K_arm[np.ix_(arms, arms)]
            total += K
        return total

    def times_matrix(self, V: Matrix) -> Matrix:
        """M V for V (t, m), strip by strip; arms that V does not touch are left out."""
        h = self.history
        out = self.noise[:, None] * V
        touched = np.bincount(h.arms, weights=np.abs(V).sum(axis=1), minlength=h.n_arms) > 0
        some = not touched[h.arms].all()
        columns = np.flatnonzero(touched[h.arms]) if some else None
        for strips, K_arm in zip(self._strips, self.similarity_matrices, strict=True):
            for a in range(h.n_arms):
                rows = self._rows[a]
                if not len(rows) or not K_arm[a, touched].any():
                    continue
                strip = strips.strip(a, len(rows))
                if columns is None:
                    out[rows] += strip @ (K_arm[a, h.arms][:, None] * V)
                else:
                    out[rows] += strip[:, columns] @ (K_arm[a, h.arms[columns]][:, None] * V[columns])
        return out

    def _residual(self) -> Vector:
        """res, and with it eta; computed once per state, then kept up to date by the steps."""
        if self._res is None:
            self._compute_residual()
            if self._drift_matters():
                self._recompute_sums()
        assert self._res is not None
        return self._res

    def _compute_residual(self) -> None:
        h = self.history
        res = h.rewards - self.noise * self.alpha
        for term, K_arm in enumerate(self.similarity_matrices):
            shape = (h.n_arms, len(h))
            if self._gathered.size < shape[0] * shape[1]:
                self._gathered = np.empty(2 * shape[0] * shape[1])
            spread = self._gathered[: shape[0] * shape[1]].reshape(shape)  # K_arm[:, arms], in memory kept for it
            np.take(K_arm, h.arms, axis=1, out=spread, mode="clip")
            res -= np.einsum("bi,bi->i", self._sums(term), spread)
        self._res = res
        self._ones = dasum(self.alpha)
        self._measure()

    def _measure(self) -> None:
        """eta: what the residual and the rounding in it can do to a mean; and each arm's share of it."""
        assert self._res is not None
        h = self.history
        squares = np.bincount(h.arms, weights=self._res * self._res, minlength=h.n_arms)
        self._shares = squares * self._arm_lift
        summed = self._largest_reward + (2.0 * self._kernel_bound + self._largest_noise) * self._ones
        entry = len(self._strips) * self._row_sum * self._drift + (h.n_arms + 4) * UNIT * summed
        self._eta = math.sqrt(self._shares.sum()) + entry * self._lift_root
        self._floor = (len(self._res) + h.n_arms) * UNIT * self._kernel_bound * self._ones
        self._rounding = entry

    def _drift_matters(self) -> bool:
        """Whether computing Y anew would make a difference: its own error is n u as well."""
        fresh = len(self.history) * UNIT * self._kernel_bound * self._ones
        return self._drift * self._lift_root > 1e-8 and self._drift > 32.0 * fresh

    def _recompute_sums(self) -> None:
        """Y from its definition: t^2. The error is that of one sum."""
        for term, strips in enumerate(self._strips):
            for b in range(self.history.n_arms):
                rows = self._rows[b]
                if len(rows):
                    self._sums(term)[b] = self.alpha[rows] @ strips.strip(b, len(rows))
        self._ones = float(np.abs(self.alpha).sum())
        self._drift = len(self.history) * UNIT * self._kernel_bound * self._ones
        self._counters["Y recomputed"] += 1
        self._compute_residual()

    def _change_alpha(self, arm: int, d: Vector) -> None:
        """alpha += d on the rows of one arm; Y and res follow: n_a t."""
        h, rows = self.history, self._rows[arm]
        assert self._res is not None
        self._alpha_buffer[rows] += d
        size = dasum(d)
        for term, (strips, K_arm) in enumerate(zip(self._strips, self.similarity_matrices, strict=True)):
            z = d @ strips.strip(arm, len(rows))
            self._sums(term)[arm] += z
            z *= np.take(K_arm[:, arm], h.arms)
            self._res -= z
        self._res[rows] -= self._arm_noise[arm] * d
        self._ones += size
        self._drift += UNIT * self._kernel_bound * ((len(rows) + 2) * size + self._ones)

    def conjugate_gradients(self, k: Matrix) -> Iterator[tuple[Matrix, Matrix, Vector]]:
        """(V, k - M V, R' B^-1 R) for M V = k, column by column, preconditioned by the reference."""
        V, R = np.zeros_like(k), k.copy()
        Z = self._reference.apply(R)
        rho = np.einsum("ij,ij->j", R, Z)
        D = Z.copy()
        for step in range(_MAX_CG):
            MD = self.times_matrix(D)
            curvature = np.einsum("ij,ij->j", D, MD)
            a = np.divide(rho, curvature, out=np.zeros_like(rho), where=curvature > 0)
            V += a * D
            R = k - self.times_matrix(V) if step % 8 == 7 else R - a * MD
            Z = self._reference.apply(R)
            fresh = np.maximum(np.einsum("ij,ij->j", R, Z), 0.0)
            yield V, R, fresh
            ratio = np.divide(fresh, rho, out=np.zeros_like(rho), where=rho > 0)
            D = Z + ratio * D
            rho = fresh

    def _probe(self, query: Query) -> Probe:
        X, flat = self.history.contexts, query.contexts[0]
        t = len(X)
        squares: Matrix | None = None
        if self._stationary:
            squares = np.zeros((len(flat), t + 1))  # last, the distance to itself
            squares[:, :t] = cdist(flat, X, "sqeuclidean")
        rows = []
        prior = np.zeros(len(query.arms))
        for term, K_arm in zip(self.settings.terms, self.similarity_matrices, strict=True):
            kernel = term.context_kernel
            K = kernel.from_squares(squares) if squares is not None and term.columns is None else None
            if K is None:
                K = np.empty((len(flat), t + 1))
                K[:, :t], K[:, t] = kernel(term.select(flat), term.select(X)), kernel.diag(term.select(flat))
            rows.append(K)
            prior += K_arm.diagonal()[query.arms] * K[:, t]
        self._asked = (flat, rows, squares)  # what a new row needs, if it is one of these
        return Probe(query, [K[:, :t] for K in rows], self.similarity_matrices, self.history.arms, prior)

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
