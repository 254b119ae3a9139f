"""The published settings of the paper's experiments, as arguments of `KMTLUCB`. Our defaults are better.

The authors' scripts give precisions (gamma = 1 / (2 length_scale^2)) and a multiplier 0.1 of sqrt(k - q), where
our width is sqrt((k - q) / lambda): exploration = 0.1 sqrt(lambda). All values are points of
numpy.logspace(-3, 2, 10).

>>> import kinbandits as kb
>>> policy = kb.KMTLUCB(arms=10, **paper("digits"))
>>> policy.weighting, policy.exploration
('per_arm', UCB(exploration=0.00316...))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbandits._value import read_value
from kinbandits.errors import InvalidInputError

__all__ = ["GRID", "METHODS", "MULTIPLIER", "PAPER", "Precisions", "method_table", "paper"]

METHODS = "KMTL-UCB", "KMTL-UCB-Est", "Kernel-UCB-Ind", "Kernel-UCB-Pool", "Kernel-UCB-Ind at Est's settings"
KNOWN, EST, IND, POOL, IND_EQUAL = METHODS
MULTIPLIER = 0.1
SHARED = {"rewards": "raw", "weighting": "per_arm", "cold_start": "explore", "tie_break": "first"}  # by all methods
GRID: tuple[float, ...] = tuple(np.logspace(-3, 2, 10).tolist())
"""The values that were tried for every precision and for the ridge: 0.001, 0.0036, 0.013, 0.046, 0.17, 0.6, 2.2, ..."""


@dataclass(frozen=True)
class Precisions:
    """What was chosen for a data set."""

    context: float  # precision of k_X
    embedding: float  # precision of k'_X, in the embedding of arms
    arm: float  # precision of k_Z
    ridge: float  # lambda
    independent: tuple[float, float] | None = None  # (context, ridge) of Kernel-UCB-Ind, where they differ
    known: float | None = None  # precision of the known k_Z over descriptors, where there is one


def _points(context: int, embedding: int, arm: int, ridge: int, **others: Any) -> Precisions:
    return Precisions(GRID[context], GRID[embedding], GRID[arm], GRID[ridge], **others)


PAPER: dict[str, Precisions] = {
    "digits": _points(0, 2, 9, 0),
    "pendigits": _points(0, 0, 9, 0),
    "mnist": _points(1, 7, 9, 0),
    "usps": _points(2, 4, 9, 0),
    "letter": _points(6, 8, 9, 0),
    "segment": _points(5, 9, 8, 1, independent=(GRID[4], GRID[1])),
    "synthetic": _points(6, 6, 9, 0, known=GRID[8]),
}


def paper(data: str, method: str = EST) -> dict[str, Any]:
    """What to pass to `KMTLUCB` for the published settings of a data set, or of ``"synthetic"``.

    ``method`` is one of `METHODS`; "Kernel-UCB-Ind at Est's settings" has those, which differ on Segment. The known
    similarity of "KMTL-UCB" is over the angles of `SyntheticNews`.

    >>> paper("segment", "Kernel-UCB-Ind")["ridge"].__round__(6)
    0.003594
    """
    if data not in PAPER:
        raise InvalidInputError(f"there are no published settings for {data!r}; there are for {', '.join(PAPER)}")
    from kinbandits.environments import SyntheticNews  # with all the others: not needed to play

    table = method_table(method, PAPER[data])
    return {name: read_value(value, name, SyntheticNews().descriptors) for name, value in table.items()}


def method_table(method: str, chosen: Precisions) -> dict[str, Any]:
    """A method with these precisions (published or found by cross-validation), as an experiment's file has it.

    >>> method_table("Kernel-UCB-Pool", PAPER["digits"])["similarity"]
    {'type': 'Pooled'}
    """
    if method not in METHODS:
        raise InvalidInputError(f"there is no method {method!r}; there are {', '.join(METHODS)}")
    if method == KNOWN and chosen.known is None:
        raise InvalidInputError(
            "KMTL-UCB needs a known similarity, which only the synthetic problem has; use KMTL-UCB-Est, or give "
            "precisions with known="
        )
    embedding, kernel = ({"type": "RBF", "precision": p} for p in (chosen.embedding, chosen.known))
    similarities: dict[str, dict[str, Any]] = {
        KNOWN: {"type": "Known", "kernel": kernel, "descriptors": "environment"},
        EST: {"type": "Estimated", "precision": chosen.arm, "embedding_kernel": embedding},
        POOL: {"type": "Pooled"},
    }
    context, ridge = chosen.context, chosen.ridge
    if method == IND and chosen.independent is not None:
        context, ridge = chosen.independent
    return {
        "context_kernel": {"type": "RBF", "precision": context},
        "similarity": similarities.get(method, {"type": "Independent"}),
        "ridge": ridge,
        "exploration": MULTIPLIER * math.sqrt(ridge),
        **SHARED,
    }
