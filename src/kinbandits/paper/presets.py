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
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._types import Vector
from kinbandits._value import positive, read_value
from kinbandits.errors import InvalidInputError
from kinbandits.policy import KMTLUCB
from kinbandits.similarity import Estimated

__all__ = [
    "METHODS", "MULTIPLIER", "PAPER", "Method", "Precisions", "grid", "kernel_ucb_ind", "kernel_ucb_pool",
    "kmtl_ucb", "kmtl_ucb_est", "method_settings", "method_table", "paper",
]  # fmt: skip

MULTIPLIER = 0.1
Method = Literal["KMTL-UCB", "KMTL-UCB-Est", "Kernel-UCB-Ind", "Kernel-UCB-Pool", "Kernel-UCB-Ind at Est's settings"]
METHODS: tuple[Method, ...] = get_args(Method)
SHARED = {"rewards": "raw", "weighting": "per_arm", "cold_start": "explore", "tie_break": "first"}  # by all methods


def grid() -> Vector:
    """The ten values that were tried for every precision and for the ridge."""
    return np.logspace(-3, 2, 10)


@dataclass(frozen=True)
class Precisions:
    """What was chosen for a data set."""

    context: float  # precision of k_X
    embedding: float  # precision of k'_X, in the embedding of arms
    arm: float  # precision of k_Z
    ridge: float  # lambda
    independent: tuple[float, float] | None = None  # (context, ridge) of Kernel-UCB-Ind, where they differ
    known: float | None = None  # precision of the known k_Z over descriptors, where there is one


def _points(*places: int, **others: Any) -> Precisions:
    context, embedding, arm, ridge = (float(grid()[i]) for i in places)
    return Precisions(context, embedding, arm, ridge, **others)


# 0: 0.001, 1: 0.00359381, 2: 0.0129155, 3: 0.0464159, 4: 0.16681, 5: 0.599484, 6: 2.15443, 7: 7.74264, 8: 27.8256
# 9: 100
PAPER: dict[str, Precisions] = {
    "digits": _points(0, 2, 9, 0),
    "pendigits": _points(0, 0, 9, 0),
    "mnist": _points(1, 7, 9, 0),
    "usps": _points(2, 4, 9, 0),
    "letter": _points(6, 8, 9, 0),
    "segment": _points(5, 9, 8, 1, independent=(float(grid()[4]), float(grid()[1]))),
    "synthetic": _points(6, 6, 9, 0, known=float(grid()[8])),
}


def length_scale(precision: float) -> float:
    """The length scale of a precision, 1 / sqrt(2 precision)."""
    return math.sqrt(0.5 / precision)


def paper(
    data: str | None = None,
    method: str = "KMTL-UCB-Est",
    *,
    ridge: float | None = None,
    descriptors: ArrayLike | None = None,
) -> dict[str, Any]:
    """What to pass to `KMTLUCB` for the published settings.

    Args:
        data: name of a data set or "synthetic"; left out, what all experiments of KMTL-UCB-Est share, with a
            learned context kernel.
        method: one of `METHODS`; "Kernel-UCB-Ind at Est's settings" has those, which differ on Segment.
        ridge: another lambda; exploration goes with its root.
        descriptors: for "KMTL-UCB" (known similarity), one per arm; default: the angles of `SyntheticNews`.

    >>> paper("segment", "Kernel-UCB-Ind")["ridge"].__round__(6)
    0.003594
    >>> paper(ridge=0.25)["exploration"]
    0.05
    """
    if data is not None and data not in PAPER:
        raise InvalidInputError(f"there are no published settings for {data!r}; there are for {', '.join(PAPER)}")
    settings = method_settings(method, PAPER["digits" if data is None else data], descriptors)
    if data is None:
        del settings["context_kernel"]
        settings |= {"similarity": Estimated(length_scale(PAPER["digits"].arm), None)}
    if ridge is not None:
        settings |= {"ridge": positive("ridge", ridge), "exploration": MULTIPLIER * math.sqrt(ridge)}
    return settings


def method_settings(method: str, chosen: Precisions, descriptors: ArrayLike | None = None) -> dict[str, Any]:
    """A method of the paper with these precisions (published or found by cross-validation)."""
    if descriptors is None and method == "KMTL-UCB":
        from kinbandits.environments import SyntheticNews  # with all the others: not needed to play

        descriptors = SyntheticNews().descriptors
    table = method_table(method, chosen)
    return {name: read_value(value, name, descriptors) for name, value in table.items()}


def method_table(method: str, chosen: Precisions) -> dict[str, Any]:
    """The same as plain data, as an experiment's file has it.

    >>> method_table("Kernel-UCB-Pool", PAPER["digits"])["similarity"]
    {'type': 'Pooled'}
    """
    if method not in METHODS:
        raise InvalidInputError(f"there is no method {method!r}; there are {', '.join(METHODS)}")
    context, ridge = chosen.context, chosen.ridge
    similarity: dict[str, Any] = {"type": "Independent"}
    if method == "KMTL-UCB-Est":
        embedding = {"type": "RBF", "precision": chosen.embedding}
        similarity = {"type": "Estimated", "precision": chosen.arm, "embedding_kernel": embedding}
    elif method == "Kernel-UCB-Pool":
        similarity = {"type": "Pooled"}
    elif method == "Kernel-UCB-Ind" and chosen.independent is not None:
        context, ridge = chosen.independent
    elif method == "KMTL-UCB":
        if chosen.known is None:
            raise InvalidInputError(
                "KMTL-UCB needs a known similarity, which only the synthetic problem has; use KMTL-UCB-Est, or "
                "give precisions with known="
            )
        kernel = {"type": "RBF", "precision": chosen.known}
        similarity = {"type": "Known", "kernel": kernel, "descriptors": "environment"}
    return {
        "context_kernel": {"type": "RBF", "precision": context},
        "similarity": similarity,
        "ridge": ridge,
        "exploration": MULTIPLIER * math.sqrt(ridge),
        **SHARED,
    }


# -- the methods as policies ------------------------------------------------------------------------


def kmtl_ucb(arms: Any, *, data: str = "synthetic", descriptors: ArrayLike | None = None, **others: Any) -> KMTLUCB:
    """KMTL-UCB with a known similarity, an RBF over ``descriptors``, at the published settings of a data set."""
    return KMTLUCB(arms, **paper(data, "KMTL-UCB", descriptors=descriptors) | others)


def kmtl_ucb_est(arms: Any, *, data: str = "digits", **others: Any) -> KMTLUCB:
    """Algorithm 1 with the estimated similarity, at the published settings of a data set; ``others`` change some.

    >>> kmtl_ucb_est(10).weighting
    'per_arm'
    """
    return KMTLUCB(arms, **paper(data, "KMTL-UCB-Est") | others)


def kernel_ucb_ind(arms: Any, *, data: str = "digits", **others: Any) -> KMTLUCB:
    """Independent arms, at the published settings of a data set."""
    return KMTLUCB(arms, **paper(data, "Kernel-UCB-Ind") | others)


def kernel_ucb_pool(arms: Any, *, data: str = "synthetic", **others: Any) -> KMTLUCB:
    """One function for all arms, at the published settings of a data set."""
    return KMTLUCB(arms, **paper(data, "Kernel-UCB-Pool") | others)
