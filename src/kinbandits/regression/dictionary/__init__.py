"""Constant cost and memory: a dictionary of (arm, context) points stands for all rows."""

from kinbandits.regression.dictionary.build import Sums, choose_points, engine_of, merge, sums
from kinbandits.regression.dictionary.engine import Dictionary
from kinbandits.regression.dictionary.points import PointSet

__all__ = ["Dictionary", "PointSet", "Sums", "choose_points", "engine_of", "merge", "sums"]
