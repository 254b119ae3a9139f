"""Choosing for many requests at once: requests that look alike are one call of the model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from kinbandits.errors import KinbanditsError
from kinbandits.policy import KMTLUCB, Explanation
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
    bodies: list[Body | Problem] = []
    for _, group in groupby(requests, _kind):  # those that follow each other: a schedule counts decisions
        alike = list(group)
        some = ids[len(bodies) : len(bodies) + len(alike)]
        try:
            bodies += _choose_alike(alike, some, serving)
        except KinbanditsError:
            if len(alike) > 1:  # find the one that does not fit
                bodies += [choose([one], [i], serving)[0] for one, i in zip(alike, some, strict=True)]
            else:
                bodies.append(Problem(409, "refused", "the policy cannot choose for this context and these arms"))
    return bodies


def _kind(request: Decide) -> Any:
    """Requests of one kind can be one call."""
    first = request.context[0]
    shape = (len(request.context), len(first)) if isinstance(first, list) else len(request.context)
    return request.arms, shape


def _choose_alike(requests: Sequence[Decide], ids: Sequence[str], serving: Serving) -> list[Body]:
    policy = serving.policy
    arms = requests[0].arms
    contexts = np.array([r.context for r in requests], dtype=np.float64)
    if contexts.ndim == 2:
        contexts = contexts[:, None, :]
    draws = uniform_draws(policy.seed or 0, ids)
    decisions = policy.propose(contexts, arms, uniform=draws, first_round=number_of(ids[0])[1] - 1)
    scores = decisions.scores
    means, widths = decisions.prediction
    index = decisions.index
    chosen = np.arange(len(requests)) * means.shape[1] + index  # of all numbers, row by row
    columns = zip(
        decisions.arm,
        index.tolist(),
        means.take(chosen).tolist(),
        widths.take(chosen).tolist(),
        scores.take(chosen).tolist(),
        decisions.propensity.tolist(),
        means.max(axis=1).tolist(),
        scores.max(axis=1).tolist(),
        strict=True,
    )
    candidates = policy.active_arms if arms is None else arms
    return [
        {  # in the order of `to_text`
            "arm": arm,
            "best_mean": best_mean,
            "best_score": best_score,
            "candidates": candidates,
            "context": request.context,
            "index": i,
            "mean": mean,
            "model": serving.seq,
            "propensity": propensity,
            "score": score,
            "width": width,
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
