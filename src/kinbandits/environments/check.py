"""The contract of environments as a check that anybody can run on their own."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from kinbandits.environments.base import Environment, Round
from kinbandits.errors import ContractError

__all__ = ["check_environment"]


def check_environment(environment: object, rounds: int = 200) -> None:
    """Raise `ContractError`, naming the first thing wrong, unless ``environment`` keeps the contract.

    Args:
        environment: anything meant to be an `Environment`.
        rounds: how many rounds to look at.

    Example:
        >>> from kinbandits.environments import SyntheticNews
        >>> check_environment(SyntheticNews(horizon=20))
    """
    if not isinstance(environment, Environment):
        wanted = ("name", "arms", "horizon", "start_rows", "rounds")
        missing = [w for w in wanted if not hasattr(environment, w)]
        raise ContractError(f"{type(environment).__name__} is no environment: it has no {', '.join(missing)}")
    n_arms = _check_attributes(environment)
    first = list(islice(environment.rounds(), rounds))
    d = _check_rounds(environment, first, n_arms, rounds)
    _check_start(environment, d)
    _check_descriptors(environment, n_arms)
    _check_repeats(environment, first)


def _check_attributes(environment: Environment) -> int:
    if not isinstance(environment.name, str) or not environment.name:
        raise ContractError(f"name must be a text, got {environment.name!r}")
    arms = environment.arms
    if not isinstance(arms, list) or not arms:
        raise ContractError(f"arms must be a list of at least one name, got {arms!r}")
    for arm in arms:
        if isinstance(arm, bool) or not isinstance(arm, str | int):
            raise ContractError(f"an arm name must be a str or an int, got {arm!r}")
    if len(set(arms)) < len(arms):
        raise ContractError("two arms have the same name")
    horizon = environment.horizon
    if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
        raise ContractError(f"horizon must be a whole number of at least 1, got {horizon!r}")
    return len(arms)


def _check_rounds(environment: Environment, found: list[Any], n_arms: int, rounds: int) -> int:
    expected = min(rounds, environment.horizon)
    if len(found) < expected:
        raise ContractError(f"horizon is {environment.horizon}, but rounds() ends after {len(found)}")
    if environment.horizon < rounds and len(found) > environment.horizon:
        raise ContractError(f"horizon is {environment.horizon}, but rounds() goes on after that")
    d = None
    for t, round in enumerate(found):
        if not isinstance(round, Round):
            raise ContractError(f"round {t} is a {type(round).__name__}, not a Round")
        k = n_arms if round.candidates is None else _check_candidates(environment, t, round.candidates)
        context = np.asarray(round.context)
        if context.ndim not in (1, 2) or (context.ndim == 2 and len(context) != k) or not context.size:
            what = "arms" if round.candidates is None else "candidates"
            raise ContractError(
                f"round {t}: context has shape {context.shape}; it must be (d,) or ({k}, d) for {k} {what}"
            )
        if not np.isfinite(context).all():
            raise ContractError(f"round {t}: context holds NaN or infinity")
        if d is not None and context.shape[-1] != d:
            raise ContractError(f"round {t}: context has {context.shape[-1]} features, round 0 had {d}")
        d = context.shape[-1]
        _check_payments(t, round, k)
    assert d is not None
    return int(d)


def _check_candidates(environment: Environment, t: int, candidates: list[Any]) -> int:
    if not isinstance(candidates, list) or not candidates:
        raise ContractError(
            f"round {t}: candidates must be a list of at least one arm, or None, got {candidates!r}"
        )
    unknown = [a for a in candidates if a not in environment.arms]
    if unknown:
        raise ContractError(f"round {t}: candidates name an arm {unknown[0]!r} that is not in arms")
    return len(candidates)


def _check_payments(t: int, round: Round, n_arms: int) -> None:
    rewards = np.asarray(round.rewards)
    if rewards.shape != (n_arms,):
        raise ContractError(f"round {t}: rewards has shape {rewards.shape}; it must be ({n_arms},), one per arm")
    if np.isinf(rewards).any() or np.isnan(rewards).all():
        raise ContractError(f"round {t}: rewards are {rewards}; they must be finite, or NaN where unknown")
    if round.means is not None:
        means = np.asarray(round.means)
        if means.shape != (n_arms,) or not np.isfinite(means).all():
            raise ContractError(f"round {t}: means must be {n_arms} finite numbers or None, got {means}")


def _check_start(environment: Environment, d: int) -> None:
    arms, contexts, rewards = environment.start_rows()
    n = len(arms)
    if np.shape(rewards) != (n,) or len(contexts) != n:
        raise ContractError(
            f"start_rows() must give as many contexts and rewards as arms, got {n} arms, {np.shape(contexts)} and "
            f"{np.shape(rewards)}"
        )
    if not n:
        return
    unknown = [a for a in arms if a not in environment.arms]
    if unknown:
        raise ContractError(f"start_rows() names an arm {unknown[0]!r} that is not in arms")
    if np.shape(contexts) != (n, d):
        raise ContractError(f"start_rows() has contexts of shape {np.shape(contexts)}; it must be ({n}, {d})")
    if not (np.isfinite(contexts).all() and np.isfinite(rewards).all()):
        raise ContractError("start_rows() holds NaN or infinity")


def _check_descriptors(environment: Environment, n_arms: int) -> None:
    descriptors = getattr(environment, "descriptors", None)
    if descriptors is not None and (np.ndim(descriptors) != 2 or len(descriptors) != n_arms):
        raise ContractError(f"descriptors must have one row per arm, got shape {np.shape(descriptors)}")


def _check_repeats(environment: Environment, first: list[Round]) -> None:
    again = list(islice(environment.rounds(), len(first)))
    for t, (one, two) in enumerate(zip(first, again, strict=False)):
        same = (
            np.array_equal(one.context, two.context)
            and one.candidates == two.candidates
            and np.array_equal(one.rewards, two.rewards, equal_nan=True)
            and (one.means is None) == (two.means is None)
            and (one.means is None or two.means is None or np.array_equal(one.means, two.means))
        )
        if not same:
            raise ContractError(
                f"round {t} differs when rounds() is called again; draw everything from a seed, anew in rounds()"
            )
    if len(again) < len(first):
        raise ContractError("rounds() is shorter when it is called again; make a new iterator at every call")
    one_start, two_start = environment.start_rows(), environment.start_rows()
    if list(one_start[0]) != list(two_start[0]) or not all(
        np.array_equal(a, b) for a, b in zip(one_start[1:], two_start[1:], strict=True)
    ):
        raise ContractError("start_rows() differs when it is called again; make everything random from a seed")
