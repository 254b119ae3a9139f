"""KMTL-UCB: play the arm with the largest mean + exploration * width.

Notation: as in `kinbandits.regression.base`; exploration is the paper's beta, ridge its lambda.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import as_int
from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import positive, real
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.memory import Memory, as_memory
from kinbandits.policies.arms import arm_names, listed
from kinbandits.policies.decision import ArmName
from kinbandits.policies.drawing import TieBreak
from kinbandits.policies.ledger import Ledger
from kinbandits.policies.published import in_force
from kinbandits.policies.reading import RegressionPolicy
from kinbandits.policies.rewards import RewardScale, RewardScaling, structure, told_to_all
from kinbandits.regression import (
    ENGINES,
    Prediction,
    Query,
    Ridge,
    capped,
    changed_over,
    make_regression,
    restore_regression,
)
from kinbandits.regression.base import ColdStart
from kinbandits.regression.budget_model import MOST_SUMS
from kinbandits.sampling import PosteriorSampling
from kinbandits.similarity import ArmInfo, Settled, Similarity, Weighting
from kinbandits.terms import Term, Terms, as_terms

Exploration = float | Callable[[int], float] | PosteriorSampling


class KMTLUCB(RegressionPolicy):
    """Kernelized multi-task learning UCB (Deshmukh, Dogan and Scott, 2017, Algorithm 1).

    One multi-task kernel ridge regression over pairs (arm, context), with the product kernel
    k((a, x), (b, x')) = k_Z(a, b) k_X(x, x'), and one rule: play the largest mean + exploration * width.
    Every special case of the paper is a choice of values: `Independent()` or `Pooled()` similarity gives
    Kernel-UCB, with a `Linear()` kernel Lin-UCB.

    Args:
        arms: how many, or their names (str or int).
        context_kernel: k_X. Default: rational quadratic with the median distance of the first 60 contexts
            (`Median`).
        similarity: k_Z, for example ``Known(matrix)``, ``Estimated(...)``. Default: `Adaptive()`,
            which shares between arms where that helps (`Independent()` with a window, where rows leave, and for so
            many arms that the budgeted engine has no room for what a changing similarity needs).
        kernel: a sum of `Term`, in place of the two above.
        ridge: lambda; 0.01.
        exploration: beta, a number (0.1) or a function t -> beta_t of the number of the decision, counted from 1;
            or `PosteriorSampling()`, Thompson's rule in place of the width.
        weighting: ``"per_arm"``, eta = 1/n_a (the paper's algorithm), or ``"uniform"`` (its analysis; the default).
        cold_start: an arm never played has mean 0 and the prior width (``"explore"``, the paper), or borrows
            from its kin (``"borrow"``); ``"auto"``, the default, borrows where arms have descriptors.
        settings: what stands for arguments that are left out: ``"default"``, as said here; ``"paper"``, what the
            paper's experiments share (per_arm weights, ridge 0.001, exploration 0.1 sqrt(ridge), `Estimated`,
            ties to the first arm); ``"paper/digits"`` and so on, with the kernels and ridge published for it.
        engine: ``"auto"`` (exact for the first 5,000 rows, then a dictionary of 1,000 points or ``budget``),
            ``"exact"``, ``"budgeted"`` (constant cost and memory) or ``"naive"`` (the formula, literally; slow).
        budget: how many dictionary points ``"budgeted"`` keeps.
        memory: None remembers everything; ``Window(size)`` and ``Forgetting(half_life)`` follow a changing world.
        reward_range: (lowest, highest) possible reward; rewards are then learned on a scale of 0 to 1, and
            means and widths are reported in the rewards' own units.
        reward_scaling: ``"running"`` learns the range from the rewards instead: it follows the first 60 (longer, if
            they are all equal) and then stays. It is saved with the policy.
        rewards: ``"one_of_n"`` declares that in every round one arm pays 1 and all others 0 (say, which of N
            classes a context belongs to), with one context for all arms. A reward of 1 then also teaches every
            other arm a 0: N rows in place of one. The default similarity is then `Independent()`, exploration 0.7.
        ceiling: a reward that is never exceeded. Scores above it say no more than that it may be reached, so they
            count as equal, and among them the largest mean is played.
        epsilon: with this probability, play a uniformly random candidate. Propensities are exact.
        tie_break: ``"random"`` (the default), or ``"first"`` as numpy.argmax.
        seed: of ties and epsilon.
        max_pending, forget_after: how many open decisions are kept, and for how many further decisions.

    Example:
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

    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        context_kernel: object = None,
        similarity: Similarity | None = None,
        kernel: Term | Terms | None = None,
        ridge: float | None = None,
        exploration: Exploration | None = None,
        weighting: Weighting | None = None,
        cold_start: ColdStart | Literal["auto"] | None = None,
        settings: str = "default",
        engine: str = "auto",
        budget: int = 256,
        memory: Memory | None = None,
        reward_range: tuple[float, float] | None = None,
        reward_scaling: RewardScaling | None = None,
        rewards: Literal["one_of_n"] | None = None,
        ceiling: float | None = None,
        epsilon: float = 0.0,
        tie_break: TieBreak | None = None,
        seed: int | np.random.Generator | None = 0,
        max_pending: int = 100_000,
        forget_after: int | None = None,
    ) -> None:
        names, limits, points = arm_names(arms), as_memory(memory), as_int("budget", budget, 1)
        given = {
            "context_kernel": context_kernel,
            "similarity": similarity,
            "ridge": ridge,
            "exploration": exploration,
            "weighting": weighting,
            "cold_start": cold_start,
            "tie_break": tie_break,
        }
        keeps_rows = limits is None or limits.rows is None
        learns = keeps_rows and not (engine == "budgeted" and len(names) * points**2 > MOST_SUMS)
        chosen = in_force(settings, given, learns_similarity=learns, one_of_n=rewards is not None)
        super().__init__(
            names,
            epsilon=epsilon,
            tie_break=chosen["tie_break"],
            seed=seed,
            max_pending=max_pending,
            forget_after=forget_after,
        )
        if kernel is not None and (context_kernel is not None or similarity is not None):
            raise InvalidInputError("give kernel=, or context_kernel= and similarity=, not both")
        if kernel is None:
            kernel = Term(chosen["similarity"], chosen["context_kernel"])
        self.terms = as_terms(kernel)
        for term in self.terms:
            term.similarity.check_arms(self.n_arms)
        self.ridge = positive("ridge", chosen["ridge"])
        self.exploration: Exploration = chosen["exploration"]
        if not callable(self.exploration) and not isinstance(self.exploration, PosteriorSampling):
            self.exploration = positive("exploration", self.exploration, zero=True)
        weighting, cold_start = chosen["weighting"], chosen["cold_start"]
        _one_of("weighting", weighting, ("per_arm", "uniform"))
        _one_of("cold_start", cold_start, ("explore", "borrow", "auto"))
        _one_of("engine", engine, ("auto", *ENGINES))
        self.weighting, self.cold_start, self.engine = weighting, cold_start, engine
        self.budget, self.memory = points, limits
        self._rewards = RewardScale.of(reward_range, reward_scaling)
        self.rewards = structure(rewards, reward_range, reward_scaling)
        self.ceiling = None if ceiling is None else real("ceiling", ceiling)
        if self.ceiling is not None and isinstance(self.exploration, PosteriorSampling):
            raise InvalidInputError(
                "ceiling= limits scores, and PosteriorSampling() has none; leave one of them out"
            )
        self.reward_range, self.reward_scaling = self._rewards.limits, reward_scaling
        self._start(self.terms, History(self.n_arms))

    # -- arms -----------------------------------------------------------------------------------

    def add_arm(
        self,
        arm: ArmName,
        descriptor: ArrayLike | None = None,
        *,
        similarity: ArrayLike | None = None,
        neighbours: Sequence[ArmName] | None = None,
    ) -> None:
        """Add an arm, which may be chosen from now on.

        Args:
            arm: its name.
            descriptor: for `Known` with descriptors.
            similarity: for `Known` with a matrix: to each arm in the order of ``policy.arms``.
            neighbours: for `Graph`: the arms it is linked to.
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

    def remove_arm(self, arm: ArmName) -> None:
        """Remove an arm and its data; its open decisions are void."""
        index = self._check_leaving(arm)
        terms = self.terms.with_similarities([t.similarity.without_arm(index) for t in self.terms])
        fitted = self._same_kernels(terms, lambda settled: settled.without_arm(index))
        rewards = self._rewards
        if rewards.seen is not None and self.regression.keeps_all_rows:
            rewards = rewards.without(self.regression.history.arms != index)
        self.regression = self.regression.without_arm(self._settings(fitted), index)
        self.terms, self._rewards = terms, rewards
        self._drop_arm(arm)

    def _with_arm(self, value: Similarity, info: ArmInfo) -> Similarity:
        """``value`` for one arm more, told what other terms do not take; what no term takes, it refuses."""
        taken = {t.similarity.arm_argument for t in self.terms} - {value.arm_argument}
        return value.with_arm(self.n_arms, info.without(taken))

    # -- saving ---------------------------------------------------------------------------------

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The settings by name, as given or defaulted; ``type(policy)(**policy.get_params())`` starts afresh."""
        params = {
            "arms": list(self.arms),
            "kernel": self.terms,
            "ridge": self.ridge,
            "exploration": self.exploration,
            "weighting": self.weighting,
            "cold_start": self.cold_start,
            "engine": self.engine,
            "budget": self.budget,
            "memory": self.memory,
            "reward_range": self.reward_range,
            "reward_scaling": self.reward_scaling,
            "rewards": self.rewards,
            "ceiling": self.ceiling,
            "epsilon": self.epsilon,
            "tie_break": self.tie_break,
            "seed": self.seed,
            "max_pending": self._ledger.max_pending,
            "forget_after": self._ledger.forget_after,
        }
        return self._deep(params) if deep else params

    def _learned(self, spec: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        data, arrays = self.regression.to_data()
        scale = {} if self.reward_scaling is None else {"rewards": self._rewards.to_data()}
        return {"fitted": spec(self.regression.settings.terms), **scale, **data}, arrays

    def _relearn(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]], value: Callable[[Any], Any]) -> None:
        settings = self._settings(value(data["fitted"]))
        self.regression = restore_regression(self.engine, settings, data, arrays)
        if "rewards" in data:
            self._rewards = self._rewards.restored(data["rewards"])

    def copy(self) -> Self:
        """An independent copy: same knowledge, same open decisions, same random state."""
        other = super().copy()
        other.regression = self.regression.copy()
        return other

    def frozen(self) -> Self:
        """What is known now, laid out for being read often and from other threads."""
        other = super().copy()
        other._ledger = Ledger(self._ledger.max_pending, self._ledger.forget_after)
        other.regression = self.regression.frozen()
        other._learns = False
        return other

    def __repr__(self) -> str:
        from kinbandits.policies.display import text_repr

        return text_repr(self)

    def _repr_html_(self) -> str:
        from kinbandits.policies.display import html_repr

        return html_repr(self)

    # -- the machinery --------------------------------------------------------------------------

    def _start(self, terms: Terms, history: History) -> None:
        settings = self._settings(terms.fitted(history))
        self.regression = make_regression(self.engine, settings, history)

    def _same_kernels(self, terms: Terms, change: Callable[[Settled], Similarity]) -> Terms:
        """Other arms, same kernels: those read off the data stay as they are, and so do settled similarities."""
        changed = []
        for term, fitted in zip(terms, self.regression.settings.terms, strict=True):
            settled = fitted.similarity
            similarity = change(settled) if isinstance(settled, Settled) else term.similarity
            changed.append(term.replace(context_kernel=fitted.context_kernel, similarity=similarity))
        return Terms(tuple(changed))

    def _settings(self, fitted: Terms) -> Ridge:
        cold_start = self.cold_start
        if cold_start == "auto":
            describes = any(t.similarity.describes_arms for t in fitted)
            cold_start = "borrow" if describes else "explore"
        return Ridge(fitted, self.ridge, self.weighting, cold_start, self.memory, self.budget)

    def _learn(self, arms: Indices, contexts: Matrix, rewards: Vector, notes: list[Any]) -> None:
        if not self._learns:
            raise InvalidTypeError(
                "a frozen policy does not learn; teach the one it came from and freeze that again"
            )
        apart = notes.count(None) < len(notes)  # see `_leaders`
        if self.rewards == "one_of_n":
            arms, contexts, rewards = told_to_all(arms, contexts, rewards, self.n_arms)
        scale = self._rewards.grown(rewards)
        n = self.regression.n_observations
        moved = not scale.same_scale(self._rewards)
        if (moved or self.terms.refits(n, n + len(arms))) and self.regression.keeps_all_rows:
            grown = self.regression.history.copy()
            grown.append(arms, contexts, scale.learned(rewards), apart)
            if moved and self._rewards.seen:
                known = np.array([*self._rewards.seen, *rewards])
                grown = grown.with_rewards(scale.learned(known))
            fitted = self.terms.fitted(grown)
            if moved or not fitted.same_kernels(self.regression.settings.terms):
                if self.memory is not None and self.memory.rows is not None:
                    grown = grown.recent(self.memory.rows)
                self.regression = self.regression.rebuilt(self._settings(fitted), grown)
            else:
                self.regression.observe(arms, contexts, scale.learned(rewards), apart)
        else:
            scale = self._rewards if moved else scale  # rows are gone that would have to be learned again
            self.regression.observe(arms, contexts, scale.learned(rewards), apart)
        self._rewards = scale
        if self.engine == "auto":
            self.regression = changed_over(self.regression)

    def _leaders(
        self, query: Query, first_round: int, exploration: Vector, tolerance: float
    ) -> tuple[NDArray[np.bool_] | Matrix, list[str] | None]:
        # Algorithm 1: p_{a,t} = mean + beta * s; choose argmax p_{a,t}
        rounds = query.shape[0]
        notes = None if query.shared else ["apart"] * rounds  # candidates had contexts of their own
        if notes and self.rewards == "one_of_n":
            raise InvalidInputError(
                'rewards="one_of_n" needs one context for all arms, (d,): the reward of one arm says what the '
                f"others would have paid in it; got {query.contexts.shape[1]} contexts"
            )
        if not rounds:
            return np.zeros(query.shape, dtype=bool), None
        if isinstance(self.exploration, PosteriorSampling):
            return self._sampled(query, self.exploration), notes
        if self.ceiling is not None:
            mean, width = self.regression.predict(query)
            ceiling = (self.ceiling - self._rewards.offset) / self._rewards.scale
            return capped(mean, mean + exploration[:, None] * width, ceiling, tolerance), notes
        return self.regression.leaders(query, exploration, tolerance), notes

    def _sampled(self, query: Query, sampling: PosteriorSampling) -> Matrix:
        """How often each candidate leads in joint draws, (R, k)."""
        shares = np.empty(query.shape)
        for r in range(query.shape[0]):
            one = Query(query.arms, query.contexts[r : r + 1])
            shares[r] = sampling.shares(
                self.regression.predict(one).mean[0], self.regression.covariance(*one.points())
            )
        return shares

    def _predict(self, query: Query) -> Prediction:
        mean, width = self.regression.predict(query)
        scale = self._rewards
        if scale.offset == 0.0 and scale.scale == 1.0:
            return Prediction(mean, width)
        return Prediction(scale.offset + scale.scale * mean, scale.scale * width)

    def _exploration(self, first_round: int, rounds: int) -> Vector:
        if isinstance(self.exploration, PosteriorSampling):
            return np.zeros(rounds)
        if not callable(self.exploration):
            return np.array([self.exploration] * rounds)
        told = {"log_det": self.log_det()} if getattr(self.exploration, "needs_log_det", False) else {}
        values = [float(self.exploration(first_round + i + 1, **told)) for i in range(rounds)]
        if not np.isfinite(values).all() or min(values, default=0.0) < 0:
            bad = next(v for v in values if not np.isfinite(v) or v < 0)
            raise InvalidInputError(f"the exploration schedule returned {bad!r}; it must be at least 0")
        return np.array(values)

    @property
    def _features_seen(self) -> int | None:
        return self.regression.n_features

    def _check_features(self, n_features: int) -> None:
        for term in self.terms:
            term.check_features(n_features)


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
