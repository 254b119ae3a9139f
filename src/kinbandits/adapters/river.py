"""A policy in river's bandit interface (https://github.com/online-ml/river).

>>> import kinbandits as kb
>>> policy = RiverPolicy(lambda arms: kb.KMTLUCB(arms, tie_break="first"))
>>> arm = policy.pull(["red", "blue"], context={"age": 0.3, "hour": 0.8})
>>> policy.update(arm, {"age": 0.3, "hour": 0.8}, 1.0)
>>> arm, policy.ranking
('red', ['red'])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kinbandits.adapters.live import Maker, with_arms
from kinbandits.errors import InvalidInputError, InvalidTypeError, MissingPackageError
from kinbandits.policies import Policy

try:
    from river.bandit.base import ContextualPolicy
except ImportError as error:
    raise MissingPackageError("kinbandits.adapters.river needs river; try: pip install river") from error

__all__ = ["RiverPolicy"]

_OPEN = 10_000  # pulls remembered until their reward comes


class RiverPolicy(ContextualPolicy):
    """A policy of ours where river wants a contextual bandit.

    Arms are those named in ``pull``; new ones are added. A context is a mapping from feature names to numbers; the
    names of the first one settle the columns, and later ones must have the same names, in any order. A reward goes
    to the pull of that arm and context if there was one, and is observed as a logged row otherwise.

    Args:
        policy: a policy, whose settings and arms are taken afresh, or a function that makes one for a list of arms.
        reward_obj, reward_scaler, burn_in: as in river; they serve its ``ranking``, and the policy learns the
            rewards as they are.
    """

    def __init__(self, policy: Maker, reward_obj: Any = None, reward_scaler: Any = None, burn_in: int = 0) -> None:
        super().__init__(reward_obj=reward_obj, reward_scaler=reward_scaler, burn_in=burn_in)
        self.policy = policy
        self._live: Policy | None = None
        self._columns: list[Any] | None = None
        self._open: dict[Any, int] = {}

    @property
    def live(self) -> Policy:
        """The policy that learns, once there was a pull."""
        if self._live is None:
            raise InvalidTypeError("there is no policy yet: it is made at the first pull, when arms are known")
        return self._live

    def _pull(self, arm_ids: Sequence[Any], context: Mapping[Any, float] | None = None) -> Any:
        row = self._row(context)
        self._live = with_arms(self.policy, self._live, list(arm_ids))
        decision = self._live.choose(row, list(arm_ids))
        self._open[decision.arm, tuple(row)] = decision.id
        if len(self._open) > _OPEN:
            oldest = self._open.pop(next(iter(self._open)))
            if oldest in self._live.pending():
                self._live.cancel(oldest)
        return decision.arm

    def update(self, arm_id: Any, context: Any, *reward_args: Any, **reward_kwargs: Any) -> None:
        """Learn a reward."""
        if len(reward_args) != 1 or reward_kwargs:
            raise InvalidTypeError(f"give one reward, a number; got {reward_args} {reward_kwargs}")
        row = self._row(context)
        self._live = with_arms(self.policy, self._live, [arm_id])
        decision = self._open.get((arm_id, tuple(row)))
        if decision is not None:
            self._live.update(decision, reward_args[0])
            del self._open[arm_id, tuple(row)]
        else:
            self._live.observe([arm_id], [row], [reward_args[0]])
        super().update(arm_id, context, *reward_args)  # type: ignore[no-untyped-call]

    def _row(self, context: Mapping[Any, float] | None) -> list[float]:
        if context is None:
            context = {"constant": 1.0}
        if not isinstance(context, Mapping):
            raise InvalidTypeError(f"context must be a mapping from feature names to numbers, got {context!r}")
        if self._columns is None:
            self._columns = sorted(context, key=str)
        elif set(context) != set(self._columns):
            odd = sorted(set(context) ^ set(self._columns), key=str)[0]
            state = "is new" if odd in context else "is missing"
            raise InvalidInputError(f"the feature {odd!r} {state}; the features are {self._columns[:8]}")
        return [context[name] for name in self._columns]
