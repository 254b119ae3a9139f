"""Tables of the pages and of the README, from the CSV file that benchmarks/regret.py writes.

python tools/tables.py            # writes them into the pages, between their marks
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
KIN = ROOT / "benchmarks" / "results" / "kin.csv"
PAGES = [ROOT / "README.md", ROOT / "docs" / "beyond-the-paper.md"]
MARKS = re.compile(r"(<!-- numbers: ([a-z-]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)


def rows() -> list[dict[str, str]]:
    """The rows of the CSV file."""
    with KIN.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def kin(group: str) -> str:
    """Regret on a group of problems, each method in a column."""
    found = [r for r in rows() if r["group"] == group]
    methods = list(dict.fromkeys(r["method"] for r in found))
    table = []
    for problem in dict.fromkeys(r["problem"] for r in found):
        at = {r["method"]: r for r in found if r["problem"] == problem}
        cells = [f"{float(at[m]['regret']):.0f} ± {float(at[m]['standard_error']):.0f}" for m in methods if m in at]
        table.append([problem, next(iter(at.values()))["seeds"], *cells])
    return _table(("problem", "seeds", *methods), table)


def tables() -> dict[str, str]:
    """Every table by name."""
    return {group: kin(group) for group in dict.fromkeys(r["group"] for r in rows())}


def filled(text: str) -> str:
    """A page with its tables as they are now; one without numbers stays as it is."""
    known = tables()
    return MARKS.sub(lambda m: f"{m[1]}\n{known[m[2]]}\n\n{m[4]}" if m[2] in known else m[0], text)


def _table(columns: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    head = list(columns)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
