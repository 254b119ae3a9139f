"""KMTL-UCB: play the arm with the largest mean + exploration * width.

Notation: as in `kinbandits.regression.contract`; exploration is the paper's beta, ridge its lambda.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits import plotting
from kinbandits._frames import list_of
from kinbandits._threads import one_thread
from kinbandits._types import ArmName, Indices, Mask, Matrix, Vector
from kinbandits._value import as_int, one_of, positive
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.model import Kind, Model, Scale, Spec
from kinbandits.policy.arguments import Budgeted, Window, engine_of, rewards_of
from kinbandits.policy.arms import Arms
from kinbandits.policy.base import KernelPolicy
from kinbandits.policy.decision import Decision
from kinbandits.policy.draw import TieBreak
from kinbandits.policy.explain import Explanation, explain, html_repr, text_repr
from kinbandits.policy.knowledge import Knowledge
from kinbandits.regression.contract import Common, Prediction, Product, Query, Regression, Settings
from kinbandits.regression.dictionary import Dictionary
from kinbandits.rules import Exploration, State, as_rule, symmetric_root
from kinbandits.similarity import Estimated, Learned, Similarity
from kinbandits.terms import Term, Terms, terms_for

Weighting = Literal["uniform", "per_arm"]
ColdStart = Literal["auto", "explore", "borrow"]


class KMTLUCB(KernelPolicy):
    """Kernelized multi-task learning UCB (Deshmukh, Dogan and Scott, 2017). What is left out is learned.

    The default differs from the paper: weights are uniform (its analysis; its algorithm has 1/n_a), and kernel, ridge,
    level and unit of rewards and the similarity of the arms are learned from the rewards (``policy.model``). The
    paper's own policies, with published numbers, are `kinbandits.presets`.

    One multi-task kernel ridge regression over pairs x~ = (arm a, context x), and one rule::

        (1)  k(x~, x~') = k_Z(a, b) k_X(x, x')                           similarity=, context_kernel=
        (2)  f^ = argmin_f (1/N) sum_a (1/n_a) sum_{t: a_t = a} (f(x~_t) - r_t)^2 + lambda ||f||^2
                                                                         weighting= (1/n_a), ridge= (lambda)
        (3)  f^(x~) = k' (eta K + lambda I)^-1 eta y,  eta = diag(1 / n_{a_t})                  mean
             s(x~)  = lambda^-1/2 sqrt(k(x~, x~) - k' (eta K + lambda I)^-1 eta k)              width

        Algorithm 1.  for t = 1, ..., T
            1  update the kernel matrix K and eta                        update(): regression.observe
            2  observe x_{a,t} for each arm a                            choose(context)
            3  determine the descriptor z_a of each arm                  model.k_z
            4  p_{a,t} = f^(x~_{a,t}) + beta s_{a,t}                     mean + exploration * width
            5  a_t = argmax_a p_{a,t}, observe r_{a_t,t}, update y       decision.arm; update(decision, reward)

    (1/N is absorbed in lambda.) Special cases are values: `Independent()` or `Pooled()` similarity gives Kernel-UCB,
    with a `Linear()` kernel Lin-UCB: see `kinbandits.baselines`.

    Args:
        arms: how many, or their names (str or int).
        similarity: k_Z, as ``Known(descriptors=X)``, ``Estimated(...)``. Default: `Learned()`.
        context_kernel: k_X. Default: learned; a kernel of distances, in part linear where the rewards ask for it.
        kernel: a sum of `Term`, in place of the two above.
        ridge: lambda, a number. Default: learned, but 0.01 with per_arm weights.
        rewards: ``"learn"``, level and unit are learned; None, as they are (the paper); ``(low, high)``, others are
            refused and they are learned on a scale of 0 to 1; or a `Scale`.
        exploration: beta, a number or a schedule; or a rule, as ``UCB(deviations=1.0)``, the default, or
            ``Thompson()``.
        weighting: ``"per_arm"``, eta = 1/n_a (the paper's algorithm), or ``"uniform"`` (its analysis).
        cold_start: an arm never played has mean 0 and the prior width (``"explore"``, the paper), or borrows from
            its kin (``"borrow"``); ``"auto"`` borrows where arms are described, or where sharing was learned.
        memory: None remembers everything; ``Window(size)`` follows a changing world.
        engine: ``"auto"`` (exact for 5,000 rows, then 512 dictionary points), ``"exact"``, ``Budgeted(points=256,
            after=0)`` (constant cost and memory) or ``"naive"`` (the formula, literally; slow).
        epsilon: with this probability, play a uniformly random candidate. Propensities are exact.
        tie_break: ``"random"``, or ``"first"`` as numpy.argmax.
        seed: of ties and epsilon.
        most_pending: how many decisions wait for their reward before the oldest is forgotten.

    >>> import kinbandits as kb
    >>> policy = kb.KMTLUCB(arms=3, context_kernel=kb.RBF(length_scale=0.5), tie_break="first")
    >>> decision = policy.choose([0.3, 0.1])
    >>> policy.update(decision, reward=0.0)
    >>> policy.choose([0.3, 0.1]).arm
    1
    """

    parameters = (
        "arms", "kernel", "ridge", "rewards", "exploration", "weighting", "cold_start", "memory", "engine", "epsilon",
        "tie_break", "seed", "most_pending",
    )  # fmt: skip

    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        similarity: Similarity | None = None,
        context_kernel: object = None,
        kernel: Term | Terms | None = None,
        ridge: float | None = None,
        rewards: Literal["learn"] | tuple[float, float] | Scale | None = "learn",
        exploration: Exploration | None = None,
        weighting: Weighting = "uniform",
        cold_start: ColdStart = "auto",
        memory: Window | None = None,
        engine: str | Budgeted = "auto",
        epsilon: float = 0.0,
        tie_break: TieBreak = "random",
        seed: int | np.random.Generator | None = 0,
        most_pending: int = 100_000,
    ) -> None:
        super().__init__(arms, epsilon=epsilon, tie_break=tie_break, seed=seed, most_pending=most_pending)
        self.kernel = terms_for(self.arms, kernel, similarity, context_kernel, Term())
        self.ridge = None if ridge is None else positive("ridge", ridge)
        self.rewards, scale = rewards_of(rewards)
        self.exploration = as_rule(exploration)
        self.weighting: Weighting = one_of("weighting", weighting, "uniform", "per_arm")
        self.cold_start: Literal["auto", "explore", "borrow"] = one_of(
            "cold_start", cold_start, "auto", "explore", "borrow"
        )
        if memory is not None and not isinstance(memory, Window):
            raise InvalidTypeError(f"memory must be None (remember everything) or kb.Window(size=...), got {memory!r}")
        self.memory, self.engine = memory, engine_of(engine, memory)
        self._scale = scale
        window = None if memory is None else memory.size
        name: Any = "exact" if memory is not None and engine == "auto" else engine
        self._knowledge = Knowledge(self._spec(self.kernel, self.n_arms), self._settings, name, window)

    @property
    def model(self) -> Model:
        """How rows are seen: what is in force, and the evidence for it."""
        return self._knowledge.model

    @property
    def regression(self) -> Regression:
        """The engine at work. Read only."""
        return self._knowledge.engine

    def _spec(self, kernel: Terms, n_arms: int) -> Spec:
        """What is fixed, for the model."""
        terms = kernel.terms
        ridge = 0.01 if self.ridge is None and self.weighting == "per_arm" else self.ridge
        kernels = tuple(t.context_kernel for t in terms)
        return Spec(
            n_arms, tuple(t.similarity for t in terms), kernels, tuple(t.columns for t in terms), ridge, self._scale
        )

    def _settings(self, spec: Spec, model: Model, kind: Kind) -> Settings:
        """What the engine is told of a model."""
        terms = []
        for columns, kernel, k_z in zip(spec.columns, model.kernels, model.k_z, strict=True):
            own: Any = k_z.with_kernel(kernel) if isinstance(k_z, Estimated) else k_z
            terms.append(Product(own, kernel, columns))
        cold_start = self.cold_start
        if cold_start == "auto":
            shares = not (isinstance(model.k_z[0], Common) and model.k_z[0].shared == 0.0)
            learned = isinstance(spec.similarities[0], Learned) and shares
            cold_start = "borrow" if learned or any(s.describes_arms for s in spec.similarities) else "explore"
        return Settings(spec.n_arms, tuple(terms), model.ridge, self.weighting, cold_start, model.level, model.unit)

    # -- the loop -------------------------------------------------------------------------------

    def _leaders(self, query: Query, first_round: int, beta: Vector) -> tuple[Mask | Matrix, list[Any] | None]:
        rounds = query.shape[0]
        if not rounds:
            return np.zeros(query.shape, dtype=bool), None
        # Alg. 1, lines 4 and 5: p_{a,t} = f^ + beta s; a_t = argmax p
        leaders = self.exploration.leaders(self._asked(query), beta, self._tolerance)
        if query.shared:
            return leaders, None
        one_task = bool((query.arms == query.arms[0]).all())
        return leaders, ["task" if one_task else "rivals"] * rounds

    def _estimate(self, query: Query) -> Prediction:
        return self.regression.predict(query)

    def _beta(self, query: Query, first_round: int) -> Vector:
        return self.exploration.beta(self._asked(query), first_round)

    def _asked(self, query: Query) -> State:
        shares = isinstance(self.model.k_z[0], np.ndarray) and isinstance(self.similarity, Learned)
        return State(self.regression, query, 2.0 if self._scale is None else 1.0, shares and query.shared)

    def _learn(self, arms: Indices, contexts: Matrix, rewards: Vector, notes: list[Any]) -> None:
        """Alg. 1, the end of line 5 and line 1 of the next round; and a new model where one is due (line 3)."""
        if self.reward_range is not None:
            low, high = self.reward_range
            outside = (rewards < low) | (rewards > high)
            if outside.any():
                raise InvalidInputError(
                    f"reward is {float(rewards[outside][0]):g}, but rewards=({low:g}, {high:g}) was stated; correct "
                    "the reward, or state a wider range"
                )
        self._knowledge.learn((arms, contexts, rewards), _merged(self._knowledge.kind, notes))

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The lowest and the highest reward that are taken; None if any is."""
        return self.rewards if isinstance(self.rewards, tuple) else None

    @one_thread
    def adopt(self, dictionary: Dictionary, rows: History, numbers: Indices, n: int) -> None:
        """Know what a dictionary of n rows knows (`kinbandits.fit`); ``rows`` of these numbers are there for fits."""
        self._knowledge.adopt(dictionary, rows, numbers, n)
        self._columns = rows.contexts.shape[1]
        self.version += 1

    # -- arms that come and go ------------------------------------------------------------------

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

        `Known` needs its ``descriptor``, or its ``similarity`` to each of ``policy.arms``; `Graph` its ``neighbours``.
        """
        arms = self._arms.added(arm)
        edges = None if neighbours is None else self._arms.numbers(list_of("neighbours", neighbours)).tolist()
        given = {"descriptor": descriptor, "similarity": similarity, "neighbours": edges}
        taken = {t.similarity.arm_argument for t in self.kernel}
        for name, value in given.items():
            if value is not None and name not in taken:
                takes = next((f"it takes {t}=" for t in taken if t), "leave it out")
                raise InvalidInputError(f"this policy takes no {name}= for a new arm; {takes}")
        grown = [t.similarity.with_arm(self.n_arms, given.get(t.similarity.arm_argument or "")) for t in self.kernel]
        self._rearm(arms, grown)

    @one_thread
    def remove_arm(self, arm: ArmName) -> None:
        """Remove an arm and its data; its open decisions are void.

        It costs a refit: all other rows are learned again. `retire_arm` costs nothing and keeps the data.
        """
        arms, index = self._arms.removed(arm), self._arms.number(arm)
        self._rearm(arms, [t.similarity.without_arm(index) for t in self.kernel], index)
        self._ledger.drop_arm(index)

    def _rearm(self, arms: Arms, similarities: Sequence[Similarity], removed: int | None = None) -> None:
        self._check_not_frozen()
        for similarity in similarities:
            similarity.check_arms(len(arms.names))
        pairs = zip(self.kernel, similarities, strict=True)
        kernel = Terms(tuple(term.replace(similarity=similarity) for term, similarity in pairs))
        self._knowledge.with_arms(self._spec(kernel, len(arms.names)), removed)
        self._arms = arms
        object.__setattr__(self, "kernel", kernel)
        self.version += 1

    # -- what one reads -------------------------------------------------------------------------

    @property
    def n_observations(self) -> int:
        """How many rows the policy has learned from."""
        return self._knowledge.n

    @property
    def counts(self) -> dict[ArmName, int]:
        """How many rows each arm has."""
        return dict(zip(self.arms, self.regression.counts.tolist(), strict=True))

    @property
    def _k_z(self) -> list[Matrix]:
        return self.regression.k_z

    def plot_similarity(self, term: int | None = None) -> Any:
        """A matplotlib figure of `similarity_matrix`, without its diagonal; kin stand together."""
        return plotting.matrices_figure(
            [("Similarity of arms", self.similarity_matrix(term), list(map(str, self.arms)))]
        )

    @one_thread
    def log_det(self) -> float:
        """log det(I + diag(noise)^-1 K) of the rows learned; with uniform weights the paper's log g."""
        return self.regression.log_det()

    @one_thread
    def engine_report(self) -> dict[str, Any]:
        """What the engine did and how far it can be trusted; what is in it depends on the engine."""
        return {"engine": repr(self.engine), **self.regression.report()}

    @one_thread
    def covariance(self, context: ArrayLike, arms: Sequence[ArmName] | None = None) -> Matrix:
        """Joint posterior covariance of the candidates of one round, (k, k).

        It is that of a Gaussian process with this kernel and noise variance ``ridge`` (times n_a with per_arm
        weights): the root of its diagonal is sqrt(ridge) * width.
        """
        return self.regression.covariance(*self._query(context, arms)[0].points())

    @one_thread
    def sample(
        self,
        context: ArrayLike,
        size: int = 1,
        arms: Sequence[ArmName] | None = None,
        rng: np.random.Generator | None = None,
    ) -> Matrix:
        """Joint draws (size, k) of the candidates' rewards from the posterior, by ``rng`` or the policy's own."""
        if not isinstance(rng, np.random.Generator | None):
            raise InvalidTypeError(f"rng must be a numpy.random.Generator, or None for the policy's own, got {rng!r}")
        size, query = as_int("size", size), self._query(context, arms)[0]
        if size > 10**9:
            raise InvalidInputError("size must be at most 10^9; draw in several calls")
        root = symmetric_root(self.regression.covariance(*query.points()))
        normal = (self.rng if rng is None else rng).standard_normal((size, len(root)))
        return np.asarray(self._estimate(query).mean + normal @ root.T)

    @one_thread
    def explain(self, decision: Decision | int) -> Explanation:
        """What each arm's data add to the mean of the chosen arm, as is known now; an open decision may be an id."""
        own = self._own(decision)
        if isinstance(own, Decision):
            return explain(self, self._arms.number(own.arm), own.context)
        ticket = self._ledger.ticket(own)
        return explain(self, ticket.arm, ticket.context)

    @one_thread
    def explain_arm(self, arm: ArmName, context: ArrayLike) -> Explanation:
        """As `explain`, of any arm in any context (d,)."""
        if not isinstance(arm, str | int | np.generic):
            raise InvalidTypeError(f"explain_arm takes an arm and then a context, got {arm!r} as the arm")
        query, _ = self._query(context, [arm])
        return explain(self, int(query.arms[0]), query.contexts[0, 0])

    def __repr__(self) -> str:
        return text_repr(self)

    def _repr_html_(self) -> str:
        return html_repr(self)

    # -- saving and copies ----------------------------------------------------------------------

    def _snapshot(self) -> Self:
        other = copy(self)
        other._knowledge = copy(self._knowledge)
        other._knowledge.engine = self.regression.snapshot()
        return other

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self._knowledge.state()

    def _restore(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._knowledge.restore(data, arrays)


def _merged(kind: Kind, notes: list[Any]) -> Kind:
    """Whose contexts rounds have had, these too."""
    if kind == "rivals" or "rivals" in notes:
        return "rivals"
    return "task" if "task" in notes else kind
