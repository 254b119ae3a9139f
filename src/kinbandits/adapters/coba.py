"""A policy as a learner of coba (https://github.com/VowpalWabbit/coba).

>>> import coba as cb
>>> import kinbandits as kb
>>> options = dict(n_actions=3, n_context_features=2, n_action_features=0, seed=1)
>>> environment = cb.Environments.from_linear_synthetic(100, **options)
>>> learners = [CobaLearner(lambda arms: kb.KMTLUCB(arms)), cb.RandomLearner()]
>>> result = cb.Experiment(environment, learners).run(quiet=True)
>>> len(result.interactions)
200
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kinbandits.adapters.live import Maker, arm_name, describe, with_arms
from kinbandits.errors import InvalidTypeError, MissingPackageError
from kinbandits.policies import Policy

try:
    from coba.primitives import Learner
except ImportError as error:
    raise MissingPackageError("kinbandits.adapters.coba needs coba; try: pip install coba") from error

__all__ = ["CobaLearner"]

_ANY = "action"  # the one arm, where actions are told apart by their features


class CobaLearner(Learner):  # type: ignore[misc]  # coba has no types
    """A policy of ours where coba wants a learner.

    Each action is an arm: text and whole numbers by their own name, a one-hot row by its text. Actions not seen
    before become new arms. Where actions have features instead of names, ``features`` says how these enter the
    context, and they are candidates of one arm. What coba's evaluator remembers of a prediction brings the
    reward back to its decision; without it (learning from a log) the row is simply observed.

    Args:
        policy: a policy, whose settings and arms are taken afresh, or a function that makes one for a list of arms,
            which fits environments with different actions.
        features: the context of an action, as a function of (context, action), such as ``lambda x, a: [*x, *a]``;
            default: the context alone.

    Example:
        >>> import kinbandits as kb
        >>> learner = CobaLearner(kb.KMTLUCB(["red", "blue"], tie_break="first"))
        >>> action, probability, info = learner.predict([0.2, 0.7], ["red", "blue"])
        >>> learner.learn([0.2, 0.7], action, 1.0, probability, **info)
        >>> action, probability, learner.policy.n_observations
        ('red', 1.0, 1)
    """

    def __init__(self, policy: Maker, features: Callable[[Any, Any], Any] | None = None) -> None:
        self._source = policy
        self._features = features
        self._policy: Policy | None = None

    @property
    def policy(self) -> Policy:
        """The policy that learns, once there was a round."""
        if self._policy is None:
            raise InvalidTypeError("there is no policy yet: it is made in the first round, when actions are known")
        return self._policy

    @property
    def params(self) -> Mapping[str, Any]:
        """What coba writes into its table of learners."""
        return describe(self._source)

    def predict(self, context: Any, actions: Sequence[Any]) -> tuple[Any, float, dict[str, Any]]:
        """Choose; the id of the decision goes along, so that the reward finds it."""
        names = self._names(actions)
        decision = self.policy.choose(self._contexts(context, actions), names)
        return actions[decision.index], decision.propensity, {"decision": decision.id}

    def score(self, context: Any, actions: Sequence[Any], action: Any) -> float:
        """The probability with which the action would be chosen. Reads only."""
        names = self._names(actions)
        rows = np.asarray(self._contexts(context, actions), dtype=np.float64)
        found = self.policy.probabilities(rows.reshape(1, -1, rows.shape[-1]), names)
        return float(found[0, list(actions).index(action)])

    def learn(
        self, context: Any, action: Any, reward: float, probability: float, decision: int | None = None, **info: Any
    ) -> None:
        """Learn a reward, of a decision of ours or of a log."""
        (name,) = self._names([action])
        if decision is not None:
            self.policy.update(decision, float(reward))
        else:
            row = np.atleast_2d(np.asarray(self._contexts(context, [action]), dtype=np.float64))
            self.policy.observe([name], row, [float(reward)])

    def _names(self, actions: Sequence[Any]) -> list[Any]:
        if not actions:
            raise InvalidTypeError("this round has no discrete actions; a bandit over arms needs a list of them")
        by_features = self._features is not None and not isinstance(actions[0], str | int | float)
        names = [_ANY if by_features else arm_name(a) for a in actions]
        self._policy = with_arms(self._source, self._policy, names)
        return names

    def _contexts(self, context: Any, actions: Sequence[Any]) -> Any:
        if self._features is not None:
            return [_row(self._features(context, a)) for a in actions]
        return _row(context)


def _row(context: Any) -> list[float]:
    """A context of coba as numbers: nothing is a constant, a number is one feature."""
    if context is None:
        return [1.0]
    if isinstance(context, Mapping):
        raise InvalidTypeError(
            "the context is a mapping (sparse); make it dense first, e.g. with environments.dense(n, 'hashing')"
        )
    if isinstance(context, bool | int | float):
        return [float(context)]
    if isinstance(context, str):
        raise InvalidTypeError(f"the context is text, {context!r}; encode it as numbers first")
    return list(context)
