"""Arms and contexts as a policy takes them: names and numbers of arms, any array or table as contexts, checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import rounds_of_contexts
from kinbandits._frames import categories, column_names, is_frame, listed_column, ordered
from kinbandits._threads import Turn, one_thread
from kinbandits._types import Indices, Matrix
from kinbandits.errors import InvalidInputError, InvalidTypeError, UnknownArmError
from kinbandits.policies.decision import ArmName
from kinbandits.policies.ledger import Ledger
from kinbandits.regression import Query

MOST_ARMS = 10_000_000  # that are counted instead of named


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
        if arms > MOST_ARMS:
            raise InvalidInputError(f"arms must be at most {MOST_ARMS:,}, or a list of names")
        return list(range(int(arms)))
    if not isinstance(arms, Iterable):
        raise InvalidTypeError(f"arms must be a number of arms or a list of names, got {arms!r}")
    if isinstance(arms, Mapping) or is_frame(arms):
        raise InvalidTypeError(
            f"arms must be names, and the values of a {type(arms).__name__} would be ignored; give "
            "arms=list(names), and similarity=kb.Known(descriptors=...) for what is known of them"
        )
    names: list[ArmName] = categories(arms) or listed("arms", arms)
    if not names:
        raise InvalidInputError("arms is empty; there must be at least one arm")
    for name in names:
        _check_arm_name(name)
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


def _check_arm_name(name: object) -> None:
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise InvalidTypeError(f"an arm name must be a str or an int, got {name!r}")


class ArmList:
    """What a policy knows of its arms: names, numbers, which are retired."""

    _turn: Turn

    def __init__(self, arms: int | Iterable[ArmName]) -> None:
        self._names: list[ArmName] = arm_names(arms)
        self.retired: set[ArmName] = set()
        self._index = {name: i for i, name in enumerate(self._names)}
        self._active: Candidates | None = None

    @property
    def arms(self) -> list[ArmName]:
        """The names of all arms, retired ones included; a list of the caller's own."""
        return list(self._names)

    @property
    def n_arms(self) -> int:
        """How many arms there are, retired ones included."""
        return len(self._names)

    @property
    def active_arms(self) -> list[ArmName]:
        """The arms that may be chosen, in order."""
        return [name for name in self._names if name not in self.retired]

    @one_thread
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
        kinds = {k for k in set(map(type, names)) if issubclass(k, str | int | np.integer)} - {bool}
        indices = [self._index.get(n) if type(n) in kinds else None for n in names]  # True and 1.0 would find arm 1
        if None in indices:
            unknown, shown = names[indices.index(None)], ", ".join(map(repr, self._names[:8]))
            more = f", ... ({self.n_arms} in all)" if self.n_arms > 8 else ""
            raise UnknownArmError(f"unknown arm {unknown!r}; the arms are {shown}{more}. add_arm() adds one")
        return np.array(indices, dtype=np.intp)

    def _number(self, arm: ArmName) -> int:
        return int(self._arm_indices([arm])[0])

    def _check_new_arm(self, arm: ArmName) -> None:
        _check_arm_name(arm)
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
        self._index[arm] = len(self._names)
        self._names.append(arm)
        self._active = None

    def _drop_arm(self, arm: ArmName) -> None:
        self._names.remove(arm)
        self.retired.discard(arm)
        self._index = {name: i for i, name in enumerate(self._names)}
        self._active = None


class ContextReader(ArmList, ABC):
    """Knows how many columns contexts have, and what they are called."""

    _ledger: Ledger

    def __init__(self, arms: int | Iterable[ArmName]) -> None:
        super().__init__(arms)
        self.feature_names: tuple[str, ...] | None = None  # of the first table seen; later ones are put in order

    @property
    @abstractmethod
    def _features_seen(self) -> int | None:
        """Columns of the contexts learned from."""

    @property
    def _n_features(self) -> int | None:
        """Columns of a context, as far as data or open decisions have settled it."""
        seen = self._features_seen
        return self._ledger.n_features if seen is None else seen

    def _check_features(self, n_features: int) -> None:
        """Raise if contexts with this many columns do not fit the kernel."""

    def _query(self, contexts: ArrayLike, arms: Sequence[ArmName] | None, *, batch: bool = False) -> Query:
        """Candidates to ask about, whether they may be chosen or not."""
        candidates = self._candidates(arms)
        return Query(candidates.indices, self._checked(contexts, candidates, batch=batch))

    def _checked(
        self, contexts: ArrayLike, candidates: Candidates, *, batch: bool = False, keep: bool = False
    ) -> Matrix:
        """Contexts, checked, as (R, 1, d) or (R, k, d). ``keep`` remembers the names of columns."""
        array, found = self._named(contexts)
        seen = self._features_seen
        rounds = rounds_of_contexts(array, len(candidates.names), seen or self._n_features, batch=batch)
        if seen is None:
            self._check_features(rounds.shape[2])
        if keep and found is not None:
            self.feature_names = self.feature_names or found
        return rounds

    def _named(self, contexts: Any) -> tuple[Any, tuple[str, ...] | None]:
        """Contexts as an array with columns in the order learned, and their names if they have any."""
        found = column_names(contexts)
        if found is None:
            return contexts, None
        return ordered(contexts, self.feature_names or found, found), tuple(found)
