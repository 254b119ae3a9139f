"""What `KMTLUCB` takes where nothing is said, and what may be given as ``engine=``."""

from __future__ import annotations

from typing import Any

from kinbandits import _renamed
from kinbandits._spec import to_spec
from kinbandits._value import Count, Natural, Value
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.exploration import Deviations
from kinbandits.kernels import DEFAULT_RULE
from kinbandits.noise import LearnedRidge
from kinbandits.rewards import Rewards, Standardized
from kinbandits.rules import Exploration, Rule, as_rule
from kinbandits.similarity import Adaptive, Independent

RIDGE = 0.01  # with an exploration that is given as a number
EXPLORATION = 0.1  # with a ridge that is given as a number
ENGINES = "auto", "exact", "naive"
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


class Budgeted(Value):
    """Constant cost and memory: the regression on a dictionary of at most ``points`` rows.

    With ``after`` it is exact for so many rows first; ``engine="auto"`` has 1,000 points after 5,000 rows.

    >>> Budgeted(points=64)
    Budgeted(points=64)
    """

    points: Count = 256
    after: Natural = 0


Engine = str | Budgeted


def engine_name(engine: object) -> tuple[str, int, int | None]:
    """How the regression calls this engine, its dictionary points, and the rows before it changes over."""
    if isinstance(engine, Budgeted):
        return ("auto", engine.points, engine.after) if engine.after else ("budgeted", engine.points, None)
    offered = ", ".join(f'"{name}"' for name in ENGINES)
    if not isinstance(engine, str):
        raise InvalidTypeError(f"engine must be {offered} or kb.Budgeted(points=256), got {engine!r}")
    if engine not in ENGINES:
        now = f'; engine="{engine}" is gone, write {_renamed.ENGINES[engine]}' if engine in _renamed.ENGINES else ""
        raise InvalidInputError(f"engine must be {offered} or kb.Budgeted(points=256), got {engine!r}{now}")
    return engine, Budgeted.points, None
