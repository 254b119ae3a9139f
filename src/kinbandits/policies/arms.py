"""Arms: their names, checked, and the list of them that a policy keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinbandits._frames import categories, listed_column
from kinbandits._types import Indices
from kinbandits.errors import InvalidInputError, InvalidTypeError, UnknownArmError
from kinbandits.policies.decision import ArmName


class Candidates(NamedTuple):
    """Arms of a round: their numbers (k,), and their names."""

    indices: Indices
    names: tuple[ArmName, ...]


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
        raise InvalidInputError(f"duplicate arm {twice!r}; names must differ")
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


def shorten(names: Sequence[ArmName], most: int = 8) -> str:
    """The names, or the first few of many."""
    shown = ", ".join(repr(n) for n in names[:most])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > most else shown


class ArmList:
    """What a policy knows of its arms: names, numbers, which are retired."""

    def __init__(self, arms: int | Iterable[ArmName]) -> None:
        self.arms: list[ArmName] = arm_names(arms)
        self.retired: set[ArmName] = set()
        self._index = {name: i for i, name in enumerate(self.arms)}
        self._active: Candidates | None = None

    @property
    def n_arms(self) -> int:
        """How many arms there are, retired ones included."""
        return len(self.arms)

    @property
    def active_arms(self) -> list[ArmName]:
        """The arms that may be chosen, in order."""
        return [name for name in self.arms if name not in self.retired]

    def retire_arm(self, arm: ArmName) -> None:
        """Never choose this arm again; its data still help its kin, and its open decisions still count."""
        self._number(arm)
        if arm in self.retired:
            return
        if len(self.active_arms) == 1:
            raise InvalidInputError(f"{arm!r} is the last active arm; add another before retiring it")
        self.retired.add(arm)
        self._active = None

    def _candidates(self, arms: Sequence[ArmName] | None, *, to_play: bool = False) -> Candidates:
        """These arms, or all active ones."""
        if arms is None:
            if self._active is None:
                names = self.active_arms
                indices = np.array([self._index[name] for name in names], dtype=np.intp)
                indices.setflags(write=False)
                self._active = Candidates(indices, tuple(names))
            return self._active
        names = listed("arms", arms)
        if not names:
            raise InvalidInputError("arms is empty; give at least one candidate, or leave it out for all")
        indices = self._arm_indices(names)
        if to_play and self.retired and self.retired.intersection(names):
            gone = next(n for n in names if n in self.retired)
            raise InvalidInputError(f"arm {gone!r} is retired and is never chosen again; leave it out")
        return Candidates(indices, tuple(names))

    def _arm_indices(self, names: Sequence[ArmName]) -> Indices:
        try:
            if not all(
                issubclass(kind, str | int | np.integer) and kind is not bool for kind in set(map(type, names))
            ):
                raise TypeError  # True and 1.0 would find arm 1
            return np.array([self._index[name] for name in names], dtype=np.intp)
        except (KeyError, TypeError):
            unknown = next(
                n
                for n in names
                if isinstance(n, bool) or not isinstance(n, str | int | np.integer) or n not in self._index
            )
            raise UnknownArmError(
                f"unknown arm {unknown!r}; the arms are {shorten(self.arms)}. add_arm() adds one"
            ) from None

    def _number(self, arm: ArmName) -> int:
        return int(self._arm_indices([arm])[0])

    def _check_new_arm(self, arm: ArmName) -> None:
        check_arm_name(arm)
        if arm in self._index:
            state = " (retired)" if arm in self.retired else ""
            raise InvalidInputError(f"there is an arm {arm!r} already{state}; choose another name")

    def _check_leaving(self, arm: ArmName) -> int:
        """The number of an arm that may be removed."""
        index = self._number(arm)
        if not set(self.active_arms) - {arm}:
            raise InvalidInputError(f"{arm!r} is the last active arm; add another before removing it")
        return index

    def _append_arm(self, arm: ArmName) -> None:
        self._index[arm] = len(self.arms)
        self.arms.append(arm)
        self._active = None

    def _drop_arm(self, arm: ArmName) -> None:
        self.arms.remove(arm)
        self.retired.discard(arm)
        self._index = {name: i for i, name in enumerate(self.arms)}
        self._active = None
