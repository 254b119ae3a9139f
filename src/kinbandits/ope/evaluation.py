"""What a policy would earn, once it has learned the first part of a log."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from kinbandits._frames import is_frame
from kinbandits._value import real
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.ope.estimators import Evaluation, estimate
from kinbandits.ope.rounds import LoggedRounds
from kinbandits.policy import KMTLUCB, Policy

__all__ = ["evaluate_policy"]


def evaluate_policy(
    log: LoggedRounds,
    make_policy: Callable[[], KMTLUCB],
    *,
    train: float = 0.5,
    folds: int = 5,
    level: float = 0.95,
    reward_range: tuple[float, float] | None = None,
) -> Evaluation:
    """What a policy would earn, once it has learned the first part of a log and stays as it is.

    The first ``train`` of the rounds teach the policy; the others tell what it would have earned there. The model
    of ``direct`` and ``dr`` is kernel ridge regression with the kernel, similarity and noise of the policy after
    the first part, on the rows of that part and of all folds of the second but the one it is used on.

    Args:
        log: rounds in order of time.
        make_policy: makes a new, untaught policy.
        train: which part teaches.
        folds: of the cross-fitting.
        level: of the intervals.
        reward_range: (lowest, highest) possible reward, as for `estimate`.
    """
    _check_arguments(log, make_policy)
    train = real("train", train)
    cut = int(len(log) * train)
    if not 0 < cut < len(log) - folds:
        raise InvalidInputError(
            f"train={train} of {len(log)} rounds leaves too few to learn from or to evaluate with {folds} folds"
        )
    past, rest = log[:cut], log[cut:]
    policy = make_policy()
    past.teach(policy)
    target = rest.table(policy.frozen().probabilities)
    model = np.zeros_like(target)
    edges = np.linspace(0, len(rest), folds + 1).astype(int)
    for start, end in itertools.pairwise(edges.tolist()):
        parts = (past, rest[:start], rest[end:])
        arms = [arm for part in parts for arm in part.arms()]
        contexts = np.concatenate([part.played_contexts() for part in parts if len(part)])
        fitted = policy.relearned(arms, contexts, np.concatenate([part.rewards for part in parts]))
        means = rest[start:end].table(fitted.means)
        model[start:end, : means.shape[1]] = means
    chosen = np.array(rest.chosen)
    return estimate(rest.rewards, rest.propensities, chosen, target, model, level=level, reward_range=reward_range)


def _check_arguments(log: object, make_policy: object) -> None:
    if isinstance(make_policy, LoggedRounds):
        raise InvalidTypeError("log and make_policy are swapped: write evaluate_policy(log, make_policy)")
    if not isinstance(log, LoggedRounds):
        how = (
            "kb.ope.LoggedRounds.from_frame(frame, arm=..., reward=...)" if is_frame(log) else "kb.ope.LoggedRounds"
        )
        raise InvalidTypeError(f"log must be {how}, got {type(log).__name__}")
    if isinstance(make_policy, Policy) or not callable(make_policy):
        raise InvalidTypeError(
            "make_policy must be a function that makes a new policy, such as lambda: kb.KMTLUCB(arms); got "
            f"{type(make_policy).__name__}"
        )
