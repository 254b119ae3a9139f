"""Policies: what chooses and learns. All of them keep the contract of `base.Policy`."""

from kinbandits.policies.base import Policy
from kinbandits.policies.beta_thompson import BetaThompson
from kinbandits.policies.decision import Decision, Decisions
from kinbandits.policies.explanation import Explanation
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.policies.named import (
    NAMED,
    UCB1,
    EpsilonGreedy,
    GaussianThompson,
    KernelUCB,
    LinUCB,
    SupKernelUCB,
    SupLinUCB,
    Uniform,
)
from kinbandits.policies.persist import load
from kinbandits.policies.sup_kmtl_ucb import SupKMTLUCB

__all__ = [
    "KMTLUCB",
    "NAMED",
    "UCB1",
    "BetaThompson",
    "Decision",
    "Decisions",
    "EpsilonGreedy",
    "Explanation",
    "GaussianThompson",
    "KernelUCB",
    "LinUCB",
    "Policy",
    "SupKMTLUCB",
    "SupKernelUCB",
    "SupLinUCB",
    "Uniform",
    "load",
]
