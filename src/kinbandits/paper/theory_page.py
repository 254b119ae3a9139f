"""One HTML page on the theory: bounds, and runs beside them, with a paragraph on each picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

from kinbandits.paper.theory_effects import MultiTaskEffect, SimilarityCurves, Widths, WrongSimilarity
from kinbandits.paper.theory_runs import DELTA, Part, RegretRuns, Size
from kinbandits.report.html import FORMATS, Section, write_page

_LEAD = (
    'The bounds of "Multi-Task Learning for Contextual Bandits" (Deshmukh, Dogan and Scott, 2017) as '
    "kinbandits.theory computes them, and real runs beside them. Runs are on problems built in the RKHS, "
    f"where f* and its norm are known; regret is expected regret; logarithms are natural; δ = {DELTA}."
)
STEPS = ("curves", "regret", "widths", "effect", "wrong similarity")


def write_theory(
    out: str | PathLike[str],
    size: Size | None = None,
    *,
    command: str = "",
    formats: Sequence[str] = FORMATS,
    done: Callable[[str], None] = lambda step: None,
) -> tuple[Path, dict[str, float]]:
    """Compute everything and write ``index.html`` with ``figures/``; gives the page, and its numbers by name.

    ``command`` is the one that asked for it, to be shown; ``done`` is told each of `STEPS` when it is finished.
    """
    size = Size() if size is None else size
    short = min(size.horizon, 200)
    makers: tuple[Callable[[], Part], ...] = (
        SimilarityCurves,
        lambda: RegretRuns(size),
        Widths,
        lambda: MultiTaskEffect(Size(short, 2 * size.seeds, size.jobs)),
        lambda: WrongSimilarity(Size(short, size.seeds, size.jobs)),
    )
    parts: list[Part] = []
    for step, make in zip(STEPS, makers, strict=True):
        part = make()
        parts += [part.growth, part] if isinstance(part, RegretRuns) else [part]
        done(step)
    numbers = {name: float(value) for part in parts for name, value in part.numbers().items()}
    rows = [(name, shown(value)) for name, value in numbers.items()]
    records = [{"what": name, "value": value} for name, value in numbers.items()]
    table = Section("numbers", "Numbers", "", ("What", "Value"), rows, (1,), records=records)
    sections = [*(part.section() for part in parts), table]
    page = write_page(Path(out), "The theory, checked", _LEAD, sections, command=command, formats=formats)
    return page, numbers


def shown(value: float) -> str:
    """A number for a table.

    >>> shown(62306.4), shown(2.26912)
    ('62,306', '2.269')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
