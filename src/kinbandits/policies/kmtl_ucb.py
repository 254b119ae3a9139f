"""KMTL-UCB: play the arm with the largest mean + exploration * width.

Notation: as in `kinbandits.regression.base`; exploration is the paper's beta, ridge its lambda.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._renamed import told_new_spelling
from kinbandits._threads import AnyTurn, one_thread
from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits._value import one_of, positive
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import GIVEN, History
from kinbandits.memory import Memory, as_memory
from kinbandits.noise import LearnedRidge, Noise
from kinbandits.policies.ahead import Ahead
from kinbandits.policies.arms import listed
from kinbandits.policies.decision import ArmName
from kinbandits.policies.defaults import Engine, defaults, engine_name
from kinbandits.policies.ledger import Ledger, Pending
from kinbandits.policies.regression_policy import RegressionPolicy
from kinbandits.policies.tie_breaking import TieBreak
from kinbandits.regression import (
    ENGINES,
    ExactRegression,
    Prediction,
    Query,
    RegressionSettings,
    changed_over,
    make_regression,
    restore_regression,
)
from kinbandits.regression.base import ColdStart
from kinbandits.regression.budgeted import MOST_SUMS
from kinbandits.rewards import Rewards, RewardScale, Standardized, as_rewards
from kinbandits.rules import Answer, Exploration, Rule, as_rule
from kinbandits.similarity import Adaptive, ArmInfo, Settled, Similarity, Weighting
from kinbandits.terms import Term, Terms


class KMTLUCB(RegressionPolicy):
    """Kernelized multi-task learning UCB (Deshmukh, Dogan and Scott, 2017, Algorithm 1).

    One multi-task kernel ridge regression over pairs (arm, context), k((a, x), (b, x')) = k_Z(a, b) k_X(x, x'), and
    one
    rule: play the largest mean + exploration * width. Special cases are values: `Independent()` or `Pooled()`
    similarity gives Kernel-UCB, with a `Linear()` kernel Lin-UCB.

    Args:
        arms: how many, or their names (str or int).
        similarity: k_Z, as ``Known(matrix)``, ``Estimated(...)``. Default: `Adaptive()`, which shares between arms
            where that helps (`Independent()` where rows leave, and for too many arms for a budgeted engine).
        context_kernel: k_X. Default: rational quadratic with the median distance of the first contexts (`Median`).
        kernel: a sum of `Term`, in place of the two above.
        ridge: lambda, a number; or `LearnedRidge()`, from the rows: the default, unless exploration is a number.
        exploration: beta, a number (0.1 with a given ridge), or a schedule of the number of the decision, from 1
            (``Deviations(1.0)`` with a learned ridge), or a rule, as ``UCB(0.1, ceiling=1.0)`` or ``Thompson()``.
        rewards: what is known about rewards: ``Range(low, high)``, ``Running()``, ``Standardized()``, ``OneOfN()``.
            Default: level and unit are learned (`Standardized`) where the ridge is, else rewards are as they
            are. With `OneOfN` the default similarity is `Independent()`, the default exploration 0.7.
        weighting: ``"per_arm"``, eta = 1/n_a (the paper's algorithm), or ``"uniform"`` (its analysis).
        cold_start: an arm never played has mean 0 and the prior width (``"explore"``, the paper), or borrows from
            its kin (``"borrow"``); ``"auto"`` borrows where arms have descriptors, and where `Adaptive` averages.
        engine: ``"auto"`` (exact for 5,000 rows, then 1,000 dictionary points), ``"exact"``, ``Budgeted(points=256,
            after=0)`` (constant cost and memory) or ``"naive"`` (the formula, literally; slow).
        memory: None remembers everything; ``Window(size)`` and ``Forgetting(half_life)`` follow a changing world.
        epsilon: with this probability, play a uniformly random candidate. Propensities are exact.
        tie_break: ``"random"``, or ``"first"`` as numpy.argmax.
        seed: of ties and epsilon.
        pending: ``Pending(most, forget_after)``, how long decisions wait for their reward.

    >>> import kinbandits as kb
    >>> policy = kb.KMTLUCB(arms=3, context_kernel=kb.RBF(length_scale=0.5), tie_break="first")
    >>> decision = policy.choose([0.3, 0.1])
    >>> policy.update(decision, reward=0.0)
    >>> policy.choose([0.3, 0.1]).arm
    1

    Where we differ from the paper: weights are uniform by default (its analysis; its algorithm has 1/n_a), and
    exploration 0.1 with ridge 0.01 explores more than the authors' scripts, which halves the regret.
    """

    _learns = True  # a frozen one does not

    @told_new_spelling
    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        similarity: Similarity | None = None,
        context_kernel: object = None,
        kernel: Term | Terms | None = None,
        ridge: float | LearnedRidge | None = None,
        exploration: Exploration | Rule | None = None,
        rewards: Rewards | None = None,
        weighting: Weighting = "uniform",
        cold_start: ColdStart | Literal["auto"] = "auto",
        engine: Engine = "auto",
        memory: Memory | None = None,
        epsilon: float = 0.0,
        tie_break: TieBreak = "random",
        seed: int | np.random.Generator | None = 0,
        pending: Pending | None = None,
    ) -> None:
        super().__init__(arms, epsilon=epsilon, tie_break=tie_break, seed=seed, pending=pending)
        self.memory, self.engine = as_memory(memory), engine
        self._engine, self._points, self._after = engine_name(engine)
        # A similarity is learned where all rows stay, and the engine has room for the sums of each arm.
        all_stay = self.memory is None or self.memory.rows is None
        room = self._engine != "budgeted" or self.n_arms * self._points**2 <= MOST_SUMS
        usual = defaults(
            learns_similarity=all_stay and room, rewards=as_rewards(rewards), ridge=ridge, exploration=exploration
        )
        self.rewards: Rewards | None = usual["rewards"]
        unsaid = usual["similarity"], usual["context_kernel"]
        self.terms = self._as_terms(kernel, similarity, context_kernel, unsaid)
        ridge = usual["ridge"]
        self.ridge = ridge if isinstance(ridge, LearnedRidge) else positive("ridge", ridge)
        self.exploration = usual["exploration"]
        self._rule = as_rule(self.exploration)
        one_of("weighting", weighting, "per_arm", "uniform")
        one_of("cold_start", cold_start, "explore", "borrow", "auto")
        self.weighting, self.cold_start = weighting, cold_start
        self._scale = RewardScale() if self.rewards is None else self.rewards.scale()
        learns = isinstance(self.ridge, LearnedRidge) or isinstance(self.rewards, Standardized)
        self._noise = Noise.of(self.ridge) if learns else None
        self._ahead: Ahead | None = None
        self._own_contexts = 0  # whether candidates have had contexts of their own; `GIVEN`: always for one arm
        nothing = History(self.n_arms)
        self.regression = make_regression(self._engine, self._settings(self.terms.fitted(nothing)), nothing)

    # -- arms -----------------------------------------------------------------------------------

    @one_thread
    def add_arm(
        self,
        arm: ArmName,
        descriptor: ArrayLike | None = None,
        *,
        similarity: ArrayLike | None = None,
        neighbours: Sequence[ArmName] | None = None,
    ) -> None:
        """Add an arm, which may be chosen from now on.

        `Known` asks for its ``descriptor``, or its ``similarity`` to each of ``policy.arms``; `Graph` for its
        ``neighbours``.
        """
        (arm,) = listed("arm", [arm])  # a NumPy scalar is a plain name
        self._check_new_arm(arm)
        edges = None if neighbours is None else self._arm_indices(list(neighbours)).tolist()
        info = ArmInfo(descriptor, similarity, edges)
        terms = self.terms.with_similarities([self._with_arm(t.similarity, info) for t in self.terms])
        fitted = self._same_kernels(terms, lambda settled: settled.with_arm(self.n_arms))
        self.regression = self.regression.with_arm(self._settings(fitted))
        self.terms = terms
        self._append_arm(arm)

    @one_thread
    def remove_arm(self, arm: ArmName) -> None:
        """Remove an arm and its data; its open decisions are void."""
        index = self._check_leaving(arm)
        terms = self.terms.with_similarities([t.similarity.without_arm(index) for t in self.terms])
        fitted = self._same_kernels(terms, lambda settled: settled.without_arm(index))
        rewards = self._scale
        if rewards.seen is not None and self.regression.keeps_all_rows:
            rewards = rewards.without(self.regression.history.arms != index)
        self.regression = self.regression.without_arm(self._settings(fitted), index)
        self.terms, self._scale = terms, rewards
        self._drop_arm(arm)

    def _with_arm(self, value: Similarity, info: ArmInfo) -> Similarity:
        """``value`` for one arm more, told what other terms do not take; what no term takes, it refuses."""
        taken = {t.similarity.arm_argument for t in self.terms} - {value.arm_argument}
        return value.with_arm(self.n_arms, info.without(taken))

    # -- saving ---------------------------------------------------------------------------------

    parameters = (
        "arms", "kernel", "ridge", "exploration", "rewards", "weighting", "cold_start", "engine", "memory",
        "epsilon", "tie_break", "seed", "pending",
    )  # fmt: skip

    def _learned(self, spec: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        data, arrays = self.regression.to_data()
        stated = self.rewards is None or self._scale.limits is not None
        scale = {} if stated else {"rewards": self._scale.to_data()}
        noise = {} if self._noise is None else {"noise": self._noise.to_data()}
        return {"fitted": spec(self.regression.settings.terms), **scale, **noise, **data}, arrays

    def _relearn(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]], value: Callable[[Any], Any]) -> None:
        if data.get("apart") is not None:
            self._own_contexts = GIVEN if data.get("rivals", 0) is None else 1
        if self._noise is not None and "noise" in data:
            self._noise = self._noise.restored(data["noise"])
        settings = self._settings(value(data["fitted"]))
        self.regression = restore_regression(self._engine, settings, data, arrays)
        if "rewards" in data:
            self._scale = self._scale.restored(data["rewards"])

    def copy(self) -> Self:
        other = super().copy()
        other.regression, other._ahead = self.regression.copy(), None
        return other

    @one_thread
    def frozen(self) -> Self:
        other = super().copy()
        other._ledger = Ledger(self._ledger.pending)
        other.regression, other._ahead = self.regression.frozen(), None
        other._learns, other._turn = False, AnyTurn()
        return other

    @one_thread
    def relearned(self, arms: Sequence[ArmName], contexts: Matrix, rewards: Vector) -> Self:
        """A frozen policy that knows these rows in place of its own, with kernel, similarity and noise of now."""
        other = super().copy()
        settings = self.regression.settings
        terms = settings.terms.with_similarities([Settled(K) for K in self.regression.similarity_matrices])
        rows = History.of(self.n_arms, self._arm_indices(list(arms)), contexts, self._scale.learned(rewards))
        other.regression = make_regression(self._engine, replace(settings, terms=terms), rows)
        other._learns, other._turn = False, AnyTurn()
        return other

    def __repr__(self) -> str:
        from kinbandits.policies.display import text_repr

        return text_repr(self)

    def _repr_html_(self) -> str:
        from kinbandits.policies.display import html_repr

        return html_repr(self)

    # -- the machinery --------------------------------------------------------------------------

    def _same_kernels(self, terms: Terms, change: Callable[[Settled], Similarity]) -> Terms:
        """Other arms, same kernels: those read off the data stay as they are, and so do settled similarities."""
        changed = []
        for term, fitted in zip(terms, self.regression.settings.terms, strict=True):
            settled = fitted.similarity
            similarity = change(settled) if isinstance(settled, Settled) else term.similarity
            changed.append(term.replace(context_kernel=fitted.context_kernel, similarity=similarity))
        return Terms(tuple(changed))

    def _settings(self, fitted: Terms) -> RegressionSettings:
        cold_start = self.cold_start
        if cold_start == "auto":
            averaged = self._own_contexts and any(isinstance(t.similarity, Adaptive) for t in self.terms)
            kin = averaged or any(t.similarity.describes_arms for t in fitted)
            cold_start = "borrow" if kin else "explore"
        ridge = self.ridge if self._noise is None else self._noise.ridge
        assert isinstance(ridge, float)
        settled = fitted, ridge, self.weighting, cold_start, self.memory
        return RegressionSettings(*settled, self._points, self._after)

    def _learn(self, arms: Indices, contexts: Matrix, rewards: Vector, notes: list[Any]) -> None:
        if not self._learns:
            raise InvalidTypeError(
                "a frozen policy does not learn; teach the one it came from and freeze that again"
            )
        own_contexts = 1 if "apart" in notes else GIVEN if "task" in notes else 0  # see `_leaders`
        if self.rewards is not None:
            arms, contexts, rewards = self.rewards.rows(arms, contexts, rewards, self.n_arms)
        known = self._scale, self._noise, self._own_contexts
        try:
            if not self._learned_anew(arms, contexts, rewards, own_contexts):
                self.regression.observe(arms, contexts, self._scale.learned(rewards), own_contexts)
        except BaseException:
            self._scale, self._noise, self._own_contexts = known
            raise
        if self._engine == "auto":
            self.regression = changed_over(self.regression)

    def _look_ahead(self, noise: Noise, stone: int) -> None:
        """A piece of the work on this milestone of noise, which takes force later."""
        regression, ahead = self.regression, self._ahead
        exact = isinstance(regression, ExactRegression) and self.memory is None
        if noise.same or not exact or self._scale.seen is not None:
            self._ahead = None
            return
        if ahead is None or ahead.before is not noise or ahead.history is not regression.history:
            self._ahead = ahead = Ahead(noise, stone, regression, self._scale, self._with_noise)
        try:
            ahead.advance()
        except BaseException as error:
            self._ahead = None
            if not isinstance(error, Exception):  # what is wrong is told when it takes force
                raise

    def _with_noise(self, noise: Noise) -> tuple[RewardScale, RegressionSettings]:
        scale = self._scale
        if isinstance(self.rewards, Standardized):
            scale = replace(scale, offset=noise.level, scale=noise.unit)
        return scale, replace(self.regression.settings, ridge=noise.ridge)

    def _learned_anew(self, arms: Indices, contexts: Matrix, rewards: Vector, own_contexts: int) -> bool:
        """Whether these rows changed what all rows are seen by, so that all were learned again, these too."""
        n, more = self.regression.n_observations, len(arms)
        scale = self._scale.grown(rewards)
        noise = self._noise
        if noise is not None and (stone := noise.coming(n)) is not None:
            self._look_ahead(noise, stone)
        kind = 1 if 1 in (own_contexts, self._own_contexts) else own_contexts or self._own_contexts
        first = kind != self._own_contexts
        learns = noise is not None and noise.due(n, rewards)
        moved = first or not scale.same_scale(self._scale)
        refits = self.terms.refits(n, n + more)
        if not (moved or learns or refits):
            self._scale = scale
            return False
        settled = self._engine == "auto" and not isinstance(self.regression, ENGINES["exact"])  # changed over
        if settled or not self.regression.keeps_all_rows:  # rows are gone
            self._scale = scale if scale.same_scale(self._scale) else self._scale
            if noise is not None and noise.same:
                self._noise = noise.first_unit(n, rewards)
                if isinstance(self.rewards, Standardized):
                    self._scale = replace(self._scale, scale=self._noise.unit)
            return False
        grown = self.regression.history.copy()
        grown.append(arms, contexts, self._scale.learned(rewards), own_contexts)
        own = np.concatenate([self._scale.seen or self._scale.own(grown.rewards[:-more]), rewards])
        ahead, self._ahead = self._ahead, None
        if noise is not None and learns:
            if ahead is not None and ahead.is_for(noise, noise.milestones(n, n + more)):
                assert ahead.noise is not None
                noise = ahead.noise
            else:
                kernels, ahead = self.terms if refits else self.regression.settings.terms, None
                noise = noise.grown(kernels, grown.with_rewards(own), len(grown) - more)
            if isinstance(self.rewards, Standardized):
                scale = replace(scale, offset=noise.level, scale=noise.unit)
            assert self._noise is not None
            moved = moved or noise.ridge != self._noise.ridge or not scale.same_scale(self._scale)
        fitted = self.terms.fitted(grown) if refits else self.regression.settings.terms
        moved = moved or not fitted.same_kernels(self.regression.settings.terms)
        self._scale, self._noise, self._own_contexts = scale, noise, kind
        if moved:
            grown = grown.with_rewards(scale.learned(own))
            if self.memory is not None and self.memory.rows is not None:
                grown = grown.recent(self.memory.rows)
            settings, regression = self._settings(fitted), self.regression
            ready = None if ahead is None else ahead.ready(settings)
            if ready is not None and isinstance(regression, ExactRegression):
                self.regression = type(regression)(settings, grown, *ready)
            else:
                self.regression = regression.rebuilt(settings, grown)
        return moved

    def _leaders(
        self, query: Query, first_round: int, exploration: Vector, tolerance: float
    ) -> tuple[Mask | Matrix, list[Any] | None]:
        rounds, own = len(query.contexts), not query.shared
        if own and self.rewards is not None and self.rewards.about_all_arms:
            raise InvalidInputError(
                "rewards=kb.OneOfN() needs one context for all arms, (d,): the reward of one arm says what the "
                f"others would have paid in it; got {query.contexts.shape[1]} contexts"
            )
        if not rounds:
            return np.zeros(query.shape, dtype=bool), None
        leaders = self._rule.leaders(Answer(self.regression, query, self._scale), exploration, tolerance)
        if not own:
            return leaders, None
        given = bool((query.arms == query.arms[0]).all())
        return leaders, ["task" if given else "apart"] * rounds  # candidates had contexts of their own

    def _predict(self, query: Query) -> Prediction:
        mean, width = self.regression.predict(query)
        scale = self._scale
        if scale.offset == 0.0 and scale.scale == 1.0:
            return Prediction(mean, width)
        return Prediction(scale.offset + scale.scale * mean, scale.scale * width)

    def _exploration(self, first_round: int, shape: tuple[int, int]) -> Vector:
        return self._rule.exploration_at(first_round, shape, self.log_det, self.regression.settings.ridge)

    @property
    def _features_seen(self) -> int | None:
        return self.regression.n_features
