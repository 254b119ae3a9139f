"""Choosing for many requests with one call of the model, and what else is asked of the copy that is served."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

import kinbandits as kb
from kinbandits.errors import KinbanditsError
from kinbandits.service.events import ArmName, Body, Record, uniform_draws
from kinbandits.service.messages import Problem

if TYPE_CHECKING:
    from kinbandits.service.commands import Decide
    from kinbandits.service.learner import Serving


def choose(
    commands: Sequence[Decide],
    ids: Sequence[str],
    serving: Serving,
    active: list[ArmName] | None,
    secret: bytes,
    first_round: int,
) -> list[Body | Problem]:
    """The body of a decision event for each command, or why there is none; alike ones are one call.

    ``active`` are the arms to choose among where a command names none; None is all of the policy's.
    """
    bodies: list[Body | Problem] = []
    for _, group in groupby(commands, _kind):
        alike = list(group)
        some = ids[len(bodies) : len(bodies) + len(alike)]
        at = first_round + len(bodies)
        try:
            bodies += _choose_alike(alike, some, serving, active, secret, at)
        except KinbanditsError:
            if len(alike) > 1:  # look for the one that does not fit
                pairs = enumerate(zip(alike, some, strict=True))
                bodies += [choose([one], [i], serving, active, secret, at + n)[0] for n, (one, i) in pairs]
            else:
                bodies.append(Problem(409, "refused", "the policy cannot choose for this context and these arms"))
    return bodies


def _kind(command: Decide) -> Any:
    first = command.context[0]
    return command.arms, (len(command.context), len(first)) if isinstance(first, list) else len(command.context)


def _choose_alike(
    commands: Sequence[Decide],
    ids: Sequence[str],
    serving: Serving,
    active: list[ArmName] | None,
    secret: bytes,
    first_round: int,
) -> list[Body]:
    arms = commands[0].arms or active
    contexts = np.array([c.context for c in commands], dtype=np.float64)
    if contexts.ndim == 3 and contexts.shape[1] == 1:
        contexts = contexts[:, 0]
    made = serving.policy.propose(contexts, arms, uniform=uniform_draws(secret, ids), first_round=first_round)
    columns = zip(
        made.arm, *(np.asarray(c).tolist() for c in (made.index, made.propensity, made.mean, made.width)), strict=True
    )
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
        for command, (arm, index, propensity, mean, width) in zip(commands, columns, strict=True)
    ]


def chosen_context(body: Body) -> list[float]:
    """The context of the chosen candidate: the row that is learned with the reward."""
    context = body["context"]
    if not isinstance(context[0], list):
        return list(context)
    return list(context[body["index"] if len(context) > 1 else 0])


def shared_context(body: Body) -> Any:
    """The context as it was sent, one for all candidates as one row."""
    context = body["context"]
    return chosen_context(body) if isinstance(context[0], list) and len(context) == 1 else context


def learned_row(body: Body) -> Body:
    """The row that is learned with the reward of a decision."""
    apart = isinstance(body["context"][0], list) and len(body["context"]) > 1
    task = apart and len(set(body["candidates"])) == 1
    return {
        "arm": body["arm"],
        "context": chosen_context(body),
        "own_contexts": "task" if task else apart,
        "uniform": 1.0 / (len(body["candidates"]) * body["propensity"]),
    }


# -- other questions --------------------------------------------------------------------------------


def reward_range(policy: kb.KMTLUCB) -> tuple[float, float] | None:
    """The lowest and the highest reward that the policy takes; None if any is."""
    return policy.reward_range


def can_return(serving: Serving, arm: ArmName) -> bool:
    """Whether an arm that is retired may be chosen again: the policy itself must not have retired it."""
    return arm not in serving.policy.retired


def explain(serving: Serving, record: Record) -> dict[str, Any] | None:
    """Which arms' rewards the estimate of a logged decision comes from, by what is known now; None without its
    arm."""
    arm = record.body["arm"]
    if arm not in serving.arms:
        return None
    found = serving.policy.explain_arm(arm, chosen_context(record.body))
    fields = {name: getattr(found, name) for name in ("arm", "mean", "width", "n_own", "n_all")}
    return {**fields, "contributions": list(found.contributions.items())}


def similarity(serving: Serving) -> tuple[list[ArmName], list[list[float]]]:
    """All arms, and how alike they are."""
    matrix = serving.policy.similarity_matrix(0)
    return list(serving.policy.arms), np.asarray(matrix).tolist()


def describe(policy: kb.KMTLUCB) -> list[tuple[str, str]]:
    """What is in force, in words, for the dashboard."""
    rows = [("Policy", repr(policy).partition("  #")[0]), ("Rows learned", f"{policy.n_observations:,}")]
    return [*rows, ("Model", str(policy.model))]
