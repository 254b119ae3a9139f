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
        missing = [w for w in ("name", "arms", "horizon", "start_rows", "rounds") if not hasattr(environment, w)]
        raise ContractError(f"{type(environment).__name__} is no environment: it has no {', '.join(missing)}")
    name, arms, horizon = environment.name, environment.arms, environment.horizon
    z: Any = getattr(environment, "descriptors", None)
    require(isinstance(name, str) and name, f"name must be a text, got {name!r}")
    require(isinstance(arms, list) and arms, f"arms must be a list of at least one name, got {arms!r}")
    for arm in arms:
        plain = isinstance(arm, str | int) and not isinstance(arm, bool)
        require(plain, f"an arm name must be a str or an int, got {arm!r}")
    require(len(set(arms)) == len(arms), "two arms have the same name")
    whole = isinstance(horizon, int) and not isinstance(horizon, bool)
    require(whole and horizon >= 1, f"horizon must be a whole number of at least 1, got {horizon!r}")
    described = z is None or (np.ndim(z) == 2 and len(z) == len(arms))
    require(described, f"descriptors must have one row per arm, got shape {np.shape(z)}")
    found, again = (list(islice(environment.rounds(), rounds)) for _ in range(2))
    require(len(found) >= min(rounds, horizon), f"horizon is {horizon}, but rounds() ends after {len(found)}")
    require(len(found) <= horizon, f"horizon is {horizon}, but rounds() goes on after that")
    d = None
    for t, round in enumerate(found):
        d = _check_round(round, f"round {t}", arms, d)
    (started, contexts, rewards), restarted = environment.start_rows(), environment.start_rows()
    n, shape, paid = len(started), np.shape(contexts), np.shape(rewards)
    uneven = f"start_rows() must give as many contexts and rewards as arms, got {n} arms, {shape} and {paid}"
    require(paid == (n,) and len(contexts) == n, uneven)
    _check_known(started, arms, "start_rows() names")
    require(not n or shape == (n, d), f"start_rows() has contexts of shape {shape}; it must be ({n}, {d})")
    finite = np.isfinite(contexts).all() and np.isfinite(rewards).all()
    require(finite, "start_rows() holds NaN or infinity")
    for t, (a, b) in enumerate(zip(found, again, strict=False)):
        same = a.candidates == b.candidates and _same((a.context, a.rewards, a.means), (b.context, b.rewards, b.means))
        require(same, f"round {t} differs when rounds() is called again; draw everything from a seed, anew in rounds()")
    require(len(again) == len(found), "rounds() is shorter when it is called again; make a new iterator at every call")
    same = list(started) == list(restarted[0]) and _same((contexts, rewards), restarted[1:])
    require(same, "start_rows() differs when it is called again; make everything random from a seed")


def require(condition: object, complaint: str) -> None:
    """Raise `ContractError` with this complaint unless the condition holds."""
    if not condition:
        raise ContractError(complaint)


def _check_round(round: Any, which: str, arms: list[Any], d: int | None) -> int:
    """Gives the number of features."""
    require(isinstance(round, Round), f"{which} is a {type(round).__name__}, not a Round")
    names, what = round.candidates, "arms" if round.candidates is None else "candidates"
    if names is not None:
        require(isinstance(names, list) and names, f"{which}: candidates must be a list of at least one arm, or None")
        _check_known(names, arms, f"{which}: candidates name")
    k, shape, r = len(arms if names is None else names), np.shape(round.context), np.asarray(round.rewards)
    fits = len(shape) in (1, 2) and 0 not in shape and (len(shape) == 1 or shape[0] == k)
    require(fits, f"{which}: context has shape {shape}; it must be (d,) or ({k}, d) for {k} {what}")
    require(np.isfinite(round.context).all(), f"{which}: context holds NaN or infinity")
    require(d in (None, shape[-1]), f"{which}: context has {shape[-1]} features, round 0 had {d}")
    require(r.shape == (k,), f"{which}: rewards has shape {r.shape}; it must be ({k},), one per arm")
    known = not np.isinf(r).any() and not np.isnan(r).all()
    require(known, f"{which}: rewards are {r}; they must be finite, or NaN where unknown")
    means = round.means is None or (np.shape(round.means) == (k,) and np.isfinite(round.means).all())
    require(means, f"{which}: means must be {k} finite numbers or None, got {round.means}")
    return int(shape[-1])


def _check_known(names: Any, arms: list[Any], what: str) -> None:
    for name in names:
        require(name in arms, f"{what} an arm {name!r} that is not in arms")


def _same(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    """Whether all arrays are equal, NaN where the other is NaN; None is equal to None alone."""
    pairs = zip(one, two, strict=True)
    return all(a is b or (b is not None and np.array_equal(a, b, equal_nan=True)) for a, b in pairs)
