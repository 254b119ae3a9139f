"""What `KMTLUCB` takes where nothing is said."""

from __future__ import annotations

from typing import Any

from kinbandits._spec import to_spec
from kinbandits.exploration import Deviations
from kinbandits.kernels import DEFAULT_RULE
from kinbandits.noise import LearnedRidge
from kinbandits.rewards import Rewards, Standardized
from kinbandits.rules import Exploration, Rule, as_rule
from kinbandits.similarity import Adaptive, Independent

RIDGE = 0.01  # with an exploration that is given as a number
EXPLORATION = 0.1  # with a ridge that is given as a number
ONE_OF_N_EXPLORATION = 0.7  # OneOfN: hits narrow all arms, so that more of the width is needed


def defaults(
    *,
    learns_similarity: bool = True,
    rewards: Rewards | None = None,
    ridge: float | LearnedRidge | None = None,
    exploration: Exploration | Rule | None = None,
) -> dict[str, Any]:
    """The settings of a policy that is given none, by the names of `KMTLUCB`'s arguments.

    ``learns_similarity``: rows all stay, or the engine keeps sums for each arm. The others are as given: noise,
    level and unit are learned unless ridge or exploration is a number (or a schedule), which is meant for rewards
    as they are.
    """
    about_all = rewards is not None and rewards.about_all_arms
    numbers = exploration is not None and as_rule(exploration).in_units_of_rewards
    if ridge is None:
        ridge = RIDGE if numbers or about_all else LearnedRidge()
    learned = isinstance(ridge, LearnedRidge)
    if exploration is None:
        exploration = ONE_OF_N_EXPLORATION if about_all else Deviations() if learned else EXPLORATION
    return {
        "context_kernel": DEFAULT_RULE,
        "similarity": Adaptive() if learns_similarity and not about_all else Independent(),
        "ridge": ridge,
        "exploration": exploration,
        "rewards": Standardized() if learned and rewards is None else rewards,
        "weighting": "uniform",
        "cold_start": "auto",
        "tie_break": "random",
    }


def defaults_as_data() -> dict[str, Any]:
    """The defaults as JSON data: what depends on them says so by these.

    >>> defaults_as_data()["ridge"]["type"]
    'LearnedRidge'
    """
    return {name: to_spec(value, {}) for name, value in defaults().items()}
