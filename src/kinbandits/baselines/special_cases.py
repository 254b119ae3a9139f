"""Policies that people know by name and that only fill in values of `KMTLUCB` (or of `SupKMTLUCB`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from kinbandits._value import one_of, positive
from kinbandits.baselines.sup_kmtl_ucb import SupKMTLUCB
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.exploration import AgnosticExploration, GPUCBExploration, LogExploration
from kinbandits.kernels import Constant, Linear
from kinbandits.policies.arms import arm_names
from kinbandits.policies.decision import ArmName
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.rules import Exploration, Rule, Thompson
from kinbandits.similarity import Graph, Independent, Known, Pooled, Similarity, block_graph, macro_graph
from kinbandits.terms import Term

Arms = int | Iterable[ArmName]


def filled(settings: dict[str, Any], **values: Any) -> dict[str, Any]:
    """``settings`` with these values where they say nothing; ``kernel=`` stands for similarity and context kernel.

    >>> filled({"ridge": 2.0}, ridge=1.0, exploration=0.5)
    {'ridge': 2.0, 'exploration': 0.5}
    """
    if settings.get("kernel") is not None:
        values = {name: value for name, value in values.items() if name not in ("similarity", "context_kernel")}
    return values | settings


# -- kernels and linear models ---------------------------------------------------------------------


class KernelUCB(KMTLUCB):
    """Kernel-UCB (Valko et al., 2013): `KMTLUCB` with `Independent()` or `Pooled()` similarity.

    Weights are uniform, as in that paper; for the paper's Kernel-UCB-Ind give ``weighting="per_arm"``.

    >>> KernelUCB(arms=3, sharing="pooled").similarity
    Pooled()
    """

    def __init__(
        self, arms: Arms, *, sharing: Literal["independent", "pooled"] = "independent", **settings: Any
    ) -> None:
        super().__init__(arms, **filled(settings, similarity=_shared(sharing)))


class LinUCB(KMTLUCB):
    """Lin-UCB: `KMTLUCB` with the `Linear()` kernel, uniform weights and ridge 1.

    Args:
        sharing: ``"independent"``, disjoint models (Li et al., 2010); ``"pooled"``, one model (Chu et al.,
            2011); ``"hybrid"``, a shared part and a part per arm (Li et al., 2010).
        shared_columns, arm_columns: for ``"hybrid"``, the context columns of each part (default: all).
        ridge: lambda of (lambda I + X'X)^-1.
        exploration: alpha of the width sqrt(x' A^-1 x). With ridge 1 as there, that is our width.
        settings: anything else that `KMTLUCB` takes; ``similarity=`` in place of ``sharing``.

    >>> LinUCB(arms=2).similarity
    Independent()
    """

    def __init__(
        self,
        arms: Arms,
        *,
        sharing: Literal["independent", "pooled", "hybrid"] = "independent",
        shared_columns: Sequence[int] | None = None,
        arm_columns: Sequence[int] | None = None,
        ridge: float = 1.0,
        exploration: Exploration | Rule = 1.0,
        **settings: Any,
    ) -> None:
        values: dict[str, Any] = {"ridge": positive("ridge", ridge), "exploration": exploration}
        if sharing == "hybrid":
            kernel = Term(Pooled(), Linear(), shared_columns) + Term(Independent(), Linear(), arm_columns)
            super().__init__(arms, kernel=kernel, **values, **settings)
            return
        if shared_columns is not None or arm_columns is not None:
            raise InvalidInputError('shared_columns and arm_columns are for sharing="hybrid"')
        values |= {"similarity": _shared(sharing), "context_kernel": Linear()}
        super().__init__(arms, **filled(settings, **values))


class SupKernelUCB(SupKMTLUCB):
    """SupKernelUCB (Valko et al., 2013): `SupKMTLUCB` with `Pooled()` similarity.

    >>> from kinbandits import RBF
    >>> SupKernelUCB(arms=3, horizon=100, context_kernel=RBF()).similarity
    Pooled()
    """

    def __init__(self, arms: Arms, *, horizon: int, **settings: Any) -> None:
        super().__init__(arms, horizon=horizon, **filled(settings, similarity=Pooled()))


class SupLinUCB(SupKernelUCB):
    """SupLinUCB (Chu et al., 2011): `SupKernelUCB` with the `Linear()` kernel, ridge 1 and norm bound 1.

    >>> policy = SupLinUCB(arms=3, horizon=100)
    >>> policy.context_kernel, policy.ridge, policy.norm_bound
    (Linear(), 1.0, 1.0)
    """

    def __init__(self, arms: Arms, *, horizon: int, **settings: Any) -> None:
        super().__init__(arms, horizon=horizon, **filled(settings, context_kernel=Linear()))


def _shared(sharing: object) -> Similarity:
    one_of("sharing", sharing, "independent", "pooled")
    return Independent() if sharing == "independent" else Pooled()


class GOBLin(LinUCB):
    """Gang of Bandits (Cesa-Bianchi, Gentile and Zappella, 2013): linear models of users who are linked are alike.

    A round of user u with items X (k, d) is ``policy.choose(X, task=u)``: one arm, several contexts.
    `LinUCB` with `Graph(graph)`, that is (I + L)^-1, ridge 1, and users without data borrowing from their friends.

    Args:
        graph: (N, N) symmetric weights of the edges.
        variant: ``"full"``, GOB.Lin; ``"macro"``, one node per cluster, GOB.Lin.MACRO; ``"block"``, no edges
            between clusters, GOB.Lin.BLOCK.
        clusters: for the variants, the cluster of each user, counted from 0.
        settings: as for `LinUCB`. ``exploration`` is `LogExploration()`, alpha sqrt(log(t + 1)) with alpha = 1, as
            they run it; ``ConfidenceExploration(noise, norm_bound, delta, ridge=1.0, form="gob")``: their theorem.

    >>> policy = GOBLin(["ann", "bob"], graph=[[0, 1], [1, 0]])
    >>> decision = policy.choose([[1.0, 0.0], [0.0, 1.0]], arms=["ann", "ann"])   # two items for ann
    >>> policy.update(decision, 1.0)
    >>> policy.predict(decision.context, arms=["bob"]).mean.round(3)
    array([0.2])
    """

    def __init__(
        self,
        arms: Arms,
        *,
        graph: ArrayLike | None = None,
        variant: Literal["full", "macro", "block"] = "full",
        clusters: ArrayLike | None = None,
        **settings: Any,
    ) -> None:
        similarity: Similarity | None = None
        if settings.get("kernel") is None:
            if graph is None:
                raise InvalidInputError("graph= is missing: (N, N) symmetric weights of the edges between users")
            if (variant == "full") != (clusters is None):
                raise InvalidInputError('clusters= goes with variant="macro" or "block"')
            one_of("variant", variant, "full", "macro", "block")
            if clusters is None:
                similarity = Graph(graph)
            else:
                similarity = (macro_graph if variant == "macro" else block_graph)(graph, clusters)
        usual = {"similarity": similarity, "exploration": LogExploration(), "cold_start": "borrow"}
        super().__init__(arms, **filled(settings, **usual))


# -- contexts are not looked at, or exploration is by chance ---------------------------------------


class _ArmMeans(KMTLUCB):
    """Knows arms by their average reward: `Independent()` arms and a `Constant()` kernel."""

    def __init__(self, arms: Arms, **settings: Any) -> None:
        super().__init__(arms, **filled(settings, similarity=Independent(), context_kernel=Constant()))


class Uniform(_ArmMeans):
    """Plays every candidate with the same probability: epsilon 1, and arm means to report.

    >>> Uniform(arms=4).probabilities([[[0.3]]])
    array([[0.25, 0.25, 0.25, 0.25]])
    """

    def __init__(self, arms: Arms, **settings: Any) -> None:
        super().__init__(arms, **filled(settings, ridge=1.0, exploration=0.0, epsilon=1.0))


class EpsilonGreedy(KMTLUCB):
    """Epsilon-greedy on the same regression: the largest mean, or with probability epsilon any candidate.

    Similarity and kernel are those of `KMTLUCB` unless given.

    >>> EpsilonGreedy(arms=2, tie_break="first").probabilities([[[0.3]]])
    array([[0.95, 0.05]])
    """

    def __init__(self, arms: Arms, *, epsilon: float = 0.1, **settings: Any) -> None:
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

    def __init__(self, arms: Arms, *, scale: float = 1.0, **settings: Any) -> None:
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
        arms: Arms,
        *,
        prior_variance: float = 1.0,
        noise_variance: float = 0.25,
        scale: float = 1.0,
        **settings: Any,
    ) -> None:
        kernel, rule = Constant(prior_variance), Thompson(scale=scale)
        super().__init__(arms, **filled(settings, context_kernel=kernel, ridge=noise_variance, exploration=rule))


# -- Gaussian processes over arm descriptors -------------------------------------------------------


class CGPUCB(KMTLUCB):
    """CGP-UCB (Krause and Ong, 2011): a Gaussian process over pairs (arm, context), with its beta_t.

    The kernel is k_arm * k_context (``"product"``) or k_arm + k_context (``"sum"``); as values, one `Term`, or
    ``Term(Known(...), Constant()) + Term(Pooled(), context_kernel)``.

    Args:
        arm_kernel, descriptors: of two arms, one row of descriptors each; or give ``similarity``.
        ridge: the noise variance of rewards.
        delta: probability of failure, for the schedule.
        norm_bound: None: the finite form of beta_t, `GPUCBExploration`; a bound on the norm of the reward function:
            the agnostic form, `AgnosticExploration`, with the information gain of the data.
        settings: anything else that `KMTLUCB` takes, ``exploration=`` among them, in place of the schedule.

    >>> import kinbandits as kb
    >>> arms = {"arm_kernel": kb.RBF(1.0), "descriptors": [0.0, 1.0]}
    >>> policy = CGPUCB(arms=2, context_kernel=kb.RBF(0.5), composition="sum", **arms)
    >>> policy.terms
    Terms(terms=(Term(similarity=Known(descriptors=[[0.0], [1.0]], kernel=RBF()), context_kernel=Constant()),
                 Term(similarity=Pooled(), context_kernel=RBF(length_scale=0.5))))
    """

    def __init__(
        self,
        arms: Arms,
        *,
        context_kernel: object = None,
        arm_kernel: object = None,
        descriptors: ArrayLike | None = None,
        similarity: Similarity | None = None,
        composition: Literal["product", "sum"] = "product",
        ridge: float = 0.01,
        delta: float = 0.1,
        norm_bound: float | None = None,
        **settings: Any,
    ) -> None:
        names = arm_names(arms)
        schedule = (
            GPUCBExploration(len(names), ridge=ridge, delta=delta)
            if norm_bound is None
            else AgnosticExploration(ridge=ridge, delta=delta, norm_bound=norm_bound)
        )
        values = filled(settings, ridge=ridge, exploration=schedule, cold_start="borrow")
        if settings.get("kernel") is None:
            if (similarity is None) == (arm_kernel is None) or (arm_kernel is None) != (descriptors is None):
                raise InvalidInputError(
                    "give arm_kernel= with descriptors= (one row per arm), or similarity=, and not both"
                )
            one_of("composition", composition, "product", "sum")
            if context_kernel is None:
                raise InvalidTypeError(
                    "context_kernel= is missing: the kernel of two contexts, for example kb.RBF(1.0)"
                )
            k_arm = Known(arm_kernel, descriptors) if similarity is None else similarity
            product = composition == "product"
            own = Term(k_arm, context_kernel if product else Constant())
            values["kernel"] = own if product else own + Term(Pooled(), context_kernel)
        super().__init__(names, **values)


class GPUCB(CGPUCB):
    """GP-UCB (Srinivas et al., 2010): arms are points with a kernel between them, and contexts are not looked at.

    `CGPUCB` with a `Constant()` kernel of contexts.

    >>> import kinbandits as kb
    >>> policy = GPUCB(arms=3, arm_kernel=kb.RBF(1.0), descriptors=[0.0, 1.0, 2.0])
    >>> policy.observe([0], [[0.0]], [1.0])
    >>> policy.predict([0.0]).mean.round(3)
    array([0.99 , 0.601, 0.134])
    """

    def __init__(self, arms: Arms, **settings: Any) -> None:
        super().__init__(arms, **filled(settings, context_kernel=Constant()))
