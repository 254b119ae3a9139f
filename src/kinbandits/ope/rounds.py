"""The rounds of a log, as off-policy evaluation reads them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kinbandits._checks import as_float64
from kinbandits._frames import arm_numbers, as_table, categories, column, is_frame, numbers
from kinbandits._types import Matrix
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.policies import Policy

__all__ = ["LoggedRounds"]


@dataclass(frozen=True)
class LoggedRounds:
    """Rounds of a log, each with its own candidates.

    Attributes:
        contexts: per round (d,) or (k, d).
        candidates: per round the names of the arms that could be chosen.
        chosen: per round which candidate was played.
        rewards, propensities: per round.
    """

    contexts: Sequence[Any]
    candidates: Sequence[Sequence[str | int]]
    chosen: Sequence[int]
    rewards: Sequence[float]
    propensities: Sequence[float]

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        arm: str = "arm",
        reward: str = "reward",
        propensity: str | None = "propensity",
        contexts: Sequence[str] | None = None,
        arms: Sequence[str | int] | None = None,
    ) -> LoggedRounds:
        """From a table of pandas, polars, pyarrow or another library, one row a round, in order of time.

        Args:
            frame: the table.
            arm, reward, propensity: names of the columns. ``propensity=None`` says that all arms were drawn with
                the same probability.
            contexts: columns of the context; without it all that are not named otherwise.
            arms: all arms that could have been played; default: the categories of a categorical column, or those
                that were played, sorted.

        Example:
            >>> import pandas as pd
            >>> frame = pd.DataFrame({"item": ["a", "b"], "clicked": [1, 0], "p": [0.5, 0.5], "age": [0.3, 0.7]})
            >>> log = LoggedRounds.from_frame(frame, arm="item", reward="clicked", propensity="p")
            >>> len(log), log.arms()
            (2, ['a', 'b'])
        """
        if not is_frame(frame):
            raise InvalidTypeError(
                f"frame must be a table (pandas, polars, pyarrow), got {type(frame).__name__}; from arrays make "
                "LoggedRounds(contexts, candidates, chosen, rewards, propensities)"
            )
        table = as_table(frame)
        played = column(table, "arm", arm).tolist()
        if not played:
            raise InvalidInputError("the table has no rows")
        named = {arm, reward, propensity}
        features = [c for c in table.columns if c not in named] if contexts is None else list(contexts)
        known, places = arm_numbers(played, categories(table[arm]) if arms is None else arms)
        given = numbers(table, [reward])[:, 0]
        p = np.full(len(played), 1.0 / len(known)) if propensity is None else numbers(table, [propensity])[:, 0]
        if p.min() <= 0.0 or p.max() > 1.0:
            swapped = given.min() > 0.0 and given.max() <= 1.0
            raise InvalidInputError(
                f"propensities must be above 0 and at most 1; column {propensity!r} is in [{p.min()}, {p.max()}]"
                + (f"; column {reward!r} could be propensities: are the two swapped?" if swapped else "")
            )
        X = as_float64("contexts", numbers(table, features))
        return cls(list(X), [known] * len(played), places.tolist(), given.tolist(), p.tolist())

    @classmethod
    def of_tasks(
        cls,
        tasks: Sequence[str | int],
        candidates: Sequence[Any],
        chosen: Sequence[int],
        rewards: Sequence[float],
        propensities: Sequence[float],
    ) -> LoggedRounds:
        """Rounds in which a task was given, and one of ``candidates`` (k, d) was chosen for it.

        >>> log = LoggedRounds.of_tasks(["a"], [[[0.1], [0.2]]], [1], [1.0], [0.5])
        >>> log.candidates, log.played_contexts()
        ([['a', 'a']], array([[0.2]]))
        """
        names = [[task] * len(rows) for task, rows in zip(tasks, candidates, strict=True)]
        return cls(candidates, names, chosen, rewards, propensities)

    def __len__(self) -> int:
        return len(self.rewards)

    def __getitem__(self, rows: slice) -> LoggedRounds:
        return LoggedRounds(
            self.contexts[rows],
            self.candidates[rows],
            self.chosen[rows],
            self.rewards[rows],
            self.propensities[rows],
        )

    def arms(self) -> list[str | int]:
        """The arm played in each round."""
        return [c[i] for c, i in zip(self.candidates, self.chosen, strict=True)]

    def played_contexts(self) -> Matrix:
        """The context of the candidate played in each round, (n, d)."""
        rows = []
        for context, i in zip(self.contexts, self.chosen, strict=True):
            x = np.asarray(context, dtype=np.float64)
            rows.append(x if x.ndim == 1 else x[i if len(x) > 1 else 0])
        return np.array(rows)

    def teach(self, policy: Policy) -> None:
        """Let a policy learn all rounds."""
        arms, contexts = self.arms(), self.played_contexts()
        own: list[bool | Literal["task"]] = [
            np.ndim(context) == 2 and len(context) > 1 and ("task" if len(set(names)) == 1 else True)
            for context, names in zip(self.contexts, self.candidates, strict=True)
        ]
        edges = [0, *(i for i in range(1, len(self)) if own[i] != own[i - 1]), len(self)]
        for first, last in itertools.pairwise(edges if len(self) else []):
            part = slice(first, last)
            policy.observe(arms[part], contexts[part], self.rewards[part], own_contexts=own[first])

    def table(self, ask: Callable[[Matrix, list[str | int]], Matrix]) -> Matrix:
        """(n, k) numbers from a function of contexts (R, 1 or k, d) and candidates, like rounds at once."""
        groups: dict[Any, list[int]] = {}
        for i, (context, names) in enumerate(zip(self.contexts, self.candidates, strict=True)):
            groups.setdefault((np.shape(context), tuple(names)), []).append(i)
        result = np.zeros((len(self), max(map(len, self.candidates))))
        for (shape, names), members in groups.items():
            contexts = np.array([self.contexts[i] for i in members], dtype=np.float64)
            if len(shape) == 1:
                contexts = contexts[:, None, :]
            result[members, : len(names)] = ask(contexts, list(names))
        return result
