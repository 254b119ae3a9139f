"""Policies: what chooses and learns. All of them keep the contract of `base.Policy`."""

from kinbandits.policies.base import Policy
from kinbandits.policies.decision import Decision, Decisions
from kinbandits.policies.explanation import Explanation
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.policies.named import KernelUCB, LinUCB, SupKernelUCB, SupLinUCB
from kinbandits.policies.persist import load
from kinbandits.policies.sup_kmtl_ucb import SupKMTLUCB

__all__ = [
    "KMTLUCB",
    "Decision",
    "Decisions",
    "Explanation",
    "KernelUCB",
    "LinUCB",
    "Policy",
    "SupKMTLUCB",
    "SupKernelUCB",
    "SupLinUCB",
    "load",
]
