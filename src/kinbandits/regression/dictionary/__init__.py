"""Constant cost and memory: a dictionary of (arm, context) points stands for all rows."""

from kinbandits.regression.dictionary.build import PointSet, Sums, choose_points, merge, sums
from kinbandits.regression.dictionary.engine import Dictionary, engine_of, settled

__all__ = ["Dictionary", "PointSet", "Sums", "choose_points", "engine_of", "merge", "settled", "sums"]
