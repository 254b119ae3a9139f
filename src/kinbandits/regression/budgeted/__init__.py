"""The budgeted engine: constant cost and constant memory (Nystrom, with points that change).

Read `points` and `sums` for what is kept, `posterior` for what is known from it, `model` for how a row is learned,
`build` for many at once, `slices` for how large work is cut, `engine` for how all of it is read.
"""

from kinbandits.regression.budgeted.build import built
from kinbandits.regression.budgeted.engine import BudgetedRegression
from kinbandits.regression.budgeted.model import Model
from kinbandits.regression.budgeted.slices import Sliced
from kinbandits.regression.budgeted.sums import MOST_SUMS, largest_budget

__all__ = ["MOST_SUMS", "BudgetedRegression", "Model", "Sliced", "built", "largest_budget"]
