"""Experiments: a grid of (environment, method, seed), resumable, on the processes that joblib is told to use.

experiment = load_experiment("news.toml")
run_experiment(experiment, "runs/news", jobs=2)
"""

from kinbandits.experiments.config import Cell, Experiment, experiment_of, load_experiment
from kinbandits.experiments.runner import run_experiment
from kinbandits.experiments.store import CellStore

__all__ = ["Cell", "CellStore", "Experiment", "experiment_of", "load_experiment", "run_experiment"]
