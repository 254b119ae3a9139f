"""Arguments of `KMTLUCB` that are more than a number: `Window`, `Budgeted`; what ``rewards=`` and ``engine=`` take."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinbandits._value import Count, Natural, Value, real
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.model import Scale
from kinbandits.regression import Engine

ENGINES = "auto", "exact", "naive"


class Window(Value):
    """Remember the last rows only, for a world that changes: ``memory=kb.Window(500)``.

    Rows are forgotten in blocks: there are between ``size`` and a quarter more. At each cut the model is fitted again.
    """

    size: Count


class Budgeted(Value):
    """Constant cost and memory: the regression on a dictionary of at most ``points`` rows.

    It is exact for the first ``after`` rows.

    >>> Budgeted(points=64)
    Budgeted(points=64)
    """

    points: Count = 256
    after: Natural = 0


def rewards_of(rewards: Any) -> tuple[Any, tuple[float, float] | None]:
    """What was given, and the level and unit of rewards where these are not learned."""
    if isinstance(rewards, str) and rewards == "learn":
        return rewards, None
    if rewards is None or (isinstance(rewards, str) and rewards == "raw"):  # settings files have no None
        return None, (0.0, 1.0)
    if isinstance(rewards, Scale):
        return rewards, (rewards.level, rewards.unit)
    if isinstance(rewards, np.ndarray):
        rewards = rewards.tolist()
    if not isinstance(rewards, tuple | list) or len(rewards) != 2:
        raise InvalidTypeError(f'rewards must be "learn", None (as they are) or (low, high), got {rewards!r}')
    low, high = real("rewards[0]", rewards[0]), real("rewards[1]", rewards[1])
    if not low < high:
        raise InvalidInputError(f"rewards=(low, high) needs low < high, got {rewards!r}")
    return (low, high), (low, high - low)


def engine_of(engine: Any, memory: Window | None) -> Engine:
    """The engine, checked."""
    if not isinstance(engine, Budgeted):
        if isinstance(engine, str) and engine in ENGINES:
            return engine  # type: ignore[return-value]
        error = InvalidInputError if isinstance(engine, str) else InvalidTypeError
        raise error(f'engine must be "auto", "exact", "naive" or kb.Budgeted(points=256), got {engine!r}')
    if memory is not None:
        raise InvalidInputError(
            'memory=kb.Window(...) needs engine="exact": a dictionary keeps sums, which no row can leave'
        )
    return engine
