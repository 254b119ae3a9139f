"""What may be given as ``engine=``."""

from __future__ import annotations

from kinbandits import _renamed
from kinbandits._value import Count, Natural, Value
from kinbandits.errors import InvalidInputError, InvalidTypeError

NAMES = ("auto", "exact", "naive")


class Budgeted(Value):
    """Constant cost and memory: the regression on a dictionary of at most ``points`` rows.

    With ``after`` it is exact for so many rows first; ``engine="auto"`` has 1,000 points after 5,000 rows.

    >>> Budgeted(points=64)
    Budgeted(points=64)
    """

    points: Count = 256
    after: Natural = 0


Engine = str | Budgeted


def engine_name(engine: object) -> tuple[str, int, int | None]:
    """How the regression calls this engine, its dictionary points, and the rows before it changes over."""
    if isinstance(engine, Budgeted):
        return ("auto", engine.points, engine.after) if engine.after else ("budgeted", engine.points, None)
    offered = ", ".join(f'"{name}"' for name in NAMES)
    if not isinstance(engine, str):
        raise InvalidTypeError(f"engine must be {offered} or kb.Budgeted(points=256), got {engine!r}")
    if engine not in NAMES:
        now = f'; engine="{engine}" is gone, write {_renamed.ENGINES[engine]}' if engine in _renamed.ENGINES else ""
        raise InvalidInputError(f"engine must be {offered} or kb.Budgeted(points=256), got {engine!r}{now}")
    return engine, Budgeted.points, None
