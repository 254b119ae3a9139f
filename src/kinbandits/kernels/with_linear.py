"""A linear part of the kernel, where the rewards ask for one.

A kernel of distances learns each place for itself, so that a slope has to be learned again wherever contexts go.
Where rewards are nearly linear in the context, as they often are, the sum of such a kernel and a linear one has up
to a half less regret. Where they are not, the linear part makes widths grow far from the centre, for nothing. So
the rows decide, by the evidence of either kernel (`kinbandits.evidence`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import positive
from kinbandits._work import finished
from kinbandits.errors import InvalidTypeError
from kinbandits.evidence import sums
from kinbandits.kernels.algebra import Kernel
from kinbandits.kernels.functions import Linear, Stationary
from kinbandits.kernels.rules import DEFAULT_KERNEL, KernelRule, Median

__all__ = ["DEFAULT_RULE", "WithLinear"]

STONES = (60, 100, 170, 290, 490)  # rows at which it is asked
RIDGES = (0.01, 0.1, 1.0)  # of which the best counts, for either kernel
ROWS = 150  # of an arm that are looked at, at most


@dataclass(frozen=True, eq=False, repr=False)
class WithLinear(KernelRule):
    """The kernel of ``rule``, plus a linear one where that explains the first rewards better by ``margin`` nats.

    It is asked at 60, 100, 170, 290 and 490 rows. The linear kernel is centred, and about as large as the other.

    Args:
        rule: a `Median`.
        margin: 10 nats are more than chance gives. On linear problems the lead is 8 to 13 at 60 rows and 30 to 70
            at 300. Elsewhere it was below 6, but for a few games of logistic clicks and of labels.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, arms = rng.normal(size=(60, 2)), np.zeros(60, dtype=np.intp)
        >>> WithLinear().fit(X, arms, X @ [1.0, -2.0])
        Sum(first=RationalQuadratic(length_scale=...), second=Linear(centre=(...), scale=...))
        >>> WithLinear().fit(X, arms, np.sin(9.0 * X[:, 0]))
        RationalQuadratic(length_scale=...)
    """

    rule: Median = DEFAULT_KERNEL
    margin: float = 10.0

    def __post_init__(self) -> None:
        if not isinstance(self.rule, Median):
            raise InvalidTypeError(f"rule must be a kb.Median(...), got {self.rule!r}")
        self._set(margin=positive("margin", self.margin, zero=True))

    def fit(self, X: Matrix, arms: Indices | None = None, rewards: Vector | None = None) -> Kernel:
        kernel = cast(Stationary, self.rule.fit(X, arms, rewards))
        n = _asked(len(X))
        if not n or arms is None or rewards is None:
            return kernel
        scale = tuple((np.asarray(kernel.length_scale) / math.sqrt(2.0)).ravel().tolist())
        linear = Linear(tuple(X[: STONES[0]].mean(axis=0).tolist()), scale if len(scale) > 1 else scale[0])
        both: Kernel = kernel + linear
        lead = evidence(both, X[:n], arms[:n], rewards[:n]) - evidence(kernel, X[:n], arms[:n], rewards[:n])
        return both if lead > self.margin else kernel

    def refits(self, before: int, after: int) -> bool:
        return self.rule.refits(before, after) or _asked(before) != _asked(after)

    def check_features(self, n_features: int) -> None:
        self.rule.check_features(n_features)


DEFAULT_RULE = WithLinear()
"""What `KMTLUCB` takes where nothing is said."""


def _asked(rows: int) -> int:
    """The last size of the history at which the rows were asked; 0 before the first."""
    return max((n for n in STONES if n <= rows), default=0)


def evidence(kernel: Kernel, X: Matrix, arms: Indices, rewards: Vector) -> float:
    """Of the best of a few ridges, with unrelated arms."""
    families = [np.flatnonzero(arms == arm)[:ROWS] for arm in np.unique(arms)]
    seen = rewards[np.concatenate(families)]
    if np.ptp(seen) == 0.0:
        return 0.0
    centre = seen.mean()  # the level is left open, but far from 0 it takes digits
    blocks = [(kernel(X[rows], X[rows]), rewards[rows] - centre) for rows in families]
    return max(finished(sums(blocks, ridge)).evidence(len(seen)) for ridge in RIDGES)
