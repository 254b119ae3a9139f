"""Thompson sampling for rewards between 0 and 1 that do not depend on the context: one Beta posterior per arm.

Notation
    alpha, beta   (N,)  of the Beta posterior: its prior value plus the sum of rewards, and of 1 - rewards
    F_a           its distribution function on a grid of probabilities
    share_a       integral of dF_a(x) prod_{b != a} F_b(x): the probability that arm a is the best

Its posterior is not Gaussian: the one baseline that is not the regression with some values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._threads import one_thread
from kinbandits._types import ArmName, Indices, Matrix, Vector
from kinbandits._value import positive
from kinbandits.errors import InvalidInputError
from kinbandits.policy.base import Policy
from kinbandits.regression.contract import Prediction, Query

_CELLS = 2000  # cells of the grid on which the probabilities are integrated


class BetaThompson(Policy):
    """Thompson sampling with Beta posteriors (Thompson, 1933); contexts are not looked at.

    A reward r between 0 and 1 counts as r successes and 1 - r failures. Candidates are drawn from the probabilities
    of being the best, which are integrated numerically, so that propensities are exact.

    Args:
        successes, failures: of the Beta prior; (1, 1) is uniform.
        epsilon, tie_break, seed, most_pending: as for `KMTLUCB`.

    >>> policy = BetaThompson(["a", "b"])
    >>> policy.observe(["a", "b"], [[0.0], [0.0]], [1.0, 0.0])
    >>> policy.predict([0.0]).mean.round(3)
    array([0.667, 0.333])
    >>> policy.probabilities([0.0]).round(3)
    array([0.833, 0.167])
    """

    def __init__(
        self, arms: int | Iterable[ArmName], *, successes: float = 1.0, failures: float = 1.0, **settings: Any
    ) -> None:
        super().__init__(arms, **settings)
        self.successes, self.failures = positive("successes", successes), positive("failures", failures)
        self._sums = np.zeros((self.n_arms, 2))  # rewards, and 1 - rewards; replaced, never edited: copies share it
        self._rows = 0

    @property
    def n_observations(self) -> int:
        return self._rows

    @property
    def _posteriors(self) -> Matrix:
        """alpha and beta of each arm, (N, 2)."""
        return np.asarray(self._sums + np.array([self.successes, self.failures]))

    def _leaders(self, query: Query, first_round: int, beta: Vector) -> tuple[Vector, None]:
        # One distribution for all rounds: candidates differ by arm alone; an arm standing twice halves its share.
        arms, place, times = np.unique(query.arms, return_inverse=True, return_counts=True)
        shares = best_of_betas(*self._posteriors[arms].T) / times
        return np.broadcast_to(shares[place], query.shape), None

    def _estimate(self, query: Query) -> Prediction:
        a, b = self._posteriors[query.arms].T
        mean, width = a / (a + b), np.sqrt(a * b / (a + b + 1.0)) / (a + b)
        return Prediction(np.tile(mean, (query.shape[0], 1)), np.tile(width, (query.shape[0], 1)))

    def _learn(self, arms: Indices, contexts: Matrix, rewards: Vector, notes: list[Any]) -> None:
        if (rewards < 0.0).any() or (rewards > 1.0).any():
            bad = float(rewards[(rewards < 0.0) | (rewards > 1.0)][0])
            raise InvalidInputError(
                f"reward is {bad:g}, but BetaThompson takes rewards between 0 and 1; scale them, or use "
                "kb.baselines.gaussian_thompson"
            )
        sums = self._sums.copy()
        np.add.at(sums, arms, np.column_stack([rewards, 1.0 - rewards]))
        self._sums, self._rows = sums, self._rows + len(arms)

    @one_thread
    def add_arm(self, arm: ArmName) -> None:
        """Add an arm, which may be chosen from now on."""
        self._check_not_frozen()
        self._arms, self._sums = self._arms.added(arm), np.vstack([self._sums, np.zeros((1, 2))])
        self.version += 1

    @one_thread
    def remove_arm(self, arm: ArmName) -> None:
        """Remove an arm and its data; its open decisions are void."""
        self._check_not_frozen()
        arms, index = self._arms.removed(arm), self._arms.number(arm)
        self._rows -= round(float(self._sums[index].sum()))
        self._arms, self._sums = arms, np.delete(self._sums, index, axis=0)
        self._ledger.drop_arm(index)
        self.version += 1

    parameters = ("arms", "successes", "failures", "epsilon", "tie_break", "seed", "most_pending")

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"rows": self._rows}, {"sums": self._sums}

    def _restore(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._rows, self._sums = data["rows"], arrays["sums"]

    def __repr__(self) -> str:
        return f"BetaThompson(arms={self.n_arms})  # {self.n_observations} observations"


def best_of_betas(a: Vector, b: Vector) -> Vector:
    """The probability that each of these independent Beta variables is the largest.

    On a grid: in a cell, arm i gains the mass F_i(right) - F_i(left) times the product of the others' F at the
    middle; the sum is then scaled to one. Cells lie where the distributions change (quantiles of each).

    >>> best_of_betas(np.array([2.0, 1.0]), np.array([1.0, 2.0])).round(4)
    array([0.8333, 0.1667])
    """
    from scipy.special import betainc, betaincinv

    if len(a) == 1:
        return np.ones(1)
    levels = np.linspace(0.0, 1.0, max(_CELLS // len(a), 100) + 1)
    kinds = np.unique(np.column_stack([a, b]), axis=0)
    quantiles = betaincinv(kinds[:, :1], kinds[:, 1:], levels[None, :])
    grid = np.unique(np.concatenate([quantiles.ravel(), np.linspace(0.0, 1.0, _CELLS + 1)]))
    grid = grid[np.isfinite(grid)]
    F = betainc(a[:, None], b[:, None], grid[None, :])
    middle = betainc(a[:, None], b[:, None], (0.5 * (grid[1:] + grid[:-1]))[None, :])
    one = np.ones_like(middle[:1])
    before = np.cumprod(np.vstack([one, middle[:-1]]), axis=0)  # products over the arms before, and those after
    after = np.cumprod(np.vstack([one, middle[:0:-1]]), axis=0)[::-1]
    shares = np.maximum((np.diff(F, axis=1) * before * after).sum(axis=1), np.finfo(float).tiny)
    return np.asarray(shares / shares.sum())
