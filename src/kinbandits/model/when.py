"""When a model is fitted, and from which rows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from kinbandits._types import Indices, Vector

GROWTH = 1.3  # a model is fitted again when the rows have grown by so much: 29 times in the first 5,000 rows
RECENT = 1000  # rows that a fit sees without exception; of older ones those with frac(i golden) < RECENT / age
FIRST_CHECK = 400  # rows from which on the last rows are compared with those before them
CHECK_EVERY, CHECK_GROWTH = 100, 0.1  # rows, or this share of them, between two such checks


def following(n: int) -> int:
    """The first milestone above n.

    >>> n, stones = 0, []
    >>> while n < 30:
    ...     stones.append(n := following(n))
    >>> stones
    [1, 2, 3, 4, 6, 8, 11, 15, 20, 26, 34]
    """
    return _first_above(n, _STONES, lambda last: max(last + 1, math.ceil(last * GROWTH)))


def next_check(n: int) -> int:
    """The first number of rows above n at which the last rows are compared with those before them."""
    return _first_above(n, _CHECKS, lambda last: last + check_gap(last))


def check_gap(n: int) -> int:
    """Rows between two checks."""
    return max(CHECK_EVERY, int(n * CHECK_GROWTH))


_STONES = [1]
_CHECKS = [FIRST_CHECK]


def _first_above(n: int, known: list[int], after: Callable[[int], int]) -> int:
    while known[-1] <= n:
        known.append(after(known[-1]))
    return known[bisect_right(known, n)]


def golden(indices: Indices) -> Vector:
    """frac(i g): numbers in [0, 1) that are evenly spread over any stretch of rows and follow no period."""
    return np.asarray((indices * 0.6180339887498949) % 1.0)


def kept(indices: Indices, n: int) -> Any:
    """A mask of the rows that a fit from n rows may see: the last `RECENT`, and fewer the older they are.

    >>> bool(kept(np.arange(100_000), 100_000).sum() < 6000)
    True
    """
    age = n - indices
    return (age <= RECENT) | (golden(indices) * age < RECENT)
