"""GP-UCB and CGP-UCB, which only fill in values of `KMTLUCB`: kernels over arm descriptors, and their schedules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from numpy.typing import ArrayLike

from kinbandits.baselines.filling import filled
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.exploration import AgnosticExploration, GPUCBExploration
from kinbandits.kernels import Constant
from kinbandits.policies.arms import arm_names
from kinbandits.policies.decision import ArmName
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.similarity import Known, Pooled, Similarity
from kinbandits.terms import Term, Terms


class CGPUCB(KMTLUCB):
    """CGP-UCB (Krause and Ong, 2011): a Gaussian process over pairs (arm, context), with its beta_t.

    The kernel is k_arm * k_context (``"product"``) or k_arm + k_context (``"sum"``); as values, one `Term`, or
    ``Term(Known(...), Constant()) + Term(Pooled(), context_kernel)``.

    Args:
        arms: how many, or their names.
        context_kernel: of two contexts.
        arm_kernel, descriptors: of two arms, one row of descriptors each; or give ``similarity``.
        composition: see above.
        ridge: the noise variance of rewards.
        delta: probability of failure, for the schedule.
        norm_bound: None: the finite form of beta_t, `GPUCBExploration`; a bound on the norm of the reward function:
            the agnostic form, `AgnosticExploration`, with the information gain of the data.
        settings: anything else that `KMTLUCB` takes, ``exploration=`` among them, in place of the schedule.

    Example:
        >>> import kinbandits as kb
        >>> arms = {"arm_kernel": kb.RBF(1.0), "descriptors": [0.0, 1.0]}
        >>> policy = CGPUCB(arms=2, context_kernel=kb.RBF(0.5), composition="sum", **arms)
        >>> policy.terms
        Terms(terms=(Term(similarity=Known(descriptors=[[0.0], [1.0]], kernel=RBF()), context_kernel=Constant()),
                     Term(similarity=Pooled(), context_kernel=RBF(length_scale=0.5))))
    """

    def __init__(
        self,
        arms: int | Iterable[ArmName],
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
            k_arm = _arm_similarity(arm_kernel, descriptors, similarity)
            values["kernel"] = _composed(composition, k_arm, context_kernel)
        super().__init__(names, **values)


class GPUCB(CGPUCB):
    """GP-UCB (Srinivas et al., 2010): arms are points with a kernel between them, and contexts are not looked at.

    `CGPUCB` with a `Constant()` kernel of contexts.

    Args:
        arms: how many, or their names.
        settings: as for `CGPUCB`, ``arm_kernel=`` with ``descriptors=``, or ``similarity=``, among them.

    Example:
        >>> import kinbandits as kb
        >>> policy = GPUCB(arms=3, arm_kernel=kb.RBF(1.0), descriptors=[0.0, 1.0, 2.0])
        >>> policy.observe([0], [[0.0]], [1.0])
        >>> policy.predict([0.0]).mean.round(3)
        array([0.99 , 0.601, 0.134])
    """

    def __init__(self, arms: int | Iterable[ArmName], **settings: Any) -> None:
        super().__init__(arms, **filled(settings, context_kernel=Constant()))


def _arm_similarity(arm_kernel: object, descriptors: ArrayLike | None, similarity: Similarity | None) -> Similarity:
    if (similarity is None) == (arm_kernel is None) or (arm_kernel is None) != (descriptors is None):
        raise InvalidInputError(
            "give arm_kernel= with descriptors= (one row per arm), or similarity=, and not both"
        )
    return Known(arm_kernel, descriptors) if similarity is None else similarity


def _composed(composition: object, k_arm: Similarity, context_kernel: object) -> Term | Terms:
    if composition not in ("product", "sum"):
        raise InvalidInputError(f'composition must be "product" or "sum", got {composition!r}')
    if context_kernel is None:
        raise InvalidTypeError("context_kernel= is missing: the kernel of two contexts, for example kb.RBF(1.0)")
    if composition == "product":
        return Term(k_arm, context_kernel)
    return Term(k_arm, Constant()) + Term(Pooled(), context_kernel)
