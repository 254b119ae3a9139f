"""Tables of the pages and of the README, from the CSV files that benchmarks write to benchmarks/results.

python tools/tables.py            # writes them into the pages, between their marks
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = [ROOT / "README.md", ROOT / "docs" / "comparison.md", ROOT / "docs" / "beyond-the-paper.md"]
MARKS = re.compile(r"(<!-- numbers: ([a-z-]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
OURS = "kinbandits default"
FAMILIES = {
    "linear libraries": ("contextualbandits", "MABWiser", "coba", "river", "bayesianbandits"),
    "Vowpal Wabbit": ("Vowpal Wabbit",),
    "EK-UCB": ("EK-UCB",),
    "neural": ("NeuralUCB", "NeuralTS", "NeuralLinear"),
}


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file; none if it is not there."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def comparison() -> str:
    """The default beside the best rival of each family."""
    table = []
    for problem, methods in _by("comparison", "problem").items():
        best = [
            min((m for m in methods if m["method"].startswith(names)), key=lambda m: float(m["regret"]), default=None)
            for names in FAMILIES.values()
        ]
        ours = next(m for m in methods if m["method"] == OURS)
        ahead = [m for m in best if m and float(m["regret"]) < float(m["default_same_seeds"] or ours["regret"])]
        bold = min(ahead, key=lambda m: float(m["regret"]), default=ours)
        cells = [_shown(m, m is bold, named=m is not ours) for m in (ours, *best)]
        table.append([problem, f"{int(ours['rounds']):,}", *cells, ours["cpu_ms"]])
    return _table(("problem", "rounds", "former default", *FAMILIES, "CPU ms of ours"), table)


def kin(*groups: str) -> str:
    """Regret by group of problems, each method in a column."""
    found = [r for r in rows("kin") if r["group"] in groups]
    methods = list(dict.fromkeys(r["method"] for r in found))
    table = []
    for problem in dict.fromkeys(r["problem"] for r in found):
        at = {r["method"]: r for r in found if r["problem"] == problem}
        cells = [f"{float(at[m]['regret']):.0f} ± {float(at[m]['standard_error']):.0f}" for m in methods if m in at]
        table.append([problem, next(iter(at.values()))["seeds"], *cells])
    return _table(("problem", "seeds", *methods), table)


def tables() -> dict[str, str]:
    """Every table by name whose numbers are there."""
    found = {"comparison": comparison()} if rows("comparison") else {}
    for group in ("kin", "described", "tasks"):
        if any(r["group"] == group for r in rows("kin")):
            found[group] = kin(group)
    return found


def filled(text: str) -> str:
    """A page with its tables as they are now; one without numbers stays as it is."""
    known = tables()
    return MARKS.sub(lambda m: f"{m[1]}\n{known[m[2]]}\n\n{m[4]}" if m[2] in known else m[0], text)


def _by(name: str, key: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for row in rows(name):
        found.setdefault(row[key], []).append(row)
    return found


def _shown(row: dict[str, str] | None, bold: bool, named: bool) -> str:
    if row is None:
        return "–"
    number = f"{float(row['regret']):,.0f} ± {float(row['sd']):.0f}"
    number = f"**{number}**" if bold else number
    seeds = "" if row["seeds"] == "10" else f"; {row['seeds']} seeds"
    seeds += f", ours {row['default_same_seeds']}" if row["default_same_seeds"] else ""
    return f"{number} ({row['method']}{seeds})" if named else number


def _table(columns: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    head = list(columns)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
