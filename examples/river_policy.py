"""A policy of ours in river's bandit interface (https://github.com/online-ml/river).

python examples/river_policy.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from river.bandit.base import ContextualPolicy

import kinbandits as kb


class RiverPolicy(ContextualPolicy):
    """``make`` makes a policy for the arms of the first pull. A context is a mapping, always with the same keys."""

    def __init__(self, make: Callable[[list[Any]], Any], reward_obj: Any = None, burn_in: int = 0) -> None:
        super().__init__(reward_obj=reward_obj, burn_in=burn_in)
        self.make = make
        self._policy: Any = None

    def _pull(self, arm_ids: Any, context: dict[str, float]) -> Any:
        if self._policy is None:
            self._policy = self.make(list(arm_ids))
        decision = self._policy.choose(self._row(context), list(arm_ids))
        self._policy.cancel(decision)  # river gives arm and context back with the reward, not the decision
        return decision.arm

    def update(self, arm_id: Any, context: dict[str, float], *reward: float) -> None:
        """Learn a reward."""
        self._policy.observe([arm_id], [self._row(context)], list(reward))
        super().update(arm_id, context, *reward)

    @staticmethod
    def _row(context: dict[str, float]) -> list[float]:
        return [context[name] for name in sorted(context)]


def main(rounds: int = 300) -> float:
    """The share of rounds in which the better arm was pulled: "red" pays in the morning, "blue" later."""
    policy = RiverPolicy(lambda arms: kb.KMTLUCB(arms))
    rng, good = np.random.default_rng(0), 0
    for _ in range(rounds):
        context = {"hour": rng.random(), "age": rng.random()}
        arm = policy.pull(["red", "blue"], context=context)
        reward = float((arm == "red") == (context["hour"] < 0.5))
        policy.update(arm, context, reward)
        good += int(reward)
    return good / rounds


if __name__ == "__main__":
    print(f"the better arm in {main():.0%} of the rounds")
