"""Kernel-UCB and Lin-UCB, and their kin with a proof: `KMTLUCB` and `SupKMTLUCB` with fixed similarities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from kinbandits._value import positive
from kinbandits.baselines.filling import filled
from kinbandits.baselines.sup_kmtl_ucb import SupKMTLUCB
from kinbandits.errors import InvalidInputError
from kinbandits.kernels import Linear
from kinbandits.policies.decision import ArmName
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.rules import Exploration, Rule
from kinbandits.similarity import Independent, Pooled, Similarity
from kinbandits.terms import Term


class KernelUCB(KMTLUCB):
    """Kernel-UCB (Valko et al., 2013): `KMTLUCB` with `Independent()` or `Pooled()` similarity.

    Weights are uniform, as in that paper; for the paper's Kernel-UCB-Ind give ``weighting="per_arm"``.

    >>> KernelUCB(arms=3, sharing="pooled").similarity
    Pooled()
    """

    def __init__(
        self,
        arms: int | Iterable[ArmName],
        *,
        sharing: Literal["independent", "pooled"] = "independent",
        **settings: Any,
    ) -> None:
        super().__init__(arms, **filled(settings, similarity=_shared(sharing)))


class LinUCB(KMTLUCB):
    """Lin-UCB: `KMTLUCB` with the `Linear()` kernel, uniform weights and ridge 1.

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

    def __init__(
        self,
        arms: int | Iterable[ArmName],
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

    def __init__(self, arms: int | Iterable[ArmName], *, horizon: int, **settings: Any) -> None:
        super().__init__(arms, horizon=horizon, **filled(settings, similarity=Pooled()))


class SupLinUCB(SupKernelUCB):
    """SupLinUCB (Chu et al., 2011): `SupKernelUCB` with the `Linear()` kernel, ridge 1 and norm bound 1.

    >>> policy = SupLinUCB(arms=3, horizon=100)
    >>> policy.context_kernel, policy.ridge, policy.norm_bound
    (Linear(), 1.0, 1.0)
    """

    def __init__(self, arms: int | Iterable[ArmName], *, horizon: int, **settings: Any) -> None:
        super().__init__(arms, horizon=horizon, **filled(settings, context_kernel=Linear()))


def _shared(sharing: object) -> Similarity:
    if sharing not in ("independent", "pooled"):
        raise InvalidInputError(f'sharing must be "independent" or "pooled", got {sharing!r}')
    return Independent() if sharing == "independent" else Pooled()
