"""What every similarity is, and what follows one while the history grows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

from numpy.typing import ArrayLike

from kinbandits._types import Matrix
from kinbandits._value import Value
from kinbandits.errors import InvalidInputError
from kinbandits.history import History
from kinbandits.kernels import Kernel

Weighting = Literal["per_arm", "uniform"]


@dataclass(frozen=True)
class ArmInfo:
    """What is known of a new arm: a similarity takes one of these (`Similarity.arm_argument`), or none."""

    descriptor: ArrayLike | None = None  # for similarities that are a kernel over descriptors
    # to each arm in order, for those that are a matrix; one number more for the arm itself
    similarity: ArrayLike | None = None
    neighbours: Sequence[int] | None = None  # numbers of the arms it is linked to, for graphs and clusters

    def without(self, names: Iterable[str | None]) -> ArmInfo:
        return replace(self, **{name: None for name in names if name is not None})


class Tracker:
    """Follows ``similarity.matrix(history)`` as the history grows; this one computes it anew when asked for."""

    def __init__(self, similarity: Similarity, history: History) -> None:
        self._similarity = similarity
        self._history = history
        self._matrix: Matrix | None = None
        self._size = -1

    @property
    def matrix(self) -> Matrix:
        """The similarity matrix now in force, (N, N). Do not write into it."""
        if self._matrix is None or (not self._similarity.fixed and self._size != len(self._history)):
            self._matrix = self._similarity.matrix(self._history)
            self._size = len(self._history)
        return self._matrix

    def observe(self, start: int, squares: Matrix | None = None) -> None:
        """The rows from ``start`` on are new. Arrays are replaced, not edited: a shallow copy is a way back."""


class Similarity(Value, ABC):
    """How arms resemble each other."""

    fixed: ClassVar[bool] = True
    """Whether the matrix is the same whatever the history."""

    steps: ClassVar[bool] = False
    """Whether the matrix changes at certain sizes of the history only, and is the same between (see `Stepwise`)."""

    judges_kernel: ClassVar[bool] = False
    """Whether it needs the whole kernel and ridge of the regression (`bound`), and so stands in a single term."""

    @property
    def describes_arms(self) -> bool:
        """Whether arms have descriptors, so that an arm without data can borrow from its kin."""
        return False

    @property
    def arm_argument(self) -> str | None:
        """What it takes of an `ArmInfo`: "descriptor", "similarity", "neighbours", or nothing."""
        return None

    @abstractmethod
    def matrix(self, history: History) -> Matrix:
        """The (N, N) similarity matrix after this history, from its definition."""

    def tracker(self, history: History) -> Tracker:
        """An object that follows `matrix` as ``history`` grows."""
        return Tracker(self, history)

    def bound(self, context_kernel: Kernel, ridge: float, weighting: Weighting) -> Similarity:
        """This similarity told the kernel of its term, ridge and weights, where it judges itself by the fit."""
        return self

    def scaled(
        self, history: History, scales: Sequence[float], K: Matrix | None
    ) -> Sequence[tuple[float | None, Matrix]]:
        """Versions of this similarity to choose from, with the scale of each: itself, if it has no scale.

        ``K`` holds the values of its own kernel on all pairs of rows, if they are known.
        """
        return [(None, self.matrix(history))]

    def check_arms(self, n_arms: int) -> None:
        """Raise if this similarity does not fit ``n_arms`` arms."""

    def for_arms(self, names: Sequence[Any]) -> Similarity:
        """This similarity for arms of these names, refused if it does not fit them."""
        self.check_arms(len(names))
        return self

    def with_arm(self, n_arms: int, info: ArmInfo | None = None) -> Similarity:
        """This similarity for one arm more, which becomes number ``n_arms`` (counted from 0)."""
        info = ArmInfo() if info is None else info
        for name, value in vars(info).items():
            if value is not None and name != self.arm_argument:
                instead = f"; it takes {self.arm_argument}=" if self.arm_argument else "; leave it out"
                raise InvalidInputError(f"{type(self).__name__} similarity takes no {name}= for a new arm{instead}")
        larger = self._with_arm(n_arms, info)
        larger.check_arms(n_arms + 1)
        return larger

    def _with_arm(self, n_arms: int, info: ArmInfo) -> Similarity:
        """The same; ``info`` has nothing that this similarity does not take."""
        return self

    def without_arm(self, arm: int) -> Similarity:
        """This similarity with arm number ``arm`` taken out."""
        return self


class Regressor(NamedTuple):
    """What a similarity is told of the regression it is part of."""

    context_kernel: Kernel
    ridge: float
    weighting: Weighting


class Judging(Similarity, kw_only=True):
    """Base of similarities that look at the regression they are part of. What they are told of it is no setting."""

    _told: Regressor | None = field(default=None, init=False)

    former_fields: ClassVar[frozenset[str]] = frozenset({"context_kernel", "ridge", "weighting"})
    fixed: ClassVar[bool] = False
    steps: ClassVar[bool] = True

    def bound(self, context_kernel: Kernel, ridge: float, weighting: Weighting) -> Self:
        told = self.replace()
        object.__setattr__(told, "_told", Regressor(context_kernel, ridge, weighting))
        return told

    def replace(self, **changes: Any) -> Self:
        """The same similarity with some fields changed, told of the same regression."""
        other = super().replace(**changes)
        object.__setattr__(other, "_told", self._told)
        return other

    @property
    def regressor(self) -> Regressor:
        if self._told is None:
            raise InvalidInputError(
                f"{type(self).__name__} judges by the fit of a policy's regression; give it to a policy "
                "(similarity=), or call bound(context_kernel, ridge, weighting) first"
            )
        return self._told
