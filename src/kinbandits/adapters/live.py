"""A policy for interfaces that name their arms round by round, not beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kinbandits.errors import InvalidTypeError
from kinbandits.policies import Policy
from kinbandits.policies.decision import ArmName

__all__ = ["Maker", "arm_name", "describe", "with_arms"]

Maker = Policy | Callable[[list[ArmName]], Policy]
"""A policy, whose settings and arms are taken, or a function that makes one for the arms of the first round."""


def with_arms(source: Maker, live: Policy | None, names: Sequence[ArmName]) -> Policy:
    """The policy to ask: a fresh one if there is none yet, and with the arms it lacks."""
    if live is None:
        if isinstance(source, Policy):
            live = source.__sklearn_clone__()
        elif callable(source):
            live = source(list(dict.fromkeys(names)))
            if not isinstance(live, Policy):
                raise InvalidTypeError(f"policy= made {live!r}; it must make a policy, such as kb.KMTLUCB(arms)")
        else:
            raise InvalidTypeError(f"policy must be a policy or a function of the arms, got {source!r}")
    known = set(live.arms)
    for name in names:
        if name not in known:
            add: Any = getattr(live, "add_arm", None)
            if add is None:
                raise InvalidTypeError(
                    f"{type(live).__name__} cannot add the arm {name!r} later; give a policy made with all arms"
                )
            add(name)
            known.add(name)
    return live


def arm_name(action: Any) -> ArmName:
    """An action as the name of an arm: text and whole numbers stay, a one-hot row becomes its text.

    >>> arm_name("red"), arm_name(2), arm_name((1, 0))
    ('red', 2, '[1, 0]')
    """
    if isinstance(action, str):  # also subclasses that carry more
        return str(action)
    if isinstance(action, int) and not isinstance(action, bool):
        return int(action)
    if isinstance(action, float) and action.is_integer():
        return int(action)
    if is_one_hot(action):
        return str([int(v) for v in action])
    raise InvalidTypeError(
        f"the action {action!r} is no name (text, a whole number, a one-hot row): it has features. Say how they "
        "enter the context, e.g. features=lambda x, a: [*x, *a]; all actions are then one arm with a context each"
    )


def is_one_hot(action: Any) -> bool:
    """Whether this is a row of zeros with a single one."""
    return isinstance(action, tuple | list) and sorted(action) == [0] * (len(action) - 1) + [1]


def describe(source: Maker) -> dict[str, Any]:
    """Settings as short text, for the tables of others."""
    if not isinstance(source, Policy):
        return {"family": getattr(source, "__name__", repr(source))}
    params = {k: v for k, v in source.get_params().items() if k not in ("arms", "max_pending", "forget_after")}
    plain = {k: v if isinstance(v, bool | int | float | str | None) else repr(v) for k, v in params.items()}
    return {"family": type(source).__name__, **plain}
