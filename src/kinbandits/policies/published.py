"""The settings of the paper's experiments, and what `KMTLUCB` takes where nothing is said.

The authors' scripts give precisions (gamma = 1 / (2 length_scale^2)) and a multiplier 0.1 of sqrt(k - q), where
our width is sqrt((k - q) / lambda): exploration = 0.1 sqrt(lambda). All values are points of
numpy.logspace(-3, 2, 10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbandits._spec import to_spec
from kinbandits._value import positive
from kinbandits.errors import InvalidInputError
from kinbandits.kernels import DEFAULT_KERNEL, RBF, Median
from kinbandits.similarity import Adaptive, Estimated, Independent

MULTIPLIER = 0.1
ONE_OF_N_EXPLORATION = 0.7  # rewards="one_of_n": hits narrow all arms, so that more of the width is needed


def grid() -> np.ndarray[Any, np.dtype[np.float64]]:
    """The ten values that were tried for every precision and for the ridge."""
    return np.logspace(-3, 2, 10)


@dataclass(frozen=True)
class Precisions:
    """What was chosen for a data set.

    Attributes:
        context: precision of k_X.
        embedding: precision of k'_X, in the embedding of arms.
        arm: precision of k_Z.
        ridge: lambda.
        independent: (context, ridge) of Kernel-UCB-Ind, where they differ.
        known: precision of the known k_Z over descriptors, where there is one.
    """

    context: float
    embedding: float
    arm: float
    ridge: float
    independent: tuple[float, float] | None = None
    known: float | None = None


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


def defaults_as_data() -> dict[str, Any]:
    """The settings of a policy that is given none, as JSON data: what depends on them says so by these.

    >>> defaults_as_data()["ridge"]
    0.01
    """
    return {name: to_spec(value, {}) for name, value in in_force("default", {}).items()}


def in_force(
    settings: object, given: dict[str, Any], *, learns_similarity: bool = True, one_of_n: bool = False
) -> dict[str, Any]:
    """The settings a policy is built with: those given (not None), else those that ``settings`` names.

    Args:
        settings: ``"default"``; ``"paper"``, what all of the paper's experiments share; or ``"paper/digits"`` and
            so on, with the kernels and ridge published for a data set.
        given: by the names of `KMTLUCB`'s arguments.
        learns_similarity: whether a similarity can be chosen from the rows: they all stay, or the engine keeps sums
            for each arm.
        one_of_n: whether a reward tells about all arms.
    """
    said = {name: value for name, value in given.items() if value is not None}
    if settings == "default":
        alone = one_of_n or not learns_similarity
        return {
            "context_kernel": DEFAULT_KERNEL,
            "similarity": Independent() if alone else Adaptive(),
            "ridge": 0.01,
            "exploration": ONE_OF_N_EXPLORATION if one_of_n else 0.1,
            "weighting": "uniform",
            "cold_start": "auto",
            "tie_break": "random",
        } | said
    kind, _, data = settings.partition("/") if isinstance(settings, str) else ("", "", "")
    if kind != "paper" or (data and data not in PAPER):
        names = ", ".join(f'"paper/{name}"' for name in PAPER)
        raise InvalidInputError(f'settings must be "default", "paper" or one of {names}; got {settings!r}')
    published = PAPER[data] if data else PAPER["digits"]  # the ridge and k_Z's precision most sets share
    ridge = positive("ridge", said.get("ridge", published.ridge))
    return {
        "context_kernel": RBF.from_precision(published.context) if data else Median(),
        "similarity": Estimated(
            length_scale(published.arm), RBF.from_precision(published.embedding) if data else None
        ),
        "ridge": ridge,
        "exploration": MULTIPLIER * math.sqrt(ridge),
        "weighting": "per_arm",
        "cold_start": "explore",
        "tie_break": "first",
    } | said
