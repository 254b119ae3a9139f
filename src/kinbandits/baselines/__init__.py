"""Policies that people know by name, to compare with: `KMTLUCB` with some values filled in, and a few others.

Each has a short signature of its own and takes, besides, anything that `KMTLUCB` takes.
"""

from kinbandits.baselines.beta_thompson import BetaThompson
from kinbandits.baselines.gaussian import CGPUCB, GPUCB
from kinbandits.baselines.goblin import GOBLin
from kinbandits.baselines.linear import KernelUCB, LinUCB, SupKernelUCB, SupLinUCB
from kinbandits.baselines.means import UCB1, EpsilonGreedy, GaussianThompson, Uniform
from kinbandits.baselines.sup_kmtl_ucb import SupKMTLUCB

__all__ = [
    "CGPUCB",
    "GPUCB",
    "UCB1",
    "BetaThompson",
    "EpsilonGreedy",
    "GOBLin",
    "GaussianThompson",
    "KernelUCB",
    "LinUCB",
    "SupKMTLUCB",
    "SupKernelUCB",
    "SupLinUCB",
    "Uniform",
]
