"""Tables of the pages and of the README, and its figure, from the CSV files of the benchmarks and of `make paper`.

    python tools/tables.py            # writes them into the pages, between <!-- numbers: NAME --> and <!-- end -->

docs/comparison.md is not among them: benchmarks/compare writes it as a whole, and the README has its first table.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kinbandits.plotting import OKABE_ITO, canvas, plot_style

ROOT = Path(__file__).parents[1]
COMPARISON = ROOT / "docs" / "comparison.md"
FIGURE = ROOT / "docs" / "_static" / "kin.png"
KIN, PAPER = ROOT / "benchmarks" / "results" / "kin.csv", ROOT / "docs" / "paper" / "tables"
MARKS = re.compile(r"(<!-- numbers: ([a-z-]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if MARKS.search(p.read_text("utf-8"))]


def tables() -> dict[str, str]:
    """Every table by name: the groups of benchmarks/regret.py, and the files of `make paper`, shown as they are."""
    groups = {row["group"] for row in kin_rows()}
    return {g: kin(g) for g in groups} | {"rivals": rivals()} | {p.stem: shown(p) for p in sorted(PAPER.glob("*.csv"))}


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


def rivals() -> str:
    """The default beside the best rival of every problem: the first columns of docs/comparison.md."""
    lines = re.findall(r"^\|.*\|$", COMPARISON.read_text(encoding="utf-8").split("\n## ")[0], re.MULTILINE)
    columns, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")][:4] for line in lines)
    return table(columns, rows)


def figure() -> Any:
    """The README's figure: regret on each problem, a mark for each method."""
    found = [r for r in kin_rows() if r["group"] == "kin"]
    problems = list(dict.fromkeys(r["problem"] for r in found))
    with plot_style():
        drawn, axes = canvas(1, 1, 7.2, 2.7)
        ax = axes[0, 0]
        ax.set(xlabel="expected regret after 1,000 rounds (mean ± standard error, 8 seeds)")
        for method, marker, colour in zip(("independent", "default", "known"), "soD", OKABE_ITO, strict=False):
            rows = {r["problem"]: r for r in found if r["method"] == method}
            regret, error = ([float(rows[p][k]) for p in problems] for k in ("regret", "standard_error"))
            at = [-float(i) for i in range(len(problems))]
            ax.errorbar(regret, at, xerr=error, fmt=marker, color=colour, markersize=5, capsize=2, label=method)
            name = {"independent": "each arm alone", "default": "default", "known": "told the similarity"}[method]
            wide = problems.index("40 arms, 2-D")  # where there is room for names
            ax.annotate(name, (regret[wide], 0.3 - wide), ha="center", color=colour)
        ax.set_yticks(at, problems)
        ax.set(xlim=(0, ax.get_xlim()[1]), ylim=(-len(problems) + 0.5, 0.5))
    return drawn


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
    figure().savefig(FIGURE, dpi=110)


if __name__ == "__main__":
    main()
