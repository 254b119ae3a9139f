"""Arms by name and by number, and contexts as a policy takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinbandits._frames import categories, is_frame, list_of, plain
from kinbandits._types import ArmName, Indices
from kinbandits._value import suggest
from kinbandits.errors import InvalidInputError, InvalidTypeError, UnknownArmError


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a round: names, numbers (k,), and which of them may be played (None: all)."""

    names: tuple[ArmName, ...]
    indices: Indices
    playable: Indices | None = None

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Arms:
    """The arms of a policy, in order; retired ones are never played again. A value: changes give another."""

    names: tuple[ArmName, ...]
    retired: frozenset[ArmName] = frozenset()

    @cached_property
    def index(self) -> dict[ArmName, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def active(self) -> tuple[ArmName, ...]:
        return tuple(name for name in self.names if name not in self.retired)

    @cached_property
    def everyone(self) -> Candidates:
        """All arms, as candidates of a round."""
        indices = np.arange(len(self.names), dtype=np.intp)
        indices.setflags(write=False)
        playable = None
        if self.retired:
            playable = np.array([self.index[name] for name in self.active], dtype=np.intp)
        return Candidates(self.names, indices, playable)

    def candidates(self, arms: object, *, to_play: bool) -> Candidates:
        """These arms, or all; to play, no retired one may be among those named."""
        if arms is None:
            return self.everyone
        names = list_of("arms", arms)
        if not names:
            raise InvalidInputError("arms is empty; give at least one candidate, or leave it out for all")
        indices = self.numbers(names)
        if to_play and self.retired and (retired := next((n for n in names if n in self.retired), None)) is not None:
            raise InvalidInputError(f"arm {retired!r} is retired; leave it out, or bring it back with activate_arm()")
        return Candidates(tuple(names), indices)

    def numbers(self, names: Sequence[Any]) -> Indices:
        """The number of each of these arms."""
        found = [self.index.get(n) if type(n) in (str, int) else None for n in names]  # True and 1.0 would match 1
        if None in found:
            unknown = names[found.index(None)]
            if not isinstance(unknown, str | int) or isinstance(unknown, bool):
                raise InvalidTypeError(f"an arm must be the name of one, a str or an int, got {unknown!r}")
            shown = ", ".join(map(repr, self.names[:8])) + (
                f", ... ({len(self.names)} in all)" if len(self.names) > 8 else ""
            )
            hint = suggest(unknown, (n for n in self.names if isinstance(n, str))) if isinstance(unknown, str) else ""
            raise UnknownArmError(f"unknown arm {unknown!r}{hint}; the arms are {shown}. add_arm() adds one")
        return np.array(found, dtype=np.intp)

    def number(self, arm: Any) -> int:
        return int(self.numbers([plain(arm)])[0])

    # -- other arms -----------------------------------------------------------------------------

    def added(self, arm: Any) -> Arms:
        name = plain(arm)
        check_name(name)
        if name in self.index:
            how = "; it is retired, activate_arm() brings it back" if name in self.retired else "; choose another name"
            raise InvalidInputError(f"there is an arm {name!r} already{how}")
        return Arms((*self.names, name), self.retired)

    def removed(self, arm: Any) -> Arms:
        self._check_leaving(arm, "removing")
        name = plain(arm)
        return Arms(tuple(n for n in self.names if n != name), self.retired - {name})

    def retire(self, arm: Any) -> Arms:
        self._check_leaving(arm, "retiring")
        return Arms(self.names, self.retired | {plain(arm)})

    def activate(self, arm: Any) -> Arms:
        self.number(arm)
        return Arms(self.names, self.retired - {plain(arm)})

    def _check_leaving(self, arm: Any, what: str) -> None:
        self.number(arm)
        if not set(self.active) - {plain(arm)}:
            raise InvalidInputError(f"{arm!r} is the last active arm; add another before {what} it")


def arm_names(arms: Any) -> tuple[ArmName, ...]:
    """The names of the arms: those given, or 0, 1, ... for a number; of a categorical column its categories."""
    if isinstance(arms, Mapping) or is_frame(arms):
        raise InvalidTypeError(
            "arms is a mapping or a table; give its names, arms=list(mapping), and what it says of them as similarity="
            "kb.Known(descriptors=mapping)"
        )
    if isinstance(arms, int | np.integer) and not isinstance(arms, bool):
        if not 1 <= arms <= 10**8:
            raise InvalidInputError(f"arms must be between 1 and 10^8, got {arms}")
        return tuple(range(int(arms)))
    if not isinstance(arms, Iterable) or isinstance(arms, str | bytes | bytearray):
        raise InvalidTypeError(f"arms must be a number of arms or a list of names, got {arms!r}")
    names = categories(arms) or list_of("arms", arms)
    if not names:
        raise InvalidInputError("arms is empty; there must be at least one arm")
    for name in names:
        check_name(name)
    if len(set(names)) < len(names):
        seen: set[Any] = set()
        duplicate = next(n for n in names if n in seen or seen.add(n))  # type: ignore[func-returns-value]
        raise InvalidInputError(f"duplicate arm {duplicate!r}; names must differ")
    return tuple(names)


def check_name(name: object) -> None:
    """Raise unless this can be the name of an arm."""
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise InvalidTypeError(f"an arm name must be a str or an int, got {name!r}")
