"""A linear part of the kernel, where the rewards ask for one.

A kernel of distances learns each place for itself, so that a slope has to be learned again wherever contexts go.
Where rewards are nearly linear in the context, as they often are, a linear kernel beside it has up to a half less
regret. Where they are not, it makes widths grow far from the centre, for nothing. So the rows decide, by the
evidence of either kernel (`kinbandits.evidence`).
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._work import finished
from kinbandits.errors import InvalidTypeError
from kinbandits.evidence import sums
from kinbandits.kernels.algebra import Kernel
from kinbandits.kernels.functions import Constant, Linear, Stationary
from kinbandits.kernels.rules import DEFAULT_KERNEL, KernelRule, Median

__all__ = ["DEFAULT_RULE", "WithLinear"]

STONES = (20, 35, 60, 100, 170, 290, 490)  # rows at which it is asked
CENTRE = 60  # rows that the linear kernel is centred at
RIDGES = (0.01, 0.1, 1.0, 10.0)  # of which the best counts, for each kernel
ROWS = 150  # of an arm that are looked at, at most
SHARE = 0.03  # of the distances in a kernel that is mostly linear

EACH = 10  # rows an arm: before that, arms' levels look like slopes
EARLY = 10.0  # nats: the lead that is asked before that; by chance it was up to 6 on problems without slopes
CLEAR = 3.0  # where noise is small, and a line soon leads by ten
NOISY = 1.0  # where a ridge of 1 or more is best: leads grow slowly, and the straighter kernel needs fewer rows


class WithLinear(KernelRule):
    """The kernel of ``rule``, with a linear part where that explains the first rewards better.

    It is asked at 20, 35, 60, 100, 170, 290 and 490 rows. First a linear kernel, centred, takes the place of half
    the other. If that leads, and a kernel that is linear but for a small share leads again, that one is taken. Both
    have the variance of the other, on average: more would be more exploration. A lead is 3 nats, 1 where rewards
    are noisy, 10 where arms have fewer than ten rows on average.

    Args:
        rule: a `Median`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, arms = rng.normal(size=(60, 2)), np.zeros(60, dtype=np.intp)
        >>> WithLinear().fit(X, arms, X @ [1.0, -2.0] + np.cos(X[:, 0]))
        Sum(first=..., second=Linear(centre=(...), scale=...))
        >>> WithLinear().fit(X, arms, np.sin(9.0 * X[:, 0]))
        RationalQuadratic(length_scale=...)
    """

    rule: Median = DEFAULT_KERNEL

    def __post_init__(self) -> None:
        if not isinstance(self.rule, Median):
            raise InvalidTypeError(f"rule must be a kb.Median(...), got {self.rule!r}")

    def fit(self, X: Matrix, arms: Indices | None = None, rewards: Vector | None = None) -> Kernel:
        kernel = cast(Stationary, self.rule.fit(X, arms, rewards))
        n = _asked(len(X))
        if not n or arms is None or rewards is None:
            return kernel
        X, arms, rewards = X[:n], arms[:n], rewards[:n]
        early = n < EACH * len(np.unique(arms))
        if early and n < CENTRE:
            return kernel  # that no lead can be large enough
        scale = tuple(np.asarray(kernel.length_scale).ravel().tolist())  # its variance is then a half on average
        linear = Linear(tuple(X[:CENTRE].mean(axis=0).tolist()), scale if len(scale) > 1 else scale[0])
        taken: Kernel = kernel
        best = explained(kernel, X, arms, rewards)
        few = 0.5 * SHARE
        for straighter in (0.5 * kernel + linear, few * kernel + linear + Constant(0.5 - few)):
            found = explained(straighter, X, arms, rewards)
            noisy = min(best.ridge, found.ridge) >= 1.0
            if found.evidence - best.evidence <= (EARLY if early else NOISY if noisy else CLEAR):
                break
            taken, best = straighter, found
        return taken

    def refits(self, before: int, after: int) -> bool:
        return self.rule.refits(before, after) or _asked(before) != _asked(after)

    def check_features(self, n_features: int) -> None:
        self.rule.check_features(n_features)


DEFAULT_RULE = WithLinear()
"""What `KMTLUCB` takes where nothing is said."""


def _asked(rows: int) -> int:
    """The last size of the history at which the rows were asked; 0 before the first."""
    return max((n for n in STONES if n <= rows), default=0)


class Explained(NamedTuple):
    evidence: float
    ridge: float


def explained(kernel: Kernel, X: Matrix, arms: Indices, rewards: Vector) -> Explained:
    """With the best of a few ridges, and unrelated arms."""
    families = [np.flatnonzero(arms == arm)[:ROWS] for arm in np.unique(arms)]
    seen = rewards[np.concatenate(families)]
    if not (unit := np.ptp(seen)):
        return Explained(0.0, RIDGES[0])
    centre = seen.mean()  # level and unit are left open, but far from 0 and 1 they take digits
    blocks = [(kernel(X[rows], X[rows]), (rewards[rows] - centre) / unit) for rows in families]
    return max(Explained(finished(sums(blocks, ridge)).evidence(len(seen)), ridge) for ridge in RIDGES)
