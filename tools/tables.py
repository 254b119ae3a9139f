"""Tables of the pages and of the README, from the CSV files of the benchmarks and of `make paper`.

    python tools/tables.py            # writes them into the pages, between <!-- numbers: NAME --> and <!-- end -->

docs/comparison.md is not among them: benchmarks/compare writes it as a whole.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
KIN, PAPER = ROOT / "benchmarks" / "results" / "kin.csv", ROOT / "docs" / "paper" / "tables"
MARKS = re.compile(r"(<!-- numbers: ([a-z-]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if MARKS.search(p.read_text("utf-8"))]


def tables() -> dict[str, str]:
    """Every table by name: the groups of benchmarks/regret.py, and the files of `make paper`, shown as they are."""
    groups = {row["group"] for row in kin_rows()}
    return {g: kin(g) for g in groups} | {path.stem: shown(path) for path in sorted(PAPER.glob("*.csv"))}


def filled(text: str) -> str:
    """A page with its tables as the files have them."""
    known = tables()
    return MARKS.sub(lambda m: f"{m[1]}\n{known[m[2]]}\n\n{m[4]}", text)


def kin_rows() -> list[dict[str, str]]:
    with KIN.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def kin(group: str) -> str:
    """Regret on a group of problems, each method in a column."""
    found = [r for r in kin_rows() if r["group"] == group]
    methods = list(dict.fromkeys(r["method"] for r in found))
    lines = []
    for problem in dict.fromkeys(r["problem"] for r in found):
        at = {r["method"]: r for r in found if r["problem"] == problem}
        cells = [f"{float(at[m]['regret']):.0f} ± {float(at[m]['standard_error']):.0f}" for m in methods if m in at]
        lines.append([problem, next(iter(at.values()))["seeds"], *cells])
    return table(("problem", "seeds", *methods), lines)


def shown(path: Path) -> str:
    """A CSV file whose cells are text; one column is a list of sentences."""
    with path.open(encoding="utf-8", newline="") as stream:
        columns, *lines = csv.reader(stream)
    return table(columns, lines) if len(columns) > 1 else "\n".join(f"- {line}" for (line,) in lines)


def table(columns: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    head = list(columns)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines))


def main() -> None:
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page.relative_to(ROOT)} rewritten")


if __name__ == "__main__":
    main()
