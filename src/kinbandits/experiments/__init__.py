"""Experiments: a grid of (environment, method, seed), resumable, on one machine or a cluster; cross-validation.

experiment = load_experiment("news.toml")
run_experiment(experiment, "runs/news", jobs=2)
"""

from kinbandits.experiments.config import (
    Cell,
    EnvironmentConfig,
    Experiment,
    MethodConfig,
    experiment_of,
    load_experiment,
)
from kinbandits.experiments.crossval import CrossValidation, Grid, cross_validate, deal_rows
from kinbandits.experiments.runner import run_experiment
from kinbandits.experiments.storage import CellResult, Store

__all__ = [
    "Cell",
    "CellResult",
    "CrossValidation",
    "EnvironmentConfig",
    "Experiment",
    "Grid",
    "MethodConfig",
    "Store",
    "cross_validate",
    "deal_rows",
    "experiment_of",
    "load_experiment",
    "run_experiment",
]
