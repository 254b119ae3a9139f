"""Policies that people know by name: functions that fill in values of `KMTLUCB`, and `BetaThompson`.

Each takes the arms and, as keywords, anything else that `KMTLUCB` takes::

    policy = kb.baselines.lin_ucb(10, exploration=0.5, seed=3)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from kinbandits._types import ArmName
from kinbandits._value import one_of, positive
from kinbandits.beta_thompson import BetaThompson
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.kernels import Constant, Linear
from kinbandits.policy.arms import arm_names
from kinbandits.policy.kmtl_ucb import KMTLUCB
from kinbandits.policy.sup_kmtl_ucb import SupKMTLUCB
from kinbandits.rules import GPUCB, Logarithmic, Thompson
from kinbandits.similarity import Graph, Independent, Known, Pooled, Similarity
from kinbandits.terms import Term

__all__ = [
    "BetaThompson", "cgp_ucb", "epsilon_greedy", "gaussian_thompson", "gob_lin", "gp_ucb", "kernel_ucb", "lin_ucb",
    "sup_kernel_ucb", "sup_lin_ucb", "ucb1", "uniform",
]  # fmt: skip

Arms = int | Iterable[ArmName]
Sharing = Literal["independent", "pooled"]


def _shared(sharing: object) -> Similarity:
    one_of("sharing", sharing, "independent", "pooled")
    return Independent() if sharing == "independent" else Pooled()


# -- kernels and linear models ---------------------------------------------------------------------


def kernel_ucb(arms: Arms, *, sharing: Sharing = "independent", **settings: Any) -> KMTLUCB:
    """Kernel-UCB (Valko et al., 2013): `Independent()` or `Pooled()` arms.

    Weights are uniform, as in that paper; for the paper's Kernel-UCB-Ind give ``weighting="per_arm"``.

    >>> kernel_ucb(3, sharing="pooled").similarity
    Pooled()
    """
    return KMTLUCB(arms, **{"similarity": _shared(sharing), **settings})


def lin_ucb(
    arms: Arms,
    *,
    sharing: Literal["independent", "pooled", "hybrid"] = "independent",
    shared_columns: Sequence[int] | None = None,
    arm_columns: Sequence[int] | None = None,
    **settings: Any,
) -> KMTLUCB:
    """Lin-UCB: a `Linear()` kernel, ridge 1, rewards as they are, exploration 1.

    Args:
        sharing: ``"independent"``, disjoint models (Li et al., 2010); ``"pooled"``, one model (Chu et al., 2011);
            ``"hybrid"``, a shared part and a part per arm (Li et al., 2010).
        shared_columns, arm_columns: for ``"hybrid"``, the context columns of each part (default: all).
        settings: ``exploration`` is alpha of the width sqrt(x' A^-1 x), ``ridge`` lambda of (lambda I + X'X)^-1.

    >>> lin_ucb(2).similarity
    Independent()
    """
    values: dict[str, Any] = {"ridge": 1.0, "exploration": 1.0, "rewards": None}
    if one_of("sharing", sharing, "independent", "pooled", "hybrid") == "hybrid":
        values["kernel"] = Term(Pooled(), Linear(), shared_columns) + Term(Independent(), Linear(), arm_columns)
    else:
        if shared_columns is not None or arm_columns is not None:
            raise InvalidInputError('shared_columns and arm_columns are for sharing="hybrid"')
        values |= {"similarity": _shared(sharing), "context_kernel": Linear()}
    return KMTLUCB(arms, **{**values, **settings})


def sup_kernel_ucb(arms: Arms, *, horizon: int, **settings: Any) -> SupKMTLUCB:
    """SupKernelUCB (Valko et al., 2013): `SupKMTLUCB` with `Pooled()` arms.

    >>> sup_kernel_ucb(3, horizon=100).similarity
    Pooled()
    """
    return SupKMTLUCB(arms, horizon=horizon, **{"similarity": Pooled(), **settings})


def sup_lin_ucb(arms: Arms, *, horizon: int, **settings: Any) -> SupKMTLUCB:
    """SupLinUCB (Chu et al., 2011): `sup_kernel_ucb` with the `Linear()` kernel.

    >>> sup_lin_ucb(3, horizon=100).context_kernel
    Linear()
    """
    return sup_kernel_ucb(arms, horizon=horizon, **{"context_kernel": Linear(), **settings})


def gob_lin(arms: Arms, *, graph: ArrayLike, **settings: Any) -> KMTLUCB:
    """Gang of Bandits (Cesa-Bianchi, Gentile and Zappella, 2013): linear models of users who are linked are alike.

    A round of user u with items X (k, d) is ``policy.choose(X, task=u)``. `lin_ucb` with `Graph(graph)`, that is
    (I + L)^-1, exploration sqrt(log(t + 1)) as they run it, and users without data borrowing from their friends.

    >>> policy = gob_lin(["ann", "bob"], graph=[[0, 1], [1, 0]])
    >>> decision = policy.choose([[1.0, 0.0], [0.0, 1.0]], task="ann")   # two items for ann
    >>> policy.update(decision, 1.0)
    >>> policy.predict(decision.context, arms=["bob"]).mean.round(3)
    array([0.2])
    """
    return lin_ucb(
        arms, **{"similarity": Graph(graph), "exploration": Logarithmic(), "cold_start": "borrow", **settings}
    )


# -- contexts are not looked at, or exploration is by chance ---------------------------------------


def uniform(arms: Arms, **settings: Any) -> KMTLUCB:
    """Plays every candidate with the same probability, and reports arm means.

    >>> uniform(4).probabilities([0.3])
    array([0.25, 0.25, 0.25, 0.25])
    """
    values = {"ridge": 1.0, "exploration": 0.0, "epsilon": 1.0, "rewards": None}
    return KMTLUCB(arms, **{**_ARM_MEANS, **values, **settings})


def epsilon_greedy(arms: Arms, *, epsilon: float = 0.1, **settings: Any) -> KMTLUCB:
    """The largest mean, or with probability epsilon any candidate.

    >>> epsilon_greedy(2, tie_break="first").probabilities([0.3])
    array([0.95, 0.05])
    """
    return KMTLUCB(arms, epsilon=epsilon, **{"exploration": 0.0, **settings})


def ucb1(arms: Arms, *, scale: float = 1.0, **settings: Any) -> KMTLUCB:
    """UCB1 (Auer et al., 2002): the largest mean + scale * sqrt(2 log(t) / n_a), after every arm once.

    `Independent()` arms, a `Constant()` kernel and next to no ridge: the mean is the arm's average and the width
    n_a^-1/2 (both to 1e-9). t counts the decisions before this one. An arm without data has width 3e4, so that it
    comes first as long as rewards are well below that.

    >>> policy = ucb1(2, tie_break="first")
    >>> policy.observe([0, 1, 1, 1, 1], [[0.0]] * 5, [1.0, 0.5, 0.5, 0.0, 1.0])
    >>> policy.predict([0.0]).width.round(6)
    array([1. , 0.5])
    """
    schedule = Logarithmic(math.sqrt(2.0) * positive("scale", scale, zero=True), shift=-1)
    return KMTLUCB(arms, **{**_ARM_MEANS, "ridge": 1e-9, "exploration": schedule, "rewards": None, **settings})


def gaussian_thompson(
    arms: Arms, *, prior_variance: float = 1.0, noise_variance: float = 0.25, scale: float = 1.0, **settings: Any
) -> KMTLUCB:
    """Thompson sampling with a Gaussian posterior of each arm's mean.

    The prior is N(0, prior_variance), the noise of a reward ``noise_variance``.

    >>> policy = gaussian_thompson(2)
    >>> policy.observe([0], [[0.0]], [1.0])
    >>> policy.covariance([0.0]).diagonal()
    array([0.2, 1. ])
    """
    values = {
        "context_kernel": Constant(prior_variance),
        "ridge": noise_variance,
        "exploration": Thompson(scale=scale),
    }
    return KMTLUCB(arms, **{**_ARM_MEANS, **values, "rewards": None, **settings})


_ARM_MEANS: dict[str, Any] = {"similarity": Independent(), "context_kernel": Constant()}


# -- Gaussian processes over arm descriptors -------------------------------------------------------


def cgp_ucb(
    arms: Arms,
    *,
    context_kernel: object = None,
    arm_kernel: object = None,
    descriptors: ArrayLike | None = None,
    similarity: Similarity | None = None,
    composition: Literal["product", "sum"] = "product",
    delta: float = 0.1,
    **settings: Any,
) -> KMTLUCB:
    """CGP-UCB (Krause and Ong, 2011): a Gaussian process over pairs (arm, context), with its beta_t.

    The kernel is k_arm * k_context (``"product"``) or k_arm + k_context (``"sum"``); as values, one `Term`, or
    ``Term(Known(...), Constant()) + Term(Pooled(), context_kernel)``.

    Args:
        arm_kernel, descriptors: of two arms, one row of descriptors each; or give ``similarity``.
        delta: probability of failure, for the schedule `kinbandits.rules.GPUCB`.
        settings: ``ridge`` is the noise variance of rewards (0.01).

    >>> import kinbandits as kb
    >>> arms = {"arm_kernel": kb.RBF(1.0), "descriptors": [0.0, 1.0]}
    >>> policy = cgp_ucb(2, context_kernel=kb.RBF(0.5), composition="sum", **arms)
    >>> policy.kernel
    Terms(terms=(Term(similarity=Known(descriptors=[[0.0], [1.0]], kernel=RBF()), context_kernel=Constant()),
                 Term(similarity=Pooled(), context_kernel=RBF(length_scale=0.5))))
    """
    names = arm_names(arms)
    if (similarity is None) == (arm_kernel is None) or (arm_kernel is None) != (descriptors is None):
        raise InvalidInputError("give arm_kernel= with descriptors= (one row per arm), or similarity=, and not both")
    if context_kernel is None:
        raise InvalidTypeError("context_kernel= is missing: the kernel of two contexts, for example kb.RBF(1.0)")
    one_of("composition", composition, "product", "sum")
    k_arm = Known(descriptors=descriptors, kernel=arm_kernel) if similarity is None else similarity
    own = Term(k_arm, context_kernel if composition == "product" else Constant())
    values = {
        "kernel": own if composition == "product" else own + Term(Pooled(), context_kernel),
        "ridge": 0.01,
        "exploration": GPUCB(len(names), delta=delta),
        "rewards": None,
        "cold_start": "borrow",
    }
    return KMTLUCB(names, **{**values, **settings})


def gp_ucb(arms: Arms, **settings: Any) -> KMTLUCB:
    """GP-UCB (Srinivas et al., 2010): arms are points with a kernel between them, and contexts are not looked at.

    >>> import kinbandits as kb
    >>> policy = gp_ucb(3, arm_kernel=kb.RBF(1.0), descriptors=[0.0, 1.0, 2.0])
    >>> policy.observe([0], [[0.0]], [1.0])
    >>> policy.predict([0.0]).mean.round(3)
    array([0.99 , 0.601, 0.134])
    """
    return cgp_ucb(arms, context_kernel=Constant(), **settings)
