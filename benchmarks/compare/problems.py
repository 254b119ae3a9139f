"""The problems: 15 from the paper and its neighbourhood, and three that a user would bring.

Label sets are played on the ten reference streams (seeds 0 to 9); for choosing settings (seeds from 100 on) the same
data are drawn anew. Regret is realised on label sets and expected on all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits.environments import Classification, Clicks, HiddenDescriptors, Shop, Streams, Tasks
from kinbandits.environments.labelled import LabelledRows

STREAMS = "docs/paper/streams.npz"
_MOST = 2000  # rounds of a label set
_SCALES_FROM = 10_000  # the seed of rows by which features are scaled


class Catalogue(Shop):
    """A shop that doubles its range half-way, in one day.

    >>> shop = Catalogue(n_arms=4, horizon=10)
    >>> shop.on_sale(4), shop.on_sale(5)
    (2, 4)
    """

    def on_sale(self, t: int) -> int:
        return self.n_arms if 2 * t >= self.horizon else self.n_arms - int(self.new * self.n_arms)


@dataclass(frozen=True)
class Problem:
    """A game by name.

    Attributes:
        group: "labels", "hidden", "clicks" or "user".
        make: the environment of a seed.
        fields: what the name stands for, as the record of a finished game keeps it.
        own: whether candidates bring their own contexts.
        described: whether the arms' descriptors are shown to everybody.
        binary: whether rewards are 0 or 1.
    """

    name: str
    title: str
    group: str
    make: Callable[[int], Any]
    fields: dict[str, Any]
    own: bool = False
    described: bool = False
    binary: bool = True

    @property
    def related(self) -> bool:
        """Whether arms may have something in common."""
        return self.group == "hidden" or self.own or self.described

    def setup(self, seed: int) -> Setup:
        """What a peer gets to know before the first round."""
        environment = self.make(seed)
        centre, deviation, common = _scales(self.name)
        descriptors = environment.descriptors if self.described else None
        return Setup(list(environment.arms), len(centre), seed, centre, deviation, common, descriptors)


@dataclass(frozen=True, eq=False)
class Setup:
    """Arms, number of features, seed; centre, deviation and common scale of features; descriptors (N, q) if shown."""

    arms: list[Any]
    n_features: int
    seed: int = 0
    centre: Vector | float = 0.0
    deviation: Vector | float = 1.0
    common: float = 1.0
    descriptors: Matrix | None = None


@lru_cache
def _scales(name: str) -> tuple[Vector, Vector, float]:
    """Of features, by rows that are never played: those for validation, or rounds of another seed."""
    environment = PROBLEMS[name].make(_SCALES_FROM)
    if isinstance(environment, LabelledRows):
        X = environment.validation()[0]
    else:
        X = np.array([np.atleast_2d(r.context)[0] for r in itertools.islice(environment.rounds(), 500)])
    centre, deviation = X.mean(axis=0), X.std(axis=0)
    return centre, np.where(deviation > 1e-9, deviation, 1.0), float(np.sqrt(((X - centre) ** 2).mean())) or 1.0


def _labels(name: str) -> Problem:
    def make(seed: int) -> Any:
        if seed >= 100:
            return Classification(name, protocol="paper", seed=seed, horizon=rounds)
        return Streams(name, STREAMS, seed=seed, horizon=rounds)

    rounds = {"digits": 1230, "segment": 1000}.get(name, _MOST)
    title = name.upper() if name in ("usps", "mnist") else name.capitalize()
    return Problem(name, title, "labels", make, {"data": name, "rounds": rounds})


def _drawn(name: str, title: str, group: str, kind: Any, known: dict[str, Any] | None = None, **fields: Any) -> Problem:
    def make(seed: int) -> Any:
        return kind(seed=seed, **fields)

    return Problem(name, title, group, make, {"kind": kind.__name__, **fields}, **(known or {}))


PROBLEMS: dict[str, Problem] = {
    p.name: p
    for p in (
        *(_labels(name) for name in ("digits", "segment", "pendigits", "letter", "usps", "mnist")),
        *(
            _drawn(f"hidden-{s:g}", f"Hidden descriptors, {s:g}", "hidden", HiddenDescriptors, {"binary": False},
                   similarity=s)
            for s in (0.0, 0.5, 0.9)
        ),
        *(
            _drawn(f"clicks-{n}-{rate}", f"Clicks, {n} arms, {rate} %", "clicks", Clicks, n_arms=n,
                   click_rate=rate / 100.0)
            for n in (12, 50)
            for rate in (3, 13, 50)
        ),
        _drawn("tasks", "Tasks, own contexts", "user", Tasks, {"own": True, "binary": False}, mu=0.7, n_tasks=10,
               on_offer=20, horizon=1000),
        _drawn("catalogue", "Catalogue, half new", "user", Catalogue, {"described": True}, n_arms=200),
        _drawn("drift", "Drifting clicks", "user", Clicks, drift=1.0, horizon=2000),
    )
}  # fmt: skip
