"""SupKMTL-UCB (the paper's Algorithm 3) on BaseKMTL-UCB estimates (Algorithm 2).

Notation (the paper's symbol, our name)
    Psi^q    stages[q - 1]    rounds of stage q = 1, ..., Q whose reward has come; disjoint
    Psi_0    settled          rounds in which every radius was at most 1 / sqrt(T); they teach nothing
    A^_q     alive            candidates still in play at stage q, (R, k)
    s, w     width, radius    w = (alpha + c sqrt(lambda)) s
    ucb      mean + w

    Algorithm 2, BaseKMTL-UCB on the rounds Psi: the regression of a stage
        2-5  K, y of the rounds in Psi; k_a between them and x~_{a,t}
        7    s_a = lambda^-1/2 sqrt(k(x~, x~) - k_a' (K + lambda I)^-1 k_a)
        8    ucb_a = k_a' (K + lambda I)^-1 y + (alpha + c sqrt(lambda)) s_a

    Algorithm 3, SupKMTL-UCB
        2    Q = ceil(log T)
        3    Psi^q = {} for all q
        5    in each round: q = 1, A^_1 = [N]; then until an arm is found:
        7-8      s, ucb from Algorithm 2 on Psi^q;  w = (alpha + c sqrt(lambda)) s
        9-11     all w <= 1/sqrt(T): play argmax ucb; no Psi^q changes
        12-14    all w <= 2^-q: keep the arms with ucb >= max ucb - 2^(1-q); q = q + 1
        15-17    otherwise: play an arm with w > 2^-q; the round joins Psi^q

Why stages: the reward of a round must not have had a say in which rounds its stage holds, or the rewards of a
stage are not independent and Lemma 1 fails. A round enters stage q because of widths, which depend on contexts
alone, and of the means of earlier stages; never because of a mean of its own stage. That is why line 16 takes
the largest width, and not the largest ucb, among the arms that are too wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits import theory
from kinbandits._threads import one_thread
from kinbandits._types import ArmName, Indices, Mask, Matrix, Vector
from kinbandits._value import as_int, one_of, part, positive
from kinbandits.errors import HorizonReachedError, InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import RBF
from kinbandits.policy.base import KernelPolicy
from kinbandits.policy.draw import TieBreak
from kinbandits.regression import make
from kinbandits.regression.contract import Prediction, Product, Query, Regression, Settings
from kinbandits.similarity import Independent, Similarity
from kinbandits.terms import Term, Terms, terms_for


class SupKMTLUCB(KernelPolicy):
    """The algorithm whose regret Theorem 1 bounds: stages of ever smaller radius, and elimination.

    It must know horizon and similarity beforehand. `KMTLUCB` has far smaller regret; this one has the proof.
    Rewards must lie within an interval of length 1 (around the mean of their round): divide others by their range.

    Args:
        horizon: T. After T decisions ``choose`` refuses.
        context_kernel: k_X, with fixed length scales. Default: ``RBF()``.
        similarity: k_Z, known beforehand. Default: `Independent()`. ``kernel``, a sum of `Term`, replaces both.
        delta: each interval of Lemma 1 fails with probability delta / (T N); all of them hold in all stages with
            probability 1 - delta Q, and Theorem 1's bound with 1 - delta (Q + 1), which is ``guarantee``. For a
            guarantee of 1 - p give ``kb.theory.stage_delta(horizon, p)``.
        norm_bound: c, a bound on the RKHS norm of the true reward function.
        ridge: lambda.
        candidates: the most that a round may have (N of the confidence factor); the number of arms if left out.
        engine, tie_break, seed, most_pending: as in `KMTLUCB`; the engine is ``"exact"`` or ``"naive"``.

    >>> import kinbandits as kb
    >>> policy = kb.SupKMTLUCB(arms=3, horizon=100, similarity=kb.Mixed(0.5), tie_break="first")
    >>> decision = policy.choose([0.3, 0.1])
    >>> decision.arm, decision.note
    (0, {'stage': 1, 'round': 0})
    >>> policy.update(decision, reward=1.0)
    >>> policy.stages
    (frozenset({0}), frozenset(), frozenset(), frozenset(), frozenset())

    Where we differ from the paper: Q = max(1, ceil(log T)), so that T = 1 has a stage; line 16, which leaves the
    choice open, takes the largest width. A reward enters its stage when it arrives; until then, and if it never
    does, its round is in no stage. When rewards are late, their delay must not depend on their value. Rows given to
    ``observe`` join the estimate of stage 1, and no set of ``stages``, as they are no rounds; the intervals hold if
    their arms were not chosen by their rewards.
    """

    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        horizon: int,
        context_kernel: object = None,
        similarity: Similarity | None = None,
        kernel: Term | Terms | None = None,
        delta: float = 0.05,
        norm_bound: float = 1.0,
        ridge: float = 1.0,
        candidates: int | None = None,
        engine: str = "exact",
        tie_break: TieBreak = "random",
        seed: int | np.random.Generator | None = 0,
        most_pending: int = 100_000,
    ) -> None:
        super().__init__(arms, tie_break=tie_break, seed=seed, most_pending=most_pending)
        self.horizon = as_int("horizon", horizon, 1)
        self.delta = part("delta", delta, ends=False)
        self.norm_bound = positive("norm_bound", norm_bound, zero=True)
        self.ridge = positive("ridge", ridge)
        self.candidates = self.n_arms if candidates is None else as_int("candidates", candidates, 1)
        self.engine: Literal["exact", "naive"] = one_of("engine", engine, "exact", "naive")
        self.kernel = terms_for(self.arms, kernel, similarity, context_kernel, Term(Independent(), RBF()))
        _check_fixed(self.kernel)
        # BaseKMTL-UCB is the unweighted estimator, and every arm has the ordinary posterior.
        products = (Product(t.similarity.in_force(self.n_arms), t.context_kernel, t.columns) for t in self.kernel)
        settings = Settings(self.n_arms, tuple(products), self.ridge, "uniform", "borrow")
        # line 3: Psi^q <- empty for all q
        self._regressions = [
            make(self.engine, settings, History(self.n_arms)) for _ in range(theory.n_stages(self.horizon))
        ]
        self._rounds: list[list[int]] = [[] for _ in range(1 + len(self._regressions))]

    # -- reading --------------------------------------------------------------------------------

    @property
    def stages(self) -> tuple[frozenset[int], ...]:
        """Psi^1, ..., Psi^Q: the rounds (decision ids) whose rewards each stage has learned from."""
        return tuple(frozenset(rounds) for rounds in self._rounds[1:])

    @property
    def settled(self) -> frozenset[int]:
        """Psi_0: the rounds, rewarded by now, that every radius was small enough to settle (line 9)."""
        return frozenset(self._rounds[0])

    @property
    def n_stages(self) -> int:
        return len(self._regressions)

    @property
    def confidence_factor(self) -> float:
        """alpha of Lemma 1."""
        return theory.confidence_factor(self.horizon, self.candidates, self.delta)

    @property
    def guarantee(self) -> float:
        """1 - delta (Q + 1), at least 0: the probability with which Theorem 1 bounds the regret of this policy."""
        return max(0.0, 1.0 - self.delta * (self.n_stages + 1))

    @property
    def exploration(self) -> float:
        """alpha + c sqrt(lambda): a radius is this times the width."""
        return theory.radius(1.0, self.confidence_factor, self.norm_bound, self.ridge)

    @property
    def n_observations(self) -> int:
        """How many rows the stages hold together."""
        return sum(r.n_rows for r in self._regressions)

    @property
    def counts(self) -> dict[ArmName, int]:
        """How many rows each arm has, in all stages together."""
        total = np.sum([r.counts for r in self._regressions], axis=0)
        return dict(zip(self.arms, total.tolist(), strict=True))

    @property
    def _k_z(self) -> list[Matrix]:
        return self._regressions[0].k_z

    def regression(self, stage: int) -> Regression:
        """The regression of stage q = 1, ..., Q: its rows are in ``regression(q).rows``. Read only."""
        if not 1 <= as_int("stage", stage, 1) <= self.n_stages:
            raise InvalidInputError(f"stage must be between 1 and {self.n_stages}, got {stage}")
        return self._regressions[stage - 1]

    def log_det(self, stage: int) -> float:
        """log g(Psi^q) of the rows of stage q."""
        return self.regression(stage).log_det()

    @one_thread
    def base(self, context: ArrayLike, stage: int, arms: Sequence[ArmName] | None = None) -> Prediction:
        """BaseKMTL-UCB (Algorithm 2) on Psi^q in one round; ``predict`` is of the stage that decides."""
        mean, width = self.regression(stage).predict(self._query(context, arms)[0])
        return Prediction(mean[0], width[0])

    # -- choosing: Algorithm 3, lines 5 to 19 -----------------------------------------------------

    def _leaders(self, query: Query, first_round: int, beta: Vector) -> tuple[Mask, list[Any]]:
        rounds, k = query.shape
        if first_round + rounds > self.horizon:
            raise HorizonReachedError(
                f"this policy was built for horizon={self.horizon} rounds and has made {first_round} decisions; "
                "its intervals hold no further. Build another with a larger horizon"
            )
        if k > self.candidates:
            raise InvalidInputError(
                f"{k} candidates, but the confidence factor covers {self.candidates} a round; build the policy "
                f"with candidates={k}"
            )
        leaders, stages, _ = self._descend(query, self._tolerance)
        notes = [{"stage": int(q), "round": first_round + r} for r, q in enumerate(stages)]
        return leaders, notes

    def _descend(self, query: Query, tolerance: float) -> tuple[Mask, Indices, Prediction]:
        """Go down the stages, all rounds at once: who may be played, the stage joined (0: none), its numbers."""
        leaders = np.zeros(query.shape, dtype=bool)
        joins = np.zeros(query.shape[0], dtype=np.intp)
        mean, width = np.empty(query.shape), np.empty(query.shape)
        alive = np.ones(query.shape, dtype=bool)  # line 5: A^_1 <- [N]
        open_rounds = np.arange(query.shape[0])
        enough = 1.0 / np.sqrt(self.horizon)
        for q, regression in enumerate(self._regressions, start=1):
            if not len(open_rounds):
                break
            # line 7: s <- BaseKMTL-UCB with Psi^q (Algorithm 2, line 7)
            m, s = regression.predict(Query(query.arms, query.contexts[open_rounds]))
            w = self.exploration * s  # line 8
            ucb = m + w  # Algorithm 2, line 8
            A = alive[open_rounds]
            widest = np.where(A, w, 0.0).max(axis=1)
            settled = widest <= enough  # line 9
            too_wide = ~settled & (widest > 2.0**-q)  # line 15
            # line 10: a_t = argmax ucb; line 16: an arm with w > 2^-q, by our reading the widest
            best_ucb, most_unsure = _best_of(ucb, A, tolerance), _best_of(w, A & (w > 2.0**-q), tolerance)
            decided = settled | too_wide
            rows = open_rounds[decided]
            leaders[rows] = np.where(settled[:, None], best_ucb, most_unsure)[decided]
            joins[rows] = np.where(settled, 0, q)[decided]
            mean[rows], width[rows] = m[decided], s[decided]
            # line 13: A^_{q+1} <- those within 2^(1-q) of the largest ucb
            top = np.where(A, ucb, -np.inf).max(axis=1, keepdims=True)
            alive[open_rounds] = A & (ucb >= top - 2.0 ** (1 - q))
            open_rounds = open_rounds[~decided]
        return leaders, joins, Prediction(mean, width)

    def _estimate(self, query: Query) -> Prediction:
        return self._descend(query, 0.0)[2]

    def _beta(self, query: Query, first_round: int) -> Vector:
        return np.full(query.shape[0], self.exploration)

    # -- learning: line 17, when the reward has come ------------------------------------------------

    def _learn(self, arms: Indices, contexts: Matrix, rewards: Vector, notes: list[Any]) -> None:
        if not isinstance(notes[0], dict):  # logged rows: stage 1 takes them, its rounds depend on contexts alone
            self._regressions[0].observe(arms, contexts, rewards)
            return
        stages = np.array([note["stage"] for note in notes])
        learned = []
        try:
            for q in range(1, self.n_stages + 1):
                mine = stages == q
                if mine.any():
                    before = self._regressions[q - 1]
                    if len(notes) > 1:  # several stages may learn: all or none
                        self._regressions[q - 1] = before.changed(before.settings)
                    learned.append((q, before))
                    self._regressions[q - 1].observe(arms[mine], contexts[mine], rewards[mine])
        except BaseException:
            for q, before in learned:
                self._regressions[q - 1] = before
            raise
        for note in notes:
            self._rounds[note["stage"]].append(note["round"])

    def _snapshot(self) -> Self:
        other = copy(self)
        other._regressions = [regression.snapshot() for regression in self._regressions]
        return other

    # -- saving -----------------------------------------------------------------------------------

    parameters = (
        "arms", "horizon", "kernel", "delta", "norm_bound", "ridge", "candidates", "engine", "tie_break", "seed",
        "most_pending",
    )  # fmt: skip

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays: dict[str, NDArray[Any]] = {}
        for q, regression in enumerate(self._regressions, start=1):
            rows = regression.rows
            assert rows is not None
            arrays |= {f"arms_{q}": rows.arms, f"contexts_{q}": rows.contexts, f"rewards_{q}": rows.rewards}
        return {"rounds": self._rounds}, arrays

    def _restore(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._rounds = [list(rounds) for rounds in data["rounds"]]
        for q, regression in enumerate(self._regressions, start=1):
            if len(arrays[f"arms_{q}"]):
                regression.observe(arrays[f"arms_{q}"].astype(np.intp), arrays[f"contexts_{q}"], arrays[f"rewards_{q}"])

    def __repr__(self) -> str:
        sizes = ", ".join(str(len(rounds)) for rounds in self._rounds[1:])
        return (
            f"SupKMTLUCB(arms={self.n_arms}, horizon={self.horizon}, kernel={self.kernel!r})"
            f"  # round {self.n_decisions}, rows per stage: {sizes}"
        )


def _best_of(scores: Matrix, among: Mask, tolerance: float) -> Mask:
    """Which of the candidates ``among`` have the largest score of their round, to a relative ``tolerance``."""
    top = np.where(among, scores, -np.inf).max(axis=1, keepdims=True)
    slack = tolerance * np.abs(scores).max(axis=1, keepdims=True)
    return np.asarray(among & (scores >= top - slack))


def _check_fixed(terms: Terms) -> None:
    """Refuse terms whose values depend on the data: Theorem 1 needs a known kernel."""
    for term in terms:
        if not term.similarity.fixed:
            raise InvalidInputError(
                f"similarity must be known beforehand (Theorem 1 assumes it), but {term.similarity!r} follows the "
                "data; give kb.Known(matrix), kb.Mixed(mu), kb.Independent() or kb.Pooled()"
            )
        if term.context_kernel is None:
            raise InvalidInputError(
                "context_kernel must be known beforehand; give kb.RBF(length_scale=...), for example "
                "kb.RBF.median(contexts)"
            )
