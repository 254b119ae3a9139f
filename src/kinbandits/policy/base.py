"""What every policy does the same way: candidates, decisions, late rewards, randomness.

A subclass says which candidates lead (`_leaders`), what is estimated (`_estimate`) and how rows are learned (`_learn`);
the contract around them is here. Arms are in `Arms`, open decisions in `Ledger`.

**One meaning for one array.** (d,) is one round with one context for all candidates; (k, d) is one round with a context
for each candidate; many rounds are ``*_many``, (R, d) or (R, k, d). Candidates are ``policy.arms`` in their order, or
those of ``arms=``; results are in the same order. A retired arm is estimated, but never played.
"""

from __future__ import annotations

import copy
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import as_float64, number, rounds_of_contexts, rows_of_contexts
from kinbandits._frames import column_names, list_of, ordered
from kinbandits._threads import AnyTurn, Turn, one_thread
from kinbandits._types import ArmName, Indices, Mask, Matrix, Vector
from kinbandits._value import as_int, one_of, part, suggest, type_name
from kinbandits.errors import InvalidInputError, InvalidTypeError, UnknownDecisionError
from kinbandits.policy.arms import Arms, Candidates, arm_names
from kinbandits.policy.decision import Decision, Decisions
from kinbandits.policy.draw import TieBreak, draw, shares, with_floor
from kinbandits.policy.ledger import Ledger, Ticket, number_of
from kinbandits.regression.contract import Prediction, Query
from kinbandits.similarity import Similarity
from kinbandits.terms import Terms

TIE = 1e-12  # scores this close (relative) are a tie when ties are broken at random


class Policy(ABC):
    """A contextual bandit policy, for one thread at a time.

    ``choose`` and ``predict`` change nothing but the table of open decisions and the random state; ``update`` and
    ``observe`` are the only writers, and a call that fails leaves the policy as it was.

    Wherever contexts are asked for, a table of pandas, polars or another library will do as well, and its columns
    are known by name from the first one on (``feature_names``).
    """

    registry: ClassVar[dict[str, type[Policy]]] = {}
    """All policy classes: a saved file names the one it holds, ours by name, others as ``module:class``."""

    kind: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    """Names of the constructor's arguments, as `get_params` gives them."""

    _sealed: bool

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kind = type_name(cls)
        Policy.registry[cls.kind] = cls
        cls.__init__ = _sealing(cls, cls.__init__)  # type: ignore[method-assign]

    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        epsilon: float = 0.0,
        tie_break: TieBreak = "random",
        seed: int | np.random.Generator | None = 0,
        most_pending: int = 100_000,
    ) -> None:
        self._arms = Arms(arm_names(arms))
        self.epsilon = part("epsilon", epsilon)
        self.tie_break: TieBreak = one_of("tie_break", tie_break, "random", "first")
        if not isinstance(seed, np.random.Generator | None):
            seed = as_int("seed", seed)
        self.seed = seed if isinstance(seed, int) else None
        self.rng = np.random.default_rng(seed)
        self.most_pending = as_int("most_pending", most_pending, 1)
        self.feature_names: tuple[str, ...] | None = None  # of the first table seen; later ones are put in order
        self.learned_from: tuple[dict[str, Any], ...] = ()  # the logs that the policy was fitted to
        self.version = 0  # how often something was learned or arms changed
        self._ledger = Ledger(self.most_pending)
        self._owner = secrets.token_hex(8)  # whose decisions are taken: a copy takes those of the original
        self._columns: int | None = None  # of the contexts learned
        self._frozen = False
        self._turn = Turn()

    def __setattr__(self, name: str, value: Any) -> None:
        if "_sealed" in self.__dict__ and not name.startswith("_"):
            if name not in self.__dict__:
                known = [n for n in (*self.__dict__, *dir(type(self))) if not n.startswith("_")]
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r} to set{suggest(name, known)}")
            if name == "epsilon":
                value = part("epsilon", value)
            elif name in self.parameters:
                raise AttributeError(f"{name} is fixed when a policy is made; make another with {name}={value!r}")
        object.__setattr__(self, name, value)

    # -- what a subclass says -------------------------------------------------------------------

    @abstractmethod
    def _leaders(self, query: Query, first_round: int, beta: Vector) -> tuple[Mask | Matrix, list[Any] | None]:
        """Which candidates may be played in each round, (R, k), and a note to keep per round (or None).

        A mask of leaders, chosen with equal probability; or the probability of each candidate. ``beta`` is what
        `_beta` gave for these rounds.
        """

    @abstractmethod
    def _estimate(self, query: Query) -> Prediction:
        """Mean and width of every candidate, (R, k) each."""

    @abstractmethod
    def _learn(self, arms: Indices, contexts: Matrix, rewards: Vector, notes: list[Any]) -> None:
        """Learn from rows, atomically. A note is what `_leaders` gave for the decision; None for logged rows."""

    def _beta(self, query: Query, first_round: int) -> Vector:
        """The multiplier of the width in each round, (R,)."""
        return np.zeros(query.shape[0])

    @property
    @abstractmethod
    def n_observations(self) -> int:
        """How many rows the policy has learned from."""

    def _check_features(self, n_features: int) -> None:  # noqa: B027 (most kernels fit any)
        """Raise if contexts with this many columns do not fit the kernel."""

    # -- arms -----------------------------------------------------------------------------------

    @property
    def arms(self) -> tuple[ArmName, ...]:
        """The arms, retired ones included."""
        return self._arms.names

    @property
    def n_arms(self) -> int:
        """How many arms there are, retired ones included."""
        return len(self._arms.names)

    @property
    def active_arms(self) -> tuple[ArmName, ...]:
        """The arms that may be played, in order."""
        return self._arms.active

    @property
    def retired(self) -> frozenset[ArmName]:
        """The arms that are not played any more."""
        return self._arms.retired

    @one_thread
    def retire_arm(self, arm: ArmName) -> None:
        """Stop playing this arm; its data still help its kin, and its open decisions still count."""
        self._check_not_frozen()
        self._arms = self._arms.retire(arm)

    @one_thread
    def activate_arm(self, arm: ArmName) -> None:
        """Play a retired arm again, with all that is known of it."""
        self._check_not_frozen()
        self._arms = self._arms.activate(arm)

    # -- choosing -------------------------------------------------------------------------------

    @property
    def n_decisions(self) -> int:
        """How many decisions have been made."""
        return self._ledger.next_id

    @one_thread
    def choose(
        self,
        context: ArrayLike,
        arms: Sequence[ArmName] | None = None,
        *,
        task: ArmName | None = None,
        scores: bool = False,
    ) -> Decision:
        """Choose one candidate.

        Args:
            context: (d,), the same for all candidates, or (k, d), one row per candidate.
            arms: the candidates; all active arms if left out. One arm may stand several times, with a context
                for each.
            task: the arm that is given, where candidates are the rows of ``context`` (k, d): ``decision.index``
                says which row was chosen. The same as ``arms=[task] * k``.
            scores: compute mean, width and scores at once, so that they can be read at any later time.

        Example:
            >>> import kinbandits as kb
            >>> policy = kb.KMTLUCB(arms=["red", "blue"], tie_break="first")
            >>> decision = policy.choose([0.2, 0.7])
            >>> decision.arm, decision.propensity
            ('red', 1.0)
            >>> policy.choose([[0.2, 0.7], [0.9, 0.1], [0.5, 0.5]], task="blue").index in (0, 1, 2)
            True
        """
        if task is not None:
            if arms is not None:
                raise InvalidInputError("give arms=, or task= for candidates of one task, not both")
            rows = self._named(context)[0]
            if np.ndim(rows) != 2:
                raise InvalidInputError(
                    f"with task= contexts are (k, d), one row per candidate; got {np.ndim(rows)} dimensions"
                )
            arms = [task] * len(rows)
        return self._decide(context, arms, False, scores)[0]

    @one_thread
    def choose_many(
        self, contexts: ArrayLike, arms: Sequence[ArmName] | None = None, *, scores: bool = False
    ) -> Decisions:
        """Choose in many rounds at once, without learning in between.

        ``contexts`` is (R, d), one context a round, or (R, k, d), one for each candidate; a table has a round in
        each row. The choices are those that R calls of ``choose`` would have made.

        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=2, tie_break="first")
        >>> policy.choose_many([[0.1], [0.9]]).arm
        [0, 0]
        """
        return self._decide(contexts, arms, True, scores)

    @one_thread
    def propose(
        self,
        contexts: ArrayLike,
        arms: Sequence[ArmName] | None = None,
        *,
        uniform: ArrayLike,
        first_round: int = 0,
    ) -> Decisions:
        """Choose in many rounds, for a caller that stores open decisions and random numbers itself. Reads only.

        The decisions are not entered in this policy's table: their rewards go to ``observe``.

        Args:
            contexts: (R, d) or (R, k, d), as in ``choose_many``.
            arms: the candidates, as in ``choose``.
            uniform: (R, 2) numbers in [0, 1), in place of the policy's random state: the first decides whether
                a random candidate is played (epsilon), the second which, or breaks a tie.
            first_round: how many decisions came before, for an exploration schedule.

        Example:
            >>> import kinbandits as kb
            >>> policy = kb.KMTLUCB(arms=["red", "blue"], epsilon=0.2)
            >>> policy.propose([[0.2], [0.2]], uniform=[[0.1, 0.7], [0.9, 0.2]]).arm
            ['blue', 'red']
            >>> policy.n_decisions
            0
        """
        query, candidates = self._query(contexts, arms, many=True, play=True)
        draws, n = as_float64("uniform", uniform), query.shape[0]
        if draws.shape != (n, 2) or (draws < 0.0).any() or (draws >= 1.0).any():
            raise InvalidInputError(f"uniform must be ({n}, 2) numbers in [0, 1), got shape {draws.shape}")
        return self._decisions(query, candidates, as_int("first_round", first_round), draws)

    @one_thread
    def probabilities(self, context: ArrayLike, arms: Sequence[ArmName] | None = None) -> Vector:
        """The probability with which each candidate would be chosen now, (k,). Reads only.

        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=["red", "blue"], epsilon=0.2, tie_break="first")
        >>> policy.probabilities([0.2])
        array([0.9, 0.1])
        """
        return np.asarray(self._chances(*self._query(context, arms, play=True))[0])

    @one_thread
    def probabilities_many(self, contexts: ArrayLike, arms: Sequence[ArmName] | None = None) -> Matrix:
        """As `probabilities`, in many rounds: (R, k). ``contexts`` is as in ``choose_many``."""
        return self._chances(*self._query(contexts, arms, many=True, play=True))

    def _chances(self, query: Query, candidates: Candidates) -> Matrix:
        active, first = _playable(query, candidates), self._ledger.next_id
        leaders, _ = self._leaders(active, first, self._beta(active, first))
        found = with_floor(shares(leaders, self.tie_break), self.epsilon)
        if candidates.playable is None:
            return found
        chances = np.zeros(query.shape)
        chances[:, candidates.playable] = found
        return chances

    @one_thread
    def predict(self, context: ArrayLike, arms: Sequence[ArmName] | None = None) -> Prediction:
        """Mean and width of every candidate, (k,) each. Reads only.

        ``context`` is (d,), or (k, d) with a context for each candidate; the candidates are all arms if left out.

        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=2, context_kernel=kb.RBF(), ridge=0.25, rewards=None)
        >>> policy.observe([0], [[0.0]], [1.0])
        >>> mean, width = policy.predict([0.0])
        >>> mean.round(3), width.round(3)
        (array([0.8, 0. ]), array([0.894, 2.   ]))
        """
        mean, width = self._estimate(self._query(context, arms)[0])
        return Prediction(mean[0], width[0])

    @one_thread
    def predict_many(self, contexts: ArrayLike, arms: Sequence[ArmName] | None = None) -> Prediction:
        """As `predict`, in many rounds: (R, k) each. ``contexts`` is as in ``choose_many``."""
        return self._estimate(self._query(contexts, arms, many=True)[0])

    @one_thread
    def frozen(self) -> Self:
        """What is known now, to be read from any number of threads: for ``propose`` and ``predict``.

        Open decisions are left behind, and a frozen policy does not learn.
        """
        other = self._snapshot()
        other._ledger, other._turn, other._frozen = Ledger(self.most_pending), AnyTurn(), True
        other.rng = copy.deepcopy(self.rng)
        return other

    def _snapshot(self) -> Self:
        """A copy that nobody writes into."""
        return copy.deepcopy(self)

    @one_thread
    def numbers(self, query: Query) -> Prediction:
        """Mean and width, for the decisions of this policy that are read later."""
        return self._estimate(query)

    def _decide(self, contexts: ArrayLike, arms: Sequence[ArmName] | None, many: bool, scores: bool) -> Decisions:
        query, candidates = self._query(contexts, arms, many=many, play=True, names=True)
        state: Any = self.rng.bit_generator.state if scores else None
        decisions = self._decisions(query, candidates, self._ledger.next_id, None)
        if scores:
            try:
                _ = decisions.scores
            except BaseException:
                self.rng.bit_generator.state = state
                raise
        self._ledger.enter(decisions)
        return decisions

    def _decisions(self, query: Query, candidates: Candidates, first: int, uniform: Matrix | None) -> Decisions:
        # All that can fail comes before the random state and the table of open decisions change.
        active = _playable(query, candidates)
        beta = self._beta(active, first)
        leaders, notes = self._leaders(active, first, beta)
        uniform = self.rng.random((query.shape[0], 2)) if uniform is None else uniform
        indices, propensities = draw(leaders, uniform, self.tie_break, self.epsilon)
        if candidates.playable is not None:
            indices = candidates.playable[indices]
        indices.setflags(write=False)
        propensities.setflags(write=False)
        return Decisions(
            query, candidates.names, first, indices, propensities, beta, self._owner, self, self.version, notes
        )

    @property
    def _tolerance(self) -> float:
        return 0.0 if self.tie_break == "first" else TIE

    # -- contexts -------------------------------------------------------------------------------

    @property
    def n_features(self) -> int | None:
        """Columns of a context, as far as data or open decisions have settled it."""
        return self._ledger.n_features if self._columns is None else self._columns

    def _query(
        self, contexts: Any, arms: object = None, *, many: bool = False, play: bool = False, names: bool = False
    ) -> tuple[Query, Candidates]:
        """Contexts of one round, or of ``many``, and these candidates, checked; to ``play``, none may be retired.

        ``names`` remembers what the columns of a table are called.
        """
        candidates = self._arms.candidates(arms, to_play=play)
        array, found = self._named(contexts)
        rounds = rounds_of_contexts(array, len(candidates), self.n_features, batch=many)
        if self._columns is None:
            self._check_features(rounds.shape[2])
        if names and found is not None and self.feature_names is None:
            self.feature_names = found
        return Query(candidates.indices, rounds), candidates

    def _named(self, contexts: Any) -> tuple[Any, tuple[str, ...] | None]:
        """Contexts as an array with columns in the order learned, and their names if they have any."""
        found = column_names(contexts)
        if found is None:
            return contexts, None
        return ordered(contexts, self.feature_names or found, found), tuple(found)

    # -- learning -------------------------------------------------------------------------------

    @one_thread
    def update(self, decision: Decision | Decisions | int, reward: Any) -> None:
        """Learn the reward of a decision, given by the decision or its id; late and out of order is normal.

        The same reward again is accepted as a repeat and changes nothing; another value is an error. All decisions of
        a ``choose_many`` take an array of rewards.
        """
        if isinstance(decision, Decisions):
            values = as_float64("reward", reward)
            if values.shape != (len(decision),):
                raise InvalidInputError(f"reward must have one entry for each of {len(decision)} decisions")
            pairs: list[tuple[Any, float]] = list(zip(decision, values.tolist(), strict=True))
        else:
            pairs = [(decision, number("reward", reward))]
        new: dict[int, tuple[Ticket, float]] = {}
        for one, value in pairs:
            own = self._own(one)
            if not self._ledger.is_repeat(own, value):
                new[number_of(own)] = self._ledger.ticket(own), value
        if not new:
            return
        tickets = [ticket for ticket, _ in new.values()]
        self._teach(
            np.array([t.arm for t in tickets], dtype=np.intp),
            np.array([t.context for t in tickets]),
            np.array([value for _, value in new.values()]),
            [t.note for t in tickets],
        )
        for name, (_, value) in new.items():
            self._ledger.close(name, value)

    @one_thread
    def observe(
        self,
        arms: Sequence[ArmName] | NDArray[Any],
        contexts: ArrayLike,
        rewards: ArrayLike,
        *,
        own_contexts: bool | Literal["task"] = False,
    ) -> None:
        """Learn logged rows: ``arms`` (n,) names, ``contexts`` (n, d), ``rewards`` (n,).

        ``own_contexts`` says that in their rounds every candidate had a context of its own, so that a row's context
        tells nothing of the other arms; ``"task"``, that the arm was given besides (``choose(..., task=)``).

        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=["a", "b"])
        >>> policy.observe(["a", "b", "a"], [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
        >>> policy.n_observations
        3
        """
        names = list_of("arms", arms)
        values = as_float64("rewards", rewards)
        if values.shape != (len(names),):
            raise InvalidInputError(f"rewards must have one entry per row: {len(names)} arms, but shape {values.shape}")
        if not (
            isinstance(own_contexts, bool | np.bool_) or (isinstance(own_contexts, str) and own_contexts == "task")
        ):
            raise InvalidTypeError(f'own_contexts must be False, True or "task", got {own_contexts!r}')
        if not names:
            return
        array, found = self._named(contexts)
        rows = rows_of_contexts(array, self.n_features)
        if len(rows) != len(names):
            raise InvalidInputError(f"contexts has {len(rows)} rows, but arms has {len(names)}")
        self._check_features(rows.shape[1])
        note = own_contexts if isinstance(own_contexts, str) else "rivals" if own_contexts else None
        self._teach(self._arms.numbers(names), rows, values, [note] * len(names))
        self.feature_names = self.feature_names or found

    def _teach(self, arms: Indices, contexts: Matrix, rewards: Vector, notes: list[Any]) -> None:
        self._check_not_frozen()
        self._learn(arms, contexts, rewards, notes)
        self._columns = contexts.shape[1]
        self.version += 1

    def _check_not_frozen(self) -> None:
        if self._frozen:
            raise InvalidTypeError("a frozen policy does not learn or change; change the one it was made of")

    @one_thread
    def pending(self) -> list[int]:
        """The ids of open decisions, oldest first."""
        return list(self._ledger.open)

    @one_thread
    def cancel(self, decision: Decision | int) -> None:
        """Void an open decision, whose reward will not come. Cancelling it again changes nothing."""
        self._ledger.cancel(self._own(decision))

    def _own(self, decision: Decision | int) -> Decision | int:
        """A decision of this policy, or the number of one."""
        if isinstance(decision, Decision):
            if decision.owner != self._owner:
                raise UnknownDecisionError(f"{decision!r} was made by another policy")
            return decision
        if isinstance(decision, bool) or not isinstance(decision, int | np.integer):
            raise InvalidTypeError(f"give a Decision or its id (a whole number), got {decision!r}")
        return int(decision)

    # -- saving and copies ----------------------------------------------------------------------

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The arguments by name, as given or defaulted; ``type(policy)(**policy.get_params())`` starts afresh."""
        return {name: list(self.arms) if name == "arms" else getattr(self, name) for name in self.parameters}

    def __sklearn_clone__(self) -> Self:
        return type(self)(**self.get_params())

    @one_thread
    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy to a file: arrays and JSON, no pickle. `kinbandits.load` resumes it exactly."""
        from kinbandits.policy.persist import save

        save(self, path)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was learned, as JSON data and arrays."""
        raise InvalidTypeError(f"{type(self).__name__} does not say what it has learned, so it cannot be saved")

    def _restore(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `_state` gave."""
        raise InvalidTypeError(f"{type(self).__name__} cannot be loaded")

    @one_thread
    def copy(self) -> Self:
        """An independent copy: same knowledge, same open decisions, same random state."""
        return copy.deepcopy(self)


def _sealing(cls: type[Policy], init: Callable[..., None]) -> Callable[..., None]:
    """The constructor, after which a policy takes no new attributes: a mistyped setting would do nothing."""

    @wraps(init)
    def sealed(self: Policy, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if type(self) is cls:
            self._sealed = True

    return sealed


def _playable(query: Query, candidates: Candidates) -> Query:
    """The query without candidates that may not be played."""
    rows = candidates.playable
    if rows is None:
        return query
    return Query(query.arms[rows], query.contexts if query.shared else query.contexts[:, rows])


class KernelPolicy(Policy):
    """A policy whose estimates are the regression with ``kernel``, a sum of terms."""

    kernel: Terms

    @property
    @abstractmethod
    def _k_z(self) -> list[Matrix]:
        """The similarity matrix of each term."""

    @property
    def similarity(self) -> Similarity:
        """The similarity value, for the arms as they are now (of the first term, if there are several)."""
        return self.kernel.terms[0].similarity

    @property
    def context_kernel(self) -> Any:
        """The context kernel as it was given; None where it is learned (of the first term, if there are several)."""
        return self.kernel.terms[0].context_kernel

    @one_thread
    def similarity_matrix(self, term: int | None = None) -> Matrix:
        """The current (N, N) similarity matrix, arms in the order of ``arms``; of several terms, say which."""
        n = len(self.kernel)
        if term is None and n > 1:
            raise InvalidInputError(f"this policy's kernel has {n} terms; say which with term=0 and so on")
        if term is not None and as_int("term", term) >= n:
            raise InvalidInputError(f"term must be between 0 and {n - 1}, got {term!r}")
        return np.array(self._k_z[term or 0])

    def _check_features(self, n_features: int) -> None:
        for term in self.kernel:
            term.check_features(n_features)
