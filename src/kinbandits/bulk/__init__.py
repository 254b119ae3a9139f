"""Logs larger than one machine: fit a policy, partition by partition, on this machine or a dask cluster."""

from kinbandits.bulk.fitting import Fitted, fit, fitted
from kinbandits.bulk.table import Columns

__all__ = ["Columns", "Fitted", "fit", "fitted"]
