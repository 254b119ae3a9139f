"""The exact engine: the answers of `naive`, by whichever method makes them cheap (`engine` picks it)."""

from kinbandits.regression.exact.append import Coming
from kinbandits.regression.exact.engine import ExactRegression

__all__ = ["Coming", "ExactRegression"]
