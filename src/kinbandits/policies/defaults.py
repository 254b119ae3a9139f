"""What `KMTLUCB` takes where nothing is said."""

from __future__ import annotations

from typing import Any

from kinbandits._spec import to_spec
from kinbandits.kernels import DEFAULT_KERNEL
from kinbandits.rewards import Rewards
from kinbandits.similarity import Adaptive, Independent

RIDGE = 0.01
EXPLORATION = 0.1
ONE_OF_N_EXPLORATION = 0.7  # OneOfN: hits narrow all arms, so that more of the width is needed


def defaults(*, learns_similarity: bool = True, rewards: Rewards | None = None) -> dict[str, Any]:
    """The settings of a policy that is given none, by the names of `KMTLUCB`'s arguments.

    Args:
        learns_similarity: whether a similarity can be chosen from the rows: they all stay, or the engine keeps sums
            for each arm.
        rewards: what is known about rewards.
    """
    about_all = rewards is not None and rewards.about_all_arms
    return {
        "context_kernel": DEFAULT_KERNEL,
        "similarity": Adaptive() if learns_similarity and not about_all else Independent(),
        "ridge": RIDGE,
        "exploration": ONE_OF_N_EXPLORATION if about_all else EXPLORATION,
        "weighting": "uniform",
        "cold_start": "auto",
        "tie_break": "random",
    }


def defaults_as_data() -> dict[str, Any]:
    """The defaults as JSON data: what depends on them says so by these.

    >>> defaults_as_data()["ridge"]
    0.01
    """
    return {name: to_spec(value, {}) for name, value in defaults().items()}
