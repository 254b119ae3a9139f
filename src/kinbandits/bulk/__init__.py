"""Logs larger than one machine: fit policies and evaluate them, on this machine or a dask cluster."""

from kinbandits.bulk.evaluating import Comparison, evaluate
from kinbandits.bulk.fitting import Fitted, fit, fitted
from kinbandits.bulk.job import Job
from kinbandits.bulk.table import Columns

__all__ = ["Columns", "Comparison", "Fitted", "Job", "evaluate", "fit", "fitted"]
