"""Rules: from what the regression says to who is played. One rule, one file; the contract is `base.Rule`.

A rule gives the leaders of each round, who share it alike, or the probability with which each candidate is played.
"""

from kinbandits.rules.base import Answer, Rule
from kinbandits.rules.inverse_gap import Gamma, InverseGap, RootGamma, SquareCBGamma
from kinbandits.rules.thompson import Thompson, symmetric_root
from kinbandits.rules.ucb import UCB, Exploration, as_rule

__all__ = [
    "UCB", "Answer", "Exploration", "Gamma", "InverseGap", "RootGamma", "Rule", "SquareCBGamma", "Thompson",
    "as_rule", "symmetric_root",
]  # fmt: skip
