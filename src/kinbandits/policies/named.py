"""Names people know, which only fill in values of `KMTLUCB` and `SupKMTLUCB`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from kinbandits.errors import InvalidInputError
from kinbandits.kernels import Linear
from kinbandits.policies.decision import ArmName
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.policies.sup_kmtl_ucb import SupKMTLUCB
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
        settings: anything else that `KMTLUCB` takes.

    >>> LinUCB(arms=2).similarity
    Independent()
    """
    if sharing == "hybrid":
        kernel = Term(Pooled(), Linear(), shared_columns) + Term(Independent(), Linear(), arm_columns)
        return KMTLUCB(arms, kernel=kernel, ridge=ridge, exploration=exploration, **settings)
    if shared_columns is not None or arm_columns is not None:
        raise InvalidInputError('shared_columns and arm_columns are for sharing="hybrid"')
    return KernelUCB(
        arms, sharing=sharing, context_kernel=Linear(), ridge=ridge, exploration=exploration, **settings
    )


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
