"""Policies: `KMTLUCB`, the paper's `SupKMTLUCB`, and what every policy does the same way (`Policy`)."""

from kinbandits.policy.arguments import Budgeted, Window
from kinbandits.policy.base import Policy
from kinbandits.policy.decision import Decision, Decisions
from kinbandits.policy.explain import Explanation
from kinbandits.policy.kmtl_ucb import KMTLUCB
from kinbandits.policy.persist import load
from kinbandits.policy.sup_kmtl_ucb import SupKMTLUCB

__all__ = ["KMTLUCB", "Budgeted", "Decision", "Decisions", "Explanation", "Policy", "SupKMTLUCB", "Window", "load"]
