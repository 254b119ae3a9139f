"""The published settings of the paper's experiments, as settings of `KMTLUCB`.

The numbers stand in `kinbandits.policies.published`. They are for reproducing; our defaults are better.
``KMTLUCB(arms, settings="paper/digits")`` is the short form for KMTL-UCB-Est.

>>> import kinbandits as kb
>>> policy = kb.KMTLUCB(arms=10, **paper_settings("digits", "KMTL-UCB-Est"))
>>> policy.weighting, round(policy.exploration, 6)
('per_arm', 0.003162)
"""

from __future__ import annotations

import math
from typing import Any, Literal

from numpy.typing import ArrayLike

from kinbandits.environments import SyntheticNews
from kinbandits.errors import InvalidInputError
from kinbandits.kernels import RBF
from kinbandits.policies.published import MULTIPLIER, PAPER, Precisions, grid, length_scale
from kinbandits.similarity import Estimated, Independent, Known, Pooled

__all__ = ["METHODS", "MULTIPLIER", "PAPER", "Method", "Precisions", "grid", "method_settings", "paper_settings"]

Method = Literal[
    "KMTL-UCB", "KMTL-UCB-Est", "Kernel-UCB-Ind", "Kernel-UCB-Pool", "Kernel-UCB-Ind at Est's settings"
]
METHODS: tuple[Method, ...] = (
    "KMTL-UCB",
    "KMTL-UCB-Est",
    "Kernel-UCB-Ind",
    "Kernel-UCB-Pool",
    "Kernel-UCB-Ind at Est's settings",
)


def paper_settings(data: str, method: str, descriptors: ArrayLike | None = None) -> dict[str, Any]:
    """The published settings of a method on a data set, as arguments of `KMTLUCB`.

    Args:
        data: "digits", "letter", "mnist", "pendigits", "segment", "usps" or "synthetic".
        method: one of `METHODS`. "Kernel-UCB-Ind at Est's settings" is independent arms with the kernel and
            ridge of KMTL-UCB-Est, since on Segment the published ones differ.
        descriptors: for "KMTL-UCB" (known similarity), one per arm; default: the angles of `SyntheticNews`.

    Example:
        >>> paper_settings("segment", "Kernel-UCB-Ind")["ridge"].__round__(6)
        0.003594
    """
    if data not in PAPER:
        raise InvalidInputError(f"there are no published settings for {data!r}; there are for {', '.join(PAPER)}")
    return method_settings(method, PAPER[data], descriptors)


def method_settings(method: str, chosen: Precisions, descriptors: ArrayLike | None = None) -> dict[str, Any]:
    """A method of the paper with these precisions (published or found by cross-validation)."""
    if method not in METHODS:
        raise InvalidInputError(f"there is no method {method!r}; there are {', '.join(METHODS)}")
    context, ridge = chosen.context, chosen.ridge
    similarity: Any = Independent()
    if method == "KMTL-UCB-Est":
        similarity = Estimated(length_scale(chosen.arm), RBF.from_precision(chosen.embedding))
    elif method == "Kernel-UCB-Pool":
        similarity = Pooled()
    elif method == "Kernel-UCB-Ind" and chosen.independent is not None:
        context, ridge = chosen.independent
    elif method == "KMTL-UCB":
        if chosen.known is None:
            raise InvalidInputError(
                "KMTL-UCB needs a known similarity, which only the synthetic problem has; use KMTL-UCB-Est, or "
                "give precisions with known="
            )
        known = SyntheticNews().descriptors if descriptors is None else descriptors
        similarity = Known(RBF.from_precision(chosen.known), known)
    return {
        "context_kernel": RBF.from_precision(context),
        "similarity": similarity,
        "ridge": ridge,
        "exploration": MULTIPLIER * math.sqrt(ridge),
        "weighting": "per_arm",
        "cold_start": "explore",
        "tie_break": "first",
    }
