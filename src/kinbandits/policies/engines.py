"""What may be given as ``engine=``."""

from __future__ import annotations

from dataclasses import dataclass

from kinbandits import _renamed
from kinbandits._checks import as_int
from kinbandits._value import Value
from kinbandits.errors import InvalidInputError, InvalidTypeError

NAMES = ("auto", "exact", "naive")


@dataclass(frozen=True, eq=False, repr=False)
class Budgeted(Value):
    """Constant cost and memory: the regression on a dictionary of at most ``points`` rows.

    >>> Budgeted(points=64)
    Budgeted(points=64)
    """

    points: int = 256

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", as_int("points", self.points, 1))


Engine = str | Budgeted


def engine_name(engine: object) -> tuple[str, int]:
    """How the regression calls this engine, and how many dictionary points it may have."""
    if isinstance(engine, Budgeted):
        return "budgeted", engine.points
    offered = ", ".join(f'"{name}"' for name in NAMES)
    if not isinstance(engine, str):
        raise InvalidTypeError(f"engine must be {offered} or kb.Budgeted(points=256), got {engine!r}")
    if engine not in NAMES:
        now = f'; engine="{engine}" is gone, write {_renamed.ENGINES[engine]}' if engine in _renamed.ENGINES else ""
        raise InvalidInputError(f"engine must be {offered} or kb.Budgeted(points=256), got {engine!r}{now}")
    return engine, Budgeted.points
