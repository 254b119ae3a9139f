"""Policies: what chooses and learns. All of them keep the contract of `base.Policy`."""

from collections.abc import Callable
from typing import Any

from kinbandits.policies.base import Policy
from kinbandits.policies.beta_thompson import BetaThompson
from kinbandits.policies.cofiba import COFIBA
from kinbandits.policies.decision import Decision, Decisions
from kinbandits.policies.explanation import Explanation
from kinbandits.policies.gaussian import CGPUCB, GPUCB
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.policies.named import (
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
from kinbandits.policies.users import CLUB, GOBLin

NAMED: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        *(KernelUCB, LinUCB, SupKernelUCB, SupLinUCB, GPUCB, CGPUCB, GOBLin, CLUB),
        *(Uniform, EpsilonGreedy, UCB1, GaussianThompson),
    )
}
"""Functions that make a policy, by name: what else than a class an experiment may call a policy."""

__all__ = [
    "CGPUCB",
    "CLUB",
    "COFIBA",
    "GPUCB",
    "KMTLUCB",
    "NAMED",
    "UCB1",
    "BetaThompson",
    "Decision",
    "Decisions",
    "EpsilonGreedy",
    "Explanation",
    "GOBLin",
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
