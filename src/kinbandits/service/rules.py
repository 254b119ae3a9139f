"""What an arm, a context and a reward may be: one set of rules for settings, import and requests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from kinbandits.errors import InvalidInputError

ArmName = str | int

LARGEST = 1e12  # of a context entry or a reward, in magnitude
LARGEST_ARM = 2**53  # of an arm that is a number
MOST_FEATURES = 100_000
ARM = r"^[^\x00-\x1f\x7f/]{1,200}$"  # a name stands in a path


def check_arm(arm: object) -> ArmName:
    """An arm's name, or an `InvalidInputError`."""
    if isinstance(arm, str):
        if re.fullmatch(ARM[1:-1], arm) is None:
            raise InvalidInputError(
                f"arm {arm!r} cannot be served: a name has 1 to 200 characters, no / and no control characters, "
                "since it stands in the service's paths"
            )
        return arm
    if isinstance(arm, int) and not isinstance(arm, bool) and abs(arm) <= LARGEST_ARM:
        return arm
    raise InvalidInputError(f"arm {arm!r} cannot be served: an arm is a text or a whole number up to 2^53")


def check_arms(arms: Iterable[object]) -> None:
    """Names of arms that can be told apart in a path: not both 1 and "1"."""
    seen: dict[str, ArmName] = {}
    for arm in map(check_arm, arms):
        other = seen.setdefault(str(arm), arm)
        if type(other) is not type(arm):
            raise InvalidInputError(f"arms {other!r} and {arm!r} look the same in a path; rename one of them")


def check_context(context: Sequence[float], features: int | None = None) -> None:
    """One context: finite numbers, as many as the service has features."""
    if not 1 <= len(context) <= MOST_FEATURES:
        raise InvalidInputError(f"a context has 1 to {MOST_FEATURES:,} numbers, got {len(context)}")
    if features is not None and len(context) != features:
        raise InvalidInputError(f"a context of this service has {features} numbers, got {len(context)}")
    for value in context:
        if not (math.isfinite(value) and abs(value) <= LARGEST):
            raise InvalidInputError(f"numbers of a context are finite and at most {LARGEST:g}, got {value}")


def check_reward(reward: float, limits: tuple[float, float] | None = None) -> None:
    """One reward: a finite number, within the policy's range if it has one."""
    if not (math.isfinite(reward) and abs(reward) <= LARGEST):
        raise InvalidInputError(f"a reward is finite and at most {LARGEST:g}, got {reward}")
    if limits is not None and not limits[0] <= reward <= limits[1]:
        raise InvalidInputError(
            f"a reward of this service is between {limits[0]:g} and {limits[1]:g}, got {reward}"
        )
