"""How noisy rewards are, at which level and in which unit: learned from the rows.

Notation and evidence: `kinbandits.evidence`, with rewards y on a scale of 0 to 1 between the lowest and the highest
seen; s^2 = fit / (m - 1) is the variance of the arms' functions.

Why the rule is as it is (docs, "Ablation", has the figures):
    - Of the evidence the share n / (n + 15) counts, n the rows an arm has on average. A function not learned yet
      looks like noise: full weight from the start loses 5 % where there are many arms and no noise.
    - `LearnedRidge.prior` nats an e-fold hold the ridge at ``usual`` until there is evidence.
    - Rewards that a smooth function misses are noise only if no rougher one explains them: near contexts with
      near rewards are no noise. Where functions of kernel K^16 win by 5 nats over those of K and over plain noise,
      and with less of it, the ridge is theirs. Without this Letter (26 arms, no noise) loses 6 % in 1,000 rounds,
      and 20 % in 4,000.
    - At most a twentieth of the rows an arm has on average: a ridge as large as the number of rows would mean that
      nothing is learned from them.
    - The unit is 2 s, so that one unit of the posterior deviation is an upper bound of two deviations; never more
      than the rewards differ at all, and never less than one deviation of what is explained of them, the root of
      var(y) / (1 + ridge). Without noise a smooth function is known from a few rows, and s^2 falls like 1 / m
      from then on: without a floor a policy that runs for long would no longer try anything new.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits._value import Value, as_int, positive
from kinbandits._work import Work, finished
from kinbandits.errors import InvalidInputError
from kinbandits.evidence import Sums, sums
from kinbandits.history import History, golden
from kinbandits.rewards import UNITS
from kinbandits.similarity import milestones, takes_force
from kinbandits.terms import Terms

__all__ = ["LearnedRidge", "Noise"]

FEW = 15.0  # rows an arm at which half of the evidence counts
SHARE = 20.0  # rows an arm for each unit of ridge
SQUARED = 4  # times: K^16 stands for rougher functions, of an RBF those of a quarter of its length
MARGIN = 5.0  # nats by which rougher functions must win
ROWS = 300  # of an arm that are looked at, at most
SPREAD = 300  # rows from which on what was learned takes force later: the work is spread over the rows between


class LearnedRidge(Value):
    """The ridge as the posterior mean (of its logarithm) over a few values, as the history grows: ``ridge=``.

    Args:
        usual: the ridge without noise, and until there are ``first`` rows.
        most: the largest.
        prior: nats of evidence asked for each factor e away from ``usual``.
        first, growth, until: it is learned first from so many rows, again whenever they have grown by the factor,
            and last from at most ``until``.

    Example:
        >>> import kinbandits as kb
        >>> policy = kb.KMTLUCB(arms=2, ridge=LearnedRidge())
        >>> rng = np.random.default_rng(0)
        >>> policy.observe([0, 1] * 100, rng.normal(size=(200, 1)), rng.normal(size=200))
        >>> policy.engine_report()["noise"]["ridge"] > 0.1
        True
    """

    usual: float = 0.01
    most: float = 3.0
    prior: float = 2.0
    first: int = 20
    growth: float = 1.3
    until: int = 5000

    def __post_init__(self) -> None:
        self._set(
            usual=positive("usual", self.usual),
            most=positive("most", self.most),
            prior=positive("prior", self.prior, zero=True),
            growth=positive("growth", self.growth),
            first=as_int("first", self.first, 3),
            until=as_int("until", self.until, 1),
        )
        if self.usual > self.most:
            raise InvalidInputError(f"usual must not be above most, got {self.usual!r} and {self.most!r}")
        if not self.growth > 1.0:
            raise InvalidInputError(f"growth must be greater than 1, such as 1.3, got {self.growth!r}")

    @property
    def ridges(self) -> Vector:
        """Those that are compared: half a power of ten apart."""
        steps = math.floor(2.0 * math.log10(self.most / self.usual) + 1e-9)
        values = self.usual * 10.0 ** (0.5 * np.arange(steps + 1, dtype=np.float64))
        return np.asarray(values if values[-1] > 0.7 * self.most else np.append(values, self.most))


class Move(NamedTuple):
    """What was in force from ``rows`` rows on."""

    rows: int
    ridge: float
    level: float
    unit: float


@dataclass(frozen=True)
class Noise:
    """What has been learned about rewards so far: a value, replaced as it is learned anew.

    Attributes:
        rule: a `LearnedRidge`, or a ridge that stays.
        ridge, level, unit: in force. Level and unit are in the rewards' own units; (0, 1) before the first row.
        same: whether all rewards until now were equal, so that nothing is known of their unit.
        posterior: the ridges with their weights, as found last.
        moves: when something changed, the last one first in force.
    """

    rule: LearnedRidge | float
    ridge: float
    level: float = 0.0
    unit: float = 1.0
    same: bool = True
    posterior: tuple[tuple[float, float], ...] = ()
    moves: tuple[Move, ...] = ()

    @classmethod
    def of(cls, rule: LearnedRidge | float) -> Noise:
        """Before any row."""
        return cls(rule, rule.usual if isinstance(rule, LearnedRidge) else rule)

    @property
    def _when(self) -> LearnedRidge:
        return self.rule if isinstance(self.rule, LearnedRidge) else _USUAL

    @cached_property
    def _stones(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        stones = _milestones(self._when.growth, self._when.until)
        return stones, tuple(in_force(n) for n in stones)

    def milestones(self, before: int, after: int) -> tuple[int, ...]:
        """Sizes of the history from which something is learned that takes force beyond ``before``, up to ``after``.

        >>> Noise.of(0.01).milestones(0, 30)
        (1, 2, 3, 4, 6, 8, 11, 15, 20, 26)
        """
        stones, forces = self._stones
        return stones[bisect_right(forces, before) : bisect_right(forces, after)]

    def coming(self, rows: int) -> int | None:
        """The milestone reached within ``rows`` rows that has not yet taken force.

        >>> [Noise.of(0.01).coming(rows) for rows in (300, 380, 402, 403)]
        [None, 380, 380, None]
        """
        stones, forces = self._stones
        last = bisect_right(stones, rows) - 1
        return stones[last] if last >= 0 and forces[last] > rows else None

    def due(self, before: int, rewards: Vector) -> bool:
        """Whether something is to be learned when these rewards come after ``before`` rows."""
        _, forces = self._stones
        following = bisect_right(forces, before)
        if following < len(forces) and forces[following] <= before + len(rewards):
            return True
        return self.same and before > 0 and bool((rewards != self.level).any())

    def grown(self, terms: Terms, history: History, before: int) -> Noise:
        """After the rows from ``before`` on too; ``history`` has rewards in their own units.

        Milestone by milestone, so that it does not matter in which pieces the rows came.
        """
        noise, missing = self, history.forgotten
        stones = set(self.milestones(before + missing, len(history) + missing))
        if self.same and len(history) > 1:
            other = np.flatnonzero(history.rewards != history.rewards[0])
            stones |= {int(other[0]) + 1 + missing} if len(other) and other[0] >= before else set()
        for n in sorted(stones):
            noise = finished(noise.learning(terms, history.head(n - missing), n))
        return noise

    def first_unit(self, rows: int, rewards: Vector) -> Noise:
        """Where all ``rows`` until now had one reward, which is the level, and are gone: these say the unit.

        Nothing has to be learned again: rewards at the level are 0 in every unit.
        """
        far = np.abs(rewards - self.level)
        if not far.any():
            return self
        return self._moved(rows + int(far.argmax()) + 1, self.ridge, self.level, float(far.max()))

    def learning(self, terms: Terms, history: History, rows: int) -> Work[Noise]:
        """With what these rows say, which are the first ``rows``."""
        y = history.rewards
        low, wide = float(y.min()), float(y.max() - y.min())
        if wide == 0.0:
            return self._moved(rows, self.ridge, low, 1.0, same=True) if self.same else self
        if rows < self._when.first:
            return self._moved(rows, self.ridge, low, wide)
        scaled = history.with_rewards((y - low) / wide)
        blocks = list(_blocks(terms.fitted(history), scaled))
        looked_at = np.concatenate([y for _, y in blocks])
        if (looked_at == looked_at[0]).all():  # the rows that differ are rare, and not among these: no evidence
            ridge, level, posterior = self.ridge, float(scaled.rewards.mean()), self.posterior
            unit = min(1.0, UNITS * float(scaled.rewards.std()))
        else:
            ridge, level, unit, posterior = yield from _found(blocks, scaled, self.rule, self.posterior)
        level, unit = low + wide * level, wide * unit
        near = not self.same and abs(math.log(ridge / self.ridge)) < 0.4 and abs(math.log(unit / self.unit)) < 0.1
        if near and abs(level - self.level) < 0.1 * unit:  # not worth learning all rows anew
            return replace(self, posterior=posterior)
        return replace(self._moved(in_force(rows), ridge, level, unit), posterior=posterior)

    def _moved(self, rows: int, ridge: float, level: float, unit: float, *, same: bool = False) -> Noise:
        if (ridge, level, unit, same) == (self.ridge, self.level, self.unit, self.same):
            return self
        moves = (*self.moves, Move(rows, ridge, level, unit))
        return replace(self, ridge=ridge, level=level, unit=unit, same=same, moves=moves)

    def __str__(self) -> str:
        """In words.

        >>> str(Noise(LearnedRidge(), 0.25, 2.0, 1.5, False, (), (Move(26, 0.25, 2.0, 1.5),)))
        'ridge 0.25, level 2, unit 1.5 (learned; last moved at 26 rows)'
        """
        when = f"last moved at {self.moves[-1].rows} rows" if self.moves else "no row yet"
        return f"ridge {self.ridge:.3g}, level {self.level:.3g}, unit {self.unit:.3g} (learned; {when})"

    def report(self) -> dict[str, Any]:
        """For a person to read: what is in force, and since when it was what."""
        return {
            "ridge": self.ridge,
            "level": self.level,
            "unit": self.unit,
            "posterior": dict(self.posterior),
            "moves": [move._asdict() for move in self.moves],
        }

    def to_data(self) -> dict[str, Any]:
        """As JSON data, for a saved file."""
        data = {name: getattr(self, name) for name in ("ridge", "level", "unit", "same")}
        return data | {"posterior": [list(p) for p in self.posterior], "moves": [list(m) for m in self.moves]}

    def restored(self, data: dict[str, Any]) -> Noise:
        """From what `to_data` gave."""
        return replace(
            self,
            **{name: float(data[name]) for name in ("ridge", "level", "unit")},
            same=bool(data["same"]),
            posterior=tuple((float(r), float(p)) for r, p in data["posterior"]),
            moves=tuple(Move(int(m[0]), *map(float, m[1:])) for m in data["moves"]),
        )


_USUAL = LearnedRidge()


@lru_cache(maxsize=16)
def _milestones(growth: float, until: int) -> tuple[int, ...]:
    return tuple(milestones(1, growth, until))


def in_force(n: int) -> int:
    """The size of the history from which on what was learned from its first ``n`` rows is in force."""
    return n if n < SPREAD else takes_force(n)


def _found(
    blocks: Sequence[tuple[Matrix, Vector]],
    history: History,
    rule: LearnedRidge | float,
    before: Sequence[tuple[float, float]],
) -> Work[tuple[float, float, float, tuple[tuple[float, float], ...]]]:
    """Ridge, level and unit for rewards between 0 and 1, and the posterior of the ridge.

    After the first time only ridges that were likely ``before`` and their neighbours are compared.
    """
    m, each = sum(len(y) for _, y in blocks), len(history) / np.count_nonzero(history.counts)
    posterior: tuple[tuple[float, float], ...] = ()
    if isinstance(rule, LearnedRidge):
        ridges = rule.ridges
        if before:
            likely = [r for r, weight in before if weight > 0.001]
            low, high = np.searchsorted(ridges, [0.99 * min(likely), 1.01 * max(likely)])
            ridges = ridges[max(0, low - 1) : high + 1]
        tried = []
        for r in ridges:
            tried.append((yield from sums(blocks, r)))
        evidence = np.array([s.evidence(m) for s in tried])
        share = each / (each + FEW)
        against = rule.prior * np.abs(np.log(ridges / rule.usual))
        weights = _normalized(share * evidence - against)
        if weights[0] < 0.999:
            rougher, found = [], []
            for K, y in blocks:
                rougher.append((_rougher(K), y))
                yield 10 * len(y) ** 2
            for r in ridges:
                found.append((yield from sums(rougher, r)).evidence(m))
            rough = np.array(found)
            lead = share * (rough.max() - max(evidence.max(), _plain([y for _, y in blocks])))
            odds = math.exp(min(lead - MARGIN, 50.0)) if rough.argmax() < evidence.argmax() else 0.0
            if odds:
                weights = (weights + odds * _normalized(share * rough - against)) / (1.0 + odds)
        posterior = tuple(zip(ridges.tolist(), weights.round(6).tolist(), strict=True))
        highest = max(rule.usual, float(each) / SHARE)
        ridge = min(math.exp(float(weights @ np.log(ridges))), highest)
        if ridges[0] == ridge or weights[0] > 0.999:  # where there is no noise, nothing more is to be computed
            ridge, last = float(ridges[0]), tried[0]
        else:
            last = yield from sums(blocks, ridge)
    else:
        ridge, last = rule, (yield from sums(blocks, rule))
    explained = float(history.rewards.std()) / math.sqrt(1.0 + ridge)
    unit = min(1.0, max(UNITS * math.sqrt(last.fit / (m - 1)), explained))
    return ridge, last.level, unit, posterior


def _normalized(logs: Vector) -> Vector:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _rougher(K: Matrix) -> Matrix:
    """Kernel values of rougher functions with the same variances: the power of a correlation is one again."""
    root = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
    C = np.divide(K, root, out=np.zeros_like(K), where=root > 0.0)
    for _ in range(SQUARED):
        np.square(C, out=C)
    return np.asarray(C * root)


def _plain(rewards: Sequence[Vector]) -> float:
    """The evidence of rewards that are a level and noise, nothing else: M = I."""
    y = np.concatenate(rewards)
    return Sums(float(y @ y), float(y.sum()), float(len(y)), 0.0).evidence(len(y))


def _blocks(terms: Terms, history: History) -> Iterator[tuple[Matrix, Vector]]:
    """Kernel values and rewards of each arm's rows: all of them, or `ROWS` spread evenly."""
    for arm in np.flatnonzero(history.counts):
        rows = np.flatnonzero(history.arms == arm)
        if len(rows) > ROWS:
            rows = rows[golden(len(rows)) < ROWS / len(rows)]
        X = history.contexts[rows]
        K = np.zeros((len(rows), len(rows)))
        for term in terms:
            K += term.context_kernel(term.select(X), term.select(X))
        yield K, history.rewards[rows]
