"""Large work in slices: a generator that yields the cost of what it has just done, and returns what it found.

Costs are counted (floating point operations, about), never timed: the same rows give the same slices everywhere.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Work = Generator[float, None, T]


def finished(work: Work[T]) -> T:
    """What a piece of work returns, all of it done now."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
