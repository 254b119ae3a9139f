"""Tables and sentences of the pages and of the README, from the CSV files of `make paper` and of the benchmarks.

    python tools/tables.py            # writes them into the pages, between <!-- table: NAME --> and <!-- end -->

A table is a function here, named in `tables`, or a file of `make paper` in docs/paper/tables, shown as it is. One whose
files are not there yet stays as it is.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS, PAPER = ROOT / "benchmarks" / "results", DOCS / "paper" / "tables"
PAGES = [
    ROOT / "README.md",
    *(DOCS / f"{n}.md" for n in ("beyond-the-paper", "comparison", "idea", "reproduce", "theory")),
]
MARKS = re.compile(r"(<!-- (?:table|numbers): ([a-z-]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
OURS, LINEAR = "kinbandits default", ("contextualbandits", "MABWiser", "coba", "river", "bayesianbandits")
RIVALS = *LINEAR, "Vowpal Wabbit", "EK-UCB", "Neural"
Row = Mapping[str, str]


def tables() -> dict[str, str]:
    """Every table by name whose files are there."""
    makers: dict[str, Callable[[], str]] = {
        "comparison": comparison,
        **{group: partial(kin, group) for group in ("kin", "described", "tasks")},
    }
    found = {}
    for name, make in makers.items():
        with contextlib.suppress(FileNotFoundError):
            found[name] = make()
    return found | {path.stem: shown(path) for path in sorted(PAPER.glob("*.csv"))}


def filled(text: str) -> str:
    """A page with its tables as they are now."""
    known = tables()
    return MARKS.sub(lambda m: f"{m[1]}\n{known[m[2]]}\n\n{m[4]}" if m[2] in known else m[0], text)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def table(columns: str, lines: Iterable[Iterable[str]]) -> str:
    head = columns.split("|")
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines))


def number(text: str | float, beside: str | float = 0.0) -> str:
    """One decimal below 100; none above, nor beside a number above."""
    value = float(text)
    digits = 0 if max(abs(value), abs(float(beside))) >= 100 else 1
    return "–" if value != value else f"{value:,.{digits}f}"


def shown(path: Path) -> str:
    """A CSV file whose cells are text; one column is a list of sentences."""
    with path.open(encoding="utf-8", newline="") as stream:
        columns, *lines = csv.reader(stream)
    return table("|".join(columns), lines) if len(columns) > 1 else "\n".join(f"- {line}" for (line,) in lines)


# -- benchmarks -------------------------------------------------------------------------------------


def comparison() -> str:
    """The default beside the best rival, the best linear library and Vowpal Wabbit; bold is the least."""

    def shown(row: Row, bold: bool = False) -> str:
        text = f"{float(row['regret']):,.0f} ± {float(row['sd']):.0f}"
        return f"**{text}**" if bold else text

    def least(found: list[dict[str, str]]) -> dict[str, str]:
        return min(found, key=lambda m: float(m["regret"]))

    problems: dict[str, list[dict[str, str]]] = {}
    for row in rows(RESULTS / "comparison.csv"):
        problems.setdefault(row["problem"], []).append(row)
    lines = []
    for problem, methods in problems.items():
        ours = next(m for m in methods if m["method"] == OURS)
        rivals = [m for m in methods if m["method"].startswith(RIVALS)]
        ahead = [m for m in rivals if float(m["regret"]) < float(m["default_same_seeds"] or ours["regret"])]
        best = least(ahead or rivals)
        seeds = best["seeds"] + (f" (ours {best['default_same_seeds']})" if best["default_same_seeds"] else "")
        others = (least([m for m in rivals if m["method"].startswith(kind)]) for kind in (LINEAR, "Vowpal Wabbit"))
        cells = [shown(ours, not ahead), f"{shown(best, bool(ahead))} {best['method']}", seeds, *map(shown, others)]
        lines.append([problem, f"{int(ours['rounds']):,}", *cells])
    return table("problem|rounds|former default|best rival|its seeds|best linear|Vowpal Wabbit", lines)


def kin(group: str) -> str:
    """Regret by group of problems, each method in a column."""
    found = [r for r in rows(RESULTS / "kin.csv") if r["group"] == group]
    methods = list(dict.fromkeys(r["method"] for r in found))
    lines = []
    for problem in dict.fromkeys(r["problem"] for r in found):
        at = {r["method"]: r for r in found if r["problem"] == problem}
        cells = [f"{float(at[m]['regret']):.0f} ± {float(at[m]['standard_error']):.0f}" for m in methods if m in at]
        lines.append([problem, next(iter(at.values()))["seeds"], *cells])
    return table("|".join(("problem", "seeds", *methods)), lines)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
