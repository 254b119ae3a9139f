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
SHOWN = ROOT / "docs" / "paper" / "tables"  # tables of `make paper`, as they are shown
NAMES = "beyond-the-paper", "comparison", "idea", "reproduce", "theory"
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in NAMES)]
MARKS = re.compile(r"(<!-- numbers: ([a-z-]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
OURS = "kinbandits default"
LINEAR = "contextualbandits", "MABWiser", "coba", "river", "bayesianbandits"
RIVALS = *LINEAR, "Vowpal Wabbit", "EK-UCB", "Neural"


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file; none if it is not there."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def comparison() -> str:
    """The default beside the best rival, the best linear library and Vowpal Wabbit; bold is the least."""
    table = []
    for problem, methods in _by("comparison", "problem").items():
        ours = next(m for m in methods if m["method"] == OURS)
        rivals = [m for m in methods if m["method"].startswith(RIVALS)]
        ahead = [m for m in rivals if _regret(m) < float(m["default_same_seeds"] or ours["regret"])]
        rival, linear, vw = (
            min(members, key=_regret)
            for members in (
                ahead or rivals,
                [m for m in rivals if m["method"].startswith(LINEAR)],
                [m for m in rivals if m["method"].startswith("Vowpal Wabbit")],
            )
        )
        seeds = rival["seeds"] + (f" (ours {rival['default_same_seeds']})" if rival["default_same_seeds"] else "")
        cells = [_shown(ours, not ahead), f"{_shown(rival, bool(ahead))} {rival['method']}", seeds]
        table.append([problem, f"{int(ours['rounds']):,}", *cells, _shown(linear), _shown(vw)])
    return _table(
        ("problem", "rounds", "former default", "best rival", "its seeds", "best linear", "Vowpal Wabbit"), table
    )


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
    for path in SHOWN.glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as stream:
            columns, *lines = csv.reader(stream)
        found[path.stem] = _table(columns, lines)
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


def _regret(row: dict[str, str]) -> float:
    return float(row["regret"])


def _shown(row: dict[str, str], bold: bool = False) -> str:
    number = f"{_regret(row):,.0f} ± {float(row['sd']):.0f}"
    return f"**{number}**" if bold else number


def _table(columns: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    head = list(columns)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
