"""Choose for many requests with one call of the model; and explain a decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from kinbandits.errors import KinbanditsError
from kinbandits.service.events import ArmName, Body, Record, decision_id, uniform_draws
from kinbandits.service.messages import Problem

if TYPE_CHECKING:
    from kinbandits.service.learner import Serving
    from kinbandits.service.ledger import Decide


def choose(
    commands: Sequence[Decide], number: int, serving: Serving, active: list[ArmName] | None, secret: bytes
) -> list[Body | Problem]:
    """The body of a decision event for each command, or why there is none; alike ones are one call.

    ``number`` is that of the first decision. ``active`` are the arms to choose among where a command names none; None
    means all of the policy's.
    """
    bodies: list[Body | Problem] = []
    for _, group in groupby(commands, _kind):
        alike, first = list(group), number + len(bodies)
        try:
            bodies += _choose_alike(alike, first, serving, active, secret)
        except KinbanditsError:
            if len(alike) > 1:  # look for the one that does not fit
                bodies += [choose([one], first + i, serving, active, secret)[0] for i, one in enumerate(alike)]
            else:
                bodies.append(Problem(409, "refused", "the policy cannot choose for this context and these arms"))
    return bodies


def _kind(command: Decide) -> Any:
    first = command.context[0]
    return command.arms, (len(command.context), len(first)) if isinstance(first, list) else len(command.context)


def _choose_alike(
    commands: Sequence[Decide], number: int, serving: Serving, active: list[ArmName] | None, secret: bytes
) -> list[Body]:
    arms = commands[0].arms or active
    contexts = np.array([c.context for c in commands], dtype=np.float64)
    if contexts.ndim == 3 and contexts.shape[1] == 1:
        contexts = contexts[:, 0]
    draws = uniform_draws(secret, [decision_id(number + i) for i in range(len(commands))])
    made = serving.policy.propose(contexts, arms, uniform=draws, first_round=number - 1)
    numbers = (np.asarray(c).tolist() for c in (made.index, made.propensity, made.mean, made.width))
    candidates = serving.playable if arms is None else arms
    return [
        {
            "context": command.context,
            "candidates": candidates,
            "arm": arm,
            "index": index,
            "propensity": propensity,
            "mean": mean if math.isfinite(mean) else None,
            "width": width if math.isfinite(width) else None,
            "model": serving.seq,
        }
        for command, arm, index, propensity, mean, width in zip(commands, made.arm, *numbers, strict=True)
    ]


def chosen_context(body: Body) -> list[float]:
    """The context of the chosen candidate: the row that is learned with the reward."""
    context = body["context"]
    if not isinstance(context[0], list):
        return list(context)
    return list(context[body["index"] if len(context) > 1 else 0])


def learned_row(body: Body) -> Body:
    """The row that is learned with the reward of a decision."""
    own = isinstance(body["context"][0], list) and len(body["context"]) > 1
    return {
        "arm": body["arm"],
        "context": chosen_context(body),
        "own_contexts": "task" if own and len(set(body["candidates"])) == 1 else own,
        "uniform": 1.0 / (len(body["candidates"]) * body["propensity"]),
    }


# -- other questions --------------------------------------------------------------------------------


def explain(serving: Serving, record: Record) -> dict[str, Any] | None:
    """Which arms' rewards the estimate of a logged decision comes from, as the model is now; None without its arm."""
    arm = record.body["arm"]
    if arm not in serving.arms:
        return None
    found = serving.policy.explain_arm(arm, chosen_context(record.body))
    fields = {name: getattr(found, name) for name in ("arm", "mean", "width", "n_own", "n_all")}
    return {**fields, "contributions": list(found.contributions.items())}
