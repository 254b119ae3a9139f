"""Linear algebra that has never heard of arms: factors and inverses that grow, and what rounding does to them."""

from kinbandits.regression.linalg.cholesky import (
    SMALL_PIVOT,
    UNIT,
    Solved,
    backward,
    check_digits,
    factor,
    forward,
    jittered,
    warn_singular,
)
from kinbandits.regression.linalg.growing_factor import GrowingCholesky
from kinbandits.regression.linalg.inverse import GrowingInverse, Inverse, inverted
from kinbandits.regression.linalg.low_rank import components, low_rank_forms, low_rank_root
from kinbandits.regression.linalg.packed import PackedCholesky

__all__ = [
    "SMALL_PIVOT",
    "UNIT",
    "GrowingCholesky",
    "GrowingInverse",
    "Inverse",
    "PackedCholesky",
    "Solved",
    "backward",
    "check_digits",
    "components",
    "factor",
    "forward",
    "inverted",
    "jittered",
    "low_rank_forms",
    "low_rank_root",
    "warn_singular",
]
