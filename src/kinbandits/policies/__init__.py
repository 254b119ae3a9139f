"""Policies: what chooses and learns. All keep the contract of `base.Policy`; the one to use is `KMTLUCB`."""

from kinbandits.policies.base import Policy
from kinbandits.policies.decision import Decision, Decisions
from kinbandits.policies.defaults import Budgeted
from kinbandits.policies.explanation import Explanation
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.policies.ledger import Pending
from kinbandits.policies.persist import load

__all__ = ["KMTLUCB", "Budgeted", "Decision", "Decisions", "Explanation", "Pending", "Policy", "load"]
