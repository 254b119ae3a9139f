"""Off-policy evaluation: what another policy would have earned, told from a log."""

from kinbandits.ope.estimators import Estimate, Evaluation, estimate
from kinbandits.ope.evaluation import evaluate_policy
from kinbandits.ope.rounds import LoggedRounds

__all__ = ["Estimate", "Evaluation", "LoggedRounds", "estimate", "evaluate_policy"]
