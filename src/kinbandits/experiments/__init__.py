"""Experiments: a grid of (environment, method, seed), resumable, on one machine or a cluster.

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
from kinbandits.experiments.runner import run_experiment
from kinbandits.experiments.storage import CellStore

__all__ = [
    "Cell", "CellStore", "EnvironmentConfig", "Experiment", "MethodConfig", "experiment_of", "load_experiment",
    "run_experiment",
]  # fmt: skip
