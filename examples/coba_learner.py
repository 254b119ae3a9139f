"""A policy of ours as a learner of coba (https://github.com/VowpalWabbit/coba), in its experiments.

python examples/coba_learner.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import coba as cb
from coba.primitives import Learner

import kinbandits as kb


class CobaLearner(Learner):
    """Each action is an arm, known by its text. ``make`` gets the arms of the first round and gives a policy."""

    def __init__(self, make: Callable[[list[str]], Any]) -> None:
        self._make, self.policy = make, None

    @property
    def params(self) -> dict[str, Any]:
        """What coba writes into its table of learners."""
        return {"family": "kinbandits"}

    def predict(self, context: Any, actions: Any) -> tuple[Any, float, dict[str, Any]]:
        """Choose; the id of the decision goes along, so that the reward finds it."""
        names = [str(a) for a in actions]
        if self.policy is None:
            self.policy = self._make(names)
        for name in set(names) - set(self.policy.arms):
            self.policy.add_arm(name)
        decision = self.policy.choose(context, names)
        return actions[decision.index], decision.propensity, {"decision": decision.id}

    def learn(self, context: Any, action: Any, reward: float, probability: float, decision: int) -> None:
        """The reward of a decision."""
        self.policy.update(decision, float(reward))


def main(rounds: int = 500) -> Any:
    environment = cb.Environments.from_linear_synthetic(
        rounds, n_actions=5, n_context_features=3, n_action_features=0, seed=1
    )
    learners = [CobaLearner(lambda arms: kb.KMTLUCB(arms)), cb.RandomLearner()]
    return cb.Experiment(environment, learners).run(quiet=True)


if __name__ == "__main__":
    print(main().plot_learners())
