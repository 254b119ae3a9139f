"""What reproduces the paper: its protocol and cross-validation, its claims, controls, theory pages.

experiment = paper_experiment(["digits"], seeds=3)
run_experiment(experiment, "runs/digits")
write_paper_report("runs/digits")
"""

from kinbandits.paper.claims import Claim, check_claims
from kinbandits.paper.crossval import CrossValidation, Grid, cross_validate, deal_rows
from kinbandits.paper.protocol import paper_experiment, sweep_experiment
from kinbandits.paper.report import write_paper_report

__all__ = [
    "Claim", "CrossValidation", "Grid", "check_claims", "cross_validate", "deal_rows", "paper_experiment",
    "sweep_experiment", "write_paper_report",
]  # fmt: skip
