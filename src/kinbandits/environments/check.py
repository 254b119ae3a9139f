"""The contract of environments as a check that anybody can run on their own."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from kinbandits.environments.base import Environment, Round
from kinbandits.errors import ContractError


def check_environment(environment: object, rounds: int = 200) -> None:
    """Raise `ContractError`, naming the first thing wrong, unless ``environment`` keeps the contract.

    >>> from kinbandits.environments import SyntheticNews
    >>> check_environment(SyntheticNews(horizon=20))
    """
    if not isinstance(environment, Environment):
        wanted = ("name", "arms", "horizon", "start_rows", "rounds")
        missing = [w for w in wanted if not hasattr(environment, w)]
        raise ContractError(f"{type(environment).__name__} is no environment: it has no {', '.join(missing)}")
    _check_attributes(environment)
    first = list(islice(environment.rounds(), rounds))
    _check_rounds(environment, first, rounds)
    _check_start(environment, np.shape(first[0].context)[-1])
    _check_repeats(environment, first)


def require(condition: object, complaint: str) -> None:
    """Raise `ContractError` with this complaint unless the condition holds."""
    if not condition:
        raise ContractError(complaint)


def _check_attributes(environment: Environment) -> None:
    name, arms, horizon = environment.name, environment.arms, environment.horizon
    require(isinstance(name, str) and name, f"name must be a text, got {name!r}")
    require(isinstance(arms, list) and arms, f"arms must be a list of at least one name, got {arms!r}")
    for arm in arms:
        good = isinstance(arm, str | int) and not isinstance(arm, bool)
        require(good, f"an arm name must be a str or an int, got {arm!r}")
    require(len(set(arms)) == len(arms), "two arms have the same name")
    whole = isinstance(horizon, int) and not isinstance(horizon, bool)
    require(whole and horizon >= 1, f"horizon must be a whole number of at least 1, got {horizon!r}")
    described: Any = getattr(environment, "descriptors", None)
    fits = described is None or (np.ndim(described) == 2 and len(described) == len(arms))
    require(fits, f"descriptors must have one row per arm, got shape {np.shape(described)}")


def _check_rounds(environment: Environment, found: list[Any], rounds: int) -> None:
    horizon = environment.horizon
    require(len(found) >= min(rounds, horizon), f"horizon is {horizon}, but rounds() ends after {len(found)}")
    require(len(found) <= horizon, f"horizon is {horizon}, but rounds() goes on after that")
    d = None
    for t, round in enumerate(found):
        require(isinstance(round, Round), f"round {t} is a {type(round).__name__}, not a Round")
        k = len(environment.arms)
        if round.candidates is not None:
            listed, wanted = isinstance(round.candidates, list), "a list of at least one arm, or None"
            require(listed and round.candidates, f"round {t}: candidates must be {wanted}")
            _check_known(environment, round.candidates, f"round {t}: candidates name")
            k = len(round.candidates)
        shape = np.shape(round.context)
        if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != k) or 0 in shape:
            what = "arms" if round.candidates is None else "candidates"
            raise ContractError(f"round {t}: context has shape {shape}; it must be (d,) or ({k}, d) for {k} {what}")
        require(np.isfinite(round.context).all(), f"round {t}: context holds NaN or infinity")
        require(d in (None, shape[-1]), f"round {t}: context has {shape[-1]} features, round 0 had {d}")
        d = shape[-1]
        _check_payments(t, round, k)


def _check_known(environment: Environment, arms: list[Any], what: str) -> None:
    known = environment.arms
    for arm in arms:
        if arm not in known:
            raise ContractError(f"{what} an arm {arm!r} that is not in arms")


def _check_payments(t: int, round: Round, k: int) -> None:
    rewards = np.asarray(round.rewards)
    require(rewards.shape == (k,), f"round {t}: rewards has shape {rewards.shape}; it must be ({k},), one per arm")
    if np.isinf(rewards).any() or np.isnan(rewards).all():
        raise ContractError(f"round {t}: rewards are {rewards}; they must be finite, or NaN where unknown")
    if round.means is not None and not (np.shape(round.means) == (k,) and np.isfinite(round.means).all()):
        raise ContractError(f"round {t}: means must be {k} finite numbers or None, got {round.means}")


def _check_start(environment: Environment, d: int) -> None:
    arms, contexts, rewards = environment.start_rows()
    n, shape, paid = len(arms), np.shape(contexts), np.shape(rewards)
    uneven = f"start_rows() must give as many contexts and rewards as arms, got {n} arms, {shape} and {paid}"
    require(paid == (n,) and len(contexts) == n, uneven)
    if n:
        _check_known(environment, arms, "start_rows() names")
        require(shape == (n, d), f"start_rows() has contexts of shape {shape}; it must be ({n}, {d})")
        finite = np.isfinite(contexts).all() and np.isfinite(rewards).all()
        require(finite, "start_rows() holds NaN or infinity")


def _check_repeats(environment: Environment, first: list[Round]) -> None:
    again = list(islice(environment.rounds(), len(first)))
    for t, (one, two) in enumerate(zip(first, again, strict=False)):
        same = one.candidates == two.candidates and _same(
            (one.context, one.rewards, one.means), (two.context, two.rewards, two.means)
        )
        require(
            same, f"round {t} differs when rounds() is called again; draw everything from a seed, anew in rounds()"
        )
    shorter = "rounds() is shorter when it is called again; make a new iterator at every call"
    require(len(again) == len(first), shorter)
    one_start, two_start = environment.start_rows(), environment.start_rows()
    same = list(one_start[0]) == list(two_start[0]) and _same(one_start[1:], two_start[1:])
    require(same, "start_rows() differs when it is called again; make everything random from a seed")


def _same(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    """Whether all arrays are equal, NaN where the other is NaN; None is equal to None alone."""
    pairs = zip(one, two, strict=True)
    return all(a is b or (b is not None and np.array_equal(a, b, equal_nan=True)) for a, b in pairs)
