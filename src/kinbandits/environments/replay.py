"""A log of uniformly random choices, played again (Li et al., 2011)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._checks import as_float64, rows_of_contexts
from kinbandits._frames import arm_numbers, as_table, categories, column, listed_column, numbers, read_table
from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import Natural, Value
from kinbandits.environments.base import Round, StartRows, checked_horizon, no_rows, seeded
from kinbandits.errors import InvalidInputError, InvalidTypeError


class Log(Value):
    """Logged choices: ``choices`` (n,) arm numbers, ``contexts`` (n, d), ``rewards`` (n,), and the arms' names."""

    arms: tuple[Any, ...]
    choices: Indices
    contexts: Matrix
    rewards: Vector

    def __repr__(self) -> str:
        return f"Log({len(self.choices)} rows, {len(self.arms)} arms)"

    @classmethod
    def of(
        cls,
        choices: Sequence[Any] | NDArray[Any],
        contexts: ArrayLike,
        rewards: ArrayLike,
        *,
        arms: Sequence[Any] | None = None,
        propensities: ArrayLike | None = None,
    ) -> Log:
        """From arm names (n,), contexts (n, d) and rewards (n,).

        ``arms`` are all that could have been played (default: the categories of the column, or those played).
        ``propensities`` other than 1/N are refused: the method is valid for no other.
        """
        listed = listed_column(choices)
        names = list(np.asarray(choices).tolist()) if listed is None else listed
        arms = categories(choices) if arms is None else arms
        X, r = rows_of_contexts(contexts, None), as_float64("rewards", rewards)
        if r.shape != (len(names),) or len(X) != len(names):
            raise InvalidInputError(
                f"choices, contexts and rewards must have the same number of rows, got {len(names)}, {len(X)} "
                f"and {len(r)}"
            )
        if not names:
            raise InvalidInputError("the log is empty")
        known, played = arm_numbers(names, arms)
        if propensities is not None:
            p = as_float64("propensities", propensities)
            wrong = np.flatnonzero(np.abs(np.broadcast_to(p, r.shape) * len(known) - 1.0) > 1e-6)
            if wrong.size:
                raise InvalidInputError(
                    f"replay needs uniformly random choices, but propensities[{wrong[0]}] is "
                    f"{p.flat[wrong[0]]:.6g}, not 1/{len(known)}; estimate from such a log by inverse "
                    "propensity weighting instead"
                )
        for array in (played, X, r):
            array.setflags(write=False)
        return cls(tuple(known), played, X, r)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        arm: str = "arm",
        reward: str = "reward",
        contexts: Sequence[str] | None = None,
        propensity: str | None = None,
    ) -> Log:
        """From a table of pandas, polars or another library; arguments name its columns (contexts: all others)."""
        table = as_table(frame)
        named = {arm, reward, propensity}
        features = [c for c in table.columns if c not in named] if contexts is None else list(contexts)
        return cls.of(
            column(table, "arm", arm),
            numbers(table, features),
            numbers(table, [reward])[:, 0],
            arms=categories(table[arm]),
            propensities=None if propensity is None else numbers(table, [propensity])[:, 0],
        )


class Replay(Value):
    """Replay of a log whose choices were uniformly random, by rejection.

    In each round the policy chooses; if the log played the same arm, its reward counts and is learned, else
    the round is left out, as if it had never been. What remains is a sample of the rounds that the policy would
    have met, so its mean reward (``trace.mean_reward``) is an unbiased estimate. About one round in N remains,
    so a run has about n/N rows, and the regret is not known.

    Args:
        log: a `Log`, or the path of a CSV or Parquet file, whose columns the next four name (contexts: all others).
        horizon: how many rounds of the log to go through; default all.
        seed: None plays the log in its order; a number shuffles it.

    >>> log = Log.of(["a", "b", "a"], [[0.0], [1.0], [2.0]], [1.0, 0.0, 0.5])
    >>> [round.rewards.tolist() for round in Replay(log).rounds()]
    [[1.0, nan], [nan, 0.0], [0.5, nan]]

    Reference: Li, Chu, Langford, Wang (2011), Unbiased offline evaluation of contextual-bandit-based news
    article recommendation algorithms. A rejected round still counts for a schedule of exploration, since a
    schedule counts decisions.
    """

    log: str | Log
    arm: str = "arm"
    reward: str = "reward"
    contexts: tuple[str, ...] | None = None
    propensity: str | None = None
    horizon: Natural = 0
    seed: Natural | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.log, str | Log):
            raise InvalidTypeError(f"log must be a Log or a file, got {type(self.log).__name__}; Log.of makes one")
        if self.contexts is not None:
            self._set(contexts=tuple(self.contexts))
        n = len(self._log.choices)
        self._set(horizon=checked_horizon(self.horizon, n, f"the log has {n} rows"))

    @property
    def _log(self) -> Log:
        if isinstance(self.log, Log):
            return self.log
        return _read(self.log, self.arm, self.reward, self.contexts, self.propensity)

    @property
    def name(self) -> str:
        return f"replay of {Path(self.log).stem}" if isinstance(self.log, str) else "replay of a log"

    @property
    def arms(self) -> list[Any]:
        return list(self._log.arms)

    def start_rows(self) -> StartRows:
        return no_rows()

    def rounds(self) -> Iterator[Round]:
        """The rows of the log; the reward of every arm but the logged one is unknown (NaN)."""
        log = self._log
        order = np.arange(len(log.choices))
        if self.seed is not None:
            order = seeded(self.seed, 1)[0].permutation(len(order))
        for i in order[: self.horizon]:
            rewards = np.full(len(log.arms), np.nan)
            rewards[log.choices[i]] = log.rewards[i]
            yield Round(log.contexts[i], rewards)


@lru_cache(maxsize=2)
def _read(path: str, arm: str, reward: str, contexts: tuple[str, ...] | None, propensity: str | None) -> Log:
    return Log.from_frame(read_table(path), arm=arm, reward=reward, contexts=contexts, propensity=propensity)
