"""Policies that people know by name, to compare with: `KMTLUCB` with some values filled in, and a few others.

Each has a short signature of its own and takes, besides, anything that `KMTLUCB` takes.
"""

from kinbandits.baselines.beta_thompson import BetaThompson
from kinbandits.baselines.special_cases import (
    CGPUCB,
    GPUCB,
    UCB1,
    EpsilonGreedy,
    GaussianThompson,
    GOBLin,
    KernelUCB,
    LinUCB,
    SupKernelUCB,
    SupLinUCB,
    Uniform,
)
from kinbandits.baselines.sup_kmtl_ucb import SupKMTLUCB

__all__ = [
    "CGPUCB", "GPUCB", "UCB1", "BetaThompson", "EpsilonGreedy", "GOBLin", "GaussianThompson", "KernelUCB", "LinUCB",
    "SupKMTLUCB", "SupKernelUCB", "SupLinUCB", "Uniform",
]  # fmt: skip
