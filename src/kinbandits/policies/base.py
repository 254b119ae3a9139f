"""What every policy does the same way: arms, candidates, decisions, late rewards, randomness.

A policy chooses among candidates and learns from rewards. Subclasses say who leads (`_leaders`), what is
estimated (`_predict`) and how rows are learned (`_learn`); the contract around them is here.
"""

from __future__ import annotations

import copy
import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import as_float64, number, rows_of_contexts
from kinbandits._renamed import told_new_spelling
from kinbandits._threads import Turn, one_thread
from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits._value import as_int, meant, one_of, part
from kinbandits.errors import InvalidInputError, InvalidTypeError, UnknownSettingError
from kinbandits.policies.arms import Candidates, ContextReader, listed
from kinbandits.policies.decision import ArmName, Batch, Decision, Decisions
from kinbandits.policies.ledger import Ledger, Pending
from kinbandits.policies.parameters import Parameters
from kinbandits.policies.tie_breaking import TieBreak, draw, mixed, shares
from kinbandits.regression import Prediction, Query

_TIE = 1e-12  # scores this close (relative) are a tie when ties are broken at random


class _Built(ABCMeta):
    """Marks an object when its constructor, and those of subclasses, have run."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        policy = super().__call__(*args, **kwargs)
        policy._built = True
        return policy

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of the constructor, which `__call__` would hide."""
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Policy(Parameters, ContextReader, metaclass=_Built):
    """A contextual bandit policy. One policy is for one thread at a time.

    ``choose`` and ``predict`` change nothing but the table of open decisions and the random state;
    ``update`` and ``observe`` are the only writers, and a call that fails leaves the policy as it was.

    Wherever contexts are asked for, a table of pandas, polars or another library will do as well, and its columns
    are known by name from the first one on (``feature_names``); arms may be a categorical column.
    """

    kind: ClassVar[str]
    learned_from: tuple[dict[str, Any], ...] = ()  # the logs of services that it was fitted to: see `bulk.sources`
    kinds: ClassVar[dict[str, type[Any]]] = {}
    """All policy classes: a saved file names the one it holds, ours by name, others as ``module:class``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        ours = cls.__module__.partition(".")[0] == "kinbandits"
        cls.kind = cls.__name__ if ours else f"{cls.__module__}:{cls.__qualname__}"
        Policy.kinds[cls.kind] = cls

    @told_new_spelling
    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        epsilon: float = 0.0,
        tie_break: TieBreak = "random",
        seed: int | np.random.Generator | None = 0,
        pending: Pending | None = None,
    ) -> None:
        super().__init__(arms)
        self.epsilon = part("epsilon", epsilon)
        one_of("tie_break", tie_break, "random", "first")
        self.tie_break = tie_break
        self._tolerance = 0.0 if tie_break == "first" else _TIE
        self.seed = int(seed) if isinstance(seed, int | np.integer) else None
        try:
            self.rng = np.random.default_rng(seed)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"seed must be a whole number of at least 0, or a generator, got {seed!r}"
            ) from error
        if pending is not None and not isinstance(pending, Pending):
            raise InvalidTypeError(f"pending must be kb.Pending(most=..., forget_after=...), got {pending!r}")
        self._ledger = Ledger(pending or Pending())
        self._turn = Turn()
        self._version = 0  # how often something was learned or arms changed

    def __setattr__(self, name: str, value: Any) -> None:
        """A setting that is not there was mistyped."""
        if name[0] != "_" and "_built" in self.__dict__ and not hasattr(self, name):
            near = meant(name, [n for n in dir(type(self)) if n[0] != "_"] + list(self.__dict__))
            raise UnknownSettingError(f"{type(self).__name__} has no setting {name!r}{near}")
        super().__setattr__(name, value)

    # -- what a subclass says -------------------------------------------------------------------

    @abstractmethod
    def _leaders(
        self, query: Query, first_round: int, exploration: Vector, tolerance: float
    ) -> tuple[Mask | Matrix, list[Any] | None]:
        """Which candidates may be played in each round, (R, k), and a note to keep per round (or None).

        A mask of leaders, who share the round alike; or, from a policy that plays at random, their shares.
        ``exploration`` is what `_exploration` gave for these rounds.
        """

    @abstractmethod
    def _predict(self, query: Query) -> Prediction:
        """Mean and width of every candidate, (R, k) each."""

    @abstractmethod
    def _learn(self, arms: Indices, contexts: Matrix, rewards: Vector, notes: list[Any]) -> None:
        """Learn from rows, atomically. A note is what `_leaders` gave for the decision; None for logged rows."""

    @abstractmethod
    def _exploration(self, first_round: int, shape: tuple[int, int]) -> Vector:
        """The multiplier of the width in R rounds of k candidates, (R,); ``shape`` is (R, k)."""

    @property
    @abstractmethod
    def n_observations(self) -> int:
        """How many rows the policy has learned from."""

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
            if np.ndim(context) != 2:
                raise InvalidInputError(
                    f"with task= contexts are (k, d), one row per candidate; got {np.ndim(context)} dimensions"
                )
            arms = [task] * len(context)  # type: ignore[arg-type]
        candidates = self._candidates(arms, to_play=True)
        return Decision(self._decide(self._checked(context, candidates, keep=True), candidates, scores), 0)

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
        candidates = self._candidates(arms, to_play=True)
        return Decisions(
            self._decide(self._checked(contexts, candidates, batch=True, keep=True), candidates, scores)
        )

    @one_thread
    def propose(
        self,
        contexts: ArrayLike,
        arms: Sequence[ArmName] | None = None,
        *,
        uniform: ArrayLike,
        first_round: int = 0,
    ) -> Decisions:
        """Choose in many rounds, for a caller who keeps the open decisions and the random numbers. Reads only.

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
        candidates = self._candidates(arms, to_play=True)
        rounds = self._checked(contexts, candidates, batch=True)
        draws = as_float64("uniform", uniform)
        if draws.shape != (len(rounds), 2) or (draws < 0.0).any() or (draws >= 1.0).any():
            raise InvalidInputError(
                f"uniform must be ({len(rounds)}, 2) numbers in [0, 1), got shape {draws.shape}"
            )
        return Decisions(self._batch(rounds, candidates, as_int("first_round", first_round, 0), draws))

    @one_thread
    def probabilities(self, contexts: ArrayLike, arms: Sequence[ArmName] | None = None) -> Vector:
        """The probability with which each candidate would be chosen now, (R, k). Reads only.

        ``contexts`` is (R, d) or (R, k, d), as in ``choose_many``. This is what off-policy evaluation needs.

        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=["red", "blue"], epsilon=0.2, tie_break="first")
        >>> policy.probabilities([[0.2]])
        array([[0.9, 0.1]])
        """
        candidates = self._candidates(arms, to_play=True)
        rounds = self._checked(contexts, candidates, batch=True)
        first = self._ledger.next_id
        query = Query(candidates.indices, rounds)
        exploration = self._exploration(first, query.shape)
        leaders, _ = self._leaders(query, first, exploration, self._tolerance)
        return mixed(shares(leaders, self.tie_break), self.epsilon)

    def frozen(self) -> Self:
        """What is known now, laid out for being read often and from other threads: for ``propose``, ``predict``.

        Open decisions are left behind, and a frozen policy does not learn.
        """
        return self.copy()

    @one_thread
    def predict(self, contexts: ArrayLike, arms: Sequence[ArmName] | None = None) -> Prediction:
        """Mean and width of every candidate: (k,) each, or (R, k) for many rounds. Reads only.

        ``contexts`` is (d,), one round; or (R, d) or (R, k, d), as in ``choose_many``.

        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=2, context_kernel=kb.RBF(), ridge=0.25)
        >>> policy.observe([0], [[0.0]], [1.0])
        >>> mean, width = policy.predict([0.0])
        >>> mean.round(3), width.round(3)
        (array([0.8, 0. ]), array([0.894, 2.   ]))
        """
        mean, width = self._predict(self._query(contexts, arms, batch=True))
        if np.ndim(self._named(contexts)[0]) < 2:
            return Prediction(mean[0], width[0])
        return Prediction(mean, width)

    def _decide(self, rounds: Matrix, candidates: Candidates, scores: bool) -> Batch:
        batch = self._batch(rounds, candidates, self._ledger.next_id, None, scores)
        self._ledger.open(batch)
        return batch

    def _batch(
        self, rounds: Matrix, candidates: Candidates, first: int, draws: Vector | None, scores: bool = False
    ) -> Batch:
        query = Query(candidates.indices, rounds)
        # All that can fail comes before the random state and the table of open decisions change.
        exploration = self._exploration(first, query.shape)
        leaders, notes = self._leaders(query, first, exploration, self._tolerance)
        prediction = self._predict(query) if scores else None
        uniform = self.rng.random((len(rounds), 2)) if draws is None else draws
        indices, propensities = self._draw(leaders, uniform)
        indices.setflags(write=False)  # open decisions are read off these
        propensities.setflags(write=False)
        batch = Batch(
            query, candidates.names, first, indices, propensities, exploration, self, self._version, notes
        )
        if prediction is not None:
            batch.keep(prediction)
        return batch

    def _draw(self, leaders: Mask | Matrix, uniform: Vector) -> tuple[Indices, Vector]:
        return draw(leaders, uniform, self.tie_break, self.epsilon)

    # -- learning -------------------------------------------------------------------------------

    @one_thread
    def update(self, decision: Decision | Decisions | int, reward: float | ArrayLike) -> None:
        """Learn the reward of a decision, given by the decision or its id; late and out of order is normal.

        The same reward again is accepted as a repeat and changes nothing; another value is an error. The decisions
        of ``choose_many`` are learned at once, with a reward for each: all of them, or none.

        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=2)
        >>> policy.update(policy.choose_many([[0.1], [0.9]]), [1.0, 0.0])
        >>> policy.n_observations
        2
        """
        if isinstance(decision, Decisions):
            self._update_all(decision, as_float64("reward", reward))
            return
        decision_id = self._decision_id(decision)
        value = number("reward", reward)
        if self._ledger.is_repeat(decision_id, value):
            return
        ticket = self._ledger.ticket(decision_id)
        self._learn(
            np.array([ticket.arm], dtype=np.intp), ticket.context[None, :], np.array([value]), [ticket.note]
        )
        self._version += 1
        self._ledger.settle(decision_id, value)

    def _update_all(self, decisions: Decisions, rewards: Vector) -> None:
        if rewards.shape != (len(decisions),):
            raise InvalidInputError(
                f"reward must have one entry per decision: {len(decisions)} decisions, but shape {rewards.shape}"
            )
        ids, values = [self._ledger.number(one) for one in decisions], rewards.tolist()
        new = [(i, value) for i, value in zip(ids, values, strict=True) if not self._ledger.is_repeat(i, value)]
        if not new:
            return
        tickets = [self._ledger.ticket(i) for i, _ in new]
        arms, contexts = np.array([t.arm for t in tickets], dtype=np.intp), np.stack([t.context for t in tickets])
        self._learn(arms, contexts, np.array([value for _, value in new]), [t.note for t in tickets])
        self._version += 1
        for i, value in new:
            self._ledger.settle(i, value)

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
        `Adaptive` wants to know.

        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=["a", "b"])
        >>> policy.observe(["a", "b", "a"], [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
        >>> policy.n_observations
        3
        """
        names = listed("arms", arms)
        values = as_float64("rewards", rewards)
        if values.shape != (len(names),):
            raise InvalidInputError(
                f"rewards must have one entry per row: {len(names)} arms, but shape {values.shape}"
            )
        if not names:
            return
        array, found = self._named(contexts)
        rows = rows_of_contexts(array, self._n_features)
        if len(rows) != len(names):
            raise InvalidInputError(f"contexts has {len(rows)} rows, but arms has {len(names)}")
        self._check_features(rows.shape[1])
        if own_contexts not in (False, True, "task"):
            raise InvalidInputError(f'own_contexts must be False, True or "task", got {own_contexts!r}')
        note = "task" if own_contexts == "task" else "apart" if own_contexts else None
        self._learn(self._arm_indices(names), rows, values, [note] * len(names))
        self.feature_names = self.feature_names or found
        self._version += 1

    @one_thread
    def pending(self) -> list[int]:
        """The ids of open decisions, oldest first."""
        return list(self._ledger)

    @one_thread
    def cancel(self, decision: Decision | int) -> None:
        """Void an open decision: its reward will not come. Cancelling it again changes nothing."""
        self._ledger.drop(self._decision_id(decision))

    # -- arms -----------------------------------------------------------------------------------

    def _append_arm(self, arm: ArmName) -> None:
        super()._append_arm(arm)
        self._version += 1

    def _drop_arm(self, arm: ArmName) -> None:
        self._ledger.drop_arm(self._index[arm])
        super()._drop_arm(arm)
        self._version += 1

    # -- saving ---------------------------------------------------------------------------------

    @one_thread
    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy to a file: arrays and JSON, no pickle. `kinbandits.load` resumes it exactly."""
        from kinbandits.policies.persist import save

        save(self, path)

    def _learned(self, spec: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was learned, as JSON data and arrays; ``spec`` gives the JSON data of a value (a kernel)."""
        raise InvalidTypeError(f"{type(self).__name__} does not say what it has learned, so it cannot be saved")

    def _relearn(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]], value: Callable[[Any], Any]) -> None:
        """Take back what `_learned` gave; ``value`` rebuilds a value from its JSON data."""
        raise InvalidTypeError(f"{type(self).__name__} cannot be loaded")

    # -- copies ---------------------------------------------------------------------------------

    @one_thread
    def copy(self) -> Self:
        """An independent copy: same knowledge, same open decisions, same random state."""
        other = copy.copy(self)
        other._turn = Turn()
        other._names, other.retired = list(self._names), set(self.retired)
        other._index = dict(self._index)
        other.rng = copy.deepcopy(self.rng)
        other._ledger = self._ledger.copy()
        return other

    def _decision_id(self, decision: Decision | int) -> int:
        if isinstance(decision, Decision):
            return self._ledger.number(decision)
        if isinstance(decision, bool) or not isinstance(decision, int | np.integer):
            raise InvalidTypeError(f"give a Decision or its id (a whole number), got {decision!r}")
        return int(decision)
