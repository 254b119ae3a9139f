"""A log of uniformly random choices, played again (Li et al., 2011)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits._value import Natural, Value
from kinbandits.environments.base import Round, StartRows, checked_horizon, no_rows, seeded
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.logs import Columns, Log


class Replay(Value):
    """Replay of a log whose choices were uniformly random, by rejection.

    In each round the policy chooses; if the log played the same arm, its reward counts and is learned, else
    the round is left out, as if it had never been. What remains is a sample of the rounds that the policy would
    have met, so its mean reward (``trace.mean_reward``) is an unbiased estimate. About one round in N remains,
    so a run has about n/N rows, and the regret is not known.

    Args:
        log: a `kb.Log`, or the path of a CSV or Parquet file, whose columns the next four name, as in `Columns`.
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
        log = self._log
        wrong = np.flatnonzero(np.abs(log.propensities * len(log.arms) - 1.0) > 1e-6)
        if log.candidates is not None:
            raise InvalidInputError("replay needs a log in which all arms could be played in every round")
        if wrong.size:
            raise InvalidInputError(
                f"replay needs uniformly random choices, but the propensity of row {wrong[0] + 1} is "
                f"{log.propensities[wrong[0]]:.6g}, not 1/{len(log.arms)}; estimate from it with kb.ope.evaluate"
            )
        self._set(horizon=checked_horizon(self.horizon, len(log), f"the log has {len(log)} rows"))

    @property
    def _log(self) -> Log:
        if isinstance(self.log, Log):
            return self.log
        return _read(self.log, Columns(self.arm, self.reward, self.contexts, self.propensity))

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
        order = np.arange(len(log)) if self.seed is None else seeded(self.seed, 1)[0].permutation(len(log))
        for i in order[: self.horizon]:
            rewards = np.full(len(log.arms), np.nan)
            rewards[log.played[i]] = log.rewards[i]
            yield Round(log.contexts[i], rewards)


@lru_cache(maxsize=2)
def _read(path: str, columns: Columns) -> Log:
    return Log.read(path, columns)
