"""Policies that do not look at contexts, or explore by chance: what every comparison needs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from kinbandits.baselines.filling import filled
from kinbandits.exploration import LogExploration
from kinbandits.kernels import Constant
from kinbandits.policies.decision import ArmName
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.rules import Thompson
from kinbandits.similarity import Independent


class _ArmMeans(KMTLUCB):
    """Knows arms by their average reward: `Independent()` arms and a `Constant()` kernel."""

    def __init__(self, arms: int | Iterable[ArmName], **settings: Any) -> None:
        super().__init__(arms, **filled(settings, similarity=Independent(), context_kernel=Constant()))


class Uniform(_ArmMeans):
    """Plays every candidate with the same probability: epsilon 1, and arm means to report.

    >>> Uniform(arms=4).probabilities([[[0.3]]])
    array([[0.25, 0.25, 0.25, 0.25]])
    """

    def __init__(self, arms: int | Iterable[ArmName], **settings: Any) -> None:
        super().__init__(arms, **filled(settings, ridge=1.0, exploration=0.0, epsilon=1.0))


class EpsilonGreedy(KMTLUCB):
    """Epsilon-greedy on the same regression: the largest mean, or with probability epsilon any candidate.

    Similarity and kernel are those of `KMTLUCB` unless given.

    >>> EpsilonGreedy(arms=2, tie_break="first").probabilities([[[0.3]]])
    array([[0.95, 0.05]])
    """

    def __init__(self, arms: int | Iterable[ArmName], *, epsilon: float = 0.1, **settings: Any) -> None:
        super().__init__(arms, epsilon=epsilon, **filled(settings, exploration=0.0))


class UCB1(_ArmMeans):
    """UCB1 (Auer et al., 2002): the largest mean + scale * sqrt(2 log(t) / n_a), after every arm once.

    `Independent()` arms, a `Constant()` kernel and next to no ridge: the mean is the arm's average and the width
    n_a^-1/2 (both to 1e-9). t counts the decisions before this one. An arm without data has width 3e4, so that it
    comes first as long as rewards are well below that.

    >>> policy = UCB1(arms=2, tie_break="first")
    >>> policy.observe([0, 1, 1, 1, 1], [[0.0]] * 5, [1.0, 0.5, 0.5, 0.0, 1.0])
    >>> policy.predict([0.0]).width.round(6)
    array([1. , 0.5])
    """

    def __init__(self, arms: int | Iterable[ArmName], *, scale: float = 1.0, **settings: Any) -> None:
        schedule = LogExploration(math.sqrt(2.0) * scale, shift=-1)
        super().__init__(arms, **filled(settings, ridge=1e-9, exploration=schedule))


class GaussianThompson(_ArmMeans):
    """Thompson sampling with a Gaussian posterior of each arm's mean.

    The prior is N(0, prior_variance), the noise of a reward ``noise_variance``: `Independent()` arms, a
    `Constant(prior_variance)` kernel, ridge = noise_variance and `Thompson`.

    >>> policy = GaussianThompson(arms=2)
    >>> policy.observe([0], [[0.0]], [1.0])
    >>> policy.covariance([0.0]).diagonal()
    array([0.2, 1. ])
    """

    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        prior_variance: float = 1.0,
        noise_variance: float = 0.25,
        scale: float = 1.0,
        **settings: Any,
    ) -> None:
        kernel, rule = Constant(prior_variance), Thompson(scale=scale)
        super().__init__(arms, **filled(settings, context_kernel=kernel, ridge=noise_variance, exploration=rule))
