"""What a policy does with a NaN context, an unknown arm, and an arm added midway: tried, and put into words."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Edges", "try_edges"]

ARMS = ["a", "b"]
N_PROBES = 40


@dataclass(frozen=True)
class Edges:
    """Three answers, in words."""

    nan: str
    unknown_arm: str
    new_arm: str


def try_edges(make: Callable[[list[Any]], Any]) -> Edges:
    """Try a policy made for the arms a and b, with contexts of three features: a fresh one for every question."""
    with warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        return Edges(_nan(make), _unknown(make), _added(make))


def _taught(make: Callable[[list[Any]], Any]) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    policy = make(list(ARMS))
    X = rng.uniform(-1, 1, (30, 3))
    arms = [ARMS[i] for i in rng.integers(2, size=30)]
    rewards = [float((x[0] > 0) == (arm == "a")) for x, arm in zip(X, arms, strict=True)]
    policy.observe(arms, X, rewards)
    return policy, rng.uniform(-1, 1, (N_PROBES, 3))


def _wins(policy: Any, probes: Any, arm: str) -> str:
    """How often an arm is chosen now."""
    try:
        return f"{arm} wins {sum(policy.choose(x).arm == arm for x in probes)} of {len(probes)} contexts"
    except Exception as error:
        return f"every later choice raises {type(error).__name__}"


def _nan(make: Callable[[list[Any]], Any]) -> str:
    policy, _ = _taught(make)
    bad = np.array([0.1, np.nan, 0.2])
    try:
        chosen = f"choosing gives {policy.choose(bad).arm}"
    except Exception as error:
        chosen = f"choosing raises {type(error).__name__}"
    policy, probes = _taught(make)
    before = _wins(policy, probes, "a")
    try:
        policy.observe(["a"], [bad], [0.0])
    except Exception as error:
        same = _wins(policy, probes, "a") == before
        return f"{chosen}; learning raises {type(error).__name__}{', nothing changes' if same else ''}"
    after = _wins(policy, probes, "a")
    return f"{chosen}; learning accepts it, then {after} (before: {before.split(' ', 2)[2]})"


def _unknown(make: Callable[[list[Any]], Any]) -> str:
    policy, probes = _taught(make)
    try:
        policy.observe(["stranger"], [[0.1, 0.2, 0.3]], [1.0])
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip(chr(34))[:60]}"
    after = _wins(policy, probes, "a")
    return "accepted in silence" + (f", then {after}" if "raises" in after else "")


def _added(make: Callable[[list[Any]], Any]) -> str:
    policy, probes = _taught(make)
    try:
        policy.add_arm("new")
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"
    return _wins(policy, probes, "new")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing on standard error, from below Python either."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
