"""Environments: simulated problems, seeded, with the same rounds for every policy.

An environment is any object that keeps the protocol `Environment`; those here are frozen values, which files name
by the words of `make_environment`. Fields of those that are drawn::

    seed         of everything that is drawn       n_features   d, columns of a context
    n_arms       N                                 noise        standard deviation of normal noise on rewards
    horizon      how many rounds                   start        give every arm one row before round 1
"""

from __future__ import annotations

import inspect
from typing import Any

from kinbandits._value import suggest
from kinbandits.environments.base import Environment, Round, StartRows
from kinbandits.environments.check import check_environment
from kinbandits.environments.clicks import Clicks, Shop
from kinbandits.environments.functions import HiddenDescriptors, RKHSProblem, Tasks
from kinbandits.environments.labelled import Classification, Streams
from kinbandits.environments.replay import Replay
from kinbandits.environments.synthetic import SyntheticNews
from kinbandits.errors import InvalidInputError

__all__ = [
    "KINDS", "Classification", "Clicks", "Environment", "HiddenDescriptors", "RKHSProblem", "Replay", "Round",
    "Shop", "StartRows", "Streams", "SyntheticNews", "Tasks", "check_environment", "make_environment",
]  # fmt: skip

KINDS: dict[str, type[Any]] = {
    "synthetic-news": SyntheticNews,
    "classification": Classification,
    "streams": Streams,
    "replay": Replay,
    "hidden-descriptors": HiddenDescriptors,
    "rkhs": RKHSProblem,
    "shop": Shop,
    "tasks": Tasks,
    "clicks": Clicks,
}


def make_environment(kind: str, **options: Any) -> Environment:
    """The environment of this kind, with plain values for its options: the way a file names one.

    >>> make_environment("synthetic-news", seed=2, n_arms=3)
    SyntheticNews(seed=2, n_arms=3)
    """
    if kind not in KINDS:
        raise InvalidInputError(f"there is no environment {kind!r}; there are {', '.join(KINDS)}{suggest(kind, KINDS)}")
    known = inspect.signature(KINDS[kind]).parameters
    for name in options:
        if name not in known:
            raise InvalidInputError(f"{kind} has no option {name!r}; it has {', '.join(known)}{suggest(name, known)}")
    missing = [n for n, p in known.items() if p.default is p.empty and n not in options]
    if missing:
        raise InvalidInputError(f"{kind} needs the option {missing[0]!r}")
    environment: Environment = KINDS[kind](**options)
    return environment
