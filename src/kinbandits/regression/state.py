"""The state of a nearly solved regression: the dual vector, its residual, and products with M.

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

import numpy as np
from scipy.linalg.blas import dasum

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import cdist
from kinbandits.regression.base import Query, Regression, Ridge
from kinbandits.regression.blocks import UNIT
from kinbandits.regression.probe import Probe
from kinbandits.regression.reference import ArmsReference, Reference
from kinbandits.regression.strips import Rows, Strips
from kinbandits.regression.whole import WholeReference
from kinbandits.terms import TermsTracker

_BULK = 32  # more rows than this at once are a fresh start, not single updates


class DualState(Regression):
    """A dual vector that follows the history, and how wrong it can be."""

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
        """Block-diagonal while the similarity is well away from singular, else the whole M, lagged."""
        arms = ArmsReference(self)
        self._reference: Reference = arms if self._blocks_fit(arms) else WholeReference(self)

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

    def _begin(self, i: int, arm: int, values: list[Vector], factor: float) -> None:
        """alpha of the new last row: its residual times ``factor``. Y follows: t, its kernel values are at hand."""
        error = float(self.history.rewards[i])
        for K_arm, Y in zip(self._K_arms, self._Y_buffers, strict=True):
            error -= float(K_arm[arm] @ Y[:, i])
        g = self._alpha_buffer[i] = factor * error
        for Y, K in zip(self._Y_buffers, values, strict=True):
            Y[arm, : i + 1] += g * K
        self._ones += abs(g)
        self._drift += UNIT * self._kernel_bound * (3.0 * abs(g) + self._ones)

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

    def arranged_kernel_matrix(self, K_arms: list[Matrix]) -> tuple[Matrix, Indices]:
        """The same with rows arm by arm, and which rows these are."""
        arms, n_arms = self.history.arms, self.history.n_arms
        order = np.concatenate([self._rows[a] for a in range(n_arms)])
        arranged, total = arms[order], np.zeros((len(arms), len(arms)))
        start = 0
        for a in range(n_arms):
            n = int(self._rows.counts[a])
            for strips, K_arm in zip(self._strips, K_arms, strict=True):
                total[start : start + n] += np.take(strips.strip(a, n), order, axis=1) * K_arm[a, arranged]
            start += n
        return total, order

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
                    self._sums(term)[b] = strips.times(b, self.alpha[rows])
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
            z = strips.times(arm, d)
            self._sums(term)[arm] += z
            z *= np.take(K_arm[:, arm], h.arms)
            self._res -= z
        self._res[rows] -= self._arm_noise[arm] * d
        self._ones += size
        self._drift += UNIT * self._kernel_bound * ((len(rows) + 2) * size + self._ones)

    def _move_alpha(self, d: Vector) -> None:
        """alpha += d on all rows; Y and res follow: t^2."""
        size = dasum(d)
        self._alpha_buffer[: len(d)] += d
        self._ones += size
        for term, strips in enumerate(self._strips):
            sums = self._sums(term)
            for b, n in enumerate(self._rows.counts.tolist()):
                if n:
                    sums[b] += strips.times(b, d[self._rows[b]])
        self._drift += UNIT * self._kernel_bound * ((len(d) + 2) * size + self._ones)
        self._compute_residual()

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
