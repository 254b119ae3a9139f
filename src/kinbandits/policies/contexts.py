"""Contexts as a policy takes them: any array or table, checked once, columns in the order first seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from kinbandits._checks import rounds_of_contexts
from kinbandits._frames import column_names, ordered
from kinbandits._types import Matrix
from kinbandits.policies.arms import ArmList, Candidates
from kinbandits.policies.decision import ArmName
from kinbandits.policies.ledger import Ledger
from kinbandits.regression import Query


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
        if seen is None:
            return self._ledger.n_features
        return seen

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
