"""Names of arms, and other small arguments of policies, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kinbandits._frames import categories, listed_column
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.policies.decision import ArmName


def arm_names(arms: int | Iterable[ArmName]) -> list[ArmName]:
    """The names of the arms: those given, or 0, 1, ... for a number; of a categorical column its categories."""
    if isinstance(arms, bool | str | bytes):
        raise InvalidTypeError(f"arms must be a number of arms or a list of names, got {arms!r}")
    if isinstance(arms, int | np.integer):
        if arms < 1:
            raise InvalidInputError(f"arms must be at least 1, got {arms}")
        return list(range(int(arms)))
    if not isinstance(arms, Iterable):
        raise InvalidTypeError(f"arms must be a number of arms or a list of names, got {arms!r}")
    names: list[ArmName] = categories(arms) or listed("arms", arms)
    if not names:
        raise InvalidInputError("arms is empty; there must be at least one arm")
    for name in names:
        check_arm_name(name)
    if len(set(names)) < len(names):
        twice = next(n for i, n in enumerate(names) if n in names[:i])
        raise InvalidInputError(f"arm {twice!r} stands twice in arms; names must differ")
    return names


def listed(name: str, values: object) -> list[Any]:
    """``values`` as a list of plain Python objects."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InvalidInputError(f"{name} must be one list of arm names, got an array of shape {values.shape}")
        return list(values.tolist())
    column = listed_column(values)
    if column is not None:
        return column
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidTypeError(f"{name} must be a sequence of arm names, got {values!r}")
    return [v.item() if isinstance(v, np.generic) else v for v in values]


def check_arm_name(name: object) -> None:
    """Raise unless it is a str or an int."""
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise InvalidTypeError(f"an arm name must be a str or an int, got {name!r}")


def whole(name: str, value: object, least: int) -> int:
    """``value`` as an int, refused unless whole and at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidTypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise InvalidInputError(f"{name} must be at least {least}, got {value!r}")
    return int(value)


def shorten(names: Sequence[ArmName], most: int = 8) -> str:
    """The names, or the first few of many."""
    shown = ", ".join(repr(n) for n in names[:most])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > most else shown
