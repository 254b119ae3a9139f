"""Choosing for many requests at once: requests that look alike are one call of the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinbandits.errors import KinbanditsError
from kinbandits.policies import KMTLUCB, Explanation
from kinbandits.service.events import Record, number_of, uniform_draws
from kinbandits.service.learner import Serving
from kinbandits.service.problems import Problem
from kinbandits.service.requests import Decide

Body = dict[str, Any]


def check(request: Decide, serving: Serving, n_features: int | None, max_candidates: int) -> None:
    """Raise a `Problem` if the request does not fit the arms and contexts of the policy."""
    policy = serving.policy
    if request.arms is None:
        candidates = len(policy.arms) - len(policy.retired)
    else:
        candidates = len(request.arms)
        if not candidates:
            raise Problem(422, "no_candidates", "arms is empty; leave it out to choose among all")
        known = serving.arms
        for arm in request.arms:
            if arm not in known:
                raise Problem(404, "unknown_arm", "arms names an arm that this policy does not have")
            if arm in policy.retired:
                raise Problem(409, "retired_arm", "arms names an arm that is retired")
    if candidates > max_candidates:
        raise Problem(409, "too_many_candidates", f"there are more than {max_candidates} candidates")
    rows = request.context if isinstance(request.context[0], list) else None
    if rows is not None and len(rows) not in (1, candidates):
        raise Problem(
            409, "context_shape", f"context has {len(rows)} rows for {candidates} candidates; give one row for each"
        )
    widths = {len(row) for row in rows} if rows is not None else {len(request.context)}
    if len(widths) > 1 or (n_features is not None and widths != {n_features}):
        wanted = "rows of equal length" if n_features is None else f"{n_features} numbers"
        raise Problem(409, "context_length", f"a context of this service has {wanted}")


def choose(requests: Sequence[Decide], ids: Sequence[str], serving: Serving) -> list[Body | Problem]:
    """The body of a decision event for each request, or why there is none."""
    groups: dict[Any, list[int]] = defaultdict(list)
    begins, last = 0, None
    for i, request in enumerate(requests):
        rows = request.context if isinstance(request.context[0], list) else [request.context]
        alike = None if request.arms is None else tuple(request.arms), len(rows), len(rows[0])
        begins, last = begins if alike == last else i, alike  # a schedule counts the decisions of one call
        groups[alike, begins].append(i)
    bodies: list[Body | Problem] = [Problem(500, "internal", "not chosen")] * len(requests)
    for members in groups.values():
        try:
            chosen = _choose_alike([requests[i] for i in members], [ids[i] for i in members], serving)
        except KinbanditsError:
            for i in members:  # find the one that does not fit
                try:
                    bodies[i] = _choose_alike([requests[i]], [ids[i]], serving)[0]
                except KinbanditsError:
                    bodies[i] = Problem(409, "refused", "the policy cannot choose for this context and these arms")
        else:
            for i, body in zip(members, chosen, strict=True):
                bodies[i] = body
    return bodies


def _choose_alike(requests: Sequence[Decide], ids: Sequence[str], serving: Serving) -> list[Body]:
    policy = serving.policy
    arms = requests[0].arms
    contexts = np.array([r.context for r in requests], dtype=np.float64)
    if contexts.ndim == 2:
        contexts = contexts[:, None, :]
    draws = [uniform_draws(policy.seed or 0, i) for i in ids]
    decisions = policy.propose(contexts, arms, uniform=draws, first_round=number_of(ids[0])[1] - 1)
    scores = decisions.scores
    means, widths = decisions.prediction
    index = decisions.index
    rounds = np.arange(len(requests))
    columns = zip(
        decisions.arm,
        index.tolist(),
        means[rounds, index].tolist(),
        widths[rounds, index].tolist(),
        scores[rounds, index].tolist(),
        decisions.propensity.tolist(),
        means.max(axis=1).tolist(),
        scores.max(axis=1).tolist(),
        strict=True,
    )
    candidates = policy.active_arms if arms is None else arms
    return [
        {
            "context": request.context,
            "candidates": candidates,
            "arm": arm,
            "index": i,
            "mean": mean,
            "width": width,
            "score": score,
            "propensity": propensity,
            "best_mean": best_mean,
            "best_score": best_score,
            "model": serving.seq,
        }
        for request, (arm, i, mean, width, score, propensity, best_mean, best_score) in zip(
            requests, columns, strict=True
        )
    ]


def chosen_context(body: Body) -> list[float]:
    """The context of the chosen candidate: the row that is learned with the reward."""
    context = body["context"]
    if not isinstance(context[0], list):
        return list(context)
    return list(context[body["index"] if len(context) > 1 else 0])


def shared_context(body: Body) -> Any:
    """The context as it was given, one for all candidates as one row."""
    context = body["context"]
    return chosen_context(body) if isinstance(context[0], list) and len(context) == 1 else context


def learned_row(body: Body) -> Body:
    """The row that is learned with the reward; said so if every candidate had a context of its own."""
    row: Body = {"arm": body["arm"], "context": chosen_context(body)}
    if "propensity" in body and "candidates" in body:  # what it says of a uniform choice: see `timeline`
        row["uniform"] = 1.0 / (len(body["candidates"]) * body["propensity"])
    apart = isinstance(body["context"][0], list) and len(body["context"]) > 1
    return {**row, "own_contexts": "task" if len(set(body.get("candidates", ()))) == 1 else True} if apart else row


def explain_record(record: Record, policy: KMTLUCB) -> Explanation | None:
    """Why a logged decision came out so, by what the policy knows now; None if its arm has gone."""
    if record.body["arm"] not in policy.arms:
        return None
    return policy.explain_arm(record.body["arm"], chosen_context(record.body))
