"""Names people know, which only fill in values of `KMTLUCB` and `SupKMTLUCB`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from kinbandits.errors import InvalidInputError
from kinbandits.exploration import LogExploration
from kinbandits.kernels import Constant, Linear
from kinbandits.policies.decision import ArmName
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.policies.sup_kmtl_ucb import SupKMTLUCB
from kinbandits.sampling import PosteriorSampling
from kinbandits.similarity import Independent, Pooled
from kinbandits.terms import Term


def KernelUCB(  # noqa: N802 (the name of the method)
    arms: int | Iterable[ArmName],
    *,
    sharing: Literal["independent", "pooled"] = "independent",
    **settings: Any,
) -> KMTLUCB:
    """Kernel-UCB (Valko et al., 2013): ``KMTLUCB`` with `Independent()` or `Pooled()` similarity.

    Weights are uniform, as in that paper; for the paper's Kernel-UCB-Ind give ``weighting="per_arm"``.

    >>> KernelUCB(arms=3, sharing="pooled").similarity
    Pooled()
    """
    similarity = {"independent": Independent(), "pooled": Pooled()}.get(sharing)
    if similarity is None:
        raise InvalidInputError(f'sharing must be "independent" or "pooled", got {sharing!r}')
    return KMTLUCB(arms, similarity=similarity, **settings)


def LinUCB(  # noqa: N802
    arms: int | Iterable[ArmName],
    *,
    sharing: Literal["independent", "pooled", "hybrid"] = "independent",
    shared_columns: Sequence[int] | None = None,
    arm_columns: Sequence[int] | None = None,
    ridge: float = 1.0,
    exploration: float = 1.0,
    **settings: Any,
) -> KMTLUCB:
    """Lin-UCB: ``KMTLUCB`` with the `Linear()` kernel, uniform weights and ridge 1.

    Args:
        arms: how many, or their names.
        sharing: ``"independent"``, disjoint models (Li et al., 2010); ``"pooled"``, one model (Chu et al.,
            2011); ``"hybrid"``, a shared part and a part per arm (Li et al., 2010).
        shared_columns, arm_columns: for ``"hybrid"``, the context columns of each part (default: all, for
            both).
        ridge: lambda of (lambda I + X'X)^-1.
        exploration: alpha of the width sqrt(x' A^-1 x). With ridge 1 as there, that is our width.
        settings: anything else that `KMTLUCB` takes; ``similarity=`` in place of ``sharing``.

    >>> LinUCB(arms=2).similarity
    Independent()
    """
    if sharing == "hybrid":
        kernel = Term(Pooled(), Linear(), shared_columns) + Term(Independent(), Linear(), arm_columns)
        return KMTLUCB(arms, kernel=kernel, ridge=ridge, exploration=exploration, **settings)
    if shared_columns is not None or arm_columns is not None:
        raise InvalidInputError('shared_columns and arm_columns are for sharing="hybrid"')
    linear = {"context_kernel": Linear(), "ridge": ridge, "exploration": exploration, **settings}
    if "similarity" in linear:
        return KMTLUCB(arms, **linear)
    return KernelUCB(arms, sharing=sharing, **linear)


def SupKernelUCB(  # noqa: N802
    arms: int | Iterable[ArmName], *, horizon: int, context_kernel: object, **settings: Any
) -> SupKMTLUCB:
    """SupKernelUCB (Valko et al., 2013): ``SupKMTLUCB`` with `Pooled()` similarity.

    >>> from kinbandits import RBF
    >>> SupKernelUCB(arms=3, horizon=100, context_kernel=RBF()).similarity
    Pooled()
    """
    return SupKMTLUCB(arms, horizon=horizon, similarity=Pooled(), context_kernel=context_kernel, **settings)


def SupLinUCB(  # noqa: N802
    arms: int | Iterable[ArmName], *, horizon: int, **settings: Any
) -> SupKMTLUCB:
    """SupLinUCB (Chu et al., 2011): `SupKernelUCB` with the `Linear()` kernel, ridge 1 and norm bound 1.

    >>> policy = SupLinUCB(arms=3, horizon=100)
    >>> policy.context_kernel, policy.ridge, policy.norm_bound
    (Linear(), 1.0, 1.0)
    """
    return SupKernelUCB(arms, horizon=horizon, context_kernel=Linear(), **settings)


# -- baselines: what every comparison needs ----------------------------------------------------------


def Uniform(arms: int | Iterable[ArmName], **settings: Any) -> KMTLUCB:  # noqa: N802
    """Plays every candidate with the same probability: ``KMTLUCB`` with epsilon 1, and arm means to report.

    >>> Uniform(arms=4).probabilities([[[0.3]]])
    array([[0.25, 0.25, 0.25, 0.25]])
    """
    return _means(arms, {"ridge": 1.0, "exploration": 0.0, "epsilon": 1.0} | settings)


def EpsilonGreedy(  # noqa: N802
    arms: int | Iterable[ArmName], *, epsilon: float = 0.1, **settings: Any
) -> KMTLUCB:
    """Epsilon-greedy on the same regression: the largest mean, or with probability epsilon any candidate.

    Similarity and kernel are those of ``KMTLUCB`` unless given.

    >>> EpsilonGreedy(arms=2, tie_break="first").probabilities([[[0.3]]])
    array([[0.95, 0.05]])
    """
    return KMTLUCB(arms, epsilon=epsilon, **({"exploration": 0.0} | settings))


def UCB1(arms: int | Iterable[ArmName], *, scale: float = 1.0, **settings: Any) -> KMTLUCB:  # noqa: N802
    """UCB1 (Auer et al., 2002): the largest mean + scale * sqrt(2 log(t) / n_a), after every arm once.

    ``KMTLUCB`` with `Independent()` arms, a `Constant()` kernel and next to no ridge: contexts are not looked at,
    the mean is the arm's average and the width n_a^-1/2 (both to 1e-9). t counts the decisions before this one.
    An arm without data has width 3e4, so that it comes first as long as rewards are well below that.

    >>> policy = UCB1(arms=2, tie_break="first")
    >>> policy.observe([0, 1, 1, 1, 1], [[0.0]] * 5, [1.0, 0.5, 0.5, 0.0, 1.0])
    >>> policy.predict([0.0]).width.round(6)
    array([1. , 0.5])
    """
    schedule = LogExploration(math.sqrt(2.0) * scale, shift=-1)
    return _means(arms, {"ridge": 1e-9, "exploration": schedule} | settings)


def GaussianThompson(  # noqa: N802
    arms: int | Iterable[ArmName],
    *,
    prior_variance: float = 1.0,
    noise_variance: float = 0.25,
    scale: float = 1.0,
    **settings: Any,
) -> KMTLUCB:
    """Thompson sampling with a Gaussian posterior of each arm's mean; contexts are not looked at.

    The prior is N(0, prior_variance), the noise of a reward ``noise_variance``: ``KMTLUCB`` with `Independent()`
    arms, a `Constant(prior_variance)` kernel, ridge = noise_variance and `PosteriorSampling`.

    >>> policy = GaussianThompson(arms=2)
    >>> policy.observe([0], [[0.0]], [1.0])
    >>> policy.covariance([0.0]).diagonal()
    array([0.2, 1. ])
    """
    kernel = Constant(prior_variance)
    sampling = PosteriorSampling(scale=scale)
    return _means(arms, {"context_kernel": kernel, "ridge": noise_variance, "exploration": sampling} | settings)


def _means(arms: int | Iterable[ArmName], settings: dict[str, Any]) -> KMTLUCB:
    """A policy that knows arms by their average reward."""
    return KMTLUCB(arms, **({"similarity": Independent(), "context_kernel": Constant()} | settings))
