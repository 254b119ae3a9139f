"""What a policy and its engine agree on: settings go in, rows are learned, questions are answered.

Every engine is multi-task kernel ridge regression on pairs (arm, context).

Notation (t rows, a query of m points; the paper's symbols in brackets)
    k_Z, k_X         similarity of arms, kernel on contexts; the kernel of pairs is a sum of products k_Z k_X
    y        (t,)    rewards as they are learned: (reward - level) / unit
    K        (t, t)  kernel matrix of the rows [K~_{t-1}]
    k        (t, m)  kernel values between the rows and the query [k~_{a,t}]
    prior    (m,)    k(x~, x~) of each query point
    noise    (t,)    ridge * n_a of the row's arm ("per_arm"), or ridge ("uniform") [lambda eta^-1]
    M        (t, t)  K + diag(noise), symmetric; M^-1 = (eta K + lambda I)^-1 eta
    mean     k' M^-1 y                                          [f^_t]
    width    sqrt((prior - k' M^-1 k) / ridge)                  [s_{a,t}]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Mask, Matrix, Vector
from kinbandits.history import History
from kinbandits.kernels import Kernel

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class Common:
    """k_Z = (1 - shared) I + shared 11': any two arms are equally alike. Never held as a matrix.

    Independent arms have ``shared`` 0, pooled ones 1.
    """

    n_arms: int
    shared: float = 0.0


class Tracker(Protocol):
    """Follows an estimated k_Z while rows arrive in the history it was made for."""

    @property
    def matrix(self) -> Matrix: ...

    def observe(self, start: int, squares: Vector | None = None) -> None:
        """Rows from ``start`` on are new; ``squares`` are the squared distances of one new row to all rows."""


class EstimatedValue(Protocol):
    """A k_Z that changes with every row."""

    def tracker(self, history: History) -> Tracker: ...


KZ = Matrix | Common | EstimatedValue


@dataclass(frozen=True, eq=False)
class Product:
    """One term k_Z(a, b) k_X(x, x') of the kernel, on these columns of the context (None: on all)."""

    k_z: KZ
    kernel: Kernel
    columns: tuple[int, ...] | None = None

    @property
    def fixed(self) -> bool:
        """Whether k_Z stays as it is while rows arrive."""
        return isinstance(self.k_z, np.ndarray | Common)

    def select(self, contexts: Matrix) -> Matrix:
        """The columns that this term sees."""
        return contexts if self.columns is None else contexts[:, list(self.columns)]


@dataclass(frozen=True, eq=False)
class Settings:
    """All that an engine must know besides rows."""

    n_arms: int
    terms: tuple[Product, ...]
    ridge: float  # the paper's lambda
    weighting: Literal["uniform", "per_arm"] = "uniform"  # per_arm: row weights eta = 1 / n_a
    cold_start: Literal["explore", "borrow"] = "explore"  # explore: an arm without rows has mean 0, prior width
    level: float = 0.0
    unit: float = 1.0

    @property
    def fixed(self) -> bool:
        """Whether no k_Z changes while rows arrive."""
        return all(term.fixed for term in self.terms)

    @property
    def growing(self) -> bool:
        """Whether rows only ever add lines to M: nothing that is there changes."""
        return self.fixed and self.weighting == "uniform"

    def noise(self, arms: Indices, counts: Indices) -> Vector:
        """lambda eta^-1: what is added to the diagonal of K, row by row."""
        if self.weighting == "per_arm":
            return np.asarray(np.multiply(self.ridge, counts[arms], dtype=np.float64))
        return np.full(len(arms), self.ridge)

    def learned(self, rewards: Vector) -> Vector:
        """Rewards as they are learned."""
        plain = self.level == 0.0 and self.unit == 1.0
        return rewards if plain else np.asarray((rewards - self.level) / self.unit)


@dataclass(frozen=True, eq=False)
class Query:
    """Candidates of R rounds, the same k arms in each: contexts are (R, 1, d), one a round, or (R, k, d)."""

    arms: Indices
    contexts: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.contexts), len(self.arms)

    @property
    def shared(self) -> bool:
        """Whether all candidates of a round have the same context."""
        return bool(self.contexts.shape[1] == 1)

    def points(self) -> tuple[Indices, Matrix]:
        """The R * k pairs (arm, context), round by round."""
        rounds, k = self.shape
        contexts = np.broadcast_to(self.contexts, (rounds, k, self.contexts.shape[2]))
        return np.tile(self.arms, rounds), contexts.reshape(rounds * k, -1)


class Prediction(NamedTuple):
    """Mean and width of each candidate; ``width`` is the paper's s, which contains lambda^-1/2."""

    mean: Matrix
    width: Matrix


class Regression(ABC):
    """One estimator, several engines. Arrays are native float64 (`kinbandits._checks.as_float64`)."""

    settings: Settings

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many rows were learned, whether they are still kept or not."""

    @property
    @abstractmethod
    def counts(self) -> Indices:
        """Rows per arm."""

    @property
    @abstractmethod
    def rows(self) -> History | None:
        """The rows, rewards in their own units; None if some of them are gone."""

    @property
    @abstractmethod
    def k_z(self) -> list[Matrix]:
        """The similarity matrices in force, one per term; made when asked for."""

    @abstractmethod
    def observe(self, arms: Indices, contexts: Matrix, rewards: Vector) -> None:
        """Learn from rows, rewards in their own units; if that fails, all is as it was before."""

    @abstractmethod
    def changed(self, settings: Settings, *, rows: History | None = None, removed: int | None = None) -> Regression:
        """A new engine of this kind under other settings; this one stays as it is.

        ``rows`` take the place of those learned; ``removed`` is an arm that leaves with its rows.
        """

    @abstractmethod
    def snapshot(self) -> Regression:
        """What is known now, read only: other threads may read it while this engine learns on."""

    @abstractmethod
    def leaders(self, query: Query, exploration: Vector, tolerance: float = 0.0) -> Mask:
        """Which candidates have the largest mean + exploration * width of their round, (R, k), as learned.

        With a ``tolerance``, all whose score is that fraction of the largest magnitude below it.
        """

    @abstractmethod
    def predict(self, query: Query) -> Prediction:
        """Mean and width of every candidate, (R, k) each, in the rewards' own units."""

    @abstractmethod
    def covariance(self, arms: Indices, contexts: Matrix) -> Matrix:
        """Joint posterior covariance of these points, in the rewards' own units."""

    @abstractmethod
    def log_det(self) -> float:
        """log det(I + diag(noise)^-1 K); with uniform weights the paper's log g."""

    @abstractmethod
    def dual(self) -> tuple[Indices, Matrix, Vector]:
        """Arms, contexts and weights of which every mean is level + unit * sum of weight * kernel value."""

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """What the engine did until now, for a person to read."""

    @abstractmethod
    def state(self) -> State:
        """JSON and arrays from which `kinbandits.regression.restore` makes an equal engine."""


def best(scores: Matrix, tolerance: float) -> Mask:
    """Which scores of each row are the largest, to ``tolerance`` of the row's largest magnitude."""
    floor = scores.max(axis=1, keepdims=True)
    if tolerance:
        floor = floor - tolerance * np.abs(scores).max(axis=1, keepdims=True)
    return np.asarray(scores >= floor)
