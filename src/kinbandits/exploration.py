"""Exploration schedules, as frozen values: how the multiplier of the width changes with the number of decisions.

A plain number is the constant schedule, and the default. A value can be saved with the policy, a function cannot.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from kinbandits._value import Value, part, positive
from kinbandits.errors import InvalidInputError

__all__ = [
    "AgnosticExploration",
    "ConfidenceExploration",
    "Decaying",
    "Deviations",
    "GPUCBExploration",
    "LogExploration",
    "Schedule",
]

MANY = 20.0  # candidates, up to which a deviation is one deviation


class Schedule(Value, ABC):
    """A function t -> beta_t of the number of the decision, counted from 1."""

    needs: ClassVar[frozenset[str]] = frozenset()
    """What it is told beside t, by name: ``log_det``, log det(I + K / ridge) of the rows learned; ``ridge``, that
    in force; ``candidates``, how many there are to choose from."""

    of_time: ClassVar[bool] = True
    """Whether it changes with t."""

    @abstractmethod
    def __call__(self, t: int) -> float:
        """The multiplier of the width at decision t."""


class Deviations(Schedule):
    """beta = value * sqrt(ridge): so many posterior deviations, whatever the ridge in force.

    The width contains ridge^-1/2, so that beta * width is value * sqrt(k - q). This is what a ridge that is learned
    asks for, and the default with it. Among n > 20 candidates it is sqrt(log 20 / log n) of that: the largest of n
    normal deviations grows like sqrt(2 log n), so that of many candidates one looks promising anyhow.

    >>> Deviations(1.0)(7, ridge=0.25), Deviations(1.0)(7, ridge=0.25, candidates=400)
    (0.5, 0.3535533905932738)
    """

    value: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"ridge", "candidates"})
    of_time: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", positive("value", self.value, zero=True))

    def __call__(self, t: int, ridge: float = 1.0, candidates: int = 1) -> float:
        return self.value * math.sqrt(ridge * min(1.0, math.log(MANY) / math.log(max(candidates, 2))))


class Decaying(Schedule):
    """beta_t = max(floor, start (1 + t / rounds)^-power): from start, halved (for power 1) after ``rounds``.

    >>> [round(Decaying(0.2, rounds=100)(t), 3) for t in (1, 100, 300)]
    [0.198, 0.1, 0.05]
    """

    start: float = 0.2
    rounds: float = 500.0
    power: float = 1.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        for name, zero in (("start", True), ("rounds", False), ("power", True), ("floor", True)):
            object.__setattr__(self, name, positive(name, getattr(self, name), zero=zero))

    def __call__(self, t: int) -> float:
        return max(self.floor, self.start * math.pow(1.0 + t / self.rounds, -self.power))


class GPUCBExploration(Schedule):
    """GP-UCB (Srinivas et al., 2010, Theorem 1): scale * sqrt(ridge * 2 log(n_arms t^2 pi^2 / (6 delta))).

    The root of the ridge turns our width, which contains ridge^-1/2, into their standard deviation.

    Args:
        n_arms: size of the decision set.
        ridge: of the policy; their noise variance.
        delta: probability of failure.
        scale: 1 is the theorem; practice takes less.

    Example:
        >>> round(GPUCBExploration(n_arms=10)(100), 3)
        0.535
    """

    n_arms: int
    ridge: float = 0.01
    delta: float = 0.1
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridge", positive("ridge", self.ridge))
        object.__setattr__(self, "scale", positive("scale", self.scale, zero=True))
        object.__setattr__(self, "delta", part("delta", self.delta, ends=False))
        if isinstance(self.n_arms, bool) or not isinstance(self.n_arms, int) or self.n_arms < 1:
            raise InvalidInputError(f"n_arms must be a whole number of at least 1, got {self.n_arms!r}")

    def __call__(self, t: int) -> float:
        beta = 2.0 * math.log(self.n_arms * t**2 * math.pi**2 / (6.0 * self.delta))
        return self.scale * math.sqrt(self.ridge * max(beta, 0.0))


class AgnosticExploration(Schedule):
    """GP-UCB and CGP-UCB for functions of the kernel's space (Srinivas et al., 2010, Theorem 3; Krause, Ong 2011).

    scale * sqrt(ridge * (2 norm_bound^2 + 300 gain log(t / delta)^3)), with ``gain`` the information gain: a bound
    on it, or that of the rows learned so far, log_det / 2. The root of the ridge is as in `GPUCBExploration`.

    Args:
        ridge: of the policy; their noise variance.
        norm_bound: B, a bound on the norm of the reward function.
        delta: probability of failure.
        gain: gamma_t; None takes that of the data, which costs a determinant a decision (little, where the engine
            keeps a factor).
        scale: 1 is the theorem; practice takes far less.

    Example:
        >>> round(AgnosticExploration(ridge=1.0, gain=0.0)(5), 6)
        1.414214
        >>> round(AgnosticExploration(ridge=1.0, delta=0.5)(5, log_det=2.0), 3)
        60.534
    """

    ridge: float = 0.01
    norm_bound: float = 1.0
    delta: float = 0.1
    gain: float | None = None
    scale: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"log_det"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridge", positive("ridge", self.ridge))
        for name in ("norm_bound", "scale"):
            object.__setattr__(self, name, positive(name, getattr(self, name), zero=True))
        object.__setattr__(self, "delta", part("delta", self.delta, ends=False))
        if self.gain is not None:
            object.__setattr__(self, "gain", positive("gain", self.gain, zero=True))

    def __call__(self, t: int, log_det: float = 0.0) -> float:
        gain = 0.5 * log_det if self.gain is None else self.gain
        beta = 2.0 * self.norm_bound**2 + 300.0 * gain * math.log(t / self.delta) ** 3
        return self.scale * math.sqrt(self.ridge * beta)


class ConfidenceExploration(Schedule):
    """The self-normalised radius: noise * sqrt(log_det + 2 log(1 / delta)) + sqrt(ridge) * norm_bound.

    With uniform weights and a fixed similarity the mean is then within beta_t * width of the truth in all rounds at
    once, with probability 1 - delta (Abbasi-Yadkori et al., 2011, Theorem 2).

    Args:
        noise: sigma, a bound on the noise of rewards (sub-Gaussian).
        norm_bound: a bound on the norm of the reward function.
        delta: probability of failure.
        ridge: of the policy.
        form: ``"self-normalised"``, as above; ``"tight"``, the root of the sum of the two squares, which holds too
            (`kinbandits.theory.self_normalised_factor`); ``"gob"`` has log(1 / delta) once, as Gang of Bandits
            prints it.

    Example:
        >>> round(ConfidenceExploration(noise=0.5, ridge=1.0, delta=0.1)(1, log_det=2.0), 4)
        2.285
    """

    noise: float = 0.1
    norm_bound: float = 1.0
    delta: float = 0.1
    ridge: float = 0.01
    form: Literal["self-normalised", "tight", "gob"] = "self-normalised"

    needs: ClassVar[frozenset[str]] = frozenset({"log_det"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridge", positive("ridge", self.ridge))
        for name in ("noise", "norm_bound"):
            object.__setattr__(self, name, positive(name, getattr(self, name), zero=True))
        object.__setattr__(self, "delta", part("delta", self.delta, ends=False))
        if self.form not in ("self-normalised", "tight", "gob"):
            raise InvalidInputError(f'form must be "self-normalised", "tight" or "gob", got {self.form!r}')

    def __call__(self, t: int, log_det: float = 0.0) -> float:
        times = 1.0 if self.form == "gob" else 2.0
        spread = math.sqrt(max(log_det, 0.0) - times * math.log(self.delta))
        parts = self.noise * spread, math.sqrt(self.ridge) * self.norm_bound
        return math.hypot(*parts) if self.form == "tight" else sum(parts)


class LogExploration(Schedule):
    """beta_t = scale * sqrt(log(t + shift)), with t + shift at least 2.

    shift = 1 is what Gang of Bandits, CLUB and COFIBA run; scale = sqrt(2), shift = -1 is UCB1, which counts the
    rounds before this one.

    >>> round(LogExploration(scale=0.5)(99), 4)
    1.073
    """

    scale: float = 1.0
    shift: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale, zero=True))
        if isinstance(self.shift, bool) or not isinstance(self.shift, int):
            raise InvalidInputError(f"shift must be a whole number, got {self.shift!r}")

    def __call__(self, t: int) -> float:
        return self.scale * math.sqrt(math.log(max(t + self.shift, 2)))
