"""Logs and action distributions as the arrays of the Open Bandit Pipeline (https://github.com/st-tech/zr-obp).

A layout, not a dependency. Notation, theirs: n rounds, a logged data set is a dict

    n_rounds, n_actions
    context      (n, d)
    action       (n,)         number of the action played
    reward       (n,)
    pscore       (n,)         probability with which it was played
    position     None         one slot
    pi_b         (n, n_actions, 1)   probabilities of all actions, where they are known

and a policy to be evaluated is ``action_dist`` (n, n_actions, 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import as_float64, rows_of_contexts
from kinbandits._frames import arm_numbers
from kinbandits.errors import InvalidInputError
from kinbandits.ope import LoggedRounds
from kinbandits.policies import Policy
from kinbandits.policies.decision import ArmName

__all__ = ["action_dist", "from_obp", "to_obp"]


def action_dist(policy: Policy, contexts: ArrayLike) -> NDArray[np.float64]:
    """The probabilities with which a policy would choose now, (n, n_actions, 1), actions as in ``policy.arms``.

    A retired arm has probability 0. ``contexts`` is (n, d), one a round.

    Example:
        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=["red", "blue"], epsilon=0.2, tie_break="first")
        >>> action_dist(policy, [[0.2], [0.7]])[:, :, 0]
        array([[0.9, 0.1],
               [0.9, 0.1]])
    """
    rows = rows_of_contexts(contexts, None)
    found = np.zeros((len(rows), policy.n_arms, 1))
    active = [i for i, name in enumerate(policy.arms) if name not in policy.retired]
    if len(rows):
        found[:, active, 0] = policy.probabilities(rows[:, None, :])
    return found


def to_obp(log: LoggedRounds, arms: Sequence[ArmName] | None = None) -> dict[str, Any]:
    """A log as their dict of arrays (``bandit_feedback``).

    Args:
        log: rounds with one context each.
        arms: the actions in order; default: in the order in which candidates appear.

    Example:
        >>> log = LoggedRounds([[0.2], [0.7]], [["red", "blue"]] * 2, [1, 0], [1.0, 0.0], [0.5, 0.5])
        >>> feedback = to_obp(log)
        >>> feedback["action"], feedback["pscore"]
        (array([1, 0]), array([0.5, 0.5]))
    """
    everyone = dict.fromkeys(n for round in log.candidates for n in round)
    names, played = arm_numbers(log.arms(), list(everyone) if arms is None else arms)
    for i, context in enumerate(log.contexts):
        if np.ndim(context) != 1:
            raise InvalidInputError(
                f"round {i} has a context per candidate, shape {np.shape(context)}; this layout has one a round"
            )
    return {
        "n_rounds": len(log),
        "n_actions": len(names),
        "context": rows_of_contexts(log.contexts, None),
        "action": played.astype(np.int64),
        "reward": as_float64("rewards", log.rewards),
        "pscore": as_float64("propensities", log.propensities),
        "position": None,
        "pi_b": None,
        "action_names": names,
    }


def from_obp(feedback: Mapping[str, Any], arms: Sequence[ArmName] | None = None) -> LoggedRounds:
    """Their dict of arrays as a log; ``arms`` names the actions (default: ``action_names``, or their numbers)."""
    missing = [key for key in ("context", "action", "reward") if key not in feedback]
    if missing:
        raise InvalidInputError(f"the feedback has no {missing[0]!r}; it has {', '.join(feedback)}")
    contexts = rows_of_contexts(feedback["context"], None)
    action, reward = np.asarray(feedback["action"]), as_float64("reward", feedback["reward"])
    n = len(contexts)
    if action.shape != (n,) or reward.shape != (n,):
        raise InvalidInputError(
            f"{n} contexts need as many actions and rewards; got {action.shape}, {reward.shape}"
        )
    k = int(feedback.get("n_actions") or (action.max(initial=-1) + 1))
    names = list(arms if arms is not None else feedback.get("action_names") or range(k))
    if len(names) != k:
        raise InvalidInputError(f"arms has {len(names)} names, but there are {k} actions")
    if not np.issubdtype(action.dtype, np.integer) or (n and (action.min() < 0 or action.max() >= k)):
        raise InvalidInputError(f"action must be whole numbers from 0 to {k - 1}")
    position = feedback.get("position")
    if position is not None and np.any(np.asarray(position) != 0):
        raise InvalidInputError("the log is of slates (position other than 0), which this library does not play")
    if feedback.get("pscore") is not None:
        pscore = as_float64("pscore", feedback["pscore"])
    elif feedback.get("pi_b") is not None:
        pscore = as_float64("pi_b", feedback["pi_b"])[np.arange(n), action, 0]
    else:
        raise InvalidInputError("the feedback has neither pscore nor pi_b, so nobody knows how it was collected")
    return LoggedRounds(
        list(contexts), [names] * n, [int(a) for a in action], reward.tolist(), np.broadcast_to(pscore, n).tolist()
    )
